"""How many CPUs there are to share out, and how many of them one decoder takes."""

from __future__ import annotations

import os

MAX_THREADS = 4
"""Decoder threads of one file when none are asked for."""


def available_cpus() -> int:
    """CPUs that this process may run on."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def default_threads() -> int:
    """Threads of one decoder: the CPUs of this process, at most 4."""
    return min(MAX_THREADS, available_cpus())

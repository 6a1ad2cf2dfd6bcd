"""How many CPUs there are to share out."""

from __future__ import annotations

import os


def available_cpus() -> int:
    """CPUs that this process may run on."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1

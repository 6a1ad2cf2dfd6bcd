"""Where and with what a benchmark ran, and where its figures go."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

LIBRARIES = ("av", "numpy", "pillow", "pyarrow", "pylance", "qwen-vl-utils", "ray", "torch", "zstandard")


def machine() -> dict[str, Any]:
    """Processor, CPUs, memory, load when asked, and versions."""
    processor = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        processor = lines[0].split(":", 1)[1].strip() if lines else processor
    versions = {}
    for name in LIBRARIES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "processor": processor,
        "cpus": len(os.sched_getaffinity(0)),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "load": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        **versions,
    }


def write_figures(figures: dict[str, Any], file: Path | None) -> None:
    """Print the figures as JSON, and write them to `file` where one is given."""
    text = json.dumps(figures, indent=1) + "\n"
    sys.stdout.write(text)
    if file is not None:
        file.write_text(text)

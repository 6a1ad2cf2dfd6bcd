"""Small file systems for tests of full and read-only disks."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class Disk(type(Path())):  # type: ignore[misc]
    """A mounted folder."""

    def remount(self, options: str) -> None:
        """Mount it again with other options, such as `ro`."""
        subprocess.run(["mount", "-o", f"remount,{options}", str(self)], check=True)


@contextmanager
def tmpfs(folder: Path, size: str) -> Iterator[Disk]:
    """A file system of this size in memory; the test is skipped where none can be mounted."""
    folder.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"cannot mount a small file system here: {done.stderr.strip()}")
    try:
        yield Disk(folder)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)

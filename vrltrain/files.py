"""Files that survive a crash: written beside their place, flushed to the disk, then renamed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


def write_text(path: Path, text: str) -> None:
    """Replace the file's content at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(text, encoding="utf-8")
    sync_path(partial)
    partial.replace(path)
    sync_path(path.parent)


def write_json(path: Path, value: Any) -> None:
    """Replace a JSON file at once."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=2, allow_nan=True) + "\n")


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Replace a JSON lines file at once."""
    write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def append_line(path: Path, row: Mapping[str, Any]) -> None:
    """Add one JSON line."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row, ensure_ascii=False) + "\n")


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a JSON lines file; a last line that a crash cut off is left out."""
    if not path.is_file():
        return []
    rows: list[dict[str, Any]] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows


def publish_folder(partial: Path, target: Path) -> None:
    """Make a finished folder visible under its name; what was there is replaced."""
    for file in sorted(partial.rglob("*")):
        sync_path(file)
    sync_path(partial)
    if target.exists():
        shutil.rmtree(target)
    partial.rename(target)
    sync_path(target.parent)


def sync_path(path: Path) -> None:
    """Flush a file or a folder to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

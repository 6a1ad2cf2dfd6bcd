"""ODV-Bench: driving scenes, asked about a window of a video that is decoded by its time stamps."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vrleval.rows import Row

_LABELS = {"odv_task": "task", "odv_subtask": "subtask"}


def prepare(rows: list[Row]) -> list[Row]:
    """Rows with the official names of their labels. A clip that was cut beforehand has no window any more."""
    for row in rows:
        for label, name in _LABELS.items():
            if label in row:
                row[name] = row[label]
        if "odv_task" in row:
            row["start"] = row["end"] = None
    return rows

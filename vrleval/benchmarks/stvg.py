"""STVG on ST-Align: a span and one box a second, in pixels of the source video.

The figures are those of the spatio-temporal grounding literature (VidSTG, HC-STVG): vIoU divides by the
frames of either tube, sIoU by those of both. Rows without true boxes count for tIoU alone.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vrleval.rows import Row


def prepare(rows: list[Row]) -> list[Row]:
    """Rows with their problem type; the label `has_boxes` tells which count for the spatial figures."""
    for row in rows:
        row.setdefault("problem_type", "spatial-temporal grounding")
        row["options"] = []
    return rows


def has_boxes(answer: str) -> bool:
    """Whether a true answer holds any box."""
    start, end = answer.find("{"), answer.rfind("}")
    try:
        value = json.loads(answer[start : end + 1])
    except ValueError:
        return False
    return isinstance(value, dict) and bool(value.get("boxes"))

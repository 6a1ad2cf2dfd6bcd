"""Overlaps as EasyVideoR1 computes them: union as the hull, degenerate spans 0, shared frames only."""

from __future__ import annotations

from typing import Any


def number_list(value: Any, count: int) -> list[float] | None:
    """`value` as floats where it is a list of `count` numbers or texts of numbers, else None."""
    if not isinstance(value, list) or len(value) != count:
        return None
    try:
        return [float(item) for item in value]
    except (TypeError, ValueError):
        return None


def interval_iou(value: Any, key: Any) -> float:
    """Intersection over hull of two [start, end] lists; 0 for anything else."""
    first, second = number_list(value, 2), number_list(key, 2)
    if first is None or second is None:
        return 0.0
    hull = max(first[1], second[1]) - min(first[0], second[0])
    return max(0.0, min(first[1], second[1]) - max(first[0], second[0])) / hull if hull > 1e-12 else 0.0


def rectangle_iou(value: Any, key: Any) -> float:
    """IoU of two boxes; 0 for anything else and for boxes without area."""
    first, second = number_list(value, 4), number_list(key, 4)
    if first is None or second is None:
        return 0.0
    width = min(first[2], second[2]) - max(first[0], second[0])
    height = min(first[3], second[3]) - max(first[1], second[1])
    shared = max(0.0, width) * max(0.0, height)
    areas = [max(0.0, box[2] - box[0]) * max(0.0, box[3] - box[1]) for box in (first, second)]
    union = sum(areas) - shared
    return shared / union if union > 1e-12 else 0.0


def frames_in_common(value: Any, key: Any) -> float:
    """Mean IoU over the frame names that both have, compared as text; 0 without any."""
    if not isinstance(value, dict) or not isinstance(key, dict):
        return 0.0
    common = [name for name in value if name in key]
    return sum(rectangle_iou(value[name], key[name]) for name in common) / len(common) if common else 0.0

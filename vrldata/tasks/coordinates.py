"""Coordinate spaces of boxes and points, and the conversion of a response's into its key's.

`norm1000`: thousandths of width and height (Qwen3-VL). `unit`: 0..1. `pixel`: pixels of the frame that the
model saw (Qwen2.5-VL) for a response, of the picture `width` x `height` for a key. Nothing is guessed.
"""

from __future__ import annotations

import math
from typing import Any, TypeVar

from vrldata.errors import TaskError
from vrldata.tasks.reading import Record, UnreadableGoldError

SPACES = ("norm1000", "unit", "pixel")

Coordinates = TypeVar("Coordinates", bound=tuple[Any, ...])


def check_space(name: str, space: str | None) -> None:
    """Refuse an unknown coordinate space.

    Raises:
        TaskError: `space` is neither None nor one of `SPACES`.
    """
    if space is not None and space not in SPACES:
        raise TaskError(f"{name}: expected one of {', '.join(SPACES)}, found {space!r}")


def into_key_space(values: Coordinates, record: Record) -> Coordinates:
    """`values` (x, y, x, y, ...) of the response in the coordinate space of its key.

    A tolerant reading cuts them to the picture, where the spaces are declared.

    Raises:
        UnreadableGoldError: two different spaces are declared, but not the size that converts between them.
    """
    response_space, key_space = record.coord_space, record.answer_coord_space or record.coord_space
    if response_space is None or key_space is None:
        return values
    if response_space == key_space and not (record.frame_width or record.frame_height):
        return _inside(values, key_space, record)  # also pixels, of a picture of unknown size
    from_size = _size(
        response_space, record.frame_width or record.width, record.frame_height or record.height
    )
    to_size = _size(key_space, record.width, record.height)
    factors = (to_size[0] / from_size[0], to_size[1] / from_size[1])
    if from_size != to_size:
        values = tuple(value * factors[index % 2] for index, value in enumerate(values))  # type: ignore[assignment]
    return _inside(values, key_space, record)


def _inside(values: Coordinates, space: str, record: Record) -> Coordinates:
    """`values` cut to the picture where the reading is tolerant: what lies outside of it shows nothing."""
    if not record.tolerant:
        return values
    known = space != "pixel" or (record.width and record.height)
    sizes = _size(space, record.width, record.height) if known else (math.inf, math.inf)
    return tuple(min(max(value, 0.0), sizes[index % 2]) for index, value in enumerate(values))  # type: ignore[return-value]


def _size(space: str, width: int | None, height: int | None) -> tuple[float, float]:
    if space == "norm1000":
        return 1000.0, 1000.0
    if space == "unit":
        return 1.0, 1.0
    if not width or not height:
        raise UnreadableGoldError("pixel coordinates need width and height of the picture in the record")
    return float(width), float(height)

"""What an answer points at, for drawing: time spans in seconds, boxes and points as shares of the picture.

Keys are read by the readers of `tasks`. Where the data does not declare a coordinate space, one is assumed
from the size of the numbers; that is good enough for a picture, and scoring never does it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vrldata.errors import TaskError

if TYPE_CHECKING:
    from vrldata.tasks.reading import Record
    from vrldata.types import Sample

Box = tuple[float, float, float, float]
Point = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerMarks:
    """Attributes:
    spans: (start, end) in seconds.
    boxes: (x1, y1, x2, y2) from 0 to 1, valid for the whole clip.
    timed_boxes: boxes by time in seconds.
    points: (x, y) from 0 to 1 that lie on the object.
    """

    spans: tuple[tuple[float, float], ...] = ()
    boxes: tuple[Box, ...] = ()
    timed_boxes: Mapping[float, Box] = field(default_factory=dict)
    points: tuple[Point, ...] = ()

    @property
    def times(self) -> list[float]:
        """Moments worth seeing, in seconds, ascending."""
        return sorted(self.timed_boxes)


def answer_marks(sample: Sample, *, width: int, height: int) -> AnswerMarks:
    """Marks of the answer of `sample`; none where its type has none or the answer cannot be read.

    Args:
        width: pixels of the picture that pixel coordinates refer to, unless the sample says otherwise.
        height: likewise.
    """
    from vrldata.tasks import canonical_type
    from vrldata.tasks.reading import Record

    extra = sample.extra
    size = (_positive(extra.get("width")) or width, _positive(extra.get("height")) or height)
    try:
        problem_type = canonical_type(sample.problem_type)
        record = Record(
            problem_type=problem_type,
            response="",
            ground_truth=sample.answer,
            data_type=sample.data_type,
            width=size[0],
            height=size[1],
        )
        reader = _READERS.get(problem_type)
        if reader is None:
            return AnswerMarks()
        return reader(record, extra.get("answer_coord_space") or extra.get("coord_space"))
    except TaskError:
        return AnswerMarks()


def _spans(record: Record, space: Any) -> AnswerMarks:
    from vrldata.tasks.spans import read_gold

    return AnswerMarks(spans=tuple(read_gold(record)))


def _boxes(record: Record, space: Any) -> AnswerMarks:
    from vrldata.tasks.boxes import read_spatial_gold

    boxes = read_spatial_gold(record)
    scale = _scale(record, space, boxes)
    return AnswerMarks(boxes=tuple(_scaled(box, scale) for box in boxes))


def _tracking(record: Record, space: Any) -> AnswerMarks:
    from vrldata.tasks.boxes import read_tracking_gold

    return AnswerMarks(timed_boxes=_timed(read_tracking_gold(record), record, space))


def _tube(record: Record, space: Any) -> AnswerMarks:
    from vrldata.tasks.tubes import read_tube_gold

    tube = read_tube_gold(record)
    return AnswerMarks(spans=tuple(tube.spans), timed_boxes=_timed(tube.frames, record, space))


def _mask(record: Record, space: Any) -> AnswerMarks:
    from vrldata.tasks.tubes import read_mask_gold

    mask = read_mask_gold(record)
    scale = _scale(record, space, [mask.box, *mask.positive])
    box = _scaled(mask.box, scale)
    points = tuple(_scaled(point, scale) for point in mask.positive)
    if mask.time is None:
        return AnswerMarks(boxes=(box,), points=points)
    return AnswerMarks(timed_boxes={mask.time: box}, points=points)


_READERS: Mapping[str, Callable[[Record, Any], AnswerMarks]] = {
    "temporal_grounding": _spans,
    "spatial_grounding": _boxes,
    "tracking": _tracking,
    "spatial_temporal_grounding": _tube,
    "segmentation": _mask,
}


def _timed(frames: Mapping[float, Any], record: Record, space: Any) -> dict[float, Box]:
    known = {time: box for time, box in frames.items() if box is not None}
    scale = _scale(record, space, known.values())
    return {time: _scaled(box, scale) for time, box in known.items()}


def _scale(record: Record, space: Any, places: Iterable[Any]) -> tuple[float, float]:
    """Width and height in the unit of the coordinates."""
    largest = max((abs(value) for place in places for value in place), default=0.0)
    if space not in ("unit", "norm1000", "pixel"):
        space = "unit" if largest <= 1 else "norm1000" if largest <= 1000 else "pixel"
    if space == "unit":
        return 1.0, 1.0
    if space == "norm1000":
        return 1000.0, 1000.0
    return float(record.width or 1), float(record.height or 1)


def _scaled(place: Any, scale: tuple[float, float]) -> Any:
    return tuple(min(max(value / scale[index % 2], 0.0), 1.0) for index, value in enumerate(place))


def _positive(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None

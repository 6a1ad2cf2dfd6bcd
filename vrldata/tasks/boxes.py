"""Spatial answers: boxes of an image, boxes over time, tracks, and boxes with points.

Boxes are (x1, y1, x2, y2). Coordinates are compared as given unless the record declares their spaces.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from vrldata.tasks.coordinates import into_key_space
from vrldata.tasks.loose_json import JsonValue, read_json
from vrldata.tasks.measures import Box, best_assignment, iou_2d
from vrldata.tasks.reading import Measured, Reading, Record, UnreadableAnswerError, UnreadableGoldError
from vrldata.tasks.spans import all_numbers, read_time, shaped
from vrldata.tasks.text import unwrap_answer_tag

BOX_NAMES = ("boxes", "box", "bbox", "bbox_2d", "bboxes", "bounding_box", "bounding_boxes")
CORNER_NAMES = (
    ("x1", "y1", "x2", "y2"),
    ("xmin", "ymin", "xmax", "ymax"),
    ("left", "top", "right", "bottom"),
    ("topleft", "bottomright"),
)
"""Names of the corners in lower case, without `_`, `-` and blanks."""
_SIZED_NAMES = (("x", "y", "w", "h"), ("x", "y", "width", "height"), ("left", "top", "width", "height"))
_FRAME_TIME_NAMES = ("time", "timestamp", "second", "t")
MAX_BOXES = 256
_COORDINATE = r"\s?(?:[xy](?:min|max|[12])\s?[=:]\s?)?(-?\d{1,7}(?:\.\d{1,9})?)\s?"
_NAME_DRESS = re.compile(r"[\s_-]+")
_POINT = r"\(\s?-?\d{1,7}(?:\.\d{1,9})?\s?,\s?-?\d{1,7}(?:\.\d{1,9})?\s?\)"
_BOX_IN_PROSE = re.compile(
    r"(?:<box>|<\|box_start\|>)(?P<tagged>[^<]{1,120})<"
    rf"|(?P<first>{_POINT})[^()\d]{{0,30}}(?P<second>{_POINT})"
    r"|(?P<flat>\((?:\s?-?\d{1,7}(?:\.\d{1,9})?\s?,){3}\s?-?\d{1,7}(?:\.\d{1,9})?\s?\))"
)
_PLAIN_BOX = re.compile(
    rf"(?:<(?:box|\|box_start\|)>)?\(?{_COORDINATE}[,\s]{_COORDINATE}\)?[,\s]\(?{_COORDINATE}[,\s]{_COORDINATE}\)?"
    r"(?:</box>|<\|box_end\|>)?\s?\.?"
)


def parse_json_key(key: Any) -> Any:
    """A ground truth that may be JSON already or JSON in a text.

    Raises:
        UnreadableGoldError: a text without one JSON value.
    """
    if not isinstance(key, str):
        return list(key) if isinstance(key, tuple) else key
    try:
        return read_json(unwrap_answer_tag(key)).value
    except UnreadableAnswerError as error:
        raise UnreadableGoldError(f"key {key[:80]!r}: {error}") from error


def coordinate(value: Any) -> float:
    """A finite number, or a text that is one."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        number = float(value) if abs(value) < 1e300 else math.inf
    elif isinstance(value, str) and len(value) < 40:
        try:
            number = float(value)
        except ValueError:
            raise UnreadableAnswerError(f"{value!r} is no coordinate") from None
    else:
        raise UnreadableAnswerError(f"{str(value)[:40]!r} is no coordinate")
    if not math.isfinite(number) or abs(number) > 1e9:
        raise UnreadableAnswerError(f"{str(value)[:40]!r} is no finite coordinate")
    return number


def box_of(value: Any, *, reorder: bool) -> Box:
    """Four coordinates, two corners, an object that names them, or a text of four numbers, as a box.

    Args:
        reorder: put swapped corners in order instead of refusing them.
    """
    if isinstance(value, dict):
        named = next((value[name] for name in BOX_NAMES if name in value), None)
        value = _named_corners(value) if named is None else named
    elif isinstance(value, str):
        value = _plain_box(value)
    if _is_corners(value):
        value = [*value[0], *value[1]]
    if not isinstance(value, list | tuple) or len(value) != 4:
        raise UnreadableAnswerError("a box needs four numbers")
    x1, y1, x2, y2 = (coordinate(item) for item in value)
    if reorder:
        x1, x2, y1, y2 = min(x1, x2), max(x1, x2), min(y1, y2), max(y1, y2)
    if x2 < x1 or y2 < y1:
        raise UnreadableAnswerError(f"box {[x1, y1, x2, y2]} has swapped corners")
    return x1, y1, x2, y2


def _named_corners(value: Mapping[Any, Any]) -> list[Any] | None:
    """The corners of an object that names them, or names one corner, width and height."""
    plain = {_NAME_DRESS.sub("", str(name)).lower(): item for name, item in value.items()}
    for names in CORNER_NAMES:
        if all(name in plain for name in names):
            return [plain[name] for name in names]
    for names in _SIZED_NAMES:
        if all(name in plain for name in names):
            x, y, width, height = (coordinate(plain[name]) for name in names)
            return [x, y, x + width, y + height]
    return None


def _plain_box(text: str) -> list[float] | None:
    found = _PLAIN_BOX.fullmatch(text.strip().strip("[]").strip()) if len(text) < 200 else None
    return [float(number) for number in found.groups()] if found else None


def _is_corners(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(isinstance(corner, list) and len(corner) == 2 for corner in value)
    )


def boxes_of(value: Any, *, reorder: bool) -> tuple[list[Box], bool, bool]:
    """Boxes of a JSON value, whether they stand under the requested key, and whether one box is flat.

    Accepts the flat box, two corners, an object with one of `BOX_NAMES` or with the names of `CORNER_NAMES`,
    and a list of any of these.
    """
    requested = False
    if isinstance(value, dict):
        names = {str(name).lower(): name for name in value}
        found = next((names[name] for name in (*BOX_NAMES, "objects", "answer") if name in names), None)
        if found is None and len(value) == 1:  # the object's own name
            found = next((name for name, inner in value.items() if isinstance(inner, dict | list)), None)
        if found is not None:
            value, requested = value[found], found == "boxes"
    if isinstance(value, dict | str) or _is_corners(value):
        return [box_of(value, reorder=reorder)], False, False
    if not isinstance(value, list) or not value:
        raise UnreadableAnswerError("no box")
    if not any(isinstance(item, list | dict) for item in value):
        return [box_of(value, reorder=reorder)], requested, True
    if len(value) > MAX_BOXES:
        raise UnreadableAnswerError(f"more than {MAX_BOXES} boxes")
    boxes: list[Box] = []
    for item in value:
        if isinstance(item, dict):
            boxes.extend(boxes_of(item, reorder=reorder)[0])
            requested = False
        else:
            boxes.append(box_of(item, reorder=reorder))
    return boxes, requested, False


def read_spatial_gold(record: Record) -> list[Box]:
    """The key's boxes, corners in order."""
    try:
        boxes, _, _ = boxes_of(parse_json_key(record.ground_truth), reorder=True)
    except UnreadableAnswerError as error:
        raise UnreadableGoldError(f"key {str(record.ground_truth)[:80]!r}: {error}") from error
    return boxes


def read_spatial(content: str, record: Record, gold: Sequence[Box]) -> Reading:
    """The predicted boxes; several only for a key with several."""
    plain = _box_in_text(content) if record.tolerant else None
    parsed = JsonValue(value=plain, exact=False) if plain else read_json(content)
    boxes, requested, flat = boxes_of(parsed.value, reorder=record.tolerant)
    if len(boxes) > 1 and len(gold) == 1:
        raise UnreadableAnswerError(f"{len(boxes)} boxes where one is asked for", ambiguous=True)
    exact = parsed.exact and requested and flat == (len(gold) == 1) and all_numbers(parsed.value["boxes"])
    shown = json.dumps([list(box) for box in boxes] if len(boxes) > 1 else list(boxes[0]))
    return Reading(value=boxes, shown=shown, form=1.0 if exact else 0.5)


def _box_in_text(content: str) -> list[Any] | None:
    """The box of a text without JSON: the whole text, or the only one that stands in it."""
    if plain := _plain_box(content):
        return plain
    if "{" in content or "[" in content:
        return None
    found = list(_BOX_IN_PROSE.finditer(content))
    if len(found) > 1:
        raise UnreadableAnswerError(f"{len(found)} boxes in a text", ambiguous=True)
    if not found:
        return None
    (match,) = found
    numbers = re.findall(r"-?\d[\d.]*", match["tagged"] or match["flat"] or match.group())
    return list(numbers) if len(numbers) == 4 else None


def compare_spatial(value: Sequence[Box], gold: Sequence[Box], record: Record) -> Measured:
    """Sum of IoU over the best one-to-one assignment, over the larger number of boxes."""
    predicted = [into_key_space(box, record) for box in value]
    gains = [[iou_2d(box, key) for key in gold] for box in predicted]
    iou = best_assignment(gains) / max(len(predicted), len(gold))
    return Measured(accuracy=shaped(iou, record.settings.iou_shape), parts={"iou": iou})


def frames_in(value: Mapping[str, Any]) -> tuple[Any, bool]:
    """The boxes by frame of an object, and whether they stand under the requested key."""
    name = next((name for name in BOX_NAMES if value.get(name)), None)
    if name is None:
        return {}, False
    frames = value[name]
    if isinstance(frames, list) and all(isinstance(item, dict) for item in frames):
        return _frames_by_time(frames), False
    return frames, name == "boxes"


def _frames_by_time(items: Sequence[Mapping[str, Any]]) -> dict[Any, Any]:
    """Frames of a list of objects that each hold a time and a box: `{"time": 3, "bbox_2d": [...]}`."""
    frames: dict[Any, Any] = {}
    for item in items:
        time = next((item[name] for name in _FRAME_TIME_NAMES if name in item), None)
        box = next((item[name] for name in BOX_NAMES if name in item), None)
        if time is None or isinstance(time, list | dict):
            raise UnreadableAnswerError("a box of a list without its time")
        if str(time) in frames:
            raise UnreadableAnswerError(f"two boxes for frame {time}", ambiguous=True)
        frames[str(time)] = box
    return frames


def frames_of(value: Any, *, reorder: bool, strict: bool) -> dict[float, Box | None]:
    """Boxes by frame time (seconds, rounded to 1 ms); None for a frame whose box cannot be read.

    Args:
        reorder: put swapped corners in order instead of refusing them.
        strict: refuse a box that cannot be read.

    Raises:
        UnreadableAnswerError: no object of frames, a key that is no time, or two keys for one time.
    """
    if not isinstance(value, dict):
        raise UnreadableAnswerError("'boxes' is no object of frame to box")
    frames: dict[float, Box | None] = {}
    for name, box in value.items():
        time = round(_frame_time(name), 3)
        if time in frames:
            raise UnreadableAnswerError(f"two boxes for frame {time:g}", ambiguous=True)
        try:
            single = box[0] if isinstance(box, list) and len(box) == 1 and isinstance(box[0], list) else box
            frames[time] = box_of(single, reorder=reorder)
        except UnreadableAnswerError:
            if strict:
                raise
            frames[time] = None
    return frames


def _frame_time(name: Any) -> float:
    """Seconds of a frame's name: a number, or a time such as `10s` or `00:10`."""
    try:
        return coordinate(name)
    except UnreadableAnswerError:
        return read_time(name)


def frames_form(parsed: JsonValue, frames: Mapping[float, Box | None]) -> float:
    """Format share of an answer with boxes by frame: 1 for standard JSON with a valid box in every frame."""
    named, requested = frames_in(parsed.value)
    valid = requested and bool(frames) and None not in frames.values()
    plain = valid and all(
        all_numbers(box) and isinstance(box, list) and len(box) == 4 and not set(name) & set("s:秒")
        for name, box in named.items()
    )
    return 1.0 if parsed.exact and plain else 0.5


def frame_ious(
    predicted: Mapping[float, Box | None], gold: Mapping[float, Box | None], record: Record
) -> dict[float, float]:
    """IoU of every frame that both name; 0 where the predicted box is invalid."""
    ious = {}
    for time, box in predicted.items():
        key = gold.get(time)
        if key is not None:
            ious[time] = iou_2d(into_key_space(box, record), key) if box is not None else 0.0
    return ious


def read_tracking_gold(record: Record) -> dict[float, Box | None]:
    """The key's boxes by frame."""
    value = parse_json_key(record.ground_truth)
    try:
        frames = frames_of(
            value.get("boxes", value) if isinstance(value, dict) else value, reorder=True, strict=True
        )
    except UnreadableAnswerError as error:
        raise UnreadableGoldError(f"key {str(record.ground_truth)[:80]!r}: {error}") from error
    if not frames:
        raise UnreadableGoldError("the key has no box")
    return frames


def read_tracking(content: str, record: Record, gold: Mapping[float, Box | None]) -> Reading:
    """The predicted boxes by frame."""
    parsed = read_json(content)
    value, requested = parsed.value, False
    if isinstance(value, list):
        value, _ = frames_in({"boxes": value})
    elif any(name in value for name in BOX_NAMES):
        value, requested = frames_in(value)
    frames = frames_of(value, reorder=record.tolerant, strict=False)
    if not any(frames.values()):
        raise UnreadableAnswerError("no valid box")
    form = frames_form(parsed, frames) if requested else 0.5
    return Reading(value=frames, shown=f"{len(frames)} boxes", form=form)


def compare_tracking(
    value: Mapping[float, Box | None], gold: Mapping[float, Box | None], record: Record
) -> Measured:
    """Mean IoU over the key's frames; a missing frame counts 0."""
    ious = frame_ious(value, gold, record)
    return Measured(
        accuracy=math.fsum(ious.values()) / len(gold), parts={"frames_found": len(ious) / len(gold)}
    )

"""Answers that join several parts: a span with boxes over time, and boxes with points."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vrldata.tasks.boxes import (
    BOX_NAMES,
    box_of,
    coordinate,
    frame_ious,
    frames_form,
    frames_in,
    frames_of,
    parse_json_key,
)
from vrldata.tasks.coordinates import into_key_space
from vrldata.tasks.loose_json import JsonValue, read_json
from vrldata.tasks.measures import Box, Span, iou_1d, iou_2d
from vrldata.tasks.reading import Measured, Reading, Record, UnreadableAnswerError, UnreadableGoldError
from vrldata.tasks.spans import all_numbers, clip, read_spans, read_time, spans_of, time_value

Point = tuple[float, float]
NUM_POINTS = 3
POINT_SCALE = 50.0
"""Standard deviation of the point similarity, in the key's coordinates (thousandths in the usual data)."""
TIME_SCALE_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tube:
    """A span in seconds and a box at each of some times inside it."""

    spans: Sequence[Span]
    frames: Mapping[float, Box | None]


def read_tube_gold(record: Record) -> Tube:
    """The key's span and boxes; a key may have no box (then the span alone counts)."""
    value = parse_json_key(record.ground_truth)
    try:
        if not isinstance(value, dict) or "time" not in value:
            raise UnreadableAnswerError("no key 'time'")
        spans = clip(spans_of(value["time"], reorder=True), record.duration)
        return Tube(spans=spans, frames=frames_of(frames_in(value)[0], reorder=True, strict=True))
    except UnreadableAnswerError as error:
        raise UnreadableGoldError(f"key {str(record.ground_truth)[:80]!r}: {error}") from error


def read_tube(content: str, record: Record, gold: Tube) -> Reading:
    """The predicted span and boxes; the span must be readable, boxes may be missing."""
    if record.tolerant and "{" not in content:
        spans, form = read_spans(content, many=len(gold.spans) > 1, tolerant=True)
        return Reading(value=Tube(spans=spans, frames={}), shown=json.dumps(spans[0]), form=form)
    parsed = read_json(content)
    if isinstance(parsed.value, list) and len(parsed.value) == 1:
        parsed = JsonValue(value=parsed.value[0], exact=False)
    if not isinstance(parsed.value, dict) or not ("time" in parsed.value or record.tolerant):
        raise UnreadableAnswerError("no key 'time'")
    time, requested = time_value(parsed.value)
    spans = spans_of(time, reorder=record.tolerant)
    if len(spans) > 1 and len(gold.spans) == 1:
        if not record.tolerant:
            raise UnreadableAnswerError(f"{len(spans)} spans where one is asked for", ambiguous=True)
        spans = spans[:1]
    frames = frames_of(frames_in(parsed.value)[0], reorder=record.tolerant, strict=False)
    form = min(frames_form(parsed, frames), 1.0 if requested and all_numbers(time) else 0.5)
    shown = json.dumps({"time": time, "boxes": len(frames)}) if requested else json.dumps(spans[0])
    return Reading(value=Tube(spans=spans, frames=frames), shown=shown, form=form)


def compare_tube(value: Tube, gold: Tube, record: Record) -> Measured:
    """0.5 tIoU + 0.5 vIoU, where vIoU = sum of IoU over common frames / number of frames in either.

    `frame_agg` replaces the union by the key's frames (`gt`) or the common ones (`intersection`).
    Parts: `tiou`, `viou` and `siou` (mean over the common frames), as the STVG literature names them.
    """
    tiou = iou_1d(clip(value.spans, record.duration), gold.spans)
    if not gold.frames:
        return Measured(accuracy=tiou, parts={"tiou": tiou})
    ious = frame_ious(value.frames, gold.frames, record)
    total = math.fsum(ious.values())
    counts = {
        "union": len(set(value.frames) | set(gold.frames)),
        "gt": len(gold.frames),
        "intersection": len(ious),
    }
    count = counts[record.settings.frame_agg]
    box_part = total / count if count else 0.0
    parts = {"tiou": tiou, "viou": total / counts["union"], "siou": total / len(ious) if ious else 0.0}
    return Measured(accuracy=0.5 * tiou + 0.5 * box_part, parts=parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mask:
    """A box and points that stand for a mask; `time` in seconds for a video, None for an image."""

    box: Box
    positive: Sequence[Point]
    negative: Sequence[Point]
    time: float | None = None


def read_mask_gold(record: Record) -> Mask:
    """The key's box, points and, for a video, time."""
    value = parse_json_key(record.ground_truth)
    try:
        return _mask(value, reorder=True, timed=isinstance(value, dict) and "time" in value)
    except UnreadableAnswerError as error:
        raise UnreadableGoldError(f"key {str(record.ground_truth)[:80]!r}: {error}") from error


def read_mask(content: str, record: Record, gold: Mask) -> Reading:
    """The predicted box and points; exactly three of each kind, a time where the key has one."""
    parsed = read_json(content)
    mask = _mask(parsed.value, reorder=record.tolerant, timed=gold.time is not None)
    names = ["boxes", "positive_points", "negative_points", *(["time"] if gold.time is not None else [])]
    flat = all(all_numbers(parsed.value.get(name)) for name in names) and len(parsed.value["boxes"]) == 4
    return Reading(
        value=mask, shown=json.dumps(parsed.value)[:200], form=1.0 if parsed.exact and flat else 0.5
    )


def _mask(value: Any, *, reorder: bool, timed: bool) -> Mask:
    if not isinstance(value, dict):
        raise UnreadableAnswerError("no object with 'boxes', 'positive_points' and 'negative_points'")
    box = next((value[name] for name in BOX_NAMES if name in value), None)
    if isinstance(box, list) and len(box) == 1:
        box = box[0]
    return Mask(
        box=box_of(box, reorder=reorder),
        positive=_points(value.get("positive_points"), "positive_points"),
        negative=_points(value.get("negative_points"), "negative_points"),
        time=read_time(value.get("time")) if timed else None,
    )


def _points(value: Any, name: str) -> list[Point]:
    if not isinstance(value, list) or len(value) != NUM_POINTS:
        raise UnreadableAnswerError(f"{name}: exactly {NUM_POINTS} points are asked for")
    points = []
    for item in value:
        if not isinstance(item, list) or len(item) != 2:
            raise UnreadableAnswerError(f"{name}: a point needs two numbers")
        points.append((coordinate(item[0]), coordinate(item[1])))
    return points


def point_similarity(predicted: Sequence[Point], key: Sequence[Point]) -> float:
    """exp(-d² / (2·50²)), d the smallest mean distance over the pairings of the points."""
    distance = min(
        math.fsum(math.dist(point, key[index]) for point, index in zip(predicted, order, strict=True))
        / len(key)
        for order in itertools.permutations(range(len(key)))
    )
    return math.exp(-(distance**2) / (2 * POINT_SCALE**2))


def compare_mask(value: Mask, gold: Mask, record: Record) -> Measured:
    """Image: 0.5 IoU + 0.25 sim⁺ + 0.25 sim⁻. Video: 0.3 IoU + 0.3 exp(-|Δt|/2) + 0.2 sim⁺ + 0.2 sim⁻."""
    iou = iou_2d(into_key_space(value.box, record), gold.box)
    positive = point_similarity([into_key_space(point, record) for point in value.positive], gold.positive)
    negative = point_similarity([into_key_space(point, record) for point in value.negative], gold.negative)
    parts = {"iou": iou, "positive_points": positive, "negative_points": negative}
    if gold.time is None or value.time is None:
        return Measured(accuracy=0.5 * iou + 0.25 * positive + 0.25 * negative, parts=parts)
    parts["time"] = math.exp(-abs(value.time - gold.time) / TIME_SCALE_S)
    return Measured(accuracy=0.3 * iou + 0.3 * parts["time"] + 0.2 * positive + 0.2 * negative, parts=parts)

"""Temporal grounding: spans in seconds, read from JSON or from plain text, compared by IoU.

Formula: IoU = |intersection| / |union| of the merged span sets, clipped to [0, duration] when it is known.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any

from vrldata.tasks.loose_json import read_json
from vrldata.tasks.measures import Span, iou_1d
from vrldata.tasks.numbers import clock_seconds
from vrldata.tasks.reading import Measured, Reading, Record, UnreadableAnswerError, UnreadableGoldError
from vrldata.tasks.text import clean, unwrap_answer_tag

COVERS_VIDEO = 0.95
"""From this share of the duration on, a predicted span counts as the whole video."""

_TIME_NAMES = (
    "times",
    "timestamp",
    "timestamps",
    "span",
    "spans",
    "segment",
    "segments",
    "time_span",
    "window",
    "windows",
    "time_range",
    "range",
    "interval",
    "intervals",
    "answer",
)
_STARTS = frozenset({"start", "starts", "begin", "begins", "from", "onset"})
_ENDS = frozenset({"end", "ends", "stop", "stops", "finish", "to", "until", "offset"})
# Words of a bound's name that leave it a time in seconds; `start_frame` is none.
_TIME_WORDS = frozenset({"time", "timestamp", "t", "s", "sec", "secs", "second", "seconds", "in", "at"})
_WORD = re.compile("[A-Z]?[a-z]+|[A-Z]+")
_MAX_SPAN_CHARS = 200
_TIME = r"(?:\d{1,3}(?::[0-5]?\d){1,2}(?:\.\d{1,9})?|\d{1,9}(?:\.\d{1,9})?)"
_UNIT = r"(?:(?:st|nd|rd|th) ?(?=s))?(?:seconds|second|secs|sec|segundos|sekunden|secondes|s|秒|초)?"
_JOIN = r"(?:to|until|till|and|through|bis|a|à|hasta|по|-{1,2}>|[-–—~～〜→]|到|至|から|부터|에서)"
_NAME = r"(?:(?:about|around|approximately|roughly|second|seconds|the|t|第) ?=? ?)?"
_RANGE = re.compile(
    rf"(?<![\d.:])(?<!\d,){_NAME}(?P<start>{_TIME}) ?{_UNIT} ?{_JOIN} ?{_NAME}"
    rf"(?P<end>{_TIME}) ?{_UNIT}(?:まで|까지|之间)?(?![\w:])",
    re.IGNORECASE,
)
# A comma without a blank may belong to one number.
_PAIR = re.compile(rf"(?P<start>{_TIME}) ?{_UNIT}, (?P<end>{_TIME}) ?{_UNIT}", re.IGNORECASE)
_IS = r"(?:[ _*:=(>]|时间|(?:time|second|is|at|around|about|approximately)\b){0,6}"
_START_END = re.compile(
    rf"(?:\b(?:start|begin)[a-z]{{0,4}}|开始){_IS}(?P<start>{_TIME}) ?{_UNIT}\b.{{0,40}}?"
    rf"(?:\b(?:end|stop|finish)[a-z]{{0,4}}|结束){_IS}(?P<end>{_TIME}) ?{_UNIT}\b",
    re.IGNORECASE,
)
_NUMBER_TEXT = re.compile(rf"({_TIME}) ?{_UNIT}", re.IGNORECASE)
_PLAIN_NUMBER = re.compile(r"[+-]?\d{1,9}(?:\.\d{0,9})?(?:e[+-]?\d{1,2})?", re.IGNORECASE)
_ANGLED = re.compile(rf"<({_TIME} ?{_UNIT})>", re.IGNORECASE)
# Thousandths of subtitle stamps stand behind a comma: 00:00:12,500.
_STAMP_COMMA = re.compile(r"(?<=:\d\d),(?=\d{3}(?!\d))")
_BLANKS = re.compile(r"\s+")


def read_time(value: Any) -> float:
    """Seconds of a JSON number, or of a text such as `12.5`, `12.5s`, `01:02` or `1:02:03.5`.

    Raises:
        UnreadableAnswerError: it is neither.
    """
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300:
        return float(value)
    if isinstance(value, str) and len(value) < 40:
        text = _STAMP_COMMA.sub(".", value.strip())
        if _PLAIN_NUMBER.fullmatch(text):
            return float(text)
        if found := _NUMBER_TEXT.fullmatch(text):
            return clock_seconds(found.group(1))
    raise UnreadableAnswerError(f"{str(value)[:40]!r} is no time")


def spans_of(value: Any, *, reorder: bool = False) -> list[Span]:
    """Spans of a JSON value: `[s, e]`, a list of such pairs, an object of two bounds, or the text `s to e`.

    Args:
        reorder: swap reversed bounds instead of refusing them.

    Raises:
        UnreadableAnswerError: no span, or one that ends before it starts.
    """
    if isinstance(value, dict):
        inner, _ = time_value(value)
        return spans_of(_bounds(value) if inner is value else inner, reorder=reorder)
    if isinstance(value, str) and (stated := spans_in_text(value, whole=True)):
        return spans_of([list(span) for span in stated], reorder=reorder)
    if not isinstance(value, list) or not value:
        raise UnreadableAnswerError("no [start, end] pair")
    if all(isinstance(item, list | dict) for item in value):
        return [span for item in value for span in spans_of(item, reorder=reorder)]
    texts = [spans_in_text(item, whole=True) for item in value if isinstance(item, str)]
    if len(texts) == len(value) and all(texts):
        return spans_of([list(span) for found in texts for span in found], reorder=reorder)
    if len(value) != 2:
        raise UnreadableAnswerError(f"{len(value)} times instead of [start, end]")
    start, end = read_time(value[0]), read_time(value[1])
    if end < start:
        if not reorder:
            raise UnreadableAnswerError(f"the span ends ({end:g}) before it starts ({start:g})")
        start, end = end, start
    return [(start, end)]


def _bounds(value: dict[str, Any]) -> list[Any]:
    """Start and end of an object such as `{"start": 3, "end": 8}` or `{"time_start": 3, "time_end": 8}`."""
    sides: list[list[Any]] = [[], []]
    for name, bound in value.items():
        words = {word.lower() for word in _WORD.findall(str(name)[:40])} - _TIME_WORDS
        for side, known in zip(sides, (_STARTS, _ENDS), strict=True):
            if len(words) == 1 and words <= known:
                side.append(bound)
    if [len(side) for side in sides] != [1, 1]:
        raise UnreadableAnswerError("a time object without start and end")
    return [sides[0][0], sides[1][0]]


def time_value(value: Any) -> tuple[Any, bool]:
    """The part of a JSON answer that holds the spans, and whether it stands under the key `time`."""
    if not isinstance(value, dict):
        return value, False
    if "time" in value:
        return value["time"], True
    names = {str(name).lower(): name for name in value}
    found = next((names[name] for name in ("time", *_TIME_NAMES) if name in names), None)
    if found is None and len(value) == 1:
        found = next((name for name, inner in value.items() if isinstance(inner, dict)), None)
    return (value, False) if found is None else (value[found], False)


def all_numbers(value: Any) -> bool:
    """Whether a nested list holds JSON numbers only."""
    if isinstance(value, list):
        return all(all_numbers(item) for item in value)
    return isinstance(value, int | float) and not isinstance(value, bool)


def spans_in_text(text: str, *, whole: bool) -> list[Span]:
    """Spans that a text states, such as `3.0s to 8.0s`; only one that is the whole text if `whole`."""
    plain = _STAMP_COMMA.sub(".", _BLANKS.sub(" ", clean(text)).strip(" .。()[]"))
    plain = _ANGLED.sub(r"\1", plain)
    if whole:
        bare = re.sub(r"^(?:from|between|de|von|从) ?", "", plain, flags=re.IGNORECASE)
        short = len(bare) <= _MAX_SPAN_CHARS
        match = (_RANGE.fullmatch(bare) or _PAIR.fullmatch(bare)) if short else None
        matches = [match] if match else []
    else:
        matches = list(_RANGE.finditer(plain)) or list(_START_END.finditer(plain))
        if not matches and len(plain) <= _MAX_SPAN_CHARS and (pair := _PAIR.fullmatch(plain)):
            matches = [pair]
    return [(clock_seconds(match["start"]), clock_seconds(match["end"])) for match in matches]


def read_gold(record: Record) -> list[Span]:
    """The key's spans, clipped to the video.

    Raises:
        UnreadableGoldError: no span in it, or none inside the video.
    """
    key = record.ground_truth
    try:
        if isinstance(key, str):
            text = unwrap_answer_tag(key)
            spans = spans_in_text(text, whole=True)
            value = None if spans else read_json(text).value
        else:
            spans, value = [], list(key) if isinstance(key, tuple) else key
        spans = spans or spans_of(time_value(value)[0], reorder=True)
    except UnreadableAnswerError as error:
        raise UnreadableGoldError(f"key {str(key)[:80]!r} holds no span: {error}") from error
    clipped = clip(spans, record.duration)
    if record.duration and all(start >= record.duration for start, _ in spans) and spans != clipped:
        raise UnreadableGoldError(
            f"key {str(key)[:80]!r} lies after the end of the video ({record.duration:g} s)"
        )
    return clipped


def read_answer(content: str, record: Record, gold: Sequence[Span]) -> Reading:
    """The predicted spans; as many as the key asks for.

    Raises:
        UnreadableAnswerError: no valid span, or several for a key with one.
    """
    spans, form = read_spans(content, many=len(gold) > 1, tolerant=record.tolerant)
    return Reading(value=spans, shown=json.dumps(list(spans[0]) if len(spans) == 1 else spans), form=form)


def read_spans(content: str, *, many: bool, tolerant: bool) -> tuple[list[Span], float]:
    """Spans and format share of an answer's content."""
    spans, form, listed = _spans_and_form(content, many=many, tolerant=tolerant)
    spans = [(start, end) if start <= end or not tolerant else (end, start) for start, end in spans]
    if any(end < start for start, end in spans):
        raise UnreadableAnswerError("the span ends before it starts")
    if len(spans) > 1 and not many:
        # A list of windows leads with its best one; a sentence that says "or" commits to none.
        if not tolerant or not (listed or not _OR.search(content)):
            raise UnreadableAnswerError(f"{len(spans)} spans where one is asked for", ambiguous=True)
        spans = spans[:1]
    return spans, form


_OR = re.compile(r"\bor\b|或", re.IGNORECASE)


def _spans_and_form(content: str, *, many: bool, tolerant: bool) -> tuple[list[Span], float, bool]:
    """Spans, format share, and whether they came as one JSON value."""
    dressed = clean(content)  # also out of its box
    if not ("{" in dressed or ("[" in dressed and "]" in dressed)):
        spans = spans_in_text(content, whole=not tolerant)
        if spans:
            return spans, 0.5, False
    try:
        parsed = read_json(content)
    except UnreadableAnswerError as error:
        # "[3s, 8s]" is no JSON, but a span in brackets
        if error.ambiguous or "{" in content or not (spans := spans_in_text(content, whole=True)):
            raise
        return spans, 0.5, False
    value, requested = time_value(parsed.value)
    spans = spans_of(value, reorder=tolerant)
    flat = isinstance(value, list) and not any(isinstance(item, list) for item in value)
    exact = parsed.exact and requested and all_numbers(value) and (many or flat)
    return spans, 1.0 if exact else 0.5, True


def clip(spans: Sequence[Span], duration: float | None) -> list[Span]:
    """`spans` cut to [0, duration]; unchanged when the duration is not known."""
    if not duration:
        return list(spans)
    return [(min(max(start, 0.0), duration), min(max(end, 0.0), duration)) for start, end in spans]


def compare(value: Sequence[Span], gold: Sequence[Span], record: Record) -> Measured:
    """IoU of the span sets, shaped as the settings say; parts: `iou`, and `covers_video` where known."""
    spans = clip(value, record.duration)
    iou = iou_1d(spans, gold)
    parts = {"iou": iou}
    if record.duration:
        covered = math.fsum(end - start for start, end in spans) / record.duration
        parts["covers_video"] = float(covered >= COVERS_VIDEO)
    return Measured(accuracy=shaped(iou, record.settings.iou_shape), parts=parts)


def shaped(iou: float, shape: str) -> float:
    """`iou` under `linear`, `power:k` (iou^k) or `threshold:t` (1 from t on).

    >>> shaped(0.5, "power:2")
    0.25
    """
    kind, _, parameter = shape.partition(":")
    if kind == "power":
        return float(iou ** float(parameter))
    return float(iou >= float(parameter)) if kind == "threshold" else iou

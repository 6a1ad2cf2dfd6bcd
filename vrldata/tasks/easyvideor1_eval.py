"""Protocol `easyvideor1-eval`: what EasyVideoR1's evaluation script gives, for comparisons with its numbers.

Source: EasyVideoR1, `eval/code/AsyncLLMEngine_eval_videobench_qwen3vl_multi_task.py` at 65fb76d for most
types, and its later rules for streaming tasks (count, yes/no); rules restated, not copied. Known faults are
part of the rules: the first conclusion counts, reasoning included, and letters are sought in every type.
"""

from __future__ import annotations

import re
from typing import Any

from vrldata.tasks.easyvideor1 import load, tag_pairs, without_pairs
from vrldata.tasks.easyvideor1_measures import frames_in_common, interval_iou
from vrldata.tasks.reading import MAX_CONTENT_CHARS, Record
from vrldata.types import Score

_LEAD = r"(?:Therefore|So|Thus|Hence|Finally)[,\s]*"
_ANSWER_IS = r"(?:the\s+)?(?:(?:final|best|correct)\s+)?answer\s+is[:\s]+"
# The original means capitals only, but its flag ignores case.
_CONCLUDED = [
    re.compile(rf"{_ANSWER_IS}([A-J])\b", re.IGNORECASE),
    re.compile(r"答案[是为：:]\s*([A-J])\b", re.IGNORECASE),
]
_CONCLUDED_TEXT = re.compile(rf"{_LEAD}{_ANSWER_IS}(.+)", re.IGNORECASE | re.DOTALL)
_AFTER_THINK = re.compile(r"([A-J])(?:\s*[.。\):]|$|\s)")
_CHOSEN = re.compile(r"(?:choose|select|pick)\s+(?:option\s+)?([A-J])\b", re.IGNORECASE)
_LINE = re.compile(r"([A-J])\s*[.):\s。]?\s*$")
_LINE_END = re.compile(r"\b([A-J])\s*[.)]?\s*$")
_GROUNDING = frozenset({"temporal_grounding", "spatial_temporal_grounding"})


def score_easyvideor1_eval(record: Record) -> Score:
    """The script's reward; types without a rule there are 0, as they enter its means."""
    kind = record.problem_type
    response = record.response[:MAX_CONTENT_CHARS]
    answer = extract(response, kind) or response
    key = record.ground_truth if isinstance(record.ground_truth, str) else str(record.ground_truth)
    try:
        accuracy = _accuracy(answer, key, record)
    except (TypeError, ValueError, OverflowError):
        accuracy = 0.0
    return Score(
        accuracy=accuracy,
        format=0.0,
        overall=accuracy,
        status="scored",
        extracted=answer[:500],
        how="easyvideor1",
        strict=accuracy,
    )


def _between(text: str, tag: str) -> str:
    pairs = tag_pairs(text, tag)
    return text[pairs[0][1] : pairs[0][2]].strip() if pairs else ""


def extract(text: str, kind: str) -> str:
    """The answer's text or letter; empty when a multiple-choice answer has none."""
    if kind in _GROUNDING:
        return _grounding_text(text)
    tagged = _between(text, "answer")
    choice = kind == "multiple_choice"
    if tagged and not choice:
        return tagged
    if tagged and len(tagged) <= 2 and tagged.rstrip(".").upper() in "ABCDEFGHIJ":
        return tagged.rstrip(".").upper()
    for pattern in _CONCLUDED:
        if found := pattern.search(text):
            return found.group(1).upper()
    if not choice and (found := _CONCLUDED_TEXT.search(text)):
        return found.group(1).strip()
    letter = _letter(text)
    return letter or ("" if choice else without_pairs(text, "think") or text.strip())


def _grounding_text(text: str) -> str:
    if tagged := _between(text, "answer"):
        return tagged
    for place in (_between(text, "think"), without_pairs(text, "think")):
        start, end = place.find("{"), place.rfind("}")
        if 0 <= start < end:
            return place[start : end + 1]
    return without_pairs(text, "think") or text.strip()


def _letter(text: str) -> str:
    end = text.lower().find("</think>")
    after = text[end + 8 :].strip() if end >= 0 else ""
    if len(after) == 1 and after.upper() in "ABCDEFGHIJ":
        return after.upper()
    if after and (found := _AFTER_THINK.match(after)):
        return found.group(1)
    if found := _CHOSEN.search(text):
        return found.group(1).upper()
    for line in reversed([line.strip() for line in text.strip().split("\n")[-5:]]):
        if len(line) == 1 and line.upper() in "ABCDEFGHIJ":
            return line.upper()
        found = _LINE.match(line) or (_LINE_END.search(line) if len(line) < 30 else None)
        if found:
            return found.group(1)
    return ""


def _accuracy(answer: str, key_text: str, record: Record) -> float:
    kind = record.problem_type
    key = extract(key_text, kind)
    if kind == "multiple_choice":
        return float(answer.strip() == key.strip())
    if kind == "boolean":
        return float(key.strip().upper() in answer.upper())
    if kind == "numerical" and record.extra.get("ovo_task") == "REC":
        digits = "".join(re.findall(r"\d", answer))
        return float(bool(digits) and digits == "".join(re.findall(r"\d", key)))
    if kind in ("numerical", "regression"):
        return _numeric(answer, key, kind)
    if kind in _GROUNDING:
        return _overlap(load(answer), load(key), kind)
    return 0.0


def _numeric(answer: str, key: str, kind: str) -> float:
    value, truth = _number(answer), _number(key)
    if value is None or truth is None:
        return 0.0
    if kind == "numerical":
        as_decimal = [any(mark in text for mark in ".,") for text in (answer, key)]
        return float(as_decimal[0] == as_decimal[1] and round(value, 2) == round(truth, 2))
    import numpy as np

    # single precision and a strict comparison, as the original computes
    one = np.float32
    error = np.abs(one(value) - one(truth)) / (np.abs(one(truth)) + one(1e-8))
    thresholds = np.arange(0.5, 0.975, 0.05).astype(np.float32)
    return float(np.mean((error < one(1) - thresholds).astype(np.float32)))


def _number(text: str) -> float | None:
    trimmed = re.sub(r"^[^\d\-+.]*", "", text.strip())
    end = len(trimmed)
    while end and not (trimmed[end - 1].isdigit() or trimmed[end - 1] == "."):
        end -= 1
    try:
        return float(trimmed[:end].replace(",", ""))
    except ValueError:
        return None


def _overlap(value: Any, key: Any, kind: str) -> float:
    if not isinstance(value, dict) or not isinstance(key, dict):
        return 0.0
    time = interval_iou(value.get("time"), key.get("time"))
    boxes = key.get("boxes")
    if kind == "temporal_grounding" or not isinstance(boxes, dict) or not boxes:
        return time
    return 0.5 * time + 0.5 * frames_in_common(value.get("boxes"), boxes)

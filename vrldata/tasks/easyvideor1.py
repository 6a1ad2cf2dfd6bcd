"""Protocol `easyvideor1-train`: what EasyVideoR1's video reward gives, for comparisons with its runs.

Source: EasyVideoR1, `examples/video_rl/reward_function/video_reward.py` at 89f6c1f; restated, not copied.
Known faults are part of the rules: hedged letters, reasoning read as answers, an easy frame for all.
Its fallback grader for other types evaluates untrusted text; ours (`mathematics.equal`) stands in for it.
Problem types are matched by canonical name; the original knows the spelling with blanks only.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from vrldata.tasks import mathematics
from vrldata.tasks.easyvideor1_measures import frames_in_common, interval_iou, number_list, rectangle_iou
from vrldata.tasks.free_text import stemmed_tokens
from vrldata.tasks.measures import overlap_f1, rouge_l
from vrldata.tasks.reading import MAX_CONTENT_CHARS, Record, ScorerTimeoutError
from vrldata.tasks.scoring import finished, unscored
from vrldata.types import Score

_PREFIX = re.compile(r"\s*(?:\[[^\]]+\]|(?:output|response)\s*:)\s*", re.IGNORECASE)
# Blanks count from the start of their run only: tried from each of them, a long run takes quadratic time.
_TIGHTEN = re.compile(r"(?:(?<![ \t])[ \t]+)?([<>/])[ \t]*")
_LEAD = r"(?:therefore|so|thus|hence|finally|in\s+(?:summary|conclusion))[,\s]*"
_NAMED = r"(?:the\s+)?(?:(?:final|best|correct)\s+)?answer\s+(?:is|(?:would|should)\s+be)"
_STATEMENTS = [
    re.compile(rf"^[ \t]*{_LEAD}{_NAMED}[ \t]*[:：]?[ \t]*(\S.*)$", re.IGNORECASE | re.MULTILINE),
    re.compile(rf"^[ \t]*{_NAMED}[ \t]*[:：]?[ \t]*(\S.*)$", re.IGNORECASE | re.MULTILINE),
    re.compile(r"^[ \t]*final\s+answer[ \t]*[:：][ \t]*(\S.*)$", re.IGNORECASE | re.MULTILINE),
]
_PICKED = r"(?:(?:option|choice)\s+)?\(?([A-J])\)?\b"
_LAST_OF = [
    re.compile(rf"{_NAMED}[:\s]*{_PICKED}", re.IGNORECASE),
    re.compile(rf"answer\s*[:：]\s*{_PICKED}", re.IGNORECASE),
    re.compile(r"答案\s*[是为选：:]\s*\(?([A-J])\)?\b", re.IGNORECASE),
    re.compile(r"选择?\s*\(?([A-J])\)?\b", re.IGNORECASE),
]
_FIRST_OF = [
    re.compile(rf"(?:choose|select|pick|go\s+with)\s+{_PICKED}", re.IGNORECASE),
    re.compile(r"option\s+\(?([A-J])\)?\s+is\s+(?:the\s+)?(?:correct|right|best)", re.IGNORECASE),
    re.compile(
        r"\(?([A-J])\)?\s+is\s+(?:the\s+)?(?:correct|right|best)\s+(?:answer|option|choice)", re.IGNORECASE
    ),
    re.compile(r"\*\*\s*([A-J])\s*\*\*", re.IGNORECASE),
]
_MARKED = re.compile(r"([A-Ja-j])\s*[.)\]:：。]")
_LONE_LINE = re.compile(r"([A-Ja-j])\s*$", re.MULTILINE)
_LINE_END = re.compile(r"\b([A-Ja-j])\s*[.):]?\s*$")
_RANGES = [
    re.compile(
        r"(?:in|from|between|at)\s+(\d+(?:\.\d+)?)\s*[-–~to]+\s*(\d+(?:\.\d+)?)\s*(?:seconds?|s\b)",
        re.IGNORECASE,
    ),
    re.compile(r"((?<!\d)\d+(?:\.\d+)?)\s*[-–~]\s*(\d+(?:\.\d+)?)\s*(?:seconds?|s\b)", re.IGNORECASE),
    re.compile(r"((?<!\d)\d+(?:\.\d+)?)(?:\s*s)?\s+to\s+(\d+(?:\.\d+)?)", re.IGNORECASE),
]
# A number is tried from its first digit only, which finds the same and stays linear.
_FRACTION = re.compile(r"((?:-|(?<!\d))\d+(?:\.\d+)?)\s*/\s*(-?\d+(?:\.\d+)?)")
_PERCENT = re.compile(r"((?:-|(?<!\d))\d+(?:\.\d+)?)\s*%")
_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
)
_WORDS = {word: value for value, word in enumerate(_SMALL.split())}
_WORDS |= {"twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80}
_WORDS |= {"ninety": 90, "hundred": 100, "thousand": 1000}
_GROUNDING = frozenset({"temporal_grounding", "spatial_grounding", "spatial_temporal_grounding", "tracking"})


def score_easyvideor1_train(record: Record) -> Score:
    """0.9 accuracy + 0.1 format by EasyVideoR1's rules; anything that it cannot handle is 0."""
    response = _TIGHTEN.sub(r"\1", _without_prefix(record.response[:MAX_CONTENT_CHARS]))
    key = record.ground_truth[:MAX_CONTENT_CHARS] if isinstance(record.ground_truth, str) else ""
    key = last_tag(key) or key
    form = _format(response, record.problem_type)
    try:
        accuracy = _accuracy(response, key, record)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        accuracy = 0.0
    except ScorerTimeoutError as error:
        return unscored("timeout", str(error))
    return finished(
        record, accuracy, form, status="ok", extracted=last_tag(response) or "", how="easyvideor1"
    )


def _without_prefix(text: str) -> str:
    start = 0
    while found := _PREFIX.match(text, start):
        start = found.end()
    return text[start:]


def tag_pairs(text: str, tag: str, *, ignore_case: bool = True) -> list[tuple[int, int, int, int]]:
    """Start, content start, content end and end of each `<tag>...</tag>`, from the left; linear in `text`."""
    folded, opening, closing = _folded(text) if ignore_case else text, f"<{tag}>", f"</{tag}>"
    pairs, position = [], 0
    while (start := folded.find(opening, position)) >= 0:
        end = folded.find(closing, start)
        if end < 0:
            break
        position = end + len(closing)
        pairs.append((start, start + len(opening), end, position))
    return pairs


def without_pairs(text: str, tag: str) -> str:
    """`text` without its `<tag>...</tag>` blocks, stripped."""
    kept, last = [], 0
    for start, _, _, end in tag_pairs(text, tag):
        kept.append(text[last:start])
        last = end
    return "".join([*kept, text[last:]]).strip()


def _folded(text: str) -> str:
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else text


def last_tag(text: str) -> str | None:
    """The content of the last `<answer>` pair, pairs counted from the left; None without one."""
    found = tag_pairs(text, "answer")
    return text[found[-1][1] : found[-1][2]].strip() if found else None


def _statement(text: str) -> str:
    found = [match for pattern in _STATEMENTS for match in pattern.finditer(text)]
    if not found:
        return ""
    return _without_stop(max(found, key=lambda match: match.start()).group(1))


def _without_stop(text: str) -> str:
    text = text.strip()
    if text.endswith(("。", "；", ";")) or (text.endswith(".") and not text.endswith("...")):
        return text[:-1].rstrip()
    return text


def _after_think(text: str) -> str:
    start = _folded(text).find("</think>")
    return text[start + 8 :].strip() if start >= 0 else ""


def _without_think(text: str) -> str:
    opening = _folded(text).find("<think>")
    return without_pairs(text, "think") or text[: max(opening, 0)].strip() or text.strip()


def _boxed(text: str) -> str:
    from vrldata.tasks.text import last_boxed

    return (last_boxed(text) or "").strip()


def _letter(response: str) -> str:
    after = _after_think(response)
    places = [
        last_tag(response),
        _statement(response),
        after,
        _statement(after),
        _without_think(response),
        response,
    ]
    return next((letter for place in places if place and (letter := _letter_in(place))), "")


def _letter_in(text: str) -> str:
    content = text.strip()
    boxed = _boxed(content)
    if boxed and boxed != content and (letter := _letter_in(boxed)):
        return letter
    if len(content) == 1 and content.upper() in "ABCDEFGHIJ":
        return content.upper()
    for pattern, applies in (
        (_MARKED, True),
        (re.compile(r"([A-Ja-j])\s"), len(content) < 20),
        (_LONE_LINE, True),
    ):
        if applies and (found := pattern.match(content)):
            return found.group(1).upper()
    for pattern in _LAST_OF:
        if every := list(pattern.finditer(content)):
            return every[-1].group(1).upper()
    for pattern in _FIRST_OF:
        if first := pattern.search(content):
            return first.group(1).upper()
    return _letter_in_lines(content)


def _letter_in_lines(content: str) -> str:
    for line in reversed([line.strip() for line in content.splitlines()[-5:]]):
        if len(line) == 1 and line.upper() in "ABCDEFGHIJ":
            return line.upper()
        found = _MARKED.match(line) or (_LINE_END.search(line) if len(line) < 40 else None)
        if found:
            return found.group(1).upper()
    letters = set(re.findall(r"\b([A-J])\b", content))
    return letters.pop() if len(letters) == 1 and len(content) <= 12 else ""


def _open_answer(response: str) -> str:
    if tagged := last_tag(response):
        return tagged
    if statement := _statement(response):
        return _without_stop(_boxed(statement) or statement)
    if boxed := _boxed(response):
        return _without_stop(boxed)
    if after := _after_think(response):
        return _without_stop(_statement(after) or _boxed(after)) or after
    return _without_think(response)


def _number(text: str) -> float | None:
    if found := _FRACTION.search(text):
        bottom = float(found.group(2))
        if bottom:
            return float(found.group(1)) / bottom
    if found := _PERCENT.search(text):
        return float(found.group(1)) / 100
    if found := re.search(r"-?\d[\d,]*\.?\d*", text):
        return float(found.group().replace(",", ""))
    words = text.lower().replace("-", " ").split()
    if 1 <= len(words) <= 2 and all(word in _WORDS for word in words):
        return float(sum(_WORDS[word] for word in words))
    return next((float(_WORDS[word]) for word in text.lower().split() if word in _WORDS), None)


def _polarity(text: str) -> str:
    for place in (_open_answer(text), text):
        if words := re.findall(r"\b(yes|no|true|false)\b", place, re.IGNORECASE):
            return {"true": "yes", "false": "no"}.get(words[-1].lower(), words[-1].lower())
    return ""


def load(text: str) -> Any:
    """JSON, or None where the text is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _grounding(response: str, problem_type: str) -> Any:
    tagged = last_tag(response)
    if tagged and (value := load(tagged)) is not None:
        return value
    after = _after_think(response)
    places = [_statement(response), after, _statement(after), _without_think(response), response]
    for place in filter(None, places):
        value = load(place)
        if value is None:
            value = _last_object(place)
        if value is not None:
            return value
    if problem_type in ("temporal_grounding", "spatial_temporal_grounding"):
        for place in filter(None, places):
            for pattern in _RANGES:
                if found := pattern.search(place):
                    return {"time": [float(found.group(1)), float(found.group(2))], "boxes": {}}
    return None


def _last_object(text: str) -> Any:
    """The last balanced `{...}` that is JSON; an opening brace that is never closed hides all after it."""
    value, depth, start = None, 0, 0
    for brace in re.finditer(r"[{}]", text):
        if brace.group() == "{":
            start = brace.start() if depth == 0 else start
            depth += 1
        elif depth:
            depth -= 1
            if depth == 0 and (found := load(text[start : brace.end()])) is not None:
                value = found
    return value


def _format(response: str, problem_type: str) -> float:
    content = last_tag(response)
    if not content:
        return 0.0
    if problem_type in _GROUNDING:
        return 1.0 if _is_grounding(load(content), problem_type) else 0.5
    checks: dict[str, Callable[[str], Any]] = {
        "multiple_choice": _letter_in,
        "numerical": lambda text: _number(text) is not None,
        "regression": lambda text: _number(text) is not None,
        "boolean": _polarity,
    }
    return 1.0 if problem_type not in checks or checks[problem_type](content) else 0.5


def _is_grounding(value: Any, problem_type: str) -> bool:
    if not isinstance(value, dict):
        return False
    time, boxes = value.get("time"), value.get("boxes")
    return {
        "temporal_grounding": number_list(time, 2) is not None,
        "spatial_grounding": number_list(boxes, 4) is not None,
        "spatial_temporal_grounding": number_list(time, 2) is not None and isinstance(boxes, dict),
        "tracking": isinstance(boxes, dict),
    }[problem_type]


def _accuracy(response: str, key: str, record: Record) -> float:
    kind = record.problem_type
    if kind == "multiple_choice":
        letter, key_letter = _letter(response), _letter(key)
        return float(letter == key_letter) if letter and key_letter else _graded(letter, key, record)
    if kind in ("numerical", "regression"):
        return _numeric_accuracy(_number(_open_answer(response)), _number(key), kind)
    if kind == "boolean":
        said = _polarity(response)
        return float(bool(said) and said == (_polarity(key) or key.strip().lower()))
    if kind in _GROUNDING:
        return _overlap(_grounding(response, kind), load(key), kind)
    if kind == "open_ended":
        return _rouge(_open_answer(response), key)
    return _graded(_open_answer(response), key, record)


def _numeric_accuracy(value: float | None, key: float | None, kind: str) -> float:
    if value is None or key is None:
        return 0.0
    if kind == "numerical":
        return float(round(value, 4) == round(key, 4) or abs(value - key) < 0.015)
    error, threshold, passed, total = abs(value - key) / (abs(key) + 1e-8), 0.5, 0, 0
    # the thresholds are summed up, with the rounding that this brings
    while threshold <= 0.975:
        passed, total, threshold = passed + (error < 1 - threshold), total + 1, threshold + 0.05
    return passed / total


def _overlap(value: Any, key: Any, kind: str) -> float:
    if not isinstance(value, dict) or not isinstance(key, dict):
        return 0.0
    time = interval_iou(value.get("time"), key.get("time"))
    boxes, key_boxes = value.get("boxes"), key.get("boxes")
    if kind == "temporal_grounding":
        return time
    if kind == "spatial_grounding":
        return rectangle_iou(boxes, key_boxes)
    shared = frames_in_common(boxes, key_boxes)
    return shared if kind == "tracking" else 0.5 * time + 0.5 * shared


def _rouge(answer: str, key: str) -> float:
    """Mean of ROUGE-1, -2 and -L F1 over ASCII words; an undefined one counts 0."""
    first, second = ([token for token in stemmed_tokens(text) if token.isascii()] for text in (answer, key))
    pairs = [Counter(pairwise(tokens)) for tokens in (first, second)]
    shares = [overlap_f1(Counter(first), Counter(second)), overlap_f1(*pairs), rouge_l(first, second) or 0.0]
    return sum(shares) / 3


def _graded(answer: str, key: str, record: Record) -> float:
    answer, key = answer.strip()[: mathematics.MAX_ANSWER_CHARS], key.strip()
    return float(bool(answer) and bool(key) and mathematics.equal(answer, key, record))

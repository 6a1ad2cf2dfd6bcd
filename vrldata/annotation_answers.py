"""Options and answers of annotation rows: one text form each, checked by the scorer of the problem type.

The scorer of a type decides what it can read; this module adds what only data can get wrong, and says it
in the words of the file.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any

from vrldata.annotation_faults import RowFault
from vrldata.annotation_fields import is_python_text
from vrldata.tasks.boxes import parse_json_key
from vrldata.tasks.choices import letter_options, read_gold, split_option
from vrldata.tasks.reading import Record, UnreadableAnswerError, UnreadableGoldError
from vrldata.tasks.scoring import check_answer
from vrldata.tasks.spans import read_time, spans_in_text, spans_of, time_value
from vrldata.tasks.text import clean, comparable

JSON_TYPES = frozenset(
    {"temporal_grounding", "spatial_temporal_grounding", "spatial_grounding", "tracking", "segmentation"}
)
"""Types whose answers are JSON: lists and objects are taken for them, and stored as text."""

SEVERAL_ANSWERS = frozenset({"multiple select", "multi select", "multiple answers"})
"""Spellings of multiple choice that allow several letters."""

_OPENING = "<answer>"
_CLOSING = "</answer>"


def read_options(value: Any, field: str | None, *, required: bool) -> tuple[str, ...]:
    """Options as texts: from a list, an object of letter to text, JSON in a text, or a text with a line each.

    Raises:
        RowFault: no options although the type needs them, or options that cannot be told apart.
    """
    if isinstance(value, str):
        if is_python_text(value):
            text = "a Python list as text: write JSON, with double quotes, as json.dumps does"
            raise RowFault("bad_options", text, field=field, value=value)
        value = _options_in_text(value)
    if isinstance(value, Mapping):
        value = _options_by_letter(value, required=required)
    if value is None:
        if required:
            raise RowFault(
                "bad_options", "null, but multiple choice needs its options", field=field or "options"
            )
        return ()
    if not isinstance(value, list | tuple):
        raise RowFault("bad_options", "expected a list of options", field=field, value=value)
    if any(item is None for item in value):
        raise RowFault("bad_options", "an option is null", field=field, value=value)
    if any(isinstance(item, list | tuple | dict | bool) for item in value):
        raise RowFault("bad_options", "an option is no text", field=field, value=value)
    options = tuple(plain_number(item) if not isinstance(item, str) else item for item in value)
    if required and (problem := _options_problem(options)):
        raise RowFault("bad_options", problem, field=field, value=list(options), show=bool(options))
    return options


def _options_by_letter(options: Mapping[Any, Any], *, required: bool) -> list[str | None]:
    """Options in the order of their letters or numbers, each behind its own, which it may have already."""
    given = {str(letter).strip(): text for letter, text in options.items() if text is not None or required}
    letters = sorted(given, key=lambda letter: (len(letter) if letter.isdigit() else 0, letter))
    if all(isinstance(given[one], str) and split_option(given[one])[0] == one.upper() for one in letters):
        return [given[letter] for letter in letters]
    return [None if given[letter] is None else f"{letter}. {given[letter]}" for letter in letters]


def _options_in_text(text: str) -> Any:
    stripped = text.strip()
    if stripped[:1] in ("[", "{"):
        try:
            return json.loads(stripped)
        except ValueError:
            pass  # a text that only begins like JSON
    lines = [line.strip() for line in stripped.splitlines() if line.strip()]
    return lines or None


@lru_cache(maxsize=8192)
def _options_problem(options: tuple[str, ...]) -> str | None:
    """Why a multiple-choice question cannot have these options; None when it can."""
    if not options:
        return "empty, but multiple choice needs its options"
    if len(options) == 1:
        return "only one option"
    letters = [letter for letter, _ in map(split_option, options)]
    # without an A the letters may be parts of the texts, as in "E. coli"
    if None not in letters and "A" in letters:
        twice = next((letter for letter in letters if letters.count(letter) > 1), None)
        if twice:
            return f"duplicate letter {twice}"
    if any(not option.strip() for option in options):
        return "an option is empty"
    texts = [comparable(text) for _, text in letter_options(options)]
    same = next((text for text in texts if text and texts.count(text) > 1), None)
    return None if same is None else f"two options are identical: {same!r}"


@lru_cache(maxsize=8192)
def option_letters_notice(options: tuple[str, ...]) -> str | None:
    """What is odd about the letters of options that are fine otherwise, such as a gap."""
    letters = [letter for letter, _ in letter_options(options)]
    expected = [chr(65 + index) for index in range(len(letters))]
    if len(letters) <= 26 and letters != expected:
        return f"option letters {', '.join(letters)} leave a gap or are out of order"
    return None


def read_answer(value: Any, field: str, problem_type: str, spelling: str, options: tuple[str, ...]) -> str:
    """The answer as one text: unwrapped from `<answer>`, a letter for multiple choice, JSON for grounding.

    Args:
        problem_type: canonical name.
        spelling: the type as the row writes it, normalised.

    Raises:
        RowFault: there is no answer, or the scorer of the type could not read it.
    """
    text = _answer_text(value, field, problem_type, several=spelling in SEVERAL_ANSWERS)
    if problem_type == "multiple_choice":
        return _choice(text, value, field, options, several=spelling in SEVERAL_ANSWERS)
    if problem_type == "temporal_grounding":
        _check_spans(text, field, value)
    reason = check_answer(problem_type, text, options)
    if reason is not None:
        raise RowFault("bad_answer", f"not readable as {problem_type}: {reason}", field=field, value=value)
    if problem_type == "spatial_temporal_grounding":
        _check_spans(json.dumps({"time": parse_json_key(text)["time"]}), field, value)
    return text


def _answer_text(value: Any, field: str, problem_type: str, *, several: bool) -> str:
    if isinstance(value, str):
        return _unwrapped(value, field)
    if value is None:
        raise RowFault("missing_answer", "null: the answer is missing", field=field)
    if isinstance(value, bool):
        if problem_type == "boolean":
            return "Yes" if value else "No"
        raise RowFault(
            "bad_answer",
            f"a bool, which is no answer of {problem_type}: write it as text",
            field=field,
            value=value,
        )
    if isinstance(value, int | float | Decimal):
        if not math.isfinite(value):
            raise RowFault("missing_answer", f"{_not_finite(value)}: the answer is missing", field=field)
        return plain_number(value)
    if isinstance(value, list | tuple | dict):
        kind = "an object" if isinstance(value, dict) else "a list"
        if problem_type in JSON_TYPES:
            # numbers of a table may be decimals
            return json.dumps(value, ensure_ascii=False, default=str)
        if several and kind == "a list":
            return ", ".join(str(item) for item in value)
        raise RowFault(
            "bad_answer",
            f"{kind}, which is no answer of {problem_type}: write one text",
            field=field,
            value=value,
        )
    raise RowFault(
        "bad_answer", f"a {type(value).__name__}, which is no answer", field=field, value=str(value)
    )


def _not_finite(value: float | Decimal) -> str:
    return "NaN" if math.isnan(value) else "Infinity"


def plain_number(value: Any) -> str:
    """A number as text, whole ones without a fraction.

    >>> plain_number(3.0)
    '3'
    """
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e16:
        return str(int(value))
    return str(value)


def _unwrapped(value: str, field: str) -> str:
    lowered = value.lower() if "<" in value else ""
    tags = lowered.count(_OPENING)
    text = value
    if tags > 1:
        raise RowFault(
            "bad_answer", f"holds two answer tags or more ({tags}): expected one", field=field, value=value
        )
    if tags == 1:
        start = lowered.index(_OPENING) + len(_OPENING)
        end = lowered.find(_CLOSING, start)
        text = value[start : end if end >= 0 else len(value)]
    text = text.strip().strip("\u200b\ufeff\u2060\u200e\u200f").strip()
    if not text:
        raise RowFault("missing_answer", "empty: the answer is missing", field=field, value=value)
    return text


def _choice(text: str, value: Any, field: str, options: tuple[str, ...], *, several: bool) -> str:
    record = Record(problem_type="multiple_choice", response="", ground_truth=text, options=options)
    known = [letter for letter, _ in letter_options(options)]
    try:
        letters = read_gold(record)
    except UnreadableGoldError:
        letters = frozenset()
    if not letters:
        raise RowFault(
            "bad_answer",
            f"{_named(clean(text))} is not in options {', '.join(known)}",
            field=field,
            value=value,
        )
    if len(letters) > 1 and not several:
        raise RowFault(
            "bad_answer",
            f"several letters ({', '.join(sorted(letters))}), but one answer is expected; problem_type"
            " 'multiple select' allows several",
            field=field,
            value=value,
        )
    return ", ".join(letter for letter in known if letter in letters)


def _named(text: str) -> str:
    """A short text with the code points of letters that only look like plain ones."""
    odd = [
        f"U+{ord(character):04X} {unicodedata.name(character, 'unnamed')}"
        for character in text[:3]
        if not character.isascii()
    ]
    named = repr(text[:40])
    return f"{named} ({', '.join(odd)})" if odd and len(text) <= 3 else named


def _check_spans(text: str, field: str, value: Any) -> None:
    """Refuse spans that a scorer would silently mend: reversed or negative ones.

    Raises:
        RowFault: no two numbers, an end before its start, or a negative time.
    """
    spans = _spans_in(text)
    if not spans:
        raise RowFault(
            "bad_answer",
            "expected two numbers [start, end] in seconds, or mm:ss-mm:ss",
            field=field,
            value=value,
        )
    for start, end in spans:
        if min(start, end) < 0:
            raise RowFault("bad_answer", "a negative time", field=field, value=value)
        if end < start:
            raise RowFault(
                "bad_answer",
                f"the end ({end:g} s) lies before the start ({start:g} s)",
                field=field,
                value=value,
            )


def _spans_in(text: str) -> list[tuple[float, float]]:
    """Spans of an answer as they are written, the reversed ones too; none where it holds no spans."""
    try:
        value = time_value(json.loads(text))[0]
    except (ValueError, RecursionError):
        return spans_in_text(text, whole=True)
    try:
        return [span for item in _items(value) for span in _as_written(item)]
    except (UnreadableAnswerError, RecursionError):
        return []


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) and value and isinstance(value[0], list | dict) else [value]


def _as_written(value: Any) -> list[tuple[float, float]]:
    """Raises UnreadableAnswerError where `value` is no span."""
    spans = spans_of(value, reorder=True)
    try:
        spans_of(value)
    except UnreadableAnswerError:
        return [(end, start) for start, end in spans]
    return spans


def last_second(text: str) -> float | None:
    """The latest time that a grounding answer names, in seconds; None when it names none."""
    return max((max(span) for span in _spans_in(text)), default=None)


def clock(value: Any) -> float:
    """Seconds of a number or of a text such as `12.5` or `1:02`.

    Raises:
        ValueError: neither.
    """
    if isinstance(value, str) and re.fullmatch(r"\s*-\s*\d.*", value):
        raise ValueError(value)
    try:
        return read_time(float(value) if isinstance(value, Decimal) else value)
    except UnreadableAnswerError as error:
        raise ValueError(value) from error

"""Protocol `eval`: scores of foreign models' responses, tolerant of form and never a guess.

Order: reasoning removed, last answer tag, last box, last concluding statement, then the whole text by the
type's own rules. The accuracy under the strict reading stands beside (`Score.strict`).

Statuses: scored, unparsed, ambiguous, empty, truncated (accuracy 0 for all but scored); needs_judge,
needs_simulator, bad_ground_truth, timeout (accuracy None).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from vrldata.tasks.choice_text import read_prose
from vrldata.tasks.conclusions import concluding_statements, sentence
from vrldata.tasks.extract import final_segment, strict_answer
from vrldata.tasks.reading import (
    MAX_CONTENT_CHARS,
    Measured,
    Reading,
    Record,
    ScorerTimeoutError,
    UnreadableAnswerError,
    UnreadableGoldError,
)
from vrldata.tasks.scoring import MAX_SHOWN_CHARS, TASKS, Task, check_length, unscored
from vrldata.tasks.text import clean, last_boxed
from vrldata.types import Score

SIMULATED_DIMENSIONS = frozenset({"prediction_operation"})
"""Values of a row's `dim` whose answers only a simulator of the game can check."""

_OPENING = re.compile(r"<answer>", re.IGNORECASE | re.ASCII)
_CLOSING = re.compile(r"</answer>", re.IGNORECASE | re.ASCII)
# Choices are read by `read_prose` with phrases of their own; in code, "result =" concludes nothing.
_WITHOUT_CONCLUSIONS = frozenset({"multiple_choice", "svg_code", "html_code", "code"})
_BY_SENTENCE = frozenset({"numerical", "regression", "boolean", "temporal_grounding", "math"})


def score_eval(record: Record) -> Score:
    """The tolerant score of a record."""
    task = TASKS[record.problem_type]
    try:
        gold = task.read_gold(record)
    except UnreadableGoldError as error:
        return unscored("bad_ground_truth", str(error))
    segment, _ = final_segment(record.response, record.settings.reasoning_tags)
    cut = record.finish_reason == "length"
    if not record.response.strip():
        return _wrong("empty", "the response is empty")
    if segment is None:
        return _wrong("truncated", "the reasoning is never closed")
    if not segment.strip():
        return _wrong("truncated" if cut else "empty", "nothing follows the reasoning")
    dimension = record.extra.get("dim")
    if isinstance(dimension, str) and dimension in SIMULATED_DIMENSIONS:
        return unscored("needs_simulator", "the answer has to be simulated", extracted=free_answer(segment))
    if task.judged:
        return unscored("needs_judge", "free text needs a judge", extracted=free_answer(segment), form=1.0)
    tolerant = replace(record, tolerant=True) if task.reads_more else record
    try:
        text, reading, how = _first_reading(segment[-MAX_CONTENT_CHARS:], tolerant, task, gold)
        measured = task.compare(reading.value, gold, tolerant)
        found = strict_answer(record.response, record.settings).text
        if found == text and how == "tag" and not reading.how and not task.reads_more:
            strict = measured.accuracy
        else:
            strict = _strict_accuracy(found, record, task, gold, reading, measured)
    except UnreadableAnswerError as error:
        status = "ambiguous" if error.ambiguous else "truncated" if cut else "unparsed"
        return _wrong(status, str(error))
    except UnreadableGoldError as error:
        return unscored("bad_ground_truth", str(error))
    except ScorerTimeoutError as error:
        return unscored("timeout", str(error))
    accuracy = min(1.0, max(0.0, measured.accuracy))
    return Score(
        accuracy=accuracy,
        format=reading.form,
        overall=accuracy,
        status="scored",
        extracted=reading.shown[:MAX_SHOWN_CHARS],
        how=reading.how or how,
        parts=measured.parts,
        strict=strict,
    )


def _wrong(status: str, reason: str) -> Score:
    return Score(accuracy=0.0, format=0.0, overall=0.0, status=status, reason=reason, strict=0.0)


def candidates(segment: str, *, conclusions: bool = True) -> Iterator[tuple[str, str]]:
    """(text, rule) of what may be the answer, best first; the whole text is last."""
    tagged = tag_content(segment)
    if tagged:
        yield tagged, "tag"
        return
    boxed = last_boxed(segment)
    if boxed and boxed.strip():
        yield boxed.strip(), "boxed"
    if conclusions:
        for statement in concluding_statements(segment)[:4]:
            yield statement, "conclusion"
    yield segment.strip(), "whole"


def tag_content(segment: str) -> str | None:
    """What the last answer tag holds, up to its close or to the end; None without a tag or content."""
    openings = list(_OPENING.finditer(segment))
    for opening in reversed(openings[-8:]):
        closing = _CLOSING.search(segment, opening.end())
        content = segment[opening.end() : closing.start() if closing else len(segment)].strip()
        if content:
            return content
    return None


def _first_reading(segment: str, record: Record, task: Task, gold: Any) -> tuple[str, Reading, str]:
    """The candidate that can be read first, what it says, and the rule that found it."""
    last_error = UnreadableAnswerError("nothing to read")
    for text, how in candidates(segment, conclusions=record.problem_type not in _WITHOUT_CONCLUSIONS):
        try:
            return text, _read(text, how, record, task, gold), how
        except UnreadableAnswerError as error:
            if error.ambiguous:
                raise
            last_error = error
    raise last_error


def _read(text: str, how: str, record: Record, task: Task, gold: Any) -> Reading:
    if record.problem_type == "multiple_choice":
        if how == "whole":
            return read_prose(text, record, gold)
        try:
            return task.read_answer(text, record, gold)
        except UnreadableAnswerError as error:
            if error.ambiguous:
                raise
            return replace(read_prose(text, record, gold), how=how)
    if how == "conclusion" and record.problem_type in _BY_SENTENCE:
        said = sentence(text)
        try:
            reading = task.read_answer(said, record, gold)
            _refuse_another(text[len(said) :].strip(), reading, record, task, gold)
            return reading
        except UnreadableAnswerError as error:
            if error.ambiguous:
                raise
    return task.read_answer(text, record, gold)


def _refuse_another(rest: str, reading: Reading, record: Record, task: Task, gold: Any) -> None:
    """Refuse a statement that goes on with nothing but another answer, as in "yes? no."."""
    if record.problem_type not in ("numerical", "boolean") or len(rest) > 40 or len(rest.split()) != 1:
        return
    try:
        other = task.read_answer(rest, record, gold)
    except UnreadableAnswerError:
        return
    if other.value != reading.value:
        raise UnreadableAnswerError(f"several answers in {rest!r}", ambiguous=True)


def free_answer(segment: str) -> str:
    """The answer of a type whose answer is any text."""
    text, how = next(candidates(segment))
    return clean(text) if how != "whole" else text


def _strict_accuracy(
    found: str | None, record: Record, task: Task, gold: Any, reading: Reading, measured: Measured
) -> float:
    """Accuracy under protocol `train`, which found this text; 0 where it found none."""
    if found is None:
        return 0.0
    try:
        check_length(found)
        strict = task.read_answer(found, record, gold)
    except UnreadableAnswerError:
        return 0.0
    if strict.value == reading.value and record.coord_space is None:  # else boxes were cut to the picture
        return measured.accuracy
    return task.compare(strict.value, gold, record).accuracy

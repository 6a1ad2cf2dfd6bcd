"""`score`: one response against its ground truth, under a protocol.

Extraction finds the text that counts as the answer (`extract`, `tolerant`), the type's module reads and
compares it, and this module turns the outcome into a `Score`. Nothing here knows a single task's rules.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from vrldata.errors import TaskError, nearest
from vrldata.tasks import (
    boolean,
    boxes,
    choices,
    code,
    free_text,
    mathematics,
    numbers,
    preference,
    spans,
    tubes,
)
from vrldata.tasks.coordinates import check_space
from vrldata.tasks.extract import strict_answer
from vrldata.tasks.killable import shared_limit
from vrldata.tasks.loose_json import MAX_NESTING
from vrldata.tasks.reading import (
    MAX_CONTENT_CHARS,
    Measured,
    Reading,
    Record,
    ScorerTimeoutError,
    ScoringSettings,
    UnreadableAnswerError,
    UnreadableGoldError,
)
from vrldata.tasks.registry import ORIGINAL_TYPE, is_known, resolved_type, unknown_text
from vrldata.types import Score

MAX_SHOWN_CHARS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """How one problem type is scored.

    Attributes:
        read_gold: record -> key; raises UnreadableGoldError.
        read_answer: (content, record, key) -> Reading; raises UnreadableAnswerError.
        compare: (value, key, record) -> Measured.
        check_gold: record -> why the key cannot be compared with, where reading it is not enough; slower.
        child_module: what the type's child process serves (`killable`); empty where it needs none.
        judged: protocol `eval` leaves the verdict to a judge.
        reads_more: `read_answer` accepts more of a tolerant record.
    """

    read_gold: Callable[[Record], Any]
    read_answer: Callable[[str, Record, Any], Reading]
    compare: Callable[[Any, Any, Record], Measured]
    check_gold: Callable[[Record], str | None] | None = None
    child_module: str = ""
    judged: bool = False
    reads_more: bool = False


TASKS: dict[str, Task] = {
    "multiple_choice": Task(
        read_gold=choices.read_gold, read_answer=choices.read_answer, compare=choices.compare
    ),
    "numerical": Task(
        read_gold=numbers.read_gold, read_answer=numbers.read_answer, compare=numbers.compare, reads_more=True
    ),
    "regression": Task(
        read_gold=numbers.read_gold,
        read_answer=numbers.read_answer,
        compare=numbers.compare_regression,
        reads_more=True,
    ),
    "boolean": Task(read_gold=boolean.read_gold, read_answer=boolean.read_answer, compare=boolean.compare),
    "temporal_grounding": Task(
        read_gold=spans.read_gold, read_answer=spans.read_answer, compare=spans.compare, reads_more=True
    ),
    "spatial_temporal_grounding": Task(
        read_gold=tubes.read_tube_gold,
        read_answer=tubes.read_tube,
        compare=tubes.compare_tube,
        reads_more=True,
    ),
    "spatial_grounding": Task(
        read_gold=boxes.read_spatial_gold,
        read_answer=boxes.read_spatial,
        compare=boxes.compare_spatial,
        reads_more=True,
    ),
    "tracking": Task(
        read_gold=boxes.read_tracking_gold,
        read_answer=boxes.read_tracking,
        compare=boxes.compare_tracking,
        reads_more=True,
    ),
    "segmentation": Task(
        read_gold=tubes.read_mask_gold,
        read_answer=tubes.read_mask,
        compare=tubes.compare_mask,
        reads_more=True,
    ),
    "open_ended": Task(
        read_gold=free_text.read_gold,
        read_answer=free_text.read_answer,
        compare=free_text.compare_open_ended,
        judged=True,
    ),
    "ocr": Task(
        read_gold=free_text.read_gold, read_answer=free_text.read_answer, compare=free_text.compare_ocr
    ),
    "math": Task(
        read_gold=mathematics.read_gold,
        read_answer=mathematics.read_answer,
        compare=mathematics.compare,
        check_gold=mathematics.check_gold,
        child_module=mathematics.CHILD_MODULE,
    ),
    **{
        name: Task(
            read_gold=code.read_gold,
            read_answer=code.read_answer,
            compare=code.compare,
            child_module=code.CHILD_MODULE,
            reads_more=True,
        )
        for name in ("svg_code", "html_code", "code")
    },
    "preference": Task(
        read_gold=preference.read_gold, read_answer=preference.read_answer, compare=preference.compare
    ),
}

_RECORD_FIELDS = tuple(item.name for item in fields(Record))
_OWN_FIELDS = frozenset({"problem_type", "response", "ground_truth", "options", "settings", "tolerant"})


def score(
    problem_type: str,
    response: str,
    answer: Any = ...,
    *,
    options: Sequence[str] | Mapping[str, str] | str | None = None,
    protocol: str = "train",
    settings: ScoringSettings | None = None,
    **record_fields: Any,
) -> Score:
    """The score of one response.

    >>> score("multiple choice", "<answer>B</answer>", "B", options=["A. saw", "B. drill"]).accuracy
    1.0

    Args:
        problem_type: any known spelling of a type.
        response: decoded text of the model, special tokens removed.
        answer: the ground truth, any JSON value.
        options: the options of a multiple-choice question, with their letters or without.
        protocol: `train` (strict), `eval` (tolerant), or another system's rules by name (`PROTOCOLS`).
        settings: choices of the run; the defaults are those of the protocol.
        record_fields: further fields of `Record`, such as `duration` or `coord_space`. `ground_truth` stands
            for `answer`, or beside an equal one: `score(**record)` takes what `score_batch` takes.

    Raises:
        TaskError: an unknown type, protocol or field; neither `answer` nor `ground_truth`, or different ones.
    """
    answer = _one_answer(answer, record_fields)
    record = make_record(problem_type, response, answer, options=options, settings=settings, **record_fields)
    return score_record(record, protocol)


def _one_answer(answer: Any, record_fields: dict[str, Any]) -> Any:
    """The ground truth under either of its names, taken out of the further fields."""
    if "ground_truth" not in record_fields:
        if answer is ...:
            raise TaskError("no ground truth: give answer, or ground_truth as records name it")
        return answer
    named = record_fields.pop("ground_truth")
    if answer is not ... and answer != named:
        raise TaskError(f"answer {answer!r:.80} and ground_truth {named!r:.80} differ: give one of them")
    return named


def make_record(
    problem_type: str,
    response: str,
    answer: Any,
    *,
    options: Sequence[str] | Mapping[str, str] | str | None = None,
    settings: ScoringSettings | None = None,
    **record_fields: Any,
) -> Record:
    """The record of one response, with the type in its canonical spelling.

    An unknown type is dealt with as `settings.on_unknown_type` says.

    Raises:
        TaskError: an unknown type, field or coordinate space.
    """
    settings = settings or _DEFAULT_SETTINGS
    if "ground_truth" in record_fields and record_fields["ground_truth"] == answer:
        del record_fields["ground_truth"]
    for name in record_fields:
        if name not in _RECORD_FIELDS or name in _OWN_FIELDS:
            raise TaskError(f"unknown record field {name!r}.{nearest(name, _RECORD_FIELDS)}")
    check_space("coord_space", record_fields.get("coord_space"))
    check_space("answer_coord_space", record_fields.get("answer_coord_space"))
    resolved = resolved_type(problem_type, settings.on_unknown_type)
    if resolved is not None and not is_known(problem_type):
        record_fields["extra"] = {**(record_fields.get("extra") or {}), ORIGINAL_TYPE: problem_type}
    return Record(
        problem_type=problem_type if resolved is None else resolved,
        response=response if isinstance(response, str) else "",
        ground_truth=answer if not _is_huge(answer) else math.inf,
        options=choices.option_texts(options),
        settings=settings,
        **{name: value for name, value in record_fields.items() if value is not None},
    )


_DEFAULT_SETTINGS = ScoringSettings()


def _is_huge(answer: Any) -> bool:
    """Whether Python does not write it out: a number of very many digits, or lists in lists in lists."""
    if isinstance(answer, int):
        return answer.bit_length() > 4096
    level = {id(answer): answer}
    for _ in range(MAX_NESTING):
        parts = [
            part
            for item in level.values()
            if isinstance(item, list | tuple | dict)
            for part in (item.values() if isinstance(item, dict) else item)
        ]
        level = {id(part): part for part in parts if isinstance(part, list | tuple | dict)}
        if not level:
            return False
    return True


def score_record(record: Record, protocol: str = "train") -> Score:
    """The score of a record under a protocol.

    Raises:
        TaskError: the protocol is unknown.
    """
    from vrldata.tasks.protocols import PROTOCOLS

    rules = PROTOCOLS.get(protocol)
    if rules is None:
        raise TaskError(
            f"unknown protocol {protocol!r}.{nearest(protocol, PROTOCOLS)} Known: {', '.join(PROTOCOLS)}."
        )
    if record.problem_type not in TASKS:
        return skipped(record)
    with shared_limit():
        score = rules(record)
    spelling = record.extra.get(ORIGINAL_TYPE)
    if spelling is None or score.reason:
        return score
    return replace(score, reason=f"unknown problem_type {str(spelling)!r}, scored as {record.problem_type}")


def skipped(record: Record) -> Score:
    """The score of a record of unknown type that `on_unknown_type: skip` leaves unscored."""
    return unscored("skipped", f"on_unknown_type: skip: {unknown_text(record.problem_type)}")


def score_train(record: Record) -> Score:
    """Strict scoring for training: only the one answer tag after the reasoning counts.

    Statuses: ok, no_answer, unparsable (accuracy 0 each); bad_ground_truth, timeout (accuracy None).
    """
    task = TASKS[record.problem_type]
    try:
        gold = task.read_gold(record)
    except UnreadableGoldError as error:
        return unscored("bad_ground_truth", str(error))
    found = strict_answer(record.response, record.settings)
    if found.text is None:
        return finished(record, 0.0, 0.0, status="no_answer", reason=found.reason)
    try:
        check_length(found.text)
        reading = task.read_answer(found.text, record, gold)
        measured = task.compare(reading.value, gold, record)
    except UnreadableAnswerError as error:
        return finished(
            record, 0.0, 0.5, status="unparsable", reason=str(error), extracted=found.text, how=found.how
        )
    except UnreadableGoldError as error:
        return unscored("bad_ground_truth", str(error))
    except ScorerTimeoutError as error:
        return unscored("timeout", str(error), extracted=found.text)
    return finished(
        record,
        measured.accuracy,
        reading.form,
        status="ok",
        extracted=reading.shown,
        how=found.how,
        parts=measured.parts,
    )


def check_length(text: str) -> None:
    """Refuse an answer of more than `MAX_CONTENT_CHARS` characters.

    Raises:
        UnreadableAnswerError: it is longer.
    """
    if len(text) > MAX_CONTENT_CHARS:
        raise UnreadableAnswerError(f"the answer is longer than {MAX_CONTENT_CHARS} characters")


def finished(
    record: Record,
    accuracy: float,
    form: float,
    *,
    status: str,
    reason: str = "",
    extracted: str = "",
    how: str = "",
    parts: Mapping[str, float] | None = None,
) -> Score:
    """A score with an accuracy, weighted as the run's settings say."""
    accuracy = min(1.0, max(0.0, accuracy))
    weights = record.settings.weights
    return Score(
        accuracy=accuracy,
        format=form,
        overall=weights.accuracy * accuracy + weights.format * form,
        status=status,
        extracted=extracted[:MAX_SHOWN_CHARS],
        how=how,
        parts=parts or {},
        reason=reason,
        strict=accuracy,
    )


def unscored(status: str, reason: str, *, extracted: str = "", form: float = 0.0, how: str = "") -> Score:
    """A score without an accuracy: the row is masked out, never counted as 0."""
    return Score(
        accuracy=None,
        format=form,
        overall=None,
        status=status,
        extracted=extracted[:MAX_SHOWN_CHARS],
        how=how,
        reason=reason,
    )


def check_answer(
    problem_type: str,
    answer: Any,
    options: Sequence[str] | Mapping[str, str] | str | None = None,
    **record_fields: Any,
) -> str | None:
    """Why the scorer of its type cannot read a ground truth; None when it can.

    >>> check_answer("multiple choice", "E", options=["A. saw", "B. drill"])
    "key 'E' is neither a letter nor an option's text (options A, B)"

    Raises:
        TaskError: an unknown type or field.
    """
    record = make_record(problem_type, "", answer, options=options, **record_fields)
    if record.problem_type not in TASKS:
        return skipped(record).reason
    task = TASKS[record.problem_type]
    try:
        task.read_gold(record)
        return task.check_gold(record) if task.check_gold else None
    except UnreadableGoldError as error:
        return str(error)

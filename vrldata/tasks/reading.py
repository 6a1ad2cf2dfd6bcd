"""What passes between extraction, reading and comparing: records, readings, settings. No rule lives here."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vrldata.errors import TaskError
from vrldata.tasks.registry import check_policy

MAX_CONTENT_CHARS = 65536
"""Longer answers are not parsed: no gold answer comes near, and every parser here is linear up to it."""


REASONING_TAGS = ("think", "thought", "thinking")


class UnreadableAnswerError(TaskError):
    """The response's answer is not of the requested kind, or names several (`ambiguous`)."""

    def __init__(self, reason: str, *, ambiguous: bool = False) -> None:
        super().__init__(reason)
        self.ambiguous = ambiguous


class UnreadableGoldError(TaskError):
    """The ground truth itself cannot be read by the scorer of its type."""


class ScorerTimeoutError(TaskError):
    """Our own machinery ran out of time; says nothing about the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Shares of accuracy and format in `Score.overall`; not negative, together 1."""

    accuracy: float = 0.9
    format: float = 0.1

    def __post_init__(self) -> None:
        if self.accuracy < 0 or self.format < 0 or abs(self.accuracy + self.format - 1) > 1e-6:
            raise TaskError(
                f"weights: accuracy {self.accuracy} and format {self.format} must be >= 0 and sum to 1"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringSettings:
    """Choices that a run makes once, for all rows.

    Attributes:
        weights: shares of accuracy and format in `Score.overall`.
        extraction: `strict` (answer tag only) or `lenient` (also the last boxed or concluding statement).
        multi_answer: what several answer tags mean: `reject` (no answer) or `last`.
        require_think: a closed reasoning block must stand before the answer.
        strict_tail: nothing may stand after the answer.
        reasoning_tags: names of the tags around reasoning, such as `think`; what they hold never counts.
        integer_tolerance: allowed difference where the key is a whole number.
        absolute_tolerance: upper bound of the allowed difference elsewhere.
        relative_tolerance: allowed share of the key elsewhere.
        iou_shape: `linear`, `power:k` or `threshold:t`; how a temporal or spatial IoU becomes an accuracy.
        frame_agg: frames over which box IoU is averaged: `union`, `gt` or `intersection`.
        ignore_edge_punct: OCR ignores punctuation at the edges of words.
        ocr_mode: `error_rate` or `exact`.
        allow_code_execution: run Python answers against the record's unit tests, in the sandbox.
        code_seconds: limit for one unit test; all of a row's have eight times as long.
        render: draw SVG and HTML answers too: half of the score is then how alike answer and key look (needs
            the renderers of the `tasks` extra; that of HTML has wheels for x86-64). Off, tags, attributes and
            text alone count.
        math_seconds: limit for the symbolic comparisons of one response, all together. Real answers take
            hundredths of a second; with the default a hostile one is scored in less than 2 s in all.
        on_unknown_type: a record whose problem type is unknown is refused (`error`), scored as `open_ended`
            with its spelling in `extra["original_problem_type"]`, or not scored (`skip`: status `skipped`,
            accuracy None).
    """

    weights: Weights = field(default_factory=Weights)
    extraction: str = "strict"
    multi_answer: str = "reject"
    require_think: bool = False
    strict_tail: bool = False
    reasoning_tags: tuple[str, ...] = REASONING_TAGS
    integer_tolerance: float = 1e-6
    absolute_tolerance: float = 0.005
    relative_tolerance: float = 0.01
    iou_shape: str = "linear"
    frame_agg: str = "union"
    ignore_edge_punct: bool = True
    ocr_mode: str = "error_rate"
    allow_code_execution: bool = False
    code_seconds: float = 5.0
    render: bool = False
    math_seconds: float = 1.5
    on_unknown_type: str = "error"

    def __post_init__(self) -> None:
        _one_of("extraction", self.extraction, ("strict", "lenient"))
        _one_of("multi_answer", self.multi_answer, ("reject", "last"))
        _one_of("frame_agg", self.frame_agg, ("union", "gt", "intersection"))
        _one_of("ocr_mode", self.ocr_mode, ("error_rate", "exact"))
        object.__setattr__(self, "reasoning_tags", tuple(self.reasoning_tags))
        for tag in self.reasoning_tags:
            if not re.fullmatch(r"[A-Za-z][\w:-]{0,31}", tag, re.ASCII) or tag.lower() == "answer":
                raise TaskError(
                    f"reasoning_tags: {tag!r} is no name of a tag around reasoning, such as 'think'"
                )
        check_policy("on_unknown_type", self.on_unknown_type)
        shape, _, parameter = self.iou_shape.partition(":")
        _one_of("iou_shape", shape, ("linear", "power", "threshold"))
        if shape != "linear":
            try:
                number = float(parameter)
            except ValueError:
                number = -1.0
            if not 0 < number < 1e6:
                raise TaskError(f"iou_shape {self.iou_shape!r}: expected a positive number after the colon")


def _one_of(name: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise TaskError(f"{name}: expected one of {', '.join(known)}, found {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One response with all that its score may depend on.

    Attributes:
        problem_type: canonical name; an unknown one only under `on_unknown_type: skip`.
        response: decoded text without special tokens.
        ground_truth: any JSON value.
        options: the options as the data gives them; empty when there are none.
        duration: seconds of the video, when known.
        width: pixels of the picture that pixel coordinates of the answer refer to.
        height: pixels, likewise.
        coord_space: `norm1000`, `unit` or `pixel`: coordinates of the response; None compares as given.
        answer_coord_space: the same for the ground truth; None: as `coord_space`.
        frame_width: pixels of the frame that the model saw, for pixel coordinates of the response.
        frame_height: pixels, likewise.
        extra: further fields of the data, such as `unit_tests` of a code row.
    """

    problem_type: str
    response: str
    ground_truth: Any = None
    options: tuple[str, ...] = ()
    problem: str = ""
    data_type: str = "text"
    response_length: int | None = None
    finish_reason: str | None = None
    duration: float | None = None
    width: int | None = None
    height: int | None = None
    coord_space: str | None = None
    answer_coord_space: str | None = None
    frame_width: int | None = None
    frame_height: int | None = None
    sample_id: str = ""
    group_id: str = ""
    source: str = "online"
    extra: Mapping[str, Any] = field(default_factory=dict)
    settings: ScoringSettings = field(default_factory=ScoringSettings)
    tolerant: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """An answer that could be read.

    Attributes:
        value: what the type's comparison takes.
        shown: the value as text, for logs.
        form: 1 where the answer has the requested form, 0.5 where it is only readable.
        how: the rule inside the type that found it; empty when the extraction rule says it all.
    """

    value: Any
    shown: str
    form: float = 1.0
    how: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """An accuracy in 0..1 and the figures that it came from."""

    accuracy: float
    parts: Mapping[str, float] = field(default_factory=dict)


def sole(key: Any) -> Any:
    """The one item of a key that came as a list of one, else the key."""
    return key[0] if isinstance(key, list | tuple) and len(key) == 1 else key

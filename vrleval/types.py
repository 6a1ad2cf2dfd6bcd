"""The records of an evaluation: a benchmark, one question of it, one prediction, one benchmark's result.

No IO and no arithmetic: loading is the work of `loading`, figures of `aggregate`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vrldata.types import Sample

STATUSES = (
    "scored",
    "unparsed",
    "ambiguous",
    "empty",
    "truncated",
    "decode_failed",
    "engine_failed",
    "bad_answer",
    "metric_failed",
    "needs_judge",
    "needs_simulator",
)
"""What can become of a question. All but the two `needs_` count in every denominator."""

UNSCORED = frozenset({"needs_judge", "needs_simulator"})
"""Statuses outside every mean: nothing could be measured yet."""

FAILED = frozenset({"decode_failed", "engine_failed", "bad_answer", "metric_failed"})
"""Statuses that count 0 through no doing of the model; they lower the coverage and the exit code tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """One entry of `benchmarks.toml`.

    Attributes:
        name: as the command line takes it.
        title: as tables print it.
        description: one line.
        metric: what one question earns: `accuracy`, `mra`, `tiou`, `stvg`.
        headline: how questions become the one figure: `micro`, `macro:<group>`, `part:<measure>`, or a rule
            of `HEADLINES`.
        aliases: further names, such as those of EasyVideoR1.
        groups: fields of a row by which figures are also given.
        protocol: the scoring rules.
        annotations: file names that are looked for in the root, `valid_data` and the benchmark's folders.
        official_files: patterns of the official files, looked for in the benchmark's own folders alone.
        videos: folders under the data root that a row's video path may be relative to.
        fields: field of a row to the column of the official layout; `{column}` is filled in, `name*` collects
            numbered columns.
        num_questions: rows of the complete benchmark; 0 where that is not known.
        chance: accuracy of guessing; None where there is no such figure.
        box_frame: coordinates of the boxes in the answers, as the scorer's `answer_coord_space`.
        judge: some questions need a judge.
        source: where annotations and videos come from.
        notes: what a reader of the figures must know.
        subtitles: where the subtitle file of a row lies, with columns in braces; empty for none.
        reference: published figures by model, in percent.
    """

    name: str
    title: str
    description: str = ""
    metric: str = "accuracy"
    headline: str = "micro"
    aliases: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    protocol: str = "eval"
    annotations: tuple[str, ...] = ()
    official_files: tuple[str, ...] = ()
    videos: tuple[str, ...] = ()
    fields: Mapping[str, str] = field(default_factory=dict)
    num_questions: int = 0
    chance: float | None = None
    box_frame: str = ""
    judge: bool = False
    source: str = ""
    notes: tuple[str, ...] = ()
    subtitles: str = ""
    reference: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question of a benchmark, ready to be asked.

    Attributes:
        key: hex digest of (benchmark, row, content): unique even where the data set repeats an id.
        benchmark: name of the benchmark.
        sample: the question itself; video paths are relative to the clip source's root.
        groups: value by group field, for tables.
        unit: questions with the same unit are scored together (all parts right, groups of four); else empty.
        problem: why the question cannot be asked or scored; empty when it can.
    """

    key: str
    benchmark: str
    sample: Sample
    groups: Mapping[str, str] = field(default_factory=dict)
    unit: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What became of one question: one line of `predictions.jsonl`.

    Attributes:
        key: the question's key.
        config: digest of everything that decides a response or its score; lines of another one are not read.
        asked: digest of what decides a response; a line with the same one can be scored under other rules.
        status: one of `STATUSES`.
        score: 0 to 1; None exactly where the status is in `UNSCORED`.
        strict: the score when only an answer tag counts; None where unscored.
        how: the rule that found the answer.
        parts: further measures, such as `tiou`.
        num_tokens: of the response.
        num_prompt_tokens: of the prompt, media included; 0 when the engine does not tell.
        num_frames: frames sent.
        num_visual_tokens: tokens of the frames.
        media: what scoring needs of the first clip: `duration` in seconds (of a video), `width` and `height`
            of the source, `frame_width` and `frame_height` of the frames, in pixels.
        seconds: from the request to the last token.
        video: first video or image, the cluster of the intervals.
    """

    key: str
    benchmark: str
    sample_id: str
    config: str
    status: str
    score: float | None = None
    strict: float | None = None
    extracted: str = ""
    how: str = ""
    parts: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""
    response: str = ""
    finish_reason: str = ""
    problem: str = ""
    problem_type: str = ""
    options: tuple[str, ...] = ()
    answer: str = ""
    video: str = ""
    groups: Mapping[str, str] = field(default_factory=dict)
    unit: str = ""
    num_tokens: int = 0
    num_prompt_tokens: int = 0
    num_frames: int = 0
    num_visual_tokens: int = 0
    media: Mapping[str, float | None] = field(default_factory=dict)
    seconds: float = 0.0
    judge: Mapping[str, Any] = field(default_factory=dict)
    asked: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure with its interval.

    Attributes:
        value: 0 to 1; None where nothing could be scored.
        low: lower end of the 95 % interval.
        high: upper end.
        num_units: questions, or units of questions that are scored together.
        interval: `wilson` or `bootstrap`.
    """

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    num_units: int = 0
    interval: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkResult:
    """All figures of one benchmark.

    Attributes:
        headline: the benchmark's own figure; its value is None while a judge is missing.
        figures: further figures, such as the micro average or recall at a threshold.
        groups: field to figures by value.
        statuses: number of questions by status.
        num_questions: questions asked, failures included.
        num_expected: rows of the complete benchmark; 0 where that is not known.
        coverage: share of the questions that did not fail.
        visual_tokens: `min`, `median`, `max` of tokens per video prompt.
        warnings: what makes the figures doubtful.
    """

    benchmark: str
    title: str
    metric: str
    headline: Figure
    figures: tuple[Figure, ...] = ()
    groups: Mapping[str, tuple[Figure, ...]] = field(default_factory=dict)
    statuses: Mapping[str, int] = field(default_factory=dict)
    num_questions: int = 0
    num_expected: int = 0
    num_failed: int = 0
    coverage: float = 0.0
    visual_tokens: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

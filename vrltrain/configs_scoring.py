"""Choices of the built-in scorers that a training run makes, as `algorithm.reward.scoring`.

What they mean is written where they act, at `vrldata.tasks.ScoringSettings`; weights are the reward's own.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from vrldata.config import BaseConfig
from vrldata.errors import TaskError
from vrldata.tasks.reading import ScoringSettings

_DEFAULTS = ScoringSettings()


class ScoringConfig(BaseConfig):
    """How answers are found and compared."""

    extraction: Literal["strict", "lenient"] = "strict"
    """strict: only the answer tag counts; lenient: without one also the last box or concluding statement."""
    multi_answer: Literal["reject", "last"] = "reject"
    """What several answer tags mean: no answer, or the last one."""
    require_think: bool = False
    """A closed reasoning block must stand before the answer."""
    strict_tail: bool = False
    """Nothing may stand after the answer."""
    reasoning_tags: tuple[str, ...] = _DEFAULTS.reasoning_tags
    """Names of the tags around reasoning, such as think; what they hold never counts."""
    integer_tolerance: float = Field(default=_DEFAULTS.integer_tolerance, ge=0)
    """Allowed difference of a number where the right one is whole."""
    absolute_tolerance: float = Field(default=_DEFAULTS.absolute_tolerance, ge=0)
    """Upper bound of the allowed difference elsewhere."""
    relative_tolerance: float = Field(default=_DEFAULTS.relative_tolerance, ge=0)
    """Allowed share of the right number elsewhere."""
    iou_shape: str = _DEFAULTS.iou_shape
    """How the overlap of spans or boxes becomes an accuracy: linear, power:k or threshold:t."""
    frame_agg: Literal["union", "gt", "intersection"] = "union"
    """Frames over which the overlap of boxes is averaged: of either tube, of the right one, or common."""
    ignore_edge_punct: bool = True
    """Recognised text is compared without punctuation at the edges of words."""
    ocr_mode: Literal["error_rate", "exact"] = "error_rate"
    """Recognised text earns 1 minus its error rate, or 1 only where it is equal."""
    allow_code_execution: bool = False
    """Run Python answers against the row's unit tests, in the sandbox."""
    code_seconds: float = Field(default=_DEFAULTS.code_seconds, gt=0)
    """Limit for one unit test; all of a row's have eight times as long."""
    render: bool = False
    """Half of the score of an SVG or HTML answer is how alike it and the reference look when drawn."""
    math_seconds: float = Field(default=_DEFAULTS.math_seconds, gt=0)
    """Limit for the symbolic comparisons of one response."""

    @model_validator(mode="after")
    def _settings_fit(self) -> ScoringConfig:
        try:
            self.settings()
        except TaskError as error:
            raise ValueError(str(error)) from error
        return self

    def settings(self) -> ScoringSettings:
        """The same as the scorers take it."""
        return ScoringSettings(**self.model_dump())

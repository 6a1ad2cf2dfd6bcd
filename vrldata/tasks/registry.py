"""The problem types: one canonical name each, and the spellings of real data that resolve to it.

What a type's answers look like and how they are scored lies in the modules that `scoring.TASKS` names. What
becomes of a row with any other spelling is `on_unknown_type`: one policy, here, for build, training and
evaluation.
"""

from __future__ import annotations

import dataclasses
import re
import unicodedata
from functools import lru_cache

from vrldata.errors import TaskError, nearest
from vrldata.types import Sample

ALIASES: dict[str, tuple[str, ...]] = {
    "multiple_choice": (
        "mcq",
        "mc",
        "multi choice",
        "multiple choices",
        "multiple choice question",
        "multiple choice qa",
        "single choice",
        "multiple select",
        "multi select",
        "multiple answers",
    ),
    "numerical": ("number", "numeric", "numeric answer", "counting", "count", "object counting"),
    "regression": ("numeric regression",),
    "boolean": (
        "binary classification",
        "yes no",
        "yesno",
        "true false",
        "binary",
        "judgement",
        "ssr",
        "crr",
    ),
    "temporal_grounding": (
        "tvg",
        "temporal video grounding",
        "video temporal grounding",
        "temporal localization",
        "temporal localisation",
        "moment retrieval",
    ),
    "spatial_temporal_grounding": (
        "spatio temporal grounding",
        "spatiotemporal grounding",
        "spatial temporal video grounding",
        "spatio temporal video grounding",
        "stvg",
    ),
    "spatial_grounding": (
        "rec",
        "referring expression comprehension",
        "visual grounding",
        "image grounding",
        "bounding box",
    ),
    "tracking": ("object tracking", "video object tracking", "single object tracking"),
    "segmentation": ("image segmentation", "video segmentation", "video object segmentation"),
    "open_ended": (
        "open ended qa",
        "openended",
        "free form",
        "freeform",
        "video qa",
        "videoqa",
        "video question answering",
        "video description",
        "captioning",
        "caption",
        "video caption",
        "video captioning",
        "summarization",
    ),
    "math": ("mathematics", "mathematical", "math qa"),
    "ocr": ("text recognition", "optical character recognition"),
    "svg_code": ("svg", "image to svg"),
    "html_code": ("html", "image to html"),
    "code": ("coding", "python code", "python"),
    "preference": ("llava", "critic", "llava critic", "pairwise preference"),
}
"""Canonical name to further accepted spellings, written as `normalise_type` leaves them."""

PROBLEM_TYPES: tuple[str, ...] = tuple(ALIASES)

_CANONICAL = {
    spelling: name for name, spellings in ALIASES.items() for spelling in (name.replace("_", " "), *spellings)
}
_SEPARATORS = re.compile(r"[\s_\-/]+")


def normalise_type(name: str) -> str:
    """`name` in NFKC and lower case, with each run of blanks, `_`, `-` and `/` as one blank.

    >>> normalise_type(" Multiple_Choice")
    'multiple choice'
    """
    return _SEPARATORS.sub(" ", unicodedata.normalize("NFKC", name).casefold()).strip()


@lru_cache(maxsize=4096)
def canonical_type(name: str) -> str:
    """The canonical problem type that `name` spells.

    >>> canonical_type("Spatio-Temporal Grounding")
    'spatial_temporal_grounding'

    Raises:
        TaskError: no type is spelt like this; the message names the nearest one.
    """
    if not isinstance(name, str):
        raise TaskError(f"problem_type: expected text, found {name!r}")
    normal = normalise_type(name)
    found = _CANONICAL.get(normal)
    if found is None:
        raise TaskError(f"{unknown_text(name)} Known types: {', '.join(PROBLEM_TYPES)}.")
    return found


def unknown_text(name: str) -> str:
    """That `name` spells no type, and what it may mean.

    >>> unknown_text("trackin")
    "unknown problem_type 'trackin'. Did you mean 'tracking'?"
    """
    # other words share many letters with these names: only slips of the pen are near
    return f"unknown problem_type {name!r}.{nearest(normalise_type(name), _CANONICAL, cutoff=0.75)}"


ON_UNKNOWN_TYPE: tuple[str, ...] = ("error", "open_ended", "skip")
"""What becomes of a row whose problem type is unknown: it is refused; it is scored as `open_ended`; or it is
left out of the data set, so that it is in no denominator, and counted apart."""

ORIGINAL_TYPE = "original_problem_type"
"""Field of `extra` that keeps the spelling of a row that is read as `open_ended`."""


def check_policy(name: str, value: str) -> str:
    """`value`, one of `ON_UNKNOWN_TYPE`.

    Args:
        name: of the setting, for the message.

    Raises:
        TaskError: it is none.
    """
    if value not in ON_UNKNOWN_TYPE:
        raise TaskError(
            f"{name}: expected one of {', '.join(ON_UNKNOWN_TYPE)}, found {value!r}."
            f"{nearest(str(value), ON_UNKNOWN_TYPE)}"
        )
    return value


def resolved_type(name: str, on_unknown_type: str = "error") -> str | None:
    """The canonical type that `name` spells; of an unknown one `open_ended`, or None where it is skipped.

    Raises:
        TaskError: the type is unknown and the policy is `error`; or it is no text.
    """
    try:
        return canonical_type(name)
    except TaskError:
        if on_unknown_type == "error" or not isinstance(name, str):
            raise
        return "open_ended" if on_unknown_type == "open_ended" else None


def resolved_sample(sample: Sample, on_unknown_type: str = "error") -> Sample | None:
    """The sample under its canonical type; None where it is to be left out.

    One that is read as `open_ended` keeps its spelling in `extra["original_problem_type"]`.

    Raises:
        TaskError: the type is unknown and the policy is `error`.
    """
    problem_type = resolved_type(sample.problem_type, on_unknown_type)
    if problem_type is None:
        return None
    if problem_type == sample.problem_type:
        return sample
    if is_known(sample.problem_type):
        return dataclasses.replace(sample, problem_type=problem_type)
    extra = {**sample.extra, ORIGINAL_TYPE: sample.problem_type}
    return dataclasses.replace(sample, problem_type=problem_type, extra=extra)


def is_known(name: str) -> bool:
    """Whether `name` spells a problem type."""
    return isinstance(name, str) and normalise_type(name) in _CANONICAL

"""The problem types: one canonical name each, and the spellings of real data that resolve to it.

What a type's answers look like and how they are scored lies in the modules that `scoring.TASKS` names.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from vrldata.errors import TaskError, nearest

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
        # other words share many letters with these names: only slips of the pen are near
        hint = nearest(normal, _CANONICAL, cutoff=0.75)
        raise TaskError(f"unknown problem_type {name!r}.{hint} Known types: {', '.join(PROBLEM_TYPES)}.")
    return found

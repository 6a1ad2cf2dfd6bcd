"""Tasks: prompts, answer extraction and scores for every problem type. Pure Python: no torch, no ray.

The public names, each imported when first used. `scoring.TASKS` maps a type to its rules.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_PUBLIC = {
    "score": "scoring",
    "score_batch": "batch",
    "check_answer": "scoring",
    "canonical_type": "registry",
    "PROBLEM_TYPES": "registry",
    "render_prompt": "prompts",
    "ScoringSettings": "reading",
    "Weights": "reading",
    "Record": "reading",
    "TASKS": "scoring",
    "PROTOCOLS": "protocols",
    "RewardFunction": "reward_functions",
}

__all__ = [*_PUBLIC]

if TYPE_CHECKING:
    from vrldata.tasks.batch import score_batch as score_batch
    from vrldata.tasks.prompts import render_prompt as render_prompt
    from vrldata.tasks.protocols import PROTOCOLS as PROTOCOLS
    from vrldata.tasks.reading import Record as Record
    from vrldata.tasks.reading import ScoringSettings as ScoringSettings
    from vrldata.tasks.reading import Weights as Weights
    from vrldata.tasks.registry import PROBLEM_TYPES as PROBLEM_TYPES
    from vrldata.tasks.registry import canonical_type as canonical_type
    from vrldata.tasks.reward_functions import RewardFunction as RewardFunction
    from vrldata.tasks.scoring import TASKS as TASKS
    from vrldata.tasks.scoring import check_answer as check_answer
    from vrldata.tasks.scoring import score as score


def __getattr__(name: str) -> Any:
    module = _PUBLIC.get(name)
    if module is None:
        raise AttributeError(f"module 'vrldata.tasks' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"vrldata.tasks.{module}"), name)
    globals()[name] = value
    return value

"""VSI-Bench: the overall figure is the mean of eight tasks, one of which averages three difficulties.

Yang et al. 2024, "Thinking in Space". Numbers are scored by mean relative accuracy, choices by accuracy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vrleval.aggregate import parts_of
from vrleval.intervals import Tree
from vrleval.types import Prediction

if TYPE_CHECKING:
    from vrleval.rows import Row

DIRECTION = "object_rel_direction"


def prepare(rows: list[Row]) -> list[Row]:
    """Rows with `question_type`; those without options ask for a number."""
    for row in rows:
        label = row.get("question_type") or row.get("original_question_type")
        if label:
            row["question_type"] = str(label)
        if not row.get("problem_type"):
            row["problem_type"] = "multiple choice" if row.get("options") else "regression"
        if not row.get("video") and row.get("scene_name"):
            row["video"] = f"{row.get('dataset')}/{row['scene_name']}.mp4"
    return rows


def eight_tasks(predictions: Sequence[Prediction]) -> Tree:
    """Task to questions; the easy, medium and hard relative directions are one task of three parts."""
    return nest_directions(parts_of(predictions, "question_type"))


def nest_directions(tasks: dict[str, Tree]) -> dict[str, Tree]:
    """The degrees of difficulty of the relative direction become parts of one task."""
    tree: dict[str, Tree] = {}
    directions: dict[str, Tree] = {}
    for name, part in tasks.items():
        if name.startswith(DIRECTION):
            directions[name] = part
        else:
            tree[name] = part
    if directions:
        tree[DIRECTION] = directions
    return tree

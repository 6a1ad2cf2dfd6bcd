"""VSI-Bench: the overall figure is the mean of eight tasks, one of which averages three difficulties.

Yang et al. 2024, "Thinking in Space". Numbers are scored by mean relative accuracy, choices by accuracy.
"""

from __future__ import annotations

from collections.abc import Sequence

from vrleval.aggregate import split_by, units_of
from vrleval.intervals import Tree
from vrleval.types import Prediction

DIRECTION = "object_rel_direction"


def eight_tasks(predictions: Sequence[Prediction]) -> Tree:
    """Task to questions; the easy, medium and hard relative directions are one task of three parts."""
    return nest_directions(
        {name: units_of(group) for name, group in split_by(predictions, "question_type").items()}
    )


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

"""OVO-Bench: every task counts alike in its category, every category alike in the total."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vrleval.aggregate import split_by, units_of
from vrleval.intervals import Tree
from vrleval.types import Prediction

CATEGORIES: dict[str, tuple[str, ...]] = {
    "backward": ("EPM", "ASI", "HLD"),
    "realtime": ("OJR", "STU", "OCR", "ATR", "ACR", "FPD"),
    "forward": ("REC", "SSR", "CRR"),
}


def categories(predictions: Sequence[Prediction]) -> Tree:
    """Category to task to questions."""
    tasks: dict[str, Tree] = {
        name: units_of(group) for name, group in split_by(predictions, "ovo_task").items()
    }
    return by_category(tasks)


def by_category(tasks: Mapping[str, Tree]) -> dict[str, Tree]:
    """Figures of tasks under their categories; a task of no known category stands alone."""
    known = {task: category for category, names in CATEGORIES.items() for task in names}
    tree: dict[str, dict[str, Tree]] = {}
    for task, part in tasks.items():
        tree.setdefault(known.get(task, task), {})[task] = part
    return dict(tree)

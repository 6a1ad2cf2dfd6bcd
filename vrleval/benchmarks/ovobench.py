"""OVO-Bench: every task counts alike in its category, every category alike in the total."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from vrleval.aggregate import parts_of
from vrleval.intervals import Tree
from vrleval.types import Prediction

if TYPE_CHECKING:
    from vrleval.aggregate import Rule
    from vrleval.rows import Row

CATEGORIES: dict[str, tuple[str, ...]] = {
    "backward": ("EPM", "ASI", "HLD"),
    "realtime": ("OJR", "STU", "OCR", "ATR", "ACR", "FPD"),
    "forward": ("REC", "SSR", "CRR"),
}


_TYPES = {"REC": "numerical", "SSR": "boolean", "CRR": "boolean"}


def prepare(rows: list[Row]) -> list[Row]:
    """Rows of EasyVideoR1 as they are, with the task as a label; official rows, one for each moment asked.

    Official rows carry `test_info`: for each moment the count (REC) or whether the step is being done (SSR)
    or the question can be answered yet (CRR). Clips are cut beforehand: `{id}.mp4`, or `{id}_{k}.mp4`.
    """
    result: list[Row] = []
    for row in rows:
        task = str(row.get("ovo_task") or row.get("task") or "")
        row["ovo_task"] = task
        if task in _TYPES:
            row["options"] = []
            row["problem_type"] = _TYPES[task]
        moments = row.get("test_info")
        if isinstance(moments, list) and moments and task in _TYPES:
            result += [_moment(row, task, index, moment) for index, moment in enumerate(moments)]
            continue
        if "gt" in row:
            row["answer"] = row["gt"]
            row["video"] = f"{row.get('id')}.mp4"
        result.append(row)
    return result


def _moment(row: Row, task: str, index: int, moment: Mapping[str, Any]) -> Row:
    shared = {name: value for name, value in row.items() if name != "test_info"}
    if task == "REC":
        problem = f"How many times has this been done in the video: {row.get('activity')}?"
        answer = str(moment.get("count"))
    elif task == "SSR":
        problem = f"Is this step being carried out at the end of the video: {moment.get('step')}?"
        answer = "Yes" if str(moment.get("type")) == "1" else "No"
    else:
        problem = f"Does the video show enough to answer this question: {row.get('question')}"
        answer = "Yes" if str(moment.get("type")) == "1" else "No"
    name = f"{row.get('id')}_{index}"
    return {**shared, "id": name, "video": f"{name}.mp4", "problem": problem, "answer": answer}


def one_category(name: str) -> Rule:
    """The rule of one category alone: its tasks count alike."""

    def rule(predictions: Sequence[Prediction]) -> Tree:
        tree = categories(predictions)
        return tree.get(name, []) if isinstance(tree, Mapping) else []

    return rule


def categories(predictions: Sequence[Prediction]) -> Tree:
    """Category to task to questions."""
    return by_category(parts_of(predictions, "ovo_task"))


def by_category(tasks: Mapping[str, Tree]) -> dict[str, Tree]:
    """Figures of tasks under their categories; a task of no known category stands alone."""
    known = {task: category for category, names in CATEGORIES.items() for task in names}
    tree: dict[str, dict[str, Tree]] = {}
    for task, part in tasks.items():
        tree.setdefault(known.get(task, task), {})[task] = part
    return dict(tree)

"""VideoMathQA: five-way questions, and their two-way parts, which are right only together.

One file of EasyVideoR1 holds both; averaging over all of its rows would be neither figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vrleval.aggregate import counted, split_by
from vrleval.intervals import Unit
from vrleval.rows import option_list
from vrleval.types import Prediction

if TYPE_CHECKING:
    from vrleval.rows import Row


NUM_BINARY_OPTIONS = 2


def only_choices(rows: list[Row]) -> list[Row]:
    """The five-way questions of a file."""
    return [row for row in rows if not _is_binary(row)]


def only_binaries(rows: list[Row]) -> list[Row]:
    """The two-way parts of a file, each with its question as the unit that is scored."""
    found = [row for row in rows if _is_binary(row)]
    for row in found:
        row["unit"] = str(row.get("question_id") or row.get("id"))
    return found


def _is_binary(row: Row) -> bool:
    return len(option_list(row.get("options"))) == NUM_BINARY_OPTIONS


def by_field(predictions: Sequence[Prediction], field: str) -> dict[str, list[Unit]]:
    """Questions with all of their binaries right, by the value of a field."""
    return {name: all_binaries_right(group) for name, group in split_by(predictions, field).items()}


def all_binaries_right(predictions: Sequence[Prediction]) -> list[Unit]:
    """One unit a question: 1 if every binary of it is right, else 0."""
    right: dict[str, bool] = {}
    clusters: dict[str, str] = {}
    for prediction in counted(predictions):
        name = prediction.unit or prediction.key
        right[name] = right.get(name, True) and (prediction.score or 0.0) >= 1.0
        clusters.setdefault(name, prediction.video or name)
    return [Unit(float(value), clusters[name]) for name, value in right.items()]

"""VideoMathQA, multi-binary: a question is right only if all its two-way parts are."""

from __future__ import annotations

from collections.abc import Sequence

from vrleval.aggregate import counted
from vrleval.intervals import Unit
from vrleval.types import Prediction


def all_binaries_right(predictions: Sequence[Prediction]) -> list[Unit]:
    """One unit a question: 1 if every binary of it is right, else 0."""
    right: dict[str, bool] = {}
    clusters: dict[str, str] = {}
    for prediction in counted(predictions):
        name = prediction.unit or prediction.key
        right[name] = right.get(name, True) and (prediction.score or 0.0) >= 1.0
        clusters.setdefault(name, prediction.video or name)
    return [Unit(float(value), clusters[name]) for name, value in right.items()]

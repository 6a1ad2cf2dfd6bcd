"""From predictions to figures: what is averaged over what, for each benchmark's own rule.

A rule turns predictions into a tree of units (`intervals.Tree`); value and interval follow from the tree.
Every failure is in the tree with 0; only what waits for a judge or a simulator is left out.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from vrldata.errors import BenchmarkError, nearest
from vrleval.intervals import Tree, Unit, bootstrap_interval, num_units, tree_mean, wilson_interval
from vrleval.types import FAILED, UNSCORED, Benchmark, BenchmarkResult, Figure, Prediction

RECALL_THRESHOLDS = (0.3, 0.5, 0.7)

Rule = Callable[[Sequence[Prediction]], Tree]


def figure(name: str, tree: Tree) -> Figure:
    """Value and 95 % interval: Wilson for a plain mean of right and wrong, else the clustered bootstrap."""
    value = tree_mean(tree)
    if value is None:
        return Figure(name=name, value=None)
    total = num_units(tree)
    if not isinstance(tree, Mapping) and _independent_and_binary(tree):
        low, high = wilson_interval(value * total, total)
        return Figure(name=name, value=value, low=low, high=high, num_units=total, interval="wilson")
    low, high = bootstrap_interval(tree)
    return Figure(name=name, value=value, low=low, high=high, num_units=total, interval="bootstrap")


def _independent_and_binary(units: Sequence[Unit]) -> bool:
    clusters = {unit.cluster for unit in units}
    return len(clusters) == len(units) and all(unit.value in (0.0, 1.0) for unit in units)


def counted(predictions: Iterable[Prediction]) -> list[Prediction]:
    """The predictions of every denominator: all but those that wait for a judge or a simulator."""
    return [prediction for prediction in predictions if prediction.status not in UNSCORED]


def units_of(predictions: Iterable[Prediction], part: str | None = None) -> list[Unit]:
    """One unit a question; `part` takes that measure instead of the score. What is missing counts 0."""
    return [
        Unit(
            float(prediction.parts.get(part, 0.0) if part else prediction.score or 0.0),
            prediction.video or prediction.key,
        )
        for prediction in counted(predictions)
    ]


def split_by(predictions: Iterable[Prediction], field: str) -> dict[str, list[Prediction]]:
    """Predictions by the value of a group field, in order of appearance; without the field not at all.

    A value that lists several names (` | ` between them) counts in each.
    """
    found: dict[str, list[Prediction]] = {}
    for prediction in predictions:
        value = prediction.groups.get(field)
        if value:
            for name in value.split(" | "):
                found.setdefault(name, []).append(prediction)
    return found


UNLABELLED = "unlabelled"
"""Part of an unweighted mean for the questions without the field that the others are split by."""


def parts_of(predictions: Sequence[Prediction], field: str) -> dict[str, Tree]:
    """Units by the value of a group field; questions without one are a part of their own, never left out."""
    parts: dict[str, Tree] = {name: units_of(group) for name, group in split_by(predictions, field).items()}
    unlabelled = units_of(one for one in predictions if not one.groups.get(field))
    return {**parts, UNLABELLED: unlabelled} if parts and unlabelled else parts


def micro(predictions: Sequence[Prediction]) -> Tree:
    """Every question counts alike."""
    return units_of(predictions)


def macro_over(field: str) -> Rule:
    """Every value of `field` counts alike, however many questions it has."""

    def rule(predictions: Sequence[Prediction]) -> Tree:
        # without labels there is no macro average; the micro average is then the honest figure
        return parts_of(predictions, field) or units_of(predictions)

    return rule


def part_rule(part: str) -> Rule:
    """The mean of a measure over the questions that it is defined for."""

    def rule(predictions: Sequence[Prediction]) -> Tree:
        return units_of(_defined_for(predictions, part), part)

    return rule


def _defined_for(predictions: Sequence[Prediction], part: str) -> list[Prediction]:
    from vrleval.benchmarks.stvg import has_boxes

    return [one for one in predictions if part not in SPATIAL_PARTS or has_boxes(one.answer)]


def find_rule(name: str) -> Rule:
    """The rule of a headline: `micro`, `macro:<field>`, `part:<measure>`, or a benchmark's own.

    Raises:
        BenchmarkError: no such rule.
    """
    from vrleval.benchmarks import HEADLINES

    if name == "micro":
        return micro
    if name.startswith("part:"):
        return part_rule(name.removeprefix("part:"))
    if name.startswith("macro:"):
        return macro_over(name.removeprefix("macro:"))
    if name in HEADLINES:
        return HEADLINES[name]
    known = ["micro", "macro:<field>", "part:<measure>", *HEADLINES]
    raise BenchmarkError(f"headline {name!r}: unknown; known: {', '.join(known)}.{nearest(name, known)}")


def summarise(benchmark: Benchmark, predictions: Sequence[Prediction]) -> BenchmarkResult:
    """All figures of one benchmark from its predictions, failures included."""
    from vrleval.guards import warnings_for

    statuses = Counter(prediction.status for prediction in predictions)
    waiting = sum(statuses[status] for status in UNSCORED)
    failed = sum(statuses[status] for status in FAILED)
    headline = figure(benchmark.headline, find_rule(benchmark.headline)(predictions))
    if waiting:
        # a headline over the questions that happened to need no judge would be another benchmark
        headline = Figure(name=headline.name, value=None, num_units=headline.num_units)
    total = len(predictions)
    result = BenchmarkResult(
        benchmark=benchmark.name,
        title=benchmark.title,
        metric=benchmark.metric,
        headline=headline,
        figures=tuple(_figures(benchmark, predictions)),
        groups=_group_tables(benchmark, predictions),
        statuses={name: statuses[name] for name in sorted(statuses)},
        num_questions=total,
        num_expected=benchmark.num_questions,
        num_failed=failed,
        coverage=(total - failed) / total if total else 0.0,
        visual_tokens=_visual_tokens(predictions),
    )
    return _with_warnings(result, warnings_for(benchmark, predictions, result))


def _with_warnings(result: BenchmarkResult, warnings: Sequence[str]) -> BenchmarkResult:
    import dataclasses

    return dataclasses.replace(result, warnings=tuple(warnings))


def _figures(benchmark: Benchmark, predictions: Sequence[Prediction]) -> list[Figure]:
    from vrleval.benchmarks import FURTHER_FIGURES

    figures = [figure("micro", micro(predictions))]
    strict = [
        Unit(float(prediction.strict or 0.0), prediction.video or prediction.key)
        for prediction in counted(predictions)
    ]
    figures.append(figure("strict (answer tag only)", strict))
    for name, part in MEASURES.get(benchmark.metric, {}).items():
        figures.extend(measure_figures(name, part_rule(part)(predictions)))
    for name, rule in FURTHER_FIGURES.get(benchmark.name, {}).items():
        figures.append(figure(name, rule(predictions)))
    return [item for item in figures if item.value is not None]


MEASURES: Mapping[str, Mapping[str, str]] = {
    "tiou": {"tIoU": "iou"},
    "stvg": {"tIoU": "tiou", "sIoU": "siou", "vIoU": "viou"},
}
SPATIAL_PARTS = frozenset({"siou", "viou"})
"""Measures that only questions with true boxes have."""

"""Metric to the measures reported beside it: name in tables to name in `Prediction.parts`."""


def measure_figures(name: str, units: Tree) -> list[Figure]:
    """Mean of a measure over all questions, and its recall at 0.3, 0.5 and 0.7 (at least)."""
    figures = [figure(f"m_{name}", units)]
    assert not isinstance(units, Mapping)
    for threshold in RECALL_THRESHOLDS:
        reached = [Unit(float(unit.value >= threshold - 1e-9), unit.cluster) for unit in units]
        figures.append(figure(f"{name}@{threshold}", reached))
    return figures


def _group_tables(benchmark: Benchmark, predictions: Sequence[Prediction]) -> dict[str, tuple[Figure, ...]]:
    from vrleval.benchmarks import JOINT_TABLES

    tables: dict[str, tuple[Figure, ...]] = {}
    for field in dict.fromkeys([*benchmark.groups, "problem_type"]):
        if field == "problem_type":
            groups: dict[str, list[Prediction]] = {}
            for prediction in predictions:
                groups.setdefault(prediction.problem_type or "unknown", []).append(prediction)
        else:
            groups = split_by(predictions, field)
        if groups and (len(groups) > 1 or field != "problem_type"):
            tables[field] = tuple(figure(name, units_of(group)) for name, group in sorted(groups.items()))
    if benchmark.name in JOINT_TABLES:
        for field in benchmark.groups:
            units = JOINT_TABLES[benchmark.name](predictions, field)
            if units:
                tables[f"{field}, scored together"] = tuple(
                    figure(name, units[name]) for name in sorted(units)
                )
    return tables


def _visual_tokens(predictions: Sequence[Prediction]) -> dict[str, float]:
    counts = [prediction.num_visual_tokens for prediction in predictions if prediction.num_visual_tokens]
    if not counts:
        return {}
    return {
        "min": float(min(counts)),
        "median": float(statistics.median(counts)),
        "max": float(max(counts)),
    }

"""Every aggregate of the shared vectors, through the rules that reports use."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.conftest import shared_missing, shared_root
from tests.eval.examples import make_prediction
from vrleval.aggregate import find_rule, summarise
from vrleval.benchmarks import ovobench, videomme_v2, videommmu, vsibench
from vrleval.intervals import Unit, tree_mean
from vrleval.types import UNSCORED, Benchmark, Prediction


def vectors() -> list[dict[str, Any]]:
    path = shared_root() / "vectors" / "eval.json"
    if shared_missing() or not path.is_file():
        return []
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["aggregate_vectors"]
    return found


def percent(tree: Any) -> float:
    value = tree_mean(tree)
    assert value is not None
    return 100 * value


def videomathqa_mbin(given: Mapping[str, Any]) -> dict[str, float]:
    predictions = []
    for name, right in given.items():
        if name.startswith("binary_correct"):
            unit = given["question_id" + name.removeprefix("binary_correct")]
            predictions += [
                make_prediction(f"{unit}-{index}", float(value), unit=unit)
                for index, value in enumerate(right)
            ]
    return {"mbin": percent(find_rule("videomathqa_mbin")(predictions))}


def videomme_v2_group(given: list[Mapping[str, Any]]) -> dict[str, list[float]]:
    return {
        "group_scores": [
            videomme_v2.group_score(group["type"], group.get("structure", ""), group["correct"])
            for group in given
        ]
    }


def failures_in_denominator(given: Mapping[str, int]) -> dict[str, float]:
    statuses = {"correct": ("scored", 1.0), "wrong": ("scored", 0.0)}
    predictions: list[Prediction] = []
    for name, count in given.items():
        if name == "n_total":
            continue
        status, score = statuses.get(name, (name, 0.0))
        predictions += [make_prediction(f"{name}{i}", score, status=status) for i in range(count)]
    assert len(predictions) == given["n_total"]
    result = summarise(Benchmark(name="demo", title="demo"), predictions)
    accuracy = next(figure.value for figure in result.figures if figure.name == "micro")
    assert accuracy is not None
    # a headline is held back while some answers wait for their judge
    assert result.headline.value == (None if set(given) & UNSCORED else accuracy)
    return {"accuracy": accuracy, "coverage": result.coverage, "n_failed": result.num_failed}


def ovo_overall(given: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    tree = ovobench.by_category(
        {task: [Unit(value, task)] for tasks in given.values() for task, value in tasks.items()}
    )
    figures = {category: tree_mean(part) for category, part in tree.items()}
    assert set(figures) == set(given)
    return {**{name: value or 0.0 for name, value in figures.items()}, "overall": tree_mean(tree) or 0.0}


def delta_knowledge(given: Mapping[str, float]) -> dict[str, float]:
    return {"delta_knowledge": videommmu.delta_knowledge(given["acc_before"], given["acc_after"])}


def vsi_overall(given: Mapping[str, Any]) -> dict[str, float]:
    tasks: dict[str, Any] = {}
    for name, value in given.items():
        parts = value if isinstance(value, Mapping) else {"": value}
        tasks |= {f"{name}_{part}".strip("_"): float(share) for part, share in parts.items()}
    figures = {_official(name): [Unit(value, name)] for name, value in tasks.items()}
    return {"overall": tree_mean(vsibench.nest_directions(figures)) or 0.0}


def _official(task: str) -> str:
    """The benchmark's own name of a relative direction's difficulty; other tasks as they are called."""
    found = re.fullmatch(r".*dir(?:ection)?s?_(easy|medium|hard)", task)
    return f"object_rel_direction_{found.group(1)}" if found else task


KINDS: dict[str, Callable[[Any], Mapping[str, Any]]] = {
    "videomathqa_mbin": videomathqa_mbin,
    "videomme_v2_group": videomme_v2_group,
    "failures_in_denominator": failures_in_denominator,
    "ovo_overall": ovo_overall,
    "delta_knowledge": delta_knowledge,
    "vsi_overall": vsi_overall,
}


@pytest.mark.skipif(not vectors(), reason=shared_missing() or "no vectors/eval.json")
@pytest.mark.parametrize("vector", vectors(), ids=lambda vector: f"{vector['id']}-{vector['name']}")
def test_aggregate_is_as_the_vector_says(vector: dict[str, Any]) -> None:
    name = vector["name"].replace("vsibench", "vsi").replace("vsi_bench", "vsi")
    assert name in KINDS, f"no check for aggregates of kind {name!r}"
    found = KINDS[name](vector["input"])
    for figure, expected in vector["expected"].items():
        assert found[figure] == pytest.approx(expected, abs=1e-5), vector["reason"]


def test_what_fails_counts_as_wrong_and_what_waits_for_a_judge_does_not_count() -> None:
    failing = failures_in_denominator(
        {
            "n_total": 10,
            "correct": 4,
            "wrong": 2,
            "unparsed": 1,
            "truncated": 1,
            "decode_failed": 1,
            "engine_failed": 1,
        }
    )
    assert failing == {"accuracy": 0.4, "coverage": 0.8, "n_failed": 2}
    waiting = failures_in_denominator({"n_total": 10, "correct": 6, "wrong": 2, "needs_judge": 2})
    assert waiting["accuracy"] == 0.75


@pytest.mark.parametrize(
    "given",
    [
        {"counting": 0.6, "dir_easy": 0.3, "dir_medium": 0.6, "dir_hard": 0.9},
        {"object_counting": 0.6, "rel_direction": {"easy": 0.3, "medium": 0.6, "hard": 0.9}},
        {"object_counting": 0.6, "object_rel_direction_easy": 0.5, "object_rel_direction_hard": 0.7},
    ],
)
def test_difficulties_of_a_direction_are_one_task_whatever_they_are_called(given: dict[str, Any]) -> None:
    assert vsi_overall(given)["overall"] == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("group_type", "structure", "correct", "percent"),
    [
        *[("relevance", "", [1] * k + [0] * (4 - k), (k / 4) ** 2 * 100) for k in range(5)],
        ("relevance", "", [0, 1, 0, 1], 25.0),
        ("logic", "[1,2,3,4]", [0, 1, 1, 1], 0.0),
        ("logic", "[1, 2, 3, 4]", [1, 1, 1, 0], 56.25),
        ("logic", "[1,[2,3],4]", [1, 0, 0, 1], 100 / 12),
        ("logic", "[1,[2,3],4]", [0, 1, 1, 1], 0.0),
        ("logic", "[1,[2,3],4]", [1, 1, 0, 1], 400 / 12),
        ("logic", "[1,[2,3],4]", [1, 1, 1, 0], 700 / 12),
        ("logic", "[[1,2],3,4]", [1, 0, 1, 1], 10.0),
        ("logic", "[[1,2],3,4]", [0, 0, 1, 1], 0.0),
        ("logic", "[[1,2],3,4]", [1, 1, 1, 0], 50.0),
        ("logic", "[[1,2],3,4]", [1, 1, 1, 1], 100.0),
    ],
)
def test_credit_of_a_group(group_type: str, structure: str, correct: list[int], percent: float) -> None:
    assert videomme_v2.group_score(group_type, structure, correct) == pytest.approx(percent)


def test_a_missing_member_of_a_group_is_wrong() -> None:
    assert videomme_v2.group_score("relevance", "", [1, 1, 1]) == 56.25
    assert videomme_v2.group_score("logic", "[1, 2, 3, 4]", [1, 1]) == 25.0


def test_group_scores_follow_the_order_of_the_questions_not_of_the_answers() -> None:
    values = {"001-1": 1.0, "001-2": 0.0, "001-3": 1.0, "001-4": 1.0}
    groups = {"group_type": "logic", "group_structure": "[1,2,3,4]"}
    predictions = [
        make_prediction(name, values[name], unit="001", groups=groups) for name in reversed(values)
    ]
    assert tree_mean(find_rule("videomme_v2")(predictions)) == pytest.approx(0.0625)


def test_unknown_kinds_of_headline_are_refused() -> None:
    from vrldata.errors import BenchmarkError

    with pytest.raises(BenchmarkError, match=re.escape("Did you mean 'vsibench'?")):
        find_rule("vsibensh")

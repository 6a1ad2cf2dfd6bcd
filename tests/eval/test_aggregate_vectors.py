"""Every aggregate of the shared vectors, through the rules that reports use."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.conftest import shared_missing, shared_root
from tests.eval.examples import make_prediction
from vrldata.errors import BenchmarkError
from vrleval.aggregate import find_rule, summarise
from vrleval.benchmarks import ovobench, videomme_v2, videommmu, vsibench
from vrleval.benchmarks.table import find_benchmark
from vrleval.intervals import Unit, tree_mean
from vrleval.types import STATUSES, UNSCORED, Benchmark, Prediction


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


def videomathqa_mbin(given: Any) -> dict[str, float]:
    predictions = []
    for row in given if isinstance(given, list) else [given]:
        for name, right in row.items():
            if not isinstance(right, list):
                continue
            unit = row.get("question_id" + name.removeprefix("binary_correct"), name)
            predictions += [
                make_prediction(f"{unit}-{len(predictions) + index}", float(value), unit=unit)
                for index, value in enumerate(right)
            ]
    rules = {"mbin": find_rule("videomathqa_mbin"), "micro": find_rule("micro")}
    return {name: percent(rule(predictions)) for name, rule in rules.items()}


def videomme_v2_group(given: Any) -> dict[str, Any]:
    groups = [given] if isinstance(given, Mapping) else given
    scores = []
    for group in groups:
        named = {name.removeprefix("group_"): value for name, value in group.items()}
        structure = named.get("structure") or ""
        text = structure if isinstance(structure, str) else json.dumps(structure)
        scores.append(videomme_v2.group_score(named["type"], text, named["correct"]))
    mean = sum(scores) / len(scores)
    return {"group_scores": scores, "group_score": scores[0], "overall": mean, "mean": mean}


def failures_in_denominator(given: Mapping[str, int]) -> dict[str, float]:
    statuses = {"correct": ("scored", 1.0), "wrong": ("scored", 0.0), "incorrect": ("scored", 0.0)}
    predictions: list[Prediction] = []
    for name, count in given.items():
        if name == "n_total":
            continue
        status, score = statuses.get(name, (name, None if name in UNSCORED else 0.0))
        status = {"failed": "engine_failed"}.get(status, status)
        assert status in STATUSES, f"no status {status!r}"
        predictions += [make_prediction(f"{name}{i}", score, status=status) for i in range(count)]
    assert len(predictions) == given.get("n_total", len(predictions))
    result = summarise(Benchmark(name="demo", title="demo"), predictions)
    accuracy = next(figure.value for figure in result.figures if figure.name == "micro")
    assert accuracy is not None
    # a headline is held back while some answers wait for their judge
    assert result.headline.value == (None if set(given) & UNSCORED else accuracy)
    rates = {f"{name}_rate": count / len(predictions) for name, count in result.statuses.items()}
    counts = {"n_failed": result.num_failed, "n_total": result.num_questions, **result.statuses}
    return {"accuracy": accuracy, "coverage": result.coverage, **rates, **counts}


def ovo_overall(given: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    tree = ovobench.by_category(
        {task: [Unit(value, task)] for tasks in given.values() for task, value in tasks.items()}
    )
    figures = {category: tree_mean(part) or 0.0 for category, part in tree.items()}
    assert set(figures) == set(given)
    return {**figures, "overall": tree_mean(tree) or 0.0, "total": tree_mean(tree) or 0.0}


def delta_knowledge(given: Mapping[str, float]) -> dict[str, float | None]:
    """None where everything was right before."""
    try:
        return {"delta_knowledge": videommmu.delta_knowledge(given["acc_before"], given["acc_after"])}
    except BenchmarkError:
        return {"delta_knowledge": None}


def macro_over_tasks(given: Mapping[str, Any]) -> dict[str, Any]:
    """An unweighted mean over tasks: figures of tasks, or the answers that were right in each."""
    predictions = [
        make_prediction(f"{task}-{index}", float(value), groups={"task": task})
        for task, values in given.items()
        for index, value in enumerate(values if isinstance(values, list) else [values])
    ]
    macro, micro = (tree_mean(find_rule(rule)(predictions)) for rule in ("macro:task", "micro"))
    return {"micro": micro, **dict.fromkeys(("macro", "m_avg", "overall", "headline"), macro)}


def recall_at_thresholds(given: Any) -> dict[str, Any]:
    """Mean and recall of temporal IoU; null is an answer that nobody could read."""
    values = given if isinstance(given, list) else next(iter(given.values()))
    predictions = [
        make_prediction(f"{index}", 0.0, status="unparsed")
        if value is None
        else make_prediction(f"{index}", value, parts={"iou": value})
        for index, value in enumerate(values)
    ]
    result = summarise(find_benchmark("charades_sta"), predictions)
    figures = {figure.name.replace("tIoU@", "r1@"): figure.value for figure in result.figures}
    return {**figures, **dict.fromkeys(("miou", "m_tiou", "mIoU"), result.headline.value)}


def vsi_overall(given: Any) -> dict[str, Any]:
    if isinstance(given, list):
        given = {row["task"]: row["score"] for row in given}
    tasks: dict[str, Any] = {}
    for name, value in given.items():
        parts = value if isinstance(value, Mapping) else {"": value}
        tasks |= {f"{name}_{part}".strip("_"): share for part, share in parts.items()}
    figures = {
        _official(name): [
            Unit(float(share), name) for share in (value if isinstance(value, list) else [value])
        ]
        for name, value in tasks.items()
    }
    tree = vsibench.nest_directions(dict(figures))
    found = {name: tree_mean(part) or 0.0 for name, part in tree.items()}
    directions = [name for name in given if "dir" in name] + ["rel_direction", "relative_direction"]
    means = {re.sub("_(easy|medium|hard)$", "", name): found.get(vsibench.DIRECTION) for name in directions}
    return {**found, **means, "overall": tree_mean(tree) or 0.0}


def _official(task: str) -> str:
    """The benchmark's own name of a relative direction's difficulty; other tasks as they are called."""
    found = re.fullmatch(r".*dir(?:ection)?s?_?(easy|medium|hard)", task)
    return f"object_rel_direction_{found.group(1)}" if found else task


KINDS: dict[str, Callable[[Any], Mapping[str, Any]]] = {
    "videomathqa_mbin": videomathqa_mbin,
    "videomme_v2_group": videomme_v2_group,
    "failures_in_denominator": failures_in_denominator,
    "ovo_overall": ovo_overall,
    "delta_knowledge": delta_knowledge,
    "vsi": vsi_overall,
    "mlvu": macro_over_tasks,
    "mvbench": macro_over_tasks,
    "tempcompass": macro_over_tasks,
    "charades": recall_at_thresholds,
}
"""What an aggregate's name is, or begins with, to how the project computes it."""


def kind_of(name: str) -> Callable[[Any], Mapping[str, Any]]:
    found = [kind for kind in KINDS if name.startswith(kind)]
    assert found, f"no check for aggregates of kind {name!r}"
    return KINDS[found[0]]


@pytest.mark.skipif(not vectors(), reason=shared_missing() or "no vectors/eval.json")
@pytest.mark.parametrize("vector", vectors(), ids=lambda vector: f"{vector.get('id')}-{vector['name']}")
def test_aggregate_is_as_the_vector_says(vector: dict[str, Any]) -> None:
    found = kind_of(vector["name"])(vector["input"])
    for figure, expected in vector["expected"].items():
        assert figure in found, f"no figure {figure!r} among {', '.join(found)}"
        wanted = expected if expected is None else pytest.approx(expected, abs=vector.get("tol") or 1e-5)
        assert found[figure] == wanted, vector.get("reason")


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
    wanted = {"accuracy": 0.4, "coverage": 0.8, "n_failed": 2, "truncated_rate": 0.1}
    assert {name: failing[name] for name in wanted} == wanted
    waiting = failures_in_denominator({"n_total": 10, "correct": 6, "wrong": 2, "needs_judge": 2})
    assert waiting["accuracy"] == 0.75


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        (
            "videomathqa_mbin",
            [{"question_id": "q", "binary_correct": [1, 0]}, {"question_id": "r", "binary_correct": [1, 1]}],
            {"mbin": 50, "micro": 75},
        ),
        ("videomme_v2_group", [{"group_type": "relevance", "correct": [1, 1, 1]}], {"group_score": 56.25}),
        ("delta_knowledge", {"acc_before": 50, "acc_after": 40}, {"delta_knowledge": -20}),
        ("delta_knowledge", {"acc_before": 100, "acc_after": 100}, {"delta_knowledge": None}),
        ("mlvu_m_avg", {"plotQA": [1, 1, 1, 1], "count": [1, 0]}, {"m_avg": 0.75, "micro": 5 / 6}),
        ("tempcompass_overall", {"yes_no": 0.5, "captioning": 0.1}, {"overall": 0.3}),
        (
            "charades_recall",
            [0.3, 0.5, None, 0.8],
            {"miou": 0.4, "r1@0.3": 0.75, "r1@0.5": 0.5, "r1@0.7": 0.25},
        ),
        (
            "vsibench_overall",
            [{"task": "counting", "score": 0.6}, {"task": "room", "score": 0.2}],
            {"overall": 0.4},
        ),
    ],
)
def test_aggregates_by_hand(name: str, given: Any, expected: dict[str, Any]) -> None:
    test_aggregate_is_as_the_vector_says({"name": name, "input": given, "expected": expected})


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


def test_a_group_counts_for_the_field_of_its_last_question() -> None:
    predictions = [
        make_prediction(
            f"001-{n}",
            float(n < 4),
            unit="001",
            groups={"group_type": "relevance", "level": "1" if n < 4 else "3"},
        )
        for n in range(1, 5)
    ]
    found = videomme_v2.by_field(predictions, "level")
    assert {name: tree_mean(units) for name, units in found.items()} == {"3": pytest.approx(0.5625)}
    table = summarise(
        Benchmark(name="videomme_v2", title="v2", headline="videomme_v2", groups=("level",)), predictions
    ).groups
    assert [(one.name, one.value) for one in table["level, scored together"]] == [("3", 0.5625)]
    assert [(one.name, one.value) for one in table["level"]] == [("1", 1.0), ("3", 0.0)]


def test_binaries_of_a_question_count_together_in_its_category() -> None:
    predictions = [
        make_prediction(f"{unit}{n}", float(right), unit=unit, groups={"category": category})
        for unit, category, all_right in (("q", "geometry", [1, 0]), ("r", "counting", [1, 1]))
        for n, right in enumerate(all_right)
    ]
    benchmark = Benchmark(
        name="videomathqa_mbin", title="m", headline="videomathqa_mbin", groups=("category",)
    )
    table = summarise(benchmark, predictions).groups["category, scored together"]
    assert [(one.name, one.value) for one in table] == [("counting", 1.0), ("geometry", 0.0)]


@pytest.mark.parametrize("rule", ["macro:question_type", "vsibench"])
def test_questions_without_a_label_stay_in_an_unweighted_mean(rule: str) -> None:
    predictions = [
        make_prediction("a", 1.0, groups={"question_type": "route_planning"}),
        make_prediction("b", 0.0, groups={"question_type": ""}),
        make_prediction("c", 0.0, status="decode_failed"),
    ]
    assert tree_mean(find_rule(rule)(predictions)) == 0.5
    warnings = summarise(Benchmark(name="demo", title="demo", headline=rule), predictions).warnings
    assert any("2 questions carry no question_type" in one for one in warnings) == rule.startswith("macro")


def test_unknown_kinds_of_headline_are_refused() -> None:
    with pytest.raises(BenchmarkError, match=re.escape("Did you mean 'vsibench'?")):
        find_rule("vsibensh")

"""Figures: what is averaged over what, what stays in the denominator, and how wide the intervals are."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.eval.examples import make_prediction
from vrleval.aggregate import figure, summarise
from vrleval.intervals import Unit, bootstrap_interval, paired_difference, tree_mean, wilson_interval
from vrleval.types import Benchmark, Prediction

DEMO = Benchmark(name="demo", title="demo")


def predictions(scores: list[float], **values: object) -> list[Prediction]:
    return [make_prediction(f"q{index}", score, **values) for index, score in enumerate(scores)]  # type: ignore[arg-type]


def test_macro_counts_every_group_alike() -> None:
    rows = predictions([1.0, 1.0, 1.0, 1.0], groups={"task": "a"})
    rows += [make_prediction("b0", 0.0, groups={"task": "b"})]
    result = summarise(Benchmark(name="demo", title="demo", headline="macro:task", groups=("task",)), rows)
    assert result.headline.value == pytest.approx(0.5)
    assert {item.name: item.value for item in result.figures}["micro"] == pytest.approx(0.8)
    assert [(item.name, item.value) for item in result.groups["task"]] == [("a", 1.0), ("b", 0.0)]


def test_a_macro_headline_without_labels_is_the_micro_average_and_says_so() -> None:
    result = summarise(Benchmark(name="demo", title="demo", headline="macro:task"), predictions([1.0, 0.0]))
    assert result.headline.value == pytest.approx(0.5)
    assert any("carry no task" in warning for warning in result.warnings)


def test_questions_that_wait_for_a_judge_are_in_no_mean_and_hide_the_headline() -> None:
    rows = [*predictions([1.0, 0.0]), make_prediction("open", None, status="needs_judge")]
    result = summarise(DEMO, rows)
    assert result.headline.value is None
    assert {item.name: item.value for item in result.figures}["micro"] == pytest.approx(0.5)


@pytest.mark.parametrize(
    "status", ["unparsed", "ambiguous", "empty", "truncated", "decode_failed", "engine_failed"]
)
def test_every_failure_counts_as_wrong(status: str) -> None:
    result = summarise(DEMO, [*predictions([1.0]), make_prediction("bad", 0.0, status=status)])
    assert result.headline.value == pytest.approx(0.5)


def test_a_value_that_names_several_groups_counts_in_each() -> None:
    row = make_prediction("q", 1.0, groups={"question_type": "ER | KIR"})
    result = summarise(Benchmark(name="demo", title="demo", groups=("question_type",)), [row])
    assert [item.name for item in result.groups["question_type"]] == ["ER", "KIR"]


def test_recall_counts_from_the_threshold_on() -> None:
    rows = [
        make_prediction(f"q{index}", value, parts={"iou": value})
        for index, value in enumerate([0.3 - 1e-16, 0.5, 0.69])
    ]
    result = summarise(Benchmark(name="demo", title="demo", metric="tiou", headline="part:iou"), rows)
    figures = {item.name: item.value for item in result.figures}
    assert figures["tIoU@0.3"] == pytest.approx(1.0)
    assert figures["tIoU@0.5"] == pytest.approx(2 / 3)
    assert figures["tIoU@0.7"] == pytest.approx(0.0)
    assert result.headline.value == pytest.approx((0.3 + 0.5 + 0.69) / 3)


def test_rows_without_true_boxes_are_in_the_temporal_figure_alone() -> None:
    with_boxes = make_prediction(
        "a", 0.5, answer='{"time": [0, 1], "boxes": {"0": [0, 0, 1, 1]}}', parts={"tiou": 1.0, "viou": 0.5}
    )
    without = make_prediction("b", 1.0, answer='{"time": [0, 1], "boxes": {}}', parts={"tiou": 1.0})
    unread = make_prediction("c", 0.0, status="unparsed", answer=with_boxes.answer)
    result = summarise(
        Benchmark(name="demo", title="demo", metric="stvg", headline="part:viou"),
        [with_boxes, without, unread],
    )
    assert result.headline.value == pytest.approx(0.25)
    assert {item.name: item.value for item in result.figures}["m_tIoU"] == pytest.approx(2 / 3)


def test_wilson_interval_by_hand() -> None:
    low, high = wilson_interval(1, 4)
    z2 = 1.959963984540054**2
    centre, half = (0.25 + z2 / 8) / (1 + z2 / 4), math.sqrt(z2 * (0.1875 / 4 + z2 / 64)) / (1 + z2 / 4)
    assert (low, high) == pytest.approx((centre - half, centre + half))


def test_a_cluster_of_like_answers_widens_the_interval() -> None:
    generator = np.random.default_rng(0)
    values = generator.integers(0, 2, 40)
    alone = [Unit(float(value), f"{video}-{copy}") for video, value in enumerate(values) for copy in range(5)]
    together = [Unit(float(value), str(video)) for video, value in enumerate(values) for _ in range(5)]
    narrow, wide = bootstrap_interval(alone), bootstrap_interval(together)
    assert wide[1] - wide[0] > 1.8 * (narrow[1] - narrow[0])


def test_the_bootstrap_interval_covers_about_95_percent() -> None:
    generator = np.random.default_rng(1)
    covered = 0
    for trial in range(200):
        units = [Unit(float(value), str(index)) for index, value in enumerate(generator.random(60) < 0.7)]
        low, high = bootstrap_interval(units, seed=trial, num_resamples=400)
        covered += low <= 0.7 <= high
    assert 180 <= covered <= 200


def test_a_plain_accuracy_has_a_wilson_interval_and_a_nested_one_a_bootstrap() -> None:
    units = [Unit(1.0, "a"), Unit(0.0, "b")]
    assert figure("plain", units).interval == "wilson"
    assert figure("clustered", [Unit(1.0, "a"), Unit(0.0, "a")]).interval == "bootstrap"
    nested = figure("nested", {"x": units, "y": {"z": [Unit(1.0, "c")]}})
    assert (nested.value, nested.interval, nested.num_units) == (0.75, "bootstrap", 3)


def test_parts_without_units_do_not_pull_a_mean_down() -> None:
    assert tree_mean({"a": [Unit(1.0, "v")], "b": []}) == 1.0
    assert tree_mean({"a": []}) is None


def test_a_paired_difference_sees_what_two_intervals_would_miss() -> None:
    generator = np.random.default_rng(2)
    difficulty = generator.random(300)
    pairs = [(float(value < 0.5), float(value < 0.55), f"v{index}") for index, value in enumerate(difficulty)]
    found = paired_difference(pairs)
    assert found is not None
    assert found.low > 0
    assert found.p_value < 0.01
    assert found.num_worse == 0
    assert found.value == pytest.approx(found.num_better / 300)


def test_equal_values_do_not_make_a_figure_certain() -> None:
    low, high = bootstrap_interval([Unit(0.4, "a")])
    assert low == pytest.approx(0.4 * 0.025)
    assert high == pytest.approx(1 - 0.6 * 0.025)
    low, high = bootstrap_interval([Unit(1.0, f"v{index}") for index in range(100)])
    assert (low, high) == (pytest.approx(0.025 ** (1 / 100)), 1.0)
    found = paired_difference([(0.0, 1.0, "only")])
    assert found is not None
    assert found.low < 0 < found.high


def test_no_difference_has_a_high_p_value() -> None:
    pairs = [(float(index % 2), float((index + 1) % 2), f"v{index}") for index in range(100)]
    found = paired_difference(pairs)
    assert found is not None
    assert found.value == 0.0
    assert found.p_value > 0.5


def test_a_result_below_chance_is_doubted() -> None:
    options = ("A. x", "B. y")
    rows = [make_prediction(f"q{i}", float(i % 10 == 0), options=options) for i in range(100)]
    warnings = summarise(DEMO, rows).warnings
    assert any("below chance (50.0)" in warning for warning in warnings)


def test_many_unread_answers_are_pointed_out() -> None:
    rows = [*predictions([1.0] * 9), make_prediction("bad", 0.0, status="unparsed")]
    assert any("10.0 % of the answers could not be read" in text for text in summarise(DEMO, rows).warnings)

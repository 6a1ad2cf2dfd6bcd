"""Dynamic sampling, pass rates and curriculum."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrldata.errors import ConfigError
from vrltrain.filters import (
    DynamicSampling,
    curriculum_order,
    curriculum_weights,
    has_signal,
    keep_groups,
    pass_rate,
    pass_rate_predicate,
    success_threshold,
)


def test_group_needs_two_scored_rows_that_differ() -> None:
    assert has_signal([1.0, 0.0])
    assert not has_signal([1.0, None])
    assert not has_signal([None, None])
    assert not has_signal([0.3, 0.3 + 1e-9])


def test_rule_reads_the_named_component() -> None:
    rows = [{"accuracy": 1.0, "format": 0.0}, {"accuracy": 1.0, "format": 1.0}]
    assert not has_signal(rows)
    assert has_signal(rows, key="format")


def test_range_rule_looks_at_the_mean() -> None:
    groups = {"constant": [0.5, 0.5], "wrong": [0.0, 0.0], "rare": [0.02] + [0.0] * 7, "mixed": [1.0, 0.0]}
    assert keep_groups(groups, rule="range") == ["constant", "mixed"]
    assert keep_groups(groups) == ["rare", "mixed"]


def test_unknown_rule_is_an_error() -> None:
    with pytest.raises(ConfigError, match="expected std or range"):
        has_signal([1.0, 0.0], rule="mean")


def test_surplus_groups_serve_the_next_step() -> None:
    sampling: DynamicSampling[str] = DynamicSampling(max_tries=3)
    sampling.start_step()
    assert sampling.add([("flat", [0.0, 0.0]), ("also flat", [1.0, 1.0])]) == 0
    assert not sampling.enough(2)
    assert sampling.add([(name, [0.0, 1.0]) for name in "abc"]) == 3
    assert sampling.enough(2)
    assert sampling.metrics() == {
        "filter/kept_share": 0.6,
        "filter/generated_groups": 5.0,
        "filter/tries": 2.0,
        "filter/pending_groups": 3.0,
    }
    assert sampling.take(2) == ["a", "b"]
    sampling.start_step()
    assert sampling.pending == ["c"]
    assert not sampling.exhausted


def test_step_goes_on_with_what_it_has_when_its_tries_are_used() -> None:
    sampling: DynamicSampling[str] = DynamicSampling(max_tries=2)
    for _ in range(2):
        sampling.add([("flat", [0.0, 0.0])])
    assert sampling.exhausted
    assert sampling.take(4) == []


def test_pass_rate_counts_scored_responses_by_the_threshold_of_the_type() -> None:
    assert pass_rate([1.0, 0.6, None, 0.0], "multiple_choice") == (pytest.approx(1 / 3), 3)
    assert pass_rate([1.0, 0.6, None, 0.0], "temporal_grounding") == (pytest.approx(2 / 3), 3)
    assert pass_rate([1.0, 0.6], "temporal_grounding", threshold=0.7) == (0.5, 2)
    assert pass_rate([None], "multiple_choice") == (None, 0)
    assert success_threshold("regression") == 0.5


def test_predicate_is_open_at_both_ends_and_may_keep_the_unknown() -> None:
    assert pass_rate_predicate(0.1, 0.9) == "pass_rate > 0.1 AND pass_rate < 0.9"
    assert pass_rate_predicate(keep_unknown=True).endswith("OR pass_rate IS NULL)")
    with pytest.raises(ConfigError, match="need 0 <= low < high <= 1"):
        pass_rate_predicate(0.5, 0.5)


@given(rates=st.lists(st.none() | st.floats(0, 1), max_size=30), seed=st.integers(0, 100))
def test_curriculum_goes_from_easy_to_hard_and_loses_nobody(rates: list[float | None], seed: int) -> None:
    order = curriculum_order(rates, seed=seed)
    assert sorted(order) == list(range(len(rates)))
    assert order == curriculum_order(rates, seed=seed)
    buckets = [min(int(rates[row] * 5), 4) for row in order if rates[row] is not None]  # type: ignore[operator]
    assert buckets == sorted(buckets, reverse=True)


def test_curriculum_weights_move_from_easy_to_hard() -> None:
    early, late = (curriculum_weights([0.9, 0.2, None], progress) for progress in (0.0, 1.0))
    assert early[0] > early[1]
    assert late[0] < late[1]
    assert early[2] == pytest.approx((early[0] + early[1]) / 2)
    assert min(curriculum_weights([0.0], 0.0, width=0.01)) == 0.05

"""The rules by which groups carry signal, and dynamic sampling."""

from __future__ import annotations

import pytest

from vrldata.errors import ConfigError
from vrltrain.filters import DynamicSampling, has_signal, keep_groups


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

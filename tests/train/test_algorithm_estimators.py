"""Advantage estimators against loops over Python floats, and the properties that every one must have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.train import references
from vrldata.errors import ConfigError
from vrltrain.algorithms import ADVANTAGE_ESTIMATORS, EmaTaskStats, compute_advantages

Batch = dict[str, Any]


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    """Outcome rewards of 2 to 9 rows in three groups: uneven lengths, holes in the mask, rows not valid."""
    size = draw(st.integers(2, 9))
    width = draw(st.integers(1, 6))
    lengths = draw(st.lists(st.integers(1, width), min_size=size, max_size=size))
    level = st.sampled_from([0.0, 0.1, 0.55, 0.9, 1.0]) | st.floats(-2, 2, width=32)
    outcomes = draw(st.lists(level, min_size=size, max_size=size))
    mask = torch.tensor([[1.0] * n + [0.0] * (width - n) for n in lengths], dtype=torch.float64)
    for row, n in enumerate(lengths):
        hole = draw(st.integers(0, width))
        if hole < n - 1:  # a tool result inside the response
            mask[row, hole] = 0.0
    rewards = torch.zeros(size, width, dtype=torch.float64)
    for row, (n, value) in enumerate(zip(lengths, outcomes, strict=True)):
        rewards[row, n - 1] = value
    seed = draw(st.integers(0, 2**16))
    generator = torch.Generator().manual_seed(seed)
    return {
        "token_level_rewards": rewards,
        "response_mask": mask,
        "uid": draw(st.lists(st.sampled_from("pqr"), min_size=size, max_size=size)),
        "valid": torch.tensor(draw(st.lists(st.booleans(), min_size=size, max_size=size))),
        "values": torch.randn(size, width, generator=generator, dtype=torch.float64),
        "reward_baselines": torch.rand(size, generator=generator, dtype=torch.float64),
        "reward_format": torch.tensor(
            draw(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=size, max_size=size)),
            dtype=torch.float64,
        ),
        "task": draw(st.lists(st.sampled_from(["ocr", "math"]), min_size=size, max_size=size)),
    }


def compute(estimator: str, batch: Batch, **options: Any) -> Any:
    inputs = {name: batch[name] for name in ("token_level_rewards", "response_mask", "uid", "valid")}
    extra = {
        "gae": lambda: {"values": batch["values"]},
        "remax": lambda: {"reward_baselines": batch["reward_baselines"]},
        "ema_grpo": lambda: {"task": batch["task"], "state": EmaTaskStats()},
        "gdpo": lambda: {
            "reward_accuracy": batch["token_level_rewards"].nan_to_num().sum(-1),
            "reward_format": batch["reward_format"],
        },
    }
    inputs.update(extra.get(estimator, dict)())
    return compute_advantages(estimator, **inputs, **options)


def lists(batch: Batch) -> tuple[Any, ...]:
    return (
        batch["token_level_rewards"].tolist(),
        batch["response_mask"].tolist(),
        batch["uid"],
        batch["valid"].tolist(),
    )


def reference(estimator: str, batch: Batch) -> list[list[float]]:
    rewards, mask, uid, valid = lists(batch)
    components = [batch["token_level_rewards"].sum(-1).tolist(), batch["reward_format"].tolist()]
    plain: dict[str, Callable[[], list[list[float]]]] = {
        "grpo": lambda: references.grpo(rewards, mask, uid, valid),
        "dr_grpo": lambda: references.grpo(rewards, mask, uid, valid, "none"),
        "grpo_passk": lambda: references.grpo_passk(rewards, mask, uid, valid),
        "rloo": lambda: references.rloo(rewards, mask, uid, valid),
        "opo": lambda: references.opo(rewards, mask, uid, valid),
        "reinforce_plus_plus": lambda: references.reinforce_plus_plus(rewards, mask, valid, 1.0)[0],
        "reinforce_plus_plus_baseline": lambda: references.reinforce_plus_plus_baseline(
            rewards, mask, uid, valid
        ),
        "remax": lambda: references.remax(rewards, mask, valid, batch["reward_baselines"].tolist()),
        "gae": lambda: references.gae(rewards, mask, valid, batch["values"].tolist(), 1.0, 1.0)[0],
        "gdpo": lambda: references.gdpo(components, [1, 1], mask, uid, valid, "sequence"),
    }
    return plain[estimator]()


def assert_equal(actual: Tensor, expected: Any) -> None:
    torch.testing.assert_close(
        actual, torch.as_tensor(expected, dtype=actual.dtype).reshape(actual.shape), rtol=1e-7, atol=1e-7
    )


WITH_REFERENCE = [name for name in ADVANTAGE_ESTIMATORS if name != "ema_grpo"]


@pytest.mark.parametrize("estimator", WITH_REFERENCE)
@given(batch=batches())
@settings(max_examples=60, deadline=None)
def test_estimator_equals_a_plain_loop(estimator: str, batch: Batch) -> None:
    assert_equal(compute(estimator, batch).advantages, reference(estimator, batch))


@given(batch=batches(), later=st.floats(0.1, 2.0))
@settings(max_examples=60, deadline=None)
def test_ema_grpo_equals_a_plain_loop_over_two_steps(batch: Batch, later: float) -> None:
    rewards, mask, uid, valid = lists(batch)
    second = batch["token_level_rewards"] * later
    expected = references.ema_grpo([rewards, second.tolist()], mask, uid, valid, batch["task"])
    state = EmaTaskStats()
    for step, wanted in zip((batch["token_level_rewards"], second), expected, strict=True):
        inputs = {name: batch[name] for name in ("response_mask", "uid", "valid", "task")}
        result = compute_advantages("ema_grpo", token_level_rewards=step, state=state, **inputs)
        assert_equal(result.advantages, wanted)


@pytest.mark.parametrize("std", ["population", "batch", "none"])
@given(batch=batches())
@settings(max_examples=40, deadline=None)
def test_grpo_scales_equal_a_plain_loop(std: str, batch: Batch) -> None:
    assert_equal(compute("grpo", batch, std=std).advantages, references.grpo(*lists(batch), std))


@given(batch=batches(), gamma=st.floats(0.5, 1.0), lam=st.floats(0.0, 1.0))
@settings(max_examples=60, deadline=None)
def test_discounted_estimators_equal_a_plain_loop(batch: Batch, gamma: float, lam: float) -> None:
    rewards, mask, _, valid = lists(batch)
    advantages, goal = references.reinforce_plus_plus(rewards, mask, valid, gamma)
    result = compute("reinforce_plus_plus", batch, gamma=gamma)
    assert_equal(result.advantages, advantages)
    assert_equal(result.returns, goal)
    advantages, goal = references.gae(rewards, mask, valid, batch["values"].tolist(), gamma, lam)
    result = compute("gae", batch, gamma=gamma, lam=lam)
    assert_equal(result.advantages, advantages)
    assert_equal(result.returns, goal)


@given(batch=batches())
@settings(max_examples=40, deadline=None)
def test_gdpo_by_token_equals_a_plain_loop(batch: Batch) -> None:
    _, mask, uid, valid = lists(batch)
    components = [batch["token_level_rewards"].sum(-1).tolist(), batch["reward_format"].tolist()]
    expected = references.gdpo(components, [2.0, 0.5], mask, uid, valid, "token")
    assert_equal(compute("gdpo", batch, weights=[2.0, 0.5], batch_norm="token").advantages, expected)


@pytest.mark.parametrize("estimator", list(ADVANTAGE_ESTIMATORS))
@given(batch=batches())
@settings(max_examples=30, deadline=None)
def test_nothing_outside_the_mask_reaches_a_value(estimator: str, batch: Batch) -> None:
    outside = batch["response_mask"] == 0
    dirty = {**batch}
    for name in ("token_level_rewards", "values"):
        dirty[name] = batch[name].masked_fill(outside, float("nan"))
    clean = compute(estimator, batch).advantages
    assert torch.equal(compute(estimator, dirty).advantages, clean)
    assert bool((clean[outside] == 0).all())


@pytest.mark.parametrize("estimator", list(ADVANTAGE_ESTIMATORS))
@given(batch=batches(), columns=st.integers(1, 4))
@settings(max_examples=30, deadline=None)
def test_padding_changes_no_value(estimator: str, batch: Batch, columns: int) -> None:
    padded = {**batch}
    for name in ("token_level_rewards", "values", "response_mask"):
        padded[name] = torch.nn.functional.pad(batch[name], (0, columns))
    narrow = compute(estimator, batch).advantages
    wide = compute(estimator, padded).advantages
    torch.testing.assert_close(wide[:, : narrow.shape[1]], narrow, rtol=1e-12, atol=1e-12)
    assert bool((wide[:, narrow.shape[1] :] == 0).all())


@pytest.mark.parametrize("estimator", list(ADVANTAGE_ESTIMATORS))
@given(batch=batches())
@settings(max_examples=30, deadline=None)
def test_rows_that_could_not_be_scored_change_nothing(estimator: str, batch: Batch) -> None:
    rows = batch["valid"]
    if not bool(rows.any()):
        return
    kept = {
        name: value[rows]
        if isinstance(value, Tensor)
        else [item for item, ok in zip(value, rows.tolist(), strict=True) if ok]
        for name, value in batch.items()
    }
    full = compute(estimator, batch).advantages
    torch.testing.assert_close(full[rows], compute(estimator, kept).advantages, rtol=1e-9, atol=1e-9)
    assert bool((full[~rows] == 0).all())


SHIFT_INVARIANT = [
    "grpo",
    "dr_grpo",
    "grpo_passk",
    "rloo",
    "opo",
    "reinforce_plus_plus",
    "reinforce_plus_plus_baseline",
    "ema_grpo",
    "gdpo",
]


@pytest.mark.parametrize("estimator", SHIFT_INVARIANT)
@given(batch=batches(), shift=st.floats(-3, 3))
@settings(max_examples=30, deadline=None)
def test_group_estimators_ignore_a_constant_reward(estimator: str, batch: Batch, shift: float) -> None:
    last = batch["response_mask"].cumsum(-1).argmax(-1)
    shifted = {**batch, "token_level_rewards": batch["token_level_rewards"].clone()}
    shifted["token_level_rewards"][torch.arange(len(last)), last] += shift
    plain, moved = compute(estimator, batch).advantages, compute(estimator, shifted).advantages
    torch.testing.assert_close(moved, plain, rtol=1e-3, atol=1e-4)


@given(batch=batches(), shift=st.floats(-3, 3))
@settings(max_examples=30, deadline=None)
def test_remax_ignores_what_the_greedy_response_earns_as_well(batch: Batch, shift: float) -> None:
    last = batch["response_mask"].cumsum(-1).argmax(-1)
    shifted = {**batch, "token_level_rewards": batch["token_level_rewards"].clone()}
    shifted["token_level_rewards"][torch.arange(len(last)), last] += shift
    shifted["reward_baselines"] = batch["reward_baselines"] + shift
    torch.testing.assert_close(compute("remax", shifted).advantages, compute("remax", batch).advantages)


@pytest.mark.parametrize(
    "estimator",
    ["grpo", "grpo_passk", "gdpo", "reinforce_plus_plus", "reinforce_plus_plus_baseline", "gae"],
)
def test_normalised_estimators_ignore_the_scale_of_the_reward(estimator: str) -> None:
    rewards = torch.tensor([[0.0, 1.0], [0.0, 0.2], [0.0, 0.7], [0.0, 0.1]], dtype=torch.float64)
    batch = {
        "token_level_rewards": rewards,
        "response_mask": torch.ones_like(rewards),
        "uid": list("aabb"),
        "valid": None,
        "values": torch.zeros_like(rewards),
        "reward_format": torch.tensor([1.0, 0.0, 1.0, 0.5], dtype=torch.float64),
    }
    scaled = {**batch, "token_level_rewards": rewards * 10}
    torch.testing.assert_close(
        compute(estimator, scaled).advantages, compute(estimator, batch).advantages, rtol=1e-4, atol=1e-6
    )


@pytest.mark.parametrize("estimator", ["dr_grpo", "rloo", "opo", "remax"])
@given(batch=batches(), scale=st.floats(0.1, 5))
@settings(max_examples=20, deadline=None)
def test_estimators_without_normalisation_follow_the_scale_of_the_reward(
    estimator: str, batch: Batch, scale: float
) -> None:
    scaled = {
        **batch,
        "token_level_rewards": batch["token_level_rewards"] * scale,
        "reward_baselines": batch["reward_baselines"] * scale,
    }
    torch.testing.assert_close(
        compute(estimator, scaled).advantages, compute(estimator, batch).advantages * scale
    )


GROUP_ESTIMATORS = ["grpo", "dr_grpo", "grpo_passk", "rloo", "opo", "ema_grpo"]


@pytest.mark.parametrize("estimator", GROUP_ESTIMATORS)
@pytest.mark.parametrize("reward", [0.1, 1 / 3, 0.7])
def test_group_with_equal_rewards_gets_exactly_zero(estimator: str, reward: float) -> None:
    batch = {
        "token_level_rewards": torch.full((7, 1), reward, dtype=torch.float64),
        "response_mask": torch.ones(7, 1, dtype=torch.float64),
        "uid": ["p"] * 7,
        "valid": None,
        "task": ["ocr"] * 7,
    }
    assert bool((compute(estimator, batch).advantages == 0).all())


@pytest.mark.parametrize("estimator", GROUP_ESTIMATORS)
def test_group_left_with_one_valid_row_gets_exactly_zero(estimator: str) -> None:
    batch = {
        "token_level_rewards": torch.tensor([[1.0], [0.0], [0.3]], dtype=torch.float64),
        "response_mask": torch.ones(3, 1, dtype=torch.float64),
        "uid": ["p", "p", "q"],
        "valid": torch.tensor([True, False, True]),
        "task": ["ocr"] * 3,
    }
    assert compute(estimator, batch).advantages.tolist() == [[0.0], [0.0], [0.0]]


@pytest.mark.parametrize("estimator", ["reinforce_plus_plus", "reinforce_plus_plus_baseline", "gae", "gdpo"])
def test_batch_of_equal_rewards_gets_exactly_zero(estimator: str) -> None:
    batch = {
        "token_level_rewards": torch.full((3, 1), 0.1, dtype=torch.float64),
        "response_mask": torch.ones(3, 1, dtype=torch.float64),
        "uid": ["p", "p", "q"],
        "valid": None,
        "values": torch.full((3, 1), 0.4, dtype=torch.float64),
        "reward_format": torch.ones(3, dtype=torch.float64),
    }
    assert compute(estimator, batch).advantages.tolist() == [[0.0], [0.0], [0.0]]


def test_pass_at_k_rewards_only_the_best_and_nobody_in_a_tie() -> None:
    rewards = torch.tensor([[1.0], [0.5], [0.0], [1.0], [1.0], [0.0]], dtype=torch.float64)
    mask = torch.ones_like(rewards)
    uid = list("aaabbb")
    result = compute_advantages("grpo_passk", token_level_rewards=rewards, response_mask=mask, uid=uid)
    assert result.advantages.flatten().tolist() == [pytest.approx(1.0, abs=1e-5), 0, 0, 0, 0, 0]


def test_remax_leaves_out_rows_whose_greedy_rollout_was_not_scored() -> None:
    rewards = torch.tensor([[1.0], [1.0]], dtype=torch.float64)
    mask = torch.ones_like(rewards)
    baselines = torch.tensor([0.25, float("nan")], dtype=torch.float64)
    result = compute_advantages(
        "remax", token_level_rewards=rewards, response_mask=mask, reward_baselines=baselines
    )
    assert result.advantages.tolist() == [[0.75], [0.0]]


def test_row_outside_the_baseline_is_compared_with_the_others() -> None:
    rewards = torch.tensor([[0.0], [1.0], [3.0]], dtype=torch.float64)
    result = compute_advantages(
        "dr_grpo",
        token_level_rewards=rewards,
        response_mask=torch.ones_like(rewards),
        uid=["p"] * 3,
        in_baseline=torch.tensor([True, True, False]),
    )
    assert result.advantages.flatten().tolist() == [-0.5, 0.5, 2.5]


def test_ema_grpo_keeps_its_moments_through_a_checkpoint() -> None:
    rewards = torch.tensor([[1.0], [0.0], [0.5]], dtype=torch.float64)
    inputs = {"response_mask": torch.ones_like(rewards), "uid": ["p"] * 3, "task": ["ocr"] * 3}
    state = EmaTaskStats()
    compute_advantages("ema_grpo", token_level_rewards=rewards, state=state, **inputs)
    restored = EmaTaskStats()
    restored.load_state_dict(state.state_dict())
    later = rewards * 0.3
    expected = compute_advantages("ema_grpo", token_level_rewards=later, state=state, **inputs)
    actual = compute_advantages("ema_grpo", token_level_rewards=later, state=restored, **inputs)
    assert torch.equal(actual.advantages, expected.advantages)
    # 0.99 of the first batch's moments and 0.01 of the second's, worked by hand.
    first, second = 0.99 * 0.5 + 0.01 * 0.15, 0.99 * (1.25 / 3) + 0.01 * (1.25 / 3) * 0.09
    sigma = (second - first**2) ** 0.5
    assert actual.advantages[0, 0].item() == pytest.approx(0.15 / (sigma + 1e-6))


def test_ema_grpo_falls_back_to_the_group_where_an_advantage_explodes() -> None:
    state = EmaTaskStats(first={"ocr": 0.0}, second={"ocr": 0.0})
    rewards = torch.tensor([[1.0], [0.0]], dtype=torch.float64)
    result = compute_advantages(
        "ema_grpo",
        token_level_rewards=rewards,
        response_mask=torch.ones_like(rewards),
        uid=["p", "p"],
        task=["ocr", "ocr"],
        state=state,
    )
    assert result.advantages.flatten().tolist() == pytest.approx([1.0, -1.0], abs=1e-5)
    assert result.metrics["advantage/guarded_group_share"] == 1.0


def test_metrics_count_silent_groups_and_valid_rows() -> None:
    rewards = torch.tensor([[1.0], [0.0], [1.0], [1.0]], dtype=torch.float64)
    metrics = compute_advantages(
        "dr_grpo", token_level_rewards=rewards, response_mask=torch.ones_like(rewards), uid=list("aabb")
    ).metrics
    assert metrics["advantage/zero_group_share"] == 0.5
    assert (metrics["advantage/min"], metrics["advantage/max"]) == (-0.5, 0.5)
    assert metrics["advantage/valid_row_share"] == 1.0


def test_float32_rewards_are_computed_in_float64_and_returned_in_float32() -> None:
    rewards = torch.tensor([[1e4 + 1.0], [1e4]], dtype=torch.float32)
    result = compute_advantages(
        "dr_grpo", token_level_rewards=rewards, response_mask=torch.ones_like(rewards), uid=["p", "p"]
    )
    assert result.advantages.dtype == torch.float32
    assert result.advantages.flatten().tolist() == [0.5, -0.5]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"estimator": "gropo"}, "Did you mean 'grpo'?"),
        ({"estimator": "grpo", "stdd": "none"}, "Did you mean 'std'?"),
        ({"estimator": "grpo", "std": "groups"}, "Did you mean 'group'?"),
        ({"estimator": "gae"}, "needs the input 'values'"),
        ({"estimator": "gdpo"}, "'reward_accuracy' is missing"),
        ({"estimator": "no.such.module:f"}, "cannot be imported"),
    ],
)
def test_wrong_use_is_named(arguments: dict[str, Any], message: str) -> None:
    rewards = torch.ones(2, 3)
    with pytest.raises(ConfigError, match=message.replace("?", r"\?")):
        compute_advantages(**arguments, token_level_rewards=rewards, response_mask=rewards, uid=["p", "p"])


def test_shapes_that_do_not_fit_are_named() -> None:
    with pytest.raises(ConfigError, match=r"token_level_rewards has shape \(2, 4\)"):
        compute_advantages(
            "grpo", token_level_rewards=torch.ones(2, 4), response_mask=torch.ones(2, 3), uid=["p", "p"]
        )

"""Policy and value losses against loops over Python floats and finite differences, and their invariances."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.train import references
from vrldata.errors import ConfigError
from vrltrain.aggregation import LOSS_AVERAGES, GlobalCounts, aggregate
from vrltrain.losses import (
    POLICY_LOSSES,
    LossResult,
    log_probs_and_entropy,
    mixed_policy_loss,
    policy_loss,
    value_loss,
)
from vrltrain.token_losses import PolicyLossBatch, TokenLoss

AVERAGE_OF = {"gspo": "seq", "sapo": "seq"}
MAX_LENGTH = 7
Batch = dict[str, Tensor]


def make_batch(seed: int, size: int = 5, width: int = 6, *, empty_row: bool = True) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, width + 1, (size,), generator=generator)
    if empty_row:
        lengths[-1] = 0
    mask = (torch.arange(width) < lengths.unsqueeze(-1)).double()
    old = -torch.rand(size, width, generator=generator, dtype=torch.float64) * 2 - 0.05
    step = torch.randn(size, width, generator=generator, dtype=torch.float64) * 0.4
    advantages = torch.randn(size, 1, generator=generator, dtype=torch.float64).expand(size, width)
    return {
        "log_probs": (old + step).clamp(max=-1e-3),
        "old_log_probs": old,
        "advantages": advantages * mask,
        "response_mask": mask,
    }


def rows_of(batch: Batch, rows: Any) -> Batch:
    return {name: value[rows] for name, value in batch.items()}


def gradient(result: LossResult, leaf: Tensor) -> Tensor:
    (found,) = torch.autograd.grad(result.loss, leaf)
    return found


def run(loss: str, batch: Batch, **options: Any) -> LossResult:
    return policy_loss(
        loss,
        **batch,
        **{**references.OPTIONS, "avg": AVERAGE_OF.get(loss, "token"), **options},  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("loss", list(POLICY_LOSSES))
@pytest.mark.parametrize("avg", LOSS_AVERAGES)
@pytest.mark.parametrize("seed", range(4))
def test_loss_equals_a_plain_loop(loss: str, avg: str, seed: int) -> None:
    batch = make_batch(seed)
    lists = {name: value.tolist() for name, value in batch.items()}
    tokens = references.token_losses(
        loss, lists["log_probs"], lists["old_log_probs"], lists["advantages"], lists["response_mask"]
    )
    expected = references.aggregate(tokens, lists["response_mask"], avg, MAX_LENGTH)
    result = run(loss, batch, avg=avg, max_response_length=MAX_LENGTH)
    assert result.loss.item() == pytest.approx(expected, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("loss", ["ppo", "gspo", "sapo", "reinforce"])
@pytest.mark.parametrize("seed", range(3))
def test_gradient_equals_finite_differences(loss: str, seed: int) -> None:
    batch = make_batch(seed)
    leaf = batch["log_probs"].clone().requires_grad_()
    fixed = {name: value for name, value in batch.items() if name != "log_probs"}
    assert torch.autograd.gradcheck(
        lambda log_probs: run(loss, {**fixed, "log_probs": log_probs}).loss, leaf, eps=1e-6, atol=1e-7
    )


@pytest.mark.parametrize("avg", LOSS_AVERAGES)
def test_gradient_of_each_average_equals_finite_differences(avg: str) -> None:
    mask = make_batch(0)["response_mask"]
    values = torch.randn(5, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    counts = GlobalCounts(num_tokens=31, num_rows=8)
    assert torch.autograd.gradcheck(
        lambda leaf: aggregate(leaf, mask, mode=avg, counts=counts, max_response_length=MAX_LENGTH),
        values.requires_grad_(),
    )


def test_gspo_gradient_follows_the_sequence_ratio_where_it_is_not_clipped() -> None:
    batch = make_batch(3, empty_row=False)
    leaf = batch["log_probs"].clone().requires_grad_()
    wide = {"clip_low": 0.9, "clip_high": 9.0}
    found = gradient(run("gspo", {**batch, "log_probs": leaf}, **wide), leaf)
    for row in range(leaf.shape[0]):
        marks = batch["response_mask"][row]
        new, old = batch["log_probs"][row].tolist(), batch["old_log_probs"][row].tolist()
        s = references.sequence_ratio(new, old, marks.tolist())
        expected = -batch["advantages"][row] * s / marks.sum() / leaf.shape[0] * marks
        torch.testing.assert_close(found[row], expected)


def test_cispo_gradient_is_that_of_a_policy_gradient_with_a_frozen_weight() -> None:
    batch = make_batch(5)
    leaf = batch["log_probs"].clone().requires_grad_()
    found = gradient(run("cispo", {**batch, "log_probs": leaf}), leaf)
    ratio = (batch["log_probs"] - batch["old_log_probs"]).exp().clamp(0.8, 1.28)
    expected = -ratio * batch["advantages"] * batch["response_mask"] / batch["response_mask"].sum()
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("loss", list(POLICY_LOSSES))
def test_on_policy_gradient_is_the_policy_gradient(loss: str) -> None:
    batch = make_batch(2)
    batch["log_probs"] = batch["old_log_probs"].clone()
    leaf = batch["log_probs"].requires_grad_()
    found = gradient(run(loss, batch, avg="token"), leaf)
    expected = -batch["advantages"] * batch["response_mask"] / batch["response_mask"].sum()
    if loss == "gspo":  # its row has one weight: the row's mean advantage, here the advantage itself
        torch.testing.assert_close(found.sum(), expected.sum())
    torch.testing.assert_close(found, expected)


@given(
    seed=st.integers(0, 10**6),
    loss=st.sampled_from(list(POLICY_LOSSES)),
    avg=st.sampled_from(LOSS_AVERAGES),
    cuts=st.lists(st.integers(0, 3), min_size=6, max_size=6),
)
@settings(max_examples=100, deadline=None)
def test_split_into_micro_batches_changes_nothing(seed: int, loss: str, avg: str, cuts: list[int]) -> None:
    batch = make_batch(seed, size=6)
    offline_row = torch.tensor([0, 1, 0, 0, 1, 0])
    leaf = batch["log_probs"].clone().requires_grad_()
    batch = {**batch, "log_probs": leaf, "offline_row": offline_row}
    options = {"avg": avg, "max_response_length": MAX_LENGTH}
    whole = run(loss, batch, **options)
    expected = gradient(whole, leaf)
    counts = GlobalCounts.of(batch["response_mask"], offline_row)
    parts = [
        run(
            loss,
            rows_of(batch, [row for row, cut in enumerate(cuts) if cut == name]),
            counts=counts,
            **options,
        )
        for name in sorted(set(cuts))
    ]
    total = torch.stack([part.loss for part in parts]).sum()
    (found,) = torch.autograd.grad(total, leaf)
    torch.testing.assert_close(total, whole.loss)
    torch.testing.assert_close(found, expected)
    for name, value in whole.metrics.items():
        assert sum(part.metrics[name] for part in parts) == pytest.approx(value, abs=1e-12), name


@given(seed=st.integers(0, 10**6), loss=st.sampled_from(list(POLICY_LOSSES)), columns=st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_padding_and_garbage_outside_the_mask_change_nothing(seed: int, loss: str, columns: int) -> None:
    batch = make_batch(seed)
    leaf = batch["log_probs"].clone().requires_grad_()
    clean = run(loss, {**batch, "log_probs": leaf}, avg="seq_sum_norm", max_response_length=MAX_LENGTH)
    expected = gradient(clean, leaf)
    outside = batch["response_mask"] == 0
    dirty = {
        name: value if name == "response_mask" else value.masked_fill(outside, float("nan"))
        for name, value in batch.items()
    }
    padded = {name: torch.nn.functional.pad(value, (0, columns)) for name, value in dirty.items()}
    leaf = padded["log_probs"].clone().requires_grad_()
    result = run(loss, {**padded, "log_probs": leaf}, avg="seq_sum_norm", max_response_length=MAX_LENGTH)
    found = gradient(result, leaf)
    torch.testing.assert_close(result.loss, clean.loss, rtol=1e-12, atol=0)
    torch.testing.assert_close(found[:, :-columns], expected, rtol=1e-12, atol=1e-15)
    assert bool((found[:, -columns:] == 0).all())
    for name, value in clean.metrics.items():
        assert result.metrics[name] == pytest.approx(value, abs=1e-12), name


@pytest.mark.parametrize("mode", LOSS_AVERAGES)
def test_batch_without_a_single_token_gives_zero_and_no_nan(mode: str) -> None:
    values = torch.full((2, 3), float("nan"), requires_grad=True)
    loss = aggregate(values, torch.zeros(2, 3), mode=mode)
    loss.backward()
    assert loss.item() == 0.0
    assert values.grad is not None
    assert values.grad.tolist() == [[0.0] * 3] * 2


def test_counts_of_parts_add_up() -> None:
    mask = torch.tensor([[1, 1, 0], [0, 0, 0], [1, 0, 0]])
    offline = torch.tensor([0, 0, 1])
    total = GlobalCounts.of(mask[:2], offline[:2]) + GlobalCounts.of(mask[2:], offline[2:])
    assert total == GlobalCounts(num_tokens=3, num_rows=2, num_offline_tokens=1)


def test_ratio_far_outside_float_range_stays_finite() -> None:
    batch = make_batch(0, empty_row=False)
    batch["old_log_probs"] = batch["log_probs"] - 5000.0
    for loss in POLICY_LOSSES:
        leaf = batch["log_probs"].clone().requires_grad_()
        found = gradient(run(loss, {**batch, "log_probs": leaf}), leaf)
        assert bool(torch.isfinite(found).all()), loss


def test_dual_clip_bounds_the_loss_of_a_bad_row_and_counts_it() -> None:
    batch = {
        "log_probs": torch.tensor([[math.log(0.9)]], dtype=torch.float64),
        "old_log_probs": torch.tensor([[math.log(0.1)]], dtype=torch.float64),
        "advantages": torch.tensor([[-1.0]], dtype=torch.float64),
        "response_mask": torch.ones(1, 1, dtype=torch.float64),
    }
    bounded = run("ppo", batch, clip_dual=3.0)
    assert bounded.loss.item() == pytest.approx(3.0)
    assert bounded.metrics["clipfrac_dual"] == 1.0
    for off in (None, 0):
        assert run("ppo", batch, clip_dual=off).loss.item() == pytest.approx(9.0)


def test_clip_fractions_tell_high_from_low() -> None:
    batch = {
        "log_probs": torch.tensor([[math.log(0.5), math.log(0.1), math.log(0.5)]], dtype=torch.float64),
        "old_log_probs": torch.tensor([[math.log(0.2), math.log(0.2), math.log(0.5)]], dtype=torch.float64),
        "advantages": torch.tensor([[1.0, -1.0, 1.0]], dtype=torch.float64),
        "response_mask": torch.ones(1, 3, dtype=torch.float64),
    }
    metrics = run("ppo", batch).metrics
    assert metrics["clipfrac_high"] == pytest.approx(1 / 3)
    assert metrics["clipfrac_low"] == pytest.approx(1 / 3)


def test_rollout_weights_multiply_the_loss_as_constants_but_not_offline_rows() -> None:
    batch = make_batch(4, size=3, empty_row=False)
    offline_row = torch.tensor([0, 1, 0])
    outside = batch["response_mask"] == 0
    weights = torch.full_like(batch["log_probs"], 0.5).masked_fill(outside, math.nan).requires_grad_()
    leaf = batch["log_probs"].clone().requires_grad_()
    options = {"offline_row": offline_row, "offline_loss": "luffy"}
    plain = gradient(run("reinforce", {**batch, "log_probs": leaf}, **options), leaf)
    result = run("reinforce", {**batch, "log_probs": leaf}, rollout_weights=weights, **options)
    weighted, of_weights = torch.autograd.grad(result.loss, (leaf, weights), allow_unused=True)
    assert of_weights is None
    torch.testing.assert_close(weighted[[0, 2]], 0.5 * plain[[0, 2]])
    torch.testing.assert_close(weighted[1], plain[1])


def test_luffy_row_has_the_loss_and_the_gradient_of_the_paper() -> None:
    probability, gamma, advantage = 0.3, 0.1, 2.0
    leaf = torch.tensor([[math.log(probability)]], dtype=torch.float64, requires_grad=True)
    one = torch.ones(1, 1, dtype=torch.float64)
    result = mixed_policy_loss(
        log_probs=leaf,
        old_log_probs=leaf.detach(),
        advantages=advantage * one,
        response_mask=one,
        offline_row=torch.ones(1),
        gamma=gamma,
    )
    assert result.loss.item() == pytest.approx(-advantage * probability / (probability + gamma))
    expected = -advantage * gamma * probability / (probability + gamma) ** 2
    assert gradient(result, leaf).item() == pytest.approx(expected)
    assert result.metrics["offline_prob"] == pytest.approx(probability)
    assert result.metrics["offline_token_share"] == 1.0
    assert result.metrics["offline_advantage"] == advantage


def test_known_behaviour_log_probs_count_where_they_are_known() -> None:
    log_probs = torch.tensor([[math.log(0.4), math.log(0.4)]], dtype=torch.float64)
    one = torch.ones_like(log_probs)
    result = mixed_policy_loss(
        log_probs=log_probs,
        old_log_probs=log_probs,
        advantages=one,
        response_mask=one,
        offline_row=torch.ones(1),
        behaviour_log_probs=torch.tensor([[math.log(0.8), float("nan")]], dtype=torch.float64),
    )
    expected = -(0.5 / 0.6 + 0.4 / 0.5) / 2
    assert result.loss.item() == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("offline_loss", ["luffy", "sft", "onpolicy"])
def test_gradient_of_mixed_batches_equals_finite_differences(offline_loss: str, seed: int) -> None:
    batch = make_batch(seed)
    leaf = batch.pop("log_probs").clone().requires_grad_()
    offline_row = torch.tensor([0, 1, 0, 1, 0])
    assert torch.autograd.gradcheck(
        lambda log_probs: (
            mixed_policy_loss(
                log_probs=log_probs, offline_row=offline_row, offline_loss=offline_loss, **batch
            ).loss
        ),
        leaf,
        eps=1e-6,
        atol=1e-7,
    )


def test_sft_rows_ignore_the_advantage() -> None:
    batch = make_batch(1, size=2, empty_row=False)
    offline_row = torch.tensor([1, 1])
    expected = -(batch["log_probs"] * batch["response_mask"]).sum() / batch["response_mask"].sum()
    for scale in (1.0, -5.0):
        scaled = {**batch, "advantages": batch["advantages"] * scale}
        result = mixed_policy_loss(**scaled, offline_row=offline_row, offline_loss="sft")
        torch.testing.assert_close(result.loss, expected)


@pytest.mark.parametrize("loss", list(POLICY_LOSSES))
def test_onpolicy_rows_and_no_offline_rows_equal_the_plain_loss(loss: str) -> None:
    batch = make_batch(7)
    plain = run(loss, batch)
    onpolicy = run(loss, batch, offline_row=torch.tensor([0, 1, 0, 0, 0]), offline_loss="onpolicy")
    none = run(loss, batch, offline_row=torch.zeros(5), offline_loss="luffy")
    assert onpolicy.loss.item() == plain.loss.item() == none.loss.item()


def value_batch(seed: int) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    old, goal, step = (torch.randn(5, 6, generator=generator, dtype=torch.float64) for _ in range(3))
    mask = make_batch(seed)["response_mask"]
    return {"vpreds": old + step, "returns": goal, "values": old, "response_mask": mask}


@pytest.mark.parametrize("avg", LOSS_AVERAGES)
@pytest.mark.parametrize("seed", range(3))
def test_value_loss_equals_a_plain_loop(avg: str, seed: int) -> None:
    batch = value_batch(seed)
    new, goal, old, mask = (value.tolist() for value in batch.values())
    expected = references.aggregate(references.value_losses(new, goal, old, mask, 0.3), mask, avg, MAX_LENGTH)
    result = value_loss(**batch, cliprange_value=0.3, avg=avg, max_response_length=MAX_LENGTH)
    assert result.loss.item() == pytest.approx(expected, rel=1e-10)


@given(seed=st.integers(0, 10**6), cuts=st.lists(st.integers(0, 2), min_size=5, max_size=5))
@settings(max_examples=40, deadline=None)
def test_value_loss_ignores_micro_batches_padding_and_garbage(seed: int, cuts: list[int]) -> None:
    batch = value_batch(seed)
    whole = value_loss(**batch)
    outside = batch["response_mask"] == 0
    dirty = {
        name: torch.nn.functional.pad(
            value if name == "response_mask" else value.masked_fill(outside, float("nan")), (0, 2)
        )
        for name, value in batch.items()
    }
    counts = GlobalCounts.of(batch["response_mask"])
    parts = [
        value_loss(**rows_of(dirty, [row for row, cut in enumerate(cuts) if cut == name]), counts=counts)
        for name in sorted(set(cuts))
    ]
    torch.testing.assert_close(torch.stack([part.loss for part in parts]).sum(), whole.loss)
    for name, value in whole.metrics.items():
        assert sum(part.metrics[name] for part in parts) == pytest.approx(value, abs=1e-12), name


def test_value_loss_gradient_equals_finite_differences() -> None:
    generator = torch.Generator().manual_seed(0)
    mask = make_batch(0)["response_mask"]
    old, goal, step = (torch.randn(5, 6, generator=generator, dtype=torch.float64) for _ in range(3))
    leaf = (old + step).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda vpreds: value_loss(vpreds=vpreds, returns=goal, values=old, response_mask=mask).loss, leaf
    )


def test_value_loss_takes_the_larger_of_the_clipped_and_the_plain_error() -> None:
    one = torch.ones(1, 1, dtype=torch.float64)
    result = value_loss(vpreds=2 * one, returns=2 * one, values=0 * one, response_mask=one)
    assert result.loss.item() == pytest.approx(0.5 * 1.5**2)
    assert result.metrics["value_clipfrac"] == 1.0


def test_entropy_of_equal_logits_is_the_log_of_their_number() -> None:
    logits = torch.zeros(1, 2, 8)
    log_probs, entropy = log_probs_and_entropy(logits, torch.tensor([[0, 5]]))
    torch.testing.assert_close(entropy, torch.full((1, 2), math.log(8)))
    torch.testing.assert_close(log_probs, torch.full((1, 2), -math.log(8)))


def test_forbidden_token_adds_nothing_to_the_entropy() -> None:
    logits = torch.tensor([[[0.0, 0.0, -math.inf]]], dtype=torch.float64, requires_grad=True)
    _, entropy = log_probs_and_entropy(logits, torch.tensor([[0]]))
    entropy.sum().backward()
    assert entropy.item() == pytest.approx(math.log(2))
    assert logits.grad is not None
    assert bool(torch.isfinite(logits.grad).all())


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_log_probs_and_entropy_equal_a_plain_loop_and_finite_differences(temperature: float) -> None:
    logits = torch.randn(2, 2, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    labels = torch.tensor([[0, 1], [4, 2]])
    log_probs, entropy = log_probs_and_entropy(logits, labels, temperature=temperature)
    for row in range(2):
        for t in range(2):
            weights = [math.exp(value / temperature) for value in logits[row, t].tolist()]
            p = [weight / sum(weights) for weight in weights]
            assert log_probs[row, t].item() == pytest.approx(math.log(p[int(labels[row, t])]))
            assert entropy[row, t].item() == pytest.approx(-sum(value * math.log(value) for value in p))
    assert torch.autograd.gradcheck(
        lambda leaf: log_probs_and_entropy(leaf, labels, temperature=temperature), logits.requires_grad_()
    )


def test_temperature_divides_the_logits() -> None:
    logits = torch.randn(1, 3, 5, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([[0, 1, 2]])
    sharp = log_probs_and_entropy(logits, labels, temperature=0.5)
    direct = log_probs_and_entropy(logits * 2, labels)
    torch.testing.assert_close(sharp, direct)


def half_of_reinforce(batch: PolicyLossBatch) -> TokenLoss:
    return -0.5 * batch.advantages * batch.log_probs, {"half": torch.full_like(batch.log_probs, 0.5)}


def test_own_loss_is_named_as_module_and_function() -> None:
    batch = make_batch(9)
    own = run(f"{__name__}:half_of_reinforce", batch)
    assert own.loss.item() == pytest.approx(0.5 * run("reinforce", batch).loss.item())
    assert own.metrics["half"] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "gsop"}, r"unknown policy loss 'gsop'. Did you mean 'gspo'\?"),
        ({"loss": "ppo", "avg": "tokens"}, r"Did you mean 'token'\?"),
        ({"loss": "ppo", "offline_loss": "lufy", "offline_row": torch.ones(5)}, r"Did you mean 'luffy'\?"),
    ],
)
def test_unknown_names_are_answered_with_the_nearest(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        run(options.pop("loss"), make_batch(0), **options)

"""Importance weights, rejection and mismatch figures against loops over Python floats."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vrldata.errors import ConfigError
from vrltrain.corrections import (
    REJECTION_MODES,
    fresh_rows,
    mismatch_metrics,
    rejection_mask,
    rollout_weights,
    staleness_counts,
)


def make(seed: int, size: int = 5, width: int = 5) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(0, width + 1, (size,), generator=generator)
    lengths[0] = width
    train = -torch.rand(size, width, generator=generator, dtype=torch.float64) * 2
    return {
        "train_log_probs": train,
        "rollout_log_probs": train + torch.randn(size, width, generator=generator, dtype=torch.float64) * 0.5,
        "response_mask": (torch.arange(width) < lengths.unsqueeze(-1)).double(),
    }


def ratios(batch: dict[str, torch.Tensor]) -> list[list[float]]:
    """ln w of the masked tokens of each row."""
    lists = [batch[name].tolist() for name in ("train_log_probs", "rollout_log_probs", "response_mask")]
    return [[p - q for p, q, m in zip(*row, strict=True) if m] for row in zip(*lists, strict=True)]


@given(seed=st.integers(0, 10**6), cap=st.floats(0.5, 3))
@settings(max_examples=40, deadline=None)
def test_weights_equal_a_plain_loop(seed: int, cap: float) -> None:
    batch = make(seed)
    for level in ("token", "sequence"):
        weights = rollout_weights(**batch, level=level, cap=cap)
        for row, logs in enumerate(ratios(batch)):
            whole = min(math.exp(min(max(sum(logs), -20), 20)), cap)
            expected = [min(math.exp(log), cap) if level == "token" else whole for log in logs]
            assert weights[row].tolist() == pytest.approx(expected + [0.0] * (5 - len(logs)))


@pytest.mark.parametrize("level", ["token", "sequence"])
def test_batch_normalised_weights_have_mean_one(level: str) -> None:
    batch = make(3)
    weights = rollout_weights(**batch, level=level, batch_normalise=True)
    mask = batch["response_mask"]
    if level == "token":
        assert (weights.sum() / mask.sum()).item() == pytest.approx(1.0)
    else:
        rows = mask.sum(-1) > 0
        assert weights[rows, 0].mean().item() == pytest.approx(1.0)


def test_weights_are_constants_and_ignore_garbage_outside_the_mask() -> None:
    batch = make(4)
    clean = rollout_weights(**batch)
    outside = batch["response_mask"] == 0
    dirty = {**batch, "rollout_log_probs": batch["rollout_log_probs"].masked_fill(outside, math.nan)}
    dirty["train_log_probs"] = batch["train_log_probs"].clone().requires_grad_()
    weights = rollout_weights(**dirty)
    assert not weights.requires_grad
    assert torch.equal(weights, clean)


def statistic(mode: str, logs: list[float]) -> float | list[float]:
    w = [math.exp(log) for log in logs]
    k2 = [log * log / 2 for log in logs]
    k3 = [math.exp(log) - 1 - log for log in logs]
    mean = sum(logs) / len(logs)
    return {
        "token": w,
        "token_k2": k2,
        "token_k3": k3,
        "seq_max": max(w),
        "seq_max_k2": max(k2),
        "seq_max_k3": max(k3),
        "seq_mean_k1": math.exp(mean),
        "seq_mean_k2": sum(k2) / len(k2),
        "seq_mean_k3": sum(k3) / len(k3),
        "seq_sum_k1": math.exp(sum(logs)),
    }[mode]


@pytest.mark.parametrize("mode", REJECTION_MODES)
@pytest.mark.parametrize("seed", range(5))
def test_rejection_equals_a_plain_loop(mode: str, seed: int) -> None:
    batch = make(seed)
    low, high = (0.6, 1.6) if mode in ("token", "seq_max", "seq_mean_k1", "seq_sum_k1") else (None, 0.08)
    result = rejection_mask(**batch, mode=mode, low=low, high=high)
    for row, logs in enumerate(ratios(batch)):
        if not logs:
            assert not result.mask[row].any()
            continue
        found = statistic(mode, logs)
        per_token = found if isinstance(found, list) else [found] * len(logs)
        kept = [float((low or -math.inf) <= value <= high) for value in per_token]
        assert result.mask[row].tolist() == kept + [0.0] * (5 - len(logs))
    tokens = batch["response_mask"].sum()
    assert result.rejected_share == pytest.approx(float(1 - result.mask.sum() / tokens))


def test_bounds_apply_to_the_ratio_not_to_its_inverse() -> None:
    train = torch.tensor([[math.log(0.8), math.log(0.2)]], dtype=torch.float64)
    rollout = torch.tensor([[math.log(0.2), math.log(0.8)]], dtype=torch.float64)
    mask = torch.ones(1, 2, dtype=torch.float64)
    result = rejection_mask(
        train_log_probs=train,
        rollout_log_probs=rollout,
        response_mask=mask,
        mode="token_k1",
        low=0.1,
        high=3.0,
    )
    assert result.statistic.tolist() == [pytest.approx([4.0, 0.25])]
    assert result.mask.tolist() == [[0.0, 1.0]]


def test_stored_rows_are_neither_weighted_nor_rejected_nor_measured() -> None:
    batch = make(1, size=3)
    batch["response_mask"] = torch.ones(3, 5, dtype=torch.float64)
    batch["rollout_log_probs"][1] = -50.0
    offline_row = torch.tensor([0, 1, 0])
    weights = rollout_weights(**batch, offline_row=offline_row, batch_normalise=True)
    assert weights[1].tolist() == [1.0] * 5
    kept = rejection_mask(**batch, mode="seq_mean_k3", high=1e9, offline_row=offline_row)
    assert kept.mask[1].tolist() == [1.0] * 5
    online = {name: value[[0, 2]] for name, value in batch.items()}
    assert mismatch_metrics(**batch, offline_row=offline_row) == pytest.approx(mismatch_metrics(**online))


@given(seed=st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_mismatch_figures_equal_a_plain_loop(seed: int) -> None:
    batch = make(seed)
    rows = [logs for logs in ratios(batch) if logs]
    w = [math.exp(log) for logs in rows for log in logs]
    train, rollout, mask = (batch[name].tolist() for name in batch)
    pairs = [
        [(p, q) for p, q, m in zip(*row, strict=True) if m] for row in zip(train, rollout, mask, strict=True)
    ]
    perplexities = [
        [math.exp(-sum(pair[side] for pair in row) / len(row)) for row in pairs if row] for side in (0, 1)
    ]
    expected = {
        "kl": -sum(log for logs in rows for log in logs) / len(w),
        "k3_kl": sum(value - 1 - math.log(value) for value in w) / len(w),
        "training_ppl": sum(perplexities[0]) / len(rows),
        "rollout_ppl": sum(perplexities[1]) / len(rows),
        "log_ppl_diff": -sum(sum(logs) / len(logs) for logs in rows) / len(rows),
        "chi2_token": sum(value**2 for value in w) / len(w) - 1,
        "chi2_seq": sum(math.exp(2 * sum(logs)) for logs in rows) / len(rows) - 1,
        "ess": sum(w) ** 2 / (len(w) * sum(value**2 for value in w)),
        "max_prob_difference": max(abs(math.exp(p) - math.exp(q)) for row in pairs for p, q in row),
    }
    assert mismatch_metrics(**batch) == pytest.approx(expected)


@pytest.mark.parametrize("mode", REJECTION_MODES)
def test_padding_and_garbage_outside_the_mask_change_nothing(mode: str) -> None:
    batch = make(6)
    outside = batch["response_mask"] == 0
    dirty = {
        name: torch.nn.functional.pad(
            value if name == "response_mask" else value.masked_fill(outside, math.nan), (0, 3)
        )
        for name, value in batch.items()
    }
    clean, padded = (rejection_mask(**one, mode=mode, high=1.2) for one in (batch, dirty))
    assert torch.equal(padded.mask[:, :5], clean.mask)
    assert not bool(padded.mask[:, 5:].any())
    assert mismatch_metrics(**dirty) == pytest.approx(mismatch_metrics(**batch))
    for level in ("token", "sequence"):
        wide = rollout_weights(**dirty, level=level, batch_normalise=True)
        narrow = rollout_weights(**batch, level=level, batch_normalise=True)
        torch.testing.assert_close(wide[:, :5], narrow)


def test_agreement_gives_zero_divergence_and_full_sample_size() -> None:
    batch = make(2)
    batch["rollout_log_probs"] = batch["train_log_probs"]
    metrics = mismatch_metrics(**batch)
    for name in ("kl", "k3_kl", "log_ppl_diff", "chi2_token", "chi2_seq", "max_prob_difference"):
        assert metrics[name] == pytest.approx(0.0, abs=1e-12)
    assert metrics["ess"] == pytest.approx(1.0)
    assert metrics["training_ppl"] == pytest.approx(metrics["rollout_ppl"])


def test_figures_of_nothing_are_empty() -> None:
    zeros = torch.zeros(1, 2)
    assert mismatch_metrics(train_log_probs=zeros, rollout_log_probs=zeros, response_mask=zeros) == {}


def test_stale_rows_are_dropped_and_counted() -> None:
    assert fresh_rows([5, 4, 2], 5, 1).tolist() == [True, True, False]
    assert staleness_counts([5, 4, 2, 4], 5) == {0: 1, 1: 2, 3: 1}


def test_unknown_names_are_answered() -> None:
    batch = make(0)
    with pytest.raises(ConfigError, match="expected token or sequence"):
        rollout_weights(**batch, level="sequences")
    with pytest.raises(ConfigError, match=r"Did you mean 'seq_mean_k3'\?"):
        rejection_mask(**batch, mode="seq_mean_k33", high=0.1)
    with pytest.raises(ConfigError, match="needs the upper bound"):
        rejection_mask(**batch, mode="seq_mean_k3")

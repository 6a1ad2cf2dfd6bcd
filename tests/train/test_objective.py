"""The whole loss of a micro-batch: policy part, entropy bonus and KL term, against loops and differences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.train import references
from tests.train.colour_clips import run_values
from tests.train.test_losses import make_batch
from vrldata.config import validate_config
from vrltrain.configs import RunConfig
from vrltrain.losses import LossResult
from vrltrain.objective import Targets, micro_batch_loss

MAX_TOKENS = 8
ENTROPY_COEF, KL_COEF = 0.03, 0.2
KL_OF = {"kl": lambda d: d, "mse": lambda d: d * d / 2, "abs": abs}
Inputs = dict[str, Tensor]


def config_of(**algorithm: Any) -> RunConfig:
    values = {"entropy_coef": ENTROPY_COEF, "kl_in": "loss", "kl_coef": KL_COEF, "clip_ratio_high": 0.28}
    return validate_config(
        RunConfig,
        run_values(Path("d"), Path("m"), Path("r"), algorithm={**values, **algorithm}),
        source="test",
    )


def inputs_of(seed: int) -> Inputs:
    generator = torch.Generator().manual_seed(seed + 100)
    batch = make_batch(seed)
    batch["advantages"] = batch["advantages"].float().double()  # targets are float32
    shape = batch["log_probs"].shape
    return {
        **batch,
        "ref_log_probs": batch["log_probs"]
        + torch.randn(shape, generator=generator, dtype=torch.float64) * 0.3,
        "entropy": torch.rand(shape, generator=generator, dtype=torch.float64),
        "full_kl": torch.rand(shape, generator=generator, dtype=torch.float64),
    }


def loss_of(config: RunConfig, inputs: Inputs, rows: list[int] | None = None) -> LossResult:
    """Of the given rows, averaged over all of them."""
    chosen = list(range(5)) if rows is None else rows
    full = config.algorithm.kl_kind == "full"
    targets = Targets(
        mask=inputs["response_mask"].long(),
        advantages=inputs["advantages"],
        old_log_probs=inputs["old_log_probs"],
        ref_log_probs=inputs["ref_log_probs"] if config.algorithm.needs_ref_log_probs else None,
        weights=None,
        behaviour_log_probs=torch.full_like(inputs["log_probs"], float("nan")),
        offline_row=torch.zeros(5, dtype=torch.int64),
    )
    return micro_batch_loss(
        config,
        targets,
        chosen,
        log_probs=inputs["log_probs"][chosen],
        entropy=inputs["entropy"][chosen],
        counts=targets.counts(range(5)),
        kl_coef=config.algorithm.kl_coef,
        full_kl=inputs["full_kl"][chosen] if full else None,
    )


@pytest.mark.parametrize("kind", [*KL_OF, "full"])
@pytest.mark.parametrize("avg", ["token", "seq", "seq_sum", "seq_sum_norm"])
def test_loss_equals_a_plain_loop(kind: str, avg: str) -> None:
    inputs = inputs_of(1)
    lists = {name: value.tolist() for name, value in inputs.items()}
    mask = lists["response_mask"]
    tokens = references.token_losses(
        "ppo", lists["log_probs"], lists["old_log_probs"], lists["advantages"], mask
    )
    for row in range(5):
        for t in range(6):
            d = lists["log_probs"][row][t] - lists["ref_log_probs"][row][t]
            kl = lists["full_kl"][row][t] if kind == "full" else KL_OF[kind](d)
            tokens[row][t] += KL_COEF * kl - ENTROPY_COEF * lists["entropy"][row][t]
    expected = references.aggregate(tokens, mask, avg, MAX_TOKENS)
    result = loss_of(config_of(kl_kind=kind, loss_avg=avg), inputs)
    assert result.loss.item() == pytest.approx(expected, rel=1e-6)
    assert result.metrics["update/loss"] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("leaf", ["log_probs", "entropy", "full_kl"])
@pytest.mark.parametrize("kind", ["low_var_kl", "full"])
def test_gradient_equals_finite_differences(leaf: str, kind: str) -> None:
    inputs, config = inputs_of(2), config_of(kl_kind=kind)

    def loss(value: Tensor) -> Tensor:
        return loss_of(config, {**inputs, leaf: value}).loss + 0.0 * value.sum()

    assert torch.autograd.gradcheck(loss, inputs[leaf].clone().requires_grad_(), eps=1e-6, atol=1e-7)


def test_full_kl_with_the_k2_gradient_has_the_value_of_the_one_and_the_gradient_of_the_other() -> None:
    inputs = inputs_of(3)
    leaf = inputs["log_probs"].clone().requires_grad_()
    inputs["log_probs"] = leaf
    results = [
        loss_of(config_of(kl_kind=kind, kl_grad=gradient), inputs)
        for kind, gradient in (("full", "k2"), ("full", "same"), ("mse", "same"))
    ]
    gradients = [torch.autograd.grad(result.loss, leaf)[0] for result in results]
    assert results[0].loss.item() == pytest.approx(results[1].loss.item())
    assert results[0].metrics["kl/mean"] == pytest.approx(results[1].metrics["kl/mean"])
    torch.testing.assert_close(gradients[0], gradients[2])
    assert not torch.allclose(gradients[0], gradients[1])


@pytest.mark.parametrize("kind", ["low_var_kl", "full"])
@pytest.mark.parametrize("avg", ["token", "seq", "seq_sum", "seq_sum_norm"])
def test_micro_batches_add_up_and_garbage_outside_the_mask_changes_nothing(kind: str, avg: str) -> None:
    inputs, config = inputs_of(4), config_of(kl_kind=kind, loss_avg=avg)
    whole = loss_of(config, inputs)
    outside = inputs["response_mask"] == 0
    dirty = {
        name: value if name == "response_mask" else value.masked_fill(outside, float("nan"))
        for name, value in inputs.items()
    }
    parts = [loss_of(config, dirty, rows) for rows in ([3], [0, 4], [2, 1])]
    torch.testing.assert_close(torch.stack([part.loss for part in parts]).sum(), whole.loss)
    for name, value in whole.metrics.items():
        assert sum(part.metrics[name] for part in parts) == pytest.approx(value, abs=1e-9), name


def test_without_a_reference_and_a_bonus_only_the_policy_part_is_left() -> None:
    inputs = inputs_of(5)
    plain = config_of(entropy_coef=0.0, kl_in="none", kl_coef=0.0)
    with_terms = loss_of(config_of(entropy_coef=0.1, kl_in="none", kl_coef=0.0), inputs)
    result = loss_of(plain, inputs)
    assert result.loss.item() == pytest.approx(result.metrics["update/pg_loss"])
    assert with_terms.loss.item() < result.loss.item()  # more entropy, less loss
    assert "kl/mean" not in result.metrics

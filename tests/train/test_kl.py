"""KL estimators, their gradients, the controllers, and KL in the reward."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vrldata.errors import ConfigError
from vrltrain.kl import KLController, full_kl, kl_divergence, kl_in_reward, mean_kl

FORMULAS = {
    "kl": lambda d: d,
    "abs": abs,
    "mse": lambda d: d * d / 2,
    "low_var_kl": lambda d: min(max(math.exp(-d) + d - 1, -10.0), 10.0),
}


@pytest.mark.parametrize("kind", list(FORMULAS))
@given(values=st.lists(st.tuples(st.floats(-8, 0), st.floats(-8, 0)), min_size=1, max_size=6))
@settings(max_examples=40, deadline=None)
def test_kind_equals_its_formula(kind: str, values: list[tuple[float, float]]) -> None:
    log_probs, ref = (torch.tensor([column], dtype=torch.float64) for column in zip(*values, strict=True))
    expected = [FORMULAS[kind](p - q) for p, q in values]
    assert kl_divergence(log_probs, ref, kind=kind)[0].tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("short", "kind"), [("k1", "kl"), ("k2", "mse"), ("k3", "low_var_kl")])
def test_short_names_are_the_same_kinds(short: str, kind: str) -> None:
    log_probs, ref = torch.tensor([[-0.3, -2.0]]), torch.tensor([[-0.8, -1.0]])
    assert torch.equal(kl_divergence(log_probs, ref, kind=short), kl_divergence(log_probs, ref, kind=kind))


@pytest.mark.parametrize("kind", list(FORMULAS))
def test_gradient_equals_finite_differences(kind: str) -> None:
    log_probs = torch.tensor([[-0.3, -2.0, -1.0]], dtype=torch.float64, requires_grad=True)
    ref = torch.tensor([[-0.8, -1.0, -3.0]], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda leaf: kl_divergence(leaf, ref, kind=kind), log_probs)


@pytest.mark.parametrize("kind", list(FORMULAS))
def test_k2_gradient_keeps_the_value_and_takes_the_log_ratio_as_gradient(kind: str) -> None:
    log_probs = torch.tensor([[-0.3, -2.0]], dtype=torch.float64, requires_grad=True)
    ref = torch.tensor([[-0.8, -1.0]], dtype=torch.float64)
    value = kl_divergence(log_probs, ref, kind=kind, gradient="k2")
    assert torch.equal(value.detach(), kl_divergence(log_probs, ref, kind=kind).detach())
    (found,) = torch.autograd.grad(value.sum(), log_probs)
    torch.testing.assert_close(found, log_probs.detach() - ref)


def test_only_the_k2_gradient_is_unbiased_on_policy() -> None:
    """Expectation over the policy of each estimator's gradient, against that of the exact reverse KL."""
    logits = torch.tensor([0.3, -0.5, 1.1], dtype=torch.float64, requires_grad=True)
    ref = torch.log_softmax(torch.tensor([0.9, 0.1, -0.4], dtype=torch.float64), -1)

    def expected_gradient(kind: str) -> torch.Tensor:
        log_p = torch.log_softmax(logits, -1)
        estimate = (log_p.detach().exp() * kl_divergence(log_p, ref, kind=kind)).sum()
        return torch.autograd.grad(estimate, logits)[0]

    (exact,) = torch.autograd.grad(full_kl(logits[None, None], ref[None, None]).sum(), logits)
    torch.testing.assert_close(expected_gradient("k2"), exact)
    torch.testing.assert_close(expected_gradient("k1"), torch.zeros(3, dtype=torch.float64))
    assert not torch.allclose(expected_gradient("k3"), exact, atol=1e-3)


def test_full_equals_a_sum_over_the_vocabulary_for_any_chunk() -> None:
    generator = torch.Generator().manual_seed(0)
    logits, ref = (torch.randn(2, 3, 5, generator=generator, dtype=torch.float64) for _ in range(2))
    for b in range(2):
        for t in range(3):
            p, q = torch.softmax(logits[b, t], -1), torch.softmax(ref[b, t], -1)
            expected = sum(float(p[v]) * math.log(float(p[v]) / float(q[v])) for v in range(5))
            for chunk in (1, 4, 100):
                assert full_kl(logits, ref, chunk_tokens=chunk)[b, t].item() == pytest.approx(expected)


def test_full_has_the_gradient_of_finite_differences_also_when_chunked() -> None:
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(1, 3, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    ref = torch.randn(1, 3, 4, generator=generator, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda leaf: full_kl(leaf, ref, chunk_tokens=2, temperature=0.7), logits)


def test_token_forbidden_in_both_models_adds_nothing() -> None:
    logits = torch.tensor([[[0.0, 0.0, -math.inf]]], dtype=torch.float64, requires_grad=True)
    value = full_kl(logits, logits.detach())
    value.sum().backward()
    assert value.item() == 0.0
    assert logits.grad is not None
    assert bool(torch.isfinite(logits.grad).all())


def test_full_is_refused_without_logits() -> None:
    with pytest.raises(ConfigError, match="needs the logits of the policy and of the reference"):
        kl_divergence(torch.zeros(1, 1), torch.zeros(1, 1), kind="full")


def test_unknown_kind_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"Did you mean 'low_var_kl'\?"):
        kl_divergence(torch.zeros(1, 1), torch.zeros(1, 1), kind="lowvar_kl")


def test_reward_loses_kl_on_masked_tokens_only() -> None:
    rewards = torch.tensor([[0.0, 1.0, 9.0], [0.0, 0.0, 1.0]], dtype=torch.float64)
    mask = torch.tensor([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]], dtype=torch.float64)
    log_probs = torch.tensor([[-1.0, -1.0, math.nan], [-1.0, -1.0, -1.0]], dtype=torch.float64)
    ref = log_probs - 0.5
    penalised, mean = kl_in_reward(
        rewards, log_probs=log_probs, ref_log_probs=ref, response_mask=mask, kl_coef=0.1, kind="kl"
    )
    assert penalised.flatten().tolist() == pytest.approx([-0.05, 0.95, 0.0, -0.05, -0.05, 0.95])
    assert mean == pytest.approx(0.5)


def test_stored_rows_keep_their_reward() -> None:
    rewards = torch.ones(2, 1, dtype=torch.float64)
    penalised, mean = kl_in_reward(
        rewards,
        log_probs=torch.tensor([[-1.0], [-9.0]], dtype=torch.float64),
        ref_log_probs=torch.tensor([[-2.0], [-1.0]], dtype=torch.float64),
        response_mask=torch.ones(2, 1, dtype=torch.float64),
        kl_coef=0.1,
        kind="kl",
        exempt_row=torch.tensor([0, 1]),
    )
    assert penalised.flatten().tolist() == pytest.approx([0.9, 1.0])
    assert mean == pytest.approx(1.0)


def test_mean_kl_weighs_rows_not_tokens_and_skips_empty_rows() -> None:
    kl = torch.tensor([[1.0, 1.0, 1.0], [4.0, 9.0, 9.0], [9.0, 9.0, 9.0]])
    mask = torch.tensor([[1.0, 1.0, 1.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    assert mean_kl(kl, mask) == pytest.approx(2.5)


def test_adaptive_coefficient_survives_a_checkpoint_and_ignores_nan() -> None:
    controller = KLController(type="adaptive", init=0.02, target=0.1, horizon=1000)
    controller.update(0.5, 100)
    assert controller.kl_coef == pytest.approx(0.02 * 1.02)
    restored = KLController(type="adaptive", init=0.02, target=0.1, horizon=1000)
    restored.load_state_dict(controller.state_dict())
    assert restored.update(math.nan, 100) == controller.kl_coef
    assert restored.update(0.0, 100) == controller.update(0.0, 100)


def test_fixed_coefficient_never_moves() -> None:
    controller = KLController(type="fixed", init=0.01)
    assert [controller.update(kl, 512) for kl in (0.0, 5.0)] == [0.01, 0.01]


@pytest.mark.parametrize("arguments", [{"type": "adaptiv"}, {"type": "adaptive", "target": 0.0}])
def test_wrong_controller_is_an_error(arguments: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="controller"):
        KLController(**arguments)  # type: ignore[arg-type]

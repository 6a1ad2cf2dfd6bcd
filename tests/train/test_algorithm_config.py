"""The `algorithm:` config: names, presets, contradictions, and the objective that it selects."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch

from vrldata.config import validate_config
from vrldata.errors import ConfigError
from vrltrain.aggregation import LOSS_AVERAGES, GlobalCounts
from vrltrain.algorithms import ADVANTAGE_ESTIMATORS
from vrltrain.algorithms.presets import PRESETS
from vrltrain.configs_algorithm import ESTIMATOR_NAMES, LOSS_NAMES, AlgorithmConfig
from vrltrain.corrections import REJECTION_ALIASES, REJECTION_MODES
from vrltrain.losses import POLICY_LOSSES, log_probs_and_entropy
from vrltrain.objective import (
    ESTIMATOR_OPTIONS,
    AlgorithmState,
    batch_advantages,
    dynamic_sampling,
    micro_batch_loss,
    rollout_correction,
)


def config(**values: Any) -> AlgorithmConfig:
    return validate_config(AlgorithmConfig, values, source="run.yaml")


def test_config_knows_every_name_without_importing_torch() -> None:
    assert set(ESTIMATOR_NAMES) == set(ADVANTAGE_ESTIMATORS)
    assert set(LOSS_NAMES) == set(POLICY_LOSSES)
    assert AlgorithmConfig.model_fields["loss_avg"].annotation.__args__ == LOSS_AVERAGES  # type: ignore[union-attr]
    code = "import sys, vrltrain.configs_algorithm; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("preset", list(PRESETS))
def test_preset_is_a_valid_config_that_survives_writing_and_reading(preset: str) -> None:
    chosen = config(preset=preset)
    assert config(**chosen.model_dump(mode="json")) == chosen
    for key, value in PRESETS[preset].items():
        if not isinstance(value, dict):
            assert getattr(chosen, key) == value


def test_keys_beside_a_preset_override_it_also_inside_its_parts() -> None:
    chosen = config(preset="dapo", clip_ratio_high=0.4, filter={"max_tries": 3})
    assert chosen.clip_ratio_high == 0.4
    assert (chosen.filter.enabled, chosen.filter.max_tries) == (True, 3)
    assert chosen.reward.weights.overlong == 0.5


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"adv_estimator": "gropo"}, "Did you mean 'grpo'?"),
        ({"loss_type": "gsop"}, "Did you mean 'gspo'?"),
        ({"preset": "dappo"}, "Did you mean 'dapo'?"),
        ({"clip_ratio_hgih": 0.3}, "Did you mean 'clip_ratio_high'?"),
        ({"mix": {"wen": "always"}}, "Did you mean 'when'?"),
        ({"kl_coef": 0.1}, "kl_in is none"),
        ({"kl_in": "loss"}, "kl_coef is 0"),
        ({"kl_controller": {"type": "adaptive"}}, "nothing would use the coefficient"),
        ({"kl_in": "reward", "kl_coef": 0.1, "kl_grad": "k2"}, "the KL has no gradient"),
        ({"kl_in": "reward", "kl_coef": 0.1, "kl_kind": "full"}, "needs logits"),
        ({"ref_update_steps": 5}, "there is no reference to update"),
        ({"loss_type": "gspo"}, "set loss_avg: seq"),
        ({"loss_type": "gspo", "loss_avg": "seq"}, "force_wide_clip"),
        ({"loss_type": "sapo"}, "set loss_avg: seq"),
        ({"clip_ratio_dual": 0.5}, "must be above 1"),
        ({"max_staleness": 1}, "correction.level"),
        ({"correction": {"reject_high": 2}}, "need reject"),
        ({"correction": {"reject": "seq_mean_k3"}}, "needs reject_high"),
        ({"correction": {"reject": "seq_mean_k33", "reject_high": 1}}, "Did you mean 'seq_mean_k3'?"),
        ({"correction": {"reject": "token", "reject_low": 2, "reject_high": 1}}, "must be below"),
        ({"mix": {"when": "always", "source": "sql"}}, "source: sql needs sql"),
        ({"mix": {"sql": "SELECT 1"}}, "set source: sql"),
        ({"adv_estimator": "remax", "mix": {"when": "always"}}, "has no baseline for stored trajectories"),
        (
            {"adv_estimator": "rloo", "mix": {"when": "always", "offline_in_baseline": False}},
            "works with grpo and dr_grpo",
        ),
        ({"filter": {"low": 0.9, "high": 0.1}}, "must be below high"),
        ({"advantage": {"keys": ["accuracy"], "weights": [1, 2]}}, "give one for each key"),
    ],
)
def test_contradiction_is_one_line_that_says_what_to_change(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        config(**values)
    assert message in str(error.value)
    assert len(str(error.value).splitlines()) == 1


def test_wide_gspo_clip_may_be_forced() -> None:
    assert config(loss_type="gspo", loss_avg="seq", force_wide_clip=True).clip_ratio_low == 0.2


@pytest.mark.parametrize("mode", [*REJECTION_MODES, *REJECTION_ALIASES])
def test_every_rejection_mode_can_be_configured(mode: str) -> None:
    assert config(correction={"reject": mode, "reject_high": 2.0}).correction.on


def batch(seed: int = 0, size: int = 4, width: int = 3) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(seed)
    logits, ref_logits = (
        torch.randn(size, width, 6, generator=generator, dtype=torch.float64) for _ in range(2)
    )
    labels = torch.randint(0, 6, (size, width), generator=generator)
    log_probs, entropy = log_probs_and_entropy(logits, labels)
    mask = torch.ones(size, width, dtype=torch.float64)
    mask[1, 2] = 0
    rewards = torch.zeros(size, width, dtype=torch.float64)
    rewards[[0, 2], -1] = 1.0
    return {
        "logits": logits,
        "ref_logits": ref_logits,
        "log_probs": log_probs,
        "old_log_probs": log_probs.detach() - 0.1,
        "ref_log_probs": log_probs_and_entropy(ref_logits, labels)[0],
        "entropy": entropy,
        "response_mask": mask,
        "token_level_rewards": rewards,
        "uid": ["p", "p", "q", "q"],
        "task": ["ocr"] * size,
        "values": torch.zeros(size, width, dtype=torch.float64),
        "reward_baselines": torch.full((size,), 0.5, dtype=torch.float64),
        "reward_components": {
            "accuracy": rewards.sum(-1),
            "format": torch.tensor([1.0, 0.5, 1.0, 1.0], dtype=torch.float64),
        },
    }


ADVANTAGE_INPUTS = (
    "token_level_rewards",
    "response_mask",
    "uid",
    "task",
    "values",
    "reward_baselines",
    "reward_components",
    "old_log_probs",
    "ref_log_probs",
)
LOSS_INPUTS = (
    "log_probs",
    "old_log_probs",
    "response_mask",
    "ref_log_probs",
    "entropy",
    "logits",
    "ref_logits",
)


def pick(values: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: values[name] for name in names}


@pytest.mark.parametrize("preset", list(PRESETS))
def test_every_preset_goes_from_rewards_to_a_finite_loss(preset: str) -> None:
    chosen, inputs = config(preset=preset), batch()
    state = AlgorithmState.start(chosen)
    advantages = batch_advantages(chosen, state, **pick(inputs, ADVANTAGE_INPUTS)).advantages
    assert bool((advantages != 0).any())
    result = micro_batch_loss(
        chosen,
        advantages=advantages,
        counts=GlobalCounts.of(inputs["response_mask"]),
        max_response_length=3,
        kl_coef=state.kl_controller.kl_coef,
        **pick(inputs, LOSS_INPUTS),
    )
    assert bool(torch.isfinite(result.loss))


@pytest.mark.parametrize("estimator", ESTIMATOR_NAMES)
def test_every_estimator_takes_its_options_from_the_config(estimator: str) -> None:
    chosen, inputs = config(adv_estimator=estimator), batch()
    assert set(ESTIMATOR_OPTIONS.get(estimator, ())) <= set(type(chosen.advantage).model_fields)
    result = batch_advantages(chosen, AlgorithmState.start(chosen), **pick(inputs, ADVANTAGE_INPUTS))
    assert result.advantages.shape == inputs["response_mask"].shape


def loss_of(chosen: AlgorithmConfig, inputs: dict[str, Any], **options: Any) -> Any:
    return micro_batch_loss(
        chosen,
        advantages=torch.ones_like(inputs["response_mask"]),
        counts=GlobalCounts.of(inputs["response_mask"]),
        max_response_length=3,
        **{**pick(inputs, LOSS_INPUTS), **options},
    )


def test_kl_and_entropy_are_added_with_their_coefficients() -> None:
    inputs = batch()
    plain = loss_of(config(), inputs)
    mask = inputs["response_mask"]
    kl = ((inputs["log_probs"] - inputs["ref_log_probs"]) * mask).sum() / mask.sum()
    entropy = (inputs["entropy"] * mask).sum() / mask.sum()
    chosen = config(kl_in="loss", kl_kind="kl", kl_coef=0.1, entropy_coef=0.01)
    both = loss_of(chosen, inputs, kl_coef=0.1)
    assert both.loss.item() == pytest.approx(float(plain.loss + 0.1 * kl - 0.01 * entropy))
    assert both.metrics["entropy"] == pytest.approx(float(entropy))


def test_full_kl_reads_the_logits() -> None:
    inputs = batch()
    chosen = config(kl_in="loss", kl_kind="full", kl_coef=0.1)
    assert loss_of(chosen, inputs, kl_coef=0.1).metrics["kl_ref"] > 0
    with pytest.raises(ConfigError, match="needs the logits"):
        loss_of(chosen, {**inputs, "logits": None})


def test_entropy_bonus_without_entropy_is_an_error() -> None:
    with pytest.raises(ConfigError, match="no entropy was computed"):
        loss_of(config(entropy_coef=0.1), {**batch(), "entropy": None})


def test_kl_in_the_reward_moves_the_adaptive_coefficient_once_and_is_checkpointed() -> None:
    chosen = config(
        kl_in="reward", kl_coef=0.1, kl_controller={"type": "adaptive", "target": 1e-6, "horizon": 100}
    )
    inputs, state = batch(), AlgorithmState.start(chosen)
    plain = batch_advantages(config(), state, **pick(inputs, ADVANTAGE_INPUTS))
    result = batch_advantages(chosen, state, **pick(inputs, ADVANTAGE_INPUTS))
    assert result.metrics["kl/coef"] == 0.1
    assert not torch.equal(result.advantages, plain.advantages)
    assert state.kl_controller.kl_coef == pytest.approx(0.1 * (1 + 0.2 * 4 / 100))
    restored = AlgorithmState.start(chosen)
    restored.load_state_dict(state.state_dict())
    assert restored.state_dict() == state.state_dict()


def test_stored_rows_pay_no_kl_and_may_stay_out_of_the_baseline() -> None:
    inputs = pick(batch(), ADVANTAGE_INPUTS)
    offline_row = torch.tensor([1, 0, 0, 0])
    options = {"adv_estimator": "dr_grpo", "mix": {"when": "always", "offline_in_baseline": False}}
    apart = config(**options)
    result = batch_advantages(apart, AlgorithmState.start(apart), offline_row=offline_row, **inputs)
    # Group p: the online row alone has nothing to be compared with, the stored one is 1 above it.
    assert result.advantages[:2, 0].tolist() == [1.0, 0.0]
    priced = config(**options, kl_in="reward", kl_kind="abs", kl_coef=0.1)
    with_kl = batch_advantages(priced, AlgorithmState.start(priced), offline_row=offline_row, **inputs)
    kl = (inputs["old_log_probs"] - inputs["ref_log_probs"]).abs() * inputs["response_mask"]
    assert with_kl.advantages[0, 0].item() == pytest.approx(1.0 + 0.1 * float(kl[1].sum()))


def test_reward_kl_without_reference_is_an_error() -> None:
    chosen = config(kl_in="reward", kl_coef=0.1)
    inputs = {**batch(), "ref_log_probs": None}
    with pytest.raises(ConfigError, match="needs old_log_probs and ref_log_probs"):
        batch_advantages(chosen, AlgorithmState.start(chosen), **pick(inputs, ADVANTAGE_INPUTS))


def test_correction_measures_always_and_weighs_and_rejects_as_configured() -> None:
    inputs = batch()
    names = {
        "train_log_probs": inputs["old_log_probs"],
        "rollout_log_probs": inputs["old_log_probs"] - 1.0,
        "response_mask": inputs["response_mask"],
    }
    off = rollout_correction(config(), **names)
    assert off.weights is None
    assert torch.equal(off.response_mask, inputs["response_mask"])
    assert off.metrics["mismatch/kl"] == pytest.approx(-1.0)
    on = rollout_correction(
        config(correction={"level": "token", "reject": "seq_mean_k3", "reject_high": 0.1}), **names
    )
    assert on.weights is not None
    assert on.weights[0].tolist() == [2.0, 2.0, 2.0]
    assert float(on.response_mask.sum()) == 0.0
    assert on.metrics["mismatch/capped_share"] == on.metrics["mismatch/rejected_share"] == 1.0


def test_filter_is_built_from_the_config_or_absent() -> None:
    assert dynamic_sampling(config()) is None
    sampling = dynamic_sampling(config(filter={"enabled": True, "rule": "range", "max_tries": 7}))
    assert sampling is not None
    assert (sampling.rule, sampling.max_tries) == ("range", 7)


def test_mixing_switched_off_gives_the_standard_loss_exactly() -> None:
    inputs = batch()
    offline_row = torch.zeros(4)
    mixed = config(mix={"when": "always"})
    assert (
        loss_of(mixed, inputs, offline_row=offline_row).loss.item() == loss_of(config(), inputs).loss.item()
    )

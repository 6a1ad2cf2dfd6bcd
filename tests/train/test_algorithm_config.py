"""The `algorithm:` config: names, presets, contradictions, and what it selects."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch

from vrldata.config import validate_config
from vrldata.errors import ConfigError
from vrltrain.aggregation import LOSS_AVERAGES
from vrltrain.algorithms import ADVANTAGE_ESTIMATORS, EmaTaskStats, compute_advantages
from vrltrain.configs_algorithm import ESTIMATOR_NAMES, LOSS_NAMES, AlgorithmConfig
from vrltrain.corrections import REJECTION_ALIASES, REJECTION_MODES
from vrltrain.kl import KLController, kl_divergence
from vrltrain.losses import POLICY_LOSSES, policy_loss
from vrltrain.presets import PRESETS


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


OPTIONS = {
    "grpo": ("eps", "std"),
    "grpo_passk": ("eps",),
    "reinforce_plus_plus": ("gamma",),
    "gae": ("gamma", "lam", "whiten"),
    "gdpo": ("keys", "weights", "batch_norm", "eps"),
    "ema_grpo": ("decay", "min_std", "eps", "guard"),
}
"""Fields of `advantage` that each estimator takes under the same name."""


def advantages_of(chosen: AlgorithmConfig) -> torch.Tensor:
    rewards = torch.tensor([[0.0, 1.0], [0.0, 0.0], [0.0, 1.0], [0.0, 0.0]], dtype=torch.float64)
    name = chosen.adv_estimator
    inputs: dict[str, Any] = {field: getattr(chosen.advantage, field) for field in OPTIONS.get(name, ())}
    if name == "gae":
        inputs["values"] = torch.zeros_like(rewards)
    elif name == "remax":
        inputs["reward_baselines"] = torch.full((4,), 0.5, dtype=torch.float64)
    elif name == "ema_grpo":
        inputs |= {"task": ["ocr"] * 4, "state": EmaTaskStats()}
    elif name == "gdpo":
        inputs |= {"reward_accuracy": rewards.sum(-1), "reward_format": torch.ones(4)}
    mask = torch.ones_like(rewards)
    return compute_advantages(
        name, token_level_rewards=rewards, response_mask=mask, uid=list("ppqq"), **inputs
    ).advantages


@pytest.mark.parametrize("estimator", ESTIMATOR_NAMES)
def test_every_estimator_takes_its_options_from_the_config(estimator: str) -> None:
    advantages = advantages_of(config(adv_estimator=estimator))
    assert bool((advantages[[0, 2]] > 0).all())


@pytest.mark.parametrize("preset", list(PRESETS))
def test_every_preset_moves_the_policy_towards_the_better_rows(preset: str) -> None:
    chosen = config(preset=preset)
    log_probs = torch.full((4, 2), -1.0, dtype=torch.float64, requires_grad=True)
    loss = policy_loss(
        chosen.loss_type,
        log_probs=log_probs,
        old_log_probs=log_probs.detach(),
        advantages=advantages_of(chosen),
        response_mask=torch.ones(4, 2, dtype=torch.float64),
        clip_low=chosen.clip_ratio_low,
        clip_high=chosen.clip_ratio_high,
        clip_dual=chosen.clip_ratio_dual,
        tau_pos=chosen.tau_pos,
        tau_neg=chosen.tau_neg,
        avg=chosen.loss_avg,
        max_response_length=2,
    ).loss
    (gradient,) = torch.autograd.grad(loss, log_probs)
    # A descent step raises the probability of the rewarded rows above that of the others.
    assert float(gradient[[0, 2]].max()) < float(gradient[[1, 3]].min())


@pytest.mark.parametrize("preset", [name for name, values in PRESETS.items() if "kl_in" in values])
def test_every_preset_with_kl_names_a_known_kind_and_rule(preset: str) -> None:
    chosen = config(preset=preset)
    ones = torch.ones(1, 1)
    assert kl_divergence(ones, ones, kind=chosen.kl_kind, gradient=chosen.kl_grad).item() == 0.0
    rule = chosen.kl_controller
    controller = KLController(type=rule.type, init=chosen.kl_coef, target=rule.target, horizon=rule.horizon)
    assert controller.kl_coef == chosen.kl_coef > 0

"""From an `AlgorithmConfig` and tensors to advantages and to the loss of a micro-batch.

The training loop calls two functions: `batch_advantages` once a step on the whole batch,
`micro_batch_loss` on every micro-batch. Both only choose and combine the pure functions of `algorithms`,
`losses`, `kl` and `corrections`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from vrldata.errors import ConfigError
from vrltrain.aggregation import GlobalCounts, aggregate, token_average
from vrltrain.algorithms import AdvantageResult, EmaTaskStats, compute_advantages
from vrltrain.algorithms.groups import Uid
from vrltrain.configs_algorithm import AlgorithmConfig
from vrltrain.corrections import mismatch_metrics, rejection_mask, rollout_weights
from vrltrain.filters import DynamicSampling
from vrltrain.kl import KLController, kl_divergence, kl_in_reward
from vrltrain.losses import LossResult, policy_loss
from vrltrain.masked import keep_masked

ESTIMATOR_OPTIONS: dict[str, tuple[str, ...]] = {
    "grpo": ("eps", "std"),
    "grpo_passk": ("eps",),
    "reinforce_plus_plus": ("gamma",),
    "gae": ("gamma", "lam", "whiten"),
    "gdpo": ("keys", "weights", "batch_norm", "eps"),
    "ema_grpo": ("decay", "min_std", "eps", "guard"),
}
"""Fields of `AdvantageConfig` that an estimator takes; others take none."""


@dataclass(slots=True, kw_only=True)
class AlgorithmState:
    """What an algorithm remembers between steps. Part of a checkpoint.

    Attributes:
        kl_controller: the coefficient of the KL term.
        ema_stats: moving averages of EMA-GRPO.
    """

    kl_controller: KLController
    ema_stats: EmaTaskStats = field(default_factory=EmaTaskStats)

    @staticmethod
    def start(config: AlgorithmConfig) -> AlgorithmState:
        """The state before the first step."""
        rule = config.kl_controller
        controller = KLController(
            type=rule.type, init=config.kl_coef, target=rule.target, horizon=rule.horizon
        )
        return AlgorithmState(kl_controller=controller)

    def state_dict(self) -> dict[str, Any]:
        """Plain values for a checkpoint."""
        return {"kl_controller": self.kl_controller.state_dict(), "ema_stats": self.ema_stats.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        self.kl_controller.load_state_dict(state["kl_controller"])
        self.ema_stats.load_state_dict(state["ema_stats"])


def batch_advantages(
    config: AlgorithmConfig,
    state: AlgorithmState,
    *,
    token_level_rewards: Tensor,
    response_mask: Tensor,
    uid: Uid,
    valid: Tensor | None = None,
    old_log_probs: Tensor | None = None,
    ref_log_probs: Tensor | None = None,
    offline_row: Tensor | None = None,
    task: Sequence[str] | None = None,
    values: Tensor | None = None,
    reward_baselines: Tensor | None = None,
    reward_components: Mapping[str, Tensor] | None = None,
) -> AdvantageResult:
    """Advantages of a whole batch, with the KL in the reward where the config puts it there.

    With `kl_in: reward` the controller is updated here, once.

    Args:
        token_level_rewards, response_mask, uid, valid: see `algorithms.compute_advantages`.
        old_log_probs, ref_log_probs: (B, T), needed by `kl_in: reward`.
        offline_row: (B,), not 0 for stored trajectories: no KL in their reward.
        task: (B,) problem types, needed by `ema_grpo`.
        values: (B, T), needed by `gae`.
        reward_baselines: (B,), needed by `remax`.
        reward_components: by name, each (B,), needed by `gdpo`.

    Raises:
        ConfigError: an input that the config needs is missing.
    """
    metrics: dict[str, float] = {}
    rewards = token_level_rewards
    if config.kl_in == "reward":
        if old_log_probs is None or ref_log_probs is None:
            raise ConfigError("kl_in: reward needs old_log_probs and ref_log_probs")
        coefficient = state.kl_controller.kl_coef
        rewards, mean = kl_in_reward(
            rewards,
            log_probs=old_log_probs,
            ref_log_probs=ref_log_probs,
            response_mask=response_mask,
            kl_coef=coefficient,
            kind=config.kl_kind,
            exempt_row=offline_row,
        )
        metrics = {"kl/ref": mean, "kl/coef": coefficient}
        state.kl_controller.update(mean, response_mask.shape[0])
    inputs = _estimator_inputs(config, state, task, values, reward_baselines, reward_components)
    if offline_row is not None and not config.mix.offline_in_baseline:
        inputs["in_baseline"] = offline_row == 0
    result = compute_advantages(
        config.adv_estimator,
        token_level_rewards=rewards,
        response_mask=response_mask,
        uid=uid,
        valid=valid,
        **inputs,
    )
    return AdvantageResult(
        advantages=result.advantages, returns=result.returns, metrics={**result.metrics, **metrics}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """The correction for the engine's log-probabilities on a whole batch.

    Attributes:
        weights: (B, T) importance weights, or None.
        response_mask: (B, T), without what was rejected.
        metrics: the mismatch of engine and trainer, `mismatch/...`.
    """

    weights: Tensor | None
    response_mask: Tensor
    metrics: dict[str, float]


def rollout_correction(
    config: AlgorithmConfig,
    *,
    train_log_probs: Tensor,
    rollout_log_probs: Tensor,
    response_mask: Tensor,
    offline_row: Tensor | None = None,
) -> Correction:
    """Weights, rejection and mismatch figures of a whole batch; figures always, the rest as configured."""
    shared = {
        "train_log_probs": train_log_probs,
        "rollout_log_probs": rollout_log_probs,
        "offline_row": offline_row,
    }
    figures = mismatch_metrics(**shared, response_mask=response_mask)
    metrics = {f"mismatch/{name}": value for name, value in figures.items()}
    mask, weights = response_mask, None
    correction = config.correction
    if correction.level != "none":
        weights = rollout_weights(
            **shared,
            response_mask=response_mask,
            level=correction.level,
            cap=correction.cap,
            batch_normalise=correction.batch_normalise,
        )
        capped = (weights >= correction.cap) & (response_mask != 0)
        metrics["mismatch/capped_share"] = float(capped.sum()) / max(float((response_mask != 0).sum()), 1.0)
    if correction.reject is not None:
        rejection = rejection_mask(
            **shared,
            response_mask=response_mask,
            mode=correction.reject,
            low=correction.reject_low,
            high=correction.reject_high,
        )
        mask = rejection.mask
        metrics["mismatch/rejected_share"] = rejection.rejected_share
    return Correction(weights=weights, response_mask=mask, metrics=metrics)


def micro_batch_loss(
    config: AlgorithmConfig,
    *,
    log_probs: Tensor,
    old_log_probs: Tensor,
    advantages: Tensor,
    response_mask: Tensor,
    counts: GlobalCounts,
    max_response_length: int,
    kl_coef: float = 0.0,
    ref_log_probs: Tensor | None = None,
    entropy: Tensor | None = None,
    weights: Tensor | None = None,
    offline_row: Tensor | None = None,
    behaviour_log_probs: Tensor | None = None,
    logits: Tensor | None = None,
    ref_logits: Tensor | None = None,
    temperature: float = 1.0,
) -> LossResult:
    """Policy loss + kl_coef KL - entropy_coef entropy of one micro-batch, each averaged by `loss_avg`.

    Losses and metrics of the micro-batches of one optimizer step add up to those of the whole.

    Args:
        counts: `GlobalCounts.of(response_mask, offline_row)` summed over all micro-batches and ranks,
            after rejection and truncation masking.
        kl_coef: of the controller; used with `kl_in: loss`.
        ref_log_probs: (B, T), needed by `kl_in: loss`.
        entropy: (B, T); with gradient where `entropy_coef` is not 0. Only logged otherwise.
        weights: (B, T), see `rollout_correction`.
        offline_row, behaviour_log_probs: rows of stored trajectories, see `losses.policy_loss`.
        logits, ref_logits: (B, T, V), needed by `kl_kind: full`.
    """
    average = {"mode": config.loss_avg, "counts": counts, "max_response_length": max_response_length}
    result = policy_loss(
        config.loss_type,
        log_probs=log_probs,
        old_log_probs=old_log_probs,
        advantages=advantages,
        response_mask=response_mask,
        clip_low=config.clip_ratio_low,
        clip_high=config.clip_ratio_high,
        clip_dual=config.clip_ratio_dual,
        tau_pos=config.tau_pos,
        tau_neg=config.tau_neg,
        avg=config.loss_avg,
        counts=counts,
        max_response_length=max_response_length,
        rollout_weights=weights,
        offline_row=offline_row,
        offline_loss=config.mix.offline_loss,
        offline_old_prob=config.mix.offline_old_prob,
        offline_clip=config.mix.offline_clip,
        behaviour_log_probs=behaviour_log_probs,
        gamma=config.mix.gamma,
    )
    loss, metrics = result.loss, dict(result.metrics)
    if config.kl_in == "loss":
        kl = kl_divergence(
            keep_masked(log_probs, response_mask),
            None if ref_log_probs is None else keep_masked(ref_log_probs, response_mask).detach(),
            kind=config.kl_kind,
            gradient=config.kl_grad,
            logits=logits,
            ref_logits=ref_logits,
            temperature=temperature,
        )
        loss = loss + kl_coef * aggregate(kl, response_mask, **average)  # type: ignore[arg-type]
        # The mean over rows of row means is what the controller steers by.
        metrics["kl_ref"] = float(aggregate(kl.detach(), response_mask, mode="seq", counts=counts))
    if entropy is not None:
        metrics["entropy"] = token_average(entropy, response_mask, counts.num_tokens)
        if config.entropy_coef != 0:
            bonus = aggregate(entropy, response_mask, **average)  # type: ignore[arg-type]
            loss = loss - config.entropy_coef * bonus
    elif config.entropy_coef != 0:
        raise ConfigError("entropy_coef is not 0, but no entropy was computed")
    metrics["loss"] = float(loss.detach())
    return LossResult(loss=loss, metrics=metrics)


def dynamic_sampling(config: AlgorithmConfig) -> DynamicSampling[Any] | None:
    """The collector of groups with signal, or None where the filter is off."""
    rule = config.filter
    if not rule.enabled:
        return None
    return DynamicSampling(
        rule=rule.rule,
        key=rule.key,
        min_std=rule.min_std,
        low=rule.low,
        high=rule.high,
        max_tries=rule.max_tries,
    )


def _estimator_inputs(
    config: AlgorithmConfig,
    state: AlgorithmState,
    task: Sequence[str] | None,
    values: Tensor | None,
    reward_baselines: Tensor | None,
    reward_components: Mapping[str, Tensor] | None,
) -> dict[str, Any]:
    """Options from the config, and the inputs that this estimator takes besides the rewards."""
    name = config.adv_estimator
    inputs: dict[str, Any] = {key: getattr(config.advantage, key) for key in ESTIMATOR_OPTIONS.get(name, ())}
    needed: dict[str, dict[str, Any]] = {
        "ema_grpo": {"task": task, "state": state.ema_stats},
        "gae": {"values": values},
        "remax": {"reward_baselines": reward_baselines},
        "gdpo": {f"reward_{key}": value for key, value in (reward_components or {}).items()},
    }
    inputs.update({key: value for key, value in needed.get(name, {}).items() if value is not None})
    return inputs

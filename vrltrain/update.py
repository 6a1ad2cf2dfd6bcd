"""The second half of a training step: log-probabilities, advantages, and optimizer steps in micro-batches.

Every rank works on its share of the rows (`step_rows`). The loss itself lives in `objective`, the steps of a
critic in `critic_update`.
Letters in shapes: B rows of the whole step, T tokens of the longest response.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from vrltrain.batch import TrainBatch, batch_advantages, masked_for_loss
from vrltrain.configs import RunConfig
from vrltrain.corrections import K3_ALARM, mismatch_metrics, rejection_mask, rollout_weights
from vrltrain.critic_update import CriticLearner, ValueTargets, all_values, critic_update
from vrltrain.kl import KLController, kl_in_reward
from vrltrain.objective import Targets, micro_batch_loss
from vrltrain.optimizer import learning_rate, optimizer_step
from vrltrain.policy import ReferenceStates, reference_head
from vrltrain.step_rows import EncodeGroup, StepRows

if TYPE_CHECKING:
    from vrltrain.algorithms import EmaTaskStats
    from vrltrain.distributed import Ranks
    from vrltrain.policy import ModelBatch, Policy
    from vrltrain.types import RolloutGroup, Timings


logger = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Learner:
    """All that an update changes: part of a checkpoint, apart from the config.

    Attributes:
        policy: in training, sharded where there are several ranks.
        reference: frozen; None where no KL is asked for.
        optimizer_steps: taken so far.
        critic: None where the estimator needs no values.
    """

    config: RunConfig
    ranks: Ranks
    policy: Policy
    reference: Policy | None
    optimizer: torch.optim.Optimizer
    kl_controller: KLController
    ema: EmaTaskStats
    pad_token_id: int
    optimizer_steps: int = 0
    critic: CriticLearner | None = None

    @property
    def policy_learns(self) -> bool:
        """False during the warm-up of the critic."""
        return self.critic is None or self.critic.num_batches >= self.config.critic.warmup_steps


def update(
    learner: Learner,
    batch: TrainBatch,
    groups: Sequence[RolloutGroup],
    encode: EncodeGroup,
    timings: Timings,
) -> dict[str, float]:
    """Train on one step's batch; returns the figures of the step, the same on every rank."""
    rows = StepRows(
        config=learner.config,
        ranks=learner.ranks,
        batch=batch,
        encode=encode,
        pad_token_id=learner.pad_token_id,
    )
    targets, value_targets, metrics, kl = _targets(learner, rows, groups, timings)
    learns = learner.policy_learns
    if learns:
        with _timed(timings, "update"):
            metrics |= _policy_steps(learner, rows, targets)
    if learner.critic is not None and value_targets is not None:
        with _timed(timings, "critic_update"):
            metrics |= critic_update(learner.critic, rows, value_targets)
    if learner.reference is not None and (learns or kl is not None):
        metrics["kl/mean"] = metrics.get("kl/mean", 0.0) if kl is None else kl
        metrics["kl/coef"] = learner.kl_controller.kl_coef
        learner.kl_controller.update(metrics["kl/mean"], len(batch.rows))
    _alarm(learner, metrics.get("mismatch/k3_kl", 0.0))
    return metrics


def _targets(
    learner: Learner, rows: StepRows, groups: Sequence[RolloutGroup], timings: Timings
) -> tuple[Targets, ValueTargets | None, dict[str, float], float | None]:
    """(targets, those of the critic, figures, mean KL where it is part of the reward)."""
    batch, algorithm = rows.batch, learner.config.algorithm
    recompute = not learner.config.update.on_policy or batch.stale or algorithm.correction.on
    old = reference = values = None
    with _timed(timings, "old_log_probs"):
        if recompute or algorithm.kl_in == "reward":
            old = _all_log_probs(learner.policy, rows)
    with _timed(timings, "ref_log_probs"):
        if learner.reference is not None and algorithm.needs_ref_log_probs:
            reference = _all_log_probs(learner.reference, rows)
    with _timed(timings, "values"):
        if learner.critic is not None:
            values = all_values(learner.critic.critic, rows)
    with _timed(timings, "advantages"):
        rewards, kl = batch.token_level_rewards, None
        if algorithm.kl_in == "reward" and old is not None and reference is not None:
            rewards, kl = kl_in_reward(
                rewards,
                log_probs=old,
                ref_log_probs=reference,
                response_mask=batch.response_mask,
                kl_coef=learner.kl_controller.kl_coef,
                kind=algorithm.kl_kind,
                exempt_row=batch.offline_row,
            )
        result = batch_advantages(
            algorithm, batch, groups, token_level_rewards=rewards, ema=learner.ema, values=values
        )
        mask, weights, metrics = _correct(learner, batch, old)
    targets = Targets(
        mask=mask,
        advantages=result.advantages,
        old_log_probs=old,
        ref_log_probs=reference,
        weights=weights,
        behaviour_log_probs=batch.rollout_log_probs,
        offline_row=batch.offline_row,
    )
    value_targets = None
    if values is not None and result.returns is not None:
        value_targets = ValueTargets.of(batch, values, result.returns)
    return targets, value_targets, {**result.metrics, **metrics}, kl


def _policy_steps(learner: Learner, rows: StepRows, targets: Targets) -> dict[str, float]:
    """The optimizer steps of the batch; returns their mean figures."""
    metrics: dict[str, float] = {}
    current = torch.zeros_like(rows.batch.token_level_rewards)
    passes = rows.passes()
    for chosen in passes:
        figures = _one_step(learner, rows, chosen, targets, current)
        for name, value in figures.items():
            metrics[name] = metrics.get(name, 0.0) + value / len(passes)
    if targets.old_log_probs is None:
        metrics |= _mismatch(rows.batch, learner.ranks.sum(current))
    return metrics


def _one_step(
    learner: Learner, rows: StepRows, chosen: Sequence[int], targets: Targets, current: Tensor
) -> dict[str, float]:
    """One optimizer step on `chosen` rows: gradients summed over micro-batches and ranks. Fills `current`
    (B, T)."""
    config, ranks = learner.config, learner.ranks
    counts = targets.counts(chosen)
    figures: dict[str, float] = {}
    for part, inputs, run_vision in rows.micro_batches(chosen):
        reference = _reference_states(learner, inputs, run_vision)
        log_probs, entropy, *kl = learner.policy(inputs, run_vision=run_vision, reference=reference)
        if not part:  # another rank has one micro-batch more: take part in its collectives with nothing
            (log_probs.sum() * 0.0).backward()
            continue
        current[part, : log_probs.shape[1]] = log_probs.detach().float().cpu()
        result = micro_batch_loss(
            config,
            targets,
            part,
            log_probs=log_probs,
            entropy=entropy,
            counts=counts,
            kl_coef=learner.kl_controller.kl_coef,
            full_kl=kl[0] if kl else None,
        )
        (result.loss * ranks.world_size).backward()  # sharded gradients are averaged over the ranks
        for name, value in result.metrics.items():
            figures[name] = figures.get(name, 0.0) + value
    steps = config.steps - config.critic.warmup_steps * int(learner.critic is not None)
    total = steps * config.update.mini_batches * config.update.epochs
    rate = learning_rate(config.optim, learner.optimizer_steps, total)
    stepped = optimizer_step(
        learner.policy, learner.optimizer, lr=rate, max_grad_norm=config.optim.max_grad_norm
    )
    learner.optimizer_steps += 1
    return ranks.sum_figures(figures) | stepped


@torch.no_grad()
def _reference_states(learner: Learner, inputs: ModelBatch, run_vision: bool) -> ReferenceStates | None:
    """What the policy needs to compare itself with the reference over the whole vocabulary, where the KL is
    of that kind: states instead of logits, which would not fit."""
    if learner.reference is None or learner.config.algorithm.kl_kind != "full":
        return None
    hidden = learner.reference.response_states(inputs, run_vision=run_vision)
    return ReferenceStates(hidden=hidden, head=reference_head(learner.reference))


def _correct(
    learner: Learner, batch: TrainBatch, old: Tensor | None
) -> tuple[Tensor, Tensor | None, dict[str, float]]:
    """(loss mask, importance weights, figures) of the correction for the engine's log-probabilities."""
    correction = learner.config.algorithm.correction
    mask = masked_for_loss(learner.config.algorithm, batch)
    if old is None:
        return mask, None, {}
    metrics = _mismatch(batch, old)
    if not correction.on:
        return mask, None, metrics
    rollout = torch.nan_to_num(batch.rollout_log_probs)
    weights = None
    if correction.level != "none":
        weights = rollout_weights(
            train_log_probs=old,
            rollout_log_probs=rollout,
            response_mask=mask,
            level=correction.level,
            cap=correction.cap,
            batch_normalise=correction.batch_normalise,
            offline_row=batch.offline_row,
        )
        metrics["correction/weight_mean"] = float(weights[mask != 0].mean()) if bool(mask.any()) else 1.0
    if correction.reject is not None:
        kept = rejection_mask(
            train_log_probs=old,
            rollout_log_probs=rollout,
            response_mask=mask,
            mode=correction.reject,
            low=correction.reject_low,
            high=correction.reject_high,
            offline_row=batch.offline_row,
        )
        mask, metrics["correction/rejected_share"] = kept.mask, kept.rejected_share
    return mask, weights, metrics


def _mismatch(batch: TrainBatch, train_log_probs: Tensor) -> dict[str, float]:
    known = batch.loss_mask * (~torch.isnan(batch.rollout_log_probs)).long()
    figures = mismatch_metrics(
        train_log_probs=train_log_probs,
        rollout_log_probs=torch.nan_to_num(batch.rollout_log_probs),
        response_mask=known,
        offline_row=batch.offline_row,
    )
    return {f"mismatch/{name}": value for name, value in figures.items()}


@torch.no_grad()
def _all_log_probs(policy: Policy, rows: StepRows) -> Tensor:
    """float32 (B, T): ln p of every response token under `policy`, on the CPU, the same on every rank."""
    result = torch.zeros_like(rows.batch.token_level_rewards)
    for part, inputs, run_vision in rows.all_rows():
        log_probs, _ = policy(inputs, run_vision=run_vision)
        if part:
            result[part, : log_probs.shape[1]] = log_probs.float().cpu()
    return rows.ranks.sum(result)


def _alarm(learner: Learner, k3: float) -> None:
    """Tell when the engine samples from another distribution than the one in training, unless it should."""
    if k3 > K3_ALARM and learner.ranks.is_main and learner.config.algorithm.max_staleness == 0:
        logger.warning(
            "the engine's log-probabilities are not those of the trainer (mean k3 %.3f, alarm above %g): "
            "check rollout.dtype and the engine's version, or set algorithm.correction.level: token",
            k3,
            K3_ALARM,
        )


@contextmanager
def _timed(timings: Timings, phase: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    timings.add(phase, time.perf_counter() - start)

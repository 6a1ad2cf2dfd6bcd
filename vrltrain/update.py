"""The second half of a training step: log-probabilities, advantages, and optimizer steps in micro-batches.

Every rank holds the tokens of the whole batch and works on its share of the rows; pixels are fetched for a
micro-batch and dropped after it. The loss itself lives in `objective`.
Letters in shapes: B rows of the whole step, T tokens of the longest response.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from vrltrain.batch import TrainBatch, batch_advantages, masked_for_loss
from vrltrain.batching import empty_batch, model_batch, plan_micro_batches
from vrltrain.configs import RunConfig
from vrltrain.corrections import mismatch_metrics, rejection_mask, rollout_weights
from vrltrain.kl import KLController, kl_in_reward
from vrltrain.objective import Targets, micro_batch_loss
from vrltrain.optimizer import learning_rate, optimizer_step

if TYPE_CHECKING:
    from vrltrain.algorithms import EmaTaskStats
    from vrltrain.distributed import Ranks
    from vrltrain.inputs import EncodedPrompt
    from vrltrain.policy import ModelBatch, Policy
    from vrltrain.types import RolloutGroup, Timings

EncodeGroup = Callable[[int], "EncodedPrompt"]
"""Group number -> its prompt as tensors."""


@dataclass(slots=True, kw_only=True)
class Learner:
    """All that an update changes: part of a checkpoint, apart from the config.

    Attributes:
        policy: in training, sharded where there are several ranks.
        reference: frozen; None where no KL is asked for.
        optimizer_steps: taken so far.
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


def update(
    learner: Learner,
    batch: TrainBatch,
    groups: Sequence[RolloutGroup],
    encode: EncodeGroup,
    timings: Timings,
) -> dict[str, float]:
    """Train on one step's batch; returns the figures of the step, the same on every rank."""
    config = learner.config
    targets, metrics, kl = _targets(learner, batch, groups, encode, timings)
    with _timed(timings, "update"):
        current = torch.zeros_like(batch.token_level_rewards)
        passes = _mini_batches(batch, config.update.mini_batches) * config.update.epochs
        for rows in passes:
            figures = _one_step(learner, batch, rows, targets, encode, current)
            for name, value in figures.items():
                metrics[name] = metrics.get(name, 0.0) + value / len(passes)
        if targets.old_log_probs is None:
            metrics |= _mismatch(batch, learner.ranks.sum(current))
    if learner.reference is not None:
        metrics["kl/mean"] = metrics.get("kl/mean", 0.0) if kl is None else kl
        metrics["kl/coef"] = learner.kl_controller.kl_coef
        learner.kl_controller.update(metrics["kl/mean"], len(batch.rows))
    return metrics


def _targets(
    learner: Learner,
    batch: TrainBatch,
    groups: Sequence[RolloutGroup],
    encode: EncodeGroup,
    timings: Timings,
) -> tuple[Targets, dict[str, float], float | None]:
    """(targets, figures, mean KL where it is part of the reward)."""
    config, algorithm = learner.config, learner.config.algorithm
    recompute = not config.update.on_policy or batch.stale or algorithm.correction.on
    old = reference = None
    with _timed(timings, "old_log_probs"):
        if recompute or algorithm.kl_in == "reward":
            old = _all_log_probs(learner, learner.policy, batch, encode)
    with _timed(timings, "ref_log_probs"):
        if learner.reference is not None:
            reference = _all_log_probs(learner, learner.reference, batch, encode)
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
        result = batch_advantages(algorithm, batch, groups, token_level_rewards=rewards, ema=learner.ema)
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
    return targets, {**result.metrics, **metrics}, kl


def _one_step(
    learner: Learner,
    batch: TrainBatch,
    rows: Sequence[int],
    targets: Targets,
    encode: EncodeGroup,
    current: Tensor,
) -> dict[str, float]:
    """One optimizer step on `rows`: gradients summed over micro-batches and ranks. Fills `current` (B, T)."""
    config, ranks = learner.config, learner.ranks
    counts = targets.counts(rows)
    figures: dict[str, float] = {}
    for part, inputs, run_vision in _micro_batches(learner, batch, rows, encode):
        log_probs, entropy = learner.policy(inputs, run_vision=run_vision)
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
        )
        (result.loss * ranks.world_size).backward()  # sharded gradients are averaged over the ranks
        for name, value in result.metrics.items():
            figures[name] = figures.get(name, 0.0) + value
    total = config.steps * config.update.mini_batches * config.update.epochs
    rate = learning_rate(config.optim, learner.optimizer_steps, total)
    stepped = optimizer_step(
        learner.policy, learner.optimizer, lr=rate, max_grad_norm=config.optim.max_grad_norm
    )
    learner.optimizer_steps += 1
    return ranks.sum_figures(figures) | stepped


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
def _all_log_probs(learner: Learner, policy: Policy, batch: TrainBatch, encode: EncodeGroup) -> Tensor:
    """float32 (B, T): ln p of every response token under `policy`, on the CPU, the same on every rank."""
    result = torch.zeros_like(batch.token_level_rewards)
    for part, model_inputs, run_vision in _micro_batches(
        learner, batch, list(range(len(batch.rows))), encode
    ):
        log_probs, _ = policy(model_inputs, run_vision=run_vision)
        if part:
            result[part, : log_probs.shape[1]] = log_probs.float().cpu()
    return learner.ranks.sum(result)


def _mini_batches(batch: TrainBatch, number: int) -> list[list[int]]:
    """Row numbers of each optimizer step: whole groups in their order, as even as that allows."""
    number = min(number, len(batch.groups)) or 1
    bounds = [round(index * len(batch.groups) / number) for index in range(number + 1)]
    return [
        [row for group in batch.groups[start:end] for row in group]
        for start, end in itertools.pairwise(bounds)
    ]


def _micro_batches(
    learner: Learner, batch: TrainBatch, rows: Sequence[int], encode: EncodeGroup
) -> Iterator[tuple[list[int], ModelBatch, bool]]:
    """(row numbers, model inputs, run the vision tower) of this rank, as many on every rank.

    Rows are empty where this rank has less to do than another. The vision tower runs on a blank picture
    where another rank's micro-batch has media and this one's has none.
    """
    config, ranks = learner.config, learner.ranks
    chosen = set(rows)
    members = [[row for row in group if row in chosen] for group in batch.groups]
    plan = plan_micro_batches(
        [group for group in members if group],
        batch.lengths,
        max_tokens=config.update.max_tokens_per_micro_batch,
        num_ranks=ranks.world_size,
    )
    for parts in plan:
        run_vision = ranks.world_size > 1 and any(
            batch.has_media[batch.rows[row][0]] for part in parts for row in part
        )
        mine = parts[ranks.rank]
        if not mine:
            inputs = empty_batch(learner.pad_token_id)
        else:
            encoded = {number: encode(number) for number in dict.fromkeys(batch.rows[row][0] for row in mine)}
            inputs = model_batch(
                [encoded[batch.rows[row][0]] for row in mine],
                [batch.rows[row][1].token_ids for row in mine],
                pad_token_id=learner.pad_token_id,
                temperature=config.rollout.temperature,
            )
        yield mine, inputs.to(ranks.device), run_vision


@contextmanager
def _timed(timings: Timings, phase: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    timings.add(phase, time.perf_counter() - start)

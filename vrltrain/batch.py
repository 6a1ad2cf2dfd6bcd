"""The groups of one step as tensors: what advantages and losses take. Model inputs are made in `batching`.

Letters in shapes: B rows of the whole step, T tokens of the longest response.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from vrltrain.algorithms import AdvantageResult, EmaTaskStats, compute_advantages
from vrltrain.configs_algorithm import AlgorithmConfig
from vrltrain.response_mask import pad_rows
from vrltrain.rewards import Reward, drop_truncated, outcome_to_tokens
from vrltrain.types import Rollout, RolloutGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainBatch:
    """All rows of one step; the same on every rank.

    Attributes:
        rows: (group number, rollout) of each row.
        rewards: of each row.
        response_mask: int64 (B, T), 1 on the tokens that the row's policy wrote.
        valid: bool (B,), False where the row could not be scored.
        token_level_rewards: float32 (B, T), the reward on the last masked token.
        rollout_log_probs: float32 (B, T) of the engine; NaN where unknown.
        offline_row: int64 (B,), 1 for stored trajectories.
        lengths: tokens of prompt and response of each row.
        groups: row numbers of each group.
        has_media: of each group: whether its prompt shows pictures.
    """

    rows: list[tuple[int, Rollout]]
    rewards: list[Reward]
    response_mask: Tensor
    valid: Tensor
    token_level_rewards: Tensor
    rollout_log_probs: Tensor
    offline_row: Tensor
    lengths: list[int]
    groups: list[list[int]]
    has_media: list[bool]

    @property
    def loss_mask(self) -> Tensor:
        """int64 (B, T): the response mask without rows that are not valid."""
        return self.response_mask * self.valid.unsqueeze(-1).long()

    @property
    def stale(self) -> bool:
        """True when rows of several policies are together."""
        versions = {rollout.policy_version for _, rollout in self.rows if rollout.source == "rollout"}
        return len(versions) > 1


def train_batch(groups: Sequence[RolloutGroup]) -> TrainBatch:
    """Tensors of the groups' rows, in their order."""
    rows: list[tuple[int, Rollout]] = []
    rewards: list[Reward] = []
    members: list[list[int]] = []
    lengths: list[int] = []
    for number, group in enumerate(groups):
        members.append(list(range(len(rows), len(rows) + len(group.rollouts))))
        rows += [(number, rollout) for rollout in group.rollouts]
        rewards += group.rewards
        lengths += [group.prompt_tokens + len(rollout.token_ids) for rollout in group.rollouts]
    width = max((len(rollout.token_ids) for _, rollout in rows), default=1)
    masks = [rollout.response_mask or (1,) * len(rollout.token_ids) for _, rollout in rows]
    response_mask = pad_rows(masks, width, 0, torch.int64)
    placed, valid = outcome_to_tokens([reward.overall for reward in rewards], response_mask)
    known = [rollout.log_probs or (math.nan,) * len(rollout.token_ids) for _, rollout in rows]
    return TrainBatch(
        rows=rows,
        rewards=rewards,
        response_mask=response_mask,
        valid=valid,
        token_level_rewards=placed,
        rollout_log_probs=pad_rows(known, width, math.nan, torch.float32),
        offline_row=torch.tensor([int(rollout.source == "offline") for _, rollout in rows]),
        lengths=lengths,
        groups=members,
        has_media=[bool(group.sample.videos or group.sample.images) for group in groups],
    )


def batch_advantages(
    config: AlgorithmConfig,
    batch: TrainBatch,
    groups: Sequence[RolloutGroup],
    *,
    token_level_rewards: Tensor,
    ema: EmaTaskStats,
    values: Tensor | None = None,
) -> AdvantageResult:
    """Advantages of the whole batch by the configured estimator.

    Args:
        token_level_rewards: (B, T), with the KL penalty where that is part of the reward.
        ema: statistics of `ema_grpo`, updated here.
        values: (B, T) of the critic, for `gae`.
    """
    options = _estimator_options(config, batch, groups, ema)
    valid = batch.valid
    if values is not None:
        options |= {"values": values, "gamma": config.advantage.gamma, "lam": config.advantage.lam}
        options["whiten"] = config.advantage.whiten
        # stored trajectories enter by `sft`, which takes no advantage: keep them out of the whitening
        valid = valid & (batch.offline_row == 0)
    return compute_advantages(
        config.adv_estimator,
        response_mask=batch.response_mask,
        token_level_rewards=token_level_rewards,
        uid=[groups[number].uid for number, _ in batch.rows],
        valid=valid,
        **options,
    )


def masked_for_loss(config: AlgorithmConfig, batch: TrainBatch) -> Tensor:
    """int64 (B, T): the loss mask, without truncated rows where the config asks for that."""
    if not config.reward.mask_truncated:
        return batch.loss_mask
    return drop_truncated(batch.loss_mask, [rollout.finish_reason for _, rollout in batch.rows])


def _estimator_options(
    config: AlgorithmConfig, batch: TrainBatch, groups: Sequence[RolloutGroup], ema: EmaTaskStats
) -> dict[str, object]:
    """The inputs and options that each estimator takes besides rewards and mask."""
    advantage, name = config.advantage, config.adv_estimator
    options: dict[str, object] = {}
    if name == "grpo":
        options = {"eps": advantage.eps, "std": advantage.std}
    elif name == "grpo_passk":
        options = {"eps": advantage.eps}
    elif name == "reinforce_plus_plus":
        options = {"gamma": advantage.gamma}
    elif name == "remax":
        # groups without a greedy reward have left the batch
        options = {
            "reward_baselines": torch.tensor(
                [float(groups[number].greedy_reward or 0.0) for number, _ in batch.rows]
            )
        }
    elif name == "gdpo":
        options = {
            "keys": advantage.keys,
            "weights": advantage.weights,
            "batch_norm": advantage.batch_norm,
            "eps": advantage.eps,
        }
        for key in advantage.keys:
            values = [reward.components.get(key, 0.0) for reward in batch.rewards]
            options[f"reward_{key}"] = torch.tensor(values)
    elif name == "ema_grpo":
        options = {
            "task": [groups[number].sample.problem_type for number, _ in batch.rows],
            "state": ema,
            "decay": advantage.decay,
            "min_std": advantage.min_std,
            "eps": advantage.eps,
            "guard": advantage.guard,
        }
    if config.mix.on and not config.mix.offline_in_baseline:
        options["in_baseline"] = batch.offline_row == 0
    return options

"""Leave-one-out and length-weighted baselines: RLOO and OPO."""

from __future__ import annotations

import torch
from torch import Tensor

from vrltrain.algorithms.groups import (
    AdvantageResult,
    Uid,
    group_index,
    group_statistics,
    outcome_rewards,
    over_tokens,
    valid_rows,
)


def rloo(
    *, token_level_rewards: Tensor, response_mask: Tensor, uid: Uid, valid: Tensor | None = None
) -> AdvantageResult:
    """A_i = R_i - (sum_g R - R_i) / (N_g - 1): the baseline of a row is the mean of the others.

    Ahmadian et al., "Back to Basics" (2024). A group with one valid row, or with equal rewards, gets
    exactly 0.
    """
    rewards = outcome_rewards(token_level_rewards, response_mask)
    rows = valid_rows(response_mask, valid)
    statistics = group_statistics(rewards, uid, rows)
    # R_i minus the mean of the others equals the deviation from the mean of all, times N / (N - 1).
    advantages = (rewards - statistics.mean) * statistics.count / (statistics.count - 1).clamp(min=1)
    advantages = torch.where(rows & ~statistics.degenerate, advantages, torch.zeros_like(rewards))
    return AdvantageResult(advantages=over_tokens(advantages, response_mask, token_level_rewards))


def opo(
    *, token_level_rewards: Tensor, response_mask: Tensor, uid: Uid, valid: Tensor | None = None
) -> AdvantageResult:
    """A_i = R_i - sum_g(L_j R_j) / sum_g(L_j), with L the number of masked tokens of a row.

    Hao et al., "On-Policy RL with Optimal Reward Baseline" (2025): the variance-minimal baseline when the
    squared gradient norm of a row grows with its length.
    """
    rewards = outcome_rewards(token_level_rewards, response_mask)
    rows = valid_rows(response_mask, valid)
    statistics = group_statistics(rewards, uid, rows)
    index = group_index(uid).to(rewards.device)
    lengths = torch.where(rows, (response_mask != 0).sum(-1).to(rewards.dtype), torch.zeros_like(rewards))
    groups = int(index.max()) + 1 if index.numel() else 0
    total = rewards.new_zeros(groups).index_add(0, index, lengths)
    weighted = rewards.new_zeros(groups).index_add(0, index, lengths * rewards)
    baseline = (weighted / total.clamp(min=1))[index]
    advantages = torch.where(rows & ~statistics.degenerate, rewards - baseline, torch.zeros_like(rewards))
    return AdvantageResult(advantages=over_tokens(advantages, response_mask, token_level_rewards))

"""REINFORCE++ and its form with a group baseline: advantages whitened over all tokens of the batch."""

from __future__ import annotations

import torch
from torch import Tensor

from vrltrain.algorithms.groups import (
    AdvantageResult,
    Uid,
    group_statistics,
    outcome_rewards,
    over_tokens,
    result_dtype,
    valid_rows,
)
from vrltrain.masked import keep_masked, masked_whiten


def discounted_returns(token_level_rewards: Tensor, response_mask: Tensor, gamma: float = 1.0) -> Tensor:
    """G_t = r_t + gamma * G_{t+1} over the masked tokens, float64 (B, T), 0 elsewhere.

    A token outside the mask is skipped: the running return is carried over it undiscounted.
    """
    rewards = keep_masked(token_level_rewards.double(), response_mask)
    mask = response_mask != 0
    returns = torch.zeros_like(rewards)
    running = rewards.new_zeros(rewards.shape[0])
    for step in range(rewards.shape[1] - 1, -1, -1):
        running = torch.where(mask[:, step], rewards[:, step] + gamma * running, running)
        returns[:, step] = running
    return keep_masked(returns, response_mask)


def reinforce_plus_plus(
    *,
    token_level_rewards: Tensor,
    response_mask: Tensor,
    uid: Uid | None = None,
    valid: Tensor | None = None,
    gamma: float = 1.0,
    whiten_eps: float = 1e-8,
) -> AdvantageResult:
    """Discounted returns inside the mask, whitened over all masked tokens of the batch (unbiased variance).

    Hu et al., "REINFORCE++" (2025). `uid` plays no part. Advantages are 0 outside the mask.
    """
    mask = response_mask * valid_rows(response_mask, valid).unsqueeze(-1).to(response_mask.dtype)
    returns = discounted_returns(token_level_rewards, mask, gamma)
    dtype = result_dtype(token_level_rewards)
    return AdvantageResult(
        advantages=masked_whiten(returns, mask, eps=whiten_eps).to(dtype), returns=returns.to(dtype)
    )


def reinforce_plus_plus_baseline(
    *,
    token_level_rewards: Tensor,
    response_mask: Tensor,
    uid: Uid,
    valid: Tensor | None = None,
    whiten_eps: float = 1e-8,
) -> AdvantageResult:
    """R_i - mean_g on every masked token, then whitened over all masked tokens of the batch.

    Hu et al., "REINFORCE++" (2025), variant with a group baseline. Whitening subtracts the mean over
    tokens of the batch, so a group with equal rewards is at the batch mean, not at 0, when rows differ in
    length.
    """
    rewards = outcome_rewards(token_level_rewards, response_mask)
    rows = valid_rows(response_mask, valid)
    statistics = group_statistics(rewards, uid, rows)
    mask = response_mask * rows.unsqueeze(-1).to(response_mask.dtype)
    deviation = torch.where(
        rows & ~statistics.degenerate, rewards - statistics.mean, torch.zeros_like(rewards)
    )
    whitened = masked_whiten(deviation.unsqueeze(-1).expand(mask.shape), mask, eps=whiten_eps)
    advantages = whitened.to(result_dtype(token_level_rewards))
    # Exactly one value a row: the returns are the centred rewards before whitening.
    return AdvantageResult(advantages=advantages, returns=over_tokens(deviation, mask, token_level_rewards))

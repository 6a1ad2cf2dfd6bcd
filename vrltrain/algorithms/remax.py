"""ReMax: the reward of a greedy rollout as the baseline of a prompt."""

from __future__ import annotations

import torch
from torch import Tensor

from vrltrain.algorithms.groups import (
    AdvantageResult,
    Uid,
    outcome_rewards,
    over_tokens,
    result_dtype,
    valid_rows,
)
from vrltrain.algorithms.reinforce_plus_plus import discounted_returns


def remax(
    *,
    token_level_rewards: Tensor,
    response_mask: Tensor,
    reward_baselines: Tensor,
    uid: Uid | None = None,
    valid: Tensor | None = None,
) -> AdvantageResult:
    """A_it = (R_i - b_i) on the masked tokens of row i.

    Li et al., "ReMax" (2023). `uid` plays no part.

    Args:
        reward_baselines: (B,), reward of the greedy rollout of the row's prompt. NaN where that rollout
            could not
            be scored: the row then gets 0.
    """
    baselines = reward_baselines.double()
    rows = valid_rows(response_mask, valid) & ~torch.isnan(baselines)
    rewards = outcome_rewards(token_level_rewards, response_mask)
    advantages = torch.where(rows, rewards - baselines, torch.zeros_like(rewards))
    mask = response_mask * rows.unsqueeze(-1).to(response_mask.dtype)
    return AdvantageResult(
        advantages=over_tokens(advantages, response_mask, token_level_rewards),
        returns=discounted_returns(token_level_rewards, mask).to(result_dtype(token_level_rewards)),
    )

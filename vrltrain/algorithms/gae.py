"""Generalised advantage estimation with a critic."""

from __future__ import annotations

import torch
from torch import Tensor

from vrltrain.algorithms.groups import AdvantageResult, Uid, result_dtype, valid_rows
from vrltrain.masked import keep_masked, masked_whiten


def gae(
    *,
    token_level_rewards: Tensor,
    response_mask: Tensor,
    values: Tensor,
    uid: Uid | None = None,
    valid: Tensor | None = None,
    gamma: float = 1.0,
    lam: float = 1.0,
    whiten: bool = True,
    whiten_eps: float = 1e-8,
) -> AdvantageResult:
    """delta_t = r_t + gamma V_{t+1} - V_t;  A_t = delta_t + gamma lambda A_{t+1};  returns = A + V.

    Schulman et al., "High-Dimensional Continuous Control Using GAE" (2016), equations 11 and 16.
    Tokens outside the mask are skipped: the next value and the running advantage are carried over them.

    Args:
        values: (B, T), the critic's value before each token.
        whiten: whiten the advantages over all masked tokens; the returns are taken before.
    """
    mask = response_mask * valid_rows(response_mask, valid).unsqueeze(-1).to(response_mask.dtype)
    rewards = keep_masked(token_level_rewards.double(), mask)
    baseline = keep_masked(values.double(), mask)
    inside = mask != 0
    next_value = rewards.new_zeros(rewards.shape[0])
    running = rewards.new_zeros(rewards.shape[0])
    advantages = torch.zeros_like(rewards)
    for step in range(rewards.shape[1] - 1, -1, -1):
        delta = rewards[:, step] + gamma * next_value - baseline[:, step]
        running = torch.where(inside[:, step], delta + gamma * lam * running, running)
        next_value = torch.where(inside[:, step], baseline[:, step], next_value)
        advantages[:, step] = running
    advantages = keep_masked(advantages, mask)
    returns = keep_masked(advantages + baseline, mask)
    if whiten:
        advantages = masked_whiten(advantages, mask, eps=whiten_eps)
    dtype = result_dtype(token_level_rewards)
    return AdvantageResult(advantages=advantages.to(dtype), returns=returns.to(dtype))

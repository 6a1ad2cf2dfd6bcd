"""GRPO and its relatives that compare the rows of a group: GRPO, Dr. GRPO and GRPO for pass@k."""

from __future__ import annotations

import torch
from torch import Tensor

from vrldata.errors import ConfigError, nearest
from vrltrain.algorithms.groups import (
    AdvantageResult,
    GroupStatistics,
    Uid,
    group_index,
    group_statistics,
    outcome_rewards,
    over_tokens,
    valid_rows,
)

STD_KINDS = ("group", "unbiased", "population", "batch", "none")
"""What the centred reward is divided by; `unbiased` is another name of `group`."""


def grpo(
    *,
    token_level_rewards: Tensor,
    response_mask: Tensor,
    uid: Uid,
    valid: Tensor | None = None,
    in_baseline: Tensor | None = None,
    eps: float = 1e-6,
    std: str = "group",
) -> AdvantageResult:
    """A_i = (R_i - mean_g) / (std_g + eps) on every masked token of row i.

    Shao et al., "DeepSeekMath" (2024), equation 21 without process rewards.
    A group with one valid row, or with equal rewards, gets exactly 0.

    Args:
        token_level_rewards: (B, T), the outcome reward on the last masked token.
        response_mask: (B, T).
        uid: (B,), names the group of a row.
        valid: bool (B,); other rows get 0 and enter no statistic.
        in_baseline: bool (B,); valid rows outside it get an advantage but enter no statistic. Where the rows
            inside have equal rewards there is no scale: such a row then gets R_i - mean_g.
        eps: added to the standard deviation.
        std: `group` (unbiased), `population`, `batch` (unbiased, over all rewards of the batch) or `none`.
    """
    rewards = outcome_rewards(token_level_rewards, response_mask)
    rows = valid_rows(response_mask, valid)
    members = rows if in_baseline is None else rows & in_baseline.to(torch.bool)
    statistics = group_statistics(rewards, uid, members)
    scale = _scale(std, rewards, members, statistics, eps)
    return AdvantageResult(
        advantages=over_tokens(
            centred(rewards, rows, members, statistics, scale), response_mask, token_level_rewards
        )
    )


def dr_grpo(
    *,
    token_level_rewards: Tensor,
    response_mask: Tensor,
    uid: Uid,
    valid: Tensor | None = None,
    in_baseline: Tensor | None = None,
) -> AdvantageResult:
    """A_i = R_i - mean_g: GRPO without the division by the standard deviation.

    Liu et al., "Understanding R1-Zero-Like Training" (2025). Pair it with `loss_avg: seq_sum_norm`.
    """
    return grpo(
        token_level_rewards=token_level_rewards,
        response_mask=response_mask,
        uid=uid,
        valid=valid,
        in_baseline=in_baseline,
        std="none",
    )


def grpo_passk(
    *,
    token_level_rewards: Tensor,
    response_mask: Tensor,
    uid: Uid,
    valid: Tensor | None = None,
    eps: float = 1e-6,
) -> AdvantageResult:
    """Only the best row of a group is rewarded: (R_1st - R_2nd) / (std_g + eps); a tie at the top gives 0.

    Tang et al., "Optimizing Language Models for Inference Time Objectives" (2025): with the best of the
    others as its baseline, a row has an advantage only where it is the best itself. Divided as in GRPO.
    """
    rewards = outcome_rewards(token_level_rewards, response_mask)
    rows = valid_rows(response_mask, valid)
    statistics = group_statistics(rewards, uid, rows)
    index = group_index(uid).to(rewards.device)
    advantages = torch.zeros_like(rewards)
    for group in range(int(index.max()) + 1 if index.numel() else 0):
        members = torch.nonzero((index == group) & rows).flatten()
        if members.numel() < 2:
            continue
        top = rewards[members].topk(2)
        best = members[top.indices[0]]
        advantages[best] = (top.values[0] - top.values[1]) / (statistics.std[best] + eps)
    return AdvantageResult(advantages=over_tokens(advantages, response_mask, token_level_rewards))


def centred(
    rewards: Tensor, rows: Tensor, members: Tensor, statistics: GroupStatistics, scale: Tensor
) -> Tensor:
    """(R - mean) / scale where a group has signal, else 0, or R - mean for a row outside the baseline."""
    difference = rewards - statistics.mean
    outside = rows & ~members & (statistics.count > 0)
    flat = torch.where(outside, difference, torch.zeros_like(rewards))
    return torch.where(
        rows, torch.where(statistics.degenerate, flat, difference / scale), torch.zeros_like(rewards)
    )


def _scale(std: str, rewards: Tensor, members: Tensor, statistics: GroupStatistics, eps: float) -> Tensor:
    if std in ("group", "unbiased"):
        return statistics.std + eps
    if std == "population":
        return statistics.population_std + eps
    if std == "none":
        return torch.ones_like(rewards)
    if std == "batch":
        kept = rewards[members]
        spread = kept.std(correction=1) if kept.numel() > 1 else rewards.new_zeros(())
        return (spread + eps).expand(rewards.shape)
    raise ConfigError(f"std {std!r}: expected one of {', '.join(STD_KINDS)}.{nearest(std, STD_KINDS)}")

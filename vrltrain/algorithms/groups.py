"""Groups of rows that answer the same prompt: outcome rewards, statistics of a group, shapes of a result.

Every estimator of this package builds on these functions; the estimators themselves live in their own
modules.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import torch
from torch import Tensor

from vrltrain.masked import keep_masked, masked_sum

Uid: TypeAlias = Sequence[Hashable] | Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvantageResult:
    """What an estimator returns.

    Attributes:
        advantages: (B, T), exactly 0 outside the response mask and in rows that are not valid.
        returns: (B, T) targets of a critic, or None where the estimator has none.
        metrics: figures for the log by name.
    """

    advantages: Tensor
    returns: Tensor | None = None
    metrics: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStatistics:
    """Statistics of the rewards of each group, gathered to the rows (all float64 or bool, (B,)).

    Attributes:
        count: rows of the row's group that enter the statistics.
        mean: their mean; 0 for an empty group.
        square: their mean square deviation from the mean (population variance).
        degenerate: True where the group carries no relative signal: fewer than two rows, or equal rewards.
    """

    count: Tensor
    mean: Tensor
    square: Tensor
    degenerate: Tensor

    @property
    def std(self) -> Tensor:
        """Unbiased standard deviation of each row's group; 0 for a degenerate group."""
        unbiased = self.square * self.count / (self.count - 1).clamp(min=1)
        return torch.where(self.degenerate, torch.zeros_like(unbiased), unbiased.sqrt())

    @property
    def population_std(self) -> Tensor:
        """Population standard deviation of each row's group; 0 for a degenerate group."""
        return torch.where(self.degenerate, torch.zeros_like(self.square), self.square.sqrt())


def group_index(uid: Uid) -> Tensor:
    """int64 (B,): the group number of every row, counted from 0 in order of appearance.

    >>> group_index(["p", "q", "p"]).tolist()
    [0, 1, 0]
    """
    names = uid.tolist() if isinstance(uid, Tensor) else list(uid)
    numbers: dict[Hashable, int] = {}
    return torch.tensor([numbers.setdefault(name, len(numbers)) for name in names], dtype=torch.int64)


def valid_rows(response_mask: Tensor, valid: Tensor | Sequence[bool] | None = None) -> Tensor:
    """bool (B,): rows that take part: marked valid, and with at least one masked token."""
    some_token = (response_mask != 0).any(dim=-1)
    if valid is None:
        return some_token
    return some_token & torch.as_tensor(valid, dtype=torch.bool, device=response_mask.device)


def outcome_rewards(token_level_rewards: Tensor, response_mask: Tensor) -> Tensor:
    """float64 (B,): the scalar reward of a row, the sum of its masked token rewards."""
    return masked_sum(token_level_rewards.double(), response_mask, dim=-1)


def group_statistics(rewards: Tensor, uid: Uid, members: Tensor) -> GroupStatistics:
    """Statistics of `rewards`, float64 (B,), over each group's rows where `members`, bool (B,), is True."""
    index = group_index(uid).to(rewards.device)
    groups = int(index.max()) + 1 if index.numel() else 0
    safe = torch.where(members, rewards, torch.zeros_like(rewards))
    count = safe.new_zeros(groups).index_add(0, index, members.to(safe.dtype))
    mean = safe.new_zeros(groups).index_add(0, index, safe) / count.clamp(min=1)
    deviation = torch.where(members, safe - mean[index], torch.zeros_like(safe))
    square = safe.new_zeros(groups).index_add(0, index, deviation**2) / count.clamp(min=1)
    infinity = torch.full_like(safe, torch.inf)
    highest = (-infinity[:groups]).scatter_reduce(0, index, torch.where(members, rewards, -infinity), "amax")
    lowest = infinity[:groups].scatter_reduce(0, index, torch.where(members, rewards, infinity), "amin")
    degenerate = (count < 2) | (highest == lowest)
    return GroupStatistics(
        count=count[index], mean=mean[index], square=square[index], degenerate=degenerate[index]
    )


def over_tokens(row_values: Tensor, response_mask: Tensor, like: Tensor) -> Tensor:
    """(B, T) from (B,): each row's value on its masked tokens, 0 elsewhere, in the dtype of `like`.

    16-bit `like` gives float32: advantages are kept in float32 or better.
    """
    return keep_masked(row_values.unsqueeze(-1).expand(response_mask.shape), response_mask).to(
        result_dtype(like)
    )


def result_dtype(like: Tensor) -> torch.dtype:
    """float64 stays float64; everything else becomes float32."""
    return torch.float64 if like.dtype == torch.float64 else torch.float32

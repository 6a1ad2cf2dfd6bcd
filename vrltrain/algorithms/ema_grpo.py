"""EMA-GRPO: one standard deviation per task, kept as a moving average over training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

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


@dataclass(slots=True, kw_only=True)
class EmaTaskStats:
    """Moving averages of the first and second moment of the reward of each task. Part of a checkpoint.

    Attributes:
        first: task -> moving average of R.
        second: task -> moving average of R squared.
    """

    first: dict[str, float] = field(default_factory=dict)
    second: dict[str, float] = field(default_factory=dict)

    def update(self, task: str, rewards: Tensor, decay: float) -> None:
        """Fold in rewards of a batch, float64 (N,), N > 0; the first batch of a task sets the averages."""
        mean, square = float(rewards.mean()), float((rewards**2).mean())
        if task not in self.first:
            self.first[task], self.second[task] = mean, square
            return
        self.first[task] = decay * self.first[task] + (1 - decay) * mean
        self.second[task] = decay * self.second[task] + (1 - decay) * square

    def std(self, task: str, min_std: float) -> float:
        """Standard deviation of a task from its moments, at least `min_std`."""
        variance = max(self.second[task] - self.first[task] ** 2, 0.0)
        return max(variance**0.5, min_std)

    def state_dict(self) -> dict[str, dict[str, float]]:
        """Plain values for a checkpoint."""
        return {"first": dict(self.first), "second": dict(self.second)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        self.first = {str(task): float(value) for task, value in state["first"].items()}
        self.second = {str(task): float(value) for task, value in state["second"].items()}


def ema_grpo(
    *,
    token_level_rewards: Tensor,
    response_mask: Tensor,
    uid: Uid,
    task: Sequence[str],
    state: EmaTaskStats,
    valid: Tensor | None = None,
    decay: float = 0.99,
    min_std: float = 1e-3,
    eps: float = 1e-6,
    guard: float = 5.0,
) -> AdvantageResult:
    """A_i = (R_i - mean_g) / (sigma_task + eps), sigma_task from moving averages of E[R] and E[R^2].

    Feng et al., "OneThinker" (2025). `state` is updated with this batch first, in place.
    If any |A| of a group exceeds `guard`, the group falls back to its own population standard deviation.

    Args:
        task: (B,), the task of each row.
        state: moving averages; save it with the checkpoint.
    """
    rewards = outcome_rewards(token_level_rewards, response_mask)
    rows = valid_rows(response_mask, valid)
    statistics = group_statistics(rewards, uid, rows)
    for name in sorted(set(task)):
        members = rows & torch.tensor([other == name for other in task], device=rows.device)
        if bool(members.any()):
            state.update(name, rewards[members], decay)
    # A task without any valid row yet has no moments; its rows get 0 below.
    sigma = [state.std(name, min_std) if name in state.first else 1.0 for name in task]
    scale = torch.tensor(sigma, dtype=torch.float64, device=rewards.device) + eps
    difference = torch.where(
        rows & ~statistics.degenerate, rewards - statistics.mean, torch.zeros_like(rewards)
    )
    advantages = difference / scale
    index = group_index(uid).to(rewards.device)
    too_large = torch.zeros(
        int(index.max()) + 1 if index.numel() else 0, dtype=torch.bool, device=rewards.device
    )
    too_large[index[advantages.abs() > guard]] = True
    fallback = difference / (statistics.population_std + eps)
    advantages = torch.where(too_large[index], fallback, advantages)
    guarded = float(too_large.double().mean()) if too_large.numel() else 0.0
    return AdvantageResult(
        advantages=over_tokens(advantages, response_mask, token_level_rewards),
        metrics={"advantage/guarded_group_share": guarded},
    )

"""Corrections for the gap between the engine that wrote the tokens and the policy that trains on them.

Three sets of log-probabilities: of the engine (`rollout_log_probs`), recomputed before the update (old or
proximal, here `train_log_probs`), and current. The engine's must be those of the untruncated softmax at
the sampling temperature. For decoupled PPO (Hilton et al., 2022) give the recomputed ones here and clip
against them in `losses.policy_loss`. Weights are computed on the whole batch, once, before it is cut into
micro-batches. Rows of stored trajectories (`offline_row`) take part in nothing here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from vrldata.errors import ConfigError, nearest
from vrltrain.masked import keep_masked, masked_mean, masked_sum
from vrltrain.token_losses import MAX_LOG_RATIO

LEVELS = ("token", "sequence")

REJECTION_MODES = (
    "token",
    "token_k2",
    "token_k3",
    "seq_max",
    "seq_max_k2",
    "seq_max_k3",
    "seq_mean_k1",
    "seq_mean_k2",
    "seq_mean_k3",
    "seq_sum_k1",
)
"""What the bounds apply to. `token`: w of each token; `seq_max`: the largest w of a row; `seq_mean_k1`:
geometric mean of w over a row; `seq_sum_k1`: product of w over a row; k2 = (ln w)^2 / 2 and k3 = w - 1 -
ln w, of a token, or their mean or maximum over a row."""

REJECTION_ALIASES = {"token_k1": "token", "geometric": "seq_mean_k1"}

K3_ALARM = 0.05
"""Mean k3 between trainer and engine above which the two no longer describe the same policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectionResult:
    """What rejection keeps.

    Attributes:
        mask: (B, T), the response mask without rejected tokens or rows.
        statistic: (B, T) for token modes, (B,) for row modes: what was compared with the bounds.
        rejected_share: share of the masked tokens that were rejected.
    """

    mask: Tensor
    statistic: Tensor
    rejected_share: float


def rollout_weights(
    *,
    train_log_probs: Tensor,
    rollout_log_probs: Tensor,
    response_mask: Tensor,
    level: str = "token",
    cap: float = 2.0,
    batch_normalise: bool = False,
    offline_row: Tensor | None = None,
) -> Tensor:
    """Truncated importance weights min(w, cap), constants, 0 outside the mask; (B, T).

    w = exp(train - rollout) of a token, or exp of the row's sum (bounded to +-20) on all its tokens.
    Yao et al., "Your Efficient RL Framework Secretly Brings You Off-Policy RL Training" (2025).

    Args:
        level: `token` or `sequence`.
        cap: upper bound of a weight.
        batch_normalise: divide by the mean weight, over masked tokens or over rows, so that it becomes 1.
        offline_row: (B,), not 0 for rows of stored trajectories: their weight is 1.
    """
    mask = _online_mask(response_mask, offline_row)
    log_ratio = _log_ratio(train_log_probs, rollout_log_probs, mask)
    if level == "token":
        weights = log_ratio.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp().clamp(max=cap)
        mean = masked_mean(weights, mask)
    elif level == "sequence":
        rows = log_ratio.sum(-1).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp().clamp(max=cap)
        mean = masked_mean(rows, (mask != 0).any(-1))
        weights = rows.unsqueeze(-1).expand(mask.shape)
    else:
        raise ConfigError(
            f"importance weight level {level!r}: expected token or sequence.{nearest(level, LEVELS)}"
        )
    if batch_normalise and float(mean) > 0:
        weights = weights / mean
    kept = keep_masked(weights, mask)
    return torch.where(mask != 0, kept, (response_mask != 0).to(kept.dtype))


def rejection_mask(
    *,
    train_log_probs: Tensor,
    rollout_log_probs: Tensor,
    response_mask: Tensor,
    mode: str = "token",
    low: float | None = None,
    high: float | None = None,
    offline_row: Tensor | None = None,
) -> RejectionResult:
    """Mask out tokens, or whole rows, whose statistic lies outside [low, high].

    w = exp(train - rollout); bounds are inclusive and apply to w itself, not to its inverse.

    Args:
        mode: one of `REJECTION_MODES`.
        low, high: None leaves that side open; w modes with neither take [0.5, 2].
        offline_row: (B,), not 0 for rows of stored trajectories: never rejected.
    """
    mode = REJECTION_ALIASES.get(mode, mode)
    if mode not in REJECTION_MODES:
        known = ", ".join(REJECTION_MODES)
        raise ConfigError(f"unknown rejection mode {mode!r}.{nearest(mode, REJECTION_MODES)} Known: {known}")
    of_ratio = mode in ("token", "seq_max", "seq_mean_k1", "seq_sum_k1")
    if low is None and high is None:
        if not of_ratio:
            raise ConfigError(f"rejection mode {mode!r} needs the upper bound `high`")
        low, high = 0.5, 2.0
    mask = _online_mask(response_mask, offline_row)
    statistic = _statistic(mode, _log_ratio(train_log_probs, rollout_log_probs, mask), mask)
    kept = torch.ones_like(statistic, dtype=torch.bool)
    if low is not None:
        kept &= statistic >= low
    if high is not None:
        kept &= statistic <= high
    kept = kept if mode.startswith("token") else kept.unsqueeze(-1).expand(mask.shape)
    result = response_mask * (kept | (mask == 0)).to(response_mask.dtype)
    before = float((response_mask != 0).sum())
    return RejectionResult(
        mask=result,
        statistic=statistic,
        rejected_share=1 - float((result != 0).sum()) / before if before else 0.0,
    )


def mismatch_metrics(
    *,
    train_log_probs: Tensor,
    rollout_log_probs: Tensor,
    response_mask: Tensor,
    offline_row: Tensor | None = None,
) -> dict[str, float]:
    """How far engine and trainer disagree about the tokens that the engine wrote.

    With d = train - rollout over masked tokens: `kl` mean of -d (k1), `k3_kl` mean of exp(d) - d - 1,
    `training_ppl` and `rollout_ppl` means over rows of exp(-mean ln p), `log_ppl_diff` mean over rows of
    their log-ratio, `chi2_token` mean of exp(2d) - 1, `chi2_seq` the same with the row's sum (bounded to
    +-20), `ess` effective share of tokens (sum w)^2 / (n sum w^2), `max_prob_difference` largest |p_train
    - p_rollout|. Empty where no token is masked.
    """
    mask = _online_mask(response_mask, offline_row)
    some_token = (mask != 0).any(-1)
    if not bool(some_token.any()):
        return {}
    train = keep_masked(train_log_probs.detach().double(), mask)
    rollout = keep_masked(rollout_log_probs.detach().double(), mask)
    d = (train - rollout).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    weights = keep_masked(d.exp(), mask)
    train_mean = masked_mean(train, mask, dim=-1)[some_token]
    rollout_mean = masked_mean(rollout, mask, dim=-1)[some_token]
    sums = masked_sum(train - rollout, mask, dim=-1)[some_token].clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    count = (mask != 0).sum()
    figures = {
        "kl": masked_mean(rollout - train, mask),
        "k3_kl": masked_mean(d.exp() - d - 1, mask),
        "training_ppl": (-train_mean).exp().mean(),
        "rollout_ppl": (-rollout_mean).exp().mean(),
        "log_ppl_diff": (rollout_mean - train_mean).mean(),
        "chi2_token": masked_mean((2 * d).exp(), mask) - 1,
        "chi2_seq": (2 * sums).exp().mean() - 1,
        "ess": weights.sum() ** 2 / (count * (weights**2).sum()),
        "max_prob_difference": keep_masked((train.exp() - rollout.exp()).abs(), mask).max(),
    }
    return {name: float(value) for name, value in figures.items()}


def fresh_rows(policy_versions: Sequence[int], current_version: int, max_staleness: int) -> Tensor:
    """bool (B,): rows written by a policy at most `max_staleness` updates old.

    Args:
        policy_versions: the oldest version that wrote a token of each row.
    """
    return torch.tensor([current_version - version <= max_staleness for version in policy_versions])


def staleness_counts(policy_versions: Sequence[int], current_version: int) -> dict[int, int]:
    """Rows by age in updates.

    >>> staleness_counts([7, 7, 6], 7)
    {0: 2, 1: 1}
    """
    return dict(sorted(Counter(current_version - version for version in policy_versions).items()))


def _online_mask(response_mask: Tensor, offline_row: Tensor | None) -> Tensor:
    if offline_row is None:
        return response_mask
    return response_mask * (offline_row == 0).unsqueeze(-1).to(response_mask.dtype)


def _log_ratio(train_log_probs: Tensor, rollout_log_probs: Tensor, mask: Tensor) -> Tensor:
    return keep_masked((train_log_probs - rollout_log_probs).detach(), mask)


def _statistic(mode: str, log_ratio: Tensor, mask: Tensor) -> Tensor:
    """(B, T) for token modes, (B,) for row modes."""
    bounded = log_ratio.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    per_token = {"k2": 0.5 * bounded**2, "k3": bounded.exp() - 1 - bounded}.get(mode[-2:], bounded.exp())
    if mode.startswith("token"):
        return per_token
    if mode.startswith("seq_max"):
        return keep_masked(per_token, mask).amax(-1)
    if mode == "seq_sum_k1":
        return log_ratio.sum(-1).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()
    if mode == "seq_mean_k1":
        return masked_mean(log_ratio, mask, dim=-1).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()
    return masked_mean(per_token, mask, dim=-1)

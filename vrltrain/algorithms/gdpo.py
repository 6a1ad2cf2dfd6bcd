"""GDPO: every reward component is normalised in its group before the components are added."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

import torch
from torch import Tensor

from vrldata.errors import ConfigError, nearest
from vrltrain.algorithms.groups import AdvantageResult, Uid, group_statistics, over_tokens, valid_rows
from vrltrain.masked import masked_whiten


def gdpo(
    *,
    response_mask: Tensor,
    uid: Uid,
    valid: Tensor | None = None,
    token_level_rewards: Tensor | None = None,
    keys: Sequence[str] = ("accuracy", "format"),
    weights: Sequence[float] | None = None,
    batch_norm: str = "sequence",
    eps: float = 1e-6,
    batch_eps: float = 1e-4,
    whiten_eps: float = 1e-8,
    **rewards: Tensor,
) -> AdvantageResult:
    """z_i = sum_k w_k (R_ik - mean_g) / (std_g + eps), then normalised over the batch.

    Liu et al., "GDPO: Group reward-Decoupled Normalization Policy Optimization" (2026): a sum of rewards in
    different units lets one component drown the others; here each has unit scale in its group.
    `token_level_rewards` plays no part but for the dtype of the result.

    Args:
        keys: the components; component `accuracy` is read from the argument `reward_accuracy`, (B,).
        weights: one for each key; None gives 1 to each.
        batch_norm: `sequence` normalises z over the valid rows: (z - mean) / (std + batch_eps), unbiased.
            `token` whitens over masked tokens, so that long rows weigh more. `none` leaves z.
        rewards: the components as `reward_<key>`.
    """
    shares = [1.0] * len(keys) if weights is None else [float(weight) for weight in weights]
    if len(shares) != len(keys):
        raise ConfigError(f"gdpo: {len(keys)} keys but {len(shares)} weights; give one weight for each key")
    for name in rewards:
        if not name.startswith("reward_"):
            known = (*inspect.signature(gdpo).parameters, *(f"reward_{key}" for key in keys))
            raise ConfigError(f"gdpo has no option {name!r}.{nearest(name, known)}")
    rows = valid_rows(response_mask, valid)
    combined = torch.zeros(response_mask.shape[0], dtype=torch.float64, device=response_mask.device)
    dtype_source = response_mask if token_level_rewards is None else token_level_rewards
    for key, share in zip(keys, shares, strict=True):
        name = f"reward_{key}"
        if name not in rewards:
            given = ", ".join(sorted(rewards)) or "none"
            raise ConfigError(f"gdpo: reward component {name!r} is missing (given: {given})")
        component = rewards[name].double()
        statistics = group_statistics(component, uid, rows)
        normalised = (component - statistics.mean) / (statistics.std + eps)
        combined = combined + share * torch.where(
            rows & ~statistics.degenerate, normalised, torch.zeros_like(normalised)
        )
    advantages = _batch_normalise(combined, rows, response_mask, batch_norm, batch_eps, whiten_eps)
    return AdvantageResult(advantages=over_tokens(advantages, response_mask, dtype_source))


def _batch_normalise(
    combined: Tensor,
    rows: Tensor,
    response_mask: Tensor,
    batch_norm: str,
    batch_eps: float,
    whiten_eps: float,
) -> Tensor:
    kept = combined[rows]
    if kept.numel() < 2 or bool(kept.max() == kept.min()):
        return torch.zeros_like(combined)
    if batch_norm == "none":
        return combined
    if batch_norm == "sequence":
        normalised = (combined - kept.mean()) / (kept.std(correction=1) + batch_eps)
        return torch.where(rows, normalised, torch.zeros_like(combined))
    if batch_norm == "token":
        mask = (response_mask != 0) & rows.unsqueeze(-1)
        whitened = masked_whiten(combined.unsqueeze(-1).expand(mask.shape), mask, eps=whiten_eps)
        # Every masked token of a row holds the same value: read it where it is not masked out.
        return whitened.gather(1, mask.to(torch.int8).argmax(1, keepdim=True)).squeeze(1)
    raise ConfigError(f"batch_norm {batch_norm!r}: expected sequence, token or none")

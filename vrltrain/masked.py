"""Sums, means and whitening over the masked tokens of a batch.

Positions outside the mask may hold anything, NaN included: they never reach a result or a gradient.
Averages of losses over several micro-batches live in `aggregation`.
"""

from __future__ import annotations

import torch
from torch import Tensor


def keep_masked(values: Tensor, mask: Tensor) -> Tensor:
    """`values` where `mask` is not 0 and exactly 0 elsewhere; both (B, T). Safe for NaN outside the mask."""
    return torch.where(mask != 0, values, torch.zeros_like(values))


def masked_sum(values: Tensor, mask: Tensor, dim: int | None = None) -> Tensor:
    """Sum of the masked `values`, over everything or along `dim`."""
    kept = keep_masked(values, mask)
    return kept.sum() if dim is None else kept.sum(dim)


def masked_mean(values: Tensor, mask: Tensor, dim: int | None = None) -> Tensor:
    """Mean of the masked `values`, over everything or along `dim`; 0 where the mask is empty."""
    count = (mask != 0).sum() if dim is None else (mask != 0).sum(dim)
    return masked_sum(values, mask, dim) / count.clamp(min=1)


def masked_var(values: Tensor, mask: Tensor, *, unbiased: bool = True) -> Tensor:
    """Variance of the masked `values`, scalar. 0 with fewer than two tokens or with equal values."""
    count = int((mask != 0).sum())
    if count == 0:
        return values.new_zeros(())
    kept = values[mask != 0]
    if count == 1 or bool(kept.max() == kept.min()):
        return values.new_zeros(())
    return kept.var(correction=1 if unbiased else 0)


def masked_whiten(values: Tensor, mask: Tensor, *, eps: float = 1e-8, unbiased: bool = True) -> Tensor:
    """(x - mean) / sqrt(var + eps) over the masked tokens, 0 elsewhere.

    Equal values, or a single one, give exactly 0 everywhere.
    """
    variance = masked_var(values, mask, unbiased=unbiased)
    if float(variance) == 0.0:
        return torch.zeros_like(values)
    return keep_masked((values - masked_mean(values, mask)) * torch.rsqrt(variance + eps), mask)

"""One scalar from per-token losses, the same however the mini-batch is cut into micro-batches and ranks.

Every mode divides by a count of the *global* mini-batch, so the results of micro-batches and of data-parallel
ranks add up to the result of the whole. Where gradients are averaged over ranks (FSDP and DDP do),
multiply the loss by the number of ranks.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from vrldata.errors import ConfigError, nearest
from vrltrain.masked import masked_mean, masked_sum

LOSS_AVERAGES = ("token", "seq", "seq_sum", "seq_sum_norm")
"""token: mean over tokens; seq: mean over rows of row means; seq_sum: mean over rows of row sums;
seq_sum_norm: sum over everything divided by rows times `max_response_length` (Dr. GRPO)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalCounts:
    """What the averages of one optimizer step divide by, over all micro-batches and ranks.

    Attributes:
        num_tokens: masked tokens.
        num_rows: rows with at least one masked token.
        num_offline_tokens: those of `num_tokens` that lie in rows of stored trajectories.
    """

    num_tokens: float
    num_rows: float
    num_offline_tokens: float = 0.0

    @staticmethod
    def of(response_mask: Tensor, offline_row: Tensor | None = None) -> GlobalCounts:
        """Counts of one (B, T) mask; add those of further micro-batches and ranks with `+`."""
        tokens = (response_mask != 0).sum(-1)
        offline = tokens.new_zeros(()) if offline_row is None else tokens[offline_row != 0].sum()
        return GlobalCounts(
            num_tokens=float(tokens.sum()),
            num_rows=float((tokens > 0).sum()),
            num_offline_tokens=float(offline),
        )

    def __add__(self, other: GlobalCounts) -> GlobalCounts:
        return GlobalCounts(
            num_tokens=self.num_tokens + other.num_tokens,
            num_rows=self.num_rows + other.num_rows,
            num_offline_tokens=self.num_offline_tokens + other.num_offline_tokens,
        )


def aggregate(
    values: Tensor,
    mask: Tensor,
    *,
    mode: str = "token",
    counts: GlobalCounts | None = None,
    max_response_length: int | None = None,
) -> Tensor:
    """Average `values` over the masked tokens by `mode`, a scalar. Rows without a masked token count nowhere.

    Args:
        values: (B, T) per-token losses.
        mask: (B, T).
        mode: one of `LOSS_AVERAGES`.
        counts: of the global mini-batch; None takes those of `mask`.
        max_response_length: the constant of `seq_sum_norm`; None takes T, which then depends on padding.

    Raises:
        ConfigError: `mode` is unknown.
    """
    total = GlobalCounts.of(mask) if counts is None else counts
    tokens, rows = max(total.num_tokens, 1.0), max(total.num_rows, 1.0)
    if mode == "token":
        return masked_sum(values, mask) / tokens
    if mode == "seq":
        return masked_mean(values, mask, dim=-1).sum() / rows
    if mode == "seq_sum":
        return masked_sum(values, mask) / rows
    if mode == "seq_sum_norm":
        length = mask.shape[-1] if max_response_length is None else max_response_length
        return masked_sum(values, mask) / (rows * length)
    raise ConfigError(
        f"loss average {mode!r}: expected one of {', '.join(LOSS_AVERAGES)}.{nearest(mode, LOSS_AVERAGES)}"
    )


def token_average(values: Tensor, mask: Tensor, num_tokens: float) -> float:
    """This part's contribution to the mean of `values` over `num_tokens` tokens: contributions add up."""
    with torch.no_grad():
        return float(masked_sum(values.double(), mask)) / max(num_tokens, 1.0)

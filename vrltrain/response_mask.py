"""Which tokens of a response count: from the end-of-sequence token, from a token count, or from the turns.

A mask is int64 with 1 on the tokens that are trained on, the end-of-sequence token included.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from vrldata.errors import ConfigError

ASSISTANT = "assistant"


def mask_from_eos(response_ids: Tensor, *, eos: Sequence[int], pad: int | None = None) -> Tensor:
    """1 up to and including the first end-of-sequence token; (B, T).

    For tokens that an engine wrote. A row without such a token ended by length: all of it counts, but for
    a run of `pad` at its end. A `pad` inside a response counts.

    Args:
        response_ids: int64 (B, T), right-padded.
        eos: ids that end a response.
        pad: id of the padding.
    """
    is_eos = torch.isin(response_ids, torch.tensor(list(eos), device=response_ids.device))
    before = is_eos.long().cumsum(-1) - is_eos.long()
    mask = (before == 0).long()
    if pad is not None:
        written = (response_ids != pad).long()
        # Counting from the right: 0 as long as everything so far was padding.
        trailing_pad = written.flip(-1).cumsum(-1).flip(-1) == 0
        endless = ~is_eos.any(-1, keepdim=True)
        mask = torch.where(endless & trailing_pad, torch.zeros_like(mask), mask)
    return mask


def mask_from_lengths(
    response_ids: Tensor,
    lengths: Sequence[int],
    *,
    eos: Sequence[int],
    pad: int,
    append_eos: bool = False,
) -> tuple[Tensor, Tensor]:
    """(ids, mask), both (B, T), of rows whose token count is known; the tokens are not searched for an end.

    For stored text, whose padding may be an end-of-sequence id or an ordinary one.

    Args:
        response_ids: int64 (B, T); what lies beyond a row's length is replaced by `pad`.
        lengths: (B,) tokens of each row.
        eos: ids that end a response; the first one is appended.
        append_eos: put one end-of-sequence token behind a row that does not end in one.

    Raises:
        ConfigError: a row with its end does not fit into T. Leave such rows out beforehand.
    """
    ids = torch.full_like(response_ids, pad)
    mask = torch.zeros_like(response_ids, dtype=torch.int64)
    width = response_ids.shape[-1]
    for row, length in enumerate(int(value) for value in lengths):
        tokens = response_ids[row, : min(length, width)].tolist()
        size = length
        if append_eos and (not tokens or tokens[-1] not in eos):
            tokens.append(eos[0])
            size += 1
        if size > width:
            raise ConfigError(f"row {row}: {size} tokens with the end do not fit into a response of {width}")
        ids[row, :size] = torch.tensor(tokens, dtype=ids.dtype)
        mask[row, :size] = 1
    return ids, mask


def mask_from_turns(turns: Sequence[tuple[str, int]]) -> list[int]:
    """1 for tokens of assistant turns, 0 for those of others such as tool results.

    Args:
        turns: (role, number of tokens) in order.

    >>> mask_from_turns([("assistant", 2), ("tool", 1), ("assistant", 1)])
    [1, 1, 0, 1]
    """
    return [int(role == ASSISTANT) for role, count in turns for _ in range(count)]


def pad_rows(rows: Sequence[Sequence[float]], width: int, fill: float, dtype: torch.dtype) -> Tensor:
    """(B, width) from rows of different length, filled on the right."""
    padded = torch.full((len(rows), width), fill, dtype=dtype)
    for row, values in enumerate(rows):
        padded[row, : len(values)] = torch.tensor(list(values), dtype=dtype)
    return padded

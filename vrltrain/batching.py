"""From rows of tokens to right-padded model batches, and how rows are cut into micro-batches.

A row is a prompt with one response. The token limit of a micro-batch is a hard bound on what is computed:
rows times the longest of them, visual tokens included.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from vrltrain.policy import ModelBatch
from vrltrain.response_mask import pad_rows
from vrltrain.vision import KINDS, picture_order

if TYPE_CHECKING:
    from vrltrain.inputs import EncodedPrompt


def model_batch(
    prompts: Sequence[EncodedPrompt],
    responses: Sequence[Sequence[int]],
    *,
    pad_token_id: int,
    temperature: float = 1.0,
    width: int | None = None,
) -> ModelBatch:
    """One right-padded batch of the rows (prompt, response).

    Args:
        width: R; None takes the longest response.
    """
    lengths = [
        len(prompt.input_ids) + len(response) for prompt, response in zip(prompts, responses, strict=True)
    ]
    longest = max(lengths)
    size = max((len(response) for response in responses), default=0) if width is None else width
    input_ids = torch.full((len(prompts), longest), pad_token_id, dtype=torch.int64)
    position_ids = torch.zeros((3, len(prompts), longest), dtype=torch.int64)
    predicted_from = torch.zeros((len(prompts), size), dtype=torch.int64)
    for row, (prompt, response) in enumerate(zip(prompts, responses, strict=True)):
        start, end = len(prompt.input_ids), lengths[row]
        input_ids[row, :start] = prompt.input_ids
        input_ids[row, start:end] = torch.tensor(list(response), dtype=torch.int64)
        position_ids[:, row, :start] = prompt.position_ids
        after = int(prompt.position_ids.max()) + 1
        position_ids[:, row, start:end] = torch.arange(after, after + end - start)
        # positions beyond the response are masked in the loss; any valid index will do
        predicted_from[row] = torch.arange(start - 1, start - 1 + size).clamp(max=longest - 1)
    # rows of a group share one prompt object: its pictures are computed once
    distinct = list({id(prompt): prompt for prompt in prompts}.values())
    numbers = {id(prompt): number for number, prompt in enumerate(distinct)}
    of_rows = [numbers[id(prompt)] for prompt in prompts]
    attention_mask = (torch.arange(longest) < torch.tensor(lengths).unsqueeze(-1)).long()
    return ModelBatch(
        input_ids=input_ids,
        attention_mask=attention_mask,
        position_ids=position_ids,
        media=join_media([prompt.media for prompt in distinct]),
        picture_order={
            kind: picture_order([len(prompt.media.get(grids, ())) for prompt in distinct], of_rows)
            for kind, (_, grids) in KINDS.items()
        },
        response_ids=pad_rows(responses, size, pad_token_id, torch.int64),
        predicted_from=predicted_from,
        temperature=temperature,
    )


def join_media(parts: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Pixels and grids of several prompts, concatenated in order."""
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: torch.cat([part[name] for part in parts if name in part]) for name in names}


def micro_batches(lengths: Sequence[int], max_tokens: int) -> list[list[int]]:
    """Row numbers of each micro-batch: rows of similar length, rows x longest at most `max_tokens`.

    First fit over the lengths in falling order. A row longer than the limit stands alone. The order of rows
    inside a micro-batch and of micro-batches depends on the lengths alone.

    >>> micro_batches([60, 60, 60], 100)
    [[0], [1], [2]]
    >>> micro_batches([70, 10, 10, 10], 100)
    [[0], [1, 2, 3]]
    """
    batches: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lambda index: (-lengths[index], index)):
        for batch in batches:
            longest = lengths[batch[0]]
            if longest * (len(batch) + 1) <= max_tokens:
                batch.append(row)
                break
        else:
            batches.append([row])
    return batches


def share_rows(groups: Sequence[Sequence[int]], lengths: Sequence[int], num_ranks: int) -> list[list[int]]:
    """Row numbers of each rank: whole groups, longest first to the rank with the least tokens.

    Rows of one prompt stay together, so that one rank alone fetches its clips. Ties go to the lower rank.
    """
    totals = [0] * num_ranks
    shares: list[list[int]] = [[] for _ in range(num_ranks)]
    weights = [sum(lengths[row] for row in group) for group in groups]
    for number in sorted(range(len(groups)), key=lambda index: (-weights[index], index)):
        rank = min(range(num_ranks), key=lambda index: (totals[index], index))
        shares[rank] += groups[number]
        totals[rank] += weights[number]
    return shares


def plan_micro_batches(
    groups: Sequence[Sequence[int]], lengths: Sequence[int], *, max_tokens: int, num_ranks: int
) -> list[list[list[int]]]:
    """Row numbers by micro-batch and rank; every rank has as many micro-batches, the last ones maybe empty.

    Args:
        groups: row numbers of each group; a group stays on one rank.
        lengths: tokens of every row of the step, by row number.
    """
    shares = share_rows(groups, lengths, num_ranks)
    cut = [
        [
            [share[index] for index in part]
            for part in micro_batches([lengths[row] for row in share], max_tokens)
        ]
        for share in shares
    ]
    return [
        [parts[number] if number < len(parts) else [] for parts in cut]
        for number in range(max((len(parts) for parts in cut), default=0))
    ]


def empty_batch(pad_token_id: int) -> ModelBatch:
    """One padding token with one label: something to run where a rank has no rows left."""
    one = torch.full((1, 1), pad_token_id, dtype=torch.int64)
    return ModelBatch(
        input_ids=one,
        attention_mask=torch.ones_like(one),
        position_ids=torch.zeros((3, 1, 1), dtype=torch.int64),
        response_ids=one.clone(),
        predicted_from=torch.zeros_like(one),
    )

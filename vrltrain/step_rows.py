"""The rows of one training step as a rank works on them: mini-batches, and micro-batches as model inputs.

Every rank holds the tokens of the whole step; pixels are fetched for a micro-batch and dropped after it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vrltrain.batch import TrainBatch
from vrltrain.batching import empty_batch, model_batch, plan_micro_batches
from vrltrain.configs import RunConfig

if TYPE_CHECKING:
    from vrltrain.distributed import Ranks
    from vrltrain.inputs import EncodedPrompt
    from vrltrain.policy import ModelBatch

EncodeGroup = Callable[[int], "EncodedPrompt"]
"""Group number -> its prompt as tensors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRows:
    """One step's batch and what turns its rows into model inputs.

    Attributes:
        encode: makes the prompt of a group, on the rank that asks.
        pad_token_id: fills rows; masks decide what counts.
    """

    config: RunConfig
    ranks: Ranks
    batch: TrainBatch
    encode: EncodeGroup
    pad_token_id: int

    def passes(self) -> list[list[int]]:
        """Row numbers of each optimizer step, epoch after epoch."""
        return self.mini_batches() * self.config.update.epochs

    def mini_batches(self) -> list[list[int]]:
        """Row numbers of the optimizer steps of an epoch: whole groups in their order, as even as that
        allows."""
        groups = self.batch.groups
        number = min(self.config.update.mini_batches, len(groups)) or 1
        bounds = [round(index * len(groups) / number) for index in range(number + 1)]
        return [
            [row for group in groups[start:end] for row in group] for start, end in itertools.pairwise(bounds)
        ]

    def micro_batches(self, rows: Sequence[int]) -> Iterator[tuple[list[int], ModelBatch, bool]]:
        """(row numbers, model inputs, run the vision tower) of this rank, as many on every rank.

        Rows are empty where this rank has less to do than another. The vision tower runs on a blank picture
        where another rank's micro-batch has media and this one's has none.
        """
        batch, chosen = self.batch, set(rows)
        members = [[row for row in group if row in chosen] for group in batch.groups]
        plan = plan_micro_batches(
            [group for group in members if group],
            batch.lengths,
            max_tokens=self.config.update.max_tokens_per_micro_batch,
            num_ranks=self.ranks.world_size,
        )
        for parts in plan:
            run_vision = self.ranks.world_size > 1 and any(
                batch.has_media[batch.rows[row][0]] for part in parts for row in part
            )
            mine = parts[self.ranks.rank]
            inputs = self._inputs(mine) if mine else empty_batch(self.pad_token_id)
            yield mine, inputs.to(self.ranks.device), run_vision

    def all_rows(self) -> Iterator[tuple[list[int], ModelBatch, bool]]:
        """`micro_batches` of the whole step."""
        return self.micro_batches(range(len(self.batch.rows)))

    def _inputs(self, rows: Sequence[int]) -> ModelBatch:
        groups = [self.batch.rows[row][0] for row in rows]
        encoded = {number: self.encode(number) for number in dict.fromkeys(groups)}
        return model_batch(
            [encoded[number] for number in groups],
            [self.batch.rows[row][1].token_ids for row in rows],
            pad_token_id=self.pad_token_id,
            temperature=self.config.rollout.temperature,
        )

"""Ray Data over the samples of a dataset: `ray_dataset`, and `RayIterator` for one rank with saved positions.

Blocks hold keys and text. Handles of clips are attached by Ray tasks and fetch frames in whatever process
touches them, so that no pixel passes the object store unless a consumer puts it there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import ray.data

from vrldata.readers.clips import ClipReader
from vrldata.readers.order import SampleOrder, check_rank, select_samples

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from vrldata.dataset import Dataset

ROWS_PER_BLOCK = 64
MOST_BLOCKS = 2048
"""Blocks are small, so that ranks share them evenly, until there would be more than this."""


def ray_dataset(
    dataset: Dataset,
    *,
    split: str | None = None,
    columns: Sequence[str] | None = None,
    frames: bool = True,
    shuffle: int | None = None,
    filter: str | None = None,
    limit: int | None = None,
    epoch: int = 0,
    skip_missing: bool = False,
) -> ray.data.Dataset:
    """Samples as a streaming `ray.data.Dataset`, in the order of (shuffle, epoch).

    Rows are the columns of `samples`. With `frames` they have a column `clips` as well: handles (`LazyClip`)
    in the order of videos, then images, whose `.frames`, `.metadata`, `.to_torch()` … read the frames in the
    process that uses them. `map`, `map_batches`, `iter_rows` and `streaming_split` work as on any dataset:

        vrldata.open("clips@v1").ray(shuffle=1).map(lambda row: {"mean": row["clips"][0].frames.mean()})

    Raises:
        FilterError: a predicate or a column is wrong.
    """
    order = select_samples(
        dataset,
        split=split,
        filter=filter,
        columns=columns,
        limit=limit,
        shuffle=shuffle,
        skip_missing=skip_missing,
    )
    return _stream(order, order.of_epoch(epoch), frames=frames)


def _stream(order: SampleOrder, positions: NDArray[np.int64], *, frames: bool) -> ray.data.Dataset:
    columns = list(order.columns) if not frames else order.rows.schema.names
    rows = order.rows.select(columns).take(pa.array(positions))
    rows_per_block = max(ROWS_PER_BLOCK, -(-rows.num_rows // MOST_BLOCKS))
    blocks = [
        rows.slice(start, rows_per_block).combine_chunks()
        for start in range(0, max(rows.num_rows, 1), rows_per_block)
    ]
    stream = ray.data.from_arrow(blocks)
    # tasks finish in any order; rows come out in that of the seed
    stream.context.execution_options.preserve_order = True
    if not frames:
        return stream
    return stream.map(_WithClips(order.uri, order.columns))


class _WithClips:
    """Adds `clips` to a row and leaves the columns that were asked for."""

    def __init__(self, uri: str, columns: Sequence[str]) -> None:
        self._reader = ClipReader(uri)
        self._columns = tuple(columns)

    def __call__(self, row: Mapping[str, Any]) -> dict[str, Any]:
        return {**{name: row[name] for name in self._columns}, "clips": self._reader.clips(row)}


class RayIterator:
    """Rows of one rank in a fixed order, prefetched by Ray, that can stop at any row and go on there later.

    Iterating gives the rest of the present epoch, then moves on to the next; each iteration is one epoch.

        rows = ray_iterator(dataset, shuffle=1, rank=0, world_size=8)
        for row in rows:
            ...                         # row["clips"][0].frames
            state = rows.state_dict()   # a dict that JSON can hold: the rows given so far count as done

    Args:
        prepare: a picklable function of a row that runs in Ray workers, ahead of the consumer.
        rank: this consumer, counted from 0.
        world_size: consumers in all; each takes every `world_size`-th row. Numbers of rows differ by at most
            one.
    """

    def __init__(
        self,
        dataset: Dataset,
        *,
        split: str | None = None,
        columns: Sequence[str] | None = None,
        frames: bool = True,
        shuffle: int | None = None,
        filter: str | None = None,
        limit: int | None = None,
        skip_missing: bool = False,
        prepare: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        check_rank(rank, world_size)
        self._order = select_samples(
            dataset,
            split=split,
            filter=filter,
            columns=columns,
            limit=limit,
            shuffle=shuffle,
            skip_missing=skip_missing,
        )
        self._frames = frames
        self._prepare = prepare
        self._rank, self._world_size = rank, world_size
        self._epoch = self._position = 0

    def __len__(self) -> int:
        """Rows of this rank in an epoch."""
        return len(range(self._rank, len(self._order), self._world_size))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        mine = self._order.of_epoch(self._epoch)[self._rank :: self._world_size]
        left = mine[self._position :]
        if len(left):
            stream = _stream(self._order, left, frames=self._frames)
            if self._prepare is not None:
                stream = stream.map(self._prepare)
            for row in stream.iter_rows():
                self._position += 1
                yield row
        self._epoch, self._position = self._epoch + 1, 0

    def state_dict(self) -> dict[str, Any]:
        """Epoch and position; rows that were yielded count as done."""
        return self._order.state(self._epoch, self._position)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` was saved, by an iterator of the same rank and world size.

        Raises:
            StoreError: it was saved over other rows or another order.
        """
        self._epoch, self._position = self._order.restore(state)

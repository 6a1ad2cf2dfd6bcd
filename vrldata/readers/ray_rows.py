"""Ray Data over the samples of a dataset: `stream_rows`, and `RayIterator` for one rank with saved positions.

Blocks hold keys and text. Handles of clips are attached by Ray tasks and fetch frames in whatever process
touches them, so that no pixel passes the object store unless a consumer puts it there.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import ray.data

from vrldata.readers.clips import ClipReader
from vrldata.readers.order import SampleOrder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ROWS_PER_BLOCK = 64
MOST_BLOCKS = 2048
"""Blocks are small, so that ranks share them evenly, until there would be more than this."""


def stream_rows(order: SampleOrder, positions: NDArray[np.int64], *, frames: bool) -> ray.data.Dataset:
    """The rows at `positions` in that order, with `frames` with `clips`; see `ray_dataset`."""
    _start()
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
    if stream.context.enable_fallback_to_arrow_object_ext_type is None:
        # handles have no type of Arrow: said here, Ray pickles them without a warning
        stream.context.enable_fallback_to_arrow_object_ext_type = True
    if not frames:
        return stream
    return stream.map(_WithClips(order.uri, order.columns))


def _start() -> None:
    """Start Ray where it is not running, as Ray would by itself, without its notes on the console."""
    if ray.is_initialized() or os.environ.get("RAY_ENABLE_AUTO_CONNECT") == "0":
        return
    with warnings.catch_warnings():
        # Ray starts programs, it does not fork this one to go on in it
        warnings.filterwarnings("ignore", message="lance is not fork-safe")
        ray.init(logging_level=logging.WARNING)
    for handler in logging.getLogger("ray.data").handlers:
        if handler.name == "console":
            handler.setLevel(logging.WARNING)


class _WithClips:
    """Adds `clips` to a row and leaves the columns that were asked for."""

    def __init__(self, uri: str, columns: Sequence[str]) -> None:
        self._reader = ClipReader(uri)
        self._columns = tuple(columns)

    def __call__(self, row: Mapping[str, Any]) -> dict[str, Any]:
        return {**{name: row[name] for name in self._columns}, "clips": self._reader.clips(row)}


class RayIterator:
    """Rows of one rank in a fixed order, prefetched by Ray; see `ray_iterator`.

    Iterating gives the rest of the present epoch, then moves on to the next; each iteration is one epoch.
    Numbers of rows of ranks differ by at most one.
    """

    def __init__(
        self,
        order: SampleOrder,
        *,
        frames: bool,
        transform: Callable[[dict[str, Any]], dict[str, Any]] | None,
        rank: int,
        world_size: int,
    ) -> None:
        self._order = order
        self._frames = frames
        self._transform = transform
        self._rank, self._world_size = rank, world_size
        self._epoch = self._position = 0

    def __len__(self) -> int:
        """Rows of this rank in an epoch."""
        return len(range(self._rank, len(self._order), self._world_size))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        mine = self._order.of_epoch(self._epoch)[self._rank :: self._world_size]
        left = mine[self._position :]
        if len(left):
            stream = stream_rows(self._order, left, frames=self._frames)
            if self._transform is not None:
                stream = stream.map(self._transform)
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

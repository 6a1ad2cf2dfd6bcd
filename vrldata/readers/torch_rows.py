"""A torch `IterableDataset` of samples, sharded by rank and worker, with positions that can be saved."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from torch.utils.data import IterableDataset, get_worker_info

from vrldata.errors import ConfigError
from vrldata.readers.clips import ClipReader
from vrldata.readers.order import SampleOrder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ROWS_AT_ONCE = 256
"""Rows that are Python objects ahead of the consumer."""


class SampleStream(IterableDataset):  # type: ignore[type-arg,misc]
    """Rows of `samples` for `torch.utils.data.DataLoader`, in the order of a seed; see `torch_dataset`.

    Without `transform` no frame is read in a worker: handles travel, and a local clip is mapped where it is
    used.

        for batch in DataLoader(stream, batch_size=8, collate_fn=list, ...):    # or vrldata.collate
            stream.advance(len(batch))      # only where num_workers > 0: workers run ahead
            state = stream.state_dict()
        stream.next_epoch()             # also what iterating again does, once an epoch is through

    The order of the batches is that of the seed whatever the number of workers, if `batch_size` says how many
    rows in a row the loader takes from one worker: its own batch size, or 1 with `batch_size=None`.
    """

    def __init__(
        self,
        order: SampleOrder,
        *,
        frames: bool,
        transform: Callable[[dict[str, Any]], Any] | None,
        batch_size: int,
        rank: int,
        world_size: int,
        even: bool,
    ) -> None:
        if batch_size < 1:
            raise ConfigError(f"batch_size={batch_size}: expected 1 or more rows")
        self._order = order
        self._rank, self._world_size = rank, world_size
        self._reader = ClipReader(order.uri) if frames else None
        self._transform = transform
        self._batch_size = batch_size
        self._even = even
        self._epoch = self._position = self._worker_rows = 0
        self._through = False

    def __len__(self) -> int:
        """Rows of this rank in an epoch."""
        total = len(self._order)
        if self._even:
            return total // self._world_size
        return len(range(self._rank, total, self._world_size))

    def __getitem__(self, index: object) -> Any:
        raise TypeError(
            f"a stream has no row [{index!r}]: iterate it, as in next(iter(stream)), "
            "or take Dataset.hf(frames=True), whose rows have an index"
        )

    def __iter__(self) -> Iterator[Any]:
        """The rest of the present epoch; in a DataLoader's worker the share of that worker.

        Once this process has given all of it, the next epoch: workers that persist go on by themselves.
        """
        worker = get_worker_info()
        if self._through:
            self.next_epoch()
        left = self._left(worker)
        for start in range(0, len(left), ROWS_AT_ONCE):
            for row in self._order.rows.take(left[start : start + ROWS_AT_ONCE]).to_pylist():
                # counted before the row leaves: what was yielded counts as done
                if worker is None:
                    self._position += 1
                else:
                    self._worker_rows += 1
                yield self._given(row)
        self._through = True

    def _left(self, worker: Any) -> NDArray[np.int64]:
        """Positions of the rows that are left of the epoch, for this process."""
        mine = self._order.of_epoch(self._epoch)[self._rank :: self._world_size][: len(self)]
        left = mine[self._position :]
        if worker is not None:
            turns = (
                range(len(left))
                if self._batch_size == 1
                else [i // self._batch_size for i in range(len(left))]
            )
            left = left[[turn % worker.num_workers == worker.id for turn in turns]][self._worker_rows :]
        return left

    def _given(self, row: dict[str, Any]) -> Any:
        given = {name: row[name] for name in self._order.columns}
        if self._reader is not None:
            given["clips"] = self._reader.clips(row)
        return given if self._transform is None else self._transform(given)

    def advance(self, num_rows: int) -> None:
        """Count rows as done that a DataLoader with workers gave; without workers it happens by itself."""
        self._position += num_rows

    def next_epoch(self) -> None:
        """Start over in the order of the next epoch."""
        self.set_epoch(self._epoch + 1)

    def set_epoch(self, epoch: int) -> None:
        """Start over in the order of `epoch`, counted from 0."""
        self._epoch, self._position, self._worker_rows = epoch, 0, 0
        self._through = False

    def state_dict(self) -> dict[str, Any]:
        """Epoch and position of this rank, and in a worker of this worker; a dict that JSON can hold."""
        return {**self._order.state(self._epoch, self._position), "worker_rows": self._worker_rows}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` was saved, with the same rank, world size, batch size and workers.

        Raises:
            StoreError: it was saved over other rows or another order.
        """
        self._epoch, self._position = self._order.restore(state)
        self._worker_rows = int(state.get("worker_rows", 0))
        self._through = False

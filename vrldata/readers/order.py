"""Which samples a reader gives, in which order, and how a position in it is saved and restored.

Order is a function of (seed, epoch) and the rows selected. Nothing here knows Ray, torch or `datasets`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vrldata.errors import ConfigError, FilterError, StoreError
from vrldata.readers.clips import MEDIA_COLUMNS
from vrldata.uri import DatasetUri

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vrldata.dataset import Dataset

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SampleOrder:
    """Rows of `samples` in the order of epoch 0, and the orders of later epochs.

    Attributes:
        rows: the rows, with the columns asked for and those that clips are found by.
        columns: the columns asked for.
        seed: None keeps one order for every epoch.
        uri: what clips are read from: location and release.
        digest: hex sha256 of the sample ids in the order of epoch 0.
    """

    rows: pa.Table
    columns: tuple[str, ...]
    seed: int | None
    uri: str
    digest: str

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def of_epoch(self, epoch: int) -> NDArray[np.int64]:
        """int64 (rows,): positions in `rows` in the order of an epoch, counted from 0."""
        positions = np.arange(len(self), dtype=np.int64)
        if self.seed is None or epoch == 0:
            return positions
        return np.random.default_rng([self.seed, epoch]).permutation(positions)

    def state(self, epoch: int, position: int) -> dict[str, Any]:
        """What `restore` takes: plain values that JSON can hold."""
        return {"epoch": epoch, "position": position, "num_rows": len(self), "order_digest": self.digest}

    def restore(self, state: Mapping[str, Any]) -> tuple[int, int]:
        """(epoch, position) of a saved state.

        Raises:
            StoreError: it was saved over other rows or another order.
        """
        if state["order_digest"] != self.digest:
            raise StoreError(
                f"{self.uri}: the saved position belongs to {state['num_rows']} rows in another order than "
                f"the {len(self)} rows selected now; open the same release with the same split, filter, "
                "limit and seed"
            )
        return int(state["epoch"]), int(state["position"])


def select_samples(
    dataset: Dataset,
    *,
    split: str | None = None,
    filter: str | None = None,
    columns: Sequence[str] | None = None,
    limit: int | None = None,
    shuffle: int | None = None,
    skip_missing: bool = False,
) -> SampleOrder:
    """The samples of a dataset that its URI and the arguments select.

    Args:
        shuffle: seed of the order; None takes the URI's, or the stored order where that has none. The limit
            counts after the shuffle, and later epochs permute what it left.
        skip_missing: leave out samples that lack a clip, and log how many; otherwise asking for their clips
            raises MissingClip.

    Raises:
        FilterError: a predicate, a column or the split is wrong. UriError: the URI's split is.
    """
    from vrldata.dataset import Dataset as Opened
    from vrldata.selection import select, tell_empty

    if limit is not None and limit < 0:
        raise FilterError(f"limit={limit}: expected 0 or more rows")
    uri = dataset.uri
    seed = uri.shuffle if shuffle is None else shuffle
    limits = [number for number in (limit, uri.limit) if number is not None]
    most = min(limits) if limits else None
    view = Opened(dataclasses.replace(uri, shuffle=seed, limit=None if skip_missing else most))
    asked = tuple(columns or uri.columns or dataset.lance("samples").schema.names)
    read = list(dict.fromkeys([*asked, *MEDIA_COLUMNS]))
    rows = select(view, "samples", split=split, filter=filter, columns=read, shuffle=True)
    tell_empty(dataset, rows.num_rows, split=split, filter=filter, limit=limit)
    if skip_missing:
        rows = _with_clips(rows).slice(0, most)
    rows = rows.combine_chunks()
    return SampleOrder(
        rows=rows,
        columns=asked,
        seed=seed,
        # absolute: workers may have another working directory
        uri=str(DatasetUri(dataset.root, uri.release)),
        digest=_digest(rows.column("sample_id")),
    )


def _with_clips(rows: pa.Table) -> pa.Table:
    def lengths(name: str) -> pa.ChunkedArray:
        return pc.fill_null(pc.list_value_length(rows.column(name)), 0)

    complete = pc.equal(pc.add(lengths("videos"), lengths("images")), lengths("clip_ids"))
    kept = rows.filter(complete)
    if kept.num_rows < rows.num_rows:
        logger.warning(
            "%d of %d samples lack a clip and are left out", rows.num_rows - kept.num_rows, rows.num_rows
        )
    return kept


def _digest(sample_ids: pa.ChunkedArray) -> str:
    whole = hashlib.sha256()
    for sample_id in sample_ids.to_pylist():
        whole.update(sample_id.encode() + b"\0")
    return whole.hexdigest()


def this_rank(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """(rank, world size): as given, else those of torch.distributed, else of RANK and WORLD_SIZE.

    Raises:
        ConfigError: one without the other, or no rank of that many.
    """
    if (rank is None) != (world_size is None):
        raise ConfigError(f"rank={rank}, world_size={world_size}: give both or none")
    if rank is None or world_size is None:
        # a process group that stands has imported it
        distributed = sys.modules.get("torch.distributed")
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            rank, world_size = distributed.get_rank(), distributed.get_world_size()
        else:
            rank, world_size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if world_size < 1 or not 0 <= rank < world_size:
        raise ConfigError(f"rank={rank}, world_size={world_size}: expected 0 <= rank < world_size")
    return rank, world_size

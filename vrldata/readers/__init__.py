"""Streams of samples for Ray Data, torch and Hugging Face `datasets`; docs/readers.md shows them at work.

Keys travel, pixels do not: a row carries `clips`, handles whose frames are fetched by the process that first
touches them. Order depends on (seed, epoch) alone. The functions here are the methods of `Dataset`: they
select rows (`order`), `clips` fetches, `batches` puts rows together, and `ray_rows`, `torch_rows` and
`hf_rows` fit all of it to their library, which is imported with them only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from vrldata.errors import missing_extra

if TYPE_CHECKING:
    import datasets
    import ray.data

    from vrldata.dataset import Dataset
    from vrldata.readers.ray_rows import RayIterator
    from vrldata.readers.torch_rows import SampleStream


def torch_dataset(
    dataset: Dataset,
    *,
    split: str | None = None,
    columns: Sequence[str] | None = None,
    frames: bool = True,
    shuffle: int | None = None,
    filter: str | None = None,
    limit: int | None = None,
    skip_missing: bool = False,
    transform: Callable[[dict[str, Any]], Any] | None = None,
    batch_size: int = 1,
    rank: int | None = None,
    world_size: int | None = None,
    even: bool = False,
) -> SampleStream:
    """Samples as a torch `IterableDataset`, sharded by rank and worker, with positions that can be saved.

    A row is a dict of the columns and of `clips`, handles (`LazyClip`) of videos, then images; `.frames` of
    one is uint8 (T, H, W, 3). Rows hold lists and None, which torch's own collate function refuses:

        stream = vrldata.open("clips@v1").torch(shuffle=1, batch_size=8)
        loader = DataLoader(
            stream, batch_size=8, collate_fn=vrldata.collate, num_workers=2, multiprocessing_context="spawn"
        )
        for batch in loader:
            batch["problem"], batch["clips"][0][0].frames

    Args:
        split: rows of this split only.
        columns: columns of `samples`; all by default.
        frames: whether rows carry `clips`.
        shuffle: seed of the order; None takes the URI's, or the stored order where that has none.
        filter: SQL predicate on `samples`, on top of the URI's.
        limit: most rows, counted after the shuffle.
        skip_missing: leave out samples that lack a clip; otherwise their row raises MissingClip.
        transform: a picklable function of a row that runs in the workers, to read pixels there.
        batch_size: that of the loader, or 1; it keeps the order of batches that of the seed.
        rank: this process; None asks torch.distributed, then the variables RANK and WORLD_SIZE.
        world_size: processes in all; goes with `rank`.
        even: the same number of rows for every rank, leaving out up to `world_size - 1` at the end.

    Raises:
        FilterError: a predicate, a column or the split is wrong. ConfigError: rank, world size or batch size
            is wrong. MissingExtraError: torch is not installed.
    """
    try:
        from vrldata.readers import torch_rows
    except ModuleNotFoundError as error:
        raise missing_extra("torch", "build", "Dataset.torch()") from error
    from vrldata.readers.order import select_samples, this_rank

    place = this_rank(rank, world_size)
    selection: dict[str, Any] = {"split": split, "filter": filter, "columns": columns, "limit": limit}
    order = select_samples(dataset, shuffle=shuffle, skip_missing=skip_missing, **selection)
    return torch_rows.SampleStream(
        order,
        frames=frames,
        transform=transform,
        batch_size=batch_size,
        rank=place[0],
        world_size=place[1],
        even=even,
    )


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

    A row is a dict of the columns and of `clips`, handles (`LazyClip`) of videos, then images, that read
    their frames in the process that uses them. `map`, `map_batches`, `iter_rows` and `streaming_split` work
    as on any dataset:

        vrldata.open("clips@v1").ray(shuffle=1).map(lambda row: {"mean": row["clips"][0].frames.mean()})

    Where Ray is not running it is started here, with its notes below a warning left out.

    Args:
        split: rows of this split only.
        columns: columns of `samples`; all by default.
        frames: whether rows carry `clips`.
        shuffle: seed of the order; None takes the URI's, or the stored order where that has none.
        filter: SQL predicate on `samples`, on top of the URI's.
        limit: most rows, counted after the shuffle.
        epoch: counted from 0; each has an order of its own, where there is a seed.
        skip_missing: leave out samples that lack a clip; otherwise their row raises MissingClip.

    Raises:
        FilterError: a predicate, a column or the split is wrong. MissingExtraError: Ray is not installed.
    """
    try:
        from vrldata.readers import ray_rows
    except ModuleNotFoundError as error:
        raise missing_extra("ray", "ray", "Dataset.ray()") from error
    from vrldata.readers.order import select_samples

    selection: dict[str, Any] = {"split": split, "filter": filter, "columns": columns, "limit": limit}
    order = select_samples(dataset, shuffle=shuffle, skip_missing=skip_missing, **selection)
    return ray_rows.stream_rows(order, order.of_epoch(epoch), frames=frames)


def ray_iterator(
    dataset: Dataset,
    *,
    split: str | None = None,
    columns: Sequence[str] | None = None,
    frames: bool = True,
    shuffle: int | None = None,
    filter: str | None = None,
    limit: int | None = None,
    skip_missing: bool = False,
    transform: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    rank: int | None = None,
    world_size: int | None = None,
) -> RayIterator:
    """The rows of one rank, prefetched by Ray, that can stop at any row and go on there later.

    Rows are those of `ray_dataset`. Each iteration is the rest of the present epoch, then the next one:

        rows = vrldata.open("clips@v1").ray_iterator(shuffle=1, rank=0, world_size=8)
        for row in rows:
            row["clips"][0].frames
            state = rows.state_dict()

    Args:
        split: rows of this split only.
        columns: columns of `samples`; all by default.
        frames: whether rows carry `clips`.
        shuffle: seed of the order; None takes the URI's, or the stored order where that has none.
        filter: SQL predicate on `samples`, on top of the URI's.
        limit: most rows, counted after the shuffle.
        skip_missing: leave out samples that lack a clip; otherwise their row raises MissingClip.
        transform: a picklable function of a row that runs in Ray workers, ahead of the consumer.
        rank: this consumer, counted from 0; None asks torch.distributed, then RANK and WORLD_SIZE.
        world_size: consumers in all; each takes every `world_size`-th row. Goes with `rank`.

    Raises:
        FilterError: a predicate, a column or the split is wrong. ConfigError: rank or world size is wrong.
            MissingExtraError: Ray is not installed.
    """
    try:
        from vrldata.readers import ray_rows
    except ModuleNotFoundError as error:
        raise missing_extra("ray", "ray", "ray_iterator()") from error
    from vrldata.readers.order import select_samples, this_rank

    place = this_rank(rank, world_size)
    selection: dict[str, Any] = {"split": split, "filter": filter, "columns": columns, "limit": limit}
    order = select_samples(dataset, shuffle=shuffle, skip_missing=skip_missing, **selection)
    return ray_rows.RayIterator(order, frames=frames, transform=transform, rank=place[0], world_size=place[1])


def hf_dataset(
    dataset: Dataset,
    *,
    split: str | None = None,
    columns: Sequence[str] | None = None,
    frames: bool = False,
    shuffle: int | None = None,
    filter: str | None = None,
    limit: int | None = None,
    skip_missing: bool = False,
) -> datasets.Dataset:
    """Samples as a Hugging Face `datasets.Dataset` over the same memory, read by index or in order.

    A row is a dict of the columns, and with `frames` of `clips` as well: handles (`LazyClip`) of videos, then
    images. They are attached on access (`with_transform`) and are no part of the stored features; columns
    that clips are found by then stay in.

        vrldata.open("clips@v1").hf(frames=True)[0]["clips"][0].frames

    Args:
        split: rows of this split only.
        columns: columns of `samples`; all by default.
        frames: whether rows carry `clips`; not by default, unlike the other readers.
        shuffle: seed of the order; None takes the URI's, or the stored order where that has none.
        filter: SQL predicate on `samples`, on top of the URI's.
        limit: most rows, counted after the shuffle.
        skip_missing: leave out samples that lack a clip; otherwise their row raises MissingClip.

    Raises:
        FilterError: a predicate, a column or the split is wrong. MissingExtraError: `datasets` is not
            installed.
    """
    try:
        from vrldata.readers import hf_rows
    except ModuleNotFoundError as error:
        raise missing_extra("datasets", "hf", "Dataset.hf()") from error
    from vrldata.readers.order import select_samples

    selection: dict[str, Any] = {"split": split, "filter": filter, "columns": columns, "limit": limit}
    order = select_samples(dataset, shuffle=shuffle, skip_missing=skip_missing, **selection)
    return hf_rows.rows_of(order, frames=frames)

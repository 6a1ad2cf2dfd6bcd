"""The samples of a dataset as a Hugging Face `datasets.Dataset`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import datasets

from vrldata.readers.clips import ClipReader
from vrldata.readers.order import SampleOrder


def rows_of(order: SampleOrder, *, frames: bool) -> datasets.Dataset:
    """The rows in the order of epoch 0, with `frames` with `clips` on access; see `hf_dataset`."""
    rows = order.rows if frames else order.rows.select(list(order.columns))
    # key metadata of Lance means nothing here
    found = datasets.Dataset(datasets.table.InMemoryTable(rows.replace_schema_metadata(None)))
    return found.with_transform(_WithClips(order.uri, order.columns)) if frames else found


class _WithClips:
    """Adds `clips` to a batch of rows (a dict of lists)."""

    def __init__(self, uri: str, columns: Sequence[str]) -> None:
        self._reader = ClipReader(uri)
        self._columns = tuple(columns)

    def __call__(self, batch: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
        num_rows = len(next(iter(batch.values())))
        rows = [{name: values[index] for name, values in batch.items()} for index in range(num_rows)]
        given = {name: batch[name] for name in self._columns if name in batch}
        return {**given, "clips": [self._reader.clips(row) for row in rows]}

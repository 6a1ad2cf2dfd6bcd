"""One table of a dataset, and which of its rows a URI and a caller select: filter, split, limit, shuffle.

Predicates are read by `query`; this module combines them and decides which of a URI's parts a table obeys.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from vrldata.errors import FilterError, UriError, nearest

if TYPE_CHECKING:
    from vrldata.dataset import Dataset

logger = logging.getLogger(__name__)

SELECTED_TABLES = ("samples", "trajectories")
"""Tables that a URI's filter, split and limit apply to."""

ROWS_PER_BATCH = 1024
"""Rows that an iterator holds as Python objects at a time."""


class Table:
    """One table of a dataset at its release."""

    def __init__(self, dataset: Dataset, name: str) -> None:
        self.dataset = dataset
        self.name = name

    def __repr__(self) -> str:
        return f"Table({self.name!r} of {str(self.dataset.uri)!r})"

    def to_table(
        self, filter: str | None = None, columns: Sequence[str] | None = None, limit: int | None = None
    ) -> pa.Table:
        """Rows as an Arrow table in stored order, without pixels. The URI's filter applies on top.

        Raises:
            FilterError: the predicate or a column is wrong; the message names the nearest column.
        """
        return select(self.dataset, self.name, filter=filter, columns=columns, limit=limit)

    def count(self, filter: str | None = None) -> int:
        """Number of rows that `filter` and the URI's filter keep. Raises FilterError."""
        return count_rows(self.dataset, self.name, filter=filter)


def select(
    dataset: Dataset,
    table: str,
    *,
    split: str | None = None,
    filter: str | None = None,
    columns: Sequence[str] | None = None,
    limit: int | None = None,
    shuffle: bool = False,
) -> pa.Table:
    """Rows of a table as the URI and the arguments select them, in stored order or the URI's shuffle order.

    A URI's split, and its filter where that names columns of samples alone, keep of `trajectories` those of
    the samples selected. The limit counts after the shuffle.

    Raises:
        FilterError: a predicate, a column or the limit is wrong, or there is no such split. UriError: there
            is no split of the URI's name.
    """
    from vrldata.query import filter_rows, visible_columns

    if limit is not None and (not isinstance(limit, int) or limit < 0):
        raise FilterError(f"limit={limit!r}: expected a whole number from 0 on, or None for all rows")
    if isinstance(columns, str):
        raise FilterError(f"columns={columns!r}: expected a list of names, such as [{columns!r}]")

    uri = dataset.uri
    obeys = table in SELECTED_TABLES
    if columns is None and obeys and uri.columns:
        columns = uri.columns
    limits = [number for number in (limit, uri.limit if obeys else None) if number is not None]
    most = min(limits) if limits else None
    predicate, sample_ids = _predicate(dataset, table, split, filter)
    permute = shuffle and uri.shuffle is not None
    read_columns = columns
    if sample_ids is not None and columns is not None and "sample_id" not in columns:
        read_columns = [*columns, "sample_id"]
    early = most if not permute and sample_ids is None else None
    if predicate is None:
        names = list(read_columns) if read_columns is not None else visible_columns(dataset, table)
        _check_columns(names, visible_columns(dataset, table), table)
        rows = dataset.lance(table).to_table(columns=names, limit=early)
    else:
        rows = filter_rows(dataset, table, filter=predicate, columns=read_columns, limit=early)
    if sample_ids is not None:
        rows = rows.filter(pa.compute.is_in(rows.column("sample_id"), value_set=sample_ids))
        rows = rows.select(list(columns)) if columns is not None else rows
    if obeys and not rows.num_rows:
        _check_splits(dataset, split)
    if permute:
        rows = rows.take(np.random.default_rng(uri.shuffle).permutation(rows.num_rows))
    return rows.slice(0, most) if most is not None else rows


def _check_splits(dataset: Dataset, split: str | None) -> None:
    """Raises FilterError or UriError where no sample is of the split that is asked for."""
    asked = (("", split, FilterError), (f"{dataset.uri}: ", dataset.uri.split, UriError))
    if split is None and dataset.uri.split is None:
        return
    found = dataset.lance("samples").to_table(columns=["split"]).column("split").unique().to_pylist()
    known = sorted(name for name in found if name)
    for place, name, error in asked:
        if name is not None and name not in found:
            listed = f"Splits: {', '.join(known)}." if known else "No sample of this dataset is of any split."
            raise error(f"{place}no split {name!r}.{nearest(name, known)} {listed}")


def tell_empty(
    dataset: Dataset, num_rows: int, *, split: str | None, filter: str | None, limit: int | None
) -> None:
    """Log a warning where samples are iterated and conditions leave none; a limit of 0 is no accident."""
    named = [
        f"{name} {value!r}"
        for name, value in (
            ("split", split),
            ("filter", filter),
            ("split", dataset.uri.split),
            ("filter", dataset.uri.filter),
        )
        if value is not None
    ]
    if num_rows == 0 and named and limit != 0 and dataset.uri.limit != 0:
        logger.warning("%s: no sample is selected by %s", dataset.uri, ", ".join(dict.fromkeys(named)))


def iter_rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    """Rows of an Arrow table as mappings, a batch of them at a time in memory as Python objects."""
    for batch in table.to_batches(max_chunksize=ROWS_PER_BATCH):
        yield from batch.to_pylist()


def count_rows(dataset: Dataset, table: str, *, filter: str | None = None) -> int:
    """Number of rows that `select` would give. Raises FilterError."""
    uri = dataset.uri
    if filter is None and (table not in SELECTED_TABLES or not (uri.filter or uri.split or uri.limit)):
        return dataset.lance(table).count_rows()
    key = "sample_id" if table in SELECTED_TABLES else None
    return select(dataset, table, filter=filter, columns=[key] if key else None).num_rows


def _predicate(
    dataset: Dataset, table: str, split: str | None, filter: str | None
) -> tuple[str | None, pa.Array | None]:
    """The predicate on the table itself, and the ids of the samples to keep where the URI selects samples."""
    from vrldata.commits import sql_text

    uri = dataset.uri
    splits = [f"split = {sql_text(name)}" for name in dict.fromkeys((split, uri.split)) if name is not None]
    if table == "samples":
        return _all_of([filter, uri.filter, *splits]), None
    if table != "trajectories" or not (uri.filter or splits):
        return _all_of([filter]), None
    on_samples = list(splits)
    on_rows = [filter]
    if uri.filter:
        (on_rows if _fits(dataset, table, uri.filter) else on_samples).append(uri.filter)
    if not on_samples:
        return _all_of(on_rows), None
    from vrldata.query import filter_rows

    kept = filter_rows(dataset, "samples", filter=_all_of(on_samples), columns=["sample_id"])
    return _all_of(on_rows), kept.column("sample_id").combine_chunks()


def _fits(dataset: Dataset, table: str, predicate: str) -> bool:
    """Whether a predicate can be read over the columns of `table`."""
    from vrldata.query import filter_rows

    try:
        filter_rows(dataset, table, filter=predicate, limit=0)
    except FilterError:
        return False
    return True


def _all_of(predicates: Sequence[str | None]) -> str | None:
    """The conjunction of predicates; a line break ends a comment that one may close with."""
    given = [text for text in predicates if text]
    if len(given) <= 1:
        return given[0] if given else None
    return " AND ".join(f"({text}\n)" for text in given)


def _check_columns(names: Sequence[str], known: Sequence[str], table: str) -> None:
    for name in names:
        if name not in known:
            hint = nearest(name, known) or f" Columns: {', '.join(known)}."
            raise FilterError(f"no column {name!r} in {table}.{hint}")
        if names.count(name) > 1:
            raise FilterError(f"column {name!r} is named twice")

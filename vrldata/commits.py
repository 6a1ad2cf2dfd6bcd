"""Writing rows: one Lance commit per call, safe with other writers at work, and the indexes of the tables.

What the rows hold is the business of the callers. Every write dedupes by the table's primary key.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from vrldata.errors import StoreError
from vrldata.tables import INDEXES, PRIMARY_KEYS, STORAGE_VERSION, rows_to_table, schema

if TYPE_CHECKING:
    import lance

    from vrldata.dataset import Dataset

logger = logging.getLogger(__name__)

CONFLICT_RETRIES = 30
"""Attempts of one commit against other writers, first by Lance itself, then from a fresh version."""

INDEX_FROM_ROWS = 10_000
"""Rows from which a scalar index is faster than a scan of the column."""

UNINDEXED_SHARE = 0.2
"""Share of rows that no index covers from which it is brought up to date."""

_CONFLICT_WORDS = ("conflict", "concurrent", "contention", "retry timeout", "timed out")

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeResult:
    """Rows that one commit inserted and updated."""

    inserted: int
    updated: int


def merge_rows(
    dataset: Dataset,
    table: str,
    rows: pa.Table | Sequence[Mapping[str, Any]],
    *,
    update: bool | str = False,
) -> MergeResult:
    """Insert `rows` into the newest version of `table`; where the key exists, update or leave the row.

    Args:
        rows: an Arrow table with the columns of the table, or rows as mappings. Of rows that share a key the
            first counts.
        update: False leaves existing rows, True replaces them, a condition such as
            `source.source_digest != target.source_digest` replaces those that meet it.

    Raises:
        StoreError: the dataset is pinned or read-only, the disk is full, or too many writers collide.
    """
    if not isinstance(rows, pa.Table):
        rows = rows_to_table(table, rows)
    rows = first_of_each_key(rows, PRIMARY_KEYS[table])
    if rows.num_rows == 0:
        return MergeResult(inserted=0, updated=0)

    def attempt() -> MergeResult:
        target = writable(dataset, table)
        # an index would let two writers insert the same key; with the key column declared and no index they
        # see each other's rows
        builder = target.merge_insert(PRIMARY_KEYS[table]).when_not_matched_insert_all().use_index(False)
        builder = builder.conflict_retries(CONFLICT_RETRIES).retry_timeout(timedelta(minutes=10))
        if update:
            builder = builder.when_matched_update_all(update if isinstance(update, str) else None)
        counts = builder.execute(rows)
        return MergeResult(inserted=counts["num_inserted_rows"], updated=counts["num_updated_rows"])

    return committed(dataset, table, attempt)


def delete_rows(dataset: Dataset, table: str, keys: Sequence[str]) -> None:
    """Delete the rows of `table` with these primary keys; absent keys are no error.

    Raises:
        StoreError: as `merge_rows`.
    """
    for start in range(0, len(keys), 500):
        listed = ", ".join(sql_text(key) for key in keys[start : start + 500])

        def attempt(predicate: str = f"{PRIMARY_KEYS[table]} IN ({listed})") -> None:
            writable(dataset, table).delete(predicate)

        committed(dataset, table, attempt)


def make_tables(dataset: Dataset, tables: Sequence[str]) -> None:
    """Create the empty tables among `tables` that are missing; another process may do the same at once.

    Raises:
        StoreError: the root cannot be written.
    """
    import lance

    for table in tables:
        try:
            lance.write_dataset(
                schema(table).empty_table(),
                dataset.table_path(table),
                data_storage_version=STORAGE_VERSION,
                enable_stable_row_ids=True,
                storage_options=dataset.storage_options or None,
            )
        except (OSError, ValueError, RuntimeError) as error:
            if "already exists" in str(error) or is_conflict(error):
                continue
            raise write_error(dataset, table, error) from error


def writable(dataset: Dataset, table: str) -> lance.LanceDataset:
    """The newest version of `table`, to write to.

    Raises:
        StoreError: the dataset is opened at a release or on the Hub, or the table is missing.
    """
    if dataset.release is not None:
        raise StoreError(f"{dataset.uri}: release {dataset.release!r} is immutable; write without @release")
    if dataset.root.startswith("hf://"):
        raise StoreError(
            f"{dataset.uri}: a dataset on the Hub is read-only here; pull it, change it, and push it"
        )
    return dataset.open_table(table)


def committed(dataset: Dataset, table: str, attempt: Callable[[], ResultT]) -> ResultT:
    """The result of `attempt`, repeated from a fresh version while other writers get in first.

    Raises:
        StoreError: the write failed for good; the message says why and what to do.
    """
    for number in range(CONFLICT_RETRIES):
        try:
            return attempt()
        except (OSError, ValueError, RuntimeError) as error:
            if not is_conflict(error) or number == CONFLICT_RETRIES - 1:
                raise write_error(dataset, table, error) from error
            logger.debug("commit to %s collided with another writer, attempt %d", table, number + 1)
            time.sleep(random.uniform(0.02, 0.1) * min(number + 1, 20))
    raise AssertionError("unreachable")


def is_conflict(error: BaseException) -> bool:
    """Whether a write failed because another writer was first."""
    text = str(error).lower()
    return any(word in text for word in _CONFLICT_WORDS)


def write_error(dataset: Dataset, table: str, error: BaseException) -> StoreError:
    """The error for the user when Lance could not write."""
    text = lance_message(error)
    where = dataset.table_path(table)
    lowered = text.lower()
    if "no space left" in lowered or "quota exceeded" in lowered or "os error 28" in lowered:
        return StoreError(
            f"{where}: the disk is full; what was committed before is intact. Free space, run `vrldata gc`, "
            "then the same command again"
        )
    if "read-only" in lowered or "permission denied" in lowered or "os error 13" in lowered:
        return StoreError(f"{where}: cannot be written: {text}")
    return StoreError(f"{where}: write failed: {text}")


def lance_message(error: BaseException) -> str:
    """Lance's message without the places in its own source that it appends."""
    parts = [part for part in str(error).split(", ") if "/rust/" not in part]
    return " ".join(", ".join(parts).split())


def sql_text(value: str) -> str:
    """`value` as an SQL string literal."""
    return "'" + value.replace("'", "''") + "'"


def maintain_indexes(dataset: Dataset, table: str, *, from_rows: int | None = None) -> list[str]:
    """Create the missing indexes of `table` and bring stale ones up to date; names of the columns touched.

    Nothing happens below `from_rows` rows, by default INDEX_FROM_ROWS. A collision with another writer is no
    error: indexes only make reads faster, and the next call tries again.
    """
    target = writable(dataset, table)
    rows = target.count_rows()
    if rows < (INDEX_FROM_ROWS if from_rows is None else from_rows):
        return []
    covered = {tuple(index.field_names): index for index in target.describe_indices()}
    touched = []
    try:
        for index in INDEXES[table]:
            existing = covered.get((index.column,))
            if existing is None:
                writable(dataset, table).create_scalar_index(
                    index.column, index.index_type, replace=True, **index.options
                )
            elif rows - existing.num_rows_indexed > UNINDEXED_SHARE * rows:
                writable(dataset, table).optimize.optimize_indices(index_names=[existing.name])
            else:
                continue
            touched.append(index.column)
    except (OSError, ValueError, RuntimeError) as error:
        if not is_conflict(error):
            raise write_error(dataset, table, error) from error
        logger.debug("indexing %s collided with another writer: %s", table, lance_message(error))
    return touched


def first_of_each_key(rows: pa.Table, key: str) -> pa.Table:
    """`rows` without later rows of a key: Lance would insert duplicates of one source, all of them."""
    keys = rows.column(key)
    if pc.count_distinct(keys).as_py() == rows.num_rows:
        return rows
    first: dict[str, int] = {}
    for position, value in enumerate(keys.to_pylist()):
        first.setdefault(value, position)
    kept = sorted(first.values())
    # slices instead of take: a blob column cannot be gathered, and payloads must not be copied
    return pa.concat_tables([rows.slice(position, 1) for position in kept])

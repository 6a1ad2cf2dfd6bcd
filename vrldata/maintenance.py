"""Compacting tables and dropping versions that nobody needs. Checking rows is the work of `verification`."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from vrldata.appending import sole_writer
from vrldata.commits import committed, delete_rows, lance_message, maintain_indexes, writable
from vrldata.errors import StoreError
from vrldata.failures import current_and_past_failures
from vrldata.location import check_whole
from vrldata.tables import TABLES, now
from vrldata.verification import verify

if TYPE_CHECKING:
    from lance import LanceDataset

    from vrldata.dataset import Dataset

__all__ = ["CompactionReport", "GcReport", "compact", "gc", "verify"]

logger = logging.getLogger(__name__)

READER_GRACE = timedelta(days=1)
"""Age of versions that are kept for readers which opened the newest state while it was theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionReport:
    """Files before and after, by table, and the columns whose indexes were made or brought up to date."""

    files_before: dict[str, int] = field(default_factory=dict)
    files_after: dict[str, int] = field(default_factory=dict)
    indexed: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GcReport:
    """What was dropped and what waits.

    Attributes:
        versions: dropped, by table; `bytes` are those freed.
        past_failures: rows of `failures` that held no more.
        younger_versions: of all tables that stay for a while, neither the newest nor pinned by a release.
    """

    versions: dict[str, int] = field(default_factory=dict)
    bytes: dict[str, int] = field(default_factory=dict)
    past_failures: int = 0
    younger_versions: int = 0


def compact(dataset: Dataset, *, frames: bool = False) -> CompactionReport:
    """Merge the small files that many commits leave behind, and index what is worth it.

    Rows, releases and readers of older versions are untouched; disk space comes back with `gc`.

    Args:
        frames: also compact `frames`, which writes every payload again. Worth it after many commits of few
            clips, or many replaced sources. Every payload is checked afterwards.

    Raises:
        StoreError: the dataset cannot be written, or a payload came out damaged; the old version is restored.
    """
    check_whole(dataset.uri, "compact")
    before: dict[str, int] = {}
    after: dict[str, int] = {}
    indexed: dict[str, list[str]] = {}
    for table in TABLES:
        if table == "frames" and not frames:
            continue
        before[table] = len(writable(dataset, table).get_fragments())
        old_version = writable(dataset, table).version

        def attempt(name: str = table) -> None:
            writable(dataset, name).optimize.compact_files()

        committed(dataset, table, attempt)
        if table == "frames":
            _check_or_restore(dataset, old_version)
        after[table] = len(writable(dataset, table).get_fragments())
        indexed[table] = maintain_indexes(dataset, table)
    return CompactionReport(files_before=before, files_after=after, indexed=indexed)


def _check_or_restore(dataset: Dataset, old_version: int) -> None:
    """Compare every payload with its digest; a compaction after which one is damaged is undone, unless others
    have written rows since: those must not be lost.
    """
    if writable(dataset, "frames").version == old_version:
        return
    report = verify(dataset, deep=True)
    damaged = [problem for problem in report.problems if problem.table == "frames"]
    if not damaged:
        return
    with sole_writer(dataset, "frames"):
        newest = writable(dataset, "frames")
        alone = not _rows_written_since(newest, old_version)
        if alone:
            newest.checkout_version(old_version).restore()
    what = (
        "compaction was undone"
        if alone
        else "others have written since this compaction, so it stays: see `vrldata verify --deep`"
    )
    raise StoreError(
        f"{dataset.table_path('frames')}: {what}; {len(damaged)} rows are damaged after it, first: "
        f"{damaged[0].text}"
    )


def _rows_written_since(table: LanceDataset, version: int) -> bool:
    """Whether a version later than `version` did more than to move rows, or cannot be told."""
    for later in range(version + 1, table.version + 1):
        found = table.read_transaction(later)
        # Lance names its reservation of fragment numbers by the base class only
        if found is None or type(found.operation).__name__ not in ("Rewrite", "BaseOperation"):
            return True
    return False


def gc(dataset: Dataset, *, older_than: timedelta = READER_GRACE, abandoned: bool = False) -> GcReport:
    """Drop versions that no release pins and that are older than `older_than`, with the files only they use.

    Args:
        older_than: readers of the newest state keep what they opened for so long.
        abandoned: also delete files of writers that were killed before they committed. Only while no other
            process writes to the dataset: its files would look the same. Without it they go after 7 days.

    Raises:
        StoreError: the dataset cannot be written.
    """
    from vrldata.releases import repair_tags

    check_whole(dataset.uri, "gc")
    # a release whose maker was killed before it could set the tags must not lose its versions
    repair_tags(dataset)
    past_failures = _drop_past_failures(dataset, older_than)
    versions: dict[str, int] = {}
    freed: dict[str, int] = {}
    younger = 0
    for table in TABLES:
        target = writable(dataset, table)
        try:
            stats = target.cleanup_old_versions(
                older_than=older_than, delete_unverified=abandoned, error_if_tagged_old_versions=False
            )
        except (OSError, ValueError, RuntimeError) as error:
            raise StoreError(
                f"{dataset.table_path(table)}: cleanup failed: {lance_message(error)}"
            ) from error
        versions[table], freed[table] = stats.old_versions, stats.bytes_removed
        kept = {target.version, *(tag["version"] for tag in target.tags.list().values())}
        younger += sum(one["version"] not in kept for one in target.versions())
    return GcReport(versions=versions, bytes=freed, past_failures=past_failures, younger_versions=younger)


def _drop_past_failures(dataset: Dataset, older_than: timedelta) -> int:
    """Delete failures of files that no sample names any more; how many.

    Young ones stay: a running build commits its failures before the samples that name them.
    """
    _, past = current_and_past_failures(dataset)
    old = [one.clip_id for one in past if now() - one.created_at >= older_than]
    delete_rows(dataset, "failures", old)
    return len(old)

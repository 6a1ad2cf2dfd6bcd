"""Appending rows that are new, without the copies that a merge makes of their payloads.

Lance checks keys when it merges and never when it appends. Here an append looks for its keys first, and a
lock keeps every other writer of the table away from in between. The lock is the system's, on the table's
folder: it ends with its process, and it holds where one system has all writers. Elsewhere rows are merged.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from vrldata.commits import MergeResult, committed, first_of_each_key, merge_rows, sql_text, writable
from vrldata.tables import PRIMARY_KEYS

if TYPE_CHECKING:
    from vrldata.dataset import Dataset

LOCAL_FILE_SYSTEMS = frozenset(
    {"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "tmpfs", "overlay"}
)
"""File systems of one machine. On those of a network a lock may hold for one of its machines only."""


def insert_rows(dataset: Dataset, table: str, rows: pa.Table, *, update: str) -> MergeResult:
    """As `commits.merge_rows`, quicker where no key exists yet; all that inserts into `table` comes here.

    Raises:
        StoreError: as `merge_rows`.
    """
    with sole_writer(dataset, table) as alone:
        inserted = _append(dataset, table, rows) if alone else 0
        if inserted:
            return MergeResult(inserted=inserted, updated=0)
        return merge_rows(dataset, table, rows, update=update)


def _append(dataset: Dataset, table: str, rows: pa.Table) -> int:
    """Append `rows`, the first of each key, and say how many; 0 where one of them exists already."""
    key = PRIMARY_KEYS[table]
    rows = first_of_each_key(rows, key)
    listed = ", ".join(sql_text(value) for value in rows.column(key).to_pylist())

    def attempt() -> int:
        import lance

        target = writable(dataset, table)
        if target.count_rows(f"{key} IN ({listed})"):
            return 0
        lance.write_dataset(rows, target, mode="append")
        return int(rows.num_rows)

    return committed(dataset, table, attempt)


@contextmanager
def sole_writer(dataset: Dataset, table: str) -> Iterator[bool]:
    """Wait until no other process or thread inserts into a table; False where no lock can tell."""
    path = dataset.table_path(table)
    if not dataset.is_local or not _is_on_one_machine(path):
        yield False
        return
    import fcntl

    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield True
    finally:
        # closing would not do where a fork of this process holds the descriptor too
        fcntl.flock(folder, fcntl.LOCK_UN)
        os.close(folder)


def _is_on_one_machine(path: str) -> bool:
    """Whether `path` lies on a file system that only this machine writes to; False where that is unknown."""
    if sys.platform != "linux":
        return False
    try:
        mounts = Path("/proc/self/mountinfo").read_text(errors="surrogateescape")
    except OSError:
        return False
    return file_system_of(os.path.realpath(path), mounts) in LOCAL_FILE_SYSTEMS


def file_system_of(path: str, mounts: str) -> str:
    """Type of the file system that an absolute path without links lies on; empty where no mount holds it.

    Args:
        mounts: as in /proc/self/mountinfo (man 5 proc): the mount point is the fifth field of a line, with
            spaces and the like in octal; the type is the first field behind a lone dash.
    """
    longest, found = -1, ""
    for line in mounts.splitlines():
        fields, _, rest = line.partition(" - ")
        place = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields.split()[4])
        inside = path == place or path.startswith(place.rstrip("/") + "/")
        # of two mounts on one place the later one hides the other
        if inside and len(place) >= longest:
            longest, found = len(place), rest.split()[0]
    return found

"""Whether a table that is held open is still the newest version, asked at every read without a release.

Opening versions is the work of `location`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lance import LanceDataset

TRUST_NS = 1_000_000_000
"""Nanoseconds for which an unchanged folder of versions is believed, and that it must have stood unchanged:
file systems keep times as coarse as a second, and some keep none of folders."""


class _Folder:
    """A folder held open, as it was when Lance was asked; closed with the last reference to it, whichever
    thread has that.
    """

    def __init__(self, descriptor: int, table: LanceDataset, looked_ns: int) -> None:
        self.descriptor = descriptor
        self.table = table
        self.looked_ns = looked_ns
        self.changed_ns = os.fstat(descriptor).st_mtime_ns

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        close(self.descriptor)


class VersionWatch:
    """Remembers when one table on this machine was last seen to be the newest. Safe for several threads.

    Lance lists the folder of versions, which costs as much as mapping a small clip; the folder's time of
    change costs one call on a descriptor that stays open.
    """

    def __init__(self) -> None:
        self._held: _Folder | None = None

    def is_outdated(self, table: LanceDataset) -> bool:
        """Whether there is a newer version than `table`, the newest when it was opened."""
        now = time.time_ns()
        held = self._held
        # another thread may have put an older handle in place of the one that was compared
        if held is not None and held.table is table and 0 <= now - held.looked_ns < TRUST_NS:
            found = os.fstat(held.descriptor)
            if found.st_mtime_ns == held.changed_ns and found.st_nlink:
                return False
        folder = _opened(table, now)
        is_outdated = bool(table.latest_version != table.version)
        self._held = None if is_outdated else folder
        return is_outdated


def _opened(table: LanceDataset, now: int) -> _Folder | None:
    """The folder of its versions, to be believed from now on; None where it cannot be opened, or has just
    changed and may change again at the same time: then Lance is asked every time.
    """
    path = f"{table.uri}/_versions"
    try:
        folder = _Folder(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), table, now)
    except OSError:
        return None
    return folder if now - folder.changed_ns > TRUST_NS else None

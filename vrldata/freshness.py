"""Whether a table that is held open is still the newest version, asked at every read without a release.

Opening versions is the work of `location`.
"""

from __future__ import annotations

import os
import time
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lance import LanceDataset

TRUST_NS = 1_000_000_000
"""Nanoseconds for which an unchanged folder of versions is believed, and that it must have stood unchanged:
file systems keep times as coarse as a second, and some keep none of folders."""


class VersionWatch:
    """Remembers when one table on this machine was last seen to be the newest.

    Lance lists the folder of versions, which costs as much as mapping a small clip; the folder's time of
    change costs one call on a descriptor that stays open.
    """

    def __init__(self) -> None:
        self._folder = -1
        self._changed_ns = 0
        self._looked_ns = 0
        self._close: weakref.finalize[[int], VersionWatch] | None = None

    def is_outdated(self, table: LanceDataset) -> bool:
        """Whether there is a newer version than `table`, the newest when it was opened."""
        now = time.time_ns()
        if 0 <= now - self._looked_ns < TRUST_NS:
            found = os.fstat(self._folder)
            if found.st_mtime_ns == self._changed_ns and found.st_nlink:
                return False
        self._look(f"{table.uri}/_versions", now)
        return bool(table.latest_version != table.version)

    def _look(self, path: str, now: int) -> None:
        """Hold the folder as it is; one that has just changed may change again at the same time."""
        if self._close is not None:
            self._close()
        self._looked_ns = 0
        try:
            self._folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            # gone, or too many files are open: Lance is asked every time
            return
        self._close = weakref.finalize(self, os.close, self._folder)
        self._changed_ns = os.fstat(self._folder).st_mtime_ns
        if now - self._changed_ns > TRUST_NS:
            self._looked_ns = now

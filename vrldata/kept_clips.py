"""Clips that stay mapped after they were read, so that reading them again costs no page faults.

In training one clip is read several times in a row: for its rollouts, its log-probabilities and its update.
Mapping files is the work of `payload`.
"""

from __future__ import annotations

import mmap
import threading
from collections import OrderedDict

from vrldata.types import Clip

KEPT_BYTES = 256 << 20
"""Bytes of clips that a store keeps mapped: pages of the page cache, which processes share and the system can
take back."""

KEPT_CLIPS = 32
"""Clips that a store keeps mapped: each holds a file descriptor."""


class KeptClips:
    """The clips read last, up to `limit` bytes. Clips are immutable: who asks again gets the same one."""

    def __init__(self, limit: int = KEPT_BYTES) -> None:
        self.limit = limit
        self._bytes = 0
        self._kept: OrderedDict[str, tuple[Clip, mmap.mmap]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, clip_id: str) -> Clip | None:
        """The clip, where it is kept and its file still has all of its bytes."""
        with self._lock:
            if clip_id not in self._kept:
                return None
            clip, view = self._kept[clip_id]
            # reading past the end of a file that was cut short kills the process
            if view.size() != len(view):
                self._drop(clip_id)
                return None
            self._kept.move_to_end(clip_id)
            return clip

    def keep(self, clip_id: str, clip: Clip, view: mmap.mmap) -> None:
        """Keep a clip whose frames lie in the map `view`; those not read for longest make room."""
        if 2 * len(view) > self.limit:
            return
        with self._lock:
            self._drop(clip_id)
            self._kept[clip_id] = clip, view
            self._bytes += len(view)
            while self._bytes > self.limit or len(self._kept) > KEPT_CLIPS:
                self._drop(next(iter(self._kept)))

    def clear(self) -> None:
        """Let go of all."""
        with self._lock:
            self._kept.clear()
            self._bytes = 0

    def _drop(self, clip_id: str) -> None:
        found = self._kept.pop(clip_id, None)
        if found is not None:
            self._bytes -= len(found[1])

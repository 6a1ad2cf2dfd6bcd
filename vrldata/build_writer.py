"""Writes what a build brings forth, in batches: clips, failures, then the samples that became complete.

The order matters: a kill between two commits leaves samples out, never a sample without its frames.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vrldata.build_samples import SampleRows, SampleTracker, samples_that_share
from vrldata.commits import delete_rows, merge_rows
from vrldata.frame_rows import EncodedClip, copy_of_row, put_clips
from vrldata.media_file import find_media_file
from vrldata.tables import PAYLOAD_COLUMN, now

if TYPE_CHECKING:
    from vrldata.build_options import BatchSize
    from vrldata.build_plan import FailedClip, Medium
    from vrldata.dataset import Dataset

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Batch:
    """What one commit writes."""

    clips: list[EncodedClip]
    failed: list[dict[str, Any]]
    num_bytes: int


class BuildWriter:
    """Collects results of a build and commits them, in a thread beside the decoding.

    An error of a commit is raised by the next call; what was pending then can still be committed by `flush`.

    Attributes:
        written_bytes: payload bytes committed.
        codecs: clips committed by codec.
        num_reused: media whose frames lay in a row already, or lie in that of another medium of this build.
        num_failed: media without frames.
        failures: (video_path, reason) of the files that failed.
    """

    def __init__(
        self,
        dataset: Dataset,
        tracker: SampleTracker,
        sample_rows: SampleRows,
        *,
        failed_before: dict[str, FailedClip],
        changed: set[str],
        built_samples: set[str],
        batch: BatchSize,
    ) -> None:
        self._dataset, self._tracker, self._sample_rows = dataset, tracker, sample_rows
        self._failed_before, self._changed, self._built = failed_before, changed, built_samples
        self._batch = batch
        self._clips: dict[str, EncodedClip] = {}
        self._failed: list[dict[str, Any]] = []
        self._healed: list[str] = []
        self._pending_bytes = 0
        self._expected = 0
        self._taken_bytes = 0
        self._taken = 0
        self._last_commit = time.monotonic()
        self._thread = ThreadPoolExecutor(1, "vrl-commit")
        self._commit: Future[None] | None = None
        self.written_bytes = 0
        self.codecs: Counter[str] = Counter()
        self.num_reused = 0
        self.num_failed = 0
        self.failures: list[tuple[str, str]] = []

    def expect(self, count: int) -> None:
        """Say how many clips and new failures are going to come: the last batches are smaller."""
        self._expected = count

    def add_clip(self, clip: EncodedClip) -> None:
        """Take a decoded clip; commits when the batch is full."""
        self._clips[clip.clip_id] = clip
        self._pending_bytes += clip.num_bytes
        self._taken_bytes += clip.num_bytes
        self._taken += 1
        self._commit_when_full()

    def add_failure(self, medium: Medium, reason: str, *, known: bool = False) -> None:
        """Record that a medium has no frames; `known` ones are in the table already."""
        # the table travels: it names files as the dataset does
        reason = reason.replace(str(medium.file), medium.video_path)
        self.failures.append((medium.video_path, reason))
        if known:
            self._await_commit()
            self.num_failed += len(self._tracker.settle(medium.clip_id, None))
            return
        before = self._failed_before.get(medium.clip_id)
        self._failed.append(_failure_row(medium, reason, before.attempts + 1 if before else 1))
        self._taken += 1
        self._commit_when_full()

    def add_ready(self, clip_id: str, holder: str) -> None:
        """Note that the frames of a medium are committed already, in row `holder`."""
        self._await_commit()
        self._add_ready(clip_id, holder)

    def _add_ready(self, clip_id: str, holder: str) -> None:
        settled = self._tracker.settle(clip_id, holder)
        self.num_reused += len(settled)
        self._healed += [one for one in settled if one in self._failed_before]

    def flush(self) -> None:
        """Commit everything pending, and wait for it.

        Raises:
            StoreError: the dataset cannot be written.
        """
        self._start_commit()
        self._await_commit()

    def _commit_when_full(self) -> None:
        pending = len(self._clips) + len(self._failed)
        busy = self._commit is not None and not self._commit.done()
        if self._batch.reached(pending, self._pending_bytes, time.monotonic() - self._last_commit):
            self._start_commit()
        elif not busy and self._batch.worthwhile(
            self._pending_bytes, self.written_bytes, self._coming_bytes()
        ):
            self._start_commit(with_samples=False)

    def _coming_bytes(self) -> int:
        """Bytes of what has not come yet, if it is like what has."""
        return max(0, self._expected - self._taken) * self._taken_bytes // max(1, self._taken)

    def _start_commit(self, *, with_samples: bool = True) -> None:
        """Hand everything pending to the thread, once it is free."""
        self._await_commit()
        batch = _Batch(clips=list(self._clips.values()), failed=self._failed, num_bytes=self._pending_bytes)
        self._clips, self._failed, self._pending_bytes = {}, [], 0
        self._last_commit = time.monotonic()
        self._commit = self._thread.submit(self._write, batch, with_samples)

    def _await_commit(self) -> None:
        """Wait for the commit under way, and raise what went wrong in it."""
        commit, self._commit = self._commit, None
        if commit is not None:
            commit.result()

    def _write(self, batch: _Batch, with_samples: bool) -> None:
        """Commit a batch, and the samples that are complete now: those of an early batch wait for another."""
        for clip in batch.clips:
            if clip.clip_id in self._changed:
                self._keep_for_others(clip)
        put_clips(self._dataset, batch.clips)
        self.written_bytes += batch.num_bytes
        if batch.failed:
            merge_rows(self._dataset, "failures", batch.failed, update=True)
        for clip in batch.clips:
            self.codecs[str(clip.columns["codec"])] += 1
            self._add_ready(clip.clip_id, clip.clip_id)
            self.num_reused -= 1
        if self._healed:
            delete_rows(self._dataset, "failures", self._healed)
            self._healed = []
        for row in batch.failed:
            self.num_failed += len(self._tracker.settle(row["clip_id"], None))
        if with_samples:
            self._sample_rows.write(self._tracker.take_complete())

    def _keep_for_others(self, clip: EncodedClip) -> None:
        """Before a row is replaced: samples that use it for another path keep its frames under that path."""
        sharing = samples_that_share(
            self._dataset, clip.clip_id, str(clip.columns["video_path"]), self._built
        )
        if not sharing:
            return
        from vrldata.sampling import SamplingSpec
        from vrldata.store import FrameStore

        store = FrameStore(self._dataset.open_table("frames"), is_local=self._dataset.is_local)
        row = store.row(clip.clip_id)
        payload = store.payload(row, whole=True)
        (content,) = payload.read([(0, payload.size)])
        spec = SamplingSpec.from_json(row["spec"])
        columns = _columns_of(store, clip.clip_id)
        copies: dict[str, EncodedClip] = {}
        updated = []
        for sample in sharing:
            clip_ids = list(sample.clip_ids)
            for place, path in enumerate([*sample.videos, *sample.images]):
                if clip_ids[place] != clip.clip_id or path == clip.columns["video_path"]:
                    continue
                own = spec.clip_id(path)
                copies[own] = copy_of_row(row, columns, content, clip_id=own, video_path=path)
                clip_ids[place] = own
            updated.append(dataclasses.replace(sample, clip_ids=tuple(clip_ids)))
        put_clips(self._dataset, list(copies.values()))
        self._sample_rows.write(updated)


def _columns_of(store: Any, clip_id: str) -> dict[str, Any]:
    """All columns of a stored row but the payload."""
    from vrldata.commits import sql_text

    names = [name for name in store.table.schema.names if name != PAYLOAD_COLUMN]
    rows = store.table.to_table(columns=names, filter=f"clip_id = {sql_text(clip_id)}", limit=1)
    columns: dict[str, Any] = rows.to_pylist()[0]
    return columns


def _failure_row(medium: Medium, reason: str, attempts: int) -> dict[str, Any]:
    try:
        status = os.stat(find_media_file(medium.file))
        size, mtime_ns = status.st_size, status.st_mtime_ns
    except (OSError, ValueError):
        size, mtime_ns = None, None
    return {
        "clip_id": medium.clip_id,
        "video_path": medium.video_path,
        "spec": medium.spec.to_json(),
        "kind": medium.kind,
        "reason": reason,
        "attempts": attempts,
        "created_at": now(),
        "source_bytes": size,
        "source_mtime_ns": mtime_ns,
    }

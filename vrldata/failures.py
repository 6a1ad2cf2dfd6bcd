"""Which rows of `failures` still hold: a sample names the file, and no row of `frames` has its clip.

Recording failures is the work of `build_writer`; here they are only told apart from what was put right since.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from vrldata.sampling import normalise_video_path

if TYPE_CHECKING:
    from vrldata.dataset import Dataset


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One row of `failures`."""

    clip_id: str
    video_path: str
    reason: str
    attempts: int
    created_at: datetime


def current_and_past_failures(dataset: Dataset) -> tuple[list[Failure], list[Failure]]:
    """Failures that still hold, and those of files that no sample names any more or that have clips."""
    names = ["clip_id", "video_path", "reason", "attempts", "created_at"]
    rows = dataset.lance("failures").to_table(columns=names).to_pylist()
    if not rows:
        return [], []
    failures = [Failure(**row) for row in rows]
    paths = _paths_of_samples(dataset)
    clips = set(dataset.lance("frames").to_table(columns=["clip_id"]).column("clip_id").to_pylist())
    current = [one for one in failures if one.video_path in paths and one.clip_id not in clips]
    held = {one.clip_id for one in current}
    return current, [one for one in failures if one.clip_id not in held]


def _paths_of_samples(dataset: Dataset) -> set[str]:
    paths: set[str] = set()
    for batch in dataset.lance("samples").to_batches(columns=["videos", "images"]):
        for name in ("videos", "images"):
            paths.update(batch.column(name).flatten().to_pylist())
    return {normalise_video_path(path) for path in paths if path}

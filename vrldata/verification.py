"""Checking a dataset: keys, references, payloads and sources, row by row. Nothing is repaired silently."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from vrldata.errors import ConfigError, DecodeError, StoreError
from vrldata.failures import current_and_past_failures
from vrldata.location import check_whole
from vrldata.log import progress
from vrldata.sampling import SamplingSpec
from vrldata.tables import PRIMARY_KEYS, TABLES

if TYPE_CHECKING:
    from vrldata.dataset import Dataset
    from vrldata.store import FrameStore

SOURCE_COLUMNS = ("source_bytes", "source_digest")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something wrong with one row: its table, its key, what it is, and whether the pixels are affected."""

    table: str
    key: str
    text: str
    damaged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """What a check found.

    Attributes:
        rows: checked, by table.
        payload_bytes: read and compared with their digests.
        problems: in the order in which they were found.
        dropped: `clip_id`s of damaged rows that were deleted, on request.
        samples_without_clips: samples of which a clip is missing. That is no problem of a row: the decoder
            refused their files, or no build has come to them.
        failures: (video_path, reason) of the files that could not be decoded and that a sample names.
        trajectories_without_samples: responses to samples that are not in the table, as `--prune` leaves
            them: kept, and no problem.
        sources_missing: clips whose source does not lie under the `video_root` that was given.
    """

    rows: dict[str, int]
    payload_bytes: int
    problems: tuple[Problem, ...]
    dropped: tuple[str, ...] = ()
    samples_without_clips: int = 0
    failures: tuple[tuple[str, str], ...] = ()
    trajectories_without_samples: int = 0
    sources_missing: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.problems


def verify(
    dataset: Dataset,
    deep: bool = False,
    *,
    video_root: str | Path | None = None,
    drop_damaged: bool = False,
) -> VerifyReport:
    """Check every row.

    Always: keys are unique and follow from the row, columns fit each other, payloads have the right size and
    place, samples refer to rows that exist. `deep` reads every payload, compares it with its
    sha256 and decodes it.

    Args:
        video_root: also compare each row with its source: size, and with `deep` the content. A source that is
            not there is counted, and no problem.
        drop_damaged: delete rows of `frames` whose payload is damaged, so that the next build makes them
            again.

    Raises:
        StoreError: a table cannot be read at all, or rows are to be dropped from a release.
        ConfigError: `video_root` is no folder.
    """
    check_whole(dataset.uri, "verify")
    sources = None if video_root is None else Path(video_root).expanduser()
    if sources is not None and not sources.is_dir():
        raise ConfigError(f"video root {video_root}: no such folder")
    problems: list[Problem] = []
    rows: dict[str, int] = {}
    for table in TABLES:
        opened = dataset.lance(table)
        rows[table] = opened.count_rows()
        keys = opened.to_table(columns=[PRIMARY_KEYS[table]]).column(0).to_pylist()
        problems += [
            Problem(table=table, key=str(key), text=f"{count} rows share this key")
            for key, count in Counter(keys).items()
            if count > 1
        ]
    store = dataset.frame_store()
    clip_ids = dataset.lance("frames").to_table(columns=["clip_id"]).column(0).to_pylist()
    read_bytes = 0
    with progress("verify", total=len(clip_ids), unit="clips") as bar:
        for clip_id in dict.fromkeys(clip_ids):
            found, num_bytes = _check_clip(store, clip_id, deep)
            problems += found
            read_bytes += num_bytes
            bar.advance(problems=len(problems))
    problems += _references(dataset, set(clip_ids))
    sources_missing = 0
    if sources is not None:
        changed, sources_missing = _sources(dataset, sources, deep)
        problems += changed
    dropped = [problem.key for problem in problems if problem.damaged] if drop_damaged else []
    if dropped:
        _drop(dataset, dropped)
    failures, _ = current_and_past_failures(dataset)
    return VerifyReport(
        rows=rows,
        payload_bytes=read_bytes,
        problems=tuple(problems),
        dropped=tuple(dropped),
        samples_without_clips=_without_clips(dataset),
        failures=tuple((one.video_path, one.reason) for one in failures),
        trajectories_without_samples=_without_samples(dataset),
        sources_missing=sources_missing,
    )


def _without_clips(dataset: Dataset) -> int:
    """Samples with fewer clips than media."""
    rows = dataset.lance("samples").to_table(columns=["videos", "images", "clip_ids"]).to_pylist()
    return sum(
        len(row["clip_ids"] or ()) < len(row["videos"] or ()) + len(row["images"] or ()) for row in rows
    )


def _check_clip(store: FrameStore, clip_id: str, deep: bool) -> tuple[list[Problem], int]:
    """Problems of one row of `frames`, and the payload bytes that were read."""
    row = store.row(clip_id)
    found = [Problem(table="frames", key=clip_id, text=text) for text in _inconsistencies(row, clip_id)]
    read_bytes = 0
    try:
        payload = store.payload(row, whole=deep)
        if row["codec"] == "raw":
            expected = row.shape[0] * row.shape[1] * row.shape[2] * row.shape[3]
            if payload.size != expected:
                raise StoreError(f"payload of {payload.size} bytes, expected {expected}")
        if not deep:
            payload.read([(0, 1), (payload.size - 1, 1)])
            return found, 0
        read_bytes = payload.size
        store.check(row, payload)
        store.get(clip_id)
    except StoreError as error:
        found.append(Problem(table="frames", key=clip_id, text=str(error), damaged=True))
    return found, read_bytes


def _inconsistencies(row: Any, clip_id: str) -> Iterator[str]:
    try:
        spec = SamplingSpec.from_json(row["spec"])
    except ConfigError as error:
        yield f"column spec: {error}"
        return
    if spec.clip_id(row["video_path"]) != clip_id:
        yield "clip_id does not follow from video_path and spec"
    num_frames = row["num_frames"]
    for column in ("frame_indices", "timestamps"):
        if len(row[column]) != num_frames:
            yield f"column {column} has {len(row[column])} values for {num_frames} frames"
    if min(row.shape) < 1:
        yield f"shape {row.shape} is empty"


def _references(dataset: Dataset, clip_ids: set[str]) -> Iterator[Problem]:
    samples = dataset.lance("samples").to_table(columns=["sample_id", "clip_ids"])
    for row in samples.to_pylist():
        for clip_id in row["clip_ids"] or ():
            if clip_id not in clip_ids:
                yield Problem(table="samples", key=row["sample_id"], text=f"clip {clip_id} is not in frames")


def _without_samples(dataset: Dataset) -> int:
    """Trajectories whose sample is not in the table."""
    known = dataset.lance("samples").to_table(columns=["sample_id"]).column(0)
    named = dataset.lance("trajectories").to_table(columns=["sample_id"]).column(0)
    return int(pc.sum(pc.invert(pc.is_in(named, value_set=known.combine_chunks()))).as_py() or 0)


def _sources(dataset: Dataset, video_root: Path, deep: bool) -> tuple[list[Problem], int]:
    """Rows whose source has changed, and the number of those whose source is not there."""
    from vrldata.media_file import find_media_file, source_fingerprint

    rows = dataset.lance("frames").to_table(columns=["clip_id", "video_path", *SOURCE_COLUMNS])
    problems, missing = [], 0
    for row in rows.to_pylist():
        try:
            file = find_media_file(video_root / row["video_path"])
            size = os.stat(file).st_size
            changed = row["source_bytes"] is not None and size != row["source_bytes"]
            if not changed and deep and row["source_digest"]:
                changed = source_fingerprint(file).source_digest != row["source_digest"]
        except (OSError, DecodeError):
            missing += 1  # frames may outlive their source
            continue
        if changed:
            text = f"{row['video_path']}: the source has changed since; build again"
            problems.append(Problem(table="frames", key=row["clip_id"], text=text))
    return problems, missing


def _drop(dataset: Dataset, clip_ids: list[str]) -> None:
    """Delete rows of `frames`, and empty the `clip_ids` of samples that use them."""
    from vrldata.commits import delete_rows, merge_rows

    lost = set(clip_ids)
    rows = dataset.lance("samples").to_table().to_pylist()
    affected = [{**row, "clip_ids": []} for row in rows if lost & set(row["clip_ids"] or ())]
    merge_rows(dataset, "samples", affected, update=True)
    delete_rows(dataset, "frames", clip_ids)

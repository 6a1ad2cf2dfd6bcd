"""What a build has to decode: media of samples against what the store holds, by size, time and content.

No file is decoded here and nothing is written; that is the work of `build`.
"""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from vrldata.errors import DecodeError
from vrldata.media_file import SourceFingerprint, find_media_file, read_head, source_fingerprint
from vrldata.sampling import PREPROCESS_VERSION, SamplingSpec, normalise_video_path

if TYPE_CHECKING:
    from vrldata.dataset import Dataset
    from vrldata.types import Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Medium:
    """One video window or image that a sample needs.

    Attributes:
        clip_id: of its own key, whichever row holds its frames in the end.
        video_path: relative to the video root.
        file: where it lies.
        spec: what to take of it.
        kind: `video` or `image`.
    """

    clip_id: str
    video_path: str
    file: Path
    spec: SamplingSpec
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredClip:
    """A row of `frames` as a build sees it.

    Attributes:
        content_key: digest of the source, key of the spec, kind: equal where the frames are.
        current: decoding today would give the same pixels from the same source.
        created_ns: when the row was written, nanoseconds since the epoch.
    """

    source_bytes: int
    source_mtime_ns: int
    source_digest: str
    content_key: tuple[str, str, str]
    current: bool
    created_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedClip:
    """A row of `failures`."""

    reason: str
    source_bytes: int | None
    source_mtime_ns: int | None
    attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be done about the media of a build.

    Attributes:
        ready: `clip_id` of a medium to that of the row that holds its frames already.
        shared: `clip_id` of a medium to that of another one of this build with the same content.
        failed: `clip_id` to the reason, for media that are not tried (again).
        known_failures: those of `failed` that are in the table already, word for word.
        decode: media to decode, with their fingerprint where it was needed for a decision.
        changed: those of `decode` whose row exists with other content or other pixels.
        replaced: those of `changed` whose file has other content than the row was made of.
    """

    ready: dict[str, str] = field(default_factory=dict)
    shared: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    known_failures: set[str] = field(default_factory=set)
    decode: list[tuple[Medium, SourceFingerprint | None]] = field(default_factory=list)
    changed: set[str] = field(default_factory=set)
    replaced: set[str] = field(default_factory=set)


def media_of(
    sample: Sample, spec: SamplingSpec, image_spec: SamplingSpec, video_root: Path
) -> tuple[Medium, ...]:
    """Media of a sample, videos then images. The sample's window becomes that of the spec of its videos."""
    if sample.start is not None or sample.end is not None:
        spec = dataclasses.replace(spec, start=sample.start, end=sample.end)
    wanted = [(path, spec, "video") for path in sample.videos]
    wanted += [(path, image_spec, "image") for path in sample.images]
    media = []
    for path, own_spec, kind in wanted:
        name = normalise_video_path(path)
        media.append(
            Medium(
                clip_id=own_spec.clip_id(name),
                video_path=name,
                file=video_root / path,
                spec=own_spec,
                kind=kind,
            )
        )
    return tuple(media)


def stored_clips(dataset: Dataset) -> dict[str, StoredClip]:
    """Rows of `frames` by `clip_id`."""
    from vrldata.store import stored_ids

    keys: dict[str, str] = {}
    found = {}
    for batch in stored_ids(dataset.open_table("frames")).to_batches(max_chunksize=4096):
        for row in batch.to_pylist():
            spec = row["spec"]
            if spec not in keys:
                keys[spec] = SamplingSpec.from_json(spec).key_json()
            found[row["clip_id"]] = StoredClip(
                source_bytes=row["source_bytes"],
                source_mtime_ns=row["source_mtime_ns"],
                source_digest=row["source_digest"],
                content_key=(row["source_digest"], keys[spec], row["kind"]),
                current=_is_current(row["preprocess_version"]),
                created_ns=int(row["created_at"].timestamp() * 1e9),
            )
    return found


def _is_current(preprocess_version: str | None) -> bool:
    """Whether the pixels are those that decoding would give today; those of other programs stay."""
    own = PREPROCESS_VERSION.split("-")[0] + "-"
    return preprocess_version == PREPROCESS_VERSION or not (preprocess_version or "").startswith(own)


def failed_clips(dataset: Dataset) -> dict[str, FailedClip]:
    """Rows of `failures` by `clip_id`."""
    rows = dataset.open_table("failures").to_table(
        columns=["clip_id", "reason", "source_bytes", "source_mtime_ns", "attempts"]
    )
    return {
        row["clip_id"]: FailedClip(
            reason=row["reason"],
            source_bytes=row["source_bytes"],
            source_mtime_ns=row["source_mtime_ns"],
            attempts=row["attempts"] or 1,
        )
        for row in rows.to_pylist()
    }


def make_plan(
    media: Iterable[Medium],
    stored: dict[str, StoredClip],
    failures: dict[str, FailedClip],
    *,
    video_root: Path,
    retry_failed: bool = False,
    threads: int = 4,
) -> Plan:
    """Decide about each medium: there already, known to fail, the same as another, or to be decoded.

    A file with the size and modification time of its row, whose inode has not changed since the row was
    written, is taken as unchanged; otherwise its content decides. A modification time can be set back after a
    change, the change time of an inode cannot.
    Files that share size and spec with another are read too, to find equal content under two paths.

    Args:
        media: distinct by `clip_id`.
    """
    plan = Plan()
    unsure: list[Medium] = []
    fresh: list[tuple[Medium, int]] = []
    root = os.path.realpath(video_root)
    for medium in media:
        row, failure = stored.get(medium.clip_id), failures.get(medium.clip_id)
        try:
            status = os.stat(find_media_file(_inside(medium, root)))
        except DecodeError as error:
            plan.failed[medium.clip_id] = str(error)
            continue
        except (OSError, ValueError):
            if row is not None and row.current:
                # the frames outlive their source, and a source that is gone has not changed
                plan.ready[medium.clip_id] = medium.clip_id
            elif failure and not retry_failed and failure.source_bytes is None:
                plan.failed[medium.clip_id] = failure.reason
                plan.known_failures.add(medium.clip_id)
            else:
                plan.failed[medium.clip_id] = _why_unreadable(medium)
            continue
        size_and_time = (status.st_size, status.st_mtime_ns)
        if row is not None and row.current and _untouched(status, row):
            plan.ready[medium.clip_id] = medium.clip_id
        elif row is not None:
            unsure.append(medium)
        elif failure and not retry_failed and size_and_time == _seen(failure):
            plan.failed[medium.clip_id] = failure.reason
            plan.known_failures.add(medium.clip_id)
        else:
            fresh.append((medium, status.st_size))
    _decide_by_content(plan, unsure, fresh, stored, threads)
    return plan


def _decide_by_content(
    plan: Plan,
    unsure: Sequence[Medium],
    fresh: Sequence[tuple[Medium, int]],
    stored: dict[str, StoredClip],
    threads: int,
) -> None:
    """Read the files that need it: those whose row may be outdated, then those that may equal another."""
    for medium, source in _fingerprints(unsure, threads):
        row = stored[medium.clip_id]
        if isinstance(source, str):
            plan.failed[medium.clip_id] = source
        elif row.current and source.source_digest == row.source_digest:
            plan.ready[medium.clip_id] = medium.clip_id
        else:
            plan.changed.add(medium.clip_id)
            plan.decode.append((medium, source))
            if source.source_digest != row.source_digest:
                plan.replaced.add(medium.clip_id)
    # rows that are about to be replaced hold no content to share
    content = {row.content_key: key for key, row in stored.items() if row.current and key not in plan.changed}
    for medium, changed_source in plan.decode:
        if changed_source is not None:
            content.setdefault(_content_key(medium, changed_source), medium.clip_id)
    sizes = Counter((size, medium.kind, medium.spec.key_json()) for medium, size in fresh)
    sizes.update((row.source_bytes, row.content_key[2], row.content_key[1]) for row in stored.values())
    twins = [medium for medium, size in fresh if sizes[(size, medium.kind, medium.spec.key_json())] > 1]
    digests = {medium.clip_id: source for medium, source in _fingerprints(twins, threads)}
    for medium, _ in fresh:
        twin = digests.get(medium.clip_id)
        if isinstance(twin, str):
            plan.failed[medium.clip_id] = twin
            continue
        if twin is None:
            plan.decode.append((medium, None))
            continue
        holder = content.setdefault(_content_key(medium, twin), medium.clip_id)
        if holder == medium.clip_id:
            plan.decode.append((medium, twin))
        elif holder in stored and holder not in plan.changed:
            plan.ready[medium.clip_id] = holder
        else:
            plan.shared[medium.clip_id] = holder


def _fingerprints(media: Sequence[Medium], threads: int) -> Iterator[tuple[Medium, SourceFingerprint | str]]:
    """Fingerprint of each file, or why it cannot be read, in order; hashing releases the GIL."""

    def read(medium: Medium) -> SourceFingerprint | str:
        try:
            return source_fingerprint(medium.file)
        except DecodeError as error:
            return str(error)

    with ThreadPoolExecutor(max(1, threads)) as pool:
        yield from zip(media, pool.map(read, media), strict=True)


def _why_unreadable(medium: Medium) -> str:
    try:
        read_head(find_media_file(medium.file))
    except DecodeError as error:
        return str(error)
    return f"{medium.file}: came into being while the build began; build again"


def _content_key(medium: Medium, source: SourceFingerprint) -> tuple[str, str, str]:
    return source.source_digest, medium.spec.key_json(), medium.kind


def _untouched(status: os.stat_result, row: StoredClip) -> bool:
    same = (status.st_size, status.st_mtime_ns) == (row.source_bytes, row.source_mtime_ns)
    return same and status.st_ctime_ns <= row.created_ns


def _seen(failure: FailedClip) -> tuple[int | None, int | None]:
    return failure.source_bytes, failure.source_mtime_ns


def _inside(medium: Medium, root: str) -> Path:
    """The file of a medium. Raises DecodeError where its path leaves the video root."""
    path = os.path.realpath(medium.file)
    if os.path.commonpath([root, path]) == root or _stays_in(medium.video_path):
        return medium.file
    raise DecodeError(
        f"{medium.video_path}: leads out of the video root: paths in annotations are relative to it"
    )


def _stays_in(video_path: str) -> bool:
    """Whether a path as text stays under its root. A link inside the root may point elsewhere: that is the
    owner's doing, not the data's."""
    return not video_path.startswith("/") and ".." not in video_path.split("/")

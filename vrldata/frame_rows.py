"""A clip as a row of `frames`: its payload, what proves its source, and the commit of a batch of them."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from vrldata.appending import insert_rows
from vrldata.codecs import Buffer, Codec, encode_frames
from vrldata.commits import MergeResult, committed, writable
from vrldata.sampling import PREPROCESS_VERSION
from vrldata.tables import PAYLOAD_COLUMN, now, schema
from vrldata.types import Clip

if TYPE_CHECKING:
    from vrldata.dataset import Dataset
    from vrldata.media_file import SourceFingerprint
    from vrldata.store import StoredRow

CHANGED = (
    "source.source_digest != target.source_digest OR source.preprocess_version != target.preprocess_version"
)
"""When a row that exists gives way to a new one of the same key: another content, or other pixels of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedClip:
    """A clip ready to be committed.

    Attributes:
        columns: values of the row, all but the payload.
        payload: bytes of the row.
        num_bytes: of the payload.
        raw_bytes: of the pixels.
    """

    columns: dict[str, Any]
    payload: Buffer
    num_bytes: int
    raw_bytes: int

    @property
    def clip_id(self) -> str:
        """Key of the row."""
        return str(self.columns["clip_id"])


def encode_clip(
    clip: Clip,
    codec: Codec,
    source: SourceFingerprint,
    *,
    decoder: str,
    preprocess_version: str | None = None,
) -> EncodedClip:
    """Pack a clip. For `raw` the payload is a view of the frames, without a copy.

    Args:
        preprocess_version: of the code that made the pixels; defaults to that of today.

    Raises:
        StoreError: the frames are not uint8 (T, H, W, 3).
    """
    if preprocess_version is None:
        preprocess_version = PREPROCESS_VERSION
    payload = encode_frames(clip.frames, codec)
    spec = dataclasses.replace(clip.spec, codec=str(codec))
    meta = clip.metadata
    columns = {
        "clip_id": spec.clip_id(clip.video_path),
        "video_path": clip.video_path,
        "fps": spec.fps,
        "max_frames": spec.max_frames,
        "max_pixels": spec.max_pixels,
        "spec": spec.to_json(),
        "kind": clip.kind,
        "num_frames": clip.frames.shape[0],
        "height": clip.frames.shape[1],
        "width": clip.frames.shape[2],
        "codec": codec.name,
        "frame_indices": meta.frame_indices,
        "timestamps": meta.timestamps,
        "source_fps": meta.fps,
        "source_num_frames": meta.total_num_frames,
        "source_duration": meta.duration,
        "source_width": meta.source_width,
        "source_height": meta.source_height,
        "source_bytes": source.source_bytes,
        "source_mtime_ns": source.source_mtime_ns,
        "source_digest": source.source_digest,
        "sampled_fps": meta.sampled_fps,
        "preprocess_version": preprocess_version,
        "sha256": hashlib.sha256(payload).hexdigest(),
        "decoder": decoder,
        "warnings": list(clip.warnings) or None,
    }
    return EncodedClip(
        columns=columns, payload=payload, num_bytes=memoryview(payload).nbytes, raw_bytes=clip.frames.nbytes
    )


def copy_of_row(
    row: StoredRow, columns: dict[str, Any], payload: Buffer, *, clip_id: str, video_path: str
) -> EncodedClip:
    """The same stored clip under another path. `columns` are the row's, all but the payload."""
    return EncodedClip(
        columns={**columns, "clip_id": clip_id, "video_path": video_path},
        payload=payload,
        num_bytes=memoryview(payload).nbytes,
        raw_bytes=int(np.prod(row.shape, dtype=np.int64)),
    )


def put_clips(dataset: Dataset, clips: Sequence[EncodedClip]) -> MergeResult:
    """Commit clips to `frames` at once: new keys are inserted, changed sources replace their row.

    Raises:
        StoreError: the dataset cannot be written.
    """
    if not clips:
        return MergeResult(inserted=0, updated=0)
    _add_missing_columns(dataset)
    moment = now()
    rows = [_row(clip, moment) for clip in clips]
    return insert_rows(dataset, "frames", pa.concat_tables(rows), update=CHANGED)


def _add_missing_columns(dataset: Dataset) -> None:
    """Columns that an older version did not have, null in its rows."""

    def attempt() -> None:
        target = writable(dataset, "frames")
        missing = [field for field in schema("frames") if field.name not in target.schema.names]
        if missing:
            target.add_columns(missing)

    committed(dataset, "frames", attempt)


def _row(clip: EncodedClip, moment: Any) -> pa.Table:
    """One row over the payload's memory; chunks of one row each spare a copy of all payloads."""
    fields = schema("frames")
    columns = {**clip.columns, "created_at": clip.columns.get("created_at") or moment}
    arrays = []
    for field in fields:
        value = columns.get(field.name)
        if field.name == PAYLOAD_COLUMN:
            arrays.append(_blob(clip.payload, clip.num_bytes, field.type))
        elif isinstance(value, np.ndarray):
            values = pa.array(value).cast(field.type.value_type)
            arrays.append(pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values))
        else:
            arrays.append(pa.array([value], type=field.type))
    return pa.Table.from_arrays(arrays, schema=fields)


def _blob(payload: Buffer, num_bytes: int, type_: pa.ExtensionType) -> pa.Array:
    offsets = pa.py_buffer(np.array([0, num_bytes], dtype=np.int64))
    data = pa.Array.from_buffers(pa.large_binary(), 1, [None, offsets, pa.py_buffer(payload)])
    storage = pa.StructArray.from_arrays(
        [data, pa.nulls(1, pa.utf8()), pa.nulls(1, pa.uint64()), pa.nulls(1, pa.uint64())],
        names=["data", "uri", "position", "size"],
    )
    return pa.ExtensionArray.from_storage(type_, storage)

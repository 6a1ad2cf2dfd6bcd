"""`FrameStore`: the clips of one version of the `frames` table, read with as few copies as the codec allows.

A raw payload on a local disk is a file of its own that is mapped; everything else goes through Lance's blob
reads. Packing pixels is the work of `codecs`, finding a clip by path that of `lookup`.
"""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vrldata.codecs import decode_frames
from vrldata.errors import ConfigError, MissingClip, StoreError
from vrldata.kept_clips import KeptClips
from vrldata.payload import EXTERNAL_KIND, FILLED_BYTES, Payload, PayloadFiles
from vrldata.sampling import SamplingSpec
from vrldata.tables import PAYLOAD_COLUMN
from vrldata.types import Clip, VideoMetadata

if TYPE_CHECKING:
    from lance import LanceDataset
    from numpy.typing import NDArray

logger = logging.getLogger(__name__)

INDEX_ROWS = 32_768
"""Rows up to which the metadata of the whole table is kept in memory (about 2 KB a row)."""

METADATA_COLUMNS = (
    "clip_id",
    "video_path",
    "spec",
    "kind",
    "num_frames",
    "height",
    "width",
    "codec",
    "frame_indices",
    "timestamps",
    "source_fps",
    "source_num_frames",
    "source_duration",
    "source_width",
    "source_height",
    "source_digest",
    "sampled_fps",
    "sha256",
    "warnings",
)
"""Columns of `frames` that a clip is made of, beside its payload."""


class RowIndex:
    """Rows of `frames` in memory: metadata, and where each payload lies.

    Of rows that share a `clip_id` the first counts; such rows are a fault that `verify` reports.
    """

    def __init__(self, rows: pa.Table) -> None:
        rows = rows.combine_chunks()
        columns = {name: _single(rows.column(name)) for name in METADATA_COLUMNS if name in rows.column_names}
        self._values = {name: _values_of(column) for name, column in columns.items()}
        places = _single(rows.column(PAYLOAD_COLUMN))
        self._places = [
            (field.name, _values_of(part)) for field, part in zip(places.type, places.flatten(), strict=True)
        ]
        self._addresses = rows.column("_rowaddr").to_numpy()
        self._positions: dict[str, int] = {}
        for position, clip_id in enumerate(columns["clip_id"].to_pylist()):
            self._positions.setdefault(clip_id, position)

    def __len__(self) -> int:
        return len(self._positions)

    def find(self, clip_id: str) -> StoredRow | None:
        """The row of a clip."""
        position = self._positions.get(clip_id)
        return None if position is None else StoredRow(self, position)

    def value(self, name: str, position: int) -> Any:
        """A value as a Python object; lists of numbers as read-only numpy arrays over the table's memory.

        None for a column that the table, of an older version, does not have.
        """
        values = self._values.get(name)
        return None if values is None else values(position)

    def descriptor(self, position: int) -> dict[str, Any]:
        """Lance's place of the payload: kind, position, size, blob_id."""
        return {name: values(position) for name, values in self._places}

    def address(self, position: int) -> int:
        """Lance's row address at this version."""
        return int(self._addresses[position])


@dataclass(frozen=True, slots=True)
class StoredRow:
    """One row of `frames` within its index."""

    index: RowIndex
    position: int

    def __getitem__(self, name: str) -> Any:
        return self.index.value(name, self.position)

    @property
    def address(self) -> int:
        return self.index.address(self.position)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(T, H, W, 3) of the stored frames."""
        return self["num_frames"], self["height"], self["width"], 3


class FrameStore:
    """Reads clips of one version of `frames`.

    Args:
        table: the Lance table at the version to read.
        is_local: whether its files lie on this machine, so that payloads can be mapped.

    Attributes:
        aliases: `clip_id` of a path to that of the row with the same content, as far as looked up.
        kept: clips read last, which stay mapped.
    """

    def __init__(self, table: LanceDataset, *, is_local: bool) -> None:
        self.table = table
        self.version: int = table.version
        self.is_local = is_local
        self.aliases: dict[str, str] = {}
        self.kept = KeptClips()
        self._index: RowIndex | None = None
        self._found: dict[str, RowIndex] = {}
        self._files = PayloadFiles(table, self.kept.clear) if is_local else None

    def row(self, clip_id: str) -> StoredRow:
        """The row of a clip.

        Raises:
            MissingClip: there is none.
        """
        if self._index is None and self.table.count_rows() <= INDEX_ROWS:
            self._index = RowIndex(self._read_rows())
        index = self._index
        if index is None:
            index = self._found.get(clip_id)
        if index is None:
            index = RowIndex(self._read_rows(clip_id))
            if len(self._found) >= INDEX_ROWS:
                self._found.clear()
            self._found[clip_id] = index
        found = index.find(clip_id)
        if found is None:
            raise MissingClip(f"{self.table.uri}: no clip {clip_id!r} at version {self.version}")
        return found

    def __contains__(self, clip_id: str) -> bool:
        try:
            self.row(clip_id)
        except MissingClip:
            return False
        return True

    def get(
        self,
        clip_id: str,
        *,
        indices: Sequence[int] | None = None,
        verify: bool = False,
        out: NDArray[np.uint8] | None = None,
    ) -> Clip:
        """The clip of a row, or the frames at `indices` of it; only the bytes of these are read.

        Without `out` the frames of a raw payload on a local disk are a view of its file, without a copy. Who
        needs frames of their own, to write to or to pin, gives a buffer as `out` and uses it again: the page
        faults of a fresh one cost more than the copy.

        Args:
            indices: positions 0 to T - 1 in the stored clip, in any order, repeats allowed.
            verify: check the whole payload against its sha256 first.
            out: contiguous uint8 array that the frames go to, of their size or larger; the clip's frames are
                a read-only view of it, valid until it is used again.

        Raises:
            MissingClip: no such row. StoreError: an index out of range, a damaged payload, or `out` does not
            fit.
        """
        whole = indices is None and out is None
        kept = self.kept.get(clip_id) if whole and not verify else None
        if kept is not None:
            return kept
        row = self.row(clip_id)
        wanted = None if indices is None else _checked(indices, row["num_frames"], clip_id)
        if out is not None:
            out = _fitting(out, (row.shape if wanted is None else (len(wanted), *row.shape[1:])), clip_id)
        if verify:
            self.check(row)
        payload = None
        try:
            frames = self._filled(row, wanted, out)
            if frames is None:
                payload = self.payload(row, whole=wanted is None)
                frames = decode_frames(payload.read, row["codec"], row.shape, payload.size, wanted, out)
        except StoreError as error:
            raise StoreError(f"{row['video_path']} (clip {clip_id}): {error}") from error
        clip = clip_from_row(row, frames, wanted)
        if whole and row["codec"] == "raw" and payload is not None and payload.view is not None:
            self.kept.keep(clip_id, clip, payload.view)
        return clip

    def _filled(
        self, row: StoredRow, wanted: list[int] | None, out: NDArray[np.uint8] | None
    ) -> NDArray[np.uint8] | None:
        """A read-only view of `out`, filled from the file of a small raw payload; None for any other."""
        if self._files is None or out is None or wanted is not None or row["codec"] != "raw":
            return None
        descriptor = row.index.descriptor(row.position)
        size = descriptor["size"]
        if size != out.size or size > FILLED_BYTES:
            return None
        if not self._files.fill(row.address, descriptor, out.reshape(-1)):
            return None
        frames = out.view()
        frames.flags.writeable = False
        return frames

    def check(self, row: StoredRow, payload: Payload | None = None) -> None:
        """Raises StoreError where a payload does not have the sha256 of its row."""
        payload = payload or self.payload(row, whole=True)
        (whole,) = payload.read([(0, payload.size)])
        if hashlib.sha256(whole).hexdigest() != row["sha256"]:
            raise StoreError(
                f"{row['video_path']} (clip {row['clip_id']}): the payload differs from its sha256: "
                "damaged on disk; `vrldata verify --deep --drop-damaged` removes it, then build again"
            )

    def payload(self, row: StoredRow, *, whole: bool = False, as_file: bool = True) -> Payload:
        """Access to the bytes of a row.

        Args:
            whole: all of it is going to be read: map it with its pages.
            as_file: False takes Lance's blob reads even where the file could be mapped.

        Raises:
            StoreError: the payload lies outside the dataset.
        """
        descriptor = row.index.descriptor(row.position)
        if descriptor["kind"] >= EXTERNAL_KIND:
            # a dataset from elsewhere could name any file of this machine
            raise StoreError(f"clip {row['clip_id']}: its payload lies outside the dataset: refused")
        files = self._files if as_file else None
        view = None if files is None else files.map(row.address, descriptor, whole=whole)
        if view is None:
            return Payload(size=descriptor["size"], table=self.table, address=row.address)
        return Payload(size=descriptor["size"], view=view)

    def _read_rows(self, clip_id: str | None = None) -> pa.Table:
        from vrldata.commits import sql_text

        predicate = None if clip_id is None else f"clip_id = {sql_text(clip_id)}"
        there = set(self.table.schema.names)
        columns = [name for name in (*METADATA_COLUMNS, PAYLOAD_COLUMN) if name in there]
        return self.table.to_table(columns=columns, filter=predicate, with_row_address=True)


def _values_of(column: pa.Array) -> Callable[[int], Any]:
    """What gives the value at a position; numbers by way of numpy, since Arrow's scalars take ten times as
    long, and a small clip is read in a tenth of a millisecond.
    """
    if not column.null_count and pa.types.is_primitive(column.type):
        return cast("Callable[[int], Any]", column.to_numpy(zero_copy_only=False).item)
    if (
        not column.null_count
        and pa.types.is_list(column.type)
        and pa.types.is_primitive(column.type.value_type)
    ):
        offset, numbers = column.offsets.to_numpy().item, column.values.to_numpy()
        return lambda position: numbers[offset(position) : offset(position + 1)]
    return lambda position: column[position].as_py()


def _single(column: pa.ChunkedArray) -> pa.Array:
    """A column as one array. A descriptor column arrives as a plain struct."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return column.combine_chunks() if column.num_chunks else pa.array([], type=column.type)


def _fitting(out: NDArray[np.uint8], shape: tuple[int, int, int, int], clip_id: str) -> NDArray[np.uint8]:
    """The first bytes of `out` as an array of this shape."""
    size = math.prod(shape)
    if out.dtype != np.uint8 or not out.flags.c_contiguous or not out.flags.writeable or out.size < size:
        raise StoreError(
            f"clip {clip_id}: out={out.dtype} {out.shape}: expected a writable, contiguous uint8 array of "
            f"{size} bytes or more"
        )
    return out.reshape(-1)[:size].reshape(shape)


def _checked(indices: Sequence[int], num_frames: int, clip_id: str) -> list[int]:
    wanted = [int(index) for index in indices]
    for index in wanted:
        if not 0 <= index < num_frames:
            raise StoreError(f"clip {clip_id}: no frame {index}: it has frames 0 to {num_frames - 1}")
    return wanted


@lru_cache(maxsize=4096)
def _spec(text: str) -> SamplingSpec:
    try:
        return SamplingSpec.from_json(text)
    except ConfigError as error:
        raise StoreError(f"column spec of a clip: {error}; was it written by a newer version?") from error


def clip_from_row(row: StoredRow, frames: NDArray[np.uint8], wanted: list[int] | None) -> Clip:
    """The clip of a row and its decoded `frames`; `wanted` says which of the stored frames these are."""
    frame_indices, timestamps = row["frame_indices"], row["timestamps"]
    if not len(frame_indices) == len(timestamps) == row["num_frames"]:
        raise StoreError(
            f"{row['video_path']} (clip {row['clip_id']}): {len(frame_indices)} frame_indices and "
            f"{len(timestamps)} timestamps for {row['num_frames']} frames: damaged"
        )
    if wanted is not None:
        frame_indices, timestamps = frame_indices[wanted], timestamps[wanted]
    metadata = VideoMetadata(
        fps=row["source_fps"],
        frame_indices=frame_indices,
        timestamps=timestamps,
        duration=row["source_duration"],
        total_num_frames=row["source_num_frames"],
        height=row["height"],
        width=row["width"],
        source_height=row["source_height"],
        source_width=row["source_width"],
        sampled_fps=row["sampled_fps"],
    )
    return Clip(
        frames=frames,
        metadata=metadata,
        video_path=row["video_path"],
        spec=_spec(row["spec"]),
        kind=row["kind"],
        warnings=tuple(row["warnings"] or ()),
    )


def stored_ids(table: LanceDataset) -> pa.Table:
    """What a build compares with: clip_id, path, spec and fingerprint of every row, without pixels."""
    return table.to_table(
        columns=[
            "clip_id",
            "video_path",
            "spec",
            "kind",
            "source_bytes",
            "source_mtime_ns",
            "source_digest",
            "preprocess_version",
            "created_at",
        ]
    )


def total_payload_bytes(table: LanceDataset) -> int:
    """Bytes of all payloads of a version."""
    sizes = table.to_table(columns=[PAYLOAD_COLUMN]).column(PAYLOAD_COLUMN)
    total = sum(pc.sum(pc.struct_field(chunk, "size")).as_py() or 0 for chunk in sizes.chunks)
    return int(total)

"""`FrameStore`: the clips of one version of the `frames` table, read with as few copies as the codec allows.

A raw payload on a local disk is a file of its own that is mapped; everything else goes through Lance's blob
reads. Packing pixels is the work of `codecs`, finding a clip by path that of `lookup`.
"""

from __future__ import annotations

import hashlib
import logging
import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vrldata.codecs import Buffer, decode_frames
from vrldata.errors import ConfigError, MissingClip, StoreError
from vrldata.sampling import SamplingSpec
from vrldata.tables import PAYLOAD_COLUMN
from vrldata.types import Clip, VideoMetadata

if TYPE_CHECKING:
    from lance import LanceDataset
    from numpy.typing import NDArray

logger = logging.getLogger(__name__)

INDEX_ROWS = 32_768
"""Rows up to which the metadata of the whole table is kept in memory (about 2 KB a row)."""

DEDICATED_KIND = 2
"""Lance's descriptor kind of a payload that has a file to itself."""

EXTERNAL_KIND = 3
"""Lance's descriptor kind of a payload that lies anywhere else, at an address that the row names."""

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
)
"""Columns of `frames` that a clip is made of, beside its payload."""


class RowIndex:
    """Rows of `frames` in memory: metadata, and where each payload lies.

    Of rows that share a `clip_id` the first counts; such rows are a fault that `verify` reports.
    """

    def __init__(self, rows: pa.Table) -> None:
        rows = rows.combine_chunks()
        self._columns = {name: _single(rows.column(name)) for name in METADATA_COLUMNS}
        self._descriptors = _single(rows.column(PAYLOAD_COLUMN))
        self._addresses = rows.column("_rowaddr").to_numpy()
        self._positions: dict[str, int] = {}
        for position, clip_id in enumerate(self._columns["clip_id"].to_pylist()):
            self._positions.setdefault(clip_id, position)

    def __len__(self) -> int:
        return len(self._positions)

    def find(self, clip_id: str) -> StoredRow | None:
        """The row of a clip."""
        position = self._positions.get(clip_id)
        return None if position is None else StoredRow(self, position)

    def value(self, name: str, position: int) -> Any:
        """A value as a Python object; lists as read-only numpy arrays over the table's memory."""
        column = self._columns[name]
        if pa.types.is_list(column.type):
            return column[position].values.to_numpy()
        return column[position].as_py()

    def descriptor(self, position: int) -> dict[str, Any]:
        """Lance's place of the payload: kind, position, size, blob_id."""
        found: dict[str, Any] = self._descriptors[position].as_py()
        return found

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
    """

    def __init__(self, table: LanceDataset, *, is_local: bool) -> None:
        self.table = table
        self.version: int = table.version
        self.is_local = is_local
        self.aliases: dict[str, str] = {}
        self._index: RowIndex | None = None
        self._found: dict[str, RowIndex] = {}
        self._folders: dict[int, str | None] = {}

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

    def get(self, clip_id: str, *, indices: Sequence[int] | None = None, verify: bool = False) -> Clip:
        """The clip of a row, or the frames at `indices` of it; only the bytes of these are read.

        Args:
            indices: positions 0 to T - 1 in the stored clip, in any order, repeats allowed.
            verify: check the whole payload against its sha256 first.

        Raises:
            MissingClip: no such row. StoreError: an index out of range, or a damaged payload.
        """
        row = self.row(clip_id)
        wanted = None if indices is None else _checked(indices, row["num_frames"], clip_id)
        payload = self.payload(row, whole=verify or wanted is None)
        if verify:
            self.check(row, payload)
        try:
            frames = decode_frames(payload.read, row["codec"], row.shape, payload.size, wanted)
        except StoreError as error:
            raise StoreError(f"{row['video_path']} (clip {clip_id}): {error}") from error
        return clip_from_row(row, frames, wanted)

    def check(self, row: StoredRow, payload: Payload | None = None) -> None:
        """Raises StoreError where a payload does not have the sha256 of its row."""
        payload = payload or self.payload(row, whole=True)
        (whole,) = payload.read([(0, payload.size)])
        if hashlib.sha256(whole).hexdigest() != row["sha256"]:
            raise StoreError(
                f"{row['video_path']} (clip {row['clip_id']}): the payload differs from its sha256: "
                "damaged on disk; `vrldata verify --deep --drop-damaged` removes it, then build again"
            )

    def payload(self, row: StoredRow, *, whole: bool = False, mapped: bool = True) -> Payload:
        """Access to the bytes of a row.

        Args:
            whole: all of it is going to be read: map it with its pages.
            mapped: False takes Lance's blob reads even where the file could be mapped.

        Raises:
            StoreError: the payload lies outside the dataset.
        """
        descriptor = row.index.descriptor(row.position)
        if descriptor["kind"] >= EXTERNAL_KIND:
            # a dataset from elsewhere could name any file of this machine
            raise StoreError(f"clip {row['clip_id']}: its payload lies outside the dataset: refused")
        if mapped and self.is_local and descriptor["kind"] == DEDICATED_KIND:
            view = self._map(row.address, descriptor, whole)
            if view is not None:
                return Payload(size=descriptor["size"], view=view)
        return Payload(size=descriptor["size"], table=self.table, address=row.address)

    def _map(self, address: int, descriptor: dict[str, Any], whole: bool) -> mmap.mmap | None:
        """The payload's file as a read-only map; None where it is not where this Lance version puts it."""
        fragment = address >> 32
        if fragment not in self._folders:
            self._folders[fragment] = self._payload_folder(fragment)
        folder = self._folders[fragment]
        if folder is None:
            return None
        blob_id = descriptor["blob_id"]
        # the name is internal to Lance and has changed between releases: the size tells whether it is right
        for name in (format(blob_id, "032b")[::-1], format(blob_id, "08x")):
            try:
                descriptor_of_file = os.open(f"{folder}/{name}.blob", os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                continue
            try:
                if os.fstat(descriptor_of_file).st_size != descriptor["size"]:
                    continue
                flags = mmap.MAP_SHARED | (getattr(mmap, "MAP_POPULATE", 0) if whole else 0)
                return mmap.mmap(descriptor_of_file, descriptor["size"], flags=flags, prot=mmap.PROT_READ)
            finally:
                os.close(descriptor_of_file)
        return None

    def _payload_folder(self, fragment_id: int) -> str | None:
        """Folder beside the data file that holds the payload column of a fragment."""
        fragment = self.table.get_fragment(fragment_id)
        if fragment is None:
            return None
        field_id = self.table.lance_schema.field(PAYLOAD_COLUMN).id()
        for file in fragment.data_files():
            if field_id in file.fields:
                return f"{self.table.uri}/data/{file.path.rsplit('.', 1)[0]}"
        return None

    def _read_rows(self, clip_id: str | None = None) -> pa.Table:
        from vrldata.commits import sql_text

        predicate = None if clip_id is None else f"clip_id = {sql_text(clip_id)}"
        columns = [*METADATA_COLUMNS, PAYLOAD_COLUMN]
        return self.table.to_table(columns=columns, filter=predicate, with_row_address=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """Bytes of one row: a map of its file, or Lance's reads of it.

    Attributes:
        size: bytes of the payload.
        view: the map, None where Lance reads.
    """

    size: int
    view: mmap.mmap | None = None
    table: LanceDataset | None = None
    address: int = 0

    def read(self, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        """One buffer for each (offset, length); views where the file is mapped.

        Raises:
            StoreError: the bytes cannot be read.
        """
        if self.view is not None:
            if list(ranges) == [(0, self.size)]:
                return [self.view]
            window = memoryview(self.view)
            return [window[offset : offset + length] for offset, length in ranges]
        assert self.table is not None
        from vrldata.commits import lance_message

        try:
            if list(ranges) == [(0, self.size)]:
                return [self.table.read_blobs(PAYLOAD_COLUMN, addresses=[self.address])[0][1]]
            parts = self.table.read_blob_ranges(
                PAYLOAD_COLUMN,
                [(self.address, offset, length) for offset, length in ranges],
                selector="addresses",
                preserve_order=True,
            )
        except (OSError, ValueError, RuntimeError) as error:
            raise StoreError(f"payload cannot be read: {lance_message(error)}") from error
        return [part for _, _, part in parts]


def _single(column: pa.ChunkedArray) -> pa.Array:
    """A column as one array. A descriptor column arrives as a plain struct."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return column.combine_chunks() if column.num_chunks else pa.array([], type=column.type)


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

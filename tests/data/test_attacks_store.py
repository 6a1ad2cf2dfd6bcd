"""Datasets whose rows lie: an error that names the row, never another file's bytes or a dead process."""

from __future__ import annotations

import dataclasses
import io
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
import zstandard

import vrldata
from tests.data.conftest import numbered_clip
from vrldata.codecs import MAGIC, decode_frames, parse_codec
from vrldata.frame_rows import encode_clip, put_clips
from vrldata.media_file import SourceFingerprint
from vrldata.tables import STORAGE_VERSION

SOURCE = SourceFingerprint(source_bytes=1, source_mtime_ns=1, source_digest="0" * 64)


def stored(root: Path, stored_as: str = "raw", **columns: Any) -> tuple[vrldata.Dataset, str]:
    """A dataset with one clip of 4 frames, some of whose columns are replaced."""
    dataset = vrldata.create(root)
    clip = encode_clip(numbered_clip(0), parse_codec(stored_as), SOURCE, decoder="none")
    put_clips(dataset, [dataclasses.replace(clip, columns={**clip.columns, **columns})])
    return dataset, clip.clip_id


@pytest.mark.parametrize("codec", ["raw", "zstd", "jpeg", "ffv1"])
@pytest.mark.parametrize(
    "columns",
    [
        {"height": 2**31 - 1, "width": 2**31 - 1},
        {"height": 60_000, "width": 60_000},
        {"num_frames": 2**31 - 1},
        {"num_frames": -1},
        {"height": -32},
        {"height": 0},
        {"timestamps": np.zeros(0)},
        {"frame_indices": np.zeros(5, dtype=np.int32)},
        {"codec": "pickle"},
        {"spec": "not JSON"},
        {"spec": '{"fps": 1.0, "field_of_tomorrow": 2}'},
    ],
    ids=str,
)
def test_a_row_that_lies_about_its_frames(tmp_path: Path, codec: str, columns: dict[str, Any]) -> None:
    dataset, clip_id = stored(tmp_path / "clips", codec, **columns)
    for indices in (None, [0]):
        with pytest.raises(vrldata.StoreError):
            dataset.clip_by_id(clip_id, indices=indices)
    assert {problem.key for problem in dataset.verify(deep=True).problems} == {clip_id}
    assert dataset.info()["tables"]["frames"]["rows"] == 1


def test_a_payload_outside_the_dataset_is_refused(tmp_path: Path) -> None:
    secret = tmp_path / "secret.bin"
    secret.write_bytes(bytes(4 * 32 * 32 * 3))
    dataset, clip_id = stored(tmp_path / "clips")
    path = dataset.table_path("frames")
    # what a dataset from elsewhere could hold: the same row, its payload the address of another file
    table = lance.dataset(path)
    rows = table.to_table(columns=[name for name in table.schema.names if name != "frames"])
    blob = lance.blob_array([lance.Blob(uri=secret.as_uri())])
    place = table.schema.get_field_index("frames")
    hostile = rows.add_column(place, pa.field("frames", blob.type), blob)
    lance.write_dataset(
        hostile,
        path,
        mode="overwrite",
        data_storage_version=STORAGE_VERSION,
        allow_external_blob_outside_bases=True,
    )
    opened = vrldata.open(tmp_path / "clips")
    with pytest.raises(vrldata.StoreError, match="outside the dataset"):
        opened.clip_by_id(clip_id)
    assert [problem.key for problem in opened.verify(deep=True).problems if problem.damaged] == [clip_id]


def one_chunk(chunk: bytes) -> bytes:
    start = len(MAGIC) + 8 + 16
    return MAGIC + struct.pack("<QQQ", 1, start, start + len(chunk)) + chunk


def unpack(payload: bytes, codec: str) -> np.ndarray:
    def read(ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        return [payload[offset : offset + length] for offset, length in ranges]

    return decode_frames(read, codec, (1, 32, 32, 3), len(payload))


def test_a_zstd_bomb_is_not_unpacked() -> None:
    bomb = zstandard.ZstdCompressor(level=19).compress(bytes(1 << 26))
    assert len(bomb) < 1 << 14
    with pytest.raises(vrldata.StoreError, match="more than the 3072 bytes expected"):
        unpack(one_chunk(bomb), "zstd")


def test_a_jpeg_that_claims_to_be_huge_is_not_unpacked() -> None:
    from PIL import Image

    buffer = io.BytesIO()
    Image.new("RGB", (32, 32)).save(buffer, "JPEG")
    picture = bytearray(buffer.getvalue())
    marker = picture.index(b"\xff\xc0")
    picture[marker + 5 : marker + 9] = struct.pack(">HH", 65_000, 65_000)
    with pytest.raises(vrldata.StoreError, match="JPEG frame"):
        unpack(one_chunk(bytes(picture)), "jpeg")

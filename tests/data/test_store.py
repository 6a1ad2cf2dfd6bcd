"""The frame store: both routes to a payload, subsets, integrity, and commits of batches."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import vrldata
from tests.data.conftest import numbered_clip
from vrldata.codecs import CODECS, parse_codec
from vrldata.frame_rows import EncodedClip, encode_clip, put_clips
from vrldata.media_file import SourceFingerprint
from vrldata.payload import DEDICATED_KIND, PayloadFiles
from vrldata.store import FrameStore
from vrldata.types import Clip

LARGE = 320
"""Side of frames whose raw payload is stored in a file of its own (4 x 320 x 320 x 3 bytes)."""


def packed(clip: Clip, codec: str = "raw", digest: str = "d") -> EncodedClip:
    source = SourceFingerprint(source_bytes=1, source_mtime_ns=1, source_digest=digest)
    return encode_clip(clip, parse_codec(codec), source, decoder="test")


def textured(number: int, *, size: int = LARGE, num_frames: int = 4) -> Clip:
    clip = numbered_clip(number, num_frames=num_frames, size=size)
    frames = np.random.default_rng(number).integers(0, 256, clip.frames.shape, dtype=np.uint8)
    return dataclasses.replace(clip, frames=frames)


@pytest.fixture
def dataset(tmp_path: Path) -> vrldata.Dataset:
    return vrldata.create(tmp_path / "clips")


def test_a_large_raw_clip_is_mapped_and_both_routes_are_equal(dataset: vrldata.Dataset) -> None:
    clip = textured(1)
    put_clips(dataset, [packed(clip)])
    store = dataset.frame_store()
    row = store.row(clip.clip_id)
    assert row.index.descriptor(row.position)["kind"] == DEDICATED_KIND
    mapped, read = store.payload(row, whole=True), store.payload(row, as_file=False)
    # where this fails a new Lance names its files in another way, and every read is a copy: add the new form
    assert mapped.view is not None
    assert read.view is None
    (from_map,), (from_lance,) = mapped.read([(0, mapped.size)]), read.read([(0, read.size)])
    assert bytes(from_map) == bytes(from_lance) == clip.frames.tobytes()
    ranges = [(0, 10), (mapped.size - 7, 7), (1000, 5000)]
    assert [bytes(part) for part in mapped.read(ranges)] == [bytes(part) for part in read.read(ranges)]


def test_the_mapped_frames_are_not_a_copy(dataset: vrldata.Dataset) -> None:
    clip = textured(1)
    put_clips(dataset, [packed(clip)])
    found = dataset.clip_by_id(clip.clip_id)
    assert np.array_equal(found.frames, clip.frames)
    assert not found.frames.flags.owndata
    assert not found.frames.flags.writeable


def test_where_the_file_cannot_be_found_lance_reads_it(
    dataset: vrldata.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    clip = textured(1)
    put_clips(dataset, [packed(clip)])
    monkeypatch.setattr(PayloadFiles, "_folder", lambda self, fragment: "/nowhere")
    assert np.array_equal(dataset.clip_by_id(clip.clip_id).frames, clip.frames)
    assert np.array_equal(dataset.clip_by_id(clip.clip_id, indices=[2]).frames, clip.frames[[2]])


@pytest.mark.parametrize("size", [16, 64, 200, LARGE])
@pytest.mark.parametrize("codec", list(CODECS))
def test_clips_of_every_size_and_codec_come_back(dataset: vrldata.Dataset, codec: str, size: int) -> None:
    clip = textured(2, size=size)
    put_clips(dataset, [packed(clip, codec)])
    found = dataset.clip_by_id(clip.clip_id)
    assert found.frames.shape == clip.frames.shape
    assert np.array_equal(found.frames, clip.frames) or not CODECS[codec].lossless
    assert np.array_equal(dataset.clip_by_id(clip.clip_id, indices=[3, 0]).frames, found.frames[[3, 0]])
    assert found.spec.codec.split(":")[0] == codec


@pytest.mark.parametrize("size", [64, LARGE])
@pytest.mark.parametrize("codec", list(CODECS))
def test_frames_go_to_the_buffer_that_is_given(dataset: vrldata.Dataset, codec: str, size: int) -> None:
    clip = textured(2, size=size)
    put_clips(dataset, [packed(clip, codec)])
    store, buffer = dataset.frame_store(), np.zeros(clip.frames.size + 7, dtype=np.uint8)
    for indices in (None, [2, 3], [3, 0, 3]):
        expected = store.get(clip.clip_id, indices=indices)
        found = store.get(clip.clip_id, indices=indices, out=buffer)
        assert np.array_equal(found.frames, expected.frames)
        assert np.shares_memory(found.frames, buffer)
        assert not found.frames.flags.writeable
        assert found.metadata.frame_indices.tolist() == expected.metadata.frame_indices.tolist()


@pytest.mark.parametrize(
    "out",
    [np.zeros(10, np.uint8), np.zeros(1 << 24, np.float32), np.zeros((1 << 12, 1 << 12), np.uint8)[:, ::2]],
)
def test_a_buffer_that_does_not_fit_is_an_error(dataset: vrldata.Dataset, out: np.ndarray) -> None:
    clip = textured(1)
    put_clips(dataset, [packed(clip)])
    with pytest.raises(vrldata.StoreError, match="contiguous uint8 array of"):
        dataset.clip_by_id(clip.clip_id, out=out)


def test_metadata_comes_back_and_follows_a_subset(dataset: vrldata.Dataset) -> None:
    clip = numbered_clip(5, num_frames=6)
    put_clips(dataset, [packed(clip)])
    found = dataset.clip_by_id(clip.clip_id)
    for name in ("fps", "duration", "total_num_frames", "source_width", "source_height", "sampled_fps"):
        assert getattr(found.metadata, name) == getattr(clip.metadata, name)
    assert found.metadata.frame_indices.tolist() == clip.metadata.frame_indices.tolist()
    assert found.metadata.frame_indices.dtype == np.int32
    some = dataset.clip_by_id(clip.clip_id, indices=[4, 1])
    assert some.metadata.timestamps.tolist() == clip.metadata.timestamps[[4, 1]].tolist()


@pytest.mark.parametrize("indices", [[4], [-1], [0, 99]])
def test_an_index_out_of_range_is_an_error(dataset: vrldata.Dataset, indices: list[int]) -> None:
    clip = numbered_clip(1)
    put_clips(dataset, [packed(clip)])
    with pytest.raises(vrldata.StoreError, match="frames 0 to 3"):
        dataset.clip_by_id(clip.clip_id, indices=indices)


def test_verify_notices_a_changed_byte(dataset: vrldata.Dataset) -> None:
    clip = textured(1)
    put_clips(dataset, [packed(clip)])
    (file,) = Path(dataset.root).rglob("*.blob")
    content = bytearray(file.read_bytes())
    content[5000] ^= 1
    file.write_bytes(content)
    with pytest.raises(vrldata.StoreError, match="differs from its sha256"):
        dataset.frame_store().get(clip.clip_id, verify=True)


def test_a_lookup_without_the_index_in_memory_gives_the_same(
    clips: vrldata.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vrldata.store.INDEX_ROWS", 3)
    store = FrameStore(clips.lance("frames"), is_local=True)
    wanted = [numbered_clip(number) for number in (0, 7, 19, 7, 3, 0)]
    for clip in wanted:
        assert np.array_equal(store.get(clip.clip_id).frames, clip.frames)
    assert "0" * 64 not in store


def test_duplicates_within_one_batch_are_stored_once(dataset: vrldata.Dataset) -> None:
    clip = numbered_clip(1)
    result = put_clips(dataset, [packed(clip), packed(numbered_clip(2)), packed(clip)])
    assert result.inserted == 2
    assert dataset.frames.count() == 2


def test_a_clip_that_is_there_is_left_alone(dataset: vrldata.Dataset) -> None:
    clip = numbered_clip(1)
    put_clips(dataset, [packed(clip)])
    again = put_clips(dataset, [packed(clip), packed(numbered_clip(2))])
    assert (again.inserted, again.updated) == (1, 0)


def test_other_content_under_the_same_key_replaces_the_row(dataset: vrldata.Dataset) -> None:
    old, new = textured(1), dataclasses.replace(textured(2), video_path=textured(1).video_path)
    put_clips(dataset, [packed(old, digest="old")])
    reader = vrldata.open(dataset.root)
    assert np.array_equal(reader.clip_by_id(old.clip_id).frames, old.frames)
    result = put_clips(dataset, [packed(new, digest="new")])
    assert (result.inserted, result.updated) == (0, 1)
    assert dataset.frames.count() == 1
    assert np.array_equal(reader.clip_by_id(old.clip_id).frames, new.frames)


def test_a_missing_clip_is_a_missing_clip(dataset: vrldata.Dataset) -> None:
    with pytest.raises(vrldata.MissingClip):
        dataset.clip_by_id("0" * 64)
    with pytest.raises(KeyError):
        dataset.clip_by_id("0" * 64)


WRITER = """
import sys
import vrldata
from tests.data.test_store import numbered_clip, packed
from vrldata.frame_rows import put_clips

dataset = vrldata.open(sys.argv[1])
for number in range(15):
    put_clips(dataset, [packed(numbered_clip(number)), packed(numbered_clip(number + 1))])
"""


@pytest.mark.parametrize("indexed", [False, True])
def test_four_writers_of_the_same_clips_store_each_once(dataset: vrldata.Dataset, indexed: bool) -> None:
    if indexed:
        put_clips(dataset, [packed(numbered_clip(100))])
        dataset.lance("frames").create_scalar_index("clip_id", "BTREE")
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, dataset.root]) for _ in range(4)]
    assert [writer.wait() for writer in writers] == [0, 0, 0, 0]
    ids = dataset.lance("frames").to_table(columns=["clip_id"]).column("clip_id").to_pylist()
    assert len(ids) == len(set(ids)) == 16 + indexed
    for number in range(16):
        assert np.array_equal(
            dataset.clip_by_id(numbered_clip(number).clip_id).frames, numbered_clip(number).frames
        )


def test_warnings_of_the_decoder_come_back_and_can_be_queried(dataset: vrldata.Dataset) -> None:
    warned = dataclasses.replace(numbered_clip(1), warnings=("HDR (PQ) was converted", "2 damaged packet(s)"))
    put_clips(dataset, [packed(warned), packed(numbered_clip(2))])
    assert dataset.clip_by_id(warned.clip_id).warnings == warned.warnings
    assert dataset.clip_by_id(numbered_clip(2).clip_id).warnings == ()
    rows = dataset.sql("SELECT video_path FROM frames WHERE array_length(warnings) > 0")
    assert rows.column("video_path").to_pylist() == [warned.video_path]


def test_a_table_of_an_older_version_is_read_and_gets_its_missing_columns(dataset: vrldata.Dataset) -> None:
    put_clips(dataset, [packed(numbered_clip(1))])
    dataset.open_table("frames").drop_columns(["warnings"])
    assert dataset.clip_by_id(numbered_clip(1).clip_id).warnings == ()
    put_clips(dataset, [packed(dataclasses.replace(numbered_clip(2), warnings=("cut",)))])
    assert dataset.clip_by_id(numbered_clip(2).clip_id).warnings == ("cut",)
    assert dataset.clip_by_id(numbered_clip(1).clip_id).warnings == ()

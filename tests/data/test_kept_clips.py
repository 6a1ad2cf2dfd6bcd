"""Clips that stay mapped between reads, files that stay open, and how a reader learns of newer versions."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import vrldata
from tests.data.test_store import packed, textured
from vrldata import freshness
from vrldata.frame_rows import put_clips
from vrldata.kept_clips import KEPT_CLIPS


@pytest.fixture
def dataset(tmp_path: Path) -> vrldata.Dataset:
    return vrldata.create(tmp_path / "clips")


def payload_files(dataset: vrldata.Dataset) -> list[Path]:
    return sorted(Path(dataset.root).rglob("*.blob"))


def test_a_raw_clip_read_again_is_the_same_map(dataset: vrldata.Dataset) -> None:
    clip = textured(1)
    put_clips(dataset, [packed(clip)])
    first = dataset.clip_by_id(clip.clip_id)
    assert dataset.clip_by_id(clip.clip_id) is first
    np.testing.assert_array_equal(first.frames, clip.frames)


def test_frames_of_other_codecs_are_not_kept(dataset: vrldata.Dataset) -> None:
    clip = textured(1)
    put_clips(dataset, [packed(clip, "zstd")])
    assert dataset.clip_by_id(clip.clip_id) is not dataset.clip_by_id(clip.clip_id)


def test_subsets_and_buffers_are_not_answered_by_what_is_kept(dataset: vrldata.Dataset) -> None:
    clip = textured(1)
    put_clips(dataset, [packed(clip)])
    dataset.clip_by_id(clip.clip_id)
    some = dataset.clip_by_id(clip.clip_id, indices=[2, 0])
    np.testing.assert_array_equal(some.frames, clip.frames[[2, 0]])
    buffer = np.zeros_like(clip.frames)
    assert np.shares_memory(dataset.clip_by_id(clip.clip_id, out=buffer).frames, buffer)
    np.testing.assert_array_equal(dataset.clip_by_id(clip.clip_id).frames, clip.frames)


def test_those_not_read_for_longest_make_room(dataset: vrldata.Dataset) -> None:
    clips = [textured(number) for number in range(3)]
    put_clips(dataset, [packed(clip) for clip in clips])
    store = dataset.frame_store()
    store.kept.limit = 2 * clips[0].frames.nbytes
    first, second = (store.get(clip.clip_id) for clip in clips[:2])
    assert store.get(clips[0].clip_id) is first
    store.get(clips[2].clip_id)
    assert store.get(clips[0].clip_id) is first
    assert store.get(clips[1].clip_id) is not second


def test_no_more_files_stay_open_than_the_limit(dataset: vrldata.Dataset) -> None:
    clips = [textured(number) for number in range(KEPT_CLIPS + 20)]
    put_clips(dataset, [packed(clip) for clip in clips])
    before = len(os.listdir("/proc/self/fd"))
    for clip in clips:
        dataset.clip_by_id(clip.clip_id)
    gc.collect()
    # the folder of versions is one more
    assert len(os.listdir("/proc/self/fd")) <= before + KEPT_CLIPS + 1


def test_a_file_cut_short_is_an_error_and_no_crash(dataset: vrldata.Dataset) -> None:
    clip = textured(1)
    put_clips(dataset, [packed(clip)])
    dataset.clip_by_id(clip.clip_id)
    (file,) = payload_files(dataset)
    os.truncate(file, 100)
    with pytest.raises(vrldata.StoreError, match=clip.video_path):
        dataset.clip_by_id(clip.clip_id)


def test_verify_reads_the_file_and_not_what_is_kept(dataset: vrldata.Dataset) -> None:
    clip = textured(1)
    put_clips(dataset, [packed(clip)])
    store = dataset.frame_store()
    store.get(clip.clip_id)
    (file,) = payload_files(dataset)
    with file.open("r+b") as stream:
        stream.write(bytes([clip.frames.reshape(-1)[0] ^ 1]))
    with pytest.raises(vrldata.StoreError, match="sha256"):
        store.get(clip.clip_id, verify=True)


def test_other_content_under_the_key_is_read_at_once(dataset: vrldata.Dataset) -> None:
    old = textured(1)
    put_clips(dataset, [packed(old)])
    dataset.clip_by_id(old.clip_id)
    new = textured(2)
    object.__setattr__(new, "video_path", old.video_path)
    put_clips(vrldata.open(dataset.root), [packed(new, digest="e")])
    np.testing.assert_array_equal(dataset.clip_by_id(old.clip_id).frames, new.frames)


def test_a_commit_is_seen_by_the_next_read_though_the_folder_was_believed(
    dataset: vrldata.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    clips = [textured(number) for number in range(4)]
    put_clips(dataset, [packed(clips[0])])
    writer = vrldata.open(dataset.root)
    monkeypatch.setattr(freshness, "TRUST_NS", 50_000_000)
    for clip in clips[1:]:
        # long enough for the reader to take the folder as it is
        time.sleep(0.1)
        assert clip.clip_id not in dataset.frame_store()
        assert clip.clip_id not in dataset.frame_store()
        put_clips(writer, [packed(clip)])
        assert clip.clip_id in dataset.frame_store()


def test_a_folder_without_times_is_believed_for_a_moment_only(
    dataset: vrldata.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    clip = textured(1)
    monkeypatch.setattr(freshness, "TRUST_NS", 100_000_000)
    versions = Path(dataset.root) / "data" / "frames.lance" / "_versions"
    os.utime(versions, ns=(0, 0))
    assert clip.clip_id not in dataset.frame_store()
    put_clips(vrldata.open(dataset.root), [packed(clip)])
    os.utime(versions, ns=(0, 0))
    # longer than the folder is believed
    time.sleep(0.15)
    assert clip.clip_id in dataset.frame_store()


READER = """
import os, resource, sys
import vrldata
dataset = vrldata.open(sys.argv[1])
ids = [row["clip_id"] for row in dataset.frames.to_table(columns=["clip_id"]).to_pylist()]
dataset.clip_by_id(ids[0])
limit = len(os.listdir("/proc/self/fd")) + 10
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
print(len({int(dataset.clip_by_id(clip_id).frames.sum()) for clip_id in ids}))
"""


def test_clips_that_are_kept_make_room_where_no_file_can_be_opened(dataset: vrldata.Dataset) -> None:
    put_clips(dataset, [packed(textured(number)) for number in range(24)])
    command = [sys.executable, "-c", READER, str(dataset.root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "24\n", done.stderr


HOLDER = """
import resource, sys
import vrldata
root, soft, hard = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
dataset = vrldata.open(root)
ids = [row["clip_id"] for row in dataset.frames.to_table(columns=["clip_id"]).to_pylist()]
dataset.clip_by_id(ids[0])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
try:
    held = [dataset.clip_by_id(clip_id) for clip_id in ids]
    print(len({int(clip.frames.sum()) for clip in held}))
except vrldata.StoreError as error:
    print(error)
"""


@pytest.mark.parametrize(("hard", "expected"), [(4096, "120"), (60, "raise `ulimit -n`")])
def test_many_clips_can_be_held_under_a_low_limit_of_open_files(
    dataset: vrldata.Dataset, hard: int, expected: str
) -> None:
    put_clips(dataset, [packed(textured(number)) for number in range(120)])
    command = [sys.executable, "-c", HOLDER, str(dataset.root), "60", str(hard)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert expected in done.stdout, done.stderr


def test_threads_that_look_at_once_close_no_file_of_each_other(
    dataset: vrldata.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    clips = [textured(number) for number in range(4)]
    put_clips(dataset, [packed(clip) for clip in clips])
    # every look is a full one, and replaces the folder that another thread may be using
    monkeypatch.setattr(freshness, "TRUST_NS", 1)
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda n: dataset.clip_by_id(clips[n % 4].clip_id), range(2000)))
    assert all(np.array_equal(clip.frames, clips[n % 4].frames) for n, clip in enumerate(found[:40]))

"""Inserts into `frames` by several writers: appended where keys are new, merged elsewhere, never twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import vrldata
from tests.data.conftest import numbered_clip
from tests.data.test_store import packed, textured
from vrldata import appending
from vrldata.frame_rows import put_clips

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="appends need the locks of Linux")


@pytest.fixture
def dataset(tmp_path: Path) -> vrldata.Dataset:
    return vrldata.create(tmp_path / "clips")


def operations(dataset: vrldata.Dataset) -> list[str]:
    """What each commit to `frames` was, oldest first; the first made the table."""
    table = dataset.lance("frames")
    found = [table.read_transaction(version) for version in range(2, table.version + 1)]
    return [type(one.operation).__name__ for one in found if one is not None]


def stored_ids(dataset: vrldata.Dataset) -> list[str]:
    rows = dataset.frames.to_table(columns=["clip_id"])
    return sorted(rows.column("clip_id").to_pylist())


def test_new_rows_are_appended_and_known_ones_merged(dataset: vrldata.Dataset) -> None:
    first, second = numbered_clip(1), numbered_clip(2)
    assert put_clips(dataset, [packed(first)]).inserted == 1
    result = put_clips(dataset, [packed(first), packed(second)])
    assert (result.inserted, result.updated) == (1, 0)
    assert operations(dataset) == ["Append", "Update"]
    assert stored_ids(dataset) == sorted([first.clip_id, second.clip_id])


def test_rows_of_one_key_in_one_batch_are_appended_once(dataset: vrldata.Dataset) -> None:
    assert put_clips(dataset, [packed(numbered_clip(1)), packed(numbered_clip(1), digest="e")]).inserted == 1
    assert len(stored_ids(dataset)) == 1


def test_other_content_still_replaces_its_row(dataset: vrldata.Dataset) -> None:
    old, new = textured(1), textured(2)
    object.__setattr__(new, "video_path", old.video_path)
    put_clips(dataset, [packed(old)])
    assert put_clips(dataset, [packed(new, digest="e")]).updated == 1
    np.testing.assert_array_equal(dataset.clip_by_id(old.clip_id).frames, new.frames)


def test_where_no_lock_can_tell_rows_are_merged(
    dataset: vrldata.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appending, "LOCAL_FILE_SYSTEMS", frozenset())
    put_clips(dataset, [packed(numbered_clip(1))])
    assert operations(dataset) == ["Update"]


def test_threads_of_one_process_store_each_clip_once(dataset: vrldata.Dataset) -> None:
    def write() -> None:
        own = vrldata.open(dataset.root)
        for number in range(12):
            put_clips(own, [packed(numbered_clip(number)), packed(numbered_clip(number + 1))])

    writers = [threading.Thread(target=write) for _ in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(stored_ids(dataset)) == len(set(stored_ids(dataset))) == 13


MOUNTS = r"""
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 27 0:40 / /data rw,relatime shared:5 - nfs4 server:/export rw
31 30 0:41 / /data/local\040disk rw - xfs /dev/sdb rw
32 27 0:42 / /scratch rw - tmpfs tmpfs rw
33 27 0:43 / /scratch rw - lustre mgs:/scratch rw
""".strip()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/home/a/clips", "ext4"),
        ("/data/clips", "nfs4"),
        ("/database/clips", "ext4"),
        ("/data/local disk/clips", "xfs"),
        ("/scratch", "lustre"),
    ],
)
def test_the_file_system_is_that_of_the_innermost_mount(path: str, expected: str) -> None:
    assert appending.file_system_of(path, MOUNTS) == expected


def test_without_a_mount_the_file_system_is_unknown() -> None:
    assert appending.file_system_of("/clips", "") == ""


HOLDER = """
import os, sys, time
import vrldata
from vrldata.appending import sole_writer
with sole_writer(vrldata.open(sys.argv[1]), "frames") as alone:
    child = os.fork() if sys.argv[2] == "fork" else -1
    if child == 0:
        time.sleep(600)
        os._exit(0)
    print(alone, flush=True)
    sys.stdin.readline()
print(child, flush=True)
sys.stdin.readline()
"""


@contextmanager
def holder(dataset: vrldata.Dataset, how: str = "") -> Iterator[subprocess.Popen[str]]:
    """Another process that inserts into `frames`, and stays in the middle of it."""
    command = [sys.executable, "-c", HOLDER, str(dataset.root), how]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "True\n"
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_an_insert_waits_for_that_of_another_process_and_not_for_a_killed_one(
    dataset: vrldata.Dataset,
) -> None:
    own = vrldata.open(dataset.root)
    writer = threading.Thread(target=lambda: put_clips(own, [packed(numbered_clip(1))]))
    with holder(dataset) as other:
        writer.start()
        writer.join(0.5)
        assert writer.is_alive()
        assert stored_ids(dataset) == []
        other.kill()
        writer.join()
    assert len(stored_ids(dataset)) == 1


def test_a_fork_of_a_writer_does_not_keep_its_lock(dataset: vrldata.Dataset) -> None:
    with holder(dataset, "fork") as other:
        assert other.stdin is not None
        assert other.stdout is not None
        other.stdin.write("\n")
        other.stdin.flush()
        child = int(other.stdout.readline())
        put_clips(dataset, [packed(numbered_clip(1))])
        assert len(stored_ids(dataset)) == 1
        os.kill(child, 0)

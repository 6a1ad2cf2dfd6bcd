"""Verify, compact and gc: damage is found, space comes back, releases and readers keep what they need."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

import vrldata
from tests.data.conftest import numbered_clip
from tests.data.test_store import packed, textured
from vrldata.commits import merge_rows, writable
from vrldata.errors import ConfigError
from vrldata.frame_rows import put_clips
from vrldata.summary import folder_bytes
from vrldata.tables import rows_to_table, sample_to_row
from vrldata.types import Sample, Trajectory
from vrldata.verification import verify

MakeDataset = Callable[..., vrldata.Dataset]
NOW = timedelta(0)


@pytest.fixture
def dataset(tmp_path: Path, make_dataset: MakeDataset) -> vrldata.Dataset:
    return make_dataset(tmp_path / "clips", 6)


def problems(dataset: vrldata.Dataset, *, deep: bool = False) -> list[str]:
    return [f"{found.table}: {found.text}" for found in dataset.verify(deep).problems]


def test_a_sound_dataset_has_no_problems(dataset: vrldata.Dataset) -> None:
    report = dataset.verify(deep=True)
    assert report.ok
    assert report.rows["frames"] == 8
    assert report.payload_bytes == dataset.info()["payload_bytes"]


def test_a_damaged_payload_is_found_dropped_and_built_again(dataset: vrldata.Dataset) -> None:
    clip = textured(50)
    put_clips(dataset, [packed(clip)])
    merge_rows(
        dataset,
        "samples",
        [
            sample_to_row(
                Sample(
                    sample_id="hurt",
                    problem="?",
                    answer="1",
                    problem_type="numerical",
                    videos=(clip.video_path,),
                    clip_ids=(clip.clip_id,),
                )
            )
        ],
    )
    (file,) = Path(dataset.root).rglob("*.blob")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0x10
    file.write_bytes(content)
    assert dataset.verify().ok
    assert ["sha256" in text for text in problems(dataset, deep=True)] == [True]
    assert dataset.verify(deep=True, drop_damaged=True).dropped == (clip.clip_id,)
    assert dataset.verify(deep=True).ok
    assert dataset.sample("hurt").clip_ids == ()
    put_clips(dataset, [packed(clip)])
    assert np.array_equal(dataset.clip_by_id(clip.clip_id).frames, clip.frames)


def test_a_payload_that_is_gone_is_found_without_reading_all(dataset: vrldata.Dataset) -> None:
    put_clips(dataset, [packed(textured(50))])
    (file,) = Path(dataset.root).rglob("*.blob")
    file.unlink()
    assert len(problems(dataset)) == 1


def test_rows_that_share_a_key_are_found(dataset: vrldata.Dataset) -> None:
    row = rows_to_table("samples", [sample_to_row(dataset.sample("s1"))])
    writable(dataset, "samples").insert(row)
    assert problems(dataset) == ["samples: 2 rows share this key"]


def test_references_to_rows_that_are_not_there_are_found(dataset: vrldata.Dataset) -> None:
    lost = dataclasses.replace(dataset.sample("s1"), clip_ids=("f" * 64,))
    merge_rows(dataset, "samples", [sample_to_row(lost)], update=True)
    stray = Trajectory(trajectory_id="t", sample_id="nobody", response="", source="offline")
    dataset.add_trajectories([stray])
    assert [text.split(":")[0] for text in problems(dataset)] == ["samples"]
    assert dataset.verify().trajectories_without_samples == 1


def test_columns_that_contradict_each_other_are_found(dataset: vrldata.Dataset) -> None:
    clip = packed(numbered_clip(60))
    wrong = dataclasses.replace(
        clip, columns={**clip.columns, "clip_id": "e" * 64, "timestamps": np.zeros(3)}
    )
    put_clips(dataset, [wrong])
    found = problems(dataset)
    assert any("does not follow from video_path and spec" in text for text in found)
    assert any("timestamps has 3 values for 4 frames" in text for text in found)


def test_a_changed_source_is_found(tmp_path: Path, make_dataset: MakeDataset) -> None:
    from tests.data.synthetic_video import write_video

    write_video(tmp_path / "a.mp4", 40)
    dataset = vrldata.create(tmp_path / "clips")
    row = {"problem": "?", "answer": "1", "problem_type": "numerical", "videos": ["a.mp4"]}
    dataset.build([row], video_root=tmp_path, workers=0)
    assert dataset.verify(deep=True, video_root=tmp_path).ok
    content = bytearray((tmp_path / "a.mp4").read_bytes())
    content[-1] ^= 1
    (tmp_path / "a.mp4").write_bytes(content)
    assert dataset.verify(video_root=tmp_path).ok
    (found,) = dataset.verify(deep=True, video_root=tmp_path).problems
    assert "source has changed" in found.text
    (tmp_path / "a.mp4").unlink()
    report = dataset.verify(deep=True, video_root=tmp_path)
    assert (report.ok, report.sources_missing) == (True, 1)
    with pytest.raises(ConfigError, match="nowhere: no such folder"):
        dataset.verify(video_root=tmp_path / "nowhere")


def test_compaction_keeps_rows_releases_and_pixels(dataset: vrldata.Dataset) -> None:
    put_clips(dataset, [packed(textured(50))])
    for number in range(5):
        dataset.add_trajectories(
            [Trajectory(trajectory_id=f"t{number}", sample_id="s0", response="r", source="offline")]
        )
        put_clips(dataset, [packed(numbered_clip(70 + number)), packed(textured(80 + number), "zstd")])
    dataset.create_release("v1")
    before = {clip_id: dataset.clip_by_id(clip_id).frames.copy() for clip_id in ids(dataset)}
    report = dataset.compact(frames=True)
    assert report.files_after["frames"] == report.files_after["trajectories"] == 1
    assert report.files_before["frames"] > 1
    for opened in (dataset, vrldata.open(f"{dataset.root}@v1")):
        assert sorted(ids(opened)) == sorted(before)
        for clip_id, frames in before.items():
            assert np.array_equal(opened.clip_by_id(clip_id).frames, frames)
        assert opened.verify(deep=True).ok


def ids(dataset: vrldata.Dataset) -> list[str]:
    found: list[str] = dataset.lance("frames").to_table(columns=["clip_id"]).column(0).to_pylist()
    return found


def damaged_among_others(root: Path) -> vrldata.Dataset:
    """A dataset of six large clips in as many files, one of them damaged on disk."""
    made = vrldata.create(root)
    for number in range(6):
        put_clips(made, [packed(textured(number))])
    file = sorted(Path(made.root).rglob("*.blob"))[0]
    with file.open("r+b") as stream:
        first = stream.read(1)
        stream.seek(0)
        stream.write(bytes([first[0] ^ 1]))
    return made


def test_a_compaction_with_a_damaged_payload_is_undone(tmp_path: Path) -> None:
    made = damaged_among_others(tmp_path / "own")
    with pytest.raises(vrldata.StoreError, match=r"undone; 1 rows are damaged"):
        made.compact(frames=True)
    assert made.frames.count() == 6
    assert len(made.open_table("frames").get_fragments()) == 6


def test_a_compaction_is_not_undone_over_what_others_wrote_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = damaged_among_others(tmp_path / "own")
    late = textured(50)

    def verify_while_another_writes(*arguments: object, **options: object) -> object:
        put_clips(vrldata.open(made.root), [packed(late)])
        return verify(made, deep=True)

    monkeypatch.setattr("vrldata.maintenance.verify", verify_while_another_writes)
    with pytest.raises(vrldata.StoreError, match="others have written since"):
        made.compact(frames=True)
    assert made.frames.count() == 7
    np.testing.assert_array_equal(made.clip_by_id(late.clip_id).frames, late.frames)


def test_frames_are_compacted_on_request_only(dataset: vrldata.Dataset) -> None:
    before = dataset.lance("frames").version
    dataset.compact()
    assert dataset.lance("frames").version == before


def test_gc_frees_what_no_release_needs(dataset: vrldata.Dataset) -> None:
    old, new = textured(1), dataclasses.replace(textured(2), video_path=textured(1).video_path)
    other = dataclasses.replace(textured(3), video_path="other.mp4")
    put_clips(dataset, [packed(old, digest="old"), packed(other, digest="other")])
    dataset.create_release("v1")
    put_clips(dataset, [packed(new, digest="new")])
    changed = dataclasses.replace(textured(4), video_path="other.mp4")
    put_clips(dataset, [packed(changed, digest="changed")])
    put_clips(dataset, [packed(dataclasses.replace(textured(5), video_path="other.mp4"), digest="again")])
    size = folder_bytes(Path(dataset.root))
    report = dataset.gc(older_than=NOW)
    freed = size - folder_bytes(Path(dataset.root))
    # the version of other.mp4 between the release and the newest state is nobody's any more
    assert freed > changed.frames.nbytes
    assert report.bytes["frames"] > changed.frames.nbytes
    pinned = vrldata.open(f"{dataset.root}@v1")
    assert np.array_equal(pinned.clip_by_id(old.clip_id).frames, old.frames)
    assert np.array_equal(dataset.clip_by_id(old.clip_id).frames, new.frames)
    assert pinned.verify(deep=True).ok
    assert dataset.verify(deep=True).ok


def test_gc_spares_recent_versions(dataset: vrldata.Dataset) -> None:
    dataset.add_trajectories([Trajectory(trajectory_id="t", sample_id="s0", response="r", source="offline")])
    before = len(dataset.lance("trajectories").versions())
    dataset.gc()
    assert len(dataset.lance("trajectories").versions()) == before


def test_gc_keeps_a_release_whose_tags_were_lost(dataset: vrldata.Dataset) -> None:
    dataset.create_release("v1")
    writable(dataset, "samples").tags.delete("v1")
    merge_rows(
        dataset,
        "samples",
        [sample_to_row(dataclasses.replace(dataset.sample("s0"), answer="C"))],
        update=True,
    )
    dataset.gc(older_than=NOW)
    assert vrldata.open(f"{dataset.root}@v1").sample("s0").answer == "A"
    assert dataset.sample("s0").answer == "C"


KILLED = """
import os, sys
import vrldata
from tests.data.test_store import packed, textured
import vrldata.frame_rows as rows

dataset = vrldata.open(sys.argv[1])
reader = rows.pa.RecordBatchReader
table = rows.pa.concat_tables([rows._row(packed(textured(n)), None) for n in (90, 91)])

def batches():
    yield from table.to_batches()
    os.kill(os.getpid(), 9)

import lance
lance.write_dataset(
    reader.from_batches(table.schema, batches()), dataset.table_path("frames"), mode="append"
)
"""


def test_files_of_a_killed_writer_go_on_request(dataset: vrldata.Dataset) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, dataset.root])
    assert killed.returncode == -9
    orphans = list((Path(dataset.table_path("frames")) / "data").rglob("*.blob"))
    assert orphans
    assert dataset.verify(deep=True).ok
    dataset.gc(older_than=NOW)
    assert all(orphan.exists() for orphan in orphans)
    dataset.gc(older_than=NOW, abandoned=True)
    assert not any(orphan.exists() for orphan in orphans)
    assert dataset.verify(deep=True).ok


READER = """
import sys
import vrldata

dataset = vrldata.open(sys.argv[1] + "@v1")
print("ready", flush=True)
for rounds in range(30):
    for opened in (dataset, vrldata.open(sys.argv[1] + "@v1")):
        samples = list(opened.iter_samples())
        assert len(samples) == 6 and samples[0].answer == "A"
        for sample in samples:
            for clip in opened.clips_of(sample):
                assert clip.frames[0, 0, 0, 0] == int(sample.sample_id[1:]) * 8 % 256
"""


def test_a_release_is_read_while_others_write_compact_and_collect(dataset: vrldata.Dataset) -> None:
    dataset.create_release("v1")
    reader = subprocess.Popen([sys.executable, "-c", READER, dataset.root], stdout=subprocess.PIPE, text=True)
    assert reader.stdout is not None
    assert reader.stdout.readline() == "ready\n"
    rounds = 0
    while reader.poll() is None:
        put_clips(dataset, [packed(numbered_clip(100 + rounds))])
        merge_rows(
            dataset,
            "samples",
            [sample_to_row(dataclasses.replace(dataset.sample("s0"), answer=str(rounds)))],
            update=True,
        )
        dataset.compact(frames=True)
        dataset.gc(older_than=NOW)
        rounds += 1
    assert reader.returncode == 0
    assert rounds > 1

"""The facade: opening, releases, selection by URI, lookups, and errors that say what to do."""

from __future__ import annotations

import dataclasses
import os
import pickle
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import vrldata
from tests.data.conftest import numbered_clip
from vrldata import commits
from vrldata.commits import delete_rows, maintain_indexes, merge_rows
from vrldata.errors import StoreError
from vrldata.pass_rates import pass_rates, write_pass_rates
from vrldata.tables import INDEXES, TABLES, sample_to_row
from vrldata.types import Sample, Trajectory

MakeDataset = Callable[..., vrldata.Dataset]


def response(sample_id: str, text: str = "B", **fields: object) -> Trajectory:
    values = {"trajectory_id": "", "sample_id": sample_id, "response": text, "source": "offline", **fields}
    return Trajectory(**values)  # type: ignore[arg-type]


def test_create_makes_five_empty_tables_and_is_safe_to_repeat(tmp_path: Path) -> None:
    first = vrldata.create(tmp_path / "new")
    again = vrldata.create(tmp_path / "new")
    assert [first.lance(table).count_rows() for table in TABLES] == [0] * 5
    assert [again.lance(table).version for table in TABLES] == [1] * 5


def test_a_table_that_is_missing_is_made_again(tmp_path: Path) -> None:
    dataset = vrldata.create(tmp_path / "new")
    shutil.rmtree(dataset.table_path("failures"))
    with pytest.raises(vrldata.StoreError, match="'failures' is missing"):
        dataset.open_table("failures")
    vrldata.create(tmp_path / "new")
    assert dataset.failures.count() == 0


@pytest.mark.parametrize(
    ("place", "message"),
    [("nothing", "does not exist"), ("empty", "holds no dataset"), ("made@v9", "no release")],
)
def test_opening_what_is_not_there_says_so(tmp_path: Path, place: str, message: str) -> None:
    (tmp_path / "empty").mkdir()
    vrldata.create(tmp_path / "made")
    with pytest.raises(vrldata.UriError, match=message):
        vrldata.open(str(tmp_path / place))


def test_a_release_that_is_misspelt_suggests_the_nearest(tmp_path: Path) -> None:
    vrldata.create(tmp_path / "made").create_release("v1")
    with pytest.raises(vrldata.UriError, match="Did you mean 'v1'"):
        vrldata.open(f"{tmp_path}/made@v11")


@pytest.mark.parametrize("uri", ["{root}@v1", "{root}?split=val", "hf://datasets/org/name"])
def test_a_dataset_is_made_at_a_plain_location(tmp_path: Path, uri: str) -> None:
    vrldata.create(tmp_path / "made").create_release("v1")
    with pytest.raises(vrldata.UriError):
        vrldata.create(uri.format(root=tmp_path / "made"))


def test_a_release_is_read_as_it_was(tmp_path: Path, make_dataset: MakeDataset) -> None:
    dataset = make_dataset(tmp_path / "clips", 4)
    dataset.create_release("v1")
    make_dataset(tmp_path / "clips", 8)
    delete_rows(dataset, "samples", ["s0"])
    pinned = vrldata.open(f"{tmp_path}/clips@v1")
    assert pinned.samples.count() == 4
    assert dataset.samples.count() == 7
    assert pinned.sample("s0").sample_id == "s0"
    with pytest.raises(vrldata.MissingClip):
        pinned.clip_by_id(numbered_clip(7).clip_id)
    assert pinned.releases.count() == 1


def test_a_release_cannot_be_written_to(tmp_path: Path, make_dataset: MakeDataset) -> None:
    make_dataset(tmp_path / "clips", 1).create_release("v1")
    pinned = vrldata.open(f"{tmp_path}/clips@v1")
    with pytest.raises(vrldata.StoreError, match="immutable"):
        pinned.add_trajectories([response("s0")])


def test_the_newest_state_follows_other_writers(tmp_path: Path, make_dataset: MakeDataset) -> None:
    reader = make_dataset(tmp_path / "clips", 2)
    assert reader.samples.count() == 2
    make_dataset(tmp_path / "clips", 3)
    assert reader.samples.count() == 3
    assert np.array_equal(reader.clip_by_id(numbered_clip(2).clip_id).frames, numbered_clip(2).frames)


def test_a_moved_dataset_reads_the_same(tmp_path: Path, make_dataset: MakeDataset) -> None:
    make_dataset(tmp_path / "old place", 3).create_release("v1")
    shutil.move(tmp_path / "old place", tmp_path / "new")
    moved = vrldata.open(f"{tmp_path}/new@v1")
    sample = moved.sample("s0")
    assert [clip.video_path for clip in moved.clips_of(sample)] == ["videos/0.mp4", "images/0.png"]
    assert moved.verify(deep=True).ok


def test_samples_come_in_stored_order(clips: vrldata.Dataset) -> None:
    assert [sample.sample_id for sample in clips.iter_samples()] == [f"s{number}" for number in range(20)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("split=val", ["s4", "s9", "s14", "s19"]),
        ("filter=problem_type <> 'multiple_choice'&limit=3", ["s0", "s2", "s4"]),
        ("split=val&filter=answer = 'A'", ["s4", "s14"]),
        ("limit=2", ["s0", "s1"]),
    ],
)
def test_a_uri_selects_samples(clips: vrldata.Dataset, query: str, expected: list[str]) -> None:
    dataset = vrldata.open(f"{clips.root}?{query}")
    assert [sample.sample_id for sample in dataset.iter_samples()] == expected
    assert dataset.samples.count() == len(expected)
    assert dataset.samples.to_table(columns=["sample_id"]).column(0).to_pylist() == expected


def test_arguments_narrow_what_the_uri_selects(clips: vrldata.Dataset) -> None:
    dataset = vrldata.open(f"{clips.root}?split=val&limit=3")
    found = [sample.sample_id for sample in dataset.iter_samples(filter="answer = 'B'", limit=5)]
    assert found == ["s9", "s19"]
    assert list(dataset.iter_samples(split="train")) == []


def test_a_shuffle_is_a_permutation_that_its_seed_decides(clips: vrldata.Dataset) -> None:
    def order(seed: int) -> list[str]:
        return [sample.sample_id for sample in vrldata.open(f"{clips.root}?shuffle={seed}").iter_samples()]

    assert order(1) == order(1) != order(2)
    assert sorted(order(1)) == sorted(order(2)) == sorted(f"s{number}" for number in range(20))


def test_columns_of_a_uri_are_those_of_its_tables(clips: vrldata.Dataset) -> None:
    dataset = vrldata.open(f"{clips.root}?columns=sample_id,answer")
    assert dataset.samples.to_table().column_names == ["sample_id", "answer"]


def test_tables_of_frames_come_without_pixels(clips: vrldata.Dataset) -> None:
    assert "frames" not in clips.frames.to_table(limit=1).column_names
    with pytest.raises(vrldata.FilterError, match="no column 'frames'"):
        clips.frames.to_table(columns=["frames"])


@pytest.mark.parametrize("filter", ["problem_typ = 'math'", "problem_type = ", "answer = 'A') OR (1 = 1"])
def test_a_wrong_filter_is_a_filter_error(clips: vrldata.Dataset, filter: str) -> None:
    with pytest.raises(vrldata.FilterError):
        clips.samples.to_table(filter=filter)
    with pytest.raises(vrldata.FilterError):
        list(clips.iter_samples(filter=filter))


def test_a_misspelt_column_suggests_the_nearest(clips: vrldata.Dataset) -> None:
    with pytest.raises(vrldata.FilterError, match="Did you mean 'answer'"):
        clips.samples.to_table(columns=["anser"])


def test_clips_of_a_sample_are_videos_then_images(clips: vrldata.Dataset) -> None:
    found = clips.clips_of(clips.sample("s4"))
    assert [(clip.kind, clip.video_path) for clip in found] == [
        ("video", "videos/4.mp4"),
        ("image", "images/4.png"),
    ]
    assert np.array_equal(found[0].frames, numbered_clip(4).frames)


def test_a_clip_is_found_by_path_and_spec(clips: vrldata.Dataset) -> None:
    spec = vrldata.SamplingSpec()
    assert np.array_equal(clips.clip("./videos//3.mp4", spec).frames, numbered_clip(3).frames)


CHANGES = {
    "fps": 1.0,
    "max_frames": 64,
    "max_pixels": 262144 - 1024,
    "min_frames": 6,
    "min_pixels": 5000,
    "total_pixels": 10**7,
    "frame_multiple": 1,
    "size_multiple": 28,
    "start": 0.0,
    "end": 9.0,
    "resize": "exact",
}


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(vrldata.SamplingSpec)])
def test_every_field_of_the_spec_but_the_codec_is_part_of_the_key(clips: vrldata.Dataset, field: str) -> None:
    if field == "codec":
        changed = vrldata.SamplingSpec(codec="jpeg")
        assert np.array_equal(clips.clip("videos/3.mp4", changed).frames, numbered_clip(3).frames)
        return
    # a new field needs a value here, so that it cannot stay out of the key unnoticed
    changed = dataclasses.replace(vrldata.SamplingSpec(), **{field: CHANGES[field]})
    with pytest.raises(vrldata.MissingClip, match="stored are: "):
        clips.clip("videos/3.mp4", changed)


def test_the_only_spec_need_not_be_named(tmp_path: Path, make_dataset: MakeDataset) -> None:
    clips = make_dataset(tmp_path / "clips", 4)
    clip = clips.clip("videos/3.mp4")
    assert np.array_equal(clip.frames, numbered_clip(3).frames)
    assert repr(clip).startswith("Clip('videos/3.mp4', ")
    assert "uint8" in repr(clip)
    assert "SamplingSpec(fps=2.0, max_frames=128, max_pixels=262144)" in repr(clip)
    assert len(repr(clip)) < 200
    with pytest.raises(vrldata.MissingClip, match=r"no frames of 'videos/nope.mp4'"):
        clips.clip("videos/nope.mp4")


def test_several_specs_of_a_path_are_listed_as_python_takes_them(
    tmp_path: Path, make_dataset: MakeDataset
) -> None:
    from vrldata.codecs import parse_codec
    from vrldata.frame_rows import encode_clip, put_clips
    from vrldata.media_file import SourceFingerprint

    clips = make_dataset(tmp_path / "clips", 4)
    other = vrldata.SamplingSpec(fps=1, max_frames=8, end=9.0)
    source = SourceFingerprint(source_bytes=1, source_mtime_ns=1, source_digest="3" * 64)
    clip = dataclasses.replace(numbered_clip(3), spec=other)
    put_clips(clips, [encode_clip(clip, parse_codec("raw"), source, decoder="none")])
    listed = (
        r"SamplingSpec\(fps=2.0, .* \| .*SamplingSpec\(fps=1.0, max_frames=8, max_pixels=262144, end=9.0\)"
    )
    with pytest.raises(vrldata.MissingClip, match=f"under 2 sampling specs, name one: {listed}"):
        clips.clip("videos/3.mp4")
    with pytest.raises(vrldata.MissingClip, match=f"stored are: {listed}"):
        clips.clip("videos/3.mp4", vrldata.SamplingSpec(fps=3))


def test_a_path_that_is_not_there_says_so(clips: vrldata.Dataset) -> None:
    with pytest.raises(vrldata.MissingClip, match="none for any other: run `vrldata build`"):
        clips.clip("videos/nope.mp4", vrldata.SamplingSpec())


def test_trajectories_are_added_once(tmp_path: Path) -> None:
    dataset = vrldata.create(tmp_path / "clips")
    batch = [response("s0", text) for text in ("A", "B", "B")]
    assert dataset.add_trajectories(batch) == 3
    assert dataset.add_trajectories(batch) == 0
    assert dataset.add_trajectories([*batch, response("s1")]) == 1
    assert dataset.add_trajectories([]) == 0
    assert [found.response for found in dataset.iter_trajectories()] == ["A", "B", "B", "B"]


def test_trajectories_follow_the_samples_that_a_uri_selects(
    tmp_path: Path, make_dataset: MakeDataset
) -> None:
    dataset = make_dataset(tmp_path / "clips", 10)
    dataset.add_trajectories([response(f"s{number}", reward=number / 10) for number in range(10)])
    of_val = vrldata.open(f"{dataset.root}?split=val")
    assert [found.sample_id for found in of_val.iter_trajectories()] == ["s4", "s9"]
    of_problem = vrldata.open(f"{dataset.root}?filter=problem_type <> 'multiple_choice'&limit=2")
    assert [found.sample_id for found in of_problem.iter_trajectories()] == ["s0", "s2"]
    by_reward = vrldata.open(f"{dataset.root}?filter=reward > 0.75")
    assert [found.sample_id for found in by_reward.iter_trajectories()] == ["s8", "s9"]


def test_a_dataset_travels_as_its_uri(clips: vrldata.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(clips.root).parent)
    local = vrldata.open("clips?split=val&limit=2")
    content = pickle.dumps(local)
    assert len(content) < 400
    monkeypatch.chdir("/")
    assert [sample.sample_id for sample in pickle.loads(content).iter_samples()] == ["s4", "s9"]


def test_a_fork_after_the_first_read_reads_on(clips: vrldata.Dataset) -> None:
    import signal

    clips.clip_by_id(numbered_clip(1).clip_id)
    child = os.fork()
    if not child:
        # a lock held by a thread that does not exist here would wait for ever
        signal.alarm(30)
        right = all(
            np.array_equal(clips.clip_by_id(clip.clip_id).frames, clip.frames)
            for clip in map(numbered_clip, (1, 2))
        )
        os._exit(0 if right and clips.samples.count() == 20 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert np.array_equal(clips.clip_by_id(numbered_clip(3).clip_id).frames, numbered_clip(3).frames)


def test_two_threads_read_the_same(clips: vrldata.Dataset) -> None:
    from concurrent.futures import ThreadPoolExecutor

    fresh = vrldata.open(clips.root)
    wanted = [numbered_clip(number % 20) for number in range(200)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda clip: fresh.clip_by_id(clip.clip_id).frames, wanted))
    assert all(np.array_equal(frames, clip.frames) for frames, clip in zip(found, wanted, strict=True))


def test_info_counts_what_is_there(clips: vrldata.Dataset) -> None:
    found = clips.info()
    assert found["tables"]["samples"]["rows"] == 20
    assert found["codecs"] == {"raw": 25}
    assert found["kinds"] == {"video": 20, "image": 5}
    assert found["splits"] == {"train": 16, "val": 4}
    assert found["payload_bytes"] == 25 * 32 * 32 * 3 + 20 * 3 * 32 * 32 * 3


def test_indexes_are_made_and_kept_up_where_they_pay(tmp_path: Path) -> None:
    dataset = vrldata.create(tmp_path / "clips")

    def add(first: int, last: int) -> None:
        rows = [
            sample_to_row(
                Sample(sample_id=f"s{number}", problem=f"p {number}", answer="1", problem_type="numerical")
            )
            for number in range(first, last)
        ]
        merge_rows(dataset, "samples", rows)

    add(0, 50)
    assert maintain_indexes(dataset, "samples") == []
    made = maintain_indexes(dataset, "samples", from_rows=10)
    assert made == ["sample_id", "problem_type", "split", "problem"]
    assert maintain_indexes(dataset, "samples", from_rows=10) == []
    add(50, 90)
    assert maintain_indexes(dataset, "samples", from_rows=10) == made
    assert dataset.sample("s77").problem == "p 77"
    merge_rows(dataset, "samples", [sample_to_row(dataset.sample("s77"))], update=True)
    assert dataset.samples.count() == 90


def test_responses_and_pass_rates_keep_the_indexes_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over several appends, each table's indexes cover most rows, and lookups use them."""
    monkeypatch.setattr(commits, "INDEX_FROM_ROWS", 100)
    dataset = vrldata.create(tmp_path / "clips")
    samples = [
        Sample(sample_id=f"s{number}", problem=f"p {number}", answer="1", problem_type="numerical")
        for number in range(200)
    ]
    merge_rows(dataset, "samples", [sample_to_row(one) for one in samples])
    for step in range(3):
        dataset.add_trajectories(
            dataclasses.replace(
                response(f"s{number}", reward=number / 200), run_id="r", step=step, correct=number % 2 == 0
            )
            for number in range(200)
        )
        write_pass_rates(dataset, pass_rates(dataset, ["r"]))
        for table in ("samples", "trajectories"):
            rows = dataset.lance(table).count_rows()
            indexes = {one.field_names[0]: one for one in dataset.lance(table).describe_indices()}
            assert set(indexes) == {index.column for index in INDEXES[table]}
            assert all(one.num_rows_indexed >= 0.8 * rows for one in indexes.values()), (step, table)
    assert {"sample_id", "reward", "run_id", "step"} <= set(indexes)
    plan = dataset.lance("trajectories").scanner(filter="run_id = 'r' AND step = 1").explain_plan()
    assert "ScalarIndexQuery" in plan
    assert dataset.sql("SELECT count(*) AS n FROM trajectories WHERE sample_id = 's7'")["n"].to_pylist() == [
        3
    ]


@pytest.mark.skipif(not Path("/proc/self/mountinfo").exists(), reason="needs Linux mounts")
def test_a_root_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    from tests.data.mounts import tmpfs

    with tmpfs(tmp_path / "disk", "16m") as disk:
        dataset = vrldata.create(disk / "clips")
        dataset.add_trajectories([response("s0")])
        disk.remount("ro")
        assert dataset.trajectories.count() == 1
        with pytest.raises(vrldata.StoreError, match=r"clips.*cannot be written"):
            dataset.add_trajectories([response("s1")])
        with pytest.raises(vrldata.StoreError, match="cannot be made"):
            vrldata.create(disk / "other")


def test_environment_names_the_endpoint_of_object_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")
    dataset = vrldata.Dataset(vrldata.DatasetUri.parse("s3://bucket/clips"))
    assert dataset.storage_options == {"endpoint": "http://127.0.0.1:9000", "allow_http": "true"}
    assert not dataset.is_local
    assert os.environ["AWS_ENDPOINT_URL"] not in repr(dataset)


def test_a_column_named_twice_is_a_wrong_selection(clips: vrldata.Dataset) -> None:
    with pytest.raises(vrldata.FilterError, match="column 'answer' is named twice"):
        clips.samples.to_table(columns=["answer", "answer"])


def test_an_unknown_sample_is_answered_with_the_id_that_was_meant(tmp_path: Path) -> None:
    made = vrldata.create(tmp_path / "clips")
    names = ("q/q3", "q/q4", "train/u2", "val/u2")
    rows = [Sample(sample_id=name, problem="?", answer="A", problem_type="ocr") for name in names]
    merge_rows(made, "samples", [sample_to_row(row) for row in rows])
    for asked, hint in (
        ("q3", "Did you mean 'q/q3'?"),
        ("u2", "Did you mean one of 'train/u2', 'val/u2'?"),
        ("tran/u2", "Did you mean 'train/u2'?"),
    ):
        with pytest.raises(StoreError, match=re.escape(f"no sample {asked!r}. {hint}")):
            made.sample(asked)
    with pytest.raises(StoreError, match=r"no sample 'nothing like it'\.$"):
        made.sample("nothing like it")

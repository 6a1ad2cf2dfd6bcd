"""Builds: what is decoded, reused, rejected and failed, incrementally and after changes of sources."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vrldata
from tests.data.mounts import tmpfs
from tests.data.synthetic_video import number_in, picture, write_video
from vrldata.build import BuildReport
from vrldata.build_options import BatchSize
from vrldata.tables import TABLES

SPEC = vrldata.SamplingSpec(fps=2, max_frames=8)


def row(name: str, identifier: int | str = 0, **fields: Any) -> dict[str, Any]:
    return {
        "id": identifier,
        "problem": "How many?",
        "answer": "4",
        "problem_type": "numerical",
        "videos": [name],
        **fields,
    }


def versions(dataset: vrldata.Dataset) -> dict[str, int]:
    return {table: dataset.lance(table).version for table in TABLES}


def numbers(clip: vrldata.Clip) -> list[int]:
    return [number_in(frame) for frame in clip.frames]


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two videos, an image and a text file with the name of a video; tests copy them."""
    from PIL import Image

    folder = tmp_path_factory.mktemp("originals")
    write_video(folder / "a.mp4", 90)
    write_video(folder / "b.mp4", 60, fps=15)
    Image.fromarray(picture(77, 128, 192)).save(folder / "c.png")
    (folder / "text.mp4").write_text("this is no video")
    return folder


@pytest.fixture
def videos(originals: Path, tmp_path: Path) -> Path:
    shutil.copytree(originals, tmp_path / "videos")
    return tmp_path / "videos"


@pytest.fixture
def dataset(tmp_path: Path) -> vrldata.Dataset:
    return vrldata.create(tmp_path / "clips")


def build(dataset: vrldata.Dataset, rows: list[Any], videos: Path, **options: Any) -> BuildReport:
    return dataset.build(rows, video_root=videos, **{"spec": SPEC, "workers": 0, **options})


def test_a_build_stores_samples_and_the_frames_of_their_media(dataset: vrldata.Dataset, videos: Path) -> None:
    rows = [row("a.mp4", 1), row("b.mp4", 2, images=["c.png"])]
    rows.append({"problem": "2+2", "answer": "4", "problem_type": "numerical"})
    report = build(dataset, rows, videos, image_max_pixels=128 * 192)
    assert (report.decoded, report.reused, report.failed, report.rejected) == (3, 0, 0, 0)
    assert report.complete
    assert report.samples == dataset.samples.count() == 3
    assert report.bytes > 0
    second = dataset.sample("rows/2")
    video, image = dataset.clips_of(second)
    assert video.metadata.fps == 15
    assert numbers(video) == video.metadata.frame_indices.tolist()
    assert image.kind == "image"
    assert number_in(image.frames[0]) == 77
    direct = vrldata.decode(videos / "b.mp4", SPEC, video_path="b.mp4")
    assert np.array_equal(video.frames, direct.frames)
    assert np.array_equal(video.metadata.timestamps, direct.metadata.timestamps)


def test_processes_give_the_same_as_decoding_here(
    dataset: vrldata.Dataset, videos: Path, tmp_path: Path
) -> None:
    rows = [row("a.mp4", 1), row("b.mp4", 2, images=["c.png"]), row("text.mp4", 3), row("gone.mp4", 4)]
    here = build(dataset, rows, videos)
    other = vrldata.create(tmp_path / "other")
    there = build(other, rows, videos, workers=2)
    assert (here.decoded, here.failed) == (there.decoded, there.failed) == (3, 2)
    assert sorted(here.failures) == sorted(there.failures)
    columns = ["clip_id", "sha256", "source_digest", "spec", "timestamps", "decoder"]
    for column in columns:
        first, second = (
            dict(zip(found.column("clip_id").to_pylist(), found.column(column).to_pylist(), strict=True))
            for found in (dataset.frames.to_table(), other.frames.to_table())
        )
        assert first == second


def test_the_same_build_again_does_nothing(dataset: vrldata.Dataset, videos: Path) -> None:
    rows = [row("a.mp4", 1, offline_output="<answer>4</answer>"), row("text.mp4", 2), row("gone.mp4", 3)]
    first = build(dataset, rows, videos)
    before = versions(dataset)
    again = build(dataset, rows, videos)
    assert (first.decoded, first.failed, first.trajectories) == (1, 2, 1)
    assert (again.decoded, again.reused, again.failed, again.trajectories) == (0, 1, 2, 0)
    assert versions(dataset) == before


def test_a_moved_clock_alone_is_no_change(dataset: vrldata.Dataset, videos: Path) -> None:
    build(dataset, [row("a.mp4")], videos)
    os.utime(videos / "a.mp4", (1, 1))
    assert build(dataset, [row("a.mp4")], videos).reused == 1


def test_copies_with_new_times_are_hashed_and_their_frames_reused(
    dataset: vrldata.Dataset, videos: Path, tmp_path: Path
) -> None:
    rows = [row("a.mp4", 1), row("b.mp4", 2, images=["c.png"])]
    build(dataset, rows, videos)
    before = versions(dataset)
    copies = tmp_path / "copies"
    copies.mkdir()
    for name in ("a.mp4", "b.mp4", "c.png"):
        (copies / name).write_bytes((videos / name).read_bytes())
        os.utime(copies / name, (5, 5))
    report = build(dataset, rows, copies)
    assert (report.decoded, report.reused) == (0, 3)
    assert versions(dataset) == before


def test_warnings_of_decoders_are_stored_and_shown(dataset: vrldata.Dataset, videos: Path) -> None:
    rows = [row("a.mp4", 1, start=0.0, end=100.0), row("a.mp4", 2, start=1.0, end=200.0), row("b.mp4", 3)]
    build(dataset, rows, videos)
    (clip,) = dataset.clips_of(dataset.sample("rows/2"))
    assert clip.warnings == ("the window ends at 200 s, the video at 3.000 s",)
    found = dataset.info()["warnings"]
    assert [(one["clips"], one["video_path"]) for one in found] == [(2, "a.mp4")]
    counted = dataset.sql("SELECT count(*) AS n FROM frames WHERE warnings IS NOT NULL")
    assert counted.column("n").to_pylist() == [2]


def test_a_changed_file_replaces_its_frames(dataset: vrldata.Dataset, videos: Path) -> None:
    build(dataset, [row("a.mp4")], videos)
    shutil.copy(videos / "b.mp4", videos / "a.mp4")
    report = build(dataset, [row("a.mp4")], videos)
    assert report.decoded == 1
    assert dataset.frames.count() == 1
    assert dataset.clip("a.mp4", SPEC).metadata.fps == 15


def test_a_change_that_keeps_size_and_differs_in_time_is_noticed(
    dataset: vrldata.Dataset, videos: Path
) -> None:
    from PIL import Image

    for level in (10, 200):
        Image.fromarray(np.full((64, 64, 3), level, np.uint8)).save(videos / "flat.bmp")
        os.utime(videos / "flat.bmp", (level, level))
        build(dataset, [row("a.mp4", images=["flat.bmp"])], videos)
    _, image = dataset.clips_of(dataset.sample("rows/0"))
    assert abs(int(image.frames.mean()) - 200) <= 2


def test_a_change_that_keeps_size_and_time_is_noticed(dataset: vrldata.Dataset, videos: Path) -> None:
    from PIL import Image

    for level in (10, 200):
        Image.fromarray(np.full((64, 64, 3), level, np.uint8)).save(videos / "flat.bmp")
        os.utime(videos / "flat.bmp", (7, 7))
        build(dataset, [row("a.mp4", images=["flat.bmp"])], videos)
    _, image = dataset.clips_of(dataset.sample("rows/0"))
    assert abs(int(image.frames.mean()) - 200) <= 2


def test_the_same_content_under_two_paths_is_stored_once(dataset: vrldata.Dataset, videos: Path) -> None:
    shutil.copy(videos / "a.mp4", videos / "twin.mp4")
    report = build(dataset, [row("a.mp4", 1), row("twin.mp4", 2)], videos)
    assert (report.decoded, report.reused) == (1, 1)
    assert dataset.frames.count() == 1
    found = dataset.clip("twin.mp4", SPEC)
    assert found.video_path == "twin.mp4"
    assert np.array_equal(found.frames, dataset.clip("a.mp4", SPEC).frames)
    assert dataset.sample("rows/2").clip_ids == (SPEC.clip_id("a.mp4"),)
    assert dataset.clips_of(dataset.sample("rows/2"))[0].video_path == "twin.mp4"


def test_a_first_build_with_two_equal_files_says_why_one_was_reused(
    videos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from vrldata.commands.build import build as command

    shutil.copy(videos / "a.mp4", videos / "same.mp4")
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps(row(name, name)) + "\n" for name in ("a.mp4", "same.mp4")))
    command([str(rows)], str(tmp_path / "clips"), videos, max_frames=8, workers=0)
    said = capsys.readouterr().out
    assert "1 clip decoded, 1 reused (stored before, or equal to another file), 0 failed" in said
    assert " KB in " in said or " MB in " in said


def test_a_twin_of_an_earlier_build_is_found_too(dataset: vrldata.Dataset, videos: Path) -> None:
    build(dataset, [row("a.mp4", 1)], videos)
    shutil.copy(videos / "a.mp4", videos / "twin.mp4")
    report = build(dataset, [row("twin.mp4", 2)], videos)
    assert (report.decoded, report.reused, dataset.frames.count()) == (0, 1, 1)
    other_spec = dataclasses.replace(SPEC, max_frames=4)
    assert build(dataset, [row("twin.mp4", 2)], videos, spec=other_spec).decoded == 1
    assert np.array_equal(dataset.clip("twin.mp4", SPEC).frames, dataset.clip("a.mp4", SPEC).frames)
    assert len(dataset.clip("a.mp4", other_spec).frames) == 4


@pytest.mark.parametrize("together", [True, False])
def test_a_twin_keeps_its_frames_when_the_first_path_changes(
    dataset: vrldata.Dataset, videos: Path, together: bool
) -> None:
    shutil.copy(videos / "a.mp4", videos / "twin.mp4")
    rows = [row("a.mp4", 1), row("twin.mp4", 2)]
    build(dataset, rows, videos)
    old = dataset.clip("twin.mp4", SPEC).frames.copy()
    shutil.copy(videos / "b.mp4", videos / "a.mp4")
    build(dataset, rows if together else rows[:1], videos)
    assert dataset.clip("a.mp4", SPEC).metadata.fps == 15
    assert np.array_equal(dataset.clip("twin.mp4", SPEC).frames, old)
    assert np.array_equal(dataset.clips_of(dataset.sample("rows/2"))[0].frames, old)
    assert dataset.verify(deep=True, video_root=videos).ok


def test_a_window_of_a_row_is_part_of_its_key(dataset: vrldata.Dataset, videos: Path) -> None:
    rows = [row("a.mp4", 1), row("a.mp4", 2, start=1.0, end=2.0)]
    assert build(dataset, rows, videos).decoded == 2
    (clip,) = dataset.clips_of(dataset.sample("rows/2"))
    assert clip.spec == dataclasses.replace(SPEC, start=1.0, end=2.0)
    assert 1.0 <= clip.metadata.timestamps.min() <= clip.metadata.timestamps.max() <= 2.0
    assert all(30 <= number <= 60 for number in numbers(clip))


def test_what_cannot_be_decoded_is_recorded_with_its_reason(dataset: vrldata.Dataset, videos: Path) -> None:
    report = build(dataset, [row("a.mp4", 1), row("text.mp4", 2), row("gone.mp4", 3)], videos)
    assert (report.decoded, report.failed, report.complete) == (1, 2, False)
    reasons = {found["video_path"]: found["reason"] for found in dataset.failures.to_table().to_pylist()}
    assert "text file" in reasons["text.mp4"]
    assert "no such file" in reasons["gone.mp4"]
    assert dataset.samples.count() == 3
    assert dataset.sample("rows/2").clip_ids == ()
    with pytest.raises(vrldata.MissingClip, match="text file"):
        dataset.clips_of(dataset.sample("rows/2"))
    with pytest.raises(vrldata.MissingClip, match="text file"):
        dataset.clip("text.mp4", SPEC)
    with pytest.raises(vrldata.MissingClip, match=r"no frames of 'text\.mp4': .*text file"):
        dataset.clip("text.mp4")
    with pytest.raises(vrldata.MissingClip, match=r"none for any other: .*text file"):
        dataset.clip("text.mp4", vrldata.SamplingSpec(fps=7))


def test_a_failed_file_is_tried_again_when_it_changes_or_on_request(
    dataset: vrldata.Dataset, videos: Path
) -> None:
    rows = [row("text.mp4", 1), row("gone.mp4", 2)]
    build(dataset, rows, videos)
    assert build(dataset, rows, videos, retry_failed=True).failed == 2
    assert {found["attempts"] for found in dataset.failures.to_table().to_pylist()} == {2}
    shutil.copy(videos / "a.mp4", videos / "text.mp4")
    shutil.copy(videos / "b.mp4", videos / "gone.mp4")
    report = build(dataset, rows, videos)
    assert (report.decoded, report.failed) == (2, 0)
    assert dataset.failures.count() == 0
    assert len(dataset.sample("rows/2").clip_ids) == 1


def test_a_bad_row_costs_only_itself(dataset: vrldata.Dataset, videos: Path, tmp_path: Path) -> None:
    lines = [json.dumps(row("a.mp4", 1)), json.dumps({**row("b.mp4", 2), "answer": None}), "{not json"]
    (tmp_path / "train.jsonl").write_text("\n".join(lines))
    report = build(dataset, [tmp_path / "train.jsonl"], videos)
    assert (report.decoded, report.rejected, report.samples) == (1, 2, 1)
    assert report.rejected_file
    rejected = [json.loads(line) for line in Path(report.rejected_file).read_text().splitlines()]
    assert [entry["line"] for entry in rejected] == [2, 3]
    assert all("train.jsonl" in entry["message"] for entry in rejected)
    (tmp_path / "train.jsonl").write_text(lines[0])
    assert build(dataset, [tmp_path / "train.jsonl"], videos).rejected_file is None
    assert not (Path(dataset.root) / "rejected.jsonl").exists()


def test_rejected_rows_stay_listed_until_their_own_file_is_built_again(
    dataset: vrldata.Dataset, videos: Path, tmp_path: Path
) -> None:
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    first.write_text("{no json")
    second.write_text(json.dumps(row("b.mp4", 1)))
    listed = Path(dataset.root) / "rejected.jsonl"
    build(dataset, [first], videos)
    assert build(dataset, [second], videos).rejected_file is None
    assert [json.loads(line)["file"] for line in listed.read_text().splitlines()] == [str(first)]
    first.write_text(json.dumps(row("a.mp4", 1)))
    build(dataset, [first], videos)
    assert not listed.exists()


def test_rejected_rows_of_a_file_with_brackets_in_its_name_are_its_own(
    dataset: vrldata.Dataset, videos: Path, tmp_path: Path
) -> None:
    file = tmp_path / "train[1].jsonl"
    file.write_text("{no json")
    build(dataset, [file], videos)
    file.write_text(json.dumps(row("a.mp4", 1)))
    build(dataset, [file], videos)
    assert not (Path(dataset.root) / "rejected.jsonl").exists()


def test_samples_that_are_replaced_by_others_of_their_id_are_told(
    dataset: vrldata.Dataset, videos: Path, tmp_path: Path
) -> None:
    for name in ("x", "y"):
        (tmp_path / name).mkdir()
        rows = [row("a.mp4", 1), row("a.mp4", 2, problem=f"What does {name} show?")]
        (tmp_path / name / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert build(dataset, [tmp_path / "x" / "train.jsonl"], videos).updated == ()
    assert build(dataset, [tmp_path / "y" / "train.jsonl"], videos).updated == ("train/2",)
    assert build(dataset, [tmp_path / "y" / "train.jsonl"], videos).updated == ()


def test_clips_of_other_annotations_that_get_other_frames_are_told(
    dataset: vrldata.Dataset, videos: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mine, other = tmp_path / "mine.jsonl", tmp_path / "other.jsonl"
    mine.write_text(json.dumps(row("a.mp4", 1)))
    other.write_text(json.dumps(row("a.mp4", 1)))
    (tmp_path / "elsewhere").mkdir()
    shutil.copy(videos / "b.mp4", tmp_path / "elsewhere" / "a.mp4")
    build(dataset, [mine], videos)
    report = build(dataset, [other], tmp_path / "elsewhere")
    assert (report.replaced, report.affected) == (("a.mp4",), ("mine/1",))
    assert "a.mp4, have other content" in caplog.text
    assert "mine/1" in caplog.text
    assert build(dataset, [mine, other], videos).affected == ()


def test_recorded_reasons_name_files_as_the_dataset_does(dataset: vrldata.Dataset, videos: Path) -> None:
    report = build(dataset, [row("text.mp4", 1), row("nowhere.mp4", 2)], videos)
    reasons = dataset.failures.to_table().column("reason").to_pylist() + [text for _, text in report.failures]
    assert len(reasons) == 4
    assert not any(str(videos) in reason for reason in reasons)
    assert sum("nowhere.mp4" in reason for reason in reasons) == 2


def test_samples_that_left_their_file_are_told_and_pruned_on_request(
    dataset: vrldata.Dataset, videos: Path, tmp_path: Path
) -> None:
    file, other = tmp_path / "u.jsonl", tmp_path / "other.jsonl"
    other.write_text(json.dumps(row("b.mp4", "o1")))
    file.write_text("\n".join(json.dumps(row("a.mp4", name)) for name in ("u1", "u2", "u3")))
    assert build(dataset, [file, other], videos).left == ()
    rows = [row("a.mp4", "u1"), row("a.mp4", "u3", problem_type="riddle")]
    file.write_text("\n".join(map(json.dumps, rows)))

    kept = build(dataset, [file], videos)
    assert (kept.left, kept.pruned, dataset.samples.count()) == (("u/u2", "u/u3"), 0, 4)

    pruned = build(dataset, [file], videos, prune=True)
    assert pruned.pruned == 2
    ids = dataset.samples.to_table(columns=["sample_id"]).column("sample_id").to_pylist()
    assert sorted(ids) == ["other/o1", "u/u1"]
    assert dataset.frames.count() == 2


def test_trajectories_of_pruned_samples_are_noted_and_no_problem(
    dataset: vrldata.Dataset, videos: Path, tmp_path: Path
) -> None:
    file = tmp_path / "u.jsonl"
    file.write_text("\n".join(json.dumps(row("a.mp4", name, offline_output="4")) for name in ("u1", "u2")))
    build(dataset, [file], videos)
    file.write_text(json.dumps(row("a.mp4", "u1")))
    build(dataset, [file], videos, prune=True)
    found = dataset.verify()
    assert (found.ok, found.trajectories_without_samples) == (True, 1)


def test_a_file_that_cannot_be_read_prunes_nothing(
    dataset: vrldata.Dataset, videos: Path, tmp_path: Path
) -> None:
    file = tmp_path / "u.json"
    file.write_text(json.dumps([row("a.mp4", "u1")]))
    build(dataset, [file], videos)
    file.write_text("{ this is no JSON")
    (tmp_path / "b.jsonl").write_text(json.dumps(row("b.mp4", "b1")))
    report = build(dataset, [file, tmp_path / "b.jsonl"], videos, prune=True)
    assert (report.rejected, report.left) == (1, ())
    assert dataset.samples.count() == 2


def test_nothing_outside_the_video_root_is_read(dataset: vrldata.Dataset, videos: Path) -> None:
    shutil.copy(videos / "a.mp4", videos.parent / "secret.mp4")
    report = build(dataset, [row("../secret.mp4", 1), row(str(videos.parent / "secret.mp4"), 2)], videos)
    assert (report.decoded, report.rejected, dataset.frames.count()) == (0, 2, 0)


def test_offline_responses_become_scored_trajectories(dataset: vrldata.Dataset, videos: Path) -> None:
    rows = [
        row("a.mp4", 1, offline_output="<think>count</think><answer>4</answer>"),
        row("a.mp4", 2, offline_output="<think>count</think><answer>5</answer>"),
    ]
    assert build(dataset, rows, videos).trajectories == 2
    right, wrong = dataset.iter_trajectories()
    assert (right.sample_id, right.source, right.correct) == ("rows/1", "offline", True)
    assert wrong.correct is False
    assert right.reward is not None
    assert wrong.reward is not None
    assert right.reward > wrong.reward
    assert right.rewards["accuracy"] == 1.0


def test_a_measured_pass_rate_outlives_a_build(dataset: vrldata.Dataset, videos: Path) -> None:
    from vrldata.commits import merge_rows
    from vrldata.tables import sample_to_row

    build(dataset, [row("a.mp4", 1)], videos)
    measured = dataclasses.replace(dataset.sample("rows/1"), pass_rate=0.25)
    merge_rows(dataset, "samples", [sample_to_row(measured)], update=True)
    before = versions(dataset)
    build(dataset, [row("a.mp4", 1)], videos)
    assert versions(dataset) == before
    build(dataset, [row("a.mp4", 1, problem="How many now?")], videos)
    changed = dataset.sample("rows/1")
    assert (changed.problem, changed.pass_rate) == ("How many now?", 0.25)


@pytest.mark.parametrize("codec", ["zstd", "ffv1", "jpeg:95"])
def test_the_codec_is_recorded_and_does_not_change_the_key(
    dataset: vrldata.Dataset, videos: Path, codec: str
) -> None:
    report = build(dataset, [row("a.mp4")], videos, codec=codec)
    assert dict(report.codecs) == {codec.split(":")[0]: 1}
    found, direct = dataset.clip("a.mp4", SPEC), vrldata.decode(videos / "a.mp4", SPEC)
    assert np.abs(found.frames.astype(int) - direct.frames).mean() < (3 if "jpeg" in codec else 1e-9)
    assert build(dataset, [row("a.mp4")], videos, codec="raw").reused == 1


def test_a_budget_chooses_the_codec(dataset: vrldata.Dataset, videos: Path) -> None:
    raw_bytes = vrldata.decode(videos / "a.mp4", SPEC).frames.nbytes
    report = build(dataset, [row("a.mp4")], videos, codec="auto", budget_bytes=raw_bytes // 2)
    assert report.bytes <= raw_bytes // 2
    assert "raw" not in report.codecs


def test_frames_outlive_their_source(dataset: vrldata.Dataset, videos: Path) -> None:
    build(dataset, [row("a.mp4")], videos)
    (videos / "a.mp4").unlink()
    assert build(dataset, [row("a.mp4")], videos).reused == 1


def test_files_with_odd_names_are_found(dataset: vrldata.Dataset, videos: Path) -> None:
    names = ["with space.mp4", "quo'te.mp4", "ümläut.mp4", "per%20cent.mp4", "sub/dir/x.mp4"]
    (videos / "sub/dir").mkdir(parents=True)
    for place, name in enumerate(names):
        content = (videos / "b.mp4").read_bytes()
        # distinct content: a free box behind the last one changes nothing else
        (videos / name).write_bytes(content + (16).to_bytes(4, "big") + b"free" + bytes([place]) * 8)
    report = build(dataset, [row(name, place) for place, name in enumerate(names)], videos)
    assert report.decoded == len(names)
    for name in names:
        assert dataset.clip(name, SPEC).video_path == name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"codec": "h265"}, "codec 'h265': unknown"),
        ({"worker": 3}, "Did you mean 'workers'"),
        ({"workers": -1}, "workers=-1"),
        ({"codec": "auto"}, "needs a budget"),
        ({"timeout_s": 0.0, "workers": 1}, "timeout_s"),
        ({"timeout_s": -1.0}, "timeout_s=-1.0: expected more than 0"),
    ],
)
def test_wrong_options_say_what_is_right(
    dataset: vrldata.Dataset, videos: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(vrldata.ConfigError, match=message):
        build(dataset, [row("a.mp4")], videos, **options)


def test_a_missing_video_root_is_one_error(dataset: vrldata.Dataset, tmp_path: Path) -> None:
    with pytest.raises(vrldata.ConfigError, match="no such folder"):
        build(dataset, [row("a.mp4")], tmp_path / "nope")


def test_a_full_disk_keeps_what_was_committed(tmp_path: Path, videos: Path) -> None:
    for number in range(12):
        write_video(videos / f"v{number}.mp4", 60, width=320, height=256)
        with (videos / f"v{number}.mp4").open("ab") as stream:
            stream.write((16).to_bytes(4, "big") + b"free" + bytes([number]) * 8)
    spec = vrldata.SamplingSpec(fps=30, max_frames=32, max_pixels=320 * 256)
    rows = [row(f"v{number}.mp4", number) for number in range(12)]
    with tmpfs(tmp_path / "disk", "48m") as disk:
        dataset = vrldata.create(disk / "clips")
        batch = BatchSize(clips=1, num_bytes=1)
        with pytest.raises(vrldata.StoreError, match="disk is full"):
            build(dataset, rows, videos, spec=spec, batch=batch)
        stored = vrldata.open(disk / "clips")
        assert 0 < stored.frames.count() < 12
        assert stored.verify(deep=True).ok
        disk.remount("size=200m")
        report = build(dataset, rows, videos, spec=spec)
        assert report.complete
        assert (dataset.frames.count(), dataset.samples.count()) == (12, 12)
        assert report.reused >= stored.frames.count() - report.decoded
        assert dataset.verify(deep=True, video_root=videos).ok


def test_early_commits_grow_with_what_was_written() -> None:
    batch = BatchSize()
    first, megabyte = 64, 1 << 20
    much = 10_000 * megabyte
    assert batch.worthwhile(first * megabyte, written_bytes=0, coming_bytes=much)
    assert not batch.worthwhile(first * megabyte, written_bytes=1000 * megabyte, coming_bytes=much)
    assert not batch.reached(clips=31, num_bytes=first * megabyte, seconds=1)
    assert batch.reached(clips=1, num_bytes=512 * megabyte, seconds=1)


def test_the_last_commits_shrink_with_what_is_left() -> None:
    batch, megabyte = BatchSize(), 1 << 20
    written = 1000 * megabyte
    assert batch.worthwhile(40 * megabyte, written_bytes=written, coming_bytes=40 * megabyte)
    assert not batch.worthwhile(40 * megabyte, written_bytes=written, coming_bytes=41 * megabyte)
    assert not batch.worthwhile(15 * megabyte, written_bytes=written, coming_bytes=0)


def test_clips_are_committed_while_others_are_decoded(
    dataset: vrldata.Dataset, videos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vrldata.build_options.FIRST_BATCH_BYTES", 1)
    rows = []
    for number in range(6):
        name = f"v{number}.mp4"
        write_video(videos / name, 30 + number)
        rows.append(row(name, number))
    assert build(dataset, rows, videos, workers=2).decoded == 6
    assert dataset.lance("frames").version > 2
    assert (dataset.frames.count(), dataset.samples.count()) == (6, 6)
    assert dataset.verify(deep=True, video_root=videos).ok


def test_a_dataset_on_a_read_only_disk_is_read_and_not_built(tmp_path: Path, videos: Path) -> None:
    with tmpfs(tmp_path / "disk", "48m") as disk:
        dataset = vrldata.create(disk / "clips")
        build(dataset, [row("a.mp4", 1)], videos)
        dataset.create_release("v1")
        disk.remount("ro")
        stored = vrldata.open(f"{disk}/clips@v1")
        (clip,) = stored.clips_of(stored.sample("rows/1"))
        assert numbers(clip) == clip.metadata.frame_indices.tolist()
        assert [row["sample_id"] for row in stored.torch()] == ["rows/1"]
        assert stored.sql("SELECT count(*) AS n FROM frames").column("n").to_pylist() == [1]
        assert stored.verify(deep=True, video_root=videos).ok
        assert build(dataset, [row("a.mp4", 1)], videos).reused == 1
        with pytest.raises(vrldata.StoreError, match="Read-only file system"):
            build(dataset, [row("a.mp4", 1), row("b.mp4", 2)], videos)
        disk.remount("rw")
        assert build(dataset, [row("a.mp4", 1), row("b.mp4", 2)], videos).decoded == 1

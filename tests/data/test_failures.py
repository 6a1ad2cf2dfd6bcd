"""Failures that were put right: which rows of `failures` still hold, and what drops the others."""

from __future__ import annotations

import json
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import vrldata
from tests.data.synthetic_video import write_video
from vrldata.build import BuildReport
from vrldata.summary import summary_text

SPEC = vrldata.SamplingSpec(fps=2, max_frames=8)


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("video") / "a.mp4"
    write_video(file, 60)
    return file


@pytest.fixture
def videos(video: Path, tmp_path: Path) -> Path:
    (tmp_path / "videos").mkdir()
    shutil.copy(video, tmp_path / "videos")
    return tmp_path / "videos"


@pytest.fixture
def dataset(tmp_path: Path) -> vrldata.Dataset:
    return vrldata.create(tmp_path / "clips")


def build(dataset: vrldata.Dataset, videos: Path, *names: str, **fields: Any) -> BuildReport:
    rows = [
        {"id": number, "problem": "How many?", "answer": "4", "problem_type": "numerical", "videos": [name]}
        for number, name in enumerate(names)
    ]
    return dataset.build(rows, video_root=videos, spec=SPEC, workers=0, **fields)


def listed(dataset: vrldata.Dataset) -> list[str]:
    return [failure["video_path"] for failure in dataset.info()["failures"]]


def test_a_failure_is_listed_as_long_as_a_sample_names_its_file(
    dataset: vrldata.Dataset, videos: Path
) -> None:
    build(dataset, videos, "a.mp4", "wrong.mp4")
    assert listed(dataset) == ["wrong.mp4"]
    build(dataset, videos, "a.mp4", "a.mp4")
    found = dataset.info()
    assert (found["failures"], found["num_failures"], found["num_past_failures"]) == ([], 0, 1)
    text = summary_text(found)
    assert "wrong.mp4" not in text
    assert "1 row of failures of no sample any more" in text


def test_gc_drops_failures_that_hold_no_more_once_no_build_can_be_about_to_name_them(
    dataset: vrldata.Dataset, videos: Path
) -> None:
    build(dataset, videos, "wrong.mp4", "gone.mp4")
    build(dataset, videos, "a.mp4", "gone.mp4")
    assert dataset.gc().past_failures == 0
    assert dataset.failures.count() == 2
    assert dataset.gc(older_than=timedelta(0)).past_failures == 1
    assert dataset.failures.to_table(columns=["video_path"])["video_path"].to_pylist() == ["gone.mp4"]
    assert listed(dataset) == ["gone.mp4"]


def test_a_file_that_came_back_heals_also_where_its_content_is_stored_already(
    dataset: vrldata.Dataset, videos: Path
) -> None:
    """Under another path, or as another file of the same build: nothing of it is decoded."""
    build(dataset, videos, "a.mp4", "later.mp4", "twin.mp4")
    assert sorted(listed(dataset)) == ["later.mp4", "twin.mp4"]
    shutil.copy(videos / "a.mp4", videos / "later.mp4")
    assert build(dataset, videos, "a.mp4", "later.mp4", "twin.mp4").decoded == 0
    assert listed(dataset) == ["twin.mp4"]
    assert dataset.failures.count() == 1


def test_a_pair_of_twins_that_came_back_heals_both(dataset: vrldata.Dataset, videos: Path) -> None:
    build(dataset, videos, "one.mp4", "two.mp4")
    assert dataset.failures.count() == 2
    for name in ("one.mp4", "two.mp4"):
        shutil.copy(videos / "a.mp4", videos / name)
    report = build(dataset, videos, "one.mp4", "two.mp4")
    assert (report.decoded, report.reused, report.failed) == (1, 1, 0)
    assert dataset.failures.count() == 0


def test_info_names_rejected_rows_and_how_failed_files_are_tried_again(
    dataset: vrldata.Dataset, videos: Path
) -> None:
    build(dataset, videos, "wrong.mp4")
    dataset.build([{"problem": "How many?"}], video_root=videos, workers=0)
    text = summary_text(dataset.info())
    assert "`vrldata build … --retry-failed` tries failed files again" in text
    assert f"rejected: 1 row, with file, line and reason in {dataset.root}/rejected.jsonl" in text


def test_verify_notes_samples_without_clips(
    dataset: vrldata.Dataset, videos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from vrldata.commands.maintain import verify as command

    build(dataset, videos, "a.mp4", "wrong.mp4")
    command(dataset.root)
    first, note = capsys.readouterr().out.splitlines()
    assert f"{dataset.root}: ok" in first
    assert note.startswith("note: 1 sample without clips (failures: wrong.mp4: ")
    assert "`vrldata build … --retry-failed`" in note
    command(dataset.root, json_output=True)
    found = json.loads(capsys.readouterr().out)
    assert (found["ok"], found["samples_without_clips"]) == (True, 1)
    assert [path for path, _ in found["failures"]] == ["wrong.mp4"]

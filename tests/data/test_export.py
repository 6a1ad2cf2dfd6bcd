"""Exports, each read back by the loader of the tool that it is for, or against its documented columns."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import vrldata
from vrldata.commits import merge_rows
from vrldata.errors import ConfigError, FilterError, StoreError
from vrldata.export import ExportOptions, export
from vrldata.tables import sample_to_row
from vrldata.types import Sample, Trajectory


@pytest.fixture(scope="module")
def dataset(
    tmp_path_factory: pytest.TempPathFactory, make_dataset: Callable[..., vrldata.Dataset]
) -> vrldata.Dataset:
    made = make_dataset(tmp_path_factory.mktemp("export") / "clips", 6)
    made.add_trajectories(
        Trajectory(
            trajectory_id=f"t{number}",
            sample_id=f"s{number % 3}",
            response=f"response {number}",
            source="rollout",
            reward=number / 10,
        )
        for number in range(9)
    )
    return made


@pytest.mark.parametrize("output_format", ["jsonl", "parquet"])
def test_annotations_come_back_through_the_annotation_reader(
    dataset: vrldata.Dataset, tmp_path: Path, output_format: str
) -> None:
    from vrldata.annotations import read_annotations

    report = export(dataset, tmp_path, output_format, best=2, min_reward=0.3)
    assert [Path(file).stem for file in report.files] == ["train", "val"]
    read = read_annotations(report.files, video_root=tmp_path)
    assert read.rejected == []
    before = {sample.sample_id: sample for sample in dataset.iter_samples()}
    assert len(read.samples) == len(before) == report.num_samples
    for sample in read.samples:
        same = before[sample.sample_id.partition("/")[2]]
        for name in (
            "problem",
            "answer",
            "problem_type",
            "options",
            "videos",
            "images",
            "split",
            "data_source",
        ):
            assert getattr(sample, name) == getattr(same, name), name
        assert sample.extra["number"] == same.extra["number"]
    assert sorted(one.response for one in read.offline) == [f"response {number}" for number in range(3, 9)]


@pytest.mark.parametrize("output_format", ["jsonl", "parquet"])
def test_a_dataset_rebuilt_from_its_export_keeps_its_ids(tmp_path: Path, output_format: str) -> None:
    """However often: with an id, without one, with an id that is used twice, and with a slash in it."""
    from vrldata.trajectories import import_trajectories

    row = {"problem": "Which?", "answer": "A", "problem_type": "multiple_choice", "options": ["A. a", "B. b"]}
    rows = [
        {**row, "problem_id": 7, "difficulty": 3},
        {**row, "problem_id": 7, "answer": "B"},
        {**row, "id": "set/8"},
        {**row, "problem": "Without an id?"},
    ]
    (tmp_path / "annotations.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    built = vrldata.create(tmp_path / "0")
    built.build([tmp_path / "annotations.jsonl"], video_root=tmp_path)
    before = {one.sample_id: one for one in built.iter_samples()}
    assert {"annotations/7", "annotations/set/8"} < before.keys()
    for number in (1, 2):
        files = export(built, tmp_path / f"exported-{number}", output_format).files
        built = vrldata.create(tmp_path / str(number))
        built.build(files, video_root=tmp_path)
        after = {one.sample_id: one for one in built.iter_samples()}
        assert after.keys() == before.keys()
        assert [one.answer for one in after.values()] == [one.answer for one in before.values()]
    # a column of Parquet has a value, perhaps null, in every row
    kept = [{name: value for name, value in one.extra.items() if value is not None} for one in after.values()]
    assert kept == [one.extra for one in before.values()]
    responses = tmp_path / "responses.jsonl"
    responses.write_text(json.dumps({"sample_id": "annotations/set/8", "response": "A"}))
    assert import_trajectories(built, [responses]).added == 1


def test_a_column_sample_id_from_elsewhere_is_no_id_of_a_dataset(tmp_path: Path) -> None:
    row = {"problem": "Which?", "answer": "A", "problem_type": "ocr"}
    rows = [{**row, "sample_id": "clip/1"}, {**row, "sample_id": "clip/1", "problem_id": "q2"}]
    (tmp_path / "other.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    built = vrldata.create(tmp_path / "built")
    built.build([tmp_path / "other.jsonl"], video_root=tmp_path)
    found = {one.sample_id: dict(one.extra) for one in built.iter_samples()}
    assert found == {"other/clip/1": {}, "other/q2": {"sample_id": "clip/1"}}


def test_verl_rows_have_the_documented_columns(dataset: vrldata.Dataset, tmp_path: Path) -> None:
    report = export(
        dataset, tmp_path, "verl", split="train", options=ExportOptions(video_root="/data/videos")
    )
    [first, *_] = pq.read_table(report.files[0]).to_pylist()
    assert set(first) == {
        "data_source",
        "prompt",
        "images",
        "videos",
        "ability",
        "reward_model",
        "extra_info",
    }
    [message] = first["prompt"]
    assert message["role"] == "user"
    # verl splits the text at its placeholders and takes one medium for each
    assert re.findall("<image>|<video>", message["content"]) == ["<video>", "<image>"]
    assert first["videos"] == [{"video": "/data/videos/videos/0.mp4"}]
    assert first["images"] == [{"image": "/data/videos/images/0.png"}]
    assert first["reward_model"] == {"style": "rule", "ground_truth": "A"}
    assert first["extra_info"]["index"] == "s0"
    assert json.loads(first["extra_info"]["extra"]) == {"number": 0}


def test_trl_rows_load_with_datasets(dataset: vrldata.Dataset, tmp_path: Path) -> None:
    import datasets

    report = export(dataset, tmp_path / "rl", "trl", split="train")
    rows = datasets.Dataset.from_parquet(report.files[0], cache_dir=str(tmp_path / "cache"))
    [message] = rows[1]["prompt"]
    assert [part["type"] for part in message["content"]] == ["video", "text"]
    assert (rows[1]["solution"], rows[1]["videos"]) == ("B", ["videos/1.mp4"])
    assert "completion" not in rows.column_names


def test_trl_rows_with_responses_are_prompt_and_completion(dataset: vrldata.Dataset, tmp_path: Path) -> None:
    report = export(dataset, tmp_path, "trl", filter="sample_id = 's2'", best=1, min_reward=0.5)
    [row] = pq.read_table(report.files[0]).to_pylist()
    assert row["completion"] == [{"role": "assistant", "content": [{"type": "text", "text": "response 8"}]}]
    assert row["reward"] == pytest.approx(0.8)


def test_rows_for_supervised_training_have_a_response(
    dataset: vrldata.Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from vrldata.commands.export import export as command

    command(dataset.root, "trl", tmp_path / "sft", best=1, min_reward=0.7)
    assert capsys.readouterr().out.startswith("2 of 6 samples with a response in ")
    rows = pq.read_table(tmp_path / "sft" / "train.parquet").to_pylist()
    assert [row["completion"][0]["content"][0]["text"] for row in rows] == ["response 7", "response 8"]
    command(dataset.root, "jsonl", tmp_path / "best", best=1, min_reward=0.7)
    assert capsys.readouterr().out.startswith("6 samples, 2 of them with a response, in ")
    with pytest.raises(StoreError, match=r"none of 6 samples has a response with a reward of 0\.9"):
        export(dataset, tmp_path / "none", "trl", best=1, min_reward=0.9)


def test_equal_responses_are_one(tmp_path: Path, make_dataset: Callable[..., vrldata.Dataset]) -> None:
    made = make_dataset(tmp_path / "clips", 1)
    made.add_trajectories(
        Trajectory(
            trajectory_id=f"{run}-{text}",
            sample_id="s0",
            response=text,
            source="eval",
            run_id=run,
            reward=reward,
        )
        for run in ("a", "b")
        for text, reward in (("same", 0.9), (f"own of {run}", 0.8 if run == "a" else 0.7))
    )
    report = export(made, tmp_path / "sft", "trl", best=2)
    rows = pq.read_table(report.files[0]).to_pylist()
    assert [row["completion"][0]["content"][0]["text"] for row in rows] == ["same", "own of a"]
    report = export(made, tmp_path / "jsonl", "jsonl", best=9)
    [row] = map(json.loads, Path(report.files[0]).read_text().splitlines())
    assert row["offline_output"] == ["same", "own of a", "own of b"]


@pytest.mark.parametrize("output_format", ["jsonl", "trl", "webdataset"])
def test_a_folder_with_files_of_another_export_is_refused(
    dataset: vrldata.Dataset, tmp_path: Path, output_format: str
) -> None:
    export(dataset, tmp_path, output_format)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(StoreError, match=r"holds val.*, which this export would not replace: choose another"):
        export(dataset, tmp_path, output_format, split="train")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    export(dataset, tmp_path, output_format)
    assert {path.name for path in tmp_path.iterdir()} == before.keys()


def test_shards_of_a_longer_export_do_not_stay(dataset: vrldata.Dataset, tmp_path: Path) -> None:
    long = export(dataset, tmp_path, "webdataset", options=ExportOptions(shard_bytes=1))
    short = export(dataset, tmp_path, "webdataset")
    assert len(short.files) < len(long.files)
    assert sorted(map(str, tmp_path.iterdir())) == sorted(short.files)


def test_webdataset_shards_load_with_webdataset(dataset: vrldata.Dataset, tmp_path: Path) -> None:
    webdataset = pytest.importorskip("webdataset")
    options = ExportOptions(shard_bytes=40_000)
    report = export(dataset, tmp_path, "webdataset", split="train", options=options)
    assert len(report.files) > 1
    rows = list(webdataset.WebDataset(report.files, shardshuffle=False).decode())
    for number, row in zip((0, 1, 2, 3, 5), rows, strict=True):
        assert row["json"]["problem_id"] == f"s{number}"
        assert row["0.npy"].shape == (4, 32, 32, 3)
        assert row["0.npy"].dtype == np.uint8
        assert row["0.npy"][0, 0, 0, 0] == number * 8
        assert row["json"]["clips"][0]["timestamps"] == [0.0, 0.5, 1.0, 1.5]
    assert rows[0]["1.npy"].shape == (1, 32, 32, 3)


def test_a_sample_without_clips_is_left_out_of_shards_and_told(
    tmp_path: Path, make_dataset: Callable[..., vrldata.Dataset]
) -> None:
    made = make_dataset(tmp_path / "clips", 2)
    gone = Sample(sample_id="gone", problem="?", answer="A", problem_type="ocr", videos=("gone.mp4",))
    merge_rows(made, "samples", [sample_to_row(gone)])
    report = export(made, tmp_path / "out", "webdataset")
    assert report.num_samples == 2
    assert report.skipped[0].startswith("gone: ")


def test_values_of_different_kinds_in_extra_stay_readable(tmp_path: Path) -> None:
    made = vrldata.create(tmp_path / "clips")
    levels: list[Any] = [1, "two", {"three": 3}]
    rows = [
        Sample(sample_id=str(place), problem="?", answer="A", problem_type="ocr", extra={"level": level})
        for place, level in enumerate(levels)
    ]
    merge_rows(made, "samples", [sample_to_row(row) for row in rows])
    report = export(made, tmp_path / "out", "parquet")
    found = {row["problem_id"]: row["level"] for row in pq.read_table(report.files[0]).to_pylist()}
    assert {key: json.loads(value) for key, value in found.items()} == {"0": 1, "1": "two", "2": {"three": 3}}


def test_a_split_cannot_leave_the_folder(tmp_path: Path) -> None:
    made = vrldata.create(tmp_path / "clips")
    row = Sample(sample_id="a", problem="?", answer="A", problem_type="ocr", split="../../evil")
    merge_rows(made, "samples", [sample_to_row(row)])
    for output_format in ("jsonl", "webdataset"):
        report = export(made, tmp_path / "deep" / "out", output_format)
        assert all(Path(file).parent == tmp_path / "deep" / "out" for file in report.files)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clips", "deep"]


def test_wrong_formats_filters_and_empty_selections_are_named(
    dataset: vrldata.Dataset, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="Did you mean 'parquet'"):
        export(dataset, tmp_path, "parket")
    with pytest.raises(FilterError, match="Did you mean 'answer'"):
        export(dataset, tmp_path, "jsonl", filter="answr = 'A'")
    with pytest.raises(StoreError, match="no sample to export matches"):
        export(dataset, tmp_path, "jsonl", filter="answer = 'never'")
    assert list(tmp_path.iterdir()) == []

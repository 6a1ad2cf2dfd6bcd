"""What Python callers pass and get: splits that are not there, mappings, ids, lengths, records to score."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import vrldata
from vrldata.errors import AnnotationError, FilterError, StoreError, TaskError, UriError

READERS: dict[str, Callable[[vrldata.Dataset], Any]] = {
    "torch": lambda dataset: dataset.torch(),
    "ray": lambda dataset: dataset.ray(),
    "ray_iterator": lambda dataset: dataset.ray_iterator(),
    "hf": lambda dataset: dataset.hf(),
    "iter_samples": lambda dataset: list(dataset.iter_samples()),
    "to_table": lambda dataset: dataset.samples.to_table(),
    "len": len,
    "trajectories": lambda dataset: list(dataset.iter_trajectories()),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_split_that_is_not_there_is_named_with_those_that_are(clips: vrldata.Dataset, reader: str) -> None:
    dataset = vrldata.open(f"{clips.root}?split=vla")
    with pytest.raises(UriError, match=r"no split 'vla'\. Did you mean 'val'\? Splits: train, val\."):
        READERS[reader](dataset)


def test_a_split_that_is_asked_for_by_an_argument_has_to_be_there(clips: vrldata.Dataset) -> None:
    with pytest.raises(FilterError, match="no split 'test'"):
        clips.torch(split="test")
    with pytest.raises(FilterError, match="no split 'test'"):
        next(clips.iter_samples(split="test", filter="answer = 'A'"))


def test_an_empty_dataset_has_no_splits(tmp_path: Path) -> None:
    root = vrldata.create(tmp_path / "new").root
    assert list(vrldata.open(root).iter_samples()) == []
    with pytest.raises(UriError, match="No sample of this dataset is of any split"):
        list(vrldata.open(f"{root}?split=train").iter_samples())


def test_a_filter_that_empties_a_split_is_a_warning(
    clips: vrldata.Dataset, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    assert list(vrldata.open(f"{clips.root}?split=val&filter=answer = 'C'").torch()) == []
    assert "no sample is selected by split 'val', filter \"answer = 'C'\"" in caplog.text
    caplog.clear()
    assert list(clips.iter_samples(split="val", limit=0)) == []
    assert caplog.text == ""


def test_the_length_of_a_dataset_is_the_number_of_samples_selected(clips: vrldata.Dataset) -> None:
    assert len(clips) == 20
    assert len(vrldata.open(f"{clips.root}?split=val")) == 4
    assert len(vrldata.open(f"{clips.root}?split=val&limit=3")) == 3


def test_clips_of_a_sample_are_found_by_its_id(clips: vrldata.Dataset) -> None:
    assert [clip.video_path for clip in clips.clips_of("s4")] == ["videos/4.mp4", "images/4.png"]
    with pytest.raises(StoreError, match="no sample 's99'"):
        clips.clips_of("s99")


def test_trajectories_are_added_as_mappings(tmp_path: Path) -> None:
    dataset = vrldata.create(tmp_path / "clips")
    given = {
        "sample_id": "s1",
        "response": "<answer>B</answer>",
        "reward": 1,
        "token_ids": (5, 6),
        "extra": {"seed": 3},
    }
    assert dataset.add_trajectories([given, {**given, "response": "", "reward": None}]) == 2
    first, second = dataset.iter_trajectories()
    assert (first.source, first.reward, first.token_ids, first.extra) == ("offline", 1.0, (5, 6), {"seed": 3})
    assert (second.response, second.reward) == ("", None)


def test_rows_of_the_table_are_taken_back(tmp_path: Path) -> None:
    one, other = vrldata.create(tmp_path / "one"), vrldata.create(tmp_path / "other")
    one.add_trajectories([{"sample_id": "s1", "response": "B", "rewards": {"format": 0.5}, "step": 2}])
    assert other.add_trajectories(one.trajectories.to_table().to_pylist()) == 1
    assert list(other.iter_trajectories()) == list(one.iter_trajectories())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sample_id": "s1", "respnse": "B"}, "no field 'respnse' in a trajectory. Did you mean 'response'"),
        ({"sample_id": "s1"}, "trajectory 1: response is missing"),
        ({"sample_id": "s1", "response": "B", "source": "web"}, "source: expected one of offline, rollout"),
        ({"sample_id": "s1", "response": "B", "step": 0.5}, "step: expected a whole number, got 0.5"),
        ("s1", "expected a Trajectory or a mapping of its fields, got str"),
    ],
)
def test_what_is_no_trajectory_is_named_and_nothing_is_stored(
    tmp_path: Path, given: Any, message: str
) -> None:
    dataset = vrldata.create(tmp_path / "clips")
    with pytest.raises(AnnotationError, match=message):
        dataset.add_trajectories([{"sample_id": "s1", "response": "A"}, given])
    assert dataset.trajectories.count() == 0


def test_one_trajectory_is_no_list_of_them(tmp_path: Path) -> None:
    with pytest.raises(AnnotationError, match="expected a list of trajectories, got one dict"):
        vrldata.create(tmp_path / "clips").add_trajectories({"sample_id": "s1"})  # type: ignore[arg-type]


def test_a_record_is_scored_alone_as_in_a_batch() -> None:
    record = {"problem_type": "math", "response": "<answer>4</answer>", "ground_truth": "4"}
    assert vrldata.score(**record) == vrldata.score_batch([record])[0]
    assert vrldata.score(**record, answer="4").accuracy == 1.0
    assert vrldata.score("math", "<answer>4</answer>", None).status == "bad_ground_truth"
    with pytest.raises(TaskError, match="answer '5' and ground_truth '4' differ"):
        vrldata.score(**record, answer="5")
    with pytest.raises(TaskError, match="give answer, or ground_truth"):
        vrldata.score("math", "<answer>4</answer>")


@pytest.mark.parametrize("name", ["torch", "ray", "ray_iterator", "hf"])
def test_readers_say_what_they_take(name: str) -> None:
    method = getattr(vrldata.Dataset, name)
    options = [parameter for parameter in inspect.signature(method).parameters if parameter != "dataset"]
    described = inspect.getdoc(method) or ""
    assert {"split", "columns", "frames", "shuffle", "filter", "limit"} <= set(options)
    assert [option for option in options if f"{option}: " not in described] == []
    assert 'vrldata.open("clips@v1")' in described

"""Releases: atomic over all tables, immutable, comparable, and whole after a kill at any step."""

from __future__ import annotations

import dataclasses
import itertools
import shutil
import subprocess
import sys
from pathlib import Path

import lance
import pytest

import vrldata
from tests.data.killed_steps import KilledRuns
from vrldata.commits import delete_rows, merge_rows
from vrldata.errors import ConfigError, StoreError, UriError
from vrldata.releases import PENDING_PREFIX, PINNED, create_release, diff, list_releases, repair_tags
from vrldata.tables import TABLES, sample_to_row
from vrldata.types import Sample, Trajectory


def sample(number: int, **fields: object) -> Sample:
    values = {"problem": f"question {number}", "answer": "A", "problem_type": "ocr", **fields}
    return Sample(sample_id=f"s{number}", **values)  # type: ignore[arg-type]


def trajectory(number: int, **fields: object) -> Trajectory:
    values = {"response": "text", "source": "rollout", "rewards": {"b": 0.5, "a": 1.0}, **fields}
    return Trajectory(trajectory_id=f"t{number}", sample_id="s0", **values)  # type: ignore[arg-type]


def add_samples(dataset: vrldata.Dataset, *samples: Sample, update: bool = False) -> None:
    merge_rows(dataset, "samples", [sample_to_row(one) for one in samples], update=update)


@pytest.fixture
def dataset(tmp_path: Path) -> vrldata.Dataset:
    made = vrldata.create(tmp_path / "clips")
    add_samples(made, sample(0), sample(1))
    made.add_trajectories([trajectory(0, token_ids=(1, 2), log_probs=(-0.5, -0.25))])
    return made


def test_a_release_is_read_as_it_was(dataset: vrldata.Dataset) -> None:
    dataset.create_release("v1", "first")
    add_samples(dataset, sample(2))
    dataset.add_trajectories([trajectory(1)])
    pinned = vrldata.open(f"{dataset.root}@v1")
    assert (pinned.samples.count(), pinned.trajectories.count()) == (2, 1)
    assert (dataset.samples.count(), dataset.trajectories.count()) == (3, 2)
    assert pinned.sql("SELECT count(*) AS n FROM samples")["n"].to_pylist() == [2]


def test_the_row_says_what_is_pinned(dataset: vrldata.Dataset) -> None:
    first = dataset.create_release("v1", "first")
    second = dataset.create_release("v2")
    assert first.counts == {"samples": 2, "frames": 0, "trajectories": 1, "failures": 0}
    assert first.versions["samples"] == dataset.lance("samples").version
    assert (first.parent, second.parent) == ("", "v1")
    assert first.digest == second.digest
    assert list_releases(dataset) == [first, second]


def test_every_table_carries_a_tag_of_the_name(dataset: vrldata.Dataset) -> None:
    made = dataset.create_release("v1")
    for table in TABLES:
        opened = lance.dataset(f"{dataset.root}/data/{table}.lance")
        tags = opened.tags.list()
        assert list(tags) == ["v1"]
        if table in PINNED:
            assert tags["v1"]["version"] == made.versions[table]


def test_pinned_versions_outlive_a_cleanup(dataset: vrldata.Dataset) -> None:
    from datetime import timedelta

    dataset.create_release("v1")
    add_samples(dataset, sample(2))
    add_samples(dataset, sample(3))
    opened = dataset.lance("samples")
    opened.cleanup_old_versions(older_than=timedelta(0), error_if_tagged_old_versions=False)
    assert vrldata.open(f"{dataset.root}@v1").samples.count() == 2


def test_a_name_is_used_once(dataset: vrldata.Dataset) -> None:
    dataset.create_release("v1")
    add_samples(dataset, sample(2))
    with pytest.raises(StoreError, match=r"release 'v1' exists already .* --force"):
        dataset.create_release("v1")
    assert vrldata.open(f"{dataset.root}@v1").samples.count() == 2


def test_force_moves_a_name_and_records_what_it_replaced(dataset: vrldata.Dataset) -> None:
    first = dataset.create_release("v1", "first")
    add_samples(dataset, sample(2))
    dataset.create_release("v1", "second", force=True)
    add_samples(dataset, sample(3))
    third = dataset.create_release("v1", "third", force=True)
    assert third.replaced["message"] == "second"
    assert third.replaced["replaced"]["digest"] == first.digest
    assert vrldata.open(f"{dataset.root}@v1").samples.count() == 4
    assert dataset.lance("samples").tags.list()["v1"]["version"] == third.versions["samples"]
    assert list_releases(dataset) == [third]


@pytest.mark.parametrize(
    "name", ["", "latest", "main", "HEAD", "-x", ".x", "a b", "a/b", "a..b", "x.lock", "é"]
)
def test_names_that_cannot_be_tags_are_refused(dataset: vrldata.Dataset, name: str) -> None:
    with pytest.raises(StoreError, match="release name"):
        dataset.create_release(name)
    assert list_releases(dataset) == []


def test_a_release_is_not_made_of_a_release(dataset: vrldata.Dataset) -> None:
    dataset.create_release("v1")
    with pytest.raises(StoreError, match="immutable"):
        vrldata.open(f"{dataset.root}@v1").create_release("v2")


def test_digest_depends_on_rows_alone(tmp_path: Path, dataset: vrldata.Dataset) -> None:
    other = vrldata.create(tmp_path / "elsewhere")
    same = trajectory(0, token_ids=(1, 2), log_probs=(-0.5, -0.25), rewards={"a": 1.0, "b": 0.5})
    other.add_trajectories([same])
    add_samples(other, sample(1))
    add_samples(other, sample(5), sample(0))
    delete_rows(other, "samples", ["s5"])
    digest = dataset.create_release("v1").digest
    assert other.create_release("other-name", "other message").digest == digest


@pytest.mark.parametrize(
    "change",
    [
        {"reward": 0.0},
        {"rewards": {"a": 1.0}},
        {"token_ids": ()},
        {"token_ids": (12,)},
        {"log_probs": (-0.5, -0.125)},
        {"response": "texts"},
        {"correct": False},
        {"extra": {"a": None}},
    ],
)
def test_digest_notices_every_change(
    tmp_path: Path, dataset: vrldata.Dataset, change: dict[str, object]
) -> None:
    other = vrldata.create(tmp_path / "elsewhere")
    add_samples(other, sample(0), sample(1))
    same = trajectory(0, token_ids=(1, 2), log_probs=(-0.5, -0.25))
    other.add_trajectories([dataclasses.replace(same, **change)])  # type: ignore[arg-type]
    assert other.create_release("v1").digest != dataset.create_release("v1").digest


def test_diff_names_tables_rows_and_columns(dataset: vrldata.Dataset) -> None:
    dataset.create_release("v1")
    add_samples(dataset, sample(1, answer="B", pass_rate=0.5), sample(2), update=True)
    delete_rows(dataset, "samples", ["s0"])
    dataset.create_release("v2")
    found = diff(dataset, "v1", "v2")
    assert found["samples"].added == ("s2",)
    assert found["samples"].removed == ("s0",)
    assert found["samples"].changed == {"s1": ("answer", "pass_rate")}
    assert not found["trajectories"]
    assert not any(diff(dataset, "v2", "latest").values())


def test_the_text_of_a_diff_says_what_rows_are(
    dataset: vrldata.Dataset, capsys: pytest.CaptureFixture[str]
) -> None:
    from vrldata.commands.release import diff as diff_command

    dataset.create_release("v1")
    add_samples(dataset, sample(2))
    dataset.add_trajectories([trajectory(number, run_id="probe") for number in range(100, 130)])
    dataset.add_trajectories([trajectory(200, source="offline")])
    failed = {"clip_id": "f" * 64, "video_path": "videos/broken.mp4", "reason": "no video stream"}
    merge_rows(dataset, "failures", [failed])
    diff_command(dataset.root, "@v1", "latest", json_output=False)
    printed = capsys.readouterr().out
    assert "samples: 1 added, 0 removed, 0 changed\n  + s2\n" in printed
    assert "trajectories: 31 added" in printed
    assert "  + 30 rollout of run 'probe'\n  + 1 offline of no run" in printed
    assert "  + videos/broken.mp4: no video stream" in printed
    assert "ffff" not in printed
    diff_command(dataset.root, "v1", "latest", json_output=True)
    assert '"t129"' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("uri", "release", "form"),
    [
        ("clips@v1", "clips@v2", "vrldata diff clips v1 v2"),
        ("clips@v1", "v2", "vrldata diff clips v1 v2"),
        ("clips", "v1", "vrldata diff clips v1 latest"),
    ],
)
def test_a_diff_of_two_uris_is_told_its_form(uri: str, release: str, form: str) -> None:
    from vrldata.commands.release import diff as diff_command

    with pytest.raises(ConfigError, match=f"named after its URI: {form}$"):
        diff_command(uri, release)


def test_rewriting_equal_rows_is_no_difference(dataset: vrldata.Dataset) -> None:
    dataset.create_release("v1")
    add_samples(dataset, sample(1), update=True)
    dataset.lance("samples").optimize.compact_files()
    assert not any(diff(dataset, "v1", "latest").values())


def test_unknown_release_suggests_the_nearest(dataset: vrldata.Dataset) -> None:
    dataset.create_release("ablation")
    with pytest.raises(UriError, match="Did you mean 'ablation'"):
        diff(dataset, "ablatoin", "latest")


def test_a_kill_at_any_step_leaves_the_old_or_the_new_state(dataset: vrldata.Dataset, tmp_path: Path) -> None:
    states = set()
    with KilledRuns() as runs:
        for step in itertools.count(1):
            root = shutil.copytree(dataset.root, tmp_path / str(step))
            if runs("release", killed_at=step, root=str(root), name="v1", message="first"):
                break
            copy = vrldata.open(root)
            names = [release.name for release in list_releases(copy)]
            states.add(tuple(names))
            if names:
                assert vrldata.open(f"{root}@v1").samples.count() == 2, step
            made = create_release(copy, "v1", "first")
            assert list_releases(copy) == [made], step
            assert vrldata.open(f"{root}@v1").samples.count() == 2, step
            for table in TABLES:
                assert list(copy.open_table(table).tags.list()) == ["v1"], step
    assert step > len(TABLES)
    assert states == {(), ("v1",)}


def test_a_kill_while_a_release_moves_leaves_the_old_or_the_new_one(
    dataset: vrldata.Dataset, tmp_path: Path
) -> None:
    before = dataset.create_release("v1")
    add_samples(dataset, sample(2))
    digests = set()
    with KilledRuns() as runs:
        for step in itertools.count(1):
            root = shutil.copytree(dataset.root, tmp_path / str(step))
            if runs("release", killed_at=step, root=str(root), name="v1", force=True):
                break
            copy = vrldata.open(root)
            [found] = list_releases(copy)
            digests.add(found.digest)
            assert vrldata.open(f"{root}@v1").samples.count() == found.counts["samples"], step
            moved = create_release(copy, "v1", force=True)
            assert moved.counts["samples"] == 3, step
            assert list_releases(copy) == [moved], step
            for table in PINNED:
                tags = copy.open_table(table).tags.list()
                assert {name: tag["version"] for name, tag in tags.items()} == {"v1": moved.versions[table]}
    assert step > len(TABLES)
    assert len(digests) == 2
    assert before.digest in digests


def test_lost_tags_come_back(dataset: vrldata.Dataset) -> None:
    made = dataset.create_release("v1")
    dataset.lance("samples").tags.delete("v1")
    repair_tags(dataset)
    assert dataset.open_table("samples").tags.list()["v1"]["version"] == made.versions["samples"]


RACING = """
import sys, time, vrldata
dataset = vrldata.open(sys.argv[1])
dataset.list_releases()
time.sleep(max(0, float(sys.argv[2]) - time.time()))
try:
    dataset.create_release("v1", "same message")
    print("made")
except vrldata.StoreError as error:
    print("refused", error)
"""


def test_of_two_processes_one_makes_the_release(dataset: vrldata.Dataset) -> None:
    import time

    start = str(time.time() + 3)
    command = [sys.executable, "-c", RACING, dataset.root, start]
    racing = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = sorted(process.communicate()[0] for process in racing)
    assert outputs[0] == "made\n"
    assert "release 'v1' exists already" in outputs[1]
    [row] = list_releases(dataset)
    for table in PINNED:
        tags = dataset.open_table(table).tags.list()
        assert {name: tag["version"] for name, tag in tags.items()} == {"v1": row.versions[table]}
        assert not any(name.startswith(PENDING_PREFIX) for name in tags)

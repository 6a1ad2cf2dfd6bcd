"""Pushes and pulls that are killed before each of their steps: readers see one state, the next goes on."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import vrldata
from tests.data.hub_server import HubServer
from tests.data.killed_steps import KilledRuns
from tests.data.published import TARGET, add_large_clip, add_sample, response, same_content
from vrldata.errors import HubError, UriError


@pytest.fixture
def runs(hub: HubServer) -> Iterator[KilledRuns]:
    offline = {"HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1"}
    with KilledRuns(HF_ENDPOINT=hub.url, HF_TOKEN=hub.token, **offline) as started:
        yield started


@pytest.fixture
def dataset(tmp_path: Path, make_dataset: Callable[..., vrldata.Dataset]) -> vrldata.Dataset:
    made = make_dataset(tmp_path / "clips", 2)
    add_large_clip(made, 100)
    made.add_trajectories([response(0)])
    made.create_release("v1", "first")
    return made


def test_a_first_push_that_is_killed_shows_nothing_or_all(
    hub: HubServer, runs: KilledRuns, dataset: vrldata.Dataset, tmp_path: Path
) -> None:
    seen = set()
    for step in itertools.count(1):
        target = f"{TARGET}-{step}"
        if runs("push", killed_at=step, root=dataset.root, target=target):
            break
        copy = tmp_path / f"killed-{step}"
        try:
            vrldata.pull(target, copy)
        except HubError:
            assert "releases.json" not in hub.files(f"me/clips-{step}") if step > 1 else not hub.repositories
            seen.add("nothing")
        else:
            assert same_content(dataset, vrldata.open(copy)), step
            seen.add("all")
        dataset.push(target)
        vrldata.pull(f"{target}@v1", tmp_path / f"whole-{step}")
        assert same_content(dataset, vrldata.open(tmp_path / f"whole-{step}")), step
        repository = hub.repositories[f"me/clips-{step}"]
        assert repository.tags == {"v1": repository.branches["main"]}, step
    assert step > 5
    assert seen == {"nothing", "all"}
    assert len(hub.uploads) == len(set(hub.uploads))


def test_an_update_that_is_killed_shows_the_old_state_or_the_new(
    hub: HubServer, runs: KilledRuns, dataset: vrldata.Dataset, tmp_path: Path
) -> None:
    """The update adds a release and moves one, so that a tag has to be set and another one moved."""
    before = vrldata.open(shutil.copytree(dataset.root, tmp_path / "before"))
    add_large_clip(dataset, 101)
    add_sample(dataset, "more")
    dataset.create_release("v1", "moved", force=True)
    dataset.create_release("v2")
    seen = set()
    for step in itertools.count(1):
        name = f"me/clips-{step}"
        target = f"hf://datasets/{name}"
        before.push(target)
        if runs("push", killed_at=step, root=dataset.root, target=target, force=True):
            break
        copy = vrldata.open(vrldata.pull(target, tmp_path / f"killed-{step}").folder)
        states = {"old": same_content(before, copy), "new": same_content(dataset, copy)}
        assert sum(states.values()) == 1, step
        seen.update(state for state, is_seen in states.items() if is_seen)
        try:
            # from its tag, as long as that is not on its way
            assert vrldata.open(f"{target}@v1").samples.count() in (2, 3), step
        except UriError:
            assert "v1" not in hub.repositories[name].tags, step
        dataset.push(target, force=True)
        repository = hub.repositories[name]
        for release in dataset.list_releases():
            listed = hub.files(name, release.name)["releases.json"].data.decode()
            assert release.digest in listed, (step, release.name)
            assert vrldata.open(f"{target}@{release.name}").samples.count() == 3, step
        assert sorted(repository.tags) == ["v1", "v2"], step
    assert step > 4
    assert seen == {"old", "new"}


def test_a_pull_that_is_killed_leaves_the_old_state_or_the_new(
    hub: HubServer, runs: KilledRuns, dataset: vrldata.Dataset, tmp_path: Path
) -> None:
    dataset.push(TARGET)
    vrldata.pull(TARGET, tmp_path / "pulled")
    before = vrldata.open(tmp_path / "pulled")
    add_large_clip(dataset, 101)
    add_sample(dataset, "more")
    dataset.add_trajectories([response(1)])
    dataset.create_release("v2")
    dataset.push(TARGET)
    for step in itertools.count(1):
        folder = shutil.copytree(before.root, tmp_path / f"killed-{step}")
        if runs("pull", killed_at=step, source=TARGET, folder=str(folder)):
            break
        assert same_content(before, vrldata.open(f"{folder}@v1")), step
        names = [one.name for one in vrldata.open(folder).list_releases()]
        assert names in (["v1"], ["v1", "v2"]), step
        if "v2" in names:
            assert same_content(dataset, vrldata.open(f"{folder}@v2")), step
        vrldata.pull(TARGET, folder)
        assert same_content(dataset, vrldata.open(folder)), step
        assert [one.name for one in vrldata.open(folder).list_releases()] == ["v1", "v2"], step
        shutil.rmtree(folder)
    assert step > 10


def test_a_first_pull_that_is_killed_goes_on(
    hub: HubServer, runs: KilledRuns, dataset: vrldata.Dataset, tmp_path: Path
) -> None:
    dataset.push(TARGET)
    for step in itertools.count(1, 3):
        folder = tmp_path / f"killed-{step}"
        if runs("pull", killed_at=step, source=TARGET, folder=str(folder)):
            break
        report: Any = vrldata.pull(TARGET, folder)
        assert report.downloaded + report.unchanged > 10, step
        assert same_content(dataset, vrldata.open(folder)), step
    assert step > 10

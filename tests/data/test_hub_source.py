"""Pulling into the folder that a dataset was pushed from, and into one whose pull was interrupted."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import vrldata
from tests.data.hub_server import HubServer
from tests.data.killed_steps import KilledRuns
from tests.data.published import TARGET, add_large_clip, add_sample, same_content
from vrldata.errors import HubError, VRLError
from vrldata.hub_record import RECORD_FILE


@pytest.fixture
def source(tmp_path: Path, make_dataset: Callable[..., vrldata.Dataset], hub: HubServer) -> vrldata.Dataset:
    """A dataset with versions between its releases that no push sends, pushed with v1 and v2."""
    made = make_dataset(tmp_path / "clips", 2)
    made.create_release("v1")
    for name in ("between", "second"):
        add_sample(made, name)
    made.create_release("v2")
    made.push(TARGET)
    return made


@pytest.fixture
def colleague(source: vrldata.Dataset, tmp_path: Path) -> vrldata.Dataset:
    """A pulled copy with v3, which was pushed."""
    copy = vrldata.open(vrldata.pull(TARGET, tmp_path / "colleague").folder)
    add_large_clip(copy, 100)
    add_sample(copy, "third")
    copy.create_release("v3")
    copy.push(TARGET)
    return copy


def files_of(folder: str) -> dict[str, bytes]:
    """Contents by path, without what push and pull note."""
    found = {path.relative_to(folder).as_posix(): path for path in Path(folder).rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in found.items() if not name.startswith(".cache/")}


def test_the_source_goes_on_to_what_others_pushed(
    source: vrldata.Dataset, colleague: vrldata.Dataset
) -> None:
    before = files_of(source.root)
    assert vrldata.pull(TARGET, source.root).deleted == 0
    assert same_content(source, colleague)
    assert [one.name for one in source.list_releases()] == ["v1", "v2", "v3"]
    assert vrldata.open(f"{source.root}@v2").samples.count() == 4
    after = files_of(source.root)
    assert before.items() <= after.items()
    # both go on from there
    add_sample(source, "fourth")
    source.create_release("v4")
    assert source.push(TARGET).tags == ("v4",)
    assert vrldata.pull(TARGET, colleague.root).deleted == 0
    assert same_content(source, colleague)


def test_the_source_keeps_its_own_card_and_preview(
    source: vrldata.Dataset, colleague: vrldata.Dataset
) -> None:
    for name in ("README.md", "preview.png"):
        Path(source.root, name).write_text("mine")
    vrldata.pull(TARGET, source.root)
    assert [Path(source.root, name).read_text() for name in ("README.md", "preview.png")] == ["mine"] * 2


def test_what_was_not_pushed_is_named_and_stays(source: vrldata.Dataset, colleague: vrldata.Dataset) -> None:
    add_sample(source, "mine")
    before = files_of(source.root)
    with pytest.raises(
        HubError, match=r"holds changes of samples that were not pushed to me/clips; push them"
    ):
        vrldata.pull(TARGET, source.root)
    assert files_of(source.root) == before
    source.create_release("v3")
    with pytest.raises(HubError, match=r"changes of .*releases.* that were not pushed"):
        vrldata.pull(TARGET, source.root)


def test_a_state_after_the_release_that_was_pushed_is_unpushed(source: vrldata.Dataset) -> None:
    add_sample(source, "after")
    source.push(TARGET, release="v2")
    with pytest.raises(HubError, match="changes of samples that were not pushed"):
        vrldata.pull(TARGET, source.root)


def test_a_dataset_made_anew_in_the_folder_is_unpushed(
    source: vrldata.Dataset, colleague: vrldata.Dataset, make_dataset: Callable[..., vrldata.Dataset]
) -> None:
    """Its versions have the numbers of those that were pushed."""
    shutil.rmtree(Path(source.root, "data"))
    make_dataset(Path(source.root), 1)
    with pytest.raises(HubError, match=r"changes of .*samples.* that were not pushed"):
        vrldata.pull(TARGET, source.root)
    assert source.samples.count() == 1


def test_releases_that_others_dropped_or_moved_stay_in_the_source(
    source: vrldata.Dataset, tmp_path: Path
) -> None:
    other = vrldata.open(vrldata.pull(f"{TARGET}@v1", tmp_path / "other").folder)
    other.push(TARGET, force=True)
    with pytest.raises(HubError, match=r"holds an older or another state now \(.*release v2"):
        vrldata.pull(TARGET, source.root)
    for name in ("a", "b", "c", "d"):
        add_sample(other, name)
    for release in ("v2", "v3"):
        other.create_release(release)
    other.push(TARGET, force=True)
    with pytest.raises(HubError, match=r"holds an older or another state now \(.*release v2"):
        vrldata.pull(TARGET, source.root)
    assert [one.name for one in source.list_releases()] == ["v1", "v2"]


def test_a_data_file_that_was_exchanged_on_the_hub_changes_none_here(
    hub: HubServer, source: vrldata.Dataset
) -> None:
    path = next(path for path in hub.files("me/clips") if path.startswith("data/samples.lance/data/"))
    hub.add_file("me/clips", path, b"other")
    with pytest.raises(HubError, match=rf"another state now \({path}"):
        vrldata.pull(TARGET, source.root)
    assert source.verify(deep=True).problems in ((), [])


def test_an_older_release_is_not_pulled_into_the_source(source: vrldata.Dataset) -> None:
    with pytest.raises(HubError, match="older or another state"):
        vrldata.pull(f"{TARGET}@v1", source.root)
    assert vrldata.pull(f"{TARGET}@v2", source.root).downloaded == 0


def test_a_version_that_is_committed_meanwhile_is_not_overwritten(
    source: vrldata.Dataset, colleague: vrldata.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vrldata import hub_pull

    check = hub_pull.check_fast_forward

    def commit_after(*arguments: object) -> None:
        check(*arguments)  # type: ignore[arg-type]
        add_sample(source, "meanwhile")

    monkeypatch.setattr(hub_pull, "check_fast_forward", commit_after)
    with pytest.raises(HubError, match="cannot be written: File exists"):
        vrldata.pull(TARGET, source.root)
    assert source.samples.count(filter="sample_id = 'meanwhile'") == 1


def test_a_pull_into_the_source_that_is_killed_goes_on(
    hub: HubServer, source: vrldata.Dataset, colleague: vrldata.Dataset, tmp_path: Path
) -> None:
    offline = {"HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1"}
    with KilledRuns(HF_ENDPOINT=hub.url, HF_TOKEN=hub.token, **offline) as runs:
        for step in itertools.count(1, 2):
            folder = str(shutil.copytree(source.root, tmp_path / f"killed-{step}"))
            if runs("pull", killed_at=step, source=TARGET, folder=folder):
                break
            assert same_content(source, vrldata.open(f"{folder}@v2")), step
            vrldata.pull(TARGET, folder)
            assert same_content(colleague, vrldata.open(folder)), step
    assert step > 10


def test_a_dataset_that_can_only_be_read_is_pushed_all_the_same(
    source: vrldata.Dataset, caplog: pytest.LogCaptureFixture
) -> None:
    cache = Path(source.root, ".cache")
    shutil.rmtree(cache)
    cache.touch()
    assert source.push(TARGET).commit
    assert "all is published, but later pulls" in caplog.text


@pytest.mark.parametrize("release", ["", "@v1"])
def test_a_folder_whose_pull_was_interrupted_says_how_to_go_on(
    hub: HubServer, source: vrldata.Dataset, tmp_path: Path, release: str
) -> None:
    folder = tmp_path / "copy"
    for damaged in ("/data/", "/_versions/"):
        hub.damaged = {path for path in hub.files("me/clips", "v1") if damaged in path.removeprefix("data")}
        with pytest.raises(HubError, match="digest"):
            vrldata.pull(f"{TARGET}{release}", folder)
        advice = rf"interrupted; `vrldata pull {TARGET}{release} {folder}` continues it"
        with pytest.raises(VRLError, match=advice):
            vrldata.open(folder).info()
        shutil.rmtree(folder / "data", ignore_errors=True)
        with pytest.raises(VRLError, match=advice):
            vrldata.open(folder)
    hub.damaged = set()
    vrldata.pull(f"{TARGET}{release}", folder)
    assert vrldata.open(folder).info()["releases"]


@pytest.mark.parametrize(
    "record", ["{", "[]x", '[{"repo_id": "me/clips"}]', '[{"manifests": {}}]', "3", "[3]"]
)
def test_a_record_that_cannot_be_read_is_an_error_of_one_line(source: vrldata.Dataset, record: str) -> None:
    Path(source.root, RECORD_FILE).write_text(record)
    with pytest.raises(HubError, match=r"vrl-hub\.json: cannot be read"):
        vrldata.pull(TARGET, source.root)

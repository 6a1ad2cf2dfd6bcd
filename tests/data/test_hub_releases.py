"""What a push does to releases that are published already, and to repositories that are public."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import vrldata
import vrldata.hub
from tests.data.hub_server import HubServer
from tests.data.published import TARGET, add_sample
from vrldata.commands import hub as commands
from vrldata.errors import HubError, UriError


@pytest.fixture
def dataset(tmp_path: Path, make_dataset: Callable[..., vrldata.Dataset]) -> vrldata.Dataset:
    made = make_dataset(tmp_path / "clips", 2)
    made.create_release("v1", "first")
    return made


def make_anew(dataset: vrldata.Dataset) -> None:
    """Move v1 to other content."""
    add_sample(dataset, "more")
    dataset.create_release("v1", "again", force=True)


def test_a_release_made_anew_moves_its_tag_with_force_only(
    hub: HubServer, dataset: vrldata.Dataset, capsys: pytest.CaptureFixture[str]
) -> None:
    first = dataset.push(TARGET).commit
    make_anew(dataset)
    with pytest.raises(
        HubError, match=r"names made anew here: v1\. A push with --force moves the tag"
    ) as caught:
        dataset.push(TARGET)
    assert caught.value.exit_code == 2
    repository = hub.repositories["me/clips"]
    assert repository.branches["main"] == repository.tags["v1"] == first
    commands.push(dataset.root, TARGET, force=True)
    assert "tags that were another release before: v1\n" in capsys.readouterr().out
    assert repository.tags["v1"] == repository.branches["main"] != first
    assert vrldata.open(f"{TARGET}@v1").samples.count() == 3


def test_the_same_content_under_the_same_name_is_pushed_in_silence(
    hub: HubServer, dataset: vrldata.Dataset, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset.push(TARGET)
    dataset.create_release("v1", "the same rows", force=True)
    for _ in range(2):
        commands.push(dataset.root, TARGET)
        assert "tag" not in capsys.readouterr().out


def test_a_forced_push_that_was_cut_off_goes_on_with_force(
    hub: HubServer, dataset: vrldata.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest state is the new one then, the tag still the old one."""

    def refuse(*arguments: object, **options: object) -> None:
        raise HubError("cut off")

    first = dataset.push(TARGET).commit
    make_anew(dataset)
    with monkeypatch.context() as patch:
        patch.setattr(vrldata.hub, "set_tag", refuse)
        with pytest.raises(HubError, match="cut off"):
            dataset.push(TARGET, force=True)
    assert hub.repositories["me/clips"].tags["v1"] == first
    with pytest.raises(HubError, match="made anew here: v1"):
        dataset.push(TARGET)
    assert dataset.push(TARGET, force=True).moved_tags == ("v1",)


def test_force_moves_the_tag_of_an_unrelated_dataset_too(
    hub: HubServer, dataset: vrldata.Dataset, tmp_path: Path, make_dataset: Callable[..., vrldata.Dataset]
) -> None:
    add_sample(dataset, "more")
    dataset.create_release("v2")
    dataset.push(TARGET)
    other = make_dataset(tmp_path / "other", 1)
    other.create_release("v1")
    with pytest.raises(HubError, match=r"not here: v2; other content under the same names: v1\. Pull it"):
        other.push(TARGET)
    report = other.push(TARGET, force=True)
    assert (report.tags, report.moved_tags, report.deleted_tags) == (("v1",), ("v1",), ("v2",))
    assert vrldata.open(f"{TARGET}@v1").samples.count() == 1


def test_the_release_to_publish_is_named_in_front(hub: HubServer, dataset: vrldata.Dataset) -> None:
    with pytest.raises(UriError, match=rf"`vrldata push {dataset.root}@v1 {TARGET}`\) or with --release v1"):
        dataset.push(f"{TARGET}@v1")
    assert not hub.repositories


def test_private_is_refused_where_the_repository_is_public(hub: HubServer, dataset: vrldata.Dataset) -> None:
    head = dataset.push(TARGET).commit
    add_sample(dataset, "secret")
    with pytest.raises(
        HubError, match=r"is public.*/datasets/me/clips/settings\), or leave --private"
    ) as caught:
        dataset.push(TARGET, private=True)
    assert caught.value.exit_code == 2
    assert hub.repositories["me/clips"].branches["main"] == head
    hub.repositories["me/clips"].private = True
    assert dataset.push(TARGET, private=True).uploaded > 0


@pytest.mark.parametrize("first_private", [True, False])
def test_a_first_push_that_fails_does_not_decide_in_silence_who_may_read(
    hub: HubServer, dataset: vrldata.Dataset, first_private: bool
) -> None:
    hub.fail_commits_after = 0
    with pytest.raises(HubError, match="refused for the test"):
        dataset.push(TARGET, private=first_private)
    hub.fail_commits_after = None
    if first_private:
        dataset.push(TARGET)
        assert hub.repositories["me/clips"].private
    else:
        with pytest.raises(HubError, match="is public"):
            dataset.push(TARGET, private=True)
        assert "releases.json" not in hub.files("me/clips")

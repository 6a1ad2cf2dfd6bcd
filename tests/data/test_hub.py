"""Push and pull against a server on this machine that speaks the Hub's HTTP API."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

import vrldata
import vrldata.hub
import vrldata.hub_client
from tests.data.published import TARGET, add_large_clip, add_sample, response, same_content
from vrldata.card import read_card, write_card
from vrldata.errors import HubError, StoreError, UriError
from vrldata.hub_client import scrubbed
from vrldata.hub_layout import checked_path
from vrldata.hub_pull import pull


@pytest.fixture
def dataset(tmp_path: Path, make_dataset: Callable[..., vrldata.Dataset]) -> vrldata.Dataset:
    made = make_dataset(tmp_path / "clips", 5)
    # one payload of its own file, beside the packed small ones
    add_large_clip(made, 100)
    made.add_trajectories([response(0)])
    made.create_release("v1", "first")
    return made


def test_push_and_pull_give_the_same_dataset(hub: Any, dataset: vrldata.Dataset, tmp_path: Path) -> None:
    report = dataset.push(TARGET)
    assert report.tags == ("v1",)
    assert hub.repositories["me/clips"].tags == {"v1": report.commit}
    fetched = pull(f"{TARGET}@v1", tmp_path / "copy")
    assert (fetched.release, fetched.commit) == ("v1", report.commit)
    copy = vrldata.open(tmp_path / "copy")
    assert same_content(dataset, copy)
    assert [one.digest for one in copy.list_releases()] == [one.digest for one in dataset.list_releases()]
    assert vrldata.open(f"{tmp_path / 'copy'}@v1").samples.count() == 5
    assert copy.lance("samples").tags.list().keys() == {"v1"}


def test_data_goes_up_before_what_makes_it_visible(hub: Any, dataset: vrldata.Dataset) -> None:
    dataset.push(TARGET)
    repository = hub.repositories["me/clips"]
    *earlier, last = repository.commits.values()
    assert len(earlier) >= 2
    assert all("_versions" not in path for files in earlier for path in files)
    data = {path for path in last if "/data/" in path.removeprefix("data/")}
    assert data
    assert data <= set(earlier[-1])


def test_only_what_changed_is_sent(hub: Any, dataset: vrldata.Dataset, tmp_path: Path) -> None:
    dataset.push(TARGET)
    sent, commits = len(hub.uploads), len(hub.repositories["me/clips"].commits)
    again = dataset.push(TARGET)
    assert (again.uploaded, again.deleted, again.tags) == (0, 0, ())
    assert len(hub.repositories["me/clips"].commits) == commits
    dataset.add_trajectories([response(1)])
    dataset.create_release("v2")
    third = dataset.push(TARGET)
    assert third.tags == ("v2",)
    assert third.unchanged > third.uploaded
    new = [hub.blobs[oid] for oid in hub.uploads[sent:]]
    assert max(map(len, new)) < 100_000
    pull(TARGET, tmp_path / "copy")
    hub.downloads.clear()
    before = len(hub.downloads)
    assert pull(TARGET, tmp_path / "copy").downloaded == len(hub.downloads) - before == 0


def test_pull_brings_an_earlier_pull_up_to_date(hub: Any, dataset: vrldata.Dataset, tmp_path: Path) -> None:
    dataset.push(TARGET)
    pull(TARGET, tmp_path / "copy")
    add_sample(dataset, "more")
    dataset.create_release("v2")
    dataset.push(TARGET)
    report = pull(TARGET, tmp_path / "copy")
    assert report.unchanged > 0
    assert vrldata.open(tmp_path / "copy").samples.count() == 6
    assert vrldata.open(f"{tmp_path / 'copy'}@v1").samples.count() == 5
    old = pull(f"{TARGET}@v1", tmp_path / "old")
    assert old.release == "v1"
    assert vrldata.open(tmp_path / "old").samples.count() == 5


def test_a_pulled_dataset_can_be_changed_and_pushed_again(
    hub: Any, dataset: vrldata.Dataset, tmp_path: Path
) -> None:
    dataset.push(TARGET)
    pull(TARGET, tmp_path / "copy")
    copy = vrldata.open(tmp_path / "copy")
    add_sample(copy, "more")
    with pytest.raises(HubError, match="was changed after it was pulled"):
        pull(TARGET, tmp_path / "copy")
    copy.create_release("v2")
    assert copy.push(TARGET).tags == ("v2",)
    with pytest.raises(HubError, match="releases that are not here: v2"):
        dataset.push(TARGET)
    assert dataset.push(TARGET, force=True).uploaded > 0
    assert hub.repositories["me/clips"].tags.keys() == {"v1"}


def test_a_dataset_on_the_hub_can_be_pulled_by_its_handle(
    hub: Any, dataset: vrldata.Dataset, tmp_path: Path
) -> None:
    dataset.push(TARGET)
    report = vrldata.open(f"{TARGET}@v1").pull(tmp_path / "copy")
    assert (report.release, report.folder) == ("v1", str(tmp_path / "copy"))
    assert same_content(dataset, vrldata.open(f"{report.folder}@v1"))
    with pytest.raises(UriError, match="expected hf://datasets"):
        dataset.pull(tmp_path / "other")


def test_lazy_reading_over_http(hub: Any, dataset: vrldata.Dataset) -> None:
    dataset.push(TARGET)
    add_sample(dataset, "more")
    dataset.create_release("v2")
    dataset.push(TARGET)
    for release, count in (("v1", 5), ("v2", 6)):
        remote = vrldata.open(f"{TARGET}@{release}")
        assert remote.samples.count() == count
    sample = next(remote.iter_samples(filter="sample_id = 's0'"))
    frames = remote.clip_by_id(sample.clip_ids[0]).frames
    assert (frames == dataset.clip_by_id(sample.clip_ids[0]).frames).all()
    hub.downloads.clear()
    large = vrldata.SamplingSpec().clip_id("videos/large-100.mp4")
    part = remote.clip_by_id(large, indices=[2])
    assert (part.frames[0] == dataset.clip_by_id(large).frames[2]).all()
    assert remote.sql("SELECT count(*) AS n FROM trajectories")["n"].to_pylist() == [1]


def test_a_private_repository_is_read_with_the_token_only(
    hub: Any, dataset: vrldata.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset.push(TARGET, private=True)
    assert hub.repositories["me/clips"].private
    assert vrldata.open(TARGET).samples.count() == 5
    assert pull(TARGET, tmp_path / "copy").downloaded > 0
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(HubError, match="no such dataset repository, or the token may not see it"):
        pull(TARGET, tmp_path / "other")
    with pytest.raises(UriError, match="the token may not see it"):
        vrldata.open(TARGET)


def test_release_publishes_its_state_and_the_ones_before(
    hub: Any, dataset: vrldata.Dataset, tmp_path: Path
) -> None:
    add_sample(dataset, "second")
    dataset.create_release("v2")
    add_sample(dataset, "third")
    dataset.create_release("v3")
    assert dataset.push(TARGET, release="v2").tags == ("v1", "v2")
    pull(TARGET, tmp_path / "copy")
    copy = vrldata.open(tmp_path / "copy")
    assert copy.samples.count() == 6
    assert [one.name for one in copy.list_releases()] == ["v1", "v2"]
    with pytest.raises(UriError, match="no release 'v9'"):
        dataset.push(TARGET, release="v9")


def test_the_files_at_a_git_tag_are_that_release(
    hub: Any, dataset: vrldata.Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both releases and a state after them arrive in one push; each tag still is its release alone."""
    from vrldata.commands import hub as commands

    add_sample(dataset, "second")
    dataset.create_release("v2")
    add_sample(dataset, "third")
    assert dataset.push(TARGET).tags == ("v1", "v2")
    commands.pull(f"{TARGET}@v1", tmp_path / "copy")
    assert capsys.readouterr().out.endswith(f"open it as {tmp_path / 'copy'}\n")
    copy = vrldata.open(tmp_path / "copy")
    assert (copy.samples.count(), [one.name for one in copy.list_releases()]) == (5, ["v1"])
    rows = [pq.read_table(path).num_rows for path in (tmp_path / "copy" / "parquet" / "samples").iterdir()]
    assert sum(rows) == 5
    # the same folder goes on to the newest state, and back
    pull(TARGET, tmp_path / "copy")
    assert vrldata.open(tmp_path / "copy").samples.count() == 7
    pull(f"{TARGET}@v2", tmp_path / "copy")
    assert vrldata.open(tmp_path / "copy").samples.count() == 6


def test_a_tag_that_holds_more_than_its_release_says_how_to_open_it(
    hub: Any, dataset: vrldata.Dataset, tmp_path: Path
) -> None:
    add_sample(dataset, "more")
    head = dataset.push(TARGET).commit
    hub.repositories["me/clips"].tags["v1"] = head  # moved by hand to the newest state
    report = pull(f"{TARGET}@v1", tmp_path / "copy")
    assert report.opens_as == f"{tmp_path / 'copy'}@v1"
    assert vrldata.open(report.opens_as).samples.count() == 5


def test_an_older_release_does_not_push_later_ones_away(hub: Any, dataset: vrldata.Dataset) -> None:
    add_sample(dataset, "second")
    dataset.create_release("v2")
    dataset.push(TARGET)
    with pytest.raises(HubError, match=r"came after v1 here: v2\. `vrldata push \S+ \S+me/clips`, without"):
        vrldata.open(f"{dataset.root}@v1").push(TARGET)


def test_a_push_says_what_it_deletes_and_why(
    hub: Any, dataset: vrldata.Dataset, capsys: pytest.CaptureFixture[str]
) -> None:
    from vrldata.commands import hub as commands

    add_sample(dataset, "after the release")
    dataset.push(TARGET)
    commands.push(f"{dataset.root}@v1", TARGET)
    said = capsys.readouterr().out
    assert re.search(
        r"deleted, as neither a release nor the newest state needs them: \d+ of data/samples", said
    )
    assert vrldata.open(TARGET).samples.count() == 5


def test_an_interrupted_push_goes_on_where_it_stopped(
    hub: Any, dataset: vrldata.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vrldata.hub, "FILES_A_COMMIT", 2)
    hub.fail_after_uploads = 3
    with pytest.raises(HubError, match="cut off for the test"):
        dataset.push(TARGET)
    assert all("_versions" not in path for path in hub.files("me/clips"))
    with pytest.raises(HubError, match="holds no vrl dataset"):
        pull(TARGET, tmp_path / "copy")
    hub.fail_after_uploads = None
    dataset.push(TARGET)
    assert len(hub.uploads) == len(set(hub.uploads))
    pull(TARGET, tmp_path / "copy")
    assert same_content(dataset, vrldata.open(tmp_path / "copy"))


def test_an_update_that_is_cut_off_leaves_the_old_state(
    hub: Any, dataset: vrldata.Dataset, tmp_path: Path
) -> None:
    dataset.push(TARGET)
    add_sample(dataset, "more")
    dataset.create_release("v2")
    hub.fail_commits_after = len(hub.repositories["me/clips"].commits)
    with pytest.raises(HubError, match="refused for the test"):
        dataset.push(TARGET)
    pull(TARGET, tmp_path / "copy")
    assert vrldata.open(tmp_path / "copy").samples.count() == 5
    hub.fail_commits_after = None
    assert dataset.push(TARGET).tags == ("v2",)


def test_an_interrupted_pull_goes_on_and_a_damaged_file_is_refused(
    hub: Any, dataset: vrldata.Dataset, tmp_path: Path
) -> None:
    dataset.push(TARGET)
    [manifest, *_] = [
        path for path in hub.files("me/clips") if path.startswith("data/samples.lance/_versions/1")
    ]
    hub.damaged.add(manifest)
    with pytest.raises(HubError, match="does not have the digest"):
        pull(TARGET, tmp_path / "copy")
    assert not (tmp_path / "copy" / manifest).exists()
    hub.damaged.clear()
    report = pull(TARGET, tmp_path / "copy")
    assert report.unchanged > 0
    assert same_content(dataset, vrldata.open(tmp_path / "copy"))


@pytest.mark.parametrize(
    "path",
    [
        "../evil.txt",
        "data/samples.lance/data/../../../../evil.txt",
        "/etc/evil.txt",
        "data/samples.lance/_versions/..\\..\\evil",
        "C:/evil.txt",
        "data/samples.lance/data/a\nb.lance",
    ],
)
def test_a_hostile_repository_writes_nothing(
    hub: Any, dataset: vrldata.Dataset, tmp_path: Path, path: str
) -> None:
    dataset.push(TARGET)
    hub.add_file("me/clips", path, b"evil")
    with pytest.raises(HubError, match="leaves its folder"):
        pull(TARGET, tmp_path / "deep" / "copy")
    assert not (tmp_path / "deep").exists()
    assert not list(tmp_path.rglob("evil*"))


@pytest.mark.parametrize(
    "listed", [b"[" * 100_000, b'{"v1": 1}', b'["v1"]', b"\xff\xfe", b"null", b'[{"name": "v1"}]']
)
def test_a_hostile_list_of_releases_is_an_error_of_one_line(
    hub: Any, dataset: vrldata.Dataset, listed: bytes
) -> None:
    dataset.push(TARGET)
    before = hub.files("me/clips")
    hub.add_file("me/clips", "releases.json", listed)
    with pytest.raises(HubError, match=r"releases\.json of the repository cannot be read") as caught:
        dataset.push(TARGET)
    assert "\n" not in str(caught.value)
    assert {**hub.files("me/clips"), "releases.json": before["releases.json"]} == before


def test_a_payload_that_was_exchanged_on_the_hub_is_found(
    hub: Any, dataset: vrldata.Dataset, tmp_path: Path
) -> None:
    """The Hub names the digest of the new bytes, the row that of the old ones."""
    dataset.push(TARGET)
    [path] = [path for path in hub.files("me/clips") if path.endswith(".blob")]
    hub.add_file("me/clips", path, bytes(len(hub.files("me/clips")[path].data)))
    copy = vrldata.open(vrldata.pull(TARGET, tmp_path / "copy").folder)
    assert [problem.table for problem in copy.verify(deep=True).problems] == ["frames"]


def test_files_outside_the_layout_are_left_alone(hub: Any, dataset: vrldata.Dataset, tmp_path: Path) -> None:
    dataset.push(TARGET)
    hub.add_file("me/clips", "loader.py", b"import os")
    hub.add_file("me/clips", "data/other.lance/data/x", b"x")
    pull(TARGET, tmp_path / "copy")
    assert not (tmp_path / "copy" / "loader.py").exists()
    assert not (tmp_path / "copy" / "data" / "other.lance").exists()
    assert "loader.py" in hub.files("me/clips")
    assert checked_path("loader.py") is None


def test_a_link_in_the_folder_is_not_followed(hub: Any, dataset: vrldata.Dataset, tmp_path: Path) -> None:
    dataset.push(TARGET)
    pull(TARGET, tmp_path / "copy")
    outside = tmp_path / "outside"
    (tmp_path / "copy" / "parquet").rename(outside)
    (tmp_path / "copy" / "parquet").symlink_to(outside)
    with pytest.raises(HubError, match="symbolic link"):
        pull(TARGET, tmp_path / "copy")


def test_folders_of_another_origin_are_refused(hub: Any, dataset: vrldata.Dataset, tmp_path: Path) -> None:
    dataset.push(TARGET)
    other = vrldata.open(shutil.copytree(f"{dataset.root}/data", tmp_path / "other" / "data").parent)
    with pytest.raises(HubError, match="neither pulled from me/clips nor pushed to it"):
        pull(TARGET, other.root)
    other.push("hf://datasets/me/other")
    pull("hf://datasets/me/other", tmp_path / "copy")
    for folder in (other.root, tmp_path / "copy"):
        with pytest.raises(HubError, match="belongs to me/other, not to me/clips"):
            pull(TARGET, folder)


def test_a_folder_with_other_files_is_refused(hub: Any, dataset: vrldata.Dataset, tmp_path: Path) -> None:
    dataset.push(TARGET)
    media = tmp_path / "media"
    media.mkdir()
    (media / "cat.mp4").touch()
    with pytest.raises(HubError, match="holds other files and no dataset; choose a new or an empty folder"):
        pull(TARGET, media)
    with pytest.raises(HubError, match=r"cat\.mp4: is a file, not a folder; choose a new or an empty folder"):
        pull(TARGET, media / "cat.mp4")
    assert [path.name for path in media.iterdir()] == ["cat.mp4"]
    (media / "cat.mp4").unlink()
    assert pull(TARGET, media).downloaded > 0


def test_missing_repositories_and_releases_are_named(
    hub: Any, dataset: vrldata.Dataset, tmp_path: Path
) -> None:
    with pytest.raises(HubError, match="pull me/none: no such dataset repository"):
        pull("hf://datasets/me/none", tmp_path / "copy")
    dataset.push(TARGET)
    with pytest.raises(HubError, match=r"no release 'v2'\. Releases: v1"):
        pull(f"{TARGET}@v2", tmp_path / "copy")
    with pytest.raises(UriError, match="expected hf://"):
        dataset.push(str(tmp_path))
    with pytest.raises(UriError, match="push takes the whole dataset"):
        vrldata.open(f"{dataset.root}?split=val").push(TARGET)
    with pytest.raises(
        StoreError, match=r"only a local dataset .* `vrldata pull hf://datasets/me/clips <folder>`"
    ):
        vrldata.open(TARGET).push("hf://datasets/me/other")


def test_opening_says_what_the_hub_says(
    hub: Any, dataset: vrldata.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UriError, match="open me/none: no such dataset repository"):
        vrldata.open("hf://datasets/me/none@v1")
    dataset.push(TARGET, private=True)
    with pytest.raises(UriError, match=r"open me/clips: no release 'v2'\. Releases: v1"):
        vrldata.open(f"{TARGET}@v2")
    wrong = "hf_wrongTokenWrongToken"
    with monkeypatch.context() as patch:
        patch.setenv("HF_TOKEN", wrong)
        with pytest.raises(UriError, match="hf auth login") as caught:
            vrldata.open(TARGET)
    assert wrong not in str(caught.value)
    monkeypatch.setattr(vrldata.hub_client, "ATTEMPTS", 1)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(UriError, match="open me/clips: the Hub cannot be reached"):
        vrldata.open(TARGET)


def test_a_repository_that_a_failed_push_left_empty_says_push_again(
    hub: Any, dataset: vrldata.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise HubError("cut off")

    with monkeypatch.context() as patch:
        patch.setattr(vrldata.hub, "_upload", refuse)
        with pytest.raises(HubError, match="cut off"):
            dataset.push(TARGET)
    for uri in (TARGET, f"{TARGET}@v1"):
        with pytest.raises(UriError, match=r"holds no vrl dataset yet .* push again"):
            vrldata.open(uri)
        with pytest.raises(HubError, match=r"holds no vrl dataset yet .* push again"):
            pull(uri, tmp_path / "copy")


def test_a_hub_without_xet_names_the_setting(
    hub: Any, dataset: vrldata.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("hf_xet")
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", False)
    monkeypatch.setattr(vrldata.hub_client, "ATTEMPTS", 1)
    with pytest.raises(HubError, match="HF_HUB_DISABLE_XET=1"):
        dataset.push(TARGET)


def test_a_wrong_token_is_refused_and_appears_nowhere(
    hub: Any,
    dataset: vrldata.Dataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    wrong = "hf_wrongTokenWrongToken"
    monkeypatch.setenv("HF_TOKEN", wrong)
    caplog.set_level(logging.DEBUG)
    with pytest.raises(HubError, match="token is missing or wrong") as caught:
        dataset.push(TARGET)
    said = "".join(capfd.readouterr())
    assert wrong not in str(caught.value) + caplog.text + said
    assert caught.value.__cause__ is None
    assert "hf auth login" in str(caught.value)


def test_the_right_token_is_in_no_file_and_no_log(
    hub: Any,
    dataset: vrldata.Dataset,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    dataset.push(TARGET, private=True)
    pull(TARGET, tmp_path / "copy")
    remote = vrldata.open(TARGET)
    assert remote.samples.count() == 5
    assert hub.token not in caplog.text + "".join(capfd.readouterr()) + repr(remote)
    token = hub.token.encode()
    assert not any(token in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert not any(token in file.data for file in hub.files("me/clips").values())


def test_tokens_and_signatures_are_cut_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "not-of-the-usual-form")
    text = "not-of-the-usual-form, Bearer abc https://x/y?X-Amz-Signature=ab12&part=1"
    assert scrubbed(text) == "***, *** https://x/y?X-Amz-Signature=***&part=1"


def test_an_overloaded_hub_is_asked_again(
    hub: Any, dataset: vrldata.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vrldata import hub_client

    dataset.push(TARGET)
    monkeypatch.setattr(hub_client, "ATTEMPTS", 3)
    monkeypatch.setattr(hub_client.time, "sleep", lambda seconds: None)
    hub.busy = 2
    assert list(hub_client.tags_of(hub_client.hub_api(), "me/clips", "tags")) == ["v1"]
    hub.busy = 3
    with pytest.raises(HubError, match="tags: the Hub answered 503"):
        hub_client.tags_of(hub_client.hub_api(), "me/clips", "tags")


def test_a_hub_out_of_reach_is_an_error_of_one_line(
    dataset: vrldata.Dataset, tmp_path: Path, hub: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(HubError, match=r"push to me/clips: the Hub cannot be reached: .*refused"):
        dataset.push(TARGET)
    with pytest.raises(HubError, match="pull me/clips: the Hub cannot be reached"):
        vrldata.pull(TARGET, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_the_card_is_written_from_the_data(hub: Any, dataset: vrldata.Dataset) -> None:
    dataset.push(TARGET)
    files = hub.files("me/clips")
    text = files["README.md"].data.decode()
    matter = yaml.safe_load(text.split("---")[1])
    assert matter["size_categories"] == ["n<1K"]
    assert [config["config_name"] for config in matter["configs"]] == ["samples", "trajectories"]
    assert [file["split"] for file in matter["configs"][0]["data_files"]] == ["train", "val"]
    assert 'vrldata.open("hf://datasets/me/clips@v1")' in text
    assert re.search(r"\| multiple\\_choice \| 2 \|", text)
    assert "![Samples" in text
    assert files["preview.png"].data.startswith(b"\x89PNG")
    assert json.loads(files["releases.json"].data)[0]["name"] == "v1"


def test_what_the_user_wrote_into_the_card_stays(
    hub: Any, dataset: vrldata.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset.push(TARGET)
    text = hub.files("me/clips")["README.md"].data.decode()
    edited = text.replace("---\n", "---\nlicense: cc-by-4.0\n", 1) + "\n## Citation\n\n@misc{me}\n"
    repository = hub.repositories["me/clips"]
    stored = type(hub.files("me/clips")["README.md"])(edited.encode(), lfs=False)
    repository.commit("main", {**hub.files("me/clips"), "README.md": stored}, "edit in the browser")
    add_sample(dataset, "more")
    dataset.push(TARGET)
    card = read_card(hub.files("me/clips")["README.md"].data.decode())
    assert card.fields["license"] == "cc-by-4.0"
    assert card.after == "## Citation\n\n@misc{me}"
    assert not card.edited
    assert "6 questions" in hub.files("me/clips")["README.md"].data.decode()


def test_a_card_on_disk_that_was_edited_wins(hub: Any, dataset: vrldata.Dataset) -> None:
    dataset.push(TARGET)
    path = write_card(dataset)
    path.write_text(path.read_text().replace("---\n", "---\nlicense: mit\n", 1))
    assert read_card(path.read_text()).edited
    dataset.push(TARGET)
    assert read_card(hub.files("me/clips")["README.md"].data.decode()).fields["license"] == "mit"


def test_parquet_copies_hold_the_rows(hub: Any, dataset: vrldata.Dataset, tmp_path: Path) -> None:
    dataset.push(TARGET)
    pull(TARGET, tmp_path / "copy")
    found = [
        row["sample_id"]
        for path in sorted((tmp_path / "copy" / "parquet" / "samples").iterdir())
        for row in pq.read_table(path).to_pylist()
    ]
    assert sorted(found) == ["s0", "s1", "s2", "s3", "s4"]


def test_datasets_loads_the_repository_without_vrl(
    hub: Any, dataset: vrldata.Dataset, tmp_path: Path
) -> None:
    """In a process of its own: `datasets` reads the endpoint when it is imported."""
    dataset.push(TARGET)
    program = (
        "import datasets\n"
        "rows = datasets.load_dataset('me/clips', 'samples', split='val')\n"
        "print(rows['sample_id'], rows[0]['options'])\n"
        "print(datasets.load_dataset('me/clips', 'trajectories', split='train')['response'])\n"
    )
    environment = {
        **os.environ,
        "HF_ENDPOINT": hub.url,
        "HF_HUB_OFFLINE": "0",
        "HF_HUB_DISABLE_XET": "1",
        "HF_HOME": str(tmp_path / "home"),
    }
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == [
        "Column(['s4']) ['first', 'second']",
        "Column(['response 0'])",
    ]


def test_commands_print_what_was_done(
    hub: Any, dataset: vrldata.Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from vrldata.commands import hub as commands

    commands.push(dataset.root, TARGET)
    assert re.search(r"me/clips: \d+ files sent .*, tags v1", capsys.readouterr().out)
    commands.pull(f"{TARGET}@v1", tmp_path / "copy")
    assert "files fetched" in capsys.readouterr().out
    commands.card(dataset.root)
    assert capsys.readouterr().out.strip() == f"{dataset.root}/README.md"

"""The snippet of a dataset card: what a reader copies from it runs as it stands."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import vrldata
from tests.data.published import TARGET, add_sample
from vrldata.card import write_card
from vrldata.commits import merge_rows
from vrldata.tables import sample_to_row
from vrldata.types import Sample

MakeDataset = Callable[..., vrldata.Dataset]


def run_snippet(card: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What the Python block of a card prints, run in `folder`."""
    [snippet] = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    os.chdir(folder)
    capsys.readouterr()
    exec(compile(snippet, "README.md", "exec"), {})
    return capsys.readouterr().out


@pytest.fixture(autouse=True)
def _keep_working_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path.cwd())


def text_only_and_failed(root: Path) -> vrldata.Dataset:
    """Two samples without clips, in front of any that follow."""
    dataset = vrldata.create(root)
    failed = Sample(sample_id="failed", problem="p", answer="A", problem_type="ocr", videos=("no.mp4",))
    add_sample(dataset, "text")
    merge_rows(dataset, "samples", [sample_to_row(failed)])
    return dataset


def test_the_snippet_reads_a_clip(
    tmp_path: Path, make_dataset: MakeDataset, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset = make_dataset(tmp_path / "clips", 2)
    card = write_card(dataset).read_text()
    assert run_snippet(card, tmp_path / "clips", capsys).endswith("(4, 32, 32, 3)\n")
    assert "pip install" not in card


def test_the_snippet_passes_samples_without_clips(
    tmp_path: Path, make_dataset: MakeDataset, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "clips"
    text_only_and_failed(root)
    dataset = make_dataset(root, 1)
    assert not next(dataset.iter_samples()).clip_ids
    assert run_snippet(write_card(dataset).read_text(), root, capsys).endswith("(4, 32, 32, 3)\n")


@pytest.mark.parametrize(("make", "printed"), [(vrldata.create, ""), (text_only_and_failed, "new? A\n")])
def test_a_dataset_without_clips_has_a_snippet_without_clips(
    tmp_path: Path,
    make: Callable[[Path], vrldata.Dataset],
    printed: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    card = write_card(make(tmp_path / "clips")).read_text()
    assert run_snippet(card, tmp_path / "clips", capsys) == printed
    assert "clips_of" not in card


def test_the_snippet_is_about_the_release_that_it_opens(
    tmp_path: Path, make_dataset: MakeDataset, capsys: pytest.CaptureFixture[str]
) -> None:
    """The release has no clips yet, the state after it has."""
    root = tmp_path / "clips"
    text_only_and_failed(root).create_release("v1")
    card = write_card(make_dataset(root, 1)).read_text()
    assert 'vrldata.open(".@v1")' in card
    assert run_snippet(card, root, capsys) == "new? A\n"


def test_the_snippet_of_a_published_card_runs(
    hub: object, tmp_path: Path, make_dataset: MakeDataset, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset = make_dataset(tmp_path / "clips", 1)
    dataset.create_release("v1")
    dataset.push(TARGET)
    card = (Path(vrldata.pull(TARGET, tmp_path / "copy").folder) / "README.md").read_text()
    assert f'vrldata.open("{TARGET}@v1")' in card
    assert run_snippet(card, tmp_path, capsys).endswith("(4, 32, 32, 3)\n")

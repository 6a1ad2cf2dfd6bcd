"""Every awkward annotation file with a known outcome does what is expected of it."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import shared_missing, shared_root
from vrldata.annotations import Annotations, read_annotations

BEHAVIOURS = ("accept", "warn", "reject_rows", "reject_file")


def expectations() -> list[dict[str, Any]]:
    file = shared_root() / "edge" / "annotations_expected.json"
    return json.loads(file.read_text(encoding="utf-8"))["files"] if file.is_file() else []


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory, shared_folder: Path) -> Path:
    folder = tmp_path_factory.mktemp("edge")
    for name in ("annotations.tar", "videos.tar"):
        with tarfile.open(shared_folder / "edge" / name) as archive:
            # links and odd names are what these archives are for
            archive.extractall(folder, filter="fully_trusted")
    return folder


def behaviour(found: Annotations) -> str:
    if any(rejection.whole_file for rejection in found.rejected):
        return "reject_file"
    return "reject_rows" if found.rejected else "warn" if found.warnings else "accept"


def alternative(expected: dict[str, Any]) -> str | None:
    """The other behaviour that is allowed, if one is named."""
    words = expected.get("alt_behaviour", "").split()
    return words[0] if words and words[0] in BEHAVIOURS else None


@pytest.mark.skipif(bool(shared_missing()), reason=str(shared_missing()))
@pytest.mark.parametrize("with_root", [True, False], ids=["root", "no-root"])
@pytest.mark.parametrize("expected", expectations(), ids=lambda expected: Path(expected["file"]).name)
def test_an_awkward_file_does_what_is_expected(
    unpacked: Path, expected: dict[str, Any], with_root: bool
) -> None:
    found = read_annotations(
        [unpacked / expected["file"]],
        video_root=unpacked if with_root else None,
        check_media=expected.get("check_media", True),
    )
    messages = [rejection.message for rejection in found.rejected]
    if behaviour(found) != expected["behaviour"]:
        assert behaviour(found) == alternative(expected), messages
        return
    assert len(found.samples) == expected["rows_ok"], messages
    for error in expected["errors"]:
        place = (error["line"], error["row"], error["field"])
        told = [
            report.message
            for report in [*found.rejected, *found.warnings]
            if (report.line, report.row, report.field) == place
        ]
        assert told, (place, messages)
        for word in error["reason_words"]:
            assert any(word.casefold() in message.casefold() for message in told), (word, told)
    if expected["behaviour"] == "reject_rows":
        places = {(error["line"], error["row"]) for error in expected["errors"]}
        assert {(rejection.line, rejection.row) for rejection in found.rejected} <= places
    check_normalised(found, expected.get("normalised"), unpacked, with_root)


def check_normalised(found: Annotations, normalised: Any, unpacked: Path, with_root: bool) -> None:
    """Compare with the forms that values should have got: answers, options, or fields by name."""
    if isinstance(normalised, list):
        if normalised and isinstance(normalised[0], list):
            assert [list(sample.options) for sample in found.samples] == normalised
        else:
            assert [sample.answer for sample in found.samples] == normalised
    for key, value in normalised.items() if isinstance(normalised, dict) else ():
        if key == "videos":
            base = unpacked if with_root else unpacked / "annotations"
            wanted = [(unpacked / "annotations" / path).resolve() for path in value]
            for sample in found.samples:
                assert [(base / path).resolve() for path in sample.videos] == wanted
            continue
        row, _, name = str(key).partition(".")
        if name in ("", "solution"):
            # by the row's own id, which counts from the file's first id
            ids = [sample.sample_id.rpartition("/")[2] for sample in found.samples]
            index = ids.index(row) if row in ids and not name else int(row)
            assert found.samples[index].answer == value


@pytest.mark.skipif(bool(shared_missing()), reason=str(shared_missing()))
def test_all_files_load_together(unpacked: Path) -> None:
    """Bad files beside good ones cost nothing but themselves, and ids stay unique."""
    expected = expectations()
    found = read_annotations([unpacked / item["file"] for item in expected], video_root=unpacked)
    single = [read_annotations([unpacked / item["file"]], video_root=unpacked) for item in expected]
    assert len(found.samples) == sum(len(one.samples) for one in single)
    assert len({sample.sample_id for sample in found.samples}) == len(found.samples)
    assert [r.message for r in found.rejected] == [r.message for one in single for r in one.rejected]

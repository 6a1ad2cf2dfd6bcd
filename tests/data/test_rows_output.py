"""Files of rows are whole or not there, and what cannot be written is one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from vrldata.errors import StoreError
from vrldata.rows_output import whole_file


def test_a_folder_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    with (
        pytest.raises(StoreError, match=r"taken/out\.csv: cannot be written"),
        whole_file(tmp_path / "taken" / "out.csv"),
    ):
        raise AssertionError("unreachable")
    assert (tmp_path / "taken").read_text() == "mine"


def test_an_error_on_the_way_leaves_the_file_of_before(tmp_path: Path) -> None:
    (tmp_path / "out.csv").write_text("before")
    with pytest.raises(KeyError), whole_file(tmp_path / "out.csv") as file:  # noqa: PT012
        file.write(b"half")
        raise KeyError("name")
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("out.csv", "before")]

"""Rows given as Python objects: from data frames and arrays, and what no file could hold."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vrldata
from vrldata.annotations import Annotations, read_annotations
from vrldata.errors import AnnotationError
from vrldata.sampling import SamplingSpec

pd = pytest.importorskip("pandas")

ROW: dict[str, Any] = {
    "problem_id": 1,
    "problem": "Which tool is used?",
    "problem_type": "multiple choice",
    "options": ["A. saw", "B. drill"],
    "solution": "B",
    "videos": ["a.mp4"],
}


def read(**fields: Any) -> Annotations:
    return read_annotations([{**ROW, **fields}], video_root="/media")


def test_rows_of_a_parquet_file_read_by_pandas_are_those_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    pd.DataFrame([ROW, {**ROW, "problem_id": 2, "start": 0.5}]).to_parquet(file)
    found = read_annotations(pd.read_parquet(file).to_dict("records"), video_root=tmp_path)
    assert found.samples == read_annotations([file], video_root=tmp_path).samples


@pytest.mark.parametrize(
    ("field", "value", "attribute", "stored"),
    [
        ("problem_id", np.int64(7), "sample_id", "rows/7"),
        ("options", np.array(["A. saw", "B. drill"]), "options", ("A. saw", "B. drill")),
        ("options", ("A. saw", "B. drill"), "options", ("A. saw", "B. drill")),
        ("videos", np.array(["a.mp4"], dtype=object), "videos", ("a.mp4",)),
        ("videos", [Path("b") / "a.mp4"], "videos", ("b/a.mp4",)),
        ("start", np.float64(1.5), "start", 1.5),
        ("pass_rate", np.float32(0.5), "pass_rate", 0.5),
        ("pass_rate", pd.NA, "pass_rate", None),
        ("when", pd.NaT, "extra", {"when": None}),
        (3, {"a": np.arange(2), 4: (1,)}, "extra", {"3": {"a": [0, 1], "4": [1]}}),
    ],
)
def test_values_become_plain(field: Any, value: Any, attribute: str, stored: Any) -> None:
    found = read_annotations([{**ROW, field: value}], video_root="/media")
    assert not found.rejected
    assert getattr(found.samples[0], attribute) == stored


def itself() -> dict[str, Any]:
    made: dict[str, Any] = {}
    made["again"] = made
    return made


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("problem", "a \ud800", "not_utf8"),
        ("videos", ["\ud800.mp4"], "not_utf8"),
        ("problem_id", 10**5000, "number_out_of_range"),
        ("solution", 10**5000, "number_out_of_range"),
        ("start", -(10**400), "number_out_of_range"),
        ("meta", itself(), "nested_too_deep"),
        ("solution", np.float64("nan"), "missing_answer"),
        ("solution", pd.NA, "missing_answer"),
        ("images", np.zeros((4, 4, 3), np.uint8), "embedded_media"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isascii() else type(value).__name__,
)
def test_what_no_file_could_hold_costs_only_its_row(field: str, value: Any, reason: str) -> None:
    found = read_annotations([{**ROW, field: value}, {**ROW, "problem_id": 2}], video_root="/media")
    assert [sample.sample_id for sample in found.samples] == ["rows/2"]
    [rejection] = found.rejected
    assert (rejection.row, rejection.field, rejection.reason) == (0, field, reason)


def test_an_empty_cell_of_a_data_frame_gives_way_to_a_filled_name() -> None:
    assert read(videos=float("nan"), video="b.mp4").samples[0].videos == ("b.mp4",)


def test_one_source_needs_no_list(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("id,problem,problem_type,answer\n1,How many?,numerical,3\n")
    for one in (str(file), file, ROW):
        assert len(read_annotations(one, video_root=tmp_path).samples) == 1


def test_paths_and_rows_may_come_one_by_one(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("id,problem,problem_type,answer\n1,How many?,numerical,3\n")

    def sources() -> Iterator[Any]:
        yield file
        yield ROW

    assert len(read_annotations(sources(), video_root=tmp_path).samples) == 2


def test_a_data_frame_is_refused_with_the_way_out(tmp_path: Path) -> None:
    dataset = vrldata.create(tmp_path / "made")
    with pytest.raises(AnnotationError, match="to_dict"):
        dataset.build(pd.DataFrame([ROW]), video_root=tmp_path, spec=SamplingSpec())

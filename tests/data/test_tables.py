"""Schemas of the tables and records as rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import vrldata
from vrldata.tables import (
    INDEXES,
    PAYLOAD_COLUMN,
    PRIMARY_KEYS,
    TABLES,
    row_to_sample,
    row_to_trajectory,
    rows_to_table,
    sample_to_row,
    schema,
    trajectory_id,
    trajectory_to_row,
    with_trajectory_ids,
)
from vrldata.types import Sample, Trajectory

CONTRACT = {
    "samples": (
        "sample_id split problem answer problem_type data_type options videos images start end clip_ids"
        " pass_rate data_source extra"
    ),
    "frames": (
        "clip_id video_path fps max_frames max_pixels spec kind num_frames height width codec frames"
        " frame_indices timestamps source_fps source_num_frames source_duration source_width source_height"
        " source_bytes source_mtime_ns source_digest sampled_fps preprocess_version sha256 decoder created_at"
    ),
    "trajectories": (
        "trajectory_id sample_id response source model run_id step policy_version rewards reward correct"
        " status num_tokens finish_reason token_ids log_probs created_at extra"
    ),
    "releases": "name message created_at vrl_version versions counts digest parent",
}


@pytest.mark.parametrize("table", sorted(CONTRACT))
def test_every_column_of_the_contract_is_there(table: str) -> None:
    assert set(CONTRACT[table].split()) <= set(schema(table).names)


@pytest.mark.parametrize("table", TABLES)
def test_the_primary_key_is_declared_and_not_null(table: str) -> None:
    field = schema(table).field(PRIMARY_KEYS[table])
    assert not field.nullable
    assert field.metadata[b"lance-schema:unenforced-primary-key"] == b"true"


@pytest.mark.parametrize("table", TABLES)
def test_indexes_are_on_columns_of_their_table(table: str) -> None:
    assert {index.column for index in INDEXES[table]} <= set(schema(table).names)


def test_an_unknown_table_suggests_the_nearest() -> None:
    with pytest.raises(vrldata.StoreError, match="Did you mean 'samples'"):
        schema("sample")


def test_a_sample_comes_back_as_it_was() -> None:
    sample = Sample(
        sample_id="a/1",
        problem="Was ist das? 这是什么",
        answer="B",
        problem_type="multiple_choice",
        split="val",
        data_type="video",
        options=("A. saw", "B. drill"),
        videos=("a/b.mp4",),
        images=("c.png",),
        start=1.5,
        end=None,
        clip_ids=("0" * 64, "1" * 64),
        pass_rate=0.25,
        data_source="demo",
        extra={"level": 3, "tags": ["x", None]},
    )
    stored = rows_to_table("samples", [sample_to_row(sample)]).to_pylist()[0]
    assert row_to_sample(stored) == sample


def test_a_trajectory_comes_back_as_it_was() -> None:
    trajectory = Trajectory(
        trajectory_id="t1",
        sample_id="a/1",
        response="<answer>B</answer>",
        source="rollout",
        model="tiny",
        run_id="r1",
        step=7,
        policy_version=6,
        rewards={"accuracy": 1.0, "format": 0.5},
        reward=0.75,
        correct=True,
        status="ok",
        num_tokens=3,
        finish_reason="stop",
        token_ids=(5, 6, 7),
        log_probs=(-0.5, -0.25, -1.0),
        extra={"temperature": 1.0},
    )
    stored = rows_to_table("trajectories", [trajectory_to_row(trajectory)]).to_pylist()[0]
    assert row_to_trajectory(stored) == trajectory
    assert stored["created_at"].tzinfo is not None


def test_unknown_values_stay_null() -> None:
    trajectory = Trajectory(trajectory_id="t", sample_id="s", response="", source="offline")
    row = rows_to_table("trajectories", [trajectory_to_row(trajectory)]).to_pylist()[0]
    assert row["reward"] is None
    assert row["correct"] is None
    assert row["token_ids"] is None
    assert row_to_trajectory(row) == trajectory


def test_a_value_that_does_not_fit_names_its_column() -> None:
    with pytest.raises(vrldata.StoreError, match="column 'num_frames'"):
        rows_to_table("frames", [{"clip_id": "a", "num_frames": 2**40}])


def test_trajectory_ids_depend_on_everything_that_tells_responses_apart() -> None:
    base = {"sample_id": "s", "source": "rollout", "response": "r", "run_id": "x", "step": 1, "index": 0}
    changes = {"sample_id": "s2", "source": "eval", "response": "r2", "run_id": "y", "step": 2, "index": 1}
    ids = {trajectory_id(**base)} | {
        trajectory_id(**{**base, name: value}) for name, value in changes.items()
    }
    assert len(ids) == 1 + len(changes)


def test_equal_responses_of_one_group_are_different_trajectories() -> None:
    one = Trajectory(trajectory_id="", sample_id="s", response="same", source="rollout")
    given = with_trajectory_ids([one, one, one])
    assert len({trajectory.trajectory_id for trajectory in given}) == 3
    assert with_trajectory_ids([one, one, one]) == given


def test_the_first_trajectory_of_an_id_is_kept() -> None:
    first = Trajectory(trajectory_id="t", sample_id="s", response="first", source="rollout")
    second = Trajectory(trajectory_id="t", sample_id="s", response="second", source="rollout")
    assert with_trajectory_ids([first, second]) == [first]


def test_rewards_are_a_map_of_float32() -> None:
    assert schema("trajectories").field("rewards").type == pa.map_(pa.string(), pa.float32())
    assert np.float32(schema("samples").field("pass_rate").type.to_pandas_dtype()(0.5)) == 0.5


@pytest.mark.parametrize("table", TABLES)
def test_the_page_of_tables_names_every_column_with_its_type(table: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "tables.md").read_text()
    section = page.partition(f"\n## {table}: ")[2].partition("\n## ")[0]
    cells = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")][2:]
    described = {row[0].strip(" *"): row[1].strip() for row in cells}
    columns = {field.name: _type_name(field) for field in schema(table)}
    assert described == columns
    assert all(len(row) == 4 and row[3].strip() for row in cells)


def _type_name(field: pa.Field) -> str:
    if field.name in ("spec", "extra", "replaced"):
        return "JSON"
    if field.name == PAYLOAD_COLUMN:
        return "blob"
    if pa.types.is_timestamp(field.type):
        return "timestamp"
    if pa.types.is_map(field.type):
        return f"map&lt;{field.type.key_type}, {_short(field.type.item_type)}&gt;"
    if pa.types.is_list(field.type):
        return f"list&lt;{_short(field.type.value_type)}&gt;"
    return _short(field.type)


def _short(kind: pa.DataType) -> str:
    return {"double": "float64", "float": "float32"}.get(str(kind), str(kind))

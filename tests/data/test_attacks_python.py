"""Careless and hostile calls from Python: an error that says what to do, never another dataset's rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import vrldata


@pytest.mark.parametrize("limit", [-1, "3", 2.5])
def test_a_limit_that_is_no_count(clips: vrldata.Dataset, limit: Any) -> None:
    with pytest.raises(vrldata.FilterError, match="expected a whole number"):
        clips.samples.to_table(limit=limit)


def test_one_column_as_text_is_not_read_letter_by_letter(clips: vrldata.Dataset) -> None:
    with pytest.raises(vrldata.FilterError, match=r"expected a list of names, such as \['sample_id'\]"):
        clips.samples.to_table(columns="sample_id")  # type: ignore[arg-type]


def test_a_build_takes_a_single_file_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text('{"problem": "1 + 1?", "answer": "2", "problem_type": "numerical"}')
    dataset = vrldata.create(tmp_path / "clips")
    for rows in (str(tmp_path / "train.jsonl"), tmp_path / "train.jsonl"):
        assert dataset.build(rows, video_root=tmp_path).samples == 1


def test_rows_that_are_neither_paths_nor_mappings(tmp_path: Path) -> None:
    dataset = vrldata.create(tmp_path / "clips")
    with pytest.raises(vrldata.AnnotationError, match="expected a path of an annotation file, or a row"):
        dataset.build([1], video_root=tmp_path)  # type: ignore[list-item]


def test_a_location_may_be_bytes(clips: vrldata.Dataset) -> None:
    assert vrldata.open(clips.root.encode()).samples.count() == clips.samples.count()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM glob('/*')",
        "SELECT * FROM query('SELECT * FROM read_text(''/etc/passwd'')')",
        "ATTACH '/tmp/x.db'",
        "COPY samples TO '/tmp/x.csv'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "SELECT 1; DROP TABLE samples",
        "WITH x AS (INSERT INTO samples VALUES (1)) SELECT 1",
        "'; DROP TABLE samples; --",
        "SELECT * FROM query_table('samples')",
    ],
)
def test_sql_reaches_nothing_but_the_tables(clips: vrldata.Dataset, statement: str) -> None:
    with pytest.raises(vrldata.FilterError) as caught:
        clips.sql(statement)
    assert "Did you mean 'samples'" not in str(caught.value)
    assert clips.samples.count() == 20


@pytest.mark.parametrize(
    "predicate",
    [
        "1=1) OR (1=1",
        "1=1; DROP TABLE samples",
        "sample_id = 's1' -- )",
        "sample_id IN (SELECT content FROM read_text('/etc/passwd'))",
        "1=1 UNION SELECT * FROM samples",
        "1=1 LIMIT 1",
        "   ",
        "\x00",
        "/*",
    ],
)
def test_a_predicate_stays_a_predicate(clips: vrldata.Dataset, predicate: str) -> None:
    with pytest.raises(vrldata.FilterError, match="filter"):
        clips.samples.to_table(filter=predicate)
    with pytest.raises(vrldata.FilterError, match="filter"):
        clips.samples.count(predicate)


@pytest.mark.parametrize("key", ["x' OR '1'='1", "\x00", "../../etc/passwd", "", "';--"])
def test_keys_are_values_and_never_sql(clips: vrldata.Dataset, key: str) -> None:
    with pytest.raises(vrldata.StoreError, match="no sample"):
        clips.sample(key)
    with pytest.raises(vrldata.MissingClip):
        clips.clip_by_id(key)
    with pytest.raises(vrldata.MissingClip):
        clips.clip(key, vrldata.SamplingSpec())
    opened = vrldata.open(vrldata.uri.DatasetUri(clips.root, split=key))
    with pytest.raises(vrldata.UriError, match="no split"):
        list(opened.iter_samples())

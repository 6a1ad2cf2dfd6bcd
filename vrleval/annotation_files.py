"""Annotation files of benchmarks as rows: JSON arrays, single objects, JSON lines, Parquet, CSV, TSV."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vrldata.errors import BenchmarkError
from vrleval.types import Benchmark

FILE_FIELD = "annotation_file"
"""Field of every row with the name of its file, since some layouts keep a label in the name alone."""

_WRAPPERS = ("data", "rows", "annotations", "questions", "samples")
_ENDINGS = (".json", ".jsonl", ".parquet", ".csv", ".tsv")


def find_files(benchmark: Benchmark, data_root: Path) -> list[Path]:
    """Annotation files of a benchmark: those of the first of its names and patterns that matches anything.

    Official files lie in the benchmark's own folders; files named after the benchmark also in the root and in
    `valid_data`, where EasyVideoR1 has them.
    """
    own = own_folders(benchmark, data_root)
    shared = [folder for folder in (data_root / "valid_data", data_root) if folder.is_dir()]
    wanted = [(name, [*shared, *own]) for name in benchmark.annotations]
    wanted += [(pattern, own) for pattern in benchmark.official_files]
    for pattern, folders in wanted:
        for folder in folders:
            found = sorted(
                path for path in folder.glob(pattern) if path.is_file() and path.suffix in _ENDINGS
            )
            if found:
                return found
    return []


def own_folders(benchmark: Benchmark, data_root: Path) -> list[Path]:
    """The benchmark's own folders under the root, those that exist."""
    folders = [data_root / name for name in dict.fromkeys([benchmark.name, *benchmark.videos])]
    return [folder for folder in folders if folder.is_dir()]


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Rows of a file; each carries the file's name in `annotation_file`.

    Raises:
        BenchmarkError: the file cannot be read; the message names file and line.
    """
    try:
        rows = list(_rows(path))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BenchmarkError(f"{path}: not readable: {error}") from error
    return [{**row, FILE_FIELD: path.name} for row in rows]


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    if path.suffix == ".parquet":
        yield from _parquet_rows(path)
    elif path.suffix in (".csv", ".tsv"):
        with open(path, encoding="utf-8-sig", newline="") as file:
            yield from csv.DictReader(file, delimiter="\t" if path.suffix == ".tsv" else ",")
    else:
        yield from _json_rows(path)


def _parquet_rows(path: Path) -> Iterator[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise BenchmarkError(f"{path}: not readable as Parquet: {error}") from error
    for batch in table.to_batches(max_chunksize=1024):
        yield from batch.to_pylist()


def _json_rows(path: Path) -> Iterator[dict[str, Any]]:
    text = path.read_text(encoding="utf-8-sig")
    if not text.strip():
        raise BenchmarkError(f"{path}: the file is empty")
    try:
        values: Any = json.loads(text)
    except ValueError as whole:
        values = _json_lines(path, text, whole)
    if isinstance(values, dict) and values and all(isinstance(value, dict) for value in values.values()):
        values = [{"id": key, **value} for key, value in values.items()]
    if isinstance(values, dict):
        # one object: a single row, or a wrapper around the list of rows
        wrapped = [values[name] for name in _WRAPPERS if isinstance(values.get(name), list)]
        values = wrapped[0] if wrapped else [values]
    if not isinstance(values, list):
        raise BenchmarkError(f"{path}: expected a list of rows, found {type(values).__name__}")
    for number, row in enumerate(values, start=1):
        if not isinstance(row, dict):
            raise BenchmarkError(f"{path}: row {number}: expected an object, found {type(row).__name__}")
        yield row


def _json_lines(path: Path, text: str, whole: ValueError) -> list[Any]:
    values = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            values.append(json.loads(line))
        except ValueError as error:
            if number == 1:
                raise BenchmarkError(f"{path}: not readable as JSON: {whole}") from whole
            raise BenchmarkError(f"{path}:{number}: not readable as JSON: {error}") from error
    return values


def digest(path: Path) -> str:
    """Hex sha256 of a file's content."""
    found = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            found.update(block)
    return found.hexdigest()

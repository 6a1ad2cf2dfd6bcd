"""Files of responses as rows: JSON, JSON Lines, Parquet and CSV.

What the rows hold is the work of `trajectory_rows`.
"""

from __future__ import annotations

import codecs
import dataclasses
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from vrldata.annotation_blocks import PARQUET, BlockReader, OpenFile, is_csv, open_blocks
from vrldata.annotation_faults import FileFault, RawRow, RowFault
from vrldata.trajectory_rows import ALIASES, missing_hint

_JSON_CELLS = {name for field in ("rewards", "token_ids", "log_probs") for name in ALIASES[field]}
"""Columns of CSV files whose cells are JSON."""

_LIST_CELLS = ("responses", "outputs", "completions")
"""Columns of CSV files whose cells may be JSON lists of texts."""


def read_rows(path: Path) -> Iterator[RawRow]:
    """Rows of a Parquet file, a JSON array, JSON Lines or CSV, all but the first also in gzip or zstd.

    Raises:
        FileFault: the file cannot be read as a whole; rows yielded before must then be dropped.
    """
    try:
        with path.open("rb") as stream:
            file = open_blocks(path, stream)
            if file.head.startswith(PARQUET):
                yield from _parquet_rows(path)
            elif is_csv(file):
                yield from _csv_rows(file)
            elif not _is_row_a_line(file.head):
                from vrldata.annotation_json_files import json_rows

                yield from json_rows(file, lambda reason, text, line: None, is_row=_is_row)
            else:
                yield from _json_lines(io.BufferedReader(BlockReader(file.blocks)))  # type: ignore[type-var]
    except OSError as error:
        raise FileFault("unreadable_file", f"cannot be read: {error.strerror or error}") from error


def _is_row_a_line(head: bytes) -> bool:
    """Whether a file is JSON Lines: no list, no objects over several lines, no lines of old Macs."""
    text = head.removeprefix(codecs.BOM_UTF8).lstrip()
    line, end, _ = text.partition(b"\n")
    is_old_mac = not end and b"\r" in line.strip()
    return text[:1] != b"[" and line.strip() != b"{" and not is_old_mac


def _is_row(value: Mapping[str, Any]) -> bool:
    names = {str(key).strip().casefold() for key in value}
    return bool(names & {*ALIASES["sample_id"], *ALIASES["response"]})


def _parquet_rows(path: Path) -> Iterator[RawRow]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from vrldata.annotation_tables import batch_rows

    try:
        index = 0
        for batch in pq.ParquetFile(path).iter_batches(batch_size=4096):
            for fields, fault in batch_rows(batch):
                yield RawRow(line=None, row=index, fields=fields, fault=fault)
                index += 1
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0]
        raise FileFault("damaged_file", f"damaged Parquet file, copy it again: {reason}") from error


def _csv_rows(file: OpenFile) -> Iterator[RawRow]:
    from vrldata.annotation_tables import csv_rows

    for raw in csv_rows(file, check=_check_columns, first_field="response"):
        try:
            yield raw if raw.fault else dataclasses.replace(raw, fields=_with_json_cells(raw.fields))
        except RowFault as fault:
            yield dataclasses.replace(raw, fault=fault)


def _check_columns(names: Sequence[str], line: int | None) -> None:
    """Raises FileFault where a header names no sample or no response."""
    folded = {name.casefold() for name in names}
    for field in ("sample_id", "response"):
        if not folded & set(ALIASES[field]):
            listed = ", ".join(names) or "none"
            raise FileFault(
                "missing_column",
                f"missing{missing_hint(field, names)}; columns present: {listed}",
                line=line,
                field=field,
            )


def _with_json_cells(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Cells of a CSV row with lists and objects read from their JSON."""
    read = dict(fields)
    for column, cell in fields.items():
        name = column.casefold()
        if not isinstance(cell, str) or not (name in _JSON_CELLS or name in _LIST_CELLS):
            continue
        try:
            value = json.loads(cell)
        except (ValueError, RecursionError) as error:
            if name in _LIST_CELLS:
                # one response, as it stands
                continue
            raise RowFault(
                "bad_json", f"expected JSON, such as [1, 2]: {error}", field=column, value=cell
            ) from error
        if name in _JSON_CELLS or isinstance(value, list):
            read[column] = value
    return read


def _json_lines(lines: Any) -> Iterator[RawRow]:
    index = 0
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        fields, fault = _json_object(line)
        yield RawRow(line=number, row=index, fields=fields, fault=fault)
        index += 1
    if not index:
        raise FileFault("no_rows", "the file holds no rows, only blanks")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        twice = next(key for index, (key, _) in enumerate(pairs) if key in dict(pairs[:index]))
        raise ValueError(f"the key {twice!r} stands twice in one object")
    return made


def _json_object(line: bytes) -> tuple[dict[str, Any], RowFault | None]:
    try:
        value = json.loads(line, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        return {}, RowFault("bad_json", f"not JSON: {error}")
    if not isinstance(value, dict):
        return {}, RowFault(
            "not_an_object", "expected a JSON object with sample_id and response", value=value
        )
    return value, None

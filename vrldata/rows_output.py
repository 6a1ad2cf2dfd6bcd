"""Arrow tables as text and files: aligned table, CSV, JSON lines, Parquet, Arrow IPC.

Files appear whole or not at all. Which rows there are is decided by the callers.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from vrldata.counts import counted
from vrldata.errors import StoreError

FORMATS = ("table", "csv", "jsonl", "parquet", "arrow")
BINARY_FORMATS = ("parquet", "arrow")
WIDEST_CELL = 60
"""Characters of one cell of a text table, beyond which it is cut with an ellipsis."""


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A binary file to write to that takes the place of `path` only when the block ends without an error.

    Raises:
        StoreError: the folder is missing or cannot be written.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with draft.open("wb") as file:
            yield file
        draft.replace(path)
    except FileExistsError as error:
        raise StoreError(f"{path}: cannot be written: Not a directory: {path.parent}") from error
    except OSError as error:
        raise StoreError(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        # where nothing could be written there is nothing to remove
        with suppress(OSError):
            draft.unlink()


def write_rows(rows: pa.Table, file: IO[bytes], output_format: str) -> None:
    """Write `rows` in one of FORMATS."""
    _WRITERS[output_format](rows, file)


def rows_of(table: pa.Table) -> Iterator[dict[str, Any]]:
    """Rows as plain values that JSON can hold: maps as objects, times as ISO 8601, bytes as hex."""
    maps = {field.name for field in table.schema if pa.types.is_map(field.type)}
    for batch in table.to_batches(max_chunksize=1024):
        for row in batch.to_pylist():
            yield {
                name: _plain(dict(value) if name in maps and value is not None else value)
                for name, value in row.items()
            }


def _plain(value: Any) -> Any:
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float) and not math.isfinite(value):
        # JSON has no such numbers
        return None
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (str, int, float)):
        return value
    # such as an interval or a UUID
    return str(value)


def _write_table(rows: pa.Table, file: IO[bytes]) -> None:
    file.write((aligned_text(rows) + "\n").encode())


def aligned_text(rows: pa.Table) -> str:
    """`rows` as a text table with a header, numbers to the right, long cells cut."""
    names = rows.schema.names
    numeric = [_is_number(field.type) for field in rows.schema]
    cells = [[_cell(value) for value in row.values()] for row in rows_of(rows)]
    widths = [
        max([text_width(name), *(text_width(row[index]) for row in cells)])
        for index, name in enumerate(names)
    ]

    def line(values: list[str]) -> str:
        padded = [
            " " * (width - text_width(value)) + value if right else value + " " * (width - text_width(value))
            for value, width, right in zip(values, widths, numeric, strict=True)
        ]
        return "  ".join(padded).rstrip()

    rule = "  ".join("-" * width for width in widths)
    count = counted(rows.num_rows, "row")
    return "\n".join([line(names), rule, *(line(row) for row in cells), f"({count})"])


def text_width(text: str) -> int:
    """Columns that `text` takes on a terminal: wide East Asian characters take two."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def _is_number(type_: pa.DataType) -> bool:
    return pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    # control characters would move the cursor of a terminal
    text = "".join(char if char.isprintable() else " " for char in text)
    return text if len(text) <= WIDEST_CELL else text[: WIDEST_CELL - 1] + "…"


def _write_csv(rows: pa.Table, file: IO[bytes]) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text)
    writer.writerow(rows.schema.names)
    for row in rows_of(rows):
        writer.writerow(
            [
                json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list)) else value
                for value in row.values()
            ]
        )
    text.flush()
    text.detach()


def _write_jsonl(rows: pa.Table, file: IO[bytes]) -> None:
    for row in rows_of(rows):
        file.write(json.dumps(row, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n")


def _write_parquet(rows: pa.Table, file: IO[bytes]) -> None:
    import pyarrow.parquet as pq

    try:
        pq.write_table(rows, file, compression="zstd")
    except pa.ArrowNotImplementedError as error:
        raise StoreError(
            f"Parquet cannot hold one of the columns: cast it in the statement ({error})"
        ) from error


def _write_arrow(rows: pa.Table, file: IO[bytes]) -> None:
    with pa.ipc.new_file(file, rows.schema) as writer:
        writer.write_table(rows)


_WRITERS: dict[str, Callable[[pa.Table, IO[bytes]], None]] = {
    "table": _write_table,
    "csv": _write_csv,
    "jsonl": _write_jsonl,
    "parquet": _write_parquet,
    "arrow": _write_arrow,
}

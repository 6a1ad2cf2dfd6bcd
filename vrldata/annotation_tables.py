"""Annotation rows out of tables: CSV, Parquet, and data sets of the `datasets` library."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from vrldata.annotation_blocks import PARQUET, BlockReader, OpenFile
from vrldata.annotation_faults import FileFault, RawRow, RowFault
from vrldata.annotation_fields import Columns, FieldNames, missing_name, missing_text
from vrldata.errors import AnnotationError, missing_extra

MAX_CELL_CHARS = 64 << 20
MAX_PARQUET_BYTES = 1 << 30
"""Largest Parquet file that may lie compressed inside another file."""

_BATCH_ROWS = 4096
_LONE = re.compile("[\ud800-\udfff]")
_HUB_NAME = re.compile(r"(?:hf://datasets/)?([A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?:@([\w.-]+))?")

ColumnCheck = Callable[[Sequence[str], int | None], None]
"""Takes the names of a table's columns and the line of its header; raises FileFault for a missing one."""


def csv_rows(
    file: OpenFile, *, check: ColumnCheck | None = None, first_field: str = "problem"
) -> Iterator[RawRow]:
    """Rows of a CSV file, or of a tab-separated one. Cells are texts; an empty cell is null.

    Args:
        check: raises FileFault where a column that every row needs is missing; `check_columns` by default.
        first_field: a field that every row needs, to name where the delimiter is another one.

    Raises:
        FileFault: no header, another delimiter, or columns that a row needs are missing.
    """
    csv.field_size_limit(MAX_CELL_CHARS)
    raw: Any = io.BufferedReader(BlockReader(file.blocks))  # type: ignore[type-var]
    text = io.TextIOWrapper(raw, encoding="utf-8-sig", errors="surrogateescape", newline="")
    first = file.head.decode("utf-8", "replace").splitlines()[:1] or [""]
    delimiter = _delimiter(first[0], first_field)
    reader = csv.reader(text, delimiter=delimiter, strict=True)
    header: list[str] | None = None
    line, index = 1, 0
    try:
        for cells in reader:
            start, line = line, reader.line_num + 1
            if not any(cell.strip() for cell in cells):
                continue
            if header is None:
                header = _header(cells, start, check or check_columns)
                continue
            fields: dict[str, Any] = {
                name: cell if cell else None for name, cell in zip(header, cells, strict=False)
            }
            fault = _cell_fault(fields, header, cells)
            yield RawRow(line=start, row=index, fields=fields, fault=fault)
            index += 1
    except csv.Error as error:
        raise FileFault(
            "bad_csv",
            f"{error}, from line {line} on: a quote is perhaps not closed (incomplete)",
            line=line,
        ) from error
    if not index:
        raise FileFault("no_rows", "the file holds no rows" + (" below its header" if header else ""))


def _delimiter(header: str, field: str) -> str:
    """A comma or a tab. Other delimiters are refused, since their files write numbers with commas too."""
    if "," not in header and "\t" in header:
        return "\t"
    other = next((sign for sign in ";|" if "," not in header and sign in header), None)
    if other:
        raise FileFault(
            "delimiter",
            f"the column is missing: the delimiter is {other!r}, expected ','. Save the file as "
            "comma-separated CSV",
            line=1,
            field=field,
        )
    return ","


def _header(cells: Sequence[str], line: int, check: ColumnCheck) -> list[str]:
    names = [cell.strip() for cell in cells]
    if any(_LONE.search(name) for name in names):
        text = "the bytes of the header are not UTF-8: save the file with the encoding UTF-8"
        raise FileFault("not_utf8", text, line=line)
    twice = next((name for name in names if name and names.count(name) > 1), None)
    if twice:
        raise FileFault(
            "duplicate_column", f"the header names the column {twice!r} twice", line=line, field=twice
        )
    check(names, line)
    return names


def _cell_fault(fields: dict[str, Any], header: Sequence[str], cells: Sequence[str]) -> RowFault | None:
    if len(cells) != len(header):
        return RowFault(
            "wrong_columns",
            f"the row has {len(cells)} columns, the header {len(header)}; a cell with commas or line breaks"
            " needs double quotes",
            value=list(cells),
        )
    for name, cell in fields.items():
        if cell is not None and not cell.isascii() and _LONE.search(cell):
            return RowFault(
                "not_utf8", "the bytes are not UTF-8: save the file with the encoding UTF-8", field=name
            )
        if cell is not None and "\x00" in cell:
            return RowFault("control_character", "a NUL character in the cell", field=name)
    return None


def check_columns(
    present: Sequence[str], line: int | None = None, *, names: FieldNames | None = None
) -> None:
    """Refuse a table that lacks a column which every row needs.

    Args:
        names: knows the columns that the user has mapped.

    Raises:
        FileFault: naming the column, the columns present and the nearest of them.
    """
    columns = (names or FieldNames()).columns(present)
    for field in ("problem", "answer"):
        if columns.names[field]:
            continue
        wanted = missing_name(field, columns)
        if {name.casefold() for name in present} & {"messages", "conversations", "conversation"}:
            listed = ", ".join(present)
            text = f"messages format is not supported: expected a column {field!r}; columns present: {listed}"
        else:
            text = f"the column is {missing_text(field, columns, present, what='columns')}"
        raise FileFault("missing_column", text, line=line, field=wanted, named=field)


def parquet_rows(path: Path, file: OpenFile, names: FieldNames | None = None) -> Iterator[RawRow]:
    """Rows of a Parquet file, whatever the exact types of its columns.

    Raises:
        FileFault: it is no Parquet file, is damaged, or lacks a column that every row needs.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not file.head.startswith(PARQUET):
        looks = "JSON text" if file.head.lstrip()[:1] in (b"{", b"[") else "something else"
        raise FileFault(
            "not_parquet", f"not a Parquet file: the magic bytes PAR1 are missing; this looks like {looks}"
        )
    source: Any = str(path)
    with path.open("rb") as stream:
        if stream.read(4) != PARQUET:
            source = pa.BufferReader(_unpacked(file))
        else:
            size = stream.seek(0, io.SEEK_END)
            stream.seek(max(0, size - 4))
            if size < 12 or stream.read(4) != PARQUET:
                raise FileFault(
                    "truncated_file", "the Parquet footer is missing: the file is truncated, copy it again"
                )
    try:
        table = pq.ParquetFile(source)
        yield from _table_rows(table.schema_arrow.names, table.iter_batches(batch_size=_BATCH_ROWS), names)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        # what is no text here is the name of a column
        raise FileFault("damaged_file", f"damaged Parquet file: {_first_line(error)}") from error


def _unpacked(file: OpenFile) -> bytes:
    pieces: list[bytes] = []
    size = 0
    for block in file.blocks:
        pieces.append(block)
        size += len(block)
        if size > MAX_PARQUET_BYTES:
            raise FileFault(
                "too_large",
                f"a compressed Parquet file of more than {MAX_PARQUET_BYTES >> 20} MiB: decompress it first",
            )
    return b"".join(pieces)


def _table_rows(present: Sequence[str], batches: Iterator[Any], names: FieldNames | None) -> Iterator[RawRow]:
    twice = next((name for name in present if present.count(name) > 1), None)
    if twice:
        raise FileFault("duplicate_column", f"the table names the column {twice!r} twice", field=twice)
    check_columns(present, names=names)
    columns = (names or FieldNames()).columns(present)
    index = 0
    for batch in batches:
        for fields, fault in batch_rows(batch, maps_as_pydicts="lossy"):
            try:
                if fault is None:
                    _mend_fields(fields, columns)
            except RowFault as found:
                fault = found
            yield RawRow(line=None, row=index, fields=fields, fault=fault)
            index += 1
    if not index:
        raise FileFault("no_rows", "the file holds no rows")


def batch_rows(batch: Any, **options: Any) -> Iterator[tuple[dict[str, Any], RowFault | None]]:
    """The rows of a record batch, each with the fault of a value that Python cannot hold.

    Args:
        options: of `to_pylist`.
    """
    try:
        rows = batch.to_pylist(**options)
    except (ValueError, OverflowError):
        rows = None
    if rows is not None:
        yield from ((fields, None) for fields in rows)
        return
    # bytes that are no UTF-8 in a column of text, a time beyond the year 9999: only their rows are lost
    for index in range(batch.num_rows):
        fields, fault = {}, None
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            try:
                fields[name] = column.slice(index, 1).to_pylist(**options)[0]
            except UnicodeDecodeError:
                fault = RowFault("not_utf8", "the bytes are not UTF-8", field=name)
            except (ValueError, OverflowError) as error:
                fault = RowFault("bad_field", f"a value that cannot be read: {error}", field=name)
        yield fields, fault


def _mend_fields(fields: dict[str, Any], columns: Columns) -> None:
    """Undo what a table's types do to known fields: text as bytes, options that a row lacks as null.

    Raises:
        RowFault: bytes that are no text.
    """
    for keys in columns.names.values():
        for key in keys:
            value = fields[key]
            try:
                if isinstance(value, bytes):
                    fields[key] = value.decode()
                elif isinstance(value, list) and any(isinstance(item, bytes) for item in value):
                    fields[key] = [item.decode() if isinstance(item, bytes) else item for item in value]
            except UnicodeDecodeError as error:
                raise RowFault("not_utf8", "the bytes are not UTF-8", field=key, value=str(value)) from error
    for key in columns.names["options"]:
        if isinstance(fields[key], dict):
            fields[key] = {name: text for name, text in fields[key].items() if text is not None}


def hub_name(source: str) -> tuple[str, str | None] | None:
    """Name and revision of a data set on the Hub, if `source` is written like one."""
    found = _HUB_NAME.fullmatch(source)
    return (found.group(1), found.group(2)) if found else None


def is_saved_dataset(folder: Path) -> bool:
    """Whether a folder was written by `save_to_disk` of `datasets`."""
    return (folder / "dataset_dict.json").is_file() or (
        (folder / "state.json").is_file() and (folder / "dataset_info.json").is_file()
    )


def load_splits(source: str | Path) -> dict[str | None, Any]:
    """The splits of a saved data set (a folder) or of one on the Hub (a name); no code of theirs is run.

    Raises:
        AnnotationError: it cannot be loaded.
        MissingExtraError: the `datasets` library is not installed.
    """
    try:
        import datasets
    except ImportError as error:
        raise missing_extra("datasets", "hf", f"reading {source}") from error

    try:
        if isinstance(source, Path):
            loaded = datasets.load_from_disk(str(source))
        else:
            name, revision = hub_name(source) or (source, None)
            loaded = datasets.load_dataset(name, revision=revision)
    except (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        raise AnnotationError(
            f"{source}: no such file or folder, and no data set that can be loaded: {_first_line(error)}"
        ) from error
    splits = dict(loaded) if isinstance(loaded, datasets.DatasetDict) else {None: loaded}
    return {name: _undecoded(split, datasets) for name, split in splits.items()}


def _undecoded(split: Any, datasets: Any) -> Any:
    """The split with its media columns as paths instead of pixels."""
    for name, feature in split.features.items():
        if type(feature).__name__ in ("Image", "Video", "Audio"):
            split = split.cast_column(name, type(feature)(decode=False))
    return split


def dataset_rows(split: Any, names: FieldNames | None = None) -> Iterator[RawRow]:
    """Rows of one split of a data set.

    Raises:
        FileFault: a column that every row needs is missing.
    """
    batches = split.with_format("arrow").iter(batch_size=_BATCH_ROWS)
    yield from _table_rows(split.column_names, batches, names)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__

"""Annotation files as rows with their places; the format is told by the content, then by the name.

A reader yields `RawRow`s, a broken row with its fault, and raises `FileFault` where nothing of the file can
be trusted. What the fields mean is the work of `annotation_rows`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

from vrldata.annotation_blocks import PARQUET, is_csv, open_blocks
from vrldata.annotation_faults import FileFault, Notify, RawRow
from vrldata.annotation_fields import FieldNames
from vrldata.annotation_json_files import json_rows
from vrldata.annotation_tables import check_columns, csv_rows, parquet_rows

ENDINGS = (".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".parquet")
_COMPRESSED = (".gz", ".zst", ".zstd")


def is_annotation_name(path: Path) -> bool:
    """Whether a file of a folder is taken for an annotation file by its name."""
    name = path.name.lower()
    for ending in _COMPRESSED:
        name = name.removesuffix(ending)
    return name.endswith(ENDINGS)


def read_rows(path: Path, notify: Notify, names: FieldNames | None = None) -> Iterator[RawRow]:
    """The rows of an annotation file, its format told by its content and then by its name.

    Args:
        names: knows the columns that the user has mapped.

    Raises:
        FileFault: the file cannot be read as a whole; rows yielded before must then be dropped.
    """
    try:
        with path.open("rb") as stream:
            file = open_blocks(path, stream)
            if file.notice:
                notify("compression", file.notice, None)
            if file.head.startswith(PARQUET) or file.ending == ".parquet":
                yield from parquet_rows(path, file, names)
            elif is_csv(file):
                yield from csv_rows(file, check=functools.partial(check_columns, names=names))
            else:
                yield from json_rows(file, notify, names)
    except OSError as error:
        raise FileFault("unreadable_file", f"cannot be read: {error.strerror or error}") from error

"""Annotations given as Python objects: a list of what was given, and rows as plain as those of a file.

Arrays, tensors, tuples and paths become lists and texts. What values mean is the work of `annotation_rows`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from vrldata.annotation_faults import RawRow, RowFault
from vrldata.annotation_json import MAX_INTEGER_DIGITS, MAX_NESTING, TOO_DEEP, check_characters
from vrldata.errors import AnnotationError

MAX_ARRAY_DIMENSIONS = 2
"""Of lists and boxes; arrays of more are pixels."""

_LARGEST_INTEGER = 10**MAX_INTEGER_DIGITS
_MISSING = ("NAType", "NaTType")
"""Types of what pandas writes where a cell is empty."""


Sources = str | Path | Mapping[str, Any] | Iterable[str | Path | Mapping[str, Any]]
"""An annotation file, folder, pattern or data set by its name, or a row; or any number of them."""


def listed_sources(sources: Sources) -> list[Any]:
    """What was given as a list, also where it is one path or one row.

    Raises:
        AnnotationError: a data frame, whose elements are the names of its columns.
    """
    if type(sources).__name__ == "DataFrame":
        raise AnnotationError("expected rows, got a DataFrame: give dataframe.to_dict('records')")
    return [sources] if isinstance(sources, str | os.PathLike | Mapping) else list(sources)


def object_rows(rows: Iterable[Mapping[Any, Any]]) -> Iterator[RawRow]:
    """The rows with plain values, or with the fault of the first value that no file could hold."""
    for index, row in enumerate(rows):
        fields: dict[str, Any] = {}
        fault = None
        try:
            for key, value in row.items():
                name = check_characters(str(key), None)
                # the row itself is the first level
                fields[name] = _plain(value, name, 2)
        except RowFault as found:
            fault = found
        yield RawRow(line=None, row=index, fields=fields, fault=fault)


def _plain(value: Any, field: str, depth: int) -> Any:
    """`value` as the reader of a JSON file would give it, and what has no such form as it is.

    Raises:
        RowFault: half of a surrogate pair, an integer or a nesting without end, or pixels.
    """
    if isinstance(value, str):
        return check_characters(str(value), field)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float):
        return float(value)
    if isinstance(value, int):
        if abs(value) >= _LARGEST_INTEGER:
            text = f"integer of more than {MAX_INTEGER_DIGITS} digits is too large"
            raise RowFault("number_out_of_range", text, field=field)
        return int(value)
    if isinstance(value, Mapping | list | tuple):
        if depth > MAX_NESTING:
            raise RowFault("nested_too_deep", TOO_DEEP, field=field)
        if isinstance(value, Mapping):
            return {
                check_characters(str(key), field): _plain(item, field, depth + 1)
                for key, item in value.items()
            }
        return [_plain(item, field, depth + 1) for item in value]
    if isinstance(value, os.PathLike):
        return check_characters(os.fsdecode(value), field)
    if type(value).__name__ in _MISSING:
        return None
    if hasattr(value, "tolist"):
        dimensions = getattr(value, "ndim", 0)
        if dimensions > MAX_ARRAY_DIMENSIONS:
            text = f"an array of {dimensions} dimensions: save pixels as a file and give its path"
            raise RowFault("embedded_media", text, field=field)
        return _plain(value.tolist(), field, depth)
    return value

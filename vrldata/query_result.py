"""What DuckDB gives for a statement as plain Arrow: types that every reader knows, names that differ."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa


def plain_types(table: pa.Table) -> pa.Table:
    """`table` with JSON as text, and DuckDB's 128-bit integers (sums) as int64 where they fit."""
    for index, column_field in enumerate(table.schema):
        column = table.column(index)
        if isinstance(column_field.type, pa.BaseExtensionType):
            storage = pa.chunked_array(
                [chunk.storage for chunk in column.chunks], column_field.type.storage_type
            )
            table = table.set_column(index, pa.field(column_field.name, storage.type), storage)
        elif (
            pa.types.is_decimal(column_field.type)
            and column_field.type.precision == 38
            and column_field.type.scale == 0
        ):
            try:
                table = table.set_column(
                    index, pa.field(column_field.name, pa.int64()), column.cast(pa.int64())
                )
            except pa.ArrowInvalid:
                # beyond 64 bits: the decimal stays
                continue
    return table.rename_columns(_distinct(table.schema.names))


def _distinct(names: Sequence[str]) -> list[str]:
    """Names with `_1`, `_2`, … behind repeated ones, as in `SELECT a.reward, b.reward`."""
    given: list[str] = []
    for name in names:
        unique, number = name, 0
        while unique in given:
            number += 1
            unique = f"{name}_{number}"
        given.append(unique)
    return given

"""Digests of logical rows: the same content gives the same digest on any machine and in any write order.

What a row is for: its values, without times of writing and traces of the machine that wrote it.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from vrldata.tables import PAYLOAD_COLUMN, PRIMARY_KEYS

if TYPE_CHECKING:
    import lance

NOT_LOGICAL: Mapping[str, frozenset[str]] = {
    "samples": frozenset(),
    "frames": frozenset({PAYLOAD_COLUMN, "created_at", "source_mtime_ns", "decoder", "warnings"}),
    "trajectories": frozenset({"created_at"}),
    "failures": frozenset({"created_at", "source_mtime_ns", "attempts", "reason"}),
}
"""Columns by table that say when and with what a row was written. Pixels count by their column `sha256`;
warnings and the reason of a failure are worded by the installed decoder."""

ROWS_PER_BATCH = 4096


def row_digests(table: str, rows: lance.LanceDataset) -> dict[str, bytes]:
    """sha256 (32 bytes) of every row by primary key. Rows that racing writers doubled count once."""
    key = PRIMARY_KEYS[table]
    columns = sorted(name for name in rows.schema.names if name not in NOT_LOGICAL[table])
    found: dict[str, bytes] = {}
    for batch in rows.scanner(columns=columns, batch_size=ROWS_PER_BATCH).to_batches():
        encoded = [_encoded(name, batch.column(name)) for name in columns]
        for row_key, *values in zip(batch.column(key).to_pylist(), *encoded, strict=True):
            found[row_key] = hashlib.sha256(b"".join(values)).digest()
    return found


def content_digest(digests: Mapping[str, Mapping[str, bytes]]) -> str:
    """Hex sha256 over the row digests of several tables, by table name; independent of the order of rows."""
    whole = hashlib.sha256()
    for table in sorted(digests):
        rows = sorted(digests[table].values())
        whole.update(f"{table}:{len(rows)}:".encode())
        whole.update(hashlib.sha256(b"".join(rows)).digest())
    return whole.hexdigest()


def changed_columns(table: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Names of the logical columns in which two rows differ."""
    names = sorted({*before, *after} - NOT_LOGICAL[table])
    return [name for name in names if _comparable(before.get(name)) != _comparable(after.get(name))]


def _comparable(value: Any) -> Any:
    if isinstance(value, float) and value != value:
        return "NaN"
    return [_comparable(item) for item in value] if isinstance(value, (list, tuple)) else value


def _encoded(name: str, column: pa.Array) -> Iterator[bytes]:
    """Bytes of each value, with the column's name and the length in front; nothing for null.

    Nulls leave no trace, so that a column that a later version adds changes no digest of older rows.
    """
    prefix = name.encode() + b"\0"
    encode = _encoder(column.type)
    for value in column.to_pylist():
        if value is None:
            yield b""
        else:
            data = encode(value)
            yield prefix + struct.pack("<q", len(data)) + data


def _encoder(type_: pa.DataType) -> Callable[[Any], bytes]:
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        # a lone surrogate cannot be stored, so that this is plain UTF-8
        return str.encode
    if pa.types.is_boolean(type_) or pa.types.is_integer(type_):
        return lambda value: struct.pack("<q", value)
    if pa.types.is_floating(type_):
        # -0.0 equals 0.0, and every NaN is the same
        return lambda value: struct.pack("<d", value + 0.0 if value == value else float("nan"))
    if pa.types.is_map(type_):
        key, item = _encoder(type_.key_type), _encoder(type_.item_type)
        return lambda pairs: _joined([part for k, v in sorted(pairs) for part in (key(k), _item(item, v))])
    if pa.types.is_list(type_):
        value_type = type_.value_type
        if pa.types.is_integer(value_type):
            return lambda values: _packed("q", values, value_type)
        if pa.types.is_floating(value_type):
            return lambda values: _packed("d", values, value_type)
        inner = _encoder(value_type)
        return lambda values: _joined([_item(inner, value) for value in values])
    return lambda value: str(value).encode()


def _item(encode: Callable[[Any], bytes], value: Any) -> bytes:
    return b"\0" if value is None else b"\1" + encode(value)


def _joined(parts: Sequence[bytes]) -> bytes:
    return b"".join(struct.pack("<q", len(part)) + part for part in parts)


def _packed(code: str, values: Sequence[Any], value_type: pa.DataType) -> bytes:
    if None in values:
        return _joined([_item(_encoder(value_type), value) for value in values])
    return struct.pack(f"<{len(values)}{code}", *values)

"""One table of a dataset as DuckDB reads it: only the columns and rows that a statement needs.

Columns that statements group and filter by are kept in memory between statements (a version of a table never
changes), everything else streams from Lance. The SQL itself is the work of `query`.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from vrldata.query_syntax import POSITION

if TYPE_CHECKING:
    import lance
    from numpy.typing import NDArray

CACHE_BYTES = 512 << 20
"""Most memory that columns kept between statements may take, over all tables of the process."""

BATCH_ROWS = 65_536
LARGEST_TEXT_BATCH = 8_192

LARGEST_COMPRESSION = 8
"""Bytes of text in memory that a byte on disk stands for at most."""

STRETCH_ROWS = 122_880
"""Rows of a piece of a kept column, with a dictionary of its own: what DuckDB reads at a time."""

_WIDE = frozenset({"response", "problem", "extra", "spec", "reason", "token_ids", "log_probs", "message"})
"""Columns that are long by nature: they stream."""

_POINT_LOOKUP = re.compile(r"\b(sample_id|trajectory_id|clip_id) == \"")


_ColumnKey = tuple[tuple[str, int, str], str]


class ColumnCache:
    """Columns of table versions by least recent use; safe to share among threads."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._columns: OrderedDict[_ColumnKey, pa.ChunkedArray] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, key: _ColumnKey) -> pa.ChunkedArray | None:
        """The column, or None when it is not kept."""
        with self._lock:
            column = self._columns.get(key)
            if column is not None:
                self._columns.move_to_end(key)
            return column

    def put(self, key: _ColumnKey, column: pa.ChunkedArray) -> None:
        """Keep `column`, dropping the least recently used ones beyond the limit."""
        with self._lock:
            replaced = self._columns.pop(key, None)
            self._bytes += column.nbytes - (replaced.nbytes if replaced is not None else 0)
            self._columns[key] = column
            while self._bytes > self._limit_bytes and self._columns:
                _, dropped = self._columns.popitem(last=False)
                self._bytes -= dropped.nbytes


_CACHE = ColumnCache(CACHE_BYTES)


class TableSource(pads.Dataset):
    """What DuckDB scans in place of a Lance table.

    It implements the two members that DuckDB uses, `schema` and `scanner`.

    Args:
        table: the Lance table at the version to read.
        hidden: columns that do not exist for SQL, such as pixels.
        map_lookups: further columns by name, each a (map column, key) whose value they hold.
        numbered: a further column `POSITION` holds the place of each row in the table, counted from 0.
        positions: places of the rows that there are for SQL, ascending; None for all.
    """

    def __init__(
        self,
        table: lance.LanceDataset,
        *,
        hidden: Sequence[str] = (),
        map_lookups: Mapping[str, tuple[str, str]] | None = None,
        numbered: bool = False,
        positions: NDArray[np.int64] | None = None,
    ) -> None:
        # pyarrow's own initialiser refuses subclasses in Python; nothing of it is needed
        self._table = table
        self._lookups = dict(map_lookups or {})
        fields = [field for field in table.schema if field.name not in hidden]
        fields += [
            pa.field(name, table.schema.field(column).type.item_type)
            for name, (column, _) in self._lookups.items()
        ]
        if numbered:
            fields.append(pa.field(POSITION, pa.int64()))
        self._computed = {*self._lookups, *([POSITION] if numbered else [])}
        self._schema = pa.schema(fields)
        self.num_rows = int(table.count_rows())
        self._identity: tuple[str, int, str] | None = None
        self._kept: NDArray[np.bool_] | None = None
        if positions is not None:
            self._kept = np.zeros(self.num_rows, dtype=bool)
            self._kept[positions] = True

    @property
    def schema(self) -> pa.Schema:
        """Columns that SQL sees."""
        return self._schema

    def scanner(
        self, columns: Sequence[str] | None = None, filter: pc.Expression | None = None, **_: Any
    ) -> Any:
        """A scanner over `columns` of the rows that `filter` keeps."""
        names = list(columns) if columns is not None else self._schema.names
        tested = self._columns_of(filter)
        needed = list(dict.fromkeys([*names, *tested]))
        if self._kept is not None:
            return self._streamed(names, needed, filter)
        if self.fits_in_memory(needed) and not (filter is not None and _POINT_LOOKUP.search(str(filter))):
            cached = pa.table([self._cached(name) for name in needed], names=needed)
            return pads.dataset(cached).scanner(columns=names, filter=filter)
        if not self._computed.intersection(needed):
            scanner = self._lance_scanner(names, filter)
            if scanner is not None:
                return scanner
        return self._streamed(names, needed, filter)

    def in_memory(self, columns: Sequence[str]) -> pa.Table | None:
        """The columns among `columns` that there are, from memory; None where they are too large for it.

        DuckDB filters a table by itself, faster than it has a scanner do it.
        """
        names = [name for name in self._schema.names if name in columns]
        # a table needs a column to have rows, as for count(*)
        narrow = (field.name for field in self._schema if pa.types.is_primitive(field.type))
        names = names or [next(narrow, self._schema.names[0])]
        if not self.fits_in_memory(names, with_text=True):
            return None
        return pa.table([self._cached(name) for name in names], names=names)

    def _lance_scanner(self, names: list[str], filter: pc.Expression | None) -> Any | None:
        """Lance's own scanner, which uses its indexes; None for a filter that it cannot take."""
        rows = LARGEST_TEXT_BATCH if any(name in _WIDE for name in names) else BATCH_ROWS
        try:
            scanner = self._table.scanner(columns=names, filter=filter, batch_size=rows)
            if filter is not None:
                scanner.explain_plan()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError, OSError):
            if filter is None:
                raise
            return None
        return scanner

    def _streamed(self, names: list[str], needed: list[str], filter: pc.Expression | None) -> Any:
        schema = pa.schema([self._schema.field(name) for name in needed])
        batches = self._batches(needed, schema)
        return pads.Scanner.from_batches(batches, schema=schema, columns=names, filter=filter)

    def _batches(self, needed: list[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        stored = [name for name in needed if name not in self._computed]
        maps = [self._lookups[name][0] for name in needed if name in self._lookups]
        columns = list(dict.fromkeys([*stored, *maps])) or self._schema.names[:1]
        position = 0
        for batch in self._table.scanner(columns=columns, batch_size=LARGEST_TEXT_BATCH).to_batches():
            rows = pa.record_batch([self._column_of(batch, name, position) for name in needed], schema=schema)
            kept = None if self._kept is None else self._kept[position : position + batch.num_rows]
            position += batch.num_rows
            if kept is None or kept.all():
                yield rows
            elif kept.any():
                yield rows.filter(pa.array(kept))

    def _column_of(self, rows: Any, name: str, position: int = 0) -> Any:
        """A column of `rows`, of which the first lies at `position` of the table."""
        if name == POSITION:
            return pa.array(np.arange(position, position + rows.num_rows))
        if name not in self._lookups:
            return rows.column(name)
        column, key = self._lookups[name]
        return pc.map_lookup(rows.column(column), pa.scalar(key), "first")

    def _columns_of(self, filter: pc.Expression | None) -> list[str]:
        """Names of columns in `filter`. A word of a literal may slip in, which costs a column, no more."""
        if filter is None:
            return []
        text = str(filter)
        return [name for name in self._schema.names if name in text]

    def fits_in_memory(self, names: Sequence[str], *, with_text: bool = False) -> bool:
        """Whether these columns may be kept between statements.

        Args:
            with_text: also long text, where there is little of it.
        """
        num_bytes = 0
        for name in names:
            type_ = self._schema.field(name).type
            is_text = pa.types.is_string(type_)
            if name in _WIDE and with_text and is_text:
                num_bytes += _text_bytes(self._table, name)
            elif name not in _WIDE and (pa.types.is_primitive(type_) or is_text):
                num_bytes += self.num_rows * (80 if is_text else type_.bit_width // 8 + 1)
            else:
                return False
        return num_bytes <= CACHE_BYTES // 2

    def _cached(self, name: str) -> pa.ChunkedArray:
        if name == POSITION:
            return pa.chunked_array([np.arange(self.num_rows)])
        if self._identity is None:
            self._identity = _identity(self._table)
        key = (self._identity, name)
        column = _CACHE.get(key)
        if column is None:
            stored = self._lookups[name][0] if name in self._lookups else name
            rows = self._table.scanner(columns=[stored], batch_size=STRETCH_ROWS).to_table()
            column = _with_dictionary(self._column_of(rows, name))
            _CACHE.put(key, column)
        return column


def _with_dictionary(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Text that repeats as a dictionary, which DuckDB groups, joins and filters up to several times faster.

    One dictionary where there are few distinct values, such as models; one for each stretch of rows where
    values repeat near by, such as the sample of several responses.
    """
    if not pa.types.is_string(column.type) or len(column) < BATCH_ROWS:
        return column
    distinct = pc.count_distinct(column.slice(0, BATCH_ROWS)).as_py()
    if distinct <= BATCH_ROWS // 16:
        return column.dictionary_encode().unify_dictionaries().combine_chunks()
    if distinct > BATCH_ROWS // 2:
        return column
    return pa.chunked_array([stretch.dictionary_encode() for stretch in column.chunks])


def _text_bytes(table: lance.LanceDataset, name: str) -> int:
    """Most bytes that a column of text takes in memory, from those that it takes on disk."""
    sizes = {field.id: field.bytes_on_disk for field in table.stats.data_stats().fields}
    ids = {field.name(): field.id() for field in table.lance_schema.fields()}
    return int(sizes.get(ids[name], 0)) * LARGEST_COMPRESSION


def _identity(table: lance.LanceDataset) -> tuple[str, int, str]:
    """What names one version of one table, also when another table is later made in the same place."""
    files = [file.path for fragment in table.get_fragments()[:1] for file in fragment.data_files()]
    return table.uri, table.version, files[0] if files else ""

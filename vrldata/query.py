"""SQL over the tables of a dataset: read-only, by DuckDB, which scans Lance through `query_source`.

A statement sees `samples`, `frames` (without pixels), `trajectories`, `failures` and `releases` of the
dataset's release and nothing else: no file, no network, no setting. Besides DuckDB's own functions there are

    match(column, 'red car')       rows whose text holds one of the words (a "quoted part" is a phrase)
    match_all(column, 'red car')   rows whose text holds all of them
    bm25(column, 'red car')        the rank of a match, null for other rows

over `problem` of samples and `response` of trajectories, served by Lance's full-text index, and the view

    best_of(1, 0.9)                the best trajectory of each sample among those with a reward from 0.9 on,
                                   for a larger number with different responses

The predicates of dataset URIs are read by the same grammar (`filter_rows`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from vrldata.commits import sql_text
from vrldata.errors import FilterError, nearest
from vrldata.query_errors import check_no_pixels, explain, first_line, listed
from vrldata.query_late import (
    COST_OF_TAKING,
    MOST_ROWS,
    columns_as_stored,
    key_lookup,
    limited,
    pays,
    plain_lookup,
    positions_tree,
)
from vrldata.query_result import plain_types
from vrldata.query_search import SEARCH_FUNCTIONS, SEARCHED, search_expression
from vrldata.query_source import TableSource
from vrldata.query_syntax import (
    MAP_COLUMN,
    POSITION,
    calls_best_of,
    columns_named,
    is_one_predicate,
    map_lookup,
    nodes_of,
    quoted,
    reads_tables_directly,
    tables_named,
)
from vrldata.tables import PAYLOAD_COLUMN, TABLES

if TYPE_CHECKING:
    import duckdb
    import lance
    import numpy as np
    from numpy.typing import NDArray

    from vrldata.dataset import Dataset

HIDDEN_COLUMNS = (PAYLOAD_COLUMN,)
"""Columns that no statement sees: their values are read through `Dataset.clip`."""

KEPT_STATEMENTS = 256
"""Statements whose syntax trees are kept, since programs run the same few again and again."""

LONG_STATEMENT_CHARS = 10_000
SHOWN_CHARS = 200
_PARSED: dict[str, dict[str, Any]] = {}
_BEST_OF_VIEW = (
    "CREATE TEMP MACRO best_of(num_best, min_reward) AS TABLE SELECT * FROM ("
    "SELECT * FROM trajectories WHERE reward >= min_reward QUALIFY row_number() OVER "
    "(PARTITION BY sample_id, response ORDER BY reward DESC, trajectory_id) = 1) "
    "QUALIFY row_number() OVER (PARTITION BY sample_id ORDER BY reward DESC, trajectory_id) <= num_best"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Session:
    """What one statement runs with.

    Attributes:
        tables: each at one version, however often it is read.
        searches: (column, words, mode) of the full-text searches so far, to the names of their results.
    """

    dataset: Dataset
    connection: duckdb.DuckDBPyConnection
    tables: Mapping[str, lance.LanceDataset]
    searches: dict[tuple[str, str, str], str] = field(default_factory=dict)


def run_sql(dataset: Dataset, statement: str) -> pa.Table:
    """Rows of one SELECT statement over the tables of `dataset`.

    Raises:
        FilterError: the statement does not parse, names what does not exist, or does more than read.
    """
    import duckdb

    lookup = plain_lookup(statement)
    if lookup is not None:
        name, key = lookup
        table = _table(dataset, name)
        columns = _columns_of(table)
        if key[0] in columns:
            return _whole_rows(table, columns, key)
    connection = _database().cursor()
    named: list[str] = list(TABLES)
    try:
        tree = _parse(connection, statement)
        named = tables_named(tree)
        if "frames" in named:
            check_no_pixels(tree)
        tables = {name: _table(dataset, name) for name in named}
        session = _Session(dataset=dataset, connection=connection, tables=tables)
        found = _rows_of_key(session, tree)
        if found is not None:
            return found
        rows = _few_rows(session, tree)
        if rows is None:
            return plain_types(_run(session, statement, tree))
        connection.register(named[0], rows)
        rewritten, _ = _rewrite(session, statement, tree, maps=False)
        return plain_types(connection.sql(rewritten).to_arrow_table())
    except duckdb.Error as error:
        message = explain(lambda table: visible_columns(dataset, table), named, error)
        raise FilterError(f"SQL: {message}") from error
    finally:
        connection.close()


def _run(session: _Session, statement: str, tree: dict[str, Any], *, numbered: bool = False) -> pa.Table:
    """The result of a statement over whole tables, of which only the columns that it names are read.

    Args:
        numbered: the tables have a further column `POSITION`.
    """
    rewritten, lookups = _rewrite(session, statement, tree)
    columns = columns_named(tree)
    for name in tables_named(tree):
        maps = lookups if name == "trajectories" else {}
        source = TableSource(session.tables[name], hidden=HIDDEN_COLUMNS, map_lookups=maps, numbered=numbered)
        # a search is joined by keys that the statement does not name, and its text need not be read
        in_memory = columns is not None and not session.searches
        table = source.in_memory([*(columns or ()), *lookups]) if in_memory else None
        session.connection.register(name, source if table is None else table)
    if calls_best_of(tree):
        session.connection.execute(_BEST_OF_VIEW)
    return session.connection.sql(rewritten).to_arrow_table()


def _rows_of_key(session: _Session, tree: dict[str, Any]) -> pa.Table | None:
    """The result of `SELECT columns FROM table WHERE key = 'value'`; None for any other statement.

    The index finds the rows, and there is nothing left to compute.
    """
    key = key_lookup(tree)
    if key is None:
        return None
    [table] = session.tables.values()
    known = _columns_of(table)
    columns = columns_as_stored(tree, known)
    return None if columns is None or key[0] not in known else _whole_rows(table, columns, key)


def _columns_of(table: lance.LanceDataset) -> list[str]:
    """Names of the columns that SQL sees."""
    return [name for name in table.schema.names if name not in HIDDEN_COLUMNS]


def _whole_rows(table: lance.LanceDataset, columns: Sequence[str], key: tuple[str, str]) -> pa.Table:
    """Rows of a key as the result of a statement, of which any column may be null."""
    rows = _with_key(table, columns, key)
    nullable = pa.schema([column.with_nullable(True) for column in rows.schema])
    return pa.Table.from_arrays(rows.columns, schema=nullable)


def _with_key(table: lance.LanceDataset, columns: Sequence[str], key: tuple[str, str]) -> pa.Table:
    """Rows whose key column, named first in `key`, has the value named second; an index finds them."""
    name, value = key
    return table.to_table(columns=list(columns), filter=f"{name} = {sql_text(value)}")


def _few_rows(session: _Session, tree: dict[str, Any]) -> pa.Table | TableSource | None:
    """The rows that a statement over one table needs, with the columns that it names; None for all rows.

    They are found by an index on the key, or from the columns that the statement filters and sorts by, so
    that wide columns of the others stay unread.
    """
    if len(session.tables) != 1:
        return None
    [table] = session.tables.values()
    source = TableSource(table, hidden=HIDDEN_COLUMNS)
    named = columns_named(tree)
    if named is not None and source.fits_in_memory([name for name in source.schema.names if name in named]):
        return None
    columns = _columns_to_take(source.schema.names, tree)
    key = key_lookup(tree)
    if key is not None and key[0] in columns:
        return _with_key(table, columns, key)
    positions = _positions(session, tree, source, columns)
    if positions is None:
        return None
    if not len(positions):
        return table.schema.empty_table().select(columns)
    is_stretch = positions[-1] - positions[0] + 1 == len(positions) <= MOST_ROWS
    if is_stretch or pays(source.num_rows, len(positions)):
        return table.take(positions.tolist(), columns=columns)
    return TableSource(table, hidden=HIDDEN_COLUMNS, positions=positions)


def _columns_to_take(columns: Sequence[str], tree: dict[str, Any]) -> list[str]:
    """Those of the table's columns that the statement names, or all where that cannot be told."""
    named = columns_named(tree, lookups=True)
    if named is None:
        return list(columns)
    if any(node.get("function_name") in SEARCH_FUNCTIONS for node in nodes_of(tree)):
        # what a search has found is joined by the key
        named |= {key for _, key in SEARCHED.values()}
    return [name for name in columns if name.lower() in named] or list(columns[:1])


def _positions(
    session: _Session, tree: dict[str, Any], source: TableSource, wanted: Sequence[str]
) -> NDArray[np.int64] | None:
    """Places of the rows that a statement needs, in order; None where they are not found before it runs.

    Args:
        wanted: columns that are taken of these rows.
    """
    import duckdb
    import numpy as np

    first_tree = positions_tree(tree, source.num_rows, _scalar_functions())
    if first_tree is None:
        return None
    too_many = None
    named = columns_named(first_tree) or source.schema.names
    tested = [name for name in source.schema.names if name.lower() in named]
    if not source.fits_in_memory(tested):
        if source.fits_in_memory([name for name in wanted if name not in tested]):
            # all that is wide has to be read anyway
            return None
        # text that is read to find rows is not read twice, but for few rows
        too_many = source.num_rows // COST_OF_TAKING + 1
        first_tree = limited(first_tree, too_many)
    connection = session.connection
    try:
        parsed = connection.execute("SELECT json_deserialize_sql(?::JSON)", [json.dumps(first_tree)])
        first = parsed.fetchall()[0][0]
        found = _run(session, first, _parse(connection, first), numbered=True)
    except (duckdb.Error, FilterError):
        # the statement itself fails in its own words
        return None
    return None if found.num_rows == too_many else np.sort(found.column(POSITION).to_numpy())


@cache
def _scalar_functions() -> frozenset[str]:
    """Functions of one row, and operators, that give the same value whenever they are called."""
    rows = (
        _database()
        .cursor()
        .execute(
            "SELECT lower(function_name) FROM duckdb_functions() GROUP BY 1 "
            "HAVING bool_and(function_type = 'scalar' AND stability <> 'VOLATILE')"
        )
    )
    return frozenset(name for (name,) in rows.fetchall())


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """The empty database in memory whose cursors run statements: no files, no extensions, nothing to set."""
    import duckdb

    connection = duckdb.connect(
        ":memory:",
        config={
            "enable_external_access": False,
            "python_enable_replacements": False,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        },
    )
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    connection.execute("SET lock_configuration = true")
    return connection


def filter_rows(
    dataset: Dataset,
    table: str,
    *,
    filter: str | None = None,
    columns: Sequence[str] | None = None,
    limit: int | None = None,
) -> pa.Table:
    """Rows of one table that a predicate keeps, in stored order.

    Raises:
        FilterError: the predicate or a column is wrong; the message names the nearest column.
    """
    known = visible_columns(dataset, table)
    for name in columns or ():
        if name not in known:
            raise FilterError(f"no column {name!r} in {table}.{nearest(name, known)}{listed(known)}")
    chosen = ", ".join(quoted(name) for name in columns) if columns else "*"
    # the line break ends a comment that a predicate may close with
    where = f" WHERE ({filter}\n)" if filter else ""
    tail = f" LIMIT {int(limit)}" if limit is not None else ""
    if filter and not is_one_predicate(filter):
        raise FilterError(f"filter {_shown(filter)}: expected one predicate, such as problem_type = 'math'")
    try:
        # a predicate is SQL by design, and statements can only read
        return run_sql(dataset, f"SELECT {chosen} FROM {table}{where}{tail}")  # noqa: S608
    except FilterError as error:
        raise FilterError(f"filter {_shown(filter or '')}: {str(error).removeprefix('SQL: ')}") from error


def visible_columns(dataset: Dataset, table: str) -> list[str]:
    """Names of the columns of `table` that SQL sees."""
    return _columns_of(_table(dataset, table))


def _shown(text: str) -> str:
    """A predicate as messages quote it: the beginning of a very long one."""
    return repr(text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…")


def _table(dataset: Dataset, name: str) -> lance.LanceDataset:
    """A table at the dataset's release; `releases` itself is always the newest list."""
    from vrldata.dataset import newest

    return newest(dataset).lance(name) if name == "releases" else dataset.lance(name)


def _parse(connection: duckdb.DuckDBPyConnection, statement: str) -> dict[str, Any]:
    """The syntax tree of the one SELECT statement in `statement`; not to be changed."""
    known = _PARSED.get(statement)
    if known is not None:
        return known
    parsed = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [statement]).fetchall()
    tree: dict[str, Any] = json.loads(parsed[0][0])
    if tree.get("error"):
        message = str(tree.get("error_message", ""))
        if tree.get("error_type") == "not implemented":
            raise FilterError(
                "SQL: only one SELECT statement can be run here; datasets are changed by vrldata's commands"
            )
        raise FilterError(f"SQL: {first_line(message)}")
    if len(tree.get("statements", [])) != 1:
        raise FilterError(f"SQL: expected one SELECT statement, found {len(tree.get('statements', []))}")
    if len(_PARSED) >= KEPT_STATEMENTS:
        _PARSED.clear()
    if len(statement) < LONG_STATEMENT_CHARS:
        _PARSED[statement] = tree
    return tree


def _rewrite(
    session: _Session, statement: str, tree: dict[str, Any], *, maps: bool = True
) -> tuple[str, dict[str, tuple[str, str]]]:
    """`statement` with full-text functions as joins on search results and `rewards['x']` as plain columns.

    Args:
        maps: False leaves `rewards['x']` as it is.
    """
    source = statement.encode()
    edits: list[tuple[int, int, str]] = []
    lookups: dict[str, tuple[str, str]] = {}
    direct = maps and reads_tables_directly(tree)
    for node in nodes_of(tree):
        kind = node.get("type")
        if kind == "FUNCTION" and node.get("function_name") in SEARCH_FUNCTIONS:
            start = node["query_location"]
            text = search_expression(session.connection, session.dataset, node, session.searches)
            edits.append((start, start + node["query_location_length"], text))
        elif direct and (lookup := map_lookup(node)) is not None:
            qualifier, key, start = lookup
            name = f"{MAP_COLUMN}['{key}']"
            lookups[name] = (MAP_COLUMN, key)
            text = ".".join(quoted(part) for part in [*qualifier, name])
            edits.append((start, node["query_location"] + node["query_location_length"], text))
    for start, end, text in sorted(edits, reverse=True):
        source = source[:start] + text.encode() + source[end:]
    return source.decode(), lookups

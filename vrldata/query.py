"""SQL over the tables of a dataset: read-only, by DuckDB, which scans Lance through `query_source`.

A statement sees `samples`, `frames` (without pixels), `trajectories`, `failures` and `releases` of the
dataset's release and nothing else: no file, no network, no setting. Besides DuckDB's own functions there are

    match(column, 'red car')       rows whose text holds one of the words (a "quoted part" is a phrase)
    match_all(column, 'red car')   rows whose text holds all of them
    bm25(column, 'red car')        the rank of a match, null for other rows

over `problem` of samples and `response` of trajectories, served by Lance's full-text index, and the view

    best_of(1, 0.9)                the best trajectory of each sample among those with a reward from 0.9 on

The predicates of dataset URIs are read by the same grammar (`filter_rows`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from vrldata.errors import FilterError, nearest
from vrldata.query_late import positions_tree
from vrldata.query_search import SEARCH_FUNCTIONS, search_expression
from vrldata.query_source import TableSource
from vrldata.query_syntax import (
    MAP_COLUMN,
    POSITION,
    calls_best_of,
    columns_named,
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

    from vrldata.dataset import Dataset

HIDDEN_COLUMNS = (PAYLOAD_COLUMN,)
"""Columns that no statement sees: their values are read through `Dataset.clip`."""

_BEST_OF_VIEW = (
    "CREATE TEMP MACRO best_of(num_best, min_reward) AS TABLE SELECT * FROM trajectories "
    "WHERE reward >= min_reward QUALIFY row_number() OVER "
    "(PARTITION BY sample_id ORDER BY reward DESC, trajectory_id) <= num_best"
)
_LARGEST_INT64_DIGITS = 18


def run_sql(dataset: Dataset, statement: str) -> pa.Table:
    """Rows of one SELECT statement over the tables of `dataset`.

    Raises:
        FilterError: the statement does not parse, names what does not exist, or does more than read.
    """
    import duckdb

    connection = _database().cursor()
    named: list[str] = list(TABLES)
    try:
        tree = _parse(connection, statement)
        named = tables_named(tree)
        searches: dict[tuple[str, str, str], str] = {}
        rows = _few_rows(connection, dataset, tree, searches)
        if rows is not None:
            connection.register(named[0], rows)
            rewritten, _ = _rewrite(connection, dataset, statement, tree, searches, maps=False)
            return _plain_types(connection.sql(rewritten).to_arrow_table())
        return _plain_types(_run(connection, dataset, statement, tree, searches))
    except duckdb.Error as error:
        raise FilterError(f"SQL: {_explain(dataset, named, error)}") from error
    finally:
        connection.close()


def _run(
    connection: duckdb.DuckDBPyConnection,
    dataset: Dataset,
    statement: str,
    tree: dict[str, Any],
    searches: dict[tuple[str, str, str], str],
    *,
    positions: bool = False,
) -> pa.Table:
    """The result of a statement over whole tables, of which only the columns that it names are read.

    Args:
        positions: the tables have a further column `POSITION`.
    """
    rewritten, lookups = _rewrite(connection, dataset, statement, tree, searches)
    columns = columns_named(tree)
    for name in tables_named(tree):
        maps = lookups if name == "trajectories" else {}
        source = TableSource(
            _table(dataset, name), hidden=HIDDEN_COLUMNS, map_lookups=maps, positions=positions
        )
        table = source.in_memory([*columns, *lookups]) if columns is not None else None
        connection.register(name, source if table is None else table)
    if calls_best_of(tree):
        connection.execute(_BEST_OF_VIEW)
    return connection.sql(rewritten).to_arrow_table()


def _few_rows(
    connection: duckdb.DuckDBPyConnection,
    dataset: Dataset,
    tree: dict[str, Any],
    searches: dict[tuple[str, str, str], str],
) -> pa.Table | None:
    """The rows that a statement with ORDER BY and LIMIT returns, with all columns; None for other statements.

    They are found from the columns that it sorts and filters by, so that wide columns of the others stay
    unread.
    """
    import duckdb
    import numpy as np

    wanted = positions_tree(tree, _scalar_functions())
    if wanted is None:
        return None
    [name] = tables_named(tree)
    table = _table(dataset, name)
    try:
        parsed = connection.execute("SELECT json_deserialize_sql(?::JSON)", [json.dumps(wanted)]).fetchall()
        first = parsed[0][0]
        found = _run(connection, dataset, first, _parse(connection, first), searches, positions=True)
    except (duckdb.Error, FilterError):
        # the statement itself fails in its own words
        return None
    positions = np.sort(found.column(POSITION).to_numpy())
    columns = visible_columns(dataset, name)
    if not len(positions):
        return table.schema.empty_table().select(columns)
    return table.take(positions.tolist(), columns=columns)


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
            raise FilterError(f"no column {name!r} in {table}.{nearest(name, known)}{_listed(known)}")
    chosen = ", ".join(quoted(name) for name in columns) if columns else "*"
    # the line break ends a comment that a predicate may close with
    where = f" WHERE ({filter}\n)" if filter else ""
    tail = f" LIMIT {int(limit)}" if limit is not None else ""
    if filter and not _is_one_predicate(filter):
        raise FilterError(f"filter {filter!r}: expected one predicate, such as problem_type = 'math'")
    try:
        # a predicate is SQL by design, and statements can only read
        return run_sql(dataset, f"SELECT {chosen} FROM {table}{where}{tail}")  # noqa: S608
    except FilterError as error:
        raise FilterError(f"filter {filter!r}: {str(error).removeprefix('SQL: ')}") from error


def visible_columns(dataset: Dataset, table: str) -> list[str]:
    """Names of the columns of `table` that SQL sees."""
    return [name for name in _table(dataset, table).schema.names if name not in HIDDEN_COLUMNS]


def _is_one_predicate(text: str) -> bool:
    """Whether `text` keeps to its parentheses: `1) OR (2` would not."""
    depth = 0
    for token in re.findall(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|[()]", text):
        depth += {"(": 1, ")": -1}.get(token, 0)
        if depth < 0:
            return False
    return depth == 0


def _table(dataset: Dataset, name: str) -> lance.LanceDataset:
    """A table at the dataset's release; `releases` itself is always the newest list."""
    from vrldata.dataset import newest

    return newest(dataset).lance(name) if name == "releases" else dataset.lance(name)


def _parse(connection: duckdb.DuckDBPyConnection, statement: str) -> dict[str, Any]:
    """The syntax tree of the one SELECT statement in `statement`."""
    parsed = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [statement]).fetchall()
    tree: dict[str, Any] = json.loads(parsed[0][0])
    if tree.get("error"):
        message = str(tree.get("error_message", ""))
        if tree.get("error_type") == "not implemented":
            raise FilterError(
                "SQL: only one SELECT statement can be run here; datasets are changed by vrldata's commands"
            )
        raise FilterError(f"SQL: {_first_line(message)}")
    if len(tree.get("statements", [])) != 1:
        raise FilterError(f"SQL: expected one SELECT statement, found {len(tree.get('statements', []))}")
    return tree


def _rewrite(
    connection: duckdb.DuckDBPyConnection,
    dataset: Dataset,
    statement: str,
    tree: dict[str, Any],
    searches: dict[tuple[str, str, str], str],
    *,
    maps: bool = True,
) -> tuple[str, dict[str, tuple[str, str]]]:
    """`statement` with full-text functions as joins on search results and `rewards['x']` as plain columns.

    Args:
        searches: (column, words, mode) to the name of the result, of this statement so far.
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
            text = search_expression(connection, dataset, node, searches)
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


def _plain_types(table: pa.Table) -> pa.Table:
    """`table` with JSON as text, and DuckDB's 128-bit integers (sums) as int64 where they fit."""
    for index, field in enumerate(table.schema):
        column = table.column(index)
        if isinstance(field.type, pa.BaseExtensionType):
            storage = pa.chunked_array([chunk.storage for chunk in column.chunks], field.type.storage_type)
            table = table.set_column(index, pa.field(field.name, storage.type), storage)
        elif pa.types.is_decimal(field.type) and field.type.precision == 38 and field.type.scale == 0:
            try:
                table = table.set_column(index, pa.field(field.name, pa.int64()), column.cast(pa.int64()))
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


def _explain(dataset: Dataset, named: Sequence[str], error: Exception) -> str:
    """One line for an error of DuckDB, with the nearest name where a name is wrong."""
    message = str(error)
    missing = re.search(r'[Cc]olumn "([^"]+)" not found|does not have a column named "([^"]+)"', message)
    if missing:
        name = missing.group(1) or missing.group(2)
        columns = {table: visible_columns(dataset, table) for table in TABLES}
        known = sorted({column for table in named for column in columns[table]})
        owners = [table for table in TABLES if name in columns[table]]
        hint = f" It is a column of {', '.join(owners)}." if owners else nearest(name, known)
        return f"no column {name!r} in {' and '.join(named) or 'no table'}.{hint or _listed(known)}"
    missing = re.search(r"Table with name (.+?) does not exist", message)
    if missing:
        if missing.group(1) in TABLES:
            return f"{missing.group(1)} is read by its name in FROM or JOIN, not by a function or a write"
        hint = nearest(missing.group(1), TABLES)
        return f"no table {missing.group(1)!r}.{hint} Tables: {', '.join(TABLES)}."
    if "disabled by configuration" in message or "Permission Error" in message:
        return "statements read the dataset's tables only; files, URLs and settings are out of reach"
    return _first_line(message)


def _first_line(message: str) -> str:
    line = message.strip().splitlines()[0] if message.strip() else "the statement failed"
    hint = re.search(r"Did you mean \"?([^\"?\n]+)\"?\??", message)
    if 'at or near "end"' in line:
        return f'{line}; the columns "start" and "end" are written in double quotes'
    return re.sub(r"^(?:\w+ )+Error: ", "", line) + (f" Did you mean {hint.group(1)!r}?" if hint else "")


def _listed(names: Sequence[str]) -> str:
    return f" Columns: {', '.join(names)}."

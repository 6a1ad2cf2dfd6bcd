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
import uuid
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from vrldata.errors import FilterError, nearest
from vrldata.query_source import TableSource
from vrldata.query_syntax import (
    MAP_COLUMN,
    calls_best_of,
    columns_named,
    map_lookup,
    nodes_of,
    reads_tables_directly,
    tables_named,
)
from vrldata.tables import INDEXES, PAYLOAD_COLUMN, STORAGE_VERSION, TABLES

if TYPE_CHECKING:
    import duckdb
    import lance

    from vrldata.dataset import Dataset

HIDDEN_COLUMNS = (PAYLOAD_COLUMN,)
"""Columns that no statement sees: their values are read through `Dataset.clip`."""

SEARCHED = {"problem": ("samples", "sample_id"), "response": ("trajectories", "trajectory_id")}
"""Columns of the full-text functions, with their table and its key."""

_SEARCH_FUNCTIONS = ("match", "match_all", "bm25")
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
        rewritten, lookups = _rewrite(connection, dataset, statement, tree)
        columns = columns_named(tree)
        for name in named:
            source = _source(dataset, name, lookups if name == "trajectories" else {})
            table = source.in_memory([*columns, *lookups]) if columns is not None else None
            connection.register(name, source if table is None else table)
        if calls_best_of(tree):
            connection.execute(_BEST_OF_VIEW)
        return _plain_types(connection.sql(rewritten).to_arrow_table())
    except duckdb.Error as error:
        raise FilterError(f"SQL: {_explain(dataset, named, error)}") from error
    finally:
        connection.close()


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
    chosen = ", ".join(_quoted(name) for name in columns) if columns else "*"
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


def _source(dataset: Dataset, name: str, lookups: Mapping[str, tuple[str, str]]) -> TableSource:
    return TableSource(_table(dataset, name), hidden=HIDDEN_COLUMNS, map_lookups=lookups)


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
    connection: duckdb.DuckDBPyConnection, dataset: Dataset, statement: str, tree: dict[str, Any]
) -> tuple[str, dict[str, tuple[str, str]]]:
    """`statement` with full-text functions as joins on search results and `rewards['x']` as plain columns."""
    source = statement.encode()
    edits: list[tuple[int, int, str]] = []
    lookups: dict[str, tuple[str, str]] = {}
    searches: dict[tuple[str, str, str], str] = {}
    direct = reads_tables_directly(tree)
    for node in nodes_of(tree):
        kind = node.get("type")
        if kind == "FUNCTION" and node.get("function_name") in _SEARCH_FUNCTIONS:
            start = node["query_location"]
            text = _search_expression(connection, dataset, node, searches)
            edits.append((start, start + node["query_location_length"], text))
        elif direct and (lookup := map_lookup(node)) is not None:
            qualifier, key, start = lookup
            name = f"{MAP_COLUMN}['{key}']"
            lookups[name] = (MAP_COLUMN, key)
            text = ".".join(_quoted(part) for part in [*qualifier, name])
            edits.append((start, node["query_location"] + node["query_location_length"], text))
    for start, end, text in sorted(edits, reverse=True):
        source = source[:start] + text.encode() + source[end:]
    return source.decode(), lookups


def _search_expression(
    connection: duckdb.DuckDBPyConnection,
    dataset: Dataset,
    node: dict[str, Any],
    searches: dict[tuple[str, str, str], str],
) -> str:
    """SQL that stands for a full-text function; runs the search and registers its result when it is new."""
    function = node["function_name"]
    arguments = [argument["expression"] for argument in node["arguments"]]
    usage = f"{function}(column, 'words') searches one of: {', '.join(SEARCHED)}"
    if len(arguments) != 2 or arguments[0].get("type") != "COLUMN_REF":
        raise FilterError(f"SQL: {usage}")
    *qualifier, column = arguments[0]["column_names"]
    literal = arguments[1].get("literal") or {}
    if column not in SEARCHED or literal.get("kind") != "STRING":
        raise FilterError(f"SQL: {usage}, with the words as plain text")
    words = literal["text"]
    mode = "all" if function == "match_all" else "any"
    found = searches.get((column, words, mode))
    if found is None:
        found = f"__search_{len(searches)}"
        searches[column, words, mode] = found
        connection.register(found, search(dataset, column, words, all_words=mode == "all"))
    key = ".".join(_quoted(part) for part in [*qualifier, SEARCHED[column][1]])
    if function == "bm25":
        return f"(SELECT {found}.score FROM {found} WHERE {found}.found_id = {key})"  # noqa: S608 - names of our own
    return f"({key} IN (SELECT found_id FROM {found}))"  # noqa: S608


def search(dataset: Dataset, column: str, words: str, *, all_words: bool = False) -> pa.Table:
    """Full-text matches in `column`: a table of `found_id` (key of the row) and `score` (BM25, float32).

    Words are stemmed and folded to lower case; a part in double quotes is a phrase.
    """
    from lance.query import FullTextOperator, MatchQuery, PhraseQuery

    name, key = SEARCHED[column]
    table = _with_search_index(dataset.lance(name), key, column)
    phrases = re.findall(r'"([^"]+)"', words)
    rest = re.sub(r'"[^"]*"', " ", words).strip()
    operator = FullTextOperator.AND if all_words else FullTextOperator.OR
    queries: list[Any] = [PhraseQuery(phrase, column) for phrase in phrases]
    if rest:
        queries.append(MatchQuery(rest, column, operator=operator))
    parts = [_search_scores(table, key, query) for query in queries]
    found: dict[str, float] = {}
    for part in parts:
        for row_id, score in part.items():
            found[row_id] = found.get(row_id, 0.0) + score
    if all_words:
        found = {row_id: score for row_id, score in found.items() if all(row_id in part for part in parts)}
    return pa.table(
        {
            "found_id": pa.array(list(found), pa.string()),
            "score": pa.array(list(found.values()), pa.float32()),
        }
    )


def _with_search_index(table: lance.LanceDataset, key: str, column: str) -> lance.LanceDataset:
    """`table`, or where it has no full-text index a copy of the two columns in memory that has one.

    Without an index Lance would compare whole words as they are written, which finds other rows.
    """
    import lance

    if any(
        column in index.field_names and index.index_type == "Inverted" for index in table.describe_indices()
    ):
        return table
    rows = table.to_table(columns=[key, column])
    copy = lance.write_dataset(rows, f"memory://{uuid.uuid4().hex}", data_storage_version=STORAGE_VERSION)
    options = next(index.options for index in INDEXES[SEARCHED[column][0]] if index.column == column)
    copy.create_scalar_index(column, "INVERTED", **options)
    return copy


def _search_scores(table: Any, key: str, query: Any) -> dict[str, float]:
    if table.count_rows() == 0:
        return {}
    rows = table.scanner(columns=[key, "_score"], full_text_query=query).to_table()
    return dict(zip(rows[key].to_pylist(), rows["_score"].to_pylist(), strict=True))


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


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'

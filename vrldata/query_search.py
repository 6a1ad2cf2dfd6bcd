"""Full-text search in statements: `match`, `match_all` and `bm25` as joins with what Lance's index finds."""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from vrldata.errors import FilterError
from vrldata.query_syntax import quoted
from vrldata.tables import INDEXES, STORAGE_VERSION

if TYPE_CHECKING:
    import duckdb
    import lance

    from vrldata.dataset import Dataset

SEARCHED = {"problem": ("samples", "sample_id"), "response": ("trajectories", "trajectory_id")}
"""Columns of the full-text functions, with their table and its key."""

SEARCH_FUNCTIONS = ("match", "match_all", "bm25")


def search_expression(
    connection: duckdb.DuckDBPyConnection,
    dataset: Dataset,
    node: dict[str, Any],
    searches: dict[tuple[str, str, str], str],
) -> str:
    """SQL that stands for a full-text function; runs the search and registers its result when it is new.

    Args:
        node: the call in the statement's syntax tree.
        searches: (column, words, mode) of the searches of this statement to the names of their results.

    Raises:
        FilterError: the function is called with anything but a column and plain words.
    """
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
    key = ".".join(quoted(part) for part in [*qualifier, SEARCHED[column][1]])
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

"""What a statement's syntax tree says: tables and columns that it names, lookups in the map of rewards.

The tree is DuckDB's own, as `json_serialize_sql` gives it; positions in it are bytes of the statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from vrldata.tables import TABLES

BEST_OF = "best_of"
"""View over trajectories that statements may call."""

MAP_COLUMN = "rewards"
"""Column whose values `rewards['key']` are read as columns of their own."""

POSITION = "__position"
"""Column of the position of a row in its table, counted from 0, that only the first statement sees."""

KEY_COLUMNS = ("sample_id", "trajectory_id", "clip_id")
"""Columns that have an index in every table where rows are looked up by them."""


def nodes_of(tree: Any) -> Iterator[dict[str, Any]]:
    """Every object of a tree, outer ones first."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            node = list(node.values())
        if isinstance(node, list):
            waiting.extend(item for item in reversed(node) if isinstance(item, (dict, list)))


def tables_named(tree: dict[str, Any]) -> list[str]:
    """Our tables that the statement names; a name that a WITH clause defines again costs one registration.

    All of them for a statement such as SHOW TABLES.
    """
    if any(node.get("show_type") == "SHOW_SPECIAL" for node in nodes_of(tree)):
        return list(TABLES)
    named = {str(node["table_name"]).lower() for node in nodes_of(tree) if "table_name" in node}
    if calls_best_of(tree):
        named.add("trajectories")
    return [name for name in TABLES if name in named]


def calls_best_of(tree: dict[str, Any]) -> bool:
    """Whether the statement reads the view `best_of`."""
    return any(node.get("function_name") == BEST_OF for node in nodes_of(tree))


def names_column(tree: dict[str, Any], name: str) -> bool:
    """Whether the statement names a column `name` that it does not define itself, as an alias or a WITH."""
    nodes = list(nodes_of(tree))
    given = [
        one
        for node in nodes
        for one in (node.get("alias"), node.get("key"), *(node.get("column_name_alias") or ()))
    ]
    defined = name in (str(one).lower() for one in given)
    columns = ([str(part).lower() for part in node.get("column_names", ())] for node in nodes)
    return not defined and any(column in ([name], [name, name]) for column in columns)


def columns_named(tree: dict[str, Any], *, lookups: bool = False) -> set[str] | None:
    """Every column that a plain statement can touch, but for `rewards['x']`; None where that cannot be told.

    A row taken as a value (`SELECT t FROM samples t`), a natural join or a star may touch columns unnamed.
    None for a lookup by key as well, which is better left to an index.

    Args:
        lookups: of rows by key and of rewards by name count as well.
    """
    nodes = list(nodes_of(tree))
    unnamed = any(node.get("ref_type") == "NATURAL" for node in nodes) or calls_best_of(tree)
    by_key = not lookups and any(is_key_lookup(node) for node in nodes)
    if unnamed or by_key or not reads_tables_directly(tree):
        return None
    tables = {
        str(node[name]).lower() for node in nodes if "table_name" in node for name in ("table_name", "alias")
    }
    by_name = [] if lookups else [node for node in nodes if map_lookup(node) is not None]
    rewritten = {id(node["children"][0]) for node in by_name}
    named: set[str] = set()
    for node in nodes:
        named.update(str(name).lower() for name in node.get("using_columns", ()))
        if node.get("type") == "COLUMN_REF" and id(node) not in rewritten:
            names = [str(name).lower() for name in node["column_names"]]
            if len(names) == 1 and names[0] in tables:
                return None
            named.update(names)
    return named


def is_key_lookup(node: dict[str, Any]) -> bool:
    """Whether a node compares a key with a constant."""
    if node.get("type") != "COMPARE_EQUAL":
        return False
    sides = [node.get("left") or {}, node.get("right") or {}]
    names = [str(side["column_names"][-1]).lower() for side in sides if side.get("type") == "COLUMN_REF"]
    constants = [side for side in sides if side.get("class") == "CONSTANT"]
    return bool(constants) and any(name in KEY_COLUMNS for name in names)


def reads_tables_directly(tree: dict[str, Any]) -> bool:
    """True where every column is one of a base table: no `*`, no WITH clause, no subquery."""
    nodes = list(nodes_of(tree))
    selects = sum(node.get("type") == "SELECT_NODE" for node in nodes)
    return selects == 1 and not any(node.get("type") == "STAR" for node in nodes)


def map_lookup(node: dict[str, Any]) -> tuple[list[str], str, int] | None:
    """(qualifier, key, position) of `qualifier.rewards['key']`; None for any other node."""
    if node.get("type") != "ARRAY_EXTRACT":
        return None
    column, key = node["children"]
    literal = key.get("literal") or {}
    if column.get("type") != "COLUMN_REF" or literal.get("kind") != "STRING":
        return None
    *qualifier, name = column["column_names"]
    if name != MAP_COLUMN:
        return None
    return qualifier, literal["text"], column["query_location"]


def is_one_predicate(text: str) -> bool:
    """Whether `text` is not blank and keeps to its parentheses: `1) OR (2` would not."""
    if not text.strip():
        return False
    depth = 0
    for token in re.findall(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|[()]", text):
        depth += {"(": 1, ")": -1}.get(token, 0)
        if depth < 0:
            return False
    return depth == 0


def quoted(name: str) -> str:
    """`name` as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'

"""Statements that want few whole rows of a large table: which rows, from what must be read of all of them.

`SELECT * FROM trajectories ORDER BY reward DESC LIMIT 20` needs one column of all rows and all columns of
twenty. `positions_tree` gives the statement that finds their positions; running it, and the statement proper
on these rows alone, is the work of `query`.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Sequence
from typing import Any

from vrldata.query_search import SEARCH_FUNCTIONS
from vrldata.query_syntax import KEY_COLUMNS, POSITION, is_key_lookup, nodes_of
from vrldata.tables import TABLES

MOST_ROWS = 50_000
"""Rows that are taken one by one at most."""

COST_OF_TAKING = 20
"""Time to take a row from anywhere, in times to read it in passing."""

_PLAIN_LOOKUP = re.compile(
    r"\s*SELECT\s+\*\s+FROM\s+(\w+)\s+WHERE\s+(\w+)\s*=\s*'((?:[^']|'')*)'\s*;?\s*", re.IGNORECASE
)
_PLAIN = {"type": "", "class": "", "alias": "", "query_location": 0, "query_location_length": 0}
_POSITION = {**_PLAIN, "type": "COLUMN_REF", "class": "COLUMN_REF", "column_names": [POSITION]}


def pays(num_rows: int, num_wanted: int) -> bool:
    """Whether taking `num_wanted` of `num_rows` rows is quicker than reading all."""
    return num_wanted <= MOST_ROWS and num_wanted * COST_OF_TAKING <= num_rows


def plain_lookup(statement: str) -> tuple[str, tuple[str, str]] | None:
    """(table, (key column, value)) of `SELECT * FROM table WHERE key = 'value'`; None for others.

    What this is can be seen without a parser, which would take as long as finding the rows.
    """
    found = _PLAIN_LOOKUP.fullmatch(statement)
    if found is None:
        return None
    table, column = found[1].lower(), found[2].lower()
    if table not in TABLES or column not in KEY_COLUMNS:
        return None
    return table, (column, found[3].replace("''", "'"))


def key_lookup(tree: dict[str, Any]) -> tuple[str, str] | None:
    """(key column, value) where a statement reads one table, and of it the rows of one key alone.

    Its result is the same over these rows as over the whole table.
    """
    nodes = list(nodes_of(tree))
    node = tree["statements"][0]["node"]
    table = node.get("from_table") or {}
    if sum("table_name" in one for one in nodes) != 1 or table.get("type") != "BASE_TABLE" or table["sample"]:
        return None
    where = node.get("where_clause") or {}
    required = where["children"] if where.get("type") == "CONJUNCTION_AND" else [where]
    for one in filter(is_key_lookup, required):
        left, right = one["left"], one["right"]
        column, constant = (right, left) if left.get("class") == "CONSTANT" else (left, right)
        literal = constant.get("literal") or {}
        if literal.get("kind") == "STRING":
            return str(column["column_names"][-1]).lower(), literal["text"]
    return None


def columns_as_stored(tree: dict[str, Any], columns: Sequence[str]) -> list[str] | None:
    """The columns that a statement gives as they are stored, of all rows of one key; None where it does more.

    Such a statement has its result once the rows are found.

    Args:
        tree: of a statement for which `key_lookup` gives a key.
        columns: names of the columns of its table.
    """
    node = tree["statements"][0]["node"]
    if not _is_plain(node) or node["modifiers"] or not is_key_lookup(node["where_clause"] or {}):
        return None
    chosen: list[str] = []
    for item in node["select_list"]:
        unusual = ("exclude_list", "qualified_exclude_list", "replace_list", "rename_list", "columns", "expr")
        if item.get("type") == "STAR" and not any(item[name] for name in [*unusual, "relation_name"]):
            chosen += columns
        elif item.get("type") == "COLUMN_REF" and len(item["column_names"]) == 1 and not item["alias"]:
            chosen += item["column_names"]
        else:
            return None
    return chosen if set(chosen).issubset(columns) and len(set(chosen)) == len(chosen) else None


def positions_tree(
    tree: dict[str, Any], num_rows: int, scalar_functions: frozenset[str]
) -> dict[str, Any] | None:
    """The syntax tree of `SELECT __position FROM … WHERE … ORDER BY … LIMIT …`; None where it is no use.

    The rows that it finds, put in place of the table, give the statement's result: that has one table, and
    computes each of its rows from one row of the table. Without a limit, order does not matter here.

    Args:
        tree: of one statement that names one table.
        num_rows: of the table.
        scalar_functions: names of functions of one row that give the same value twice.
    """
    node = tree["statements"][0]["node"]
    if not _is_plain(node):
        return None
    modifiers = {modifier["type"]: modifier for modifier in copy.deepcopy(node["modifiers"])}
    limit = modifiers.get("LIMIT_MODIFIER")
    orders = modifiers.get("ORDER_MODIFIER", {"orders": []})["orders"]
    if limit is not None:
        reach = _reach_of(limit)
        in_stored_order = not orders and not node["where_clause"]
        if not reach or reach > MOST_ROWS or not (in_stored_order or pays(num_rows, reach)):
            return None
        modifiers["LIMIT_MODIFIER"] = _limit(reach)
    elif node["where_clause"]:
        orders, modifiers = [], {}
    else:
        return None
    aliases = {item["alias"].lower(): item for item in node["select_list"] if item.get("alias")}
    for order in orders:
        named = _plain_name(order["expression"])
        if named in aliases:
            order["expression"] = {**copy.deepcopy(aliases[named]), "alias": ""}
    if not _can_come_first(node, [order["expression"] for order in orders], aliases, scalar_functions):
        return None
    return _with_node(tree, {**node, "select_list": [_POSITION], "modifiers": list(modifiers.values())})


def limited(tree: dict[str, Any], num_rows: int) -> dict[str, Any]:
    """The statement with a limit, if it has none."""
    node = tree["statements"][0]["node"]
    if any(modifier["type"] == "LIMIT_MODIFIER" for modifier in node["modifiers"]):
        return tree
    return _with_node(tree, {**node, "modifiers": [*node["modifiers"], _limit(num_rows)]})


def _with_node(tree: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    return {**tree, "statements": [{**tree["statements"][0], "node": node}]}


def _is_plain(node: dict[str, Any]) -> bool:
    """Whether this is a SELECT over one table, perhaps with WHERE, ORDER BY and LIMIT, and nothing else."""
    table = node.get("from_table") or {}
    if node.get("type") != "SELECT_NODE" or table.get("type") != "BASE_TABLE":
        return False
    unusual = [node["cte_map"]["map"], node["group_expressions"], node["group_sets"]]
    unusual += [node["having"], node["sample"], node["qualify"], table["sample"], table["at_clause"]]
    unusual += [table["column_name_alias"], table["schema_name"], table["catalog_name"]]
    kinds = [modifier["type"] for modifier in node["modifiers"]]
    usual = {"ORDER_MODIFIER", "LIMIT_MODIFIER"}
    return not any(unusual) and usual.issuperset(kinds) and str(table["table_name"]).lower() in TABLES


def _can_come_first(
    node: dict[str, Any],
    sorted_by: list[dict[str, Any]],
    aliases: dict[str, dict[str, Any]],
    scalar_functions: frozenset[str],
) -> bool:
    """Whether the rows can be filtered and sorted before the expressions of the select list are computed."""
    read = [*sorted_by, node["where_clause"] or {}]
    if not all(_is_of_one_row(one, scalar_functions) for one in nodes_of([read, node["select_list"]])):
        return False
    # a number names a column of the result, a star all of them
    if any(expression.get("class") == "CONSTANT" for expression in sorted_by):
        return False
    if any(one.get("type") == "STAR" or is_key_lookup(one) for one in nodes_of(read)):
        return False
    return not any(_stands_for_another(one, aliases) for one in _columns_in(read))


def _limit(rows: int) -> dict[str, Any]:
    constant = {**_PLAIN, "class": "CONSTANT", "type": "VALUE_CONSTANT"}
    constant["literal"] = {"kind": "INTEGER", "text": str(rows)}
    return {"type": "LIMIT_MODIFIER", "limit": constant, "offset": None, "limit_type": "ROW_COUNT"}


def _reach_of(modifier: dict[str, Any]) -> int:
    """Rows that LIMIT and OFFSET reach; 0 where that is not plain."""
    reach = 0
    for part in (modifier["limit"], modifier["offset"]):
        literal = (part or {}).get("literal") or {}
        if part is not None and literal.get("kind") != "INTEGER":
            return 0
        reach += int(literal.get("text", 0))
    return reach if modifier["limit_type"] == "ROW_COUNT" and modifier["limit"] is not None else 0


def _is_of_one_row(node: dict[str, Any], scalar_functions: frozenset[str]) -> bool:
    if node.get("class") in ("SUBQUERY", "WINDOW", "PARAMETER", "LAMBDA", "POSITIONAL_REFERENCE"):
        return False
    if node.get("class") != "FUNCTION":
        return True
    name = str(node["function_name"]).lower()
    return name in SEARCH_FUNCTIONS or name in scalar_functions


def _columns_in(nodes: Any) -> Iterator[dict[str, Any]]:
    return (node for node in nodes_of(nodes) if node.get("type") == "COLUMN_REF")


def _plain_name(node: dict[str, Any]) -> str | None:
    names = node.get("column_names", ())
    return str(names[0]).lower() if node.get("type") == "COLUMN_REF" and len(names) == 1 else None


def _stands_for_another(column: dict[str, Any], aliases: dict[str, dict[str, Any]]) -> bool:
    """Whether a name may mean an expression of the select list, and not the column of this name."""
    name = _plain_name(column)
    return name in aliases and _plain_name(aliases[name]) != name

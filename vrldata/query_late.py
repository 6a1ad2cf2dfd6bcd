"""Statements that sort or filter a table and want few whole rows of it: which rows, from what must be read.

`SELECT * FROM trajectories ORDER BY reward DESC LIMIT 20` needs one column of all rows and all columns of
twenty. `positions_tree` gives the statement that finds their positions; running it, and the statement proper
on these rows alone, is the work of `query`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from vrldata.query_search import SEARCH_FUNCTIONS
from vrldata.query_syntax import POSITION, is_key_lookup, nodes_of
from vrldata.tables import TABLES

MOST_ROWS = 10_000
"""Rows from which taking them one by one costs more than it saves."""

_PLAIN = {"type": "", "class": "", "alias": "", "query_location": 0, "query_location_length": 0}


def positions_tree(tree: dict[str, Any], scalar_functions: frozenset[str]) -> dict[str, Any] | None:
    """The syntax tree of `SELECT __position FROM … WHERE … ORDER BY … LIMIT …`; None where it is no use.

    The rows that it finds, put in place of the table, give the statement's result: it has one table, an
    order and a limit, and computes each row of its result from one row of the table.

    Args:
        tree: of one statement.
        scalar_functions: names of functions of one row that give the same value twice.
    """
    node = tree["statements"][0]["node"]
    parts = _parts(node)
    if parts is None:
        return None
    orders, limit = parts
    aliases = {item["alias"].lower(): item for item in node["select_list"] if item.get("alias")}
    found = copy.deepcopy(tree)
    first = found["statements"][0]["node"]
    sorted_by = first["modifiers"][orders]["orders"]
    for order in sorted_by:
        named = _plain_name(order["expression"])
        if named in aliases:
            order["expression"] = {**copy.deepcopy(aliases[named]), "alias": ""}
    read = [order["expression"] for order in sorted_by] + [first["where_clause"] or {}]
    if any(is_key_lookup(one) for one in nodes_of(read)) or not all(
        _is_of_one_row(one, scalar_functions) for one in nodes_of([read, node["select_list"]])
    ):
        return None
    if any(_stands_for_another(one, aliases) for one in _columns_in(read)):
        return None
    constants = (order["expression"].get("class") for order in sorted_by)
    stars = (one.get("type") == "STAR" for one in nodes_of(read))
    if "CONSTANT" in constants or any(stars):
        # a number names a column of the result
        return None
    first["select_list"] = [
        {**_PLAIN, "type": "COLUMN_REF", "class": "COLUMN_REF", "column_names": [POSITION]}
    ]
    first["modifiers"][limit]["limit"]["literal"]["text"] = str(_limit_of(node["modifiers"][limit]))
    first["modifiers"][limit]["offset"] = None
    return found


def _parts(node: dict[str, Any]) -> tuple[int, int] | None:
    """Places of ORDER BY and LIMIT among the modifiers of a plain SELECT over one table."""
    table = node.get("from_table") or {}
    if node.get("type") != "SELECT_NODE" or table.get("type") != "BASE_TABLE":
        return None
    unusual = [node["cte_map"]["map"], node["group_expressions"], node["group_sets"]]
    unusual += [node["having"], node["sample"], node["qualify"], table["sample"], table["at_clause"]]
    unusual += [table["column_name_alias"], table["schema_name"], table["catalog_name"]]
    kinds = [modifier["type"] for modifier in node["modifiers"]]
    if any(unusual) or sorted(kinds) != ["LIMIT_MODIFIER", "ORDER_MODIFIER"]:
        return None
    limit = kinds.index("LIMIT_MODIFIER")
    if str(table["table_name"]).lower() not in TABLES or not _limit_of(node["modifiers"][limit]):
        return None
    return kinds.index("ORDER_MODIFIER"), limit


def _limit_of(modifier: dict[str, Any]) -> int:
    """Rows that LIMIT and OFFSET reach; 0 where that is not plain, or too many."""
    reach = 0
    for part in (modifier["limit"], modifier["offset"]):
        literal = (part or {}).get("literal") or {}
        if part is not None and literal.get("kind") != "INTEGER":
            return 0
        reach += int(literal.get("text", 0))
    usable = modifier["limit_type"] == "ROW_COUNT" and modifier["limit"] is not None
    return reach if usable and reach <= MOST_ROWS else 0


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

"""What is wrong with a statement, in one line with the nearest name."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from vrldata.errors import FilterError, nearest
from vrldata.query_syntax import names_column
from vrldata.tables import PAYLOAD_COLUMN, TABLES

NO_PIXELS = (
    f"no column {PAYLOAD_COLUMN!r} in SQL: pixels are read by ds.clip(video_path, spec) or"
    " ds.clip_by_id(clip_id)"
)


def check_no_pixels(tree: dict[str, Any]) -> None:
    """Raises FilterError where a statement asks for the pixels as a column.

    The database would take the name for that of the table, and a row of it for the value.
    """
    if names_column(tree, PAYLOAD_COLUMN):
        raise FilterError(f"SQL: {NO_PIXELS}")


def explain(columns: Callable[[str], Sequence[str]], named: Sequence[str], error: Exception) -> str:
    """One line for an error of DuckDB, with the nearest name where a name is wrong.

    Args:
        columns: names of the columns of a table.
        named: tables of the statement.
    """
    message = str(error)
    missing = re.search(r'[Cc]olumn "([^"]+)" not found|does not have a column named "([^"]+)"', message)
    if missing:
        name = missing.group(1) or missing.group(2)
        if name == PAYLOAD_COLUMN and PAYLOAD_COLUMN in named:
            return NO_PIXELS
        known = sorted({column for table in named for column in columns(table)})
        owners = [table for table in TABLES if name in columns(table)]
        hint = f" It is a column of {', '.join(owners)}." if owners else nearest(name, known)
        return f"no column {name!r} in {' and '.join(named) or 'no table'}.{hint or listed(known)}"
    missing = re.search(r"Table with name (.+?) does not exist", message)
    if missing:
        if missing.group(1) in TABLES:
            return f"{missing.group(1)} is read by its name in FROM or JOIN, not by a function or a write"
        hint = nearest(missing.group(1), TABLES)
        return f"no table {missing.group(1)!r}.{hint} Tables: {', '.join(TABLES)}."
    if "disabled by configuration" in message or "Permission Error" in message:
        return "statements read the dataset's tables only; files, URLs and settings are out of reach"
    return first_line(message)


def first_line(message: str) -> str:
    """The first line of a message of DuckDB, with the name that it suggests."""
    line = message.strip().splitlines()[0] if message.strip() else "the statement failed"
    hint = re.search(r"Did you mean \"?([^\"?\n]+)\"?\??", message)
    if 'at or near "end"' in line:
        return f'{line}; the columns "start" and "end" are written in double quotes'
    return re.sub(r"^(?:\w+ )+Error: ", "", line) + (f" Did you mean {hint.group(1)!r}?" if hint else "")


def listed(names: Sequence[str]) -> str:
    """The columns that there are, for the end of a message."""
    return f" Columns: {', '.join(names)}."

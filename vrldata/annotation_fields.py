"""Names of annotation fields: the accepted spellings, which of them a row uses, and hints for the others.

The names cover the files of EasyVideoR1, OneThinker and Video-R1 as they are. Values are checked elsewhere.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vrldata.errors import AnnotationError, nearest

ALIASES: dict[str, tuple[str, ...]] = {
    "problem": ("problem", "question", "prompt"),
    "answer": ("answer", "solution", "ground_truth"),
    "videos": ("videos", "video", "path", "video_path"),
    "images": ("images", "image", "image_path"),
    "options": ("options", "choices", "candidates"),
    "problem_type": ("problem_type",),
    "data_type": ("data_type",),
    "sample_id": ("problem_id", "id", "question_id", "sample_id"),
    "data_source": ("data_source", "source"),
    "split": ("split",),
    "start": ("start",),
    "end": ("end",),
    "offline": ("offline_output", "trajectory"),
    "has_offline": ("has_offline_trajectory",),
    "offline_log_probs": ("offline_log_probs",),
    "offline_reward": ("offline_reward",),
    "pass_rate": ("pass_rate",),
}
"""Field to its accepted names, the preferred one first. Upper and lower case are the same."""

_REPORTED = {"answer": "solution", "offline": "trajectory"}
"""Names under which `rejected.jsonl` lists a missing field that no row of the file spells."""
_PYTHON_TEXT = re.compile(r"""\s*[\[{]\s*['"].*['"]\s*[\]}]\s*""", re.DOTALL)
_FIELD_OF = {alias: field for field, aliases in ALIASES.items() for alias in aliases}


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Which keys of a row hold which field.

    Attributes:
        names: field to the keys that may hold it, the preferred one first.
        unknown: keys that hold no field.
        mapped: field to column, as the user said.
        spelling: field to the name by which rows of the file called it first.
    """

    names: Mapping[str, tuple[str, ...]]
    unknown: tuple[str, ...]
    mapped: Mapping[str, str]
    spelling: Mapping[str, str]


class FieldNames:
    """Finds the fields of rows; remembers the answer for rows with the same keys."""

    def __init__(self, field_map: Mapping[str, str] | None = None) -> None:
        """
        Args:
            field_map: field, by any of its accepted names, to the column that holds it.

        Raises:
            AnnotationError: a field of the map is unknown.
        """
        self.mapped: dict[str, str] = {}
        for given, column in (field_map or {}).items():
            name = given.casefold()
            field = name if name in ALIASES else _FIELD_OF.get(name)
            if field is None:
                raise AnnotationError(
                    f"field map: unknown field {given!r}.{nearest(given, _FIELD_OF)}"
                    f" Known: {', '.join(sorted(_FIELD_OF))}"
                )
            self.mapped[field] = column
        self._known: dict[tuple[str, ...], Columns] = {}
        self._spelling: dict[str, str] = {}

    def columns(self, row: Iterable[str]) -> Columns:
        """The keys of a row, or the columns of a table, by field."""
        keys = tuple(row)
        found = self._known.get(keys)
        if found is None:
            found = self._known[keys] = self._find(keys)
            if len(self._known) > 10_000:
                self._known.clear()
        return found

    def _find(self, keys: Sequence[str]) -> Columns:
        names: dict[str, tuple[str, ...]] = {}
        taken = set(self.mapped.values())
        by_alias: dict[str, str] = {}
        for key in keys:
            if key not in taken:
                by_alias.setdefault(key.strip().casefold(), key)
        for field, aliases in ALIASES.items():
            if field in self.mapped:
                names[field] = (self.mapped[field],) if self.mapped[field] in keys else ()
            else:
                names[field] = tuple(by_alias[alias] for alias in aliases if alias in by_alias)
            if names[field]:
                self._spelling.setdefault(field, names[field][0])
        used = {key for found in names.values() for key in found}
        return Columns(
            names=names,
            unknown=tuple(key for key in keys if key not in used),
            mapped=self.mapped,
            spelling=self._spelling,
        )


def pick(row: Mapping[str, Any], columns: Columns, field: str) -> tuple[str | None, Any]:
    """Key and value of a field: the first of its keys that holds something, else the first that is there."""
    names = columns.names[field]
    for name in names:
        value = row[name]
        if not (value is None or is_nan(value) or value == "" or value == []):
            return name, value
    return (names[0], row[names[0]]) if names else (None, None)


def reported_name(field: str) -> str:
    """The name under which a missing field is recorded."""
    return _REPORTED.get(field, field)


def missing_name(field: str, columns: Columns) -> str:
    """The name of a missing field for the record: as other rows of the file spell it, or as it is known."""
    return field if field in columns.mapped else columns.spelling.get(field, reported_name(field))


def missing_text(field: str, columns: Columns, keys: Iterable[str], *, what: str) -> str:
    """What is missing, what there is instead, and how to name it.

    Args:
        keys: what is there; `what` they are: `fields` or `columns`.
    """
    listed = ", ".join(map(str, keys)) or "none"
    if field in columns.mapped:
        column = columns.mapped[field]
        near = nearest(column, map(str, keys))
        return f"missing: --map {field}={column}, but there is no {column!r}.{near} {what} present: {listed}"
    others = [alias for alias in ALIASES[field] if alias != field]
    names = f" ({', '.join(others)} would do too)" if others else ""
    return (
        f"missing{names}{missing_hint(field, keys)}; {what} present: {listed}; another name of it is told by "
        f"--map {field}=COLUMN"
    )


def missing_hint(field: str, keys: Iterable[str]) -> str:
    """What may have been meant instead of a missing field; empty when nothing is near.

    >>> missing_hint("videos", ["vidoes", "answer"])
    "; there is 'vidoes': did you mean 'videos'?"
    """
    for key in keys:
        if str(key).casefold() in _FIELD_OF:
            continue
        for alias in ALIASES[field]:
            if nearest(str(key).casefold(), [alias]):
                return f"; there is {key!r}: did you mean {alias!r}?"
    return ""


def is_nan(value: Any) -> bool:
    """Whether `value` is the NaN that data frames write where a cell is empty."""
    return isinstance(value, float) and math.isnan(value)


def is_python_text(text: str) -> bool:
    """Whether a text is a Python list or dict as `str` writes it, such as a data frame's cell in a CSV file.

    >>> is_python_text("['saw', 'drill']"), is_python_text('["saw", "drill"]'), is_python_text("[A] saw")
    (True, False, False)
    """
    if not _PYTHON_TEXT.fullmatch(text):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return True
    return False


def not_nan(value: Any) -> Any:
    """`value`, or None for NaN."""
    return None if is_nan(value) else value

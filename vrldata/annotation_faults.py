"""Rows as the readers of annotation files pass them on, what can be wrong with them, and how it is reported.

`RawRow`, `FileFault` and `RowFault` travel inside the readers; callers see `Rejection` and `Notice`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from vrldata.errors import AnnotationError

SHOWN_CHARS = 80


class RowFault(Exception):  # noqa: N818 - caught inside the readers, never seen by a user
    """One row cannot be used.

    Attributes:
        reason: short code to count by, such as `missing_field`.
        text: what is wrong and what to do, for the message.
        field: name of the field as the row spells it; None when the whole row is meant.
        value: what was found; left out of the message when `show` is False.
        named: name of the field in the message, where the record has another of its accepted names.
    """

    def __init__(
        self,
        reason: str,
        text: str,
        *,
        field: str | None = None,
        value: Any = None,
        show: bool = True,
        named: str | None = None,
    ) -> None:
        super().__init__(text)
        self.reason, self.text, self.field, self.value, self.show = reason, text, field, value, show
        self.named = named or field


class FileFault(Exception):  # noqa: N818 - caught inside the readers, never seen by a user
    """A whole file cannot be used; fields as in `RowFault`, with the line and row where it shows."""

    def __init__(
        self,
        reason: str,
        text: str,
        *,
        line: int | None = None,
        row: int | None = None,
        field: str | None = None,
        named: str | None = None,
    ) -> None:
        super().__init__(text)
        self.reason, self.text, self.line, self.row, self.field = reason, text, line, row, field
        self.named = named or field


@dataclass(frozen=True, slots=True, kw_only=True)
class RawRow:
    """One row as it stands in the file, or the fault that keeps it from being read.

    Attributes:
        line: counted from 1; None where the format has no lines.
        row: counted from 0; None for a line that is no row.
    """

    line: int | None
    row: int | None
    fields: Mapping[str, Any]
    fault: RowFault | None = None


Notify = Callable[[str, str, int | None], None]
"""Takes the reason, the text and the line of something worth telling."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """A row, or a whole file, that was not loaded.

    Attributes:
        file: path as given.
        line: counted from 1, blank lines included; None for Parquet, `datasets` and rows given as objects.
        row: counted from 0; None when the whole file is meant, or a line that is no row.
        field: as the row spells it; None when no single field is to blame.
        value: what was found, shortened.
        reason: short code to count by, such as `missing_field`.
        message: one line: where, what, and what to do.
        whole_file: nothing of the file was loaded.
    """

    file: str
    line: int | None
    row: int | None
    field: str | None
    value: str
    reason: str
    message: str
    whole_file: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something that was accepted but deserves a look; fields as in `Rejection`."""

    file: str
    line: int | None
    row: int | None
    field: str | None
    reason: str
    message: str


def shown(value: Any) -> str:
    """A value on one line, at most `SHOWN_CHARS` characters, safe to print."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = repr(value)
    return shown_text(text)


def shown_text(text: str) -> str:
    """A text on one line, at most `SHOWN_CHARS` characters, safe to print."""
    text = "".join(
        character if character.isprintable() else character.encode("unicode_escape", "replace").decode()
        for character in text[: 4 * SHOWN_CHARS]
    )
    return text if len(text) <= SHOWN_CHARS else text[: SHOWN_CHARS - 1] + "…"


def located(file: str, line: int | None, row: int | None, field: str | None, text: str) -> str:
    """A message with its place in front.

    >>> located("a.jsonl", 3, 2, "solution", "is missing")
    "a.jsonl:3, field 'solution': is missing"
    >>> located("a.parquet", None, 2, "solution", "is missing")
    "a.parquet, row 2 (counted from 0), field 'solution': is missing"
    """
    # a line is found by any editor; only formats without lines are told the row
    place = file if line is None else f"{file}:{line}"
    if line is None and row is not None:
        place += f", row {row} (counted from 0)"
    if field is not None:
        place += f", field {field!r}"
    # bytes of another encoding, in a file or in its name, would keep the message from being written
    return f"{place}: {text}".encode("utf-8", "backslashreplace").decode()


def row_rejection(fault: RowFault, file: str, line: int | None, row: int | None) -> Rejection:
    """The rejection that a fault of one row leads to."""
    value = "" if fault.value is None else shown(fault.value)
    text = f"{fault.text}; found {value}" if value and fault.show else fault.text
    # the record is JSON already: quotes around a text would be a second pair
    recorded = shown_text(fault.value) if isinstance(fault.value, str) else value
    return Rejection(
        file=file,
        line=line,
        row=row,
        field=fault.field,
        value=recorded,
        reason=fault.reason,
        message=located(file, line, row, fault.named, text),
    )


def file_rejection(fault: FileFault, file: str) -> Rejection:
    """The rejection that a fault of a whole file leads to."""
    return Rejection(
        file=file,
        line=fault.line,
        row=fault.row,
        field=fault.field,
        value="",
        reason=fault.reason,
        message=located(file, fault.line, fault.row, fault.named, fault.text),
        whole_file=True,
    )


def file_name(path: str | Path) -> str:
    """The name by which ids of the rows of a file begin: `train` of `data/train.jsonl`."""
    name = Path(path).name
    # a name of the disk may be no text
    return (name.split(".")[0] or name).encode("utf-8", "backslashreplace").decode()


def split_name(name: str, split: str) -> str:
    """The name by which ids of the rows of one split of a data set begin."""
    return f"{name}-{split}"


def source_name(label: str) -> str:
    """`file_name` or `split_name` of the source that rejections call `label`: a file, or `name[split]`."""
    if not label.endswith("]"):
        return file_name(label)
    place, _, split = label[:-1].rpartition("[")
    return split_name(Path(place).name, split)


def read_rejected(path: str | Path) -> list[Rejection]:
    """Rejections that `write_rejected` wrote; lines that are none of them are left out."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    found = []
    for line in lines:
        try:
            found.append(Rejection(**json.loads(line)))
        except (ValueError, TypeError):
            continue
    return found


def write_rejected(path: str | Path, rejected: Iterable[Rejection]) -> int:
    """Write rejections as JSON Lines, whole or not at all.

    Returns:
        Number of lines.

    Raises:
        AnnotationError: the file cannot be written.
    """
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    count = 0
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as stream:
            for rejection in rejected:
                stream.write(json.dumps(asdict(rejection), ensure_ascii=False) + "\n")
                count += 1
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, target)
    except OSError as error:
        raise AnnotationError(f"{target}: cannot be written: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)
    return count

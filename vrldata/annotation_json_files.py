"""Annotation rows out of JSON text: a list, a row a line, or an object around a list, with line numbers.

Large lists and lines are read piece by piece. Single values are the work of `annotation_json`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from vrldata.annotation_blocks import OpenFile
from vrldata.annotation_faults import FileFault, Notify, RawRow, RowFault
from vrldata.annotation_fields import FieldNames, pick
from vrldata.annotation_json import JsonSyntaxError, decode_value
from vrldata.annotation_json_text import BLANK, MAX_ROW_CHARS, JsonText

MAX_DOCUMENT_CHARS = 1 << 30
"""Largest file that holds its rows inside one JSON object; arrays and lines have no limit."""

_COMMENT = re.compile(r"\s*(?://|#|/\*)")

IsRow = Callable[[Mapping[str, Any]], bool]


def json_rows(
    file: OpenFile, notify: Notify, names: FieldNames | None = None, *, is_row: IsRow | None = None
) -> Iterator[RawRow]:
    """Rows of a JSON array, of JSON Lines, of objects one after the other, or of one object around a list.

    Args:
        names: knows the columns that the user has mapped.
        is_row: whether an object looks like a row rather than like a container of rows; by default, whether
            it has fields of an annotation.

    Raises:
        FileFault: no rows, or text that is no JSON where the rest cannot be trusted.
    """
    names = names or FieldNames()
    is_row = is_row or functools.partial(is_annotation, names=names)
    text = JsonText(file)
    if text.newline == "\r":
        notify("line_endings", "lines end with a bare carriage return (old Mac style); read as lines", None)
    start = text.skip_blanks(0)
    if start is None:
        raise FileFault("no_rows", "the file holds no rows, only blanks")
    if text.buffer[start] == "[":
        yield from _with_one_readable(_array_rows(text, start + 1))
    elif text.buffer[start] == "{" and _spans_lines(text, start, is_row):
        yield from _document_rows(text, start, notify, names, is_row)
    else:
        yield from _with_one_readable(_line_rows(text))


def _with_one_readable(rows: Iterator[RawRow]) -> Iterator[RawRow]:
    """Pass rows on; refuse a file without a single readable row as a whole, for the reason of its first."""
    held: list[RawRow] = []
    readable = False
    for row in rows:
        if readable:
            yield row
        elif row.fault is None or row.fields:
            readable = True
            yield from held
            yield row
        else:
            held.append(row)
    if not readable:
        if not held:
            raise FileFault("no_rows", "the file holds no rows")
        first = held[0]
        assert first.fault is not None
        raise FileFault(
            first.fault.reason, first.fault.text, line=first.line, row=first.row, field=first.fault.field
        )


def _array_rows(text: JsonText, offset: int) -> Iterator[RawRow]:
    index = 0
    following = text.skip_blanks(offset)
    if following is not None and text.buffer[following] == "]":
        _refuse_rest(text, following + 1)
        return
    while True:
        place = text.skip_blanks(text.drop_before(offset))
        if place is None:
            raise FileFault(
                "truncated_file",
                f"the file ends inside the list, after {index} rows: incomplete, perhaps cut off",
                line=text.line_at(len(text.buffer)),
            )
        line = text.line_at(place)
        try:
            value, end, fault = text.value(place)
            yield _row_of(value, fault, line, index)
            index += 1
            offset = _after_item(text, end)
        except JsonSyntaxError as error:
            raise _syntax_fault(text, error, index) from error
        if offset < 0:
            return


def _after_item(text: JsonText, end: int) -> int:
    """The offset behind the comma after an item; -1 when the list is closed."""
    place = text.skip_blanks(end)
    if place is None:
        raise JsonSyntaxError(end, "the text ends where a comma or ']' is expected", incomplete=True)
    if text.buffer[place] == "]":
        _refuse_rest(text, place + 1)
        return -1
    if text.buffer[place] != ",":
        raise JsonSyntaxError(
            place, f"not JSON: a comma is expected, found {text.buffer[place : place + 20]!r}"
        )
    following = text.skip_blanks(place + 1)
    if following is not None and text.buffer[following] == "]":
        raise JsonSyntaxError(following, "trailing comma before ']': remove it")
    return place + 1


def _refuse_rest(text: JsonText, offset: int) -> None:
    place = text.skip_blanks(offset)
    if place is not None:
        raise FileFault(
            "not_json",
            f"more text after the end of the list: {text.buffer[place : place + 20]!r}",
            line=text.line_at(place),
        )


def _syntax_fault(text: JsonText, error: JsonSyntaxError, index: int) -> FileFault:
    line = text.line_at(error.offset)
    if error.incomplete:
        return FileFault(
            "truncated_file",
            f"{error.text}, in line {line}, the last line: the file is incomplete, perhaps cut off",
            line=line,
            row=index,
        )
    return FileFault("not_json", f"{error.text} (line {line})", line=line)


def _row_of(value: Any, fault: RowFault | None, line: int, index: int) -> RawRow:
    if isinstance(value, dict):
        return RawRow(line=line, row=index, fields=value, fault=fault)
    if fault is None:
        fault = RowFault(
            "not_an_object",
            f"expected an object of field to value, found {_kind(value)}",
            value=value,
        )
    return RawRow(line=line, row=index, fields={}, fault=fault)


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    kinds = {bool: "a bool", str: "a text", list: "a list", dict: "an object"}
    return kinds.get(type(value), "a number")


def _line_rows(text: JsonText) -> Iterator[RawRow]:
    index = 0
    for line, content, last in _lines(text):
        # files that were joined bring their byte order marks along
        content = content.lstrip("\ufeff")
        if not content.strip():
            continue
        try:
            row = _line_row(content, line, index, last)
        except JsonSyntaxError as error:
            row = _bad_line(content, error, line, index, last)
        index += row.row is not None
        yield row


def _lines(text: JsonText) -> Iterator[tuple[int, str, bool]]:
    number, start = 1, 0
    while True:
        end = text.buffer.find(text.newline, start)
        if end < 0:
            if len(text.buffer) - start > MAX_ROW_CHARS:
                raise FileFault(
                    "too_large", f"the line is longer than {MAX_ROW_CHARS >> 20} MiB", line=number
                )
            text.buffer = text.buffer[start:]
            start = 0
            if text.more():
                continue
            if text.buffer.strip():
                yield number, text.buffer, True
            return
        yield number, text.buffer[start:end], False
        number, start = number + 1, end + 1


def _line_row(content: str, line: int, index: int, last: bool) -> RawRow:
    value, end, fault = decode_value(content, len(content) - len(content.lstrip()))
    rest = content[end:].strip()
    if rest:
        hint = (
            "a comma after the object: in JSON Lines nothing separates the lines"
            if rest == ","
            else "more than one JSON value in the line: write one object a line"
        )
        raise JsonSyntaxError(end, f"not JSON Lines: {hint}")
    return _row_of(value, fault, line, index)


def _bad_line(content: str, error: JsonSyntaxError, line: int, index: int, last: bool) -> RawRow:
    if _COMMENT.match(content):
        fault = RowFault("not_json", "not JSON: a comment; JSON has none, remove it", value=content.strip())
        return RawRow(line=line, row=None, fields={}, fault=fault)
    text = error.text
    if not content.strip("\0 \t\r"):
        text = "not JSON: NUL bytes; the file was perhaps not written to its end, copy it again"
    elif error.incomplete:
        where = (
            "the last line is incomplete, the writer was perhaps stopped"
            if last
            else "the line is incomplete"
        )
        text = f"{where}: {text}"
    elif not text.startswith(("not JSON", "trailing", "single")):
        text = f"not JSON: {text}"
    return RawRow(line=line, row=index, fields={}, fault=RowFault("not_json", text, value=content.strip()))


def _spans_lines(text: JsonText, start: int, is_row: IsRow) -> bool:
    """Whether a file that begins with an object is one document rather than a row a line."""
    end = text.buffer.find(text.newline, start)
    line = text.buffer[start : end if end >= 0 else len(text.buffer)]
    try:
        value, _, _ = decode_value(line)
    except JsonSyntaxError as error:
        if not error.incomplete:
            return False
        if end < 0:
            # the first line is longer than the first block, or the file is this one incomplete line
            return not text.complete
        try:
            decode_value(text.buffer, start)
        except JsonSyntaxError as second:
            return second.incomplete
        return True
    # a complete object in the first line: a document when it is all there is and does not look like a row
    only = end < 0 or (text.complete and not text.buffer[end:].strip())
    return only and isinstance(value, dict) and not is_row(value)


def is_annotation(value: Mapping[str, Any], *, names: FieldNames) -> bool:
    """Whether an object looks like an annotation rather than like a container of them."""
    found = names.columns(value).names
    named = any(found[field] for field in ("problem", "answer", "problem_type")) or "messages" in value
    return named and not _num_column_rows(value, names)


def _num_column_rows(value: Mapping[str, Any], names: FieldNames) -> int:
    """Rows of an object that holds columns, as data frames write it: a list, or an object by row, each."""
    columns = names.columns(value)
    problem, answer = (pick(value, columns, field)[1] for field in ("problem", "answer"))
    alike = type(problem) is type(answer) and isinstance(problem, list | dict)
    return len(problem) if alike and len(problem) == len(answer) else 0


def _document_rows(
    text: JsonText, start: int, notify: Notify, names: FieldNames, is_row: IsRow
) -> Iterator[RawRow]:
    """Rows of a file whose objects span lines: rows one after the other, or one object that holds them."""
    while text.more():
        if len(text.buffer) > MAX_DOCUMENT_CHARS:
            raise FileFault(
                "too_large",
                f"one JSON object of more than {MAX_DOCUMENT_CHARS >> 20} MiB: write the rows as JSON Lines",
            )
    index, place = 0, text.skip_blanks(start)
    while place is not None:
        try:
            value, end, fault = decode_value(text.buffer, place)
        except JsonSyntaxError as error:
            raise _syntax_fault(text, error, index) from error
        following = text.skip_blanks(end)
        if index == 0 and following is None and isinstance(value, dict) and not is_row(value):
            num_rows = _num_column_rows(value, names)
            if num_rows:
                found = f"one object of columns with {num_rows} rows: write rows (pandas: orient='records')"
                line = text.line_at(place)
                raise FileFault("not_a_list", f"expected a list of rows, found {found}", line=line)
            if fault is not None and fault.reason == "nested_too_deep":
                raise FileFault(fault.reason, fault.text, line=text.line_at(place), field=fault.field)
            yield from _wrapped_rows(text, place, value, notify)
            return
        yield _row_of(value, fault, text.line_at(place), index)
        index, place = index + 1, following


def _wrapped_rows(
    text: JsonText, start: int, document: Mapping[str, Any], notify: Notify
) -> Iterator[RawRow]:
    lists = [
        name
        for name, value in document.items()
        if isinstance(value, list) and value and all(isinstance(item, dict) for item in value)
    ]
    line = text.line_at(start)
    if len(lists) == 1:
        notify(
            "wrapped_rows",
            f"the rows lie in a list under the key {lists[0]!r}; read from there, its neighbours are ignored",
            line,
        )
        offset = _member_offset(text.buffer, start, lists[0]) + 1
        # what follows the list is the rest of the object, which has been read already
        for index in range(len(document[lists[0]])):
            place = text.skip_blanks(offset)
            assert place is not None
            value, end, fault = decode_value(text.buffer, place)
            yield _row_of(value, fault, text.line_at(place), index)
            offset = (text.skip_blanks(end) or end) + 1
        return
    empty = next((name for name, value in document.items() if value == []), None)
    if not lists and empty is not None:
        raise FileFault("no_rows", f"no rows: the list under the key {empty!r} is empty", line=line)
    if len(lists) > 1:
        found = f"an object with lists of rows under several keys: {', '.join(map(repr, lists[:5]))}"
    elif document and all(isinstance(value, dict) for value in document.values()):
        found = (
            f"an object of {len(document)} rows by id, with the keys {', '.join(map(repr, [*document][:3]))}"
        )
    else:
        found = f"one object with the keys {', '.join(map(repr, [*document][:5])) or '(none)'}"
    raise FileFault(
        "not_a_list", f"expected a list of rows, found {found}: write a list, or one row a line", line=line
    )


def _member_offset(text: str, start: int, name: str) -> int:
    """Offset of the value of a member of the object at `start`, which is known to be valid JSON."""
    place = start + 1
    while True:
        key_start = text.index('"', place)
        key, place, _ = decode_value(text, key_start)
        value_start = text.index(":", place) + 1
        found = BLANK.match(text, value_start)
        value_start = found.end() if found else value_start
        if key == name:
            return value_start
        _, place, _ = decode_value(text, value_start)

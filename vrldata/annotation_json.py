"""JSON values of annotation rows: the fast way through `json`, and a second reader that explains faults.

The second reader runs only where the first one fails. It goes on after a value that cannot be kept (NaN, a
raw control character, bytes that are no UTF-8, nesting without end), so that the message names the field.
Files and lines are the work of `annotation_files`.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from vrldata.annotation_faults import RowFault

MAX_NESTING = 32
"""Deeper rows are refused: no annotation needs it, and readers downstream may recurse."""

MAX_INTEGER_DIGITS = 100

TOO_DEEP = f"nested deeper than the {MAX_NESTING} levels of depth that are allowed"

_SPACE = re.compile(r"[ \t\r\n]*")
_PLAIN = re.compile(r'[^"\\\x00-\x1f\ud800-\udfff]*')
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_WORD = re.compile(r"[+-]?[A-Za-z_$][\w$]*")
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_LONE = re.compile("[\ud800-\udfff]")
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_CONSTANTS = {"true": True, "false": False, "null": None}


class JsonSyntaxError(Exception):
    """The text is no JSON from `offset` on; `incomplete` when it only ends too early."""

    def __init__(self, offset: int, text: str, *, incomplete: bool = False) -> None:
        super().__init__(text)
        self.offset, self.text, self.incomplete = offset, text, incomplete


class _NotPlainError(ValueError):
    """The fast reader met something that the explaining reader has to look at."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise _NotPlainError
    return made


def _constant(name: str) -> Any:
    raise _NotPlainError(name)


def _integer(digits: str) -> int:
    if len(digits) > MAX_INTEGER_DIGITS:
        raise _NotPlainError
    return int(digits)


def _real(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise _NotPlainError
    return number


_FAST = json.JSONDecoder(
    object_pairs_hook=_unique, parse_constant=_constant, parse_int=_integer, parse_float=_real
)


def decode_value(text: str, start: int = 0) -> tuple[Any, int, RowFault | None]:
    """The JSON value that begins at `start`.

    Returns:
        The value, the offset behind it, and the first thing in it that cannot be kept.

    Raises:
        JsonSyntaxError: no complete JSON value begins there.
    """
    try:
        value, end = _FAST.raw_decode(text, start)
    except (ValueError, RecursionError):
        return _explain(text, start)
    if _needs_a_look(text, start, end, value):
        return _explain(text, start)
    return value, end, None


def _needs_a_look(text: str, start: int, end: int, value: Any) -> bool:
    brackets = text.count("{", start, end) + text.count("[", start, end)
    if brackets > MAX_NESTING and nesting(value) > MAX_NESTING:
        return True
    if text.find("\\u", start, end) >= 0 and _SURROGATE_ESCAPE.search(text, start, end):
        return bool(_LONE.search(json.dumps(value, ensure_ascii=False)))
    return not text.isascii() and _LONE.search(text, start, end) is not None


def check_characters(text: str, field: str | None) -> str:
    """`text` again. Raises RowFault for half of a surrogate pair: JSON can spell it, no table can hold it."""
    if not text.isascii() and _LONE.search(text):
        raise RowFault("not_utf8", "half of a surrogate pair: no character, and no UTF-8", field=field)
    return text


def nesting(value: Any) -> int:
    """Levels of lists and objects inside each other; 0 for a plain value."""
    deepest, level, inside = 0, 1, [value]
    while inside:
        inside = [
            item
            for outer in inside
            if isinstance(outer, dict | list)
            for item in (outer.values() if isinstance(outer, dict) else outer)
        ]
        deepest, level = level, level + 1
    return deepest


def _explain(text: str, start: int) -> tuple[Any, int, RowFault | None]:
    reader = _ExplainingReader(text)
    value, end = reader.value(start, 1)
    return value, end, reader.fault


class _ExplainingReader:
    """A recursive reader of standard JSON that notes the first value it cannot keep, and its field."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._field: str | None = None
        self.fault: RowFault | None = None

    def value(self, start: int, depth: int) -> tuple[Any, int]:
        text = self._text
        start = self._skip(start)
        if start >= len(text):
            raise JsonSyntaxError(start, "the text ends where a value is expected", incomplete=True)
        first = text[start]
        if first in "{[":
            if depth > MAX_NESTING:
                return None, self._skip_nested(start)
            return self._object(start, depth) if first == "{" else self._array(start, depth)
        if first == '"':
            return self._string(start)
        number = _NUMBER.match(text, start)
        if number:
            return self._number(number)
        return self._word(start)

    def _object(self, start: int, depth: int) -> tuple[dict[str, Any], int]:
        made: dict[str, Any] = {}
        place = self._skip(start + 1)
        while True:
            if self._at(place) == "}" and not made:
                return made, place + 1
            if self._at(place) != '"':
                raise self._syntax(place, "a key in double quotes")
            if depth == 1:
                self._field = None
            key, place = self._string(place)
            if depth == 1:
                self._field = key
            place = self._skip(place)
            if self._at(place) != ":":
                raise self._syntax(place, "a colon after the key")
            if key in made:
                self._note("duplicate_key", f"the key {key!r} stands twice in one object")
            made[key], place = self.value(place + 1, depth + 1)
            place = self._skip(place)
            if self._at(place) == "}":
                return made, place + 1
            place = self._after_comma(place, "}")

    def _array(self, start: int, depth: int) -> tuple[list[Any], int]:
        made: list[Any] = []
        place = self._skip(start + 1)
        if self._at(place) == "]":
            return made, place + 1
        while True:
            item, place = self.value(place, depth + 1)
            made.append(item)
            place = self._skip(place)
            if self._at(place) == "]":
                return made, place + 1
            place = self._after_comma(place, "]")

    def _after_comma(self, place: int, closing: str) -> int:
        if self._at(place) != ",":
            raise self._syntax(place, f"a comma or {closing!r}")
        following = self._skip(place + 1)
        if self._at(following) == closing:
            raise JsonSyntaxError(following, f"trailing comma before {closing!r}: remove it")
        return following

    def _string(self, start: int) -> tuple[str, int]:
        text, pieces, place = self._text, [], start + 1
        while True:
            plain = _PLAIN.match(text, place)
            assert plain is not None
            pieces.append(plain.group())
            place = plain.end()
            if place >= len(text):
                raise JsonSyntaxError(place, "the text ends inside a string", incomplete=True)
            character = text[place]
            if character == '"':
                return "".join(pieces), place + 1
            if character == "\\":
                piece, place = self._escape(place)
                pieces.append(piece)
                continue
            if character < " ":
                name = {"\n": "a line break", "\t": "a tab"}.get(character, f"U+{ord(character):04X}")
                self._note(
                    "control_character",
                    f"raw control character ({name}) in a string: JSON takes it as an escape such as \\n",
                )
            else:
                self._note("not_utf8", _utf8_text(text, place))
            pieces.append("\ufffd")
            place += 1

    def _escape(self, place: int) -> tuple[str, int]:
        code = self._text[place + 1 : place + 2]
        if code in _ESCAPES:
            return _ESCAPES[code], place + 2
        if code == "u":
            unit, end = self._unit(place), place + 6
            if 0xD800 <= unit < 0xDC00 and self._text.startswith("\\u", end):
                low = self._unit(end)
                if 0xDC00 <= low < 0xE000:
                    return chr(0x10000 + ((unit - 0xD800) << 10) + low - 0xDC00), end + 6
            if 0xD800 <= unit < 0xE000:
                self._note(
                    "not_utf8", f"half of a surrogate pair (\\u{unit:04x}): no character, and no UTF-8"
                )
                return "\ufffd", end
            return chr(unit), end
        if not code:
            raise JsonSyntaxError(place, "the text ends inside a string", incomplete=True)
        raise JsonSyntaxError(place, f"not JSON: unknown escape \\{code} in a string; a backslash is \\\\")

    def _unit(self, place: int) -> int:
        digits = self._text[place + 2 : place + 6]
        if re.fullmatch("[0-9a-fA-F]{4}", digits):
            return int(digits, 16)
        if len(digits) < 4:
            raise JsonSyntaxError(place, "the text ends inside a string", incomplete=True)
        raise JsonSyntaxError(place, f"not JSON: bad escape \\u{digits} in a string")

    def _number(self, found: re.Match[str]) -> tuple[int | float | None, int]:
        digits = found.group()
        if re.match(r"[\w.]", self._text[found.end() : found.end() + 1]):
            raise JsonSyntaxError(found.start(), f"not JSON: malformed number near {digits[:20]!r}")
        if found.group(1) is None and found.group(2) is None:
            if len(digits) > MAX_INTEGER_DIGITS:
                self._note("number_out_of_range", f"integer of {len(digits)} digits is too large")
                return None, found.end()
            return int(digits), found.end()
        number = float(digits)
        if math.isinf(number):
            self._note("number_out_of_range", f"number {digits[:40]} is out of range (infinite)")
            return None, found.end()
        return number, found.end()

    def _word(self, start: int) -> tuple[bool | None, int]:
        found = _WORD.match(self._text, start)
        word = found.group() if found else ""
        end = start + len(word)
        if word in _CONSTANTS:
            return _CONSTANTS[word], end
        if word.lstrip("+-") in ("NaN", "Infinity", "nan", "inf"):
            self._note("not_a_number", f"{word} is no JSON number, and an answer can never match it")
            return None, end
        if end == len(self._text) and any(name.startswith(word) for name in _CONSTANTS) and word:
            raise JsonSyntaxError(start, "the text ends inside a word", incomplete=True)
        raise self._syntax(start, "a value")

    def _syntax(self, place: int, expected: str) -> JsonSyntaxError:
        rest = self._text[place : place + 20]
        if not rest:
            return JsonSyntaxError(place, f"the text ends where {expected} is expected", incomplete=True)
        if rest[0] == "'":
            return JsonSyntaxError(
                place,
                "single quotes: JSON takes double quotes; a Python dict is written with json.dumps",
            )
        if rest.startswith(("//", "/*", "#")):
            return JsonSyntaxError(place, "not JSON: a comment; JSON has none, remove it")
        if rest[0] in "}]":
            return JsonSyntaxError(place, f"not JSON: {expected} is expected before {rest[0]!r}")
        word = _WORD.match(rest)
        if word and word.group() in ("None", "True", "False"):
            return JsonSyntaxError(
                place, f"not JSON: Python's {word.group()}; JSON writes null, true and false"
            )
        return JsonSyntaxError(place, f"not JSON: {expected} is expected, found {rest!r}")

    def _skip_nested(self, start: int) -> int:
        depth = 0
        deepest = 0
        for token in _BRACKETS.finditer(self._text, start):
            character = token.group()
            if character in "{[":
                depth += 1
                deepest = max(deepest, depth)
            elif character in "}]":
                depth -= 1
            if depth == 0:
                self._note(
                    "nested_too_deep",
                    f"nested {deepest + MAX_NESTING} levels deep: the depth may be {MAX_NESTING} at most",
                )
                return token.end()
        self._note("nested_too_deep", TOO_DEEP)
        raise JsonSyntaxError(
            len(self._text),
            f"nested deeper than {MAX_NESTING} levels, the depth allowed, and the text ends inside",
            incomplete=True,
        )

    def _note(self, reason: str, text: str) -> None:
        if self.fault is None:
            self.fault = RowFault(reason, text, field=self._field)

    def _at(self, place: int) -> str:
        return self._text[place : place + 1]

    def _skip(self, place: int) -> int:
        found = _SPACE.match(self._text, place)
        return found.end() if found else place


def _utf8_text(text: str, place: int) -> str:
    run = re.compile("[\ud800-\udfff]+").match(text, place)
    raw = (run.group() if run else "").encode("utf-8", "surrogateescape")[:6]
    listed = " ".join(f"{byte:02X}" for byte in raw)
    return f"the bytes {listed} are not UTF-8: save the file with the encoding UTF-8"

"""JSON as models write it: the one value of an answer, with the usual damage repaired and noted.

Nothing is evaluated. Nesting, length and the number of starting points are bounded, so time is linear.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from vrldata.tasks.reading import MAX_CONTENT_CHARS, UnreadableAnswerError
from vrldata.tasks.text import fenced_blocks, nfkc

MAX_NESTING = 32
MAX_STARTS = 64

_QUOTE = re.compile(r'\\.|"', re.DOTALL)
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")
# Times and numbers that JSON does not know: 10s, 00:10, 010, +10, 10.
_BEFORE = r"((?:\A|\b[A-Za-z_]{1,40})\s{0,3}:\s{0,3}|[\[,]\s{0,3})"
_BARE_TIME = re.compile(
    rf"{_BEFORE}(\+?\d{{1,9}}(?::\d{{1,2}}){{0,2}}(?:\.\d{{0,9}})?\s?(?:s|sec|secs|seconds?)?)(?=\s{{0,3}}[,\]}}])"
)
_JSON_NUMBER = re.compile(r"(?:0|[1-9]\d*)(?:\.\d+)?")
_COMMENT = re.compile(r"/\*[^*]{0,200}+\*/|//[^\n]{0,200}+$", re.MULTILINE)
_SEMICOLON = re.compile(r"(?<=[\d\]}]);")
# digits are taken whole: a run of them has one reading, however long it is
_NUMBER = r"-?[\d.]{1,20}+"
_TUPLE = re.compile(
    rf"\((\s{{0,3}}{_NUMBER}(?:(?:\s{{0,3}},\s{{0,3}}|\s{{1,3}}){_NUMBER}){{0,7}}\s{{0,3}},?\s{{0,3}})\)"
)
_MISSING_COMMA = re.compile(r"(?<=[\d.])\s{1,3}(?=[\d.])")
_SECONDS = r"\d{1,9}(?::\d{1,2}){0,2}(?:\.\d{1,9})?\s?(?:s|sec|secs|seconds?)?"
_BARE_RANGE = re.compile(rf"{_BEFORE}({_SECONDS}\s?(?:to|[-–—~])\s?{_SECONDS})(?=\s{{0,3}}[,\]}}])")
_BARE_PAIR = re.compile(
    r"((?:\A|\b[A-Za-z_]{1,40})\s{0,3}:\s{0,3})(\d{1,9}(?:\.\d{1,9})?,\s{0,3}\d{1,9}(?:\.\d{1,9})?)(?=\s{0,3}\})"
)
_BARE_KEY = re.compile(r"([{,]\s*)([A-Za-z_][A-Za-z0-9_]{0,40})(\s*:)")
_UNQUOTED_NUMBER_KEY = re.compile(r"([{,]\s*)(\d{1,9}(?:\.\d{1,6})?)(\s*:)")


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonValue:
    """A parsed value; `exact` when the whole content was this one value as standard JSON."""

    value: Any
    exact: bool


class _DuplicateKeyError(ValueError):
    pass


def read_json(content: str) -> JsonValue:
    """The one JSON object or array of `content`.

    >>> read_json("The span is {'time': [3, 8,]}.")
    JsonValue(value={'time': [3, 8]}, exact=False)

    Raises:
        UnreadableAnswerError: there is none, or there are several, or a key stands twice in one object.
    """
    if len(content) > MAX_CONTENT_CHARS:
        raise UnreadableAnswerError(f"the answer is longer than {MAX_CONTENT_CHARS} characters")
    text = content.strip()
    if _nesting(text) > MAX_NESTING:
        raise UnreadableAnswerError(f"JSON nested deeper than {MAX_NESTING}")
    value = _parse(text)
    if value is not None:
        return JsonValue(value=value, exact=True)
    dressed = nfkc(text).strip("*`$ \t\r\n") if "```" not in text else nfkc(text)
    fenced = fenced_blocks(dressed)
    if len(fenced) == 1:
        dressed = fenced[0]
    candidates = (dressed, _repaired(dressed))
    for candidate in candidates:
        value = _parse(candidate)
        if value is not None:
            return JsonValue(value=value, exact=False)
    # Arrays last: those inside an object that only its repaired text shows are none of their own.
    for opening in ("{", "["):
        for candidate in candidates:
            found = _embedded(candidate, opening)
            if len(found) > 1:
                raise UnreadableAnswerError("several JSON values", ambiguous=True)
            if found:
                return JsonValue(value=found[0], exact=False)
    raise UnreadableAnswerError(f"no JSON value in {text[:80]!r}")


def _nesting(text: str) -> int:
    depth = deepest = 0
    for character in re.findall(r"[{}\[\]]", text):
        depth += 1 if character in "{[" else -1
        deepest = max(deepest, depth)
        depth = max(depth, 0)
    return deepest


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise _DuplicateKeyError
    return made


def _not_finite(name: str) -> Any:
    raise ValueError(name)


def _short_int(digits: str) -> int | float:
    return int(digits) if len(digits) < 64 else float(digits)


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_not_finite, parse_int=_short_int)


def _parse(text: str) -> Any:
    """The object or array that is the whole of `text`; None when it is none."""
    if not text.startswith(("{", "[")):
        return None
    try:
        value = _DECODER.decode(text)
    except _DuplicateKeyError as error:
        raise UnreadableAnswerError("a key stands twice in one JSON object", ambiguous=True) from error
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


def _embedded(text: str, opening: str) -> list[Any]:
    """Objects (`{`) or arrays (`[`) that stand in prose; none inside another."""
    found: list[Any] = []
    start = text.find(opening)
    for _ in range(MAX_STARTS):
        if start < 0:
            break
        try:
            value, end = _DECODER.raw_decode(text, start)
        except _DuplicateKeyError as error:
            raise UnreadableAnswerError("a key stands twice in one JSON object", ambiguous=True) from error
        except (ValueError, RecursionError):
            end = start + 1
        else:
            if value:
                found.append(value)
        start = text.find(opening, end)
    return found


def _repaired(text: str) -> str:
    """Single quotes, bare keys, trailing commas, Python constants and missing closing brackets mended."""
    plain = text.replace("“", '"').replace("”", '"').replace("‘", "'").replace("’", "'")
    if '"' not in plain:
        plain = plain.replace("'", '"')
    elif plain.count('"') == plain.count('\\"'):
        plain = plain.replace('\\"', '"')  # JSON that was written out as a JSON text
    if "{" in plain or "[" in plain:
        plain = _TUPLE.sub(r"[\1]", plain)
    pieces, last = [], 0
    for start, end in _strings(plain):
        pieces += [_repaired_outside(plain[last:start]), plain[start:end]]
        last = end
    pieces.append(_repaired_outside(plain[last:]))
    return _closed("".join(pieces))


def _strings(text: str) -> list[tuple[int, int]]:
    """Start and end of each quoted string; a quote that is never closed begins none."""
    found, start = [], -1
    for quote in _QUOTE.finditer(text):
        if quote.group() == '"':
            if start >= 0:
                found.append((start, quote.end()))
            start = -1 if start >= 0 else quote.start()
    return found


def _repaired_outside(text: str) -> str:
    mended = _TRAILING_COMMA.sub(r"\1", _SEMICOLON.sub(",", _COMMENT.sub("", text)))
    mended = _MISSING_COMMA.sub(", ", mended)
    mended = _BARE_PAIR.sub(r"\1[\2]", mended)
    mended = _BARE_RANGE.sub(r'\1"\2"', mended)
    mended = _BARE_TIME.sub(_quoted_time, mended)
    mended = _BARE_KEY.sub(r'\1"\2"\3', mended)
    mended = _UNQUOTED_NUMBER_KEY.sub(r'\1"\2"\3', mended)
    return mended.replace("None", "null").replace("True", "true").replace("False", "false")


def _quoted_time(match: re.Match[str]) -> str:
    if _JSON_NUMBER.fullmatch(match.group(2)):
        return match.group()
    return f'{match.group(1)}"{match.group(2).lstrip("+").rstrip(".")}"'


def _closed(text: str) -> str:
    """`text` with the closing brackets that are missing, at most two."""
    start = min((index for index in (text.find("{"), text.find("[")) if index >= 0), default=-1)
    if start < 0:
        return text
    missing: list[str] = []
    pieces, last, added = [text[:start]], start, 0
    for bracket in re.finditer(r"[{}\[\]]", text[start:]):
        character, place = bracket.group(), start + bracket.start()
        if character in "{[":
            missing.append("}" if character == "{" else "]")
            continue
        pieces.append(text[last:place])
        last = place
        if len(missing) > 1 and missing[-1] != character and missing[-2] == character:
            pieces.append(missing.pop())
            added += 1
        if not missing or missing.pop() != character:
            return text
    if added + len(missing) > _MAX_ADDED:
        return text
    pieces.append(text[last:].rstrip().rstrip(",") if missing else text[last:])
    return "".join([*pieces, *reversed(missing)])


_MAX_ADDED = 2

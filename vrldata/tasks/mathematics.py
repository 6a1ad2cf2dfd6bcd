"""Math answers: equality as text, as numbers, then as formulas in a killable process.

A key that is one letter of the row's options is a multiple-choice key and is scored as one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from vrldata.tasks import choices, numbers
from vrldata.tasks.killable import shared_worker
from vrldata.tasks.math_signs import as_latex
from vrldata.tasks.reading import (
    Measured,
    Reading,
    Record,
    ScorerTimeoutError,
    UnreadableAnswerError,
    UnreadableGoldError,
)
from vrldata.tasks.text import clean, collapse, last_boxed, unwrap_answer_tag

CHILD_MODULE = "vrldata.tasks.symbolic"
MAX_ANSWER_CHARS = 512

_SPACING = re.compile(r"\\[,;:!]|\\(?:left|right|displaystyle|quad|qquad)(?![A-Za-z])|\\ |[\s$]")
_REPEATING = re.compile(r"(?<![\d.])(\d{0,12})\.(\d{0,12})\\overline\s?\{(\d{1,12})\}")
_DEGREES = re.compile(r"\^\{?\\circ\}?|\\degree(?![A-Za-z])")
_TEXT = re.compile(r"\\(?:text|textbf|mathrm|mathbf)\s*\{([^{}]*)\}")
_WORDS = re.compile(r"[^\W\d_]{2,}(?:[\s'’-]+[^\W\d_]+)*", re.UNICODE)
_SHORT_WORDS = frozenset({"yes", "no", "odd", "all", "any", "two", "one", "six", "ten"})
_NAMED_SIDE = re.compile(r"\s*([A-Za-z](?:_\{?\w{1,8}\}?)?(?:\([A-Za-z]\))?)\s*=(.*)", re.DOTALL)
# A power of a power, an exponent of many digits, or the factorial of a large number would fill the machine.
_TOO_LARGE = re.compile(
    r"(?:\*\*|\^)\s*[{(]*\s*-?\d{4,}"
    r"|(?:\*\*|\^)\s*[{(]*\s*\d+\s*[)}]*\s*(?:\*\*|\^|!)"
    r"|\d{4,}\s*!|!\s*!|[)}\]]\s*!"
    r"|\d{400,}|\\(?:d|t)?binom\s*\{\s*\d{4,}"
)
# Expanding a power of a bracket takes long. An answer with one that the key lacks is not the key's form of
# the result; comparing it is not worth a time-out, which would spare the answer its zero.
_HEAVY = re.compile(
    r"[)}\]]\s*\^\s*\{?\s*\d{2,}|[A-Za-z]\s*\^\s*\{?\s*\d{3,}|\\(?:int|sum|prod|lim)(?![A-Za-z])"
)
_MAX_NESTING = 24
_FORMULA_SIGN = re.compile(r"[=+^/*<>\\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class MathKey:
    """The key: letters of a multiple-choice row, or a formula's text."""

    letters: frozenset[str] | None
    text: str = ""


def read_gold(record: Record) -> MathKey:
    """The key as letters or as text.

    Raises:
        UnreadableGoldError: it is empty or no text.
    """
    key = record.ground_truth
    if isinstance(key, list | tuple) and len(key) == 1:
        key = key[0]
    if isinstance(key, bool) or not isinstance(key, str | int | float):
        raise UnreadableGoldError(f"key {str(key)[:80]!r} is no formula")
    text = clean(as_latex(unwrap_answer_tag(str(key)).rstrip(".。")))
    boxed = last_boxed(text)
    text = as_latex(boxed.strip()) if boxed else text
    if not text:
        raise UnreadableGoldError("the key is empty")
    if record.options or re.fullmatch(r"\(?[A-Z]\)?\.?", text):
        try:
            return MathKey(letters=choices.read_gold(record), text=text)
        except UnreadableGoldError:
            pass  # a formula in a row that lists options
    return MathKey(letters=None, text=text)


def check_gold(record: Record) -> str | None:
    """Why no rule here can compare with the key: neither letter, number, words nor a formula that parses."""
    key = read_gold(record)
    if key.letters or numbers.whole_number(key.text) is not None or _plain_words(key.text):
        return None
    if len(key.text) > MAX_ANSWER_CHARS or _TOO_LARGE.search(key.text):
        return f"key {key.text[:80]!r} is too large to compare as a formula"
    try:
        reply = _worker().call({"key": key.text, "answer": None}, seconds=record.settings.math_seconds)
    except ScorerTimeoutError as error:
        return f"key {key.text[:80]!r}: {error}"
    return None if reply["key_read"] else f"key {key.text[:80]!r} does not parse as a formula"


def read_answer(content: str, record: Record, gold: MathKey) -> Reading:
    """The answer's letter, or its text.

    Raises:
        UnreadableAnswerError: it is too long, or states several results.
    """
    if gold.letters:
        try:
            return choices.read_answer(content, record, gold.letters)
        except UnreadableAnswerError as error:
            # The value in place of its letter counts where the options give the letter a value.
            named = choices.read_options(record.options).texts
            if len(gold.letters) > 1 or not named or (error.ambiguous and not _FORMULA_SIGN.search(content)):
                raise
    if content.count("\\boxed{") > 1:
        raise UnreadableAnswerError("several boxed results", ambiguous=True)
    text = as_latex(content.strip().rstrip(".。"))
    if text.startswith("\\[") and text.endswith("\\]"):
        text = text[2:-2]
    text = _in_one_line(clean(_one_formula(text)))
    boxed = last_boxed(text)
    text = as_latex(boxed.strip() if boxed is not None else _one_formula(text))
    if len(text) > MAX_ANSWER_CHARS:
        raise UnreadableAnswerError(f"the answer is longer than {MAX_ANSWER_CHARS} characters")
    if not text:
        raise UnreadableAnswerError("the answer is empty")
    if "$" in text.replace("\\$", ""):
        raise UnreadableAnswerError("several formulas", ambiguous=True)
    return Reading(value=text, shown=text)


def _in_one_line(text: str) -> str:
    """Results on lines of their own as a list, and any "or" between two as text: none of them hides."""
    text = _UPRIGHT_JOIN.sub(r"\\text{ \1 }", text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) < 2 or "=" in text or "\\begin" in text or any(_CONTINUED.search(line) for line in lines):
        return text
    return ", ".join(lines)


_UPRIGHT_JOIN = re.compile(r"\\math(?:rm|bf|it)\s?\{\s*(or|and)\s*\}")
_CONTINUED = re.compile(r"^[-+*/^,)}\]]|[-+*/^,({\[]$|\\\\$|^\\(?:times|cdot|div|pm)(?![A-Za-z])")


def _one_formula(text: str) -> str:
    """The formula between the only two `$` of a sentence, else the whole text."""
    pieces = text.replace("\\$", "").split("$")
    return clean(pieces[1]) if len(pieces) == 3 else text


def compare(value: Any, gold: MathKey, record: Record) -> Measured:
    """1 where both mean the same."""
    if isinstance(value, frozenset):
        return Measured(accuracy=float(value == gold.letters))
    keys = [gold.text]
    if gold.letters:
        keys = [choices.read_options(record.options).texts[letter] for letter in gold.letters]
    return Measured(accuracy=float(any(equal(value, key, record) for key in keys if key)))


def equal(answer: str, key: str, record: Record) -> bool:
    """Whether two formulas mean the same: as text, words, numbers, then symbolically.

    Raises:
        ScorerTimeoutError: the symbolic comparison did not end in time.
    """
    answer, key = (_REPEATING.sub(_as_fraction, text) for text in (answer, key))
    if _normal(answer) == _normal(key):
        return True
    if _assigns_twice(answer) and not _assigns_twice(key):
        return False
    if "|" not in key and (answer.count("|") % 2 or " | " in answer):
        return False  # a bar between results, not around a value
    if _lists_in(answer) ^ _lists_in(key) == {"{", "("}:
        return False
    words, key_words = _plain_words(answer), _plain_words(key)
    if words and key_words:
        return words == key_words
    (name, value), (key_name, key_value) = _sides(answer), _sides(key)
    if name and key_name and name != key_name:
        return False
    number, key_number = numbers.whole_number(value), numbers.whole_number(key_value)
    if number is not None and key_number is not None:
        return numbers.compare(number, key_number, record).accuracy == 1.0
    if _TOO_LARGE.search(answer) or _TOO_LARGE.search(key) or len(key) > MAX_ANSWER_CHARS:
        return False
    if (_HEAVY.search(answer) and not _HEAVY.search(key)) or _nesting(answer) > _MAX_NESTING:
        return False
    request = {"key": key, "answer": answer.replace("**", "^")}
    return bool(_worker().call(request, seconds=record.settings.math_seconds)["equal"])


def _assigns_twice(text: str) -> bool:
    """Whether one symbol is given two values, as in `x=3 x=4`."""
    names = _ASSIGNED.findall(text)
    return len(set(names)) < len(names)


_ASSIGNED = re.compile(r"([A-Za-z])\s?=")


def _lists_in(text: str) -> set[str]:
    """The bracket around a formula that is one list: braces are a set, others keep the order; else none."""
    plain = _normal(text)
    if "," not in plain:
        return set()
    if plain.startswith(("\\{", "{")) and plain.endswith("}"):
        return {"{"}
    return {"("} if plain[:1] in ("(", "[") and plain[-1:] in (")", "]") else set()


def _nesting(text: str) -> int:
    depth = deepest = 0
    for bracket in re.findall(r"[(){}\[\]]", text):
        depth += 1 if bracket in "({[" else -1
        deepest = max(deepest, depth)
    return deepest


def _worker() -> Any:
    return shared_worker(CHILD_MODULE)


def _as_fraction(match: re.Match[str]) -> str:
    whole, fixed, repeated = match.groups()
    top = int(whole + fixed + repeated) - int(whole + fixed or 0)
    return f"\\frac{{{top}}}{{{10 ** len(fixed) * (10 ** len(repeated) - 1)}}}"


def _normal(text: str) -> str:
    plain = (
        text.replace("\\dfrac", "\\frac").replace("\\tfrac", "\\frac").replace("\\varnothing", "\\emptyset")
    )
    return _DEGREES.sub("°", _SPACING.sub("", plain)).rstrip(".。")


def _plain_words(text: str) -> str | None:
    """The words of a text that is nothing but words, without their LaTeX wrapper; None for a formula."""
    plain = _TEXT.sub(r"\1", text).strip(" .$")
    if "\\" in plain or not _WORDS.fullmatch(plain):
        return None
    if plain == text.strip(" .$") and len(plain) < 4 and plain.casefold() not in _SHORT_WORDS:
        return None  # "AB" or "xy" is a product rather than a word
    return collapse(plain.casefold())


def _sides(text: str) -> tuple[str, str]:
    """The symbol that a formula names with `symbol = value`, and the value; no symbol: the formula itself."""
    found = _NAMED_SIDE.fullmatch(text)
    if not found or "=" in found.group(2):
        return "", text
    return found.group(1), found.group(2).strip()

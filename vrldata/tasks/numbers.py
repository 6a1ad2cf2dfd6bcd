"""Numerical, counting and regression answers: one number in any usual dress, and how near it must be.

Two different numbers are no answer. `nan` and infinities are none either.
"""

from __future__ import annotations

import itertools
import math
import re
import sys
from dataclasses import dataclass

from vrldata.tasks.measures import mean_relative_accuracy
from vrldata.tasks.number_words import digits_for_words
from vrldata.tasks.reading import (
    Measured,
    Reading,
    Record,
    UnreadableAnswerError,
    UnreadableGoldError,
    sole,
)
from vrldata.tasks.text import clean, nfkc, raised, unwrap_answer_tag

MAX_NUMBER_CHARS = 400
MAX_REPEATS = 16
"""An answer that states its number so often states none."""

_LATEX = (
    ("\\left", ""),
    ("\\right", ""),
    ("\\,", ""),
    ("\\!", ""),
    ("\\;", " "),
    ("\\ ", " "),
    ("{,}", ","),
    ("\\%", "%"),
    ("\\$", ""),
    ("\\times", "×"),
    ("\\cdot", "×"),
    ("\\approx", "="),
    ("\\vee", " or "),
    ("\\lor", " or "),
    ("\\dfrac", "\\frac"),
    ("\\tfrac", "\\frac"),
    ("≈", "="),
    ("⁄", "/"),
    ("÷", "/"),
    ("−", "-"),
    ("–", "-"),
    ("—", "-"),
    ("﹣", "-"),
    ("**", " "),
    ("$", ""),
    ("~", " "),
)
# Blanks that do not break, apostrophes and underscores between groups of three digits; a plain blank is none.
_THOUSANDS = re.compile("(?<=\\d)[\u00a0\u202f\u2009'’_](?=\\d{3}(?!\\d))")
_CURRENCY = re.compile(r"[€£¥₹₩₽¢]|\b(?:USD|EUR|GBP|RMB|CNY|US)(?=\s*\d)")
_FRACTION = re.compile(r"\\frac\s*\{([^{}]{1,60})\}\s*\{([^{}]{1,60})\}|\\frac\s*(\d)\s*(\d)")
_WRITTEN_BREAK = re.compile(r"\\n(?![a-z])")
_WRAPPER = re.compile(r"\\(?:text|textbf|mathrm|mathbf|mathit|operatorname)\s*\{([^{}]*)\}")
_PLAIN = r"(?:\d{1,3}(?:,\d{3})+(?![\d,])(?:\.\d+)?|\d+,\d{2}(?![\d,])|\d+(?:\.\d+)?|\.\d+)"
_NUMBER = re.compile(
    rf"""(?:(?<![A-Za-z\d_.^])|(?<=[^\d.]\.)|(?<=\.\.)|(?<=[A-Za-z]{{3}})|(?<=[A-Za-z]{{3}}_)|(?<=\bor)|(?<=\bto))
    (?<!\^\{{)
    (?P<sign>(?<![A-Za-z\d_)%])[+-]\s?)?
    (?:(?P<clock>\d{{1,3}}(?::[0-5]\d){{1,2}}(?:\.\d+)?)(?![\d:])
    |(?P<whole>\d{{1,6}})\s+(?P<top>\d{{1,6}})\s?/\s?(?P<bottom>\d{{1,6}})(?![\d/.])
    |(?P<number>{_PLAIN})(?:[eE](?P<exponent>[+-]?\d{{1,4}})(?![\dA-Za-z]))?
      (?:\s?[×x*]\s?10\s?(?:\^\s?\{{?\s?(?P<ten>[+-]?\d{{1,4}})\s?\}}?))?
      (?:\^\s?\{{?\s?(?P<power>[+-]?\d{{1,4}})\s?\}}?)?
      (?:\s?/\s?(?P<over>{_PLAIN})(?!\s?[/\d]))?
    )
    (?P<percent>\s?(?:%|percent\b|per\ cent\b|pct\b))?""",
    re.VERBOSE | re.IGNORECASE,
)


# What no single number ends with: "10,5", "1.2.3", "3...5", "3_4", "3or4".
_RUNS_ON = re.compile(r"(?:[.,_^]+\{?|(?!(?:[cdkm]?m|ft|in|yd|s)[23](?!\w))[a-z]{1,4})\d", re.IGNORECASE)
_FORMULA = re.compile(
    r"\\(?:sqrt|pi|ln|log|sin|cos|tan|exp|pm|infty)(?![a-z])|[√π±∞]|(?<![a-z])(?:sqrt|pi)(?![a-z])",
    re.IGNORECASE,
)
_ALTERNATIVE = re.compile(
    r"(?:\s?[^\W\d]{1,20}){0,2}?\s?(?:[,;/|&+×*](?!\s?not\b)|\(?\b(?:or|and|xor|versus)\b|\bvs\b\.?|[或和、])(?:\s?[^\W\d]{1,20}){0,1}\s?"
)
# One half after a whole number: NFKC would join the digits of both.
MIXED_SIGN = re.compile("(?<=\\d)(?=[¼-¾⅐-⅞])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A finite number, and whether it was written with a percent sign."""

    value: float
    percent: bool = False


def read_number(text: str, *, several: str = "refuse") -> Number:
    """The one number that `text` states.

    >>> read_number("about 1,234 apples")
    Number(value=1234.0, percent=False)
    >>> read_number("two hundred and one").value
    201.0

    Args:
        several: what different numbers mean: `refuse` them all, take the `first`, or take the `leading` one
            unless the next is its alternative, as in "3 or 4" and "between 3 and 5".

    Raises:
        UnreadableAnswerError: there is none, or there are several different ones.
    """
    plain = _right_side(text)
    if _FORMULA.search(plain):
        raise UnreadableAnswerError(f"a formula instead of a number in {text[:80]!r}")
    found = (
        (match, number)
        for match in _NUMBER.finditer(plain)
        if (number := _value(match)) is not None
        and not (several == "leading" and _DENIED.search(plain, max(0, match.start() - 8), match.start()))
    )
    # the first two tell a leading number, a few more that all are the same
    matches = list(itertools.islice(found, {"first": 1, "leading": 2}.get(several, MAX_REPEATS)))
    if not matches:
        raise UnreadableAnswerError(f"no number in {text[:80]!r}")
    first = matches[0][1]
    if several == "first":
        return first
    if several == "leading":
        clear = not _RUNS_ON.match(plain, matches[0][0].end()) and not _has_alternative(plain, matches)
    else:
        clear = len(matches) < MAX_REPEATS and all(
            number == first and not _RUNS_ON.match(plain, match.end()) for match, number in matches
        )
        clear = clear and not _hides_number(plain, matches)
    if not clear:
        raise UnreadableAnswerError(f"several numbers in {text[:80]!r}", ambiguous=True)
    return first


def _hides_number(plain: str, matches: list[tuple[re.Match[str], Number]]) -> bool:
    """Whether digits are left over that no unit ends with, as m2, s^-1 and CO2 do."""
    rest = list(plain)
    for match, _ in matches:
        rest[match.start() : match.end()] = " " * (match.end() - match.start())
    return any(digits not in _POWERS for digits in re.findall(r"\d+", "".join(rest)))


_POWERS = frozenset("1234")


def _has_alternative(plain: str, matches: list[tuple[re.Match[str], Number]]) -> bool:
    """Whether the second of the numbers differs from the first and is joined to it."""
    if len(matches) < 2 or matches[0][1] == matches[1][1]:
        return False
    end = matches[1][0].end()
    between = plain[matches[0][0].end() : matches[1][0].start()]
    if "\n\n" in between.replace(" ", "") and not between.strip() and _EXPLAINS.match(plain, end):
        return False  # the number on a line of its own, then where it comes from
    return not between.strip() or _ALTERNATIVE.fullmatch(_BLANKS.sub(" ", between[:60])) is not None


_BLANKS = re.compile(r"\s+")
_DENIED = re.compile(r"\bnot\s\Z", re.IGNORECASE)
_EXPLAINS = re.compile(r"[ \t]+[^\W\d]+[ \t]+[^\W\d]")


def _right_side(text: str) -> str:
    """`text` with digits for words and without LaTeX; of an equation what stands right of the last `=`."""
    return digits_for_words(_without_dress(text).rpartition("=")[2])


def _without_dress(text: str) -> str:
    plain = clean(nfkc(raised(MIXED_SIGN.sub(" ", _THOUSANDS.sub("", text)))))
    if "\\" in plain:
        plain = _WRITTEN_BREAK.sub("\n", _WRAPPER.sub(r" \1 ", plain))
    for latex, replacement in _LATEX:
        if latex in plain:
            plain = plain.replace(latex, replacement)
    plain = _FRACTION.sub(_plain_fraction, plain)
    return _CURRENCY.sub(" ", plain)


def _plain_fraction(match: re.Match[str]) -> str:
    top, bottom = match.group(1) or match.group(3), match.group(2) or match.group(4)
    return f" {top.strip()}/{bottom.strip()} "


def _value(match: re.Match[str]) -> Number | None:
    if len(match.group()) > MAX_NUMBER_CHARS:
        return None
    if match["clock"]:
        value = clock_seconds(match["clock"])
    elif match["whole"]:
        if not int(match["bottom"]):
            return None
        value = int(match["whole"]) + int(match["top"]) / int(match["bottom"])
    else:
        value = _scientific(match)
        if match["over"]:
            bottom = _plain(match["over"])
            value = value / bottom if bottom else math.nan
    if not math.isfinite(value):
        return None
    negative = (match["sign"] or "").startswith("-")
    return Number(value=-value if negative else value, percent=bool(match["percent"]))


def _scientific(match: re.Match[str]) -> float:
    value = _plain(match["number"])
    try:
        if match["power"]:
            value = value ** int(match["power"])
        return value * 10.0 ** (int(match["exponent"] or 0) + int(match["ten"] or 0))
    except (OverflowError, ZeroDivisionError):
        return math.inf


def _plain(digits: str) -> float:
    head, comma, tail = digits.rpartition(",")
    if comma and len(tail) == 2:
        return float(f"{head}.{tail}")
    return float(digits.replace(",", ""))


def clock_seconds(text: str) -> float:
    """Seconds of `mm:ss` or `h:mm:ss`, each with decimals or without.

    >>> clock_seconds("1:02:03.5")
    3723.5
    """
    total = 0.0
    for part in text.split(":"):
        total = total * 60 + float(part)
    return total


def read_gold(record: Record) -> Number:
    """The key as a number; JSON numbers and texts are read alike.

    Raises:
        UnreadableGoldError: it is no single finite number.
    """
    key = sole(record.ground_truth)
    if isinstance(key, bool) or not isinstance(key, str | int | float):
        raise UnreadableGoldError(f"key {key!r} is no number")
    if isinstance(key, int | float):
        if abs(key) > 1e300 or not math.isfinite(key):
            raise UnreadableGoldError(f"key {str(key)[:40]} is no finite number")
        return Number(value=float(key))
    try:
        return read_number(unwrap_answer_tag(key))
    except UnreadableAnswerError as error:
        raise UnreadableGoldError(f"key {key[:80]!r} is no single number") from error


def read_answer(content: str, record: Record, gold: Number) -> Reading:
    """The number that `content` states; a tolerant reading takes the first of several (regression), or
    the leading one (numerical).
    """
    several = "refuse"
    if record.tolerant:
        several = "first" if record.problem_type == "regression" else "leading"
    number = read_number(content, several=several)
    return Reading(value=number, shown=f"{number.value!r}{'%' if number.percent else ''}")


def compare(value: Number, gold: Number, record: Record) -> Measured:
    """1 where the number is near enough to the key; a percent sign on one side may also mean a hundredth."""
    candidates = [(value.value, gold.value)]
    if value.percent and not gold.percent:
        candidates.append((value.value / 100, gold.value))
    if gold.percent and not value.percent:
        candidates.append((value.value, gold.value / 100))
    return Measured(accuracy=float(any(near(predicted, key, record) for predicted, key in candidates)))


def near(predicted: float, key: float, record: Record) -> bool:
    """Whether the difference is tolerated: none for whole keys, else min(absolute, relative)."""
    settings = record.settings
    rounding = 4 * sys.float_info.epsilon * max(abs(predicted), abs(key))
    if key == math.floor(key):
        return abs(predicted - key) <= settings.integer_tolerance + rounding
    allowed = min(settings.absolute_tolerance, settings.relative_tolerance * abs(key))
    return abs(predicted - key) <= max(1e-9, allowed) + rounding


def compare_regression(value: Number, gold: Number, record: Record) -> Measured:
    """Mean relative accuracy (VSI-Bench)."""
    accuracy = mean_relative_accuracy(value.value, gold.value)
    error = abs(value.value - gold.value)
    return Measured(accuracy=accuracy, parts={"absolute_error": error} if math.isfinite(error) else {})


_MATH_WORDS = (
    "sqrt sin cos tan cot sec csc log ln exp lim pi theta alpha beta root squared cubed mod max min int sum"
)
_MATH_NAMES = frozenset(_MATH_WORDS.split())
_UNIT_WORDS = re.compile(r"(?:\s*(?:°|º|'|\"|/|\^\{?-?\d\}?|[A-Za-zµμΩ]+\.?)){0,6}\s*[.。]?")
_ANSWER_PREFIX = re.compile(
    r"\s*(?:(?:the\s+)?(?:final\s+)?answer\s*(?:is|:|=)?)?\s*"
    r"(?:(?:therefore|thus|about|around|roughly|approximately|exactly)\s+)?",
    re.IGNORECASE,
)


def whole_number(text: str) -> Number | None:
    """The number that the whole of `text` is, a unit after it allowed; None for anything more.

    >>> whole_number("5 cm").value
    5.0
    >>> whole_number("5x") is None
    True
    """
    plain = digits_for_words(_without_dress(text))
    plain = _ANSWER_PREFIX.sub("", plain, count=1).strip()
    match = _NUMBER.match(plain)
    if not match:
        return None
    rest = plain[match.end() :]
    if rest and not (_UNIT_WORDS.fullmatch(rest) and _is_unit(rest)):
        return None
    return _value(match)


def _is_unit(rest: str) -> bool:
    words = re.findall(r"[^\W\d_]+", rest)
    if any(word.casefold() in _MATH_NAMES for word in words):
        return False
    # A letter that touches the number is a factor, as in 5x, unless it is a word such as cm.
    return (
        rest[0].isspace() or rest[0] in "°º.。" or (bool(words) and len(words[0]) > 1 and rest[0].isalpha())
    )

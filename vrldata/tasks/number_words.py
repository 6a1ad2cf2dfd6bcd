"""Numbers written in words, English and Chinese, as digits. Finding numbers in digits is `numbers`."""

from __future__ import annotations

import re
from decimal import Decimal

_UNIT_WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
)
_TEN_WORDS = "twenty thirty forty fifty sixty seventy eighty ninety"
_UNITS = {word: value for value, word in enumerate(_UNIT_WORDS.split())}
_TENS = {word: 10 * value for value, word in enumerate(_TEN_WORDS.split(), start=2)}
_SCALES = {"hundred": 100, "dozen": 12, "thousand": 10**3, "million": 10**6, "billion": 10**9}
_SCALES["trillion"] = 10**12
_WORD = "|".join([*_UNITS, *_TENS, *_SCALES])
_RUN = re.compile(
    rf"(?<![A-Za-z\d])(?:{_WORD})(?:(?:[\s-]|\sand\s)(?:{_WORD})\b)*(?![A-Za-z])(?:\spoint((?:\s(?:{_WORD}))+)\b)?",
    re.IGNORECASE,
)
_MAX_RUN_CHARS = 200
"""Longer runs are no number that anyone would write in words."""
_ANY_WORD = re.compile(rf"(?<![A-Za-z\d])(?:{_WORD})(?![A-Za-z])", re.IGNORECASE)
_ARTICLE = re.compile(r"\b(?:a|an)\s+(?=(?:hundred|thousand|million|billion|dozen)\b)", re.IGNORECASE)
_SCALE_COMMA = re.compile(rf"\b(thousand|million|billion),\s+(?=(?:{_WORD})\b)", re.IGNORECASE)
_COUNTS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5}
_PARTS = {"half": 2, "third": 3, "thirds": 3, "quarter": 4, "quarters": 4, "fifth": 5, "fifths": 5}
_SHARE = re.compile(rf"(?:({'|'.join(_COUNTS)})[\s-])?({'|'.join(_PARTS)})", re.IGNORECASE)
_NEGATIVE = re.compile(r"\b(?:minus|negative)\s+(?=\d)", re.IGNORECASE)
_DIGIT_SCALE = re.compile(
    r"(?<![\d.,])(\d{1,3}(?:,\d{3}){1,4}|\d{1,15})(\.\d{1,15})?"
    r"(?:\s+(dozen|hundred|thousand|million|billion|trillion)\b|\s?([万亿]))",
    re.IGNORECASE,
)
_AND_SHARE = re.compile(
    rf"(?<=[a-z\d])\s+and\s+(?:({'|'.join(_COUNTS)})[\s-])?({'|'.join(_PARTS)})\b", re.IGNORECASE
)
_BEFORE_SHARE = re.compile(rf"(?:\b(?:{_WORD})|(?<![\d/])\d{{1,6}})\Z", re.IGNORECASE)
_AND_FRACTION = re.compile(r"(?<![\d./])(\d{1,6})\s+and\s+(\d{1,3})/(\d{1,3})(?![\d/.])")
_BETWEEN = re.compile(r"\b(?:between|both|either)\b", re.IGNORECASE)
# Candidates that a missing blank hides: "3orfour", "threeor4".
_GLUED = re.compile(
    rf"(?:(?<=\d)|\b({_WORD}))(or|and|to|vs)(?=\s?(?:\d|(?:{_WORD})(?![A-Za-z])))"
    rf"|(?<=\s)(or|and|to|vs)(?=\d|(?:{_WORD})(?![A-Za-z]))",
    re.IGNORECASE,
)
_HALF_DOZEN = re.compile(r"\bhalf (?:a )?dozen\b", re.IGNORECASE)
_POINT = re.compile(rf"(?:(minus|negative)\s)?point((?:\s(?:{_WORD}))+)[.!]?", re.IGNORECASE)

_CHINESE_DIGITS = {character: value for value, character in enumerate("零一二三四五六七八九")} | {
    "两": 2,
    "〇": 0,
}
_CHINESE_SCALES = {"十": 10, "百": 100, "千": 1000, "万": 10_000, "亿": 100_000_000}
_CHINESE_NUMBER = "[零〇一二两三四五六七八九十百千万亿]{1,20}"
_CHINESE = re.compile(
    r"(?:答案)?(?:总共|一共|大约|约|共|有|是|为)*(?P<negative>负)?"
    rf"(?:(?P<half>一?半)|(?P<bottom>{_CHINESE_NUMBER})分之(?P<top>{_CHINESE_NUMBER})"
    rf"|(?P<whole>{_CHINESE_NUMBER})(?:点(?P<decimals>[零〇一二三四五六七八九]{{1,20}}))?)"
    r"(?:[个只次人名位辆条张件头匹本棵座台块把种步秒米岁分天遍元年月日号层][^\d零〇一二两三四五六七八九十百千万亿]{0,20})?[。.!]?"
)


def digits_for_words(text: str) -> str:
    """`text` with each number word, or run of them, written in digits.

    >>> digits_for_words("twenty-one apples and two hundred pears")
    '21 apples and 200 pears'
    >>> digits_for_words("三十二个")
    '32'
    """
    if not text.isascii():
        chinese = _CHINESE.fullmatch(text.strip(" \t\r\n.!"))
        if chinese:
            return ("-" if chinese["negative"] else "") + _chinese_digits(chinese)
    share = _SHARE.fullmatch(text.strip(" .!"))
    if share:
        return f"{_COUNTS[(share.group(1) or 'a').lower()]}/{_PARTS[share.group(2).lower()]}"
    if _POINT.fullmatch(text.strip()):
        text = text.replace("point", "zero point", 1).replace("Point", "zero point", 1)
    text = _HALF_DOZEN.sub("6", text)
    text = _GLUED.sub(r"\1 \2\3 ", text)
    text = _AND_SHARE.sub(_mixed, text)
    if not _BETWEEN.search(text):
        text = _AND_FRACTION.sub(_mixed_fraction, text)
    text = _DIGIT_SCALE.sub(_scaled, text)
    if _ANY_WORD.search(text):
        text = _SCALE_COMMA.sub(r"\1 ", text)
        text = _ARTICLE.sub("one ", text)
        text = _RUN.sub(_run_digits, text)
    return _NEGATIVE.sub("-", text)


def _mixed(match: re.Match[str]) -> str:
    """`and a half` after a number as ` 1/2`; anything else as it is."""
    if not _BEFORE_SHARE.search(match.string, max(0, match.start() - 12), match.start()):
        return match.group()
    return f" {_COUNTS[(match.group(1) or 'a').lower()]}/{_PARTS[match.group(2).lower()]}"


def _mixed_fraction(match: re.Match[str]) -> str:
    """`1 and 1/2` as `1 1/2`; a fraction of one or more is a number of its own."""
    whole, top, bottom = match.groups()
    return f"{whole} {top}/{bottom}" if int(top) < int(bottom) else match.group()


def _scaled(match: re.Match[str]) -> str:
    scale = _SCALES[match.group(3).lower()] if match.group(3) else _CHINESE_SCALES[match.group(4)]
    value = Decimal(match.group(1).replace(",", "") + (match.group(2) or "")) * scale
    return f"{value:f}"


def _run_digits(match: re.Match[str]) -> str:
    run = match.group()
    if len(run) > _MAX_RUN_CHARS:
        return run
    whole, _, decimals = run.lower().partition(" point ")
    numbers = [str(value) for value in _values(re.split(r"[\s-]+", whole))]
    if decimals:
        digits = "".join(str(_UNITS.get(word, "")) for word in decimals.split())
        numbers[-1] += f".{digits}"
    return " ".join(numbers)


def _values(words: list[str]) -> list[int]:
    """The numbers of a run: `three four` are two, `twenty one` and `two hundred and three` are one each."""
    values: list[int] = []
    total = current = 0
    last = ""
    started = False
    for word in words:
        if word == "and":
            if last not in _SCALES:
                values.append(total + current)
                total = current = 0
                started, last = False, ""
            continue
        if word in _SCALES:
            scale = _SCALES[word]
            if scale >= 1000:
                total, current = total + max(current, 1) * scale, 0
            else:
                current = max(current, 1) * scale
        else:
            fits = not started or last in _SCALES or (last in _TENS and 0 < _UNITS.get(word, 0) < 10)
            if not fits:
                values.append(total + current)
                total = current = 0
            current += _UNITS.get(word, 0) + _TENS.get(word, 0)
        started, last = True, word
    if started:
        values.append(total + current)
    return values


def _chinese_digits(match: re.Match[str]) -> str:
    if match["half"]:
        return "1/2"
    if not match["bottom"]:
        decimals = "".join(str(_CHINESE_DIGITS[character]) for character in match["decimals"] or "")
        return f"{_chinese_value(match['whole'])}{'.' if decimals else ''}{decimals}"
    top = _chinese_value(match["top"])
    return f"{top}%" if match["bottom"] == "百" else f"{top}/{_chinese_value(match['bottom'])}"


def _chinese_value(text: str) -> int:
    if not any(character in _CHINESE_SCALES for character in text):
        return int("".join(str(_CHINESE_DIGITS[character]) for character in text))
    total = section = digit = 0
    for character in text:
        if character in _CHINESE_DIGITS:
            digit = _CHINESE_DIGITS[character]
            continue
        scale = _CHINESE_SCALES[character]
        if scale >= 10_000:
            total, section, digit = (total + section + digit) * scale, 0, 0
        else:
            section, digit = section + (digit or 1) * scale, 0
    return total + section + digit

"""Preference between two responses: the verdict 1, 2 or tie in an answer's words.

Judging which response is better is the work of `judge`; this reads what a policy answered.
"""

from __future__ import annotations

import re
from typing import Any

from vrldata.tasks.reading import Measured, Reading, Record, UnreadableAnswerError, UnreadableGoldError
from vrldata.tasks.text import clean, collapse, strip_punctuation, unwrap_answer_tag

TIE = "tie"
_LABELS = {"1": "1", "a": "1", "one": "1", "first": "1", "2": "2", "b": "2", "two": "2", "second": "2"}
_KIND = r"(?:response|answer|assistant|option|model|candidate|output|caption|reply)"
_NAMED = rf"(?:(?:the )?{_KIND}[ _]?[#(:]? ?(1|2|a|b|one|two)\b\)?|the (first|second)(?: (?:{_KIND}|one))?\b)"
_EXACT = re.compile(
    rf"(?:(?:the )?(?:better |best |winning )?{_KIND}[ _]?(?:is )?[#(:]? ?)?"
    rf"(1|2|a|b|one|two|first|second)(?: {_KIND})?"
)
_MENTION = re.compile(_NAMED)
_WEAKENED = r"(?:(?:much|slightly|clearly|far|a bit|a little|significantly|somewhat|the|overall) )*"
_VERDICT = re.compile(
    rf"{_NAMED} (?:is|was|seems|looks|performs|does|answers) {_WEAKENED}"
    r"(better|best|superior|preferred|preferable|stronger|worse|worst|inferior|weaker)\b"
)
_CHOICE = re.compile(rf"\b(?:prefer|choose|select|pick|favou?r|go with) {_NAMED}")
_EQUAL = re.compile(
    r"\b(?:tie|tied|a draw|equally (?:good|bad|well|strong|correct|helpful)|equal (?:quality|in quality)|"
    r"(?:are|is) (?:about )?(?:equal|the same|equivalent|comparable)|neither is better|"
    r"no (?:clear )?preference)\b"
)
_WORSE = frozenset({"worse", "worst", "inferior", "weaker"})


def verdict(text: str) -> str:
    """`1`, `2` or `tie`, whichever `text` says.

    >>> verdict("Response 2 is better than Response 1")
    '2'

    Raises:
        UnreadableAnswerError: it names no response, both without a verdict, or several verdicts.
    """
    plain = collapse(clean(text).casefold())[:4000]
    bare = strip_punctuation(plain)
    if bare in ("tie", "equal", "both", "same", "draw"):
        return TIE
    exact = _EXACT.fullmatch(bare)
    if exact:
        return _LABELS[exact.group(1)]
    verdicts = {_winner(match) for match in _VERDICT.finditer(plain)}
    verdicts |= {_LABELS[match.group(1) or match.group(2)] for match in _CHOICE.finditer(plain)}
    if _EQUAL.search(plain):
        verdicts.add(TIE)
    if not verdicts:
        verdicts = {_LABELS[match.group(1) or match.group(2)] for match in _MENTION.finditer(plain)}
    if len(verdicts) != 1:
        reason = "several verdicts or responses" if verdicts else "no response"
        raise UnreadableAnswerError(f"{reason} in {text[:80]!r}", ambiguous=bool(verdicts))
    return verdicts.pop()


def _winner(match: re.Match[str]) -> str:
    named = _LABELS[match.group(1) or match.group(2)]
    return named if match.group(3) not in _WORSE else ("2" if named == "1" else "1")


def read_gold(record: Record) -> str:
    """The key's verdict."""
    key = record.ground_truth
    if isinstance(key, bool) or not isinstance(key, str | int):
        raise UnreadableGoldError(f"key {key!r} is neither response 1, response 2 nor a tie")
    try:
        return verdict(unwrap_answer_tag(str(key)))
    except UnreadableAnswerError as error:
        raise UnreadableGoldError(
            f"key {str(key)[:80]!r} is neither response 1, response 2 nor a tie"
        ) from error


def read_answer(content: str, record: Record, gold: Any) -> Reading:
    """The verdict of the content."""
    value = verdict(content)
    return Reading(value=value, shown=value)


def compare(value: str, gold: str, record: Record) -> Measured:
    """1 where the verdicts agree."""
    return Measured(accuracy=float(value == gold))

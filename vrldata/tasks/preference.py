"""Preference between two responses: the verdict 1, 2 or tie in an answer's words.

Judging which response is better is the work of `judge`; this reads what a policy answered.
"""

from __future__ import annotations

import re
from typing import Any

from vrldata.tasks.choices import lone_letters
from vrldata.tasks.reading import (
    Measured,
    Reading,
    Record,
    UnreadableAnswerError,
    UnreadableGoldError,
    sole,
)
from vrldata.tasks.text import clean, collapse, strip_punctuation, unwrap_answer_tag

TIE = "tie"
_LABELS = {
    **dict.fromkeys(("1", "a", "one", "first", "former"), "1"),
    **dict.fromkeys(("2", "b", "two", "second", "latter"), "2"),
    **dict.fromkeys(("c", "tie"), TIE),
}
_KIND = r"(?:response|answer|assistant|option|model|candidate|output|caption|reply)"
_NAMED = (
    rf"(?:(?:the )?{_KIND}[ _-]?[#(:]? ?(1|2|a|b|one|two)(?![0-9a-z])\)?"
    rf"|the (first|second|former|latter)(?: (?:{_KIND}|one))?\b)"
)
_EXACT = re.compile(
    rf"(?:(?:the |my )?(?:final )?(?:winner|verdict|choice|preference|preferred|better)(?: is)? ?:? ?)?"
    rf"(?:(?:the )?(?:better |best |winning |preferred )?{_KIND}[ _-]?(?:is )?[#(:]? ?)?\[{{0,2}}"
    rf"(1|2|a|b|one|two|first|second|former|latter)(?: {_KIND})?"
)
_MENTION = re.compile(_NAMED)
_BRACKETED = re.compile(r"\[\[(1|2|a|b|c|tie)\]\]")
"""The verdicts of pairwise judging prompts, where C is a tie (Zheng et al. 2023, MT-Bench)."""
_WEAKENED = r"(?:(?:much|slightly|clearly|far|a bit|a little|significantly|somewhat|the|overall) )*"
_QUALITY = (
    r"(?:accurate|appropriate|complete|comprehensive|correct|detailed|factual|faithful|helpful|informative|"
    r"precise|relevant|reliable|useful)"
)
_SUBJECT = rf"(?:{_NAMED}|(?<![\w.,])([12ab]))"
_VERDICT = re.compile(
    rf"{_SUBJECT} (?:(?:is|was|seems|looks|performs|does|answers|provides a|gives a|offers a) {_WEAKENED}"
    r"(better|best|superior|preferred|preferable|stronger|worse|worst|inferior|weaker)\b"
    rf"|(?:is|was|seems) {_WEAKENED}(more|less|not as|not so) (?:{_QUALITY}|good)\b"
    r"|(outperforms|beats|wins)\b)"
)
# "a" may also be the article of what follows
_OBJECT = rf"(?:{_NAMED}|([12ab])(?=$|[.,;:!)]| (?:over|to|because|since|as)\b))"
_CHOICE = re.compile(
    rf"\b(?:prefer|choose|select|pick|favou?r|go with) {_OBJECT}"
    rf"|\b(?:better|best|preferred|winning|(worse|worst|inferior)) (?:{_KIND} |one )?is:? {_OBJECT}"
)
_CLAUSE_END = re.compile(r"[.,;:!?]|\b(?:and|but|so|while|because|since|thus|hence|therefore)\b")
_DENIED = re.compile(r"\b(?:not|never|cannot|doubt)\b|n['’]t\b")
_NEITHER = re.compile(rf"\bneither (?:{_NAMED} nor {_NAMED}|{_KIND}|one|of (?:them|the two)) is better\b")
_EQUAL = re.compile(
    rf"\b(?:tie|tied|a draw|equally (?:good|bad|well|strong|{_QUALITY})|(?:equal|similar) (?:in )?quality|"
    r"(?:are|is) (?:about )?(?:equal|the same|equivalent|comparable|similar(?: in quality)?)|"
    r"(?:is|are) (?:just |equally )?as good as|"
    r"neither is better|no (?:clear )?(?:preference|winner|difference))\b"
)
_SIDE = rf"(?:{_KIND}[ _]?)?(?<![0-9a-z])([12ab])(?![0-9a-z])"
# Responses that a missing blank hides: "Response 2orResponse 1".
_GLUED_LABEL = re.compile(rf"({_KIND}[ _]?[12])(?=[a-z])")
_GLUED_JOIN = re.compile(rf"(?<=[12ab])(or|and|vs)(?=\s?(?:the )?{_KIND}|\s?[12]\b)")
_SIGN = re.compile(rf"{_SIDE}\s?(>{{1,3}}|<{{1,3}}|=)\s?{_SIDE}")
_CHINESE_LABELS = {"一": "1", "二": "2", "1": "1", "2": "2", "a": "1", "b": "2"}
_CHINESE_NAMED = r"(?:(?:回答|答案|回复|选项) ?([12ab一二])|第([一二])[个种]?(?:回答|答案|回复)?)"
_CHINESE_MENTION = re.compile(_CHINESE_NAMED)
_CHINESE_COMPARED = re.compile(
    rf"{_CHINESE_NAMED} ?(?:优于|好于|胜过|(?P<worse>不如|差于)|比) ?{_CHINESE_NAMED}"
    r"(?P<degree>[^。，]{0,6})"
)
_CHINESE_EQUAL = re.compile("一样好|同样好|一样差|不分上下|平局|平手|难分高下")
_CHINESE_WORSE = re.compile("更差|较差|最差|更糟")
_WORSE = frozenset({"worse", "worst", "inferior", "weaker", "less", "not as", "not so"})


def verdict(text: str) -> str:
    """`1`, `2` or `tie`, whichever `text` says.

    >>> verdict("Response 2 is better than Response 1")
    '2'

    Raises:
        UnreadableAnswerError: it names no response, both without a verdict, or several verdicts.
    """
    plain = collapse(clean(text).casefold())[:4000]
    plain = _GLUED_LABEL.sub(r"\1 ", _GLUED_JOIN.sub(r" \1 ", plain))
    bare = strip_punctuation(plain)
    if bare in ("tie", "equal", "both", "same", "draw"):
        return TIE
    exact = _EXACT.fullmatch(bare)
    if exact:
        return _LABELS[exact.group(1)]
    if not plain.isascii() and (chinese := _chinese_verdicts(plain)):
        return _only(chinese, text)
    if sign := _SIGN.fullmatch(bare):
        if sign.group(1) == sign.group(3) or sign.group(2) == "=":
            return TIE
        return _LABELS[sign.group(1 if sign.group(2).startswith(">") else 3)]
    plain = _NEITHER.sub(TIE, plain)
    compared, chosen = list(_VERDICT.finditer(plain)), list(_CHOICE.finditer(plain))
    verdicts = {_winner(match) for match in compared} | {_chosen(match) for match in chosen}
    verdicts |= {_LABELS[label] for label in _BRACKETED.findall(plain)}
    if any(_is_denied(plain, match.start()) for match in (*compared, *chosen)):
        verdicts |= {"1", "2"}  # what is not better may be worse or as good
    if _EQUAL.search(plain):
        verdicts.add(TIE)
        # a tie names both responses or none: one alone is its alternative
        named = {_LABELS[match.group(1) or match.group(2)] for match in _MENTION.finditer(plain)}
        named |= set(_BARE_LABEL.findall(plain)) | {_LABELS[letter.lower()] for letter in _capitals(text)}
        verdicts |= named if len(named) == 1 else set()
    if not verdicts:
        verdicts = {_LABELS[match.group(1) or match.group(2)] for match in _MENTION.finditer(plain)}
    return _only(verdicts, text)


_BARE_LABEL = re.compile(r"(?<![\w.,])([12])(?![\w%]|[.,]\d)")


def _capitals(text: str) -> list[str]:
    return [letter for letter in lone_letters(text[:4000]) if letter in "AB"]


def _only(verdicts: set[str], text: str) -> str:
    if len(verdicts) != 1:
        reason = "several verdicts or responses" if verdicts else "no response"
        raise UnreadableAnswerError(f"{reason} in {text[:80]!r}", ambiguous=bool(verdicts))
    return next(iter(verdicts))


def _chinese_verdicts(plain: str) -> set[str]:
    """The verdicts of a Chinese text; empty where it names no response and no tie."""
    if _CHINESE_EQUAL.search(plain):
        return {TIE}
    if compared := _CHINESE_COMPARED.search(plain):
        named = [group for group in compared.groups()[:2] if group]
        first = _CHINESE_LABELS[named[0]]
        worse = compared["worse"] or re.search("差|糟", compared["degree"])
        return {_other(first) if worse else first}
    labels = {_CHINESE_LABELS[match.group(1) or match.group(2)] for match in _CHINESE_MENTION.finditer(plain)}
    return {_other(label) for label in labels} if _CHINESE_WORSE.search(plain) else labels


def _other(label: str) -> str:
    return "2" if label == "1" else "1"


def _winner(match: re.Match[str]) -> str:
    subject, said = match.groups()[:3], match.groups()[3:]
    named = _LABELS[next(filter(None, subject))]
    return named if not _WORSE.intersection(said) else _other(named)


def _is_denied(plain: str, place: int) -> bool:
    """Whether the clause before `place` takes back what follows: "I do not think response 1 is better"."""
    return bool(_DENIED.search(_CLAUSE_END.split(plain[max(0, place - 60) : place])[-1]))


def _chosen(match: re.Match[str]) -> str:
    prefer, worse, named = match.groups()[:3], match.group(4), match.groups()[4:]
    label = _LABELS[next(filter(None, (*prefer, *named)))]
    return _other(label) if worse else label


def read_gold(record: Record) -> str:
    """The key's verdict."""
    key = sole(record.ground_truth)
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

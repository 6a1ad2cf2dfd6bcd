"""Concluding statements of free prose in several languages, for the tolerant protocol only.

Finds where a response says what its answer is. Case and markup are tolerated; all patterns are bounded.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from vrldata.tasks.text import folded_widths

_IS = r"(?: is| was| are| would be| should be| must be| will be| seems to be| corresponds to|[:：=]| ?->| ?→)"
_DRESS = r"[\s*_`\"'“”]{0,6}"
_ANSWER_IS: tuple[tuple[str, str], ...] = (
    ("answer|response|result", rf"\b(?:final )?(?:answer|response|result)s?{_DRESS}{_IS}"),
    ("final answer", r"\bfinal answer[*_\s]{0,4}[:：\n]"),
    ("答案", r"(?:正确|正確)?答案(?:应该|应当|應該|应|應|就|最?可能)?(?:是|为|為|选|選)?\s?[:：]?"),
    ("答え|解答|正解", r"(?:答え|解答|正解)\s?(?:は|[:：])"),
    ("답", r"(?:정답|답)\s?(?:은|는|[:：])"),
    ("respuesta", r"\brespuesta(?: correcta| final)?(?: es|\s?[:：])"),
    ("réponse|reponse", r"\br[ée]ponse(?: correcte| finale)?(?: est|\s?[:：])"),
    ("antwort", r"\bantwort(?: ist| lautet|\s?[:：])"),
    ("antwoord", r"\bantwoord(?: is|\s?[:：])"),
    (
        "resposta",
        r"\bresposta(?: correta| final)?(?: [ée](?: a(?: letra| opção)?(?= \(?[A-Z]\b))?|\s?[:：])",
    ),
    ("risposta", r"\brisposta(?: corretta| finale)?(?: [èe]|\s?[:：])"),
    ("ответ", r"\b(?:правильный )?ответ\s?(?:[:：—-]|это)"),
    ("đáp án", r"\bđáp án(?: đúng)?(?: là|\s?[:：])"),
    ("cevap", r"\b(?:doğru )?cevap\s?[:：]?"),
    ("الإجابة|الجواب", r"(?:الإجابة|الجواب)(?: الصحيحة| الصحيح)?(?: هي| هو|\s?[:：])"),
    ("câu trả lời", r"\bcâu trả lời(?: đúng| chính xác)?(?: là|\s?[:：])"),
    ("jawaban", r"\bjawaban(?:nya)?(?: yang (?:benar|tepat))?(?: adalah|\s?[:：])"),
    ("odpowied", r"\b(?:poprawna )?odpowied[zź](?: to| brzmi|\s?[:：])"),
    ("ค\u0e4d\u0e32ตอบ", "ค\u0e4d\u0e32ตอบ(?:ที่ถูกต้อง)?\\s?(?:คือ|[:：])"),
    ("התשובה|תשובה", r"ה?תשובה(?: הנכונה)?(?: היא|\s?[:：])"),
    ("پاسخ", r"پاسخ(?: صحیح)?\s?[:：]?"),
    ("відповідь", r"\b(?:правильна )?відповідь\s?(?:[:：—-]|це)"),
    ("उत्तर", r"(?:सही )?उत्तर(?: है|\s?[:：])?"),
)
_CHOOSE: tuple[tuple[str, str], ...] = (
    ("option|choice", rf"\b(?:correct|right|best|final|my) (?:option|choice)s?{_DRESS}{_IS}"),
    ("option|choice", rf"\b(?:option|choice){_DRESS}{_IS}"),
    ("correct", r"\bcorrect(?: one)?\s?[:：]"),
    (
        "final|verdict|decision|selection|prediction",
        r"\b(?:final|verdict|decision|selection|prediction)\s?[:：]",
    ),
    # "it is B", where the letter ends the clause
    (
        "it is|it's|it’s",
        r"\bit(?: is|['’]s)(?= (?:option |choice )?[(\[*]{0,3}(?-i:[A-Z])[)\]*]{0,3}(?:[.!,;]|\Z))",
    ),
    (
        "choos|select|pick|go with|going with|opt for",
        r"\b(?:choose|select|pick|choosing|selecting|picking|go with|going with|opt for)\b",
    ),
    (
        "therefore|thus|hence|so|conclusion",
        r"\b(?:therefore|thus|hence|so|in conclusion|conclusion)\b[,:]?"
        r"(?: it(?:'s| is| must be| should be))?",
    ),
    ("it must be|it should be|it has to be", r"\bit (?:must|should|has to) be\b"),
    ("选|選", r"(?:应该|应|應|故|因此|所以|正确|正確)?[选選](?:[择擇项項])?(?:是|为|為)?\s?[:：]?"),
    (
        "认为|認為|应该|應該|正确|正確",
        r"(?:认为|認為|应该|應該|正确的|正確的)(?:答案|[选選][项項])?(?:应该|應該)?是",
    ),
    ("opción|elijo", r"\b(?:opción|elijo|la opción)(?: correcta)?(?: es)?\b"),
    ("option", r"\b(?:l'option|option correcte)(?: est)?\b"),
)
_LONGEST_PREFIX = 16
"""No alternative begins further before its word than this."""


@dataclass(frozen=True, slots=True)
class Phrases:
    """Alternatives of one pattern, each with words (`a|b`) of which one must occur where it matches."""

    alternatives: tuple[tuple[str, str], ...]

    def ends(self, text: str) -> list[int]:
        """Where the phrases of `text` end. Alternatives whose words do not occur are not tried."""
        lowered = text.lower()
        firsts = [_first_of(words, lowered) for words, _ in self.alternatives]
        present = tuple(
            pattern for first, (_, pattern) in zip(firsts, self.alternatives, strict=True) if first >= 0
        )
        if not present:
            return []
        start = min(first for first in firsts if first >= 0) - _LONGEST_PREFIX
        if len(lowered) != len(text):
            start = 0
        matches = _compiled(present).finditer(text, max(0, start))
        return [
            match.end() for match in matches if _LINK.match(match.group()) or not negated(text, match.start())
        ]


def negated(text: str, place: int) -> bool:
    """Whether the words just before a place deny what stands there, as in "I would not choose"."""
    return _DENIAL.search(text, max(0, place - 40), place) is not None


_LINK = re.compile(r"(?:therefore|thus|hence|so|in conclusion|conclusion)\b", re.IGNORECASE)
_DENIAL = re.compile(
    r"(?:\b(?:not|never|cannot)|n['’]t) (?:(?:think|believe|say|suppose|agree) (?:that )?)?"
    r"(?:(?!(?:but|so|sure|and|then|yet|clear|only)\b)[a-z]+ ){0,2}\Z"
    r"|[不别非](?:能|会|该|应该?|可以?|要)?\Z",
    re.IGNORECASE,
)


def _first_of(words: str, text: str) -> int:
    found = [place for word in words.split("|") if (place := text.find(word)) >= 0]
    return min(found, default=-1)


@lru_cache(maxsize=512)
def _compiled(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


ANSWER_IS = Phrases(_ANSWER_IS)
CHOICE_IS = Phrases((*_ANSWER_IS, *_CHOOSE))
LETTER_IS_RIGHT = re.compile(
    r"(?<![A-Za-z0-9])([A-Z])[)\]*.\"']{0,4} (?:is|must be|should be) "
    r"(?:clearly |definitely |most likely |therefore |thus |indeed )?"
    r"(?:the |my )?(?:final )?(?:most )?(?:correct|right|best|accurate|appropriate|likely|answer)\b"
    r"|(?<![A-Za-z0-9])([A-Z])\s?(?:[选選]?[项項])?(?:是|が|は)?(?:正确|正確|正解|对的)"
)

_MAX_CONCLUSIONS = 32


def concluding_statements(text: str, phrases: Phrases = ANSWER_IS) -> list[str]:
    """What follows each concluding phrase of `text` up to the next blank line, the last statement first.

    >>> concluding_statements("The answer is A? No, the answer is C.")
    ['C.', 'A? No, the answer is C.']
    """
    statements = []
    text = unicodedata.normalize("NFC", text)
    for end in reversed(phrases.ends(folded_widths(text))[-_MAX_CONCLUSIONS:]):
        rest = text[end:].lstrip(" \t\r\n*_:：")
        statement = rest.partition("\n\n")[0].strip()
        if statement:
            statements.append(statement)
    return statements


def sentence(text: str) -> str:
    """The first sentence of `text`, or its first line where that is shorter.

    A full stop inside a number or after a single letter ends none.
    """
    found = _SENTENCE_END.search(text)
    return text[: found.start() + 1] if found else text


_SENTENCE_END = re.compile(r"(?<!^[A-Za-z])(?<!\b[A-Z])[.!?](?=\s)|[。！？\n]")

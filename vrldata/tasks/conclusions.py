"""Concluding statements of free prose in several languages, for the tolerant protocol only.

Finds where a response says what its answer is. Case and markup are tolerated; all patterns are bounded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_IS = r"(?: is| was| are| would be| should be| must be| will be| seems to be|[:：=]| ?->| ?→)"
_DRESS = r"[\s*_`\"'“”]{0,6}"
_ANSWER_IS: tuple[tuple[str, str], ...] = (
    ("answer|response|result", rf"\b(?:final )?(?:answer|response|result)s?{_DRESS}{_IS}"),
    ("final answer", r"\bfinal answer[*_\s]{0,4}[:：\n]"),
    ("答案", r"(?:正确)?答案(?:应该是|应当是|应为|应是|是|为|选)?\s?[:：]?"),
    ("答え|解答|正解", r"(?:答え|解答|正解)\s?(?:は|[:：])"),
    ("답", r"(?:정답|답)\s?(?:은|는|[:：])"),
    ("respuesta", r"\brespuesta(?: correcta| final)?(?: es|\s?[:：])"),
    ("réponse|reponse", r"\br[ée]ponse(?: correcte| finale)?(?: est|\s?[:：])"),
    ("antwort", r"\bantwort(?: ist| lautet|\s?[:：])"),
    ("antwoord", r"\bantwoord(?: is|\s?[:：])"),
    ("resposta", r"\bresposta(?: correta| final)?(?: [ée]|\s?[:：])"),
    ("risposta", r"\brisposta(?: corretta| finale)?(?: [èe]|\s?[:：])"),
    ("ответ", r"\b(?:правильный )?ответ\s?(?:[:：—-]|это)"),
    ("đáp án", r"\bđáp án(?: đúng)?(?: là|\s?[:：])"),
    ("cevap", r"\b(?:doğru )?cevap\s?[:：]?"),
    ("الإجابة|الجواب", r"(?:الإجابة|الجواب)(?: الصحيحة| الصحيح)?(?: هي| هو|\s?[:：])"),
    ("उत्तर", r"(?:सही )?उत्तर(?: है|\s?[:：])?"),
)
_CHOOSE: tuple[tuple[str, str], ...] = (
    ("option|choice", rf"\b(?:correct|right|best|final|my) (?:option|choice){_DRESS}{_IS}"),
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
    ("选", r"(?:应该|应|故|因此|所以|正确)?选(?:择|项)?(?:是|为)?\s?[:：]?"),
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
        return [match.end() for match in _compiled(present).finditer(text, max(0, start))]


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
    r"(?:the )?(?:most )?(?:correct|right|best|accurate|appropriate|likely|answer)\b"
    r"|(?<![A-Za-z0-9])([A-Z])\s?(?:选项)?(?:是|が|は)?(?:正确|正解|对的)"
)

_MAX_CONCLUSIONS = 32


def concluding_statements(text: str, phrases: Phrases = ANSWER_IS) -> list[str]:
    """What follows each concluding phrase of `text` up to the next blank line, the last statement first.

    >>> concluding_statements("The answer is A? No, the answer is C.")
    ['C.', 'A? No, the answer is C.']
    """
    statements = []
    for end in reversed(phrases.ends(text)[-_MAX_CONCLUSIONS:]):
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

"""Concluding statements of free prose in several languages, for the tolerant protocol only.

Finds where a response says what its answer is. Case and markup are tolerated; all patterns are bounded.
"""

from __future__ import annotations

import re

_IS = r"(?: is| was| are| would be| should be| must be| will be| seems to be|[:：=]| ?->| ?→)"
_DRESS = r"[\s*_`\"'“”]{0,6}"
_ANSWER_IS = (
    rf"\b(?:final )?(?:answer|response|result){_DRESS}{_IS}",
    r"\bfinal answer[*_\s]{0,4}[:：\n]",
    r"(?:正确)?答案(?:应该是|应当是|应为|应是|是|为|选)?\s?[:：]?",
    r"(?:答え|解答|正解)\s?(?:は|[:：])",
    r"(?:정답|답)\s?(?:은|는|[:：])",
    r"\brespuesta(?: correcta| final)?(?: es|\s?[:：])",
    r"\br[ée]ponse(?: correcte| finale)?(?: est|\s?[:：])",
    r"\bantwort(?: ist| lautet|\s?[:：])",
    r"\bantwoord(?: is|\s?[:：])",
    r"\bresposta(?: correta| final)?(?: [ée]|\s?[:：])",
    r"\brisposta(?: corretta| finale)?(?: [èe]|\s?[:：])",
    r"\b(?:правильный )?ответ\s?(?:[:：—-]|это)",
    r"\bđáp án(?: đúng)?(?: là|\s?[:：])",
    r"\b(?:doğru )?cevap\s?[:：]?",
    r"(?:الإجابة|الجواب)(?: الصحيحة| الصحيح)?(?: هي| هو|\s?[:：])",
    r"(?:सही )?उत्तर(?: है|\s?[:：])",
)
_CHOOSE = (
    rf"\b(?:correct|right|best|final|my) (?:option|choice){_DRESS}{_IS}",
    rf"\b(?:option|choice){_DRESS}{_IS}",
    r"\bcorrect(?: one)?\s?[:：]",
    r"\b(?:choose|select|pick|choosing|selecting|picking|go with|going with|opt for)\b",
    r"\b(?:therefore|thus|hence|so|in conclusion|conclusion)\b[,:]?(?: it(?:'s| is| must be| should be))?",
    r"\bit (?:must|should|has to) be\b",
    r"(?:应该|应|故|因此|所以|正确)?选(?:择|项)?(?:是|为)?\s?[:：]?",
    r"\b(?:opción|elijo|la opción)(?: correcta)?(?: es)?\b",
    r"\b(?:l'option|option correcte)(?: est)?\b",
)
ANSWER_IS = re.compile("|".join(_ANSWER_IS), re.IGNORECASE)
CHOICE_IS = re.compile("|".join((*_ANSWER_IS, *_CHOOSE)), re.IGNORECASE)
LETTER_IS_RIGHT = re.compile(
    r"(?<![A-Za-z0-9])([A-Z])[)\]*.\"']{0,4} (?:is|must be|should be) (?:clearly |definitely |most likely )?"
    r"(?:the )?(?:most )?(?:correct|right|best|accurate|appropriate|likely)\b"
)

_MAX_CONCLUSIONS = 32


def concluding_statements(text: str, pattern: re.Pattern[str] = ANSWER_IS) -> list[str]:
    """What follows each concluding phrase of `text` up to the next blank line, the last statement first.

    >>> concluding_statements("The answer is A? No, the answer is C.")
    ['C.', 'A? No, the answer is C.']
    """
    ends = [match.end() for match in pattern.finditer(text)][-_MAX_CONCLUSIONS:]
    statements = []
    for end in reversed(ends):
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

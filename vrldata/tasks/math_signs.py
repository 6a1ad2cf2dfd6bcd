"""Mathematical signs of plain text as the LaTeX that they stand for. Comparing formulas is `mathematics`."""

from __future__ import annotations

import re

from vrldata.tasks.numbers import MIXED_SIGN
from vrldata.tasks.text import raised

_SIGNS = {
    "∞": "\\infty ",
    "∪": "\\cup ",
    "∩": "\\cap ",
    "∅": "\\emptyset ",
    "∈": "\\in ",
    "ℝ": "\\mathbb{R}",
    "≤": "\\le ",
    "≥": "\\ge ",
    "≠": "\\ne ",
    "±": "\\pm ",
    "−": "-",
}
_TABLE = str.maketrans(_SIGNS)
_SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
_SUBSCRIPT_RUN = re.compile("[₀₁₂₃₄₅₆₇₈₉]+")
_ROOT = re.compile(
    r"(?:√|(?<![\\A-Za-z])sqrt(?=\s?\())\s?(?:\(([^()]{1,200})\)|(\d{1,40}(?:\.\d{1,40})?|[A-Za-zπ]))"
)
# Function names as plain text: before a bracket or one letter, so that "log cabin" stays words.
_FUNCTION = re.compile(
    r"(?<![\\A-Za-z])(ln|log|sin|cos|tan)(?=\s?\(|\s[a-zA-Z](?![A-Za-z]))|(?<![\\A-Za-z])(pi)(?![A-Za-z])"
)
_EQUALS = re.compile(r"(?:[=≈]|\\(?:approx|simeq)(?![A-Za-z]))\s*")


def as_latex(text: str) -> str:
    """`text` with exponents, indices, roots and other signs in LaTeX, and no equals sign before it.

    >>> as_latex("= 2√3 + x²")
    '2\\\\sqrt{3} + x^{2}'
    """
    text = _EQUALS.sub("", text, count=1) if _EQUALS.match(text) else text
    text = _ROOT.sub(lambda root: f"\\sqrt{{{root.group(1) or root.group(2)}}}", text)
    text = _FUNCTION.sub(r"\\\1\2 ", text)
    if text.isascii():
        return text
    text = raised(MIXED_SIGN.sub(" ", text))
    return _SUBSCRIPT_RUN.sub(lambda run: f"_{{{run.group().translate(_SUBSCRIPTS)}}}", text).translate(
        _TABLE
    )

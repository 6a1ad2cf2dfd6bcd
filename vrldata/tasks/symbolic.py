"""Symbolic equality by math-verify. Runs in a child process (`killable`), never in the scorer's own.

Only the LaTeX parser is used: the library's plain-expression parser evaluates Python.
"""

from __future__ import annotations

import importlib.util
import logging
from functools import lru_cache
from typing import Any

from vrldata.errors import missing_extra

_USUAL_FORMS = (
    ("x^2+2x+1", "(x+1)^2"),
    (r"\frac{\pi}{2}", r"\pi/2"),
    (r"\{1, 2\}", r"\{2, 1\}"),
    (r"(-\infty, 3]", r"(-\infty,3]"),
    ("x=5", "5"),
    (r"\sin^2 x+\cos^2 x", "1"),
    (r"\begin{pmatrix}1&2\end{pmatrix}", r"\begin{pmatrix}1&2\end{pmatrix}"),
    (r"\log_2 8", "3x"),
    (r"e^{i\pi}", "-x"),
    ("x<3", "3>x"),
    (r"50\%", r"\frac{x^2-1}{x-1}"),
)
"""Comparing these has the libraries load and prepare what they put off, a second's work in all."""


def missing_library() -> str | None:
    """The message for a missing math-verify, or None; imports what it needs, so that no request waits."""
    if importlib.util.find_spec("math_verify") is None:
        return str(missing_extra("math-verify", "tasks", "comparing mathematical answers"))
    logging.disable(logging.CRITICAL)
    for key, answer in _USUAL_FORMS:
        handle({"key": key, "answer": answer})
    return None


def handle(request: dict[str, Any]) -> dict[str, Any]:
    """`{"key": str, "answer": str | None}` -> `{"key_read": bool, "answer_read": bool, "equal": bool}`."""
    from math_verify import verify

    key = _key_expressions(request["key"])
    if request.get("answer") is None:
        return {"key_read": bool(key), "answer_read": False, "equal": False}
    answer = _expressions(request["answer"])
    equal = False
    if len(key) == 1 and len(answer) == 1:
        equal = bool(verify(key, answer, timeout_seconds=None))
    return {"key_read": bool(key), "answer_read": bool(answer), "equal": equal}


@lru_cache(maxsize=256)
def _key_expressions(text: str) -> list[Any]:
    """A group of responses shares its key."""
    return _expressions(text)


def _expressions(text: str) -> list[Any]:
    """What the text parses to as one LaTeX formula; the library's plain-text fallback is left out."""
    from math_verify import LatexExtractionConfig, parse

    parsed = parse(f"${text}$", extraction_config=[LatexExtractionConfig()], parsing_timeout=None)
    return [expression for expression in parsed if not isinstance(expression, str)]

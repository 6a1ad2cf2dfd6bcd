"""Symbolic equality by math-verify. Runs in a child process (`killable`), never in the scorer's own.

Only the LaTeX parser is used: the library's plain-expression parser evaluates Python.
"""

from __future__ import annotations

import importlib.util
import logging
from typing import Any

from vrldata.errors import missing_extra


def missing_library() -> str | None:
    """The message for a missing math-verify, or None; imports it, so that no request waits."""
    if importlib.util.find_spec("math_verify") is None:
        return str(missing_extra("math-verify", "tasks", "comparing mathematical answers"))
    logging.disable(logging.CRITICAL)
    handle({"key": "x+1", "answer": "1+x"})
    return None


def handle(request: dict[str, Any]) -> dict[str, Any]:
    """`{"key": str, "answer": str | None}` -> `{"key_read": bool, "answer_read": bool, "equal": bool}`."""
    from math_verify import verify

    key = _expressions(request["key"])
    if request.get("answer") is None:
        return {"key_read": bool(key), "answer_read": False, "equal": False}
    answer = _expressions(request["answer"])
    equal = False
    if len(key) == 1 and len(answer) == 1:
        equal = bool(verify(key, answer, timeout_seconds=None))
    return {"key_read": bool(key), "answer_read": bool(answer), "equal": equal}


def _expressions(text: str) -> list[Any]:
    """What the text parses to as one LaTeX formula; the library's plain-text fallback is left out."""
    from math_verify import LatexExtractionConfig, parse

    parsed = parse(f"${text}$", extraction_config=[LatexExtractionConfig()], parsing_timeout=None)
    return [expression for expression in parsed if not isinstance(expression, str)]

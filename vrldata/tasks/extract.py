"""Where the answer of a response lies: reasoning removed, then the tag, the box or the concluding statement.

Reading what the answer says is the work of each type's module. Every scan here is linear.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from vrldata.tasks.reading import REASONING_TAGS, ScoringSettings
from vrldata.tasks.text import last_boxed

_ANSWER = re.compile(r"<(/?)answer>", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """The text that counts as the answer; `text` is None when there is none, and `reason` says why."""

    text: str | None
    how: str = ""
    reason: str = ""
    truncated: bool = False


def final_segment(response: str, tags: Sequence[str] = REASONING_TAGS) -> tuple[str | None, bool]:
    """Text after the reasoning, and whether a reasoning block was closed. None: the reasoning never ends."""
    last_open, last_close = -1, -1
    for match in _reasoning(tuple(tags)).finditer(response):
        if match.group(1):
            last_close = match.end()
        else:
            last_open = match.start()
    if last_open >= 0 and last_open >= last_close:
        return None, last_close >= 0
    if last_close >= 0:
        return response[last_close:], True
    return response, False


@lru_cache(maxsize=64)
def _reasoning(tags: tuple[str, ...]) -> re.Pattern[str]:
    names = "|".join(re.escape(tag) for tag in tags) or "(?!)"
    return re.compile(rf"<(/?)(?:{names})>", re.IGNORECASE | re.ASCII)


def strict_answer(response: str, settings: ScoringSettings) -> Extraction:
    """The content of the one `<answer>` block of the final segment (protocol `train`)."""
    segment, reasoned = final_segment(response, settings.reasoning_tags)
    if segment is None:
        return Extraction(text=None, reason="the reasoning is never closed", truncated=True)
    if settings.require_think and not reasoned:
        return Extraction(text=None, reason="no closed reasoning block before the answer")
    tags = list(_ANSWER.finditer(segment))
    if not tags:
        return (
            _lenient(segment)
            if settings.extraction == "lenient"
            else Extraction(text=None, reason="no answer tag")
        )
    kinds = [bool(tag.group(1)) for tag in tags]
    if kinds[-2:] != [False, True] or (len(kinds) > 2 and settings.multi_answer == "reject"):
        several = len(kinds) > 2 or kinds == [False, False]
        return Extraction(
            text=None, reason="several answer tags" if several else "the answer tag is not closed"
        )
    if settings.strict_tail and segment[tags[-1].end() :].strip():
        return Extraction(text=None, reason="text after the answer")
    return _content(segment[tags[-2].end() : tags[-1].start()], "tag")


def _content(text: str, how: str) -> Extraction:
    content = text.strip()
    return (
        Extraction(text=content, how=how) if content else Extraction(text=None, reason="the answer is empty")
    )


def _lenient(segment: str) -> Extraction:
    boxed = last_boxed(segment)
    if boxed is not None:
        return _content(boxed, "boxed")
    concluding = list(_PLAIN_CONCLUSION.finditer(segment))
    if concluding:
        return _content(segment[concluding[-1].end() :], "conclusion")
    return Extraction(text=None, reason="no answer tag, box or concluding statement")


_PLAIN_CONCLUSION = re.compile(r"\banswer(?: is\b|:)", re.IGNORECASE | re.ASCII)

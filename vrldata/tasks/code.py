"""Code answers: SVG and HTML by what they contain, Python by its shape or by its unit tests.

Parsing and drawing happen in a killable process; running code only in `sandbox`, and only when allowed.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from vrldata.errors import missing_extra
from vrldata.tasks.killable import shared_worker
from vrldata.tasks.measures import overlap_f1
from vrldata.tasks.reading import (
    Measured,
    Reading,
    Record,
    UnreadableAnswerError,
    UnreadableGoldError,
)
from vrldata.tasks.sandbox import MAX_TESTS, ROW_LIMITS
from vrldata.tasks.text import fenced_blocks, unwrap_answer_tag

CHILD_MODULE = "vrldata.tasks.code_features"
PARSE_SECONDS = 1.5
"""Limit for parsing and drawing one response and its key, all together."""
WEIGHTS: dict[str, dict[str, float]] = {
    "svg_code": {"tags": 0.4, "attributes": 0.4, "text": 0.2},
    "html_code": {"tags": 0.4, "attributes": 0.4, "text": 0.2},
    "code": {"shapes": 0.6, "names": 0.4},
}
"""Shares of the parts of each type's similarity; a part that both sources lack drops out with its share."""

RENDERED_SHARE = 0.5
"""Share of the rendered likeness where `render` is on; the parts above share the rest."""
RENDERERS = {"svg_code": "resvg-py", "html_code": "plutoprint"}
"""Problem type to the package that draws it."""

_LANGUAGES = {"svg_code": "svg", "html_code": "html", "code": "python"}
_LOG = logging.getLogger(__name__)

Features = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A parsed source: its text and its multisets by part."""

    text: str
    features: Features


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeKey:
    """A reference source, unit tests, or both."""

    source: Source | None
    unit_tests: tuple[str, ...] = ()


@lru_cache(maxsize=1024)
def _gold_features(text: str, language: str) -> Features:
    return _features(text, language)


def _features(text: str, language: str) -> Features:
    request = {"language": language, "source": text}
    reply = shared_worker(CHILD_MODULE).call(request, seconds=PARSE_SECONDS)
    if "error" in reply:
        raise UnreadableAnswerError(str(reply["error"]))
    return {name: dict(items) for name, items in reply["parts"].items()}


def read_gold(record: Record) -> CodeKey:
    """The reference source and the row's `unit_tests` (a list of Python test sources in `extra`).

    Raises:
        UnreadableGoldError: the reference does not parse, or only tests are given and running code is off.
    """
    tests = _unit_tests(record.extra.get("unit_tests") or ())
    key = record.ground_truth
    if isinstance(key, str) and key.strip():
        text = _unfenced(unwrap_answer_tag(key))[0]
        try:
            features = _gold_features(text, _LANGUAGES[record.problem_type])
            return CodeKey(source=Source(text=text, features=features), unit_tests=tests)
        except UnreadableAnswerError as error:
            if not tests:
                raise UnreadableGoldError(f"the reference source does not parse: {error}") from error
    if not tests or record.problem_type != "code":
        raise UnreadableGoldError("no reference source")
    if not record.settings.allow_code_execution:
        raise UnreadableGoldError("the key is unit tests alone, and allow_code_execution is off")
    return CodeKey(source=None, unit_tests=tests)


def _unit_tests(value: Any) -> tuple[str, ...]:
    tests = (value,) if isinstance(value, str) else value
    if not isinstance(tests, list | tuple) or not all(isinstance(test, str) for test in tests):
        raise UnreadableGoldError(f"unit_tests: expected a list of Python sources, found {str(value)[:80]!r}")
    if len(tests) > MAX_TESTS:
        raise UnreadableGoldError(f"unit_tests: at most {MAX_TESTS} tests a row, found {len(tests)}")
    return tuple(tests)


def _unfenced(content: str, *, prose_of: str = "") -> tuple[str, bool]:
    """The inside of the only code fence around the whole content, else the content.

    Args:
        prose_of: problem type whose source may also stand inside prose, fenced or as markup.
    """
    text = content.strip()
    whole = text.startswith("```") and text.endswith("```")
    blocks = fenced_blocks(text) if whole or prose_of else []
    if len(blocks) > 1 and not whole:
        raise UnreadableAnswerError(f"{len(blocks)} fenced blocks", ambiguous=True)
    if len(blocks) == 1:
        return blocks[0], True
    markup = _MARKUP[prose_of].search(text) if prose_of in _MARKUP else None
    end = text.rfind(">") + 1
    if markup and markup.start() < end and (markup.start() > 0 or end < len(text)):
        return text[markup.start() : end], True
    return text, False


_MARKUP = {
    "svg_code": re.compile(r"<(?:\?xml|svg\b)"),
    "html_code": re.compile(r"<(?:!doctype|html|[a-z][a-z0-9]{0,15}[\s>])", re.IGNORECASE),
}
"""Where the source begins in prose."""


def read_answer(content: str, record: Record, gold: CodeKey) -> Reading:
    """The answer's source, which must parse; a tolerant reading finds the one fenced block in prose."""
    text, fenced = _unfenced(content, prose_of=record.problem_type if record.tolerant else "")
    source = Source(text=text, features=_features(text, _LANGUAGES[record.problem_type]))
    return Reading(value=source, shown=text, form=0.5 if fenced else 1.0)


def compare(value: Source, gold: CodeKey, record: Record) -> Measured:
    """Passed share of the unit tests where code may run; else the weighted similarity of the parts."""
    if gold.unit_tests and record.settings.allow_code_execution:
        return _tested(value.text, gold.unit_tests, record.settings.code_seconds)
    if gold.unit_tests:
        _tell_tests_unrun()
    assert gold.source is not None
    measured = similarity(value.features, gold.source.features, WEIGHTS[record.problem_type])
    if record.settings.render and record.problem_type in RENDERERS:
        rendered = _rendered(value.text, gold.source.text, record.problem_type)
        parts = {**measured.parts, "structure": measured.accuracy, "rendered": rendered}
        accuracy = (1 - RENDERED_SHARE) * measured.accuracy + RENDERED_SHARE * rendered
        return Measured(accuracy=accuracy, parts=parts)
    return measured


@lru_cache(maxsize=1)
def _tell_tests_unrun() -> None:
    _LOG.warning(
        "unit tests of code rows are not run, code is scored by similarity: allow_code_execution is off "
        "(vrleval run --allow-code-execution; vrltrain: algorithm.reward.scoring.allow_code_execution)"
    )


def similarity(answer: Features, key: Features, weights: Mapping[str, float]) -> Measured:
    """Weighted mean of the F1 of each part's multisets, over the parts that at least one source has."""
    parts = {
        name: overlap_f1(dict(answer[name]), dict(key[name])) for name in weights if answer[name] or key[name]
    }
    total = sum(weights[name] for name in parts)
    accuracy = sum(weights[name] * share for name, share in parts.items()) / total if total else 0.0
    return Measured(accuracy=accuracy, parts=parts)


def _rendered(answer: str, key: str, problem_type: str) -> float:
    """How alike both look, 0 to 1; 0 for an answer that cannot be drawn.

    Raises:
        MissingExtraError: rendering is on and its library is not installed; nothing is scored instead.
        UnreadableGoldError: the reference cannot be drawn.
    """
    request = {"language": _LANGUAGES[problem_type], "source": answer, "key": key}
    reply = shared_worker(CHILD_MODULE).call(request, seconds=PARSE_SECONDS)
    if "missing" in reply:
        raise missing_extra(RENDERERS[problem_type], "tasks", "drawing SVG and HTML answers")
    if reply.get("fault") == "key":
        raise UnreadableGoldError(f"the reference cannot be drawn: {reply['reason']}")
    return float(reply.get("likeness", 0.0))


def execution_seconds(record: Record) -> float:
    """How long running a record's unit tests may take; 0 where none are run."""
    if record.problem_type != "code" or not record.settings.allow_code_execution:
        return 0.0
    return ROW_LIMITS * record.settings.code_seconds if record.extra.get("unit_tests") else 0.0


def _tested(source: str, tests: tuple[str, ...], seconds: float) -> Measured:
    from vrldata.tasks.sandbox import run_tests

    passed = run_tests(source, tests, seconds=seconds)
    return Measured(accuracy=sum(passed) / len(passed), parts={"tests_passed": sum(passed) / len(passed)})

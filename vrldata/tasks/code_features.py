"""What SVG, HTML and Python sources consist of, as multisets. Runs in a child process (`killable`).

Nothing is executed and no entity, document type or external file is resolved.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import re
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any
from xml.parsers import expat

from vrldata.tasks.text import collapse, tokens

MAX_SOURCE_BYTES = 256 << 10
MAX_DEPTH = 256

_NUMBER = re.compile(r"(?<![\w.#])(-?)(\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})(?:px)?(?![\w.%])")
_EXTERNAL = re.compile(r"url\(\s*['\"]?(?!#)|@import", re.IGNORECASE)
_PYTHON_HEIGHT = 3
_WITHOUT_END = "area base br col embed hr img input link meta source track wbr"
_END_LEFT_OUT = "body colgroup dd dt head html li optgroup option p rp rt tbody td tfoot th thead tr"
_ENDED_BY_OTHERS = frozenset(f"{_WITHOUT_END} {_END_LEFT_OUT}".split())
"""HTML elements without an end tag, or with one that may be left out: they add no depth of their own."""


class _RefusedError(ValueError):
    pass


# The HTML parser of some Python versions asserts that a marked section is of a known kind.
_UNREADABLE = (expat.ExpatError, SyntaxError, ValueError, RecursionError, MemoryError, AssertionError)


def missing_library() -> str | None:
    """None: parsing needs the standard library only. Imports what draws, where it is installed."""
    for library in ("PIL.Image", "plutoprint", "resvg_py"):
        with contextlib.suppress(ImportError):
            importlib.import_module(library)
    return None


def handle(request: dict[str, Any]) -> dict[str, Any]:
    """`{"language", "source"}` -> the source's multisets as lists of [item, count], or `{"error": reason}`.

    With a `key`, the likeness of two documents as `_drawn` gives it.
    """
    source = request["source"]
    if "key" in request:
        return _drawn(request["language"], source, request["key"])
    if len(source.encode("utf-8", "replace")) > MAX_SOURCE_BYTES:
        return {"error": f"longer than {MAX_SOURCE_BYTES} bytes"}
    try:
        return {
            "parts": {
                name: list(part.items()) for name, part in _READERS[request["language"]](source).items()
            }
        }
    except _UNREADABLE as error:
        return {"error": collapse(str(error))[:200] or type(error).__name__}


def _svg(source: str) -> _Elements:
    document = _Elements()
    parser = expat.ParserCreate()
    parser.StartElementHandler = document.start
    parser.EndElementHandler = document.end
    parser.CharacterDataHandler = document.text
    parser.StartDoctypeDeclHandler = document.refuse
    parser.EntityDeclHandler = document.refuse
    parser.Parse(source.encode("utf-8", "replace"), True)
    if document.root != "svg":
        raise _RefusedError(f"the root element is {document.root!r}, not svg")
    return document


def _html(source: str) -> _Elements:
    document = _Elements()
    parser = _Html(document)
    parser.feed(_without_open_end(source))
    parser.close()
    if not document.tags:
        raise _RefusedError("no HTML element")
    return document


def _without_open_end(source: str) -> str:
    """`source` up to the comment or tag that is never closed, which the standard drops.

    The parser would seek its end again from each of its characters.
    """
    comment = source.find("<!--", source.rfind("-->") + 1)
    plain = source[:comment] if comment >= 0 else source
    tag = _TAG_START.search(plain, plain.rfind(">") + 1)
    return plain[: tag.start()] if tag else plain


_TAG_START = re.compile("<[A-Za-z/!?]")


class _Html(HTMLParser):
    def __init__(self, document: _Elements) -> None:
        super().__init__(convert_charrefs=True)
        self._document = document

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._document.start(tag, {name: value or "" for name, value in attrs})
        if tag in _ENDED_BY_OTHERS:
            self._document.depth -= 1

    def handle_endtag(self, tag: str) -> None:
        if tag not in _ENDED_BY_OTHERS and self._document.depth:
            self._document.end(tag)
        self._document.text(" ")

    def handle_data(self, data: str) -> None:
        self._document.text(data)


class _Elements:
    """Counts of tags, of (tag, attribute, value), and of text tokens."""

    def __init__(self) -> None:
        self.tags: Counter[str] = Counter()
        self.attributes: Counter[str] = Counter()
        self.texts: list[str] = []
        self.root = ""
        self.depth = 0
        self.external = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self.depth += 1
        self.texts.append(" ")
        if self.depth > MAX_DEPTH:
            raise _RefusedError(f"nested deeper than {MAX_DEPTH}")
        tag = name.rpartition(":")[2].lower()
        self.root = self.root or tag
        self.tags[tag] += 1
        for attribute, value in attributes.items():
            if attribute.startswith("xmlns"):
                continue
            local = attribute.rpartition(":")[2].lower()
            self.attributes[f"{tag} {local}={_normal_value(value)}"] += 1
            if (
                local in ("href", "src") and not value.strip().startswith(("#", "data:image/"))
            ) or _EXTERNAL.search(value):
                self.external = True

    def end(self, name: str) -> None:
        self.depth -= 1
        self.texts.append(" ")

    def text(self, data: str) -> None:
        self.texts.append(data)
        if _EXTERNAL.search(data):
            self.external = True

    def refuse(self, *_: Any) -> None:
        raise _RefusedError("document types and entities are not accepted")

    def parts(self) -> dict[str, Counter[str]]:
        return {
            "tags": self.tags,
            "attributes": self.attributes,
            "text": Counter(tokens("".join(self.texts))),
        }


def _normal_value(value: str) -> str:
    return _NUMBER.sub(_normal_number, collapse(value).lower())[:500]


def _normal_number(match: re.Match[str]) -> str:
    return f"{match.group(1)}{float(match.group(2)):.10g}"


def _python(source: str) -> dict[str, Counter[str]]:
    tree = ast.parse(source)
    shapes: Counter[str] = Counter()
    names: Counter[str] = Counter()
    stack: list[tuple[ast.AST, int]] = [(tree, 0)]
    while stack:
        node, depth = stack.pop()
        if depth > MAX_DEPTH:
            raise _RefusedError(f"nested deeper than {MAX_DEPTH}")
        shapes[_shape(node, _PYTHON_HEIGHT)] += 1
        for value in _own_words(node):
            names[value] += 1
        stack.extend((child, depth + 1) for child in ast.iter_child_nodes(node))
    if len(shapes) < 2:
        raise _RefusedError("no Python statement")
    return {"shapes": shapes, "names": names}


def _shape(node: ast.AST, height: int) -> str:
    """The node's type and those of its descendants down to `height`, without names and values."""
    name = type(node).__name__
    children = [] if height == 1 else [_shape(child, height - 1) for child in ast.iter_child_nodes(node)][:64]
    return f"{name}({' '.join(children)})" if children else name


def _own_words(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Constant):
        return [f"={str(node.value)[:200]}"]
    fields = ("id", "attr", "name", "arg", "module")
    return [value for field in fields if isinstance(value := getattr(node, field, None), str)]


_DOCUMENTS: dict[str, Callable[[str], _Elements]] = {"svg": _svg, "html": _html}
_READERS: dict[str, Callable[[str], dict[str, Counter[str]]]] = {
    "svg": lambda source: _svg(source).parts(),
    "html": lambda source: _html(source).parts(),
    "python": _python,
}


def _drawn(language: str, answer: str, key: str) -> dict[str, Any]:
    """`{"likeness": share}` of two documents, or which of them cannot be drawn and why."""
    from vrldata.tasks import drawing

    for name, source in (("key", key), ("answer", answer)):
        try:
            document = _DOCUMENTS[language](source)
        except _UNREADABLE as error:
            return {"fault": name, "reason": collapse(str(error))[:200]}
        if language == "svg" and document.external:
            return {"fault": name, "reason": "it refers to files outside the document"}
    try:
        return {"likeness": drawing.likeness(language, answer, key)}
    except ImportError as error:
        return {"missing": str(error.name)}
    except drawing.UndrawableError as error:
        return {"fault": error.document, "reason": collapse(str(error))[:200]}

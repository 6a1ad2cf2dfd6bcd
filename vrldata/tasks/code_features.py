"""What SVG, HTML and Python sources consist of, as multisets. Runs in a child process (`killable`).

Nothing is executed and no entity, document type or external file is resolved.
"""

from __future__ import annotations

import ast
import io
import re
from collections import Counter
from html.parser import HTMLParser
from typing import Any
from xml.parsers import expat

from vrldata.tasks.text import collapse, tokens

MAX_SOURCE_BYTES = 256 << 10
MAX_DEPTH = 256
RENDER_PIXELS = 224

_NUMBER = re.compile(r"(?<![\w.#])(-?)(\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})(?:px)?(?![\w.%])")
_EXTERNAL = re.compile(r"url\(\s*['\"]?(?!#)|@import", re.IGNORECASE)
_PYTHON_HEIGHT = 3


class _RefusedError(ValueError):
    pass


def missing_library() -> str | None:
    """None: parsing needs the standard library only."""
    return None


def handle(request: dict[str, Any]) -> dict[str, Any]:
    """`{"language", "source"}` -> the source's multisets as lists of [item, count], or `{"error": reason}`.

    `{"render": [answer, key]}` -> `{"similarity": share}` of two SVG documents, or an error.
    """
    if "render" in request:
        return _rendered(*request["render"])
    source = request["source"]
    if len(source.encode("utf-8", "replace")) > MAX_SOURCE_BYTES:
        return {"error": f"longer than {MAX_SOURCE_BYTES} bytes"}
    try:
        return {
            "parts": {
                name: list(part.items()) for name, part in _READERS[request["language"]](source).items()
            }
        }
    except (_RefusedError, expat.ExpatError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return {"error": collapse(str(error))[:200] or type(error).__name__}


def _svg(source: str) -> dict[str, Counter[str]]:
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
    return document.parts()


def _html(source: str) -> dict[str, Counter[str]]:
    document = _Elements()
    parser = _Html(document)
    parser.feed(source)
    parser.close()
    if not document.tags:
        raise _RefusedError("no HTML element")
    return document.parts()


class _Html(HTMLParser):
    def __init__(self, document: _Elements) -> None:
        super().__init__(convert_charrefs=True)
        self._document = document

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._document.depth = 0
        self._document.start(tag, {name: value or "" for name, value in attrs})

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


_READERS = {"svg": _svg, "html": _html, "python": _python}


def _rendered(answer: str, key: str) -> dict[str, Any]:
    """1 - MSE(answer, key) / MSE(blank, key), at least 0: a blank picture earns nothing."""
    try:
        import numpy as np
        import resvg_py
        from PIL import Image
    except ImportError as error:
        return {"missing": str(error.name)}
    pictures = []
    for source in (answer, key):
        document = _Elements()
        parser = expat.ParserCreate()
        parser.StartElementHandler, parser.CharacterDataHandler = document.start, document.text
        parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = document.refuse
        try:
            parser.Parse(source.encode("utf-8", "replace"), True)
            if document.external:
                return {"error": "refers to files outside the document"}
            encoded = resvg_py.svg_to_bytes(
                svg_string=source,
                background="#ffffff",
                skip_system_fonts=True,
                width=RENDER_PIXELS,
                height=RENDER_PIXELS,
            )
        except (expat.ExpatError, ValueError) as error:
            return {"error": collapse(str(error))[:200]}
        picture = Image.open(io.BytesIO(bytes(encoded))).convert("RGB").resize((RENDER_PIXELS, RENDER_PIXELS))
        pictures.append(np.asarray(picture, dtype=np.float64) / 255)
    blank = float(np.mean((1 - pictures[1]) ** 2))
    if blank < 1e-9:
        return {"similarity": float(np.mean((1 - pictures[0]) ** 2) < 1e-9)}
    return {"similarity": max(0.0, 1 - float(np.mean((pictures[0] - pictures[1]) ** 2)) / blank)}

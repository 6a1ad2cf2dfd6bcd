"""How alike two SVG or HTML documents look. Runs in a child process (`killable`), through `code_features`.

SVG is drawn by resvg, without text. HTML is drawn by PlutoBook (CSS with flexbox, floats, tables and inline
SVG; no grid, no gradients) with the fonts of the machine. There are no scripts, and nothing outside a
document is read: an SVG that refers to something is refused, a page is drawn without it.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from PIL.Image import Image

PICTURE_PIXELS = 224
"""Side of the pictures that are compared."""
PAGE_PIXELS = 896
"""Side of the square view of an HTML page, from its top left corner, in CSS pixels; drawn to scale."""

_PLAIN_VARIANCE = 1e-3
"""Mean squared deviation (of 255²) below which a picture counts as one plain colour."""


class UndrawableError(ValueError):
    """`document`, the `answer` or the `key`, cannot be drawn."""

    def __init__(self, document: str, reason: str) -> None:
        super().__init__(reason)
        self.document = document


def likeness(language: str, answer: str, key: str) -> float:
    """1 - MSE(answer, key) / variance(key), at least 0, over pixels and channels (R²).

    A picture of one colour earns nothing, whatever the colour: the best one has exactly the variance as its
    error. Where the key itself is plain, equal pictures have 1 and others 0.

    Raises:
        ImportError: the library that draws is not installed.
        UndrawableError: a document cannot be drawn.
    """
    from PIL import ImageChops, ImageStat

    wanted, drawn = _picture(language, key, "key"), _picture(language, answer, "answer")
    error = _mean(ImageStat.Stat(ImageChops.difference(drawn, wanted)).sum2)
    variance = _mean([value * PICTURE_PIXELS**2 for value in ImageStat.Stat(wanted).var])
    if variance < _PLAIN_VARIANCE:
        return float(error < _PLAIN_VARIANCE)
    return max(0.0, 1 - error / variance)


def _picture(language: str, source: str, document: str) -> Image:
    if document == "key":
        return _key_picture(language, source)
    return _drawn(language, source, document)


@lru_cache(maxsize=32)
def _key_picture(language: str, source: str) -> Image:
    """A group of responses shares its key."""
    return _drawn(language, source, "key")


def _drawn(language: str, source: str, document: str) -> Image:
    try:
        return _DRAW[language](source)
    except ValueError as error:
        raise UndrawableError(document, str(error)) from error


def _mean(sums: list[float]) -> float:
    return sum(sums) / (len(sums) * PICTURE_PIXELS**2)


def _svg(source: str) -> Image:
    import resvg_py
    from PIL import Image

    encoded = resvg_py.svg_to_bytes(
        svg_string=source,
        background="#ffffff",
        skip_system_fonts=True,
        width=PICTURE_PIXELS,
        height=PICTURE_PIXELS,
    )
    picture = Image.open(io.BytesIO(bytes(encoded))).convert("RGB")
    return picture.resize((PICTURE_PIXELS, PICTURE_PIXELS), Image.Resampling.BOX)


def _html(source: str) -> Image:
    import plutoprint
    from PIL import Image

    side = PAGE_PIXELS * plutoprint.UNITS_PX
    book = plutoprint.Book(
        plutoprint.PageSize(side, side), plutoprint.PAGE_MARGINS_NONE, plutoprint.MEDIA_TYPE_SCREEN
    )
    book.custom_resource_fetcher = _refusing_fetcher()
    scale = PICTURE_PIXELS / PAGE_PIXELS
    with plutoprint.ImageCanvas(PICTURE_PIXELS, PICTURE_PIXELS, plutoprint.IMAGE_FORMAT_RGB24) as canvas:
        canvas.clear_surface(1, 1, 1, 1)
        canvas.scale(scale, scale)
        try:
            book.load_html(_drawable(source))
            book.render_document(canvas)
        except plutoprint.Error as error:
            raise ValueError(str(error)) from error
        order = "BGRX" if sys.byteorder == "little" else "XRGB"
        pixels, stride = bytes(canvas.get_data()), canvas.get_stride()
        return Image.frombytes("RGB", (PICTURE_PIXELS, PICTURE_PIXELS), pixels, "raw", order, stride, 1)


def _drawable(source: str) -> str:
    """`source` without what the renderer does not take: surrogates, NUL, html elements in the middle."""
    plain = source.encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd")
    first = _FIRST_HTML.match(plain)
    start = first.end() if first else 0
    return plain[:start] + _HTML_TAG.sub("", plain[start:])


_FIRST_HTML = re.compile(r"(?:\s|<![^>]*>)*<html\b", re.IGNORECASE)
_HTML_TAG = re.compile(r"<html\b[^>]*>?", re.IGNORECASE)


@lru_cache(maxsize=1)
def _refusing_fetcher() -> Any:
    import plutoprint

    class Refusing(plutoprint.ResourceFetcher):
        """Whatever a page asks for is not there."""

        def fetch_url(self, url: str) -> Any:
            raise ValueError("nothing outside the document is read")

    return Refusing()


_DRAW: dict[str, Callable[[str], Image]] = {"svg": _svg, "html": _html}

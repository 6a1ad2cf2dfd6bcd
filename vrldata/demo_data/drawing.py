"""Flat shapes and block letters on a small canvas, in numpy alone, so that every machine draws the same.

Positions and sizes are even numbers of pixels: video stores colour at half resolution, and even edges stay
sharp. Motion over time belongs to `motion`, files to `media`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Frame = NDArray[np.uint8]
"""RGB, (H, W, 3)."""

WIDTH, HEIGHT = 128, 96
BACKGROUND = (28, 28, 32)
TEXT_COLOUR = (240, 240, 240)
COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (220, 40, 40),
    "green": (40, 180, 60),
    "blue": (50, 80, 230),
    "yellow": (235, 210, 40),
}
SHAPES = ("square", "circle", "triangle")

# Three columns by five rows a letter, one digit of 0..7 a row: its bits are the row's pixels, left to right.
_GLYPHS = {
    **{"0": "75557", "1": "26227", "2": "71747", "3": "71717", "4": "55711", "5": "74717", "6": "74757"},
    **{"7": "71111", "8": "75757", "9": "75717", "A": "25755", "B": "65656", "C": "74447", "D": "65556"},
    **{"E": "74747", "F": "74744", "H": "55755", "I": "72227", "L": "44447", "O": "25552", "P": "75744"},
    **{"R": "65655", "S": "34216", "T": "72222", "U": "55557", "Y": "55222", "+": "02720", "-": "00700"},
    **{"/": "11244", " ": "00000"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A coloured shape inside a square of `size` pixels.

    Attributes:
        kind: one of `SHAPES`.
        colour: a name of `COLOURS`.
        size: pixels, even.
    """

    kind: str
    colour: str
    size: int

    @property
    def name(self) -> str:
        """As in a sentence: `red square`."""
        return f"{self.colour} {self.kind}"


def canvas() -> Frame:
    """An empty picture."""
    frame = np.empty((HEIGHT, WIDTH, 3), dtype=np.uint8)
    frame[:] = BACKGROUND
    return frame


def even(value: float) -> int:
    """The nearest even number."""
    return 2 * round(value / 2)


def draw_shape(frame: Frame, shape: Shape, left: float, top: float) -> None:
    """Draw a shape with its upper left corner at the even pixel nearest to (left, top)."""
    x, y = even(left), even(top)
    rows, columns = np.ogrid[:HEIGHT, :WIDTH]
    inside = (rows >= y) & (rows < y + shape.size) & (columns >= x) & (columns < x + shape.size)
    half = shape.size / 2
    if shape.kind == "circle":
        inside = inside & ((rows + 0.5 - y - half) ** 2 + (columns + 0.5 - x - half) ** 2 <= half**2)
    elif shape.kind == "triangle":
        inside = inside & (np.abs(columns + 0.5 - x - half) <= (rows + 1 - y) / 2)
    frame[inside] = COLOURS[shape.colour]


def pixel_box(shape: Shape, left: float, top: float) -> tuple[int, int, int, int]:
    """(x1, y1, x2, y2) of a drawn shape in pixels; x2 and y2 are the first pixel behind it."""
    x, y = even(left), even(top)
    return x, y, x + shape.size, y + shape.size


def relative_box(shape: Shape, left: float, top: float) -> list[int]:
    """The box of a drawn shape in thousandths of width and height."""
    x1, y1, x2, y2 = pixel_box(shape, left, top)
    return [*relative_point(x1, y1), *relative_point(x2, y2)]


def relative_point(x: float, y: float) -> list[int]:
    """A point in thousandths of width and height."""
    return [round(1000 * x / WIDTH), round(1000 * y / HEIGHT)]


def text_size(text: str, scale: int) -> tuple[int, int]:
    """Width and height in pixels of a drawn line."""
    return (4 * len(text) - 1) * scale, 5 * scale


def draw_text(
    frame: Frame,
    text: str,
    *,
    scale: int = 6,
    left: int | None = None,
    top: int | None = None,
    colour: Sequence[int] = TEXT_COLOUR,
) -> None:
    """Write one line of capitals and digits, centred where no position is given.

    Args:
        scale: pixels of one dot; a letter is 3 x 5 dots.
    """
    width, height = text_size(text, scale)
    x = even((WIDTH - width) / 2) if left is None else left
    y = even((HEIGHT - height) / 2) if top is None else top
    for letter in text:
        for row, digit in enumerate(_GLYPHS[letter]):
            for column in range(3):
                if int(digit) >> (2 - column) & 1:
                    dot_y, dot_x = y + row * scale, x + column * scale
                    frame[dot_y : dot_y + scale, dot_x : dot_x + scale] = colour
        x += 4 * scale

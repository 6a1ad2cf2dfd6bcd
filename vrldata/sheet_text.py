"""Text on pictures in any script: the fonts that are there, line breaking, and what no font can draw.

A character that no font has is drawn as its code point, such as `<7EA2>`: never as an empty box, never lost.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from PIL import ImageFont

FONT_VARIABLE = "VRL_FONT"
"""Environment variable with the path of a font to try first."""

_FOLDERS = (
    "/usr/share/fonts",
    "/usr/local/share/fonts",
    "~/.fonts",
    "~/.local/share/fonts",
    "/Library/Fonts",
)
_SYSTEM_FOLDERS = ("/System/Library/Fonts", "C:/Windows/Fonts")
_WIDE_COVERAGE = (
    "notosanscjk",
    "sourcehansans",
    "notosanssc",
    "wqy",
    "droidsansfallback",
    "pingfang",
    "hiragino",
    "msyh",
    "unifont",
    "arialunicode",
    "notosans-regular",
    "dejavusans.ttf",
)
"""Parts of the file names of fonts with many scripts, best first."""


class SheetFont:
    """Fonts of one size in pixels: the built-in one, then those of the system that have more scripts."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.line_height = round(size * 1.35)
        fonts: list[Any] = [ImageFont.load_default(size)]
        for path in _font_files():
            try:
                fonts.append(ImageFont.truetype(path, size))
            except OSError:
                # a file that FreeType cannot read helps nobody
                continue
        self._fonts = fonts
        self._missing = [bytes(font.getmask("\U0010fffe")) for font in fonts]
        self._places: dict[str, int | None] = {}

    def runs(self, text: str) -> list[tuple[str, Any]]:
        """`text` in pieces, each with a font that has its characters."""
        pieces: list[tuple[str, Any]] = []
        for char in text:
            place = self._place(char)
            drawn = char if place is not None else f"<{ord(char):04X}>"
            font = self._fonts[place or 0]
            if pieces and pieces[-1][1] is font:
                pieces[-1] = (pieces[-1][0] + drawn, font)
            else:
                pieces.append((drawn, font))
        return pieces

    def width(self, text: str) -> float:
        """Pixels that `text` takes."""
        return sum(font.getlength(piece) for piece, font in self.runs(text))

    def draw(self, canvas: Any, place: tuple[float, float], text: str, colour: str) -> None:
        """Draw one line on an `ImageDraw` with its top left corner at `place`."""
        x, y = place
        baseline = y + self.size
        for piece, font in self.runs(text):
            canvas.text((x, baseline), piece, font=font, fill=colour, anchor="ls")
            x += font.getlength(piece)

    def lines(self, text: str, width: float, *, most: int | None = None) -> list[str]:
        """`text` broken into lines of at most `width` pixels; beyond `most` lines cut with an ellipsis."""
        found: list[str] = []
        for paragraph in printable(text).splitlines() or [""]:
            found += self._broken(paragraph, width)
            if most is not None and len(found) > most:
                break
        if most is not None and len(found) > most:
            last = found[most - 1]
            while last and self.width(last + "…") > width:
                last = last[:-1]
            found = [*found[: most - 1], last + "…"]
        return found

    def _broken(self, paragraph: str, width: float) -> list[str]:
        lines, line, line_width, space = [], "", 0.0, -1
        for char in paragraph:
            char_width = self._char_width(char)
            if line and line_width + char_width > width:
                # scripts without spaces break anywhere, others after the last space
                cut = space + 1 if space >= 0 and ord(char) < 0x2E80 else len(line)
                lines.append(line[:cut].rstrip())
                line = line[cut:]
                line_width = sum(self._char_width(one) for one in line)
                space = line.rfind(" ")
            if char == " ":
                space = len(line)
            line += char
            line_width += char_width
        return [*lines, line.rstrip()]

    @lru_cache(maxsize=8192)  # noqa: B019 - fonts live as long as the process
    def _char_width(self, char: str) -> float:
        return self.width(char)

    def _place(self, char: str) -> int | None:
        """Index of the first font that has `char`; None where none has."""
        if char not in self._places:
            self._places[char] = next(
                (
                    index
                    for index, font in enumerate(self._fonts)
                    if char.isspace() or bytes(font.getmask(char)) != self._missing[index]
                ),
                None,
            )
        return self._places[char]


def printable(text: str) -> str:
    """`text` without characters that steer a device: tabs become spaces, others vanish, line breaks stay."""
    return "".join(
        char if char.isprintable() or char == "\n" else " " if char in "\t\r\u2028\u2029" else ""
        for char in text
    )


@lru_cache(maxsize=16)
def sheet_font(size: int) -> SheetFont:
    """The fonts of a size, loaded once."""
    return SheetFont(size)


@lru_cache(maxsize=1)
def _font_files() -> Sequence[str]:
    """Font files with many scripts, best first, at most two beside the one of the environment."""
    chosen = [os.environ[FONT_VARIABLE]] if os.environ.get(FONT_VARIABLE) else []
    files = [
        path
        for folder in (*_FOLDERS, *_SYSTEM_FOLDERS)
        for path in Path(folder).expanduser().rglob("*.[to]t[fc]")
    ]
    ranked = []
    for path in files:
        name = path.name.lower().replace("_", "")
        rank = next((index for index, part in enumerate(_WIDE_COVERAGE) if part in name), None)
        if rank is not None:
            ranked.append((rank, "bold" in name or "italic" in name, len(name), str(path)))
    return chosen + [path for *_, path in sorted(ranked)[:2]]

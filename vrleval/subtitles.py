"""Subtitles of the frames that are actually sent: SRT files and word-level JSON lines.

A line is kept if the time of any frame lies inside it. Lines stay in order of time and lose their markup.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vrldata.errors import BenchmarkError
from vrldata.types import Clip

_TIME = re.compile(r"(\d+):(\d\d):(\d\d)[.,](\d{1,3})")
_MARKUP = re.compile(r"<[^<>]{0,100}>|\{\\[^{}]{0,60}\}")
MAX_GAP_S = 1.0
"""Words of a word-level file further apart than this belong to different lines."""


@dataclass(frozen=True, slots=True)
class Line:
    """One subtitle: seconds from the start of the video, and its text."""

    start: float
    end: float
    text: str


def subtitle_block(path: Path, clip: Clip) -> str:
    """The subtitles of a clip's frames as a block of the prompt; empty when no frame has any."""
    lines = lines_at(read_subtitles(path), [float(time) for time in clip.metadata.timestamps])
    if not lines:
        return ""
    return "Subtitles of the video:\n" + "\n".join(line.text for line in lines)


def lines_at(lines: Sequence[Line], times: Sequence[float]) -> list[Line]:
    """Lines during which a frame was taken, by time.

    >>> [line.text for line in lines_at([Line(2, 4, "b"), Line(0, 1, "a")], [0.5, 3.0, 9.0])]
    ['a', 'b']
    """
    ordered = sorted(lines, key=lambda line: (line.start, line.end))
    return [line for line in ordered if any(line.start <= time <= line.end for time in times)]


def read_subtitles(path: Path) -> list[Line]:
    """Lines of an SRT file, or of a JSON-lines file of words (`text`, `start_time`, `end_time`).

    Raises:
        BenchmarkError: the file cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise BenchmarkError(f"{path}: subtitles cannot be read: {error}") from error
    return _words(path, text) if path.suffix in (".jsonl", ".json") else _srt(text)


def _srt(text: str) -> list[Line]:
    lines = []
    for block in re.split(r"\n\s*\n", text.replace("\r\n", "\n")):
        times = _TIME.findall(block)
        rows = block.split("\n")
        place = next((index for index, row in enumerate(rows) if "-->" in row), None)
        if len(times) < 2 or place is None:
            continue
        spoken = " ".join(_MARKUP.sub("", row).strip() for row in rows[place + 1 :]).strip()
        if spoken:
            lines.append(Line(_seconds(times[0]), _seconds(times[1]), spoken))
    return lines


def _seconds(parts: tuple[str, str, str, str]) -> float:
    hours, minutes, seconds, fraction = parts
    return int(hours) * 3600 + int(minutes) * 60 + int(seconds) + int(fraction) / 10 ** len(fraction)


def _words(path: Path, text: str) -> list[Line]:
    lines: list[Line] = []
    for number, row in enumerate(text.splitlines(), start=1):
        if not row.strip():
            continue
        try:
            word = json.loads(row)
            start, end, spoken = float(word["start_time"]), float(word["end_time"]), str(word["text"]).strip()
        except (ValueError, KeyError, TypeError) as error:
            raise BenchmarkError(f"{path}:{number}: no word with text, start_time, end_time") from error
        if lines and start - lines[-1].end <= MAX_GAP_S and not lines[-1].text.endswith((".", "?", "!")):
            lines[-1] = Line(lines[-1].start, end, f"{lines[-1].text} {spoken}")
        else:
            lines.append(Line(start, end, spoken))
    return lines

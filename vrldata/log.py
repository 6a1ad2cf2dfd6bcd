"""Logging and progress: the only place that configures either.

On a terminal long work shows a bar with rate and ETA; elsewhere it writes a plain log line now and then.
Standard output stays free for results: logs and progress go to standard error.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

LOG_LINE_SECONDS = 10.0
"""Seconds between two plain progress lines where there is no terminal."""

ETA_SHARE = 0.05
"""Share of the items, and at least two, after which the time left is estimated."""
ETA_SECONDS = 10.0
"""Seconds of steady work after which it is estimated in any case."""


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time (seconds since the epoch), level, logger, message."""

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": round(record.created, 3),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def setup_logging(verbosity: int = 0, *, log_json: bool = False) -> None:
    """Configure the `vrldata`, `vrltrain` and `vrleval` loggers once for a command.

    Args:
        verbosity: -1 warnings only (`-q`), 0 information, 1 or more debug (`-v`).
        log_json: write JSON lines instead of text.
    """
    handler = logging.StreamHandler(sys.stderr)
    text = logging.Formatter("%(asctime)s %(levelname).1s %(message)s", datefmt="%H:%M:%S")
    handler.setFormatter(JsonFormatter() if log_json else text)
    level = logging.WARNING if verbosity < 0 else logging.DEBUG if verbosity > 0 else logging.INFO
    for name in ("vrldata", "vrltrain", "vrleval"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(level)
        logger.propagate = False


class Progress(Protocol):
    """What `progress` yields."""

    def advance(self, steps: int = 1, **notes: object) -> None:
        """Count finished items; `notes` are shown beside the bar, such as `failed=2`."""


class Pace:
    """How fast items are finished, and how long the rest will take.

    The first item is the start of the measurement and no part of it: it waits for what happens once, such as
    the start of an engine. All times are seconds on one clock.

    Args:
        total: items in all; None where that is not known.
        start: when the work began.
    """

    def __init__(self, total: int | None, start: float) -> None:
        self.total, self.done = total, 0
        self._start = start
        self._first_done = 0
        self._first_at = start

    def advance(self, steps: int, now: float) -> None:
        """Count items that are finished by now."""
        self.done += steps
        if not self._first_done:
            self._first_done, self._first_at = self.done, now

    def rate(self, now: float) -> float:
        """Items a second: since the first one while the work goes on, over all of it in the end."""
        seconds, steady = now - self._first_at, self.done - self._first_done
        if steady and seconds > 0 and self.done != self.total:
            return steady / seconds
        return self.done / max(now - self._start, 1e-9)

    def seconds_left(self, now: float) -> float | None:
        """An estimate; None before enough is done, when nothing is left, or without a total."""
        seconds, steady = now - self._first_at, self.done - self._first_done
        if not self.total or self.done >= self.total or not steady or seconds <= 0:
            return None
        if seconds < ETA_SECONDS and steady < max(2, ETA_SHARE * self.total):
            return None
        return (self.total - self.done) * seconds / steady


class _BarProgress:
    def __init__(self, bar: object, task: object, total: int | None) -> None:
        self._bar, self._task = bar, task
        self._pace = Pace(total, time.monotonic())
        self._notes: dict[str, object] = {}

    def advance(self, steps: int = 1, **notes: object) -> None:
        self._notes.update(notes)
        now = time.monotonic()
        self._pace.advance(steps, now)
        left = self._pace.seconds_left(now)
        shown = "" if left is None else f"ETA {left:.0f} s"
        text = "  ".join(f"{name} {value}" for name, value in self._notes.items())
        self._bar.update(self._task, advance=steps, left=shown, notes=text)  # type: ignore[attr-defined]


class _LineProgress:
    def __init__(self, label: str, total: int | None, unit: str, logger: logging.Logger) -> None:
        self._label, self._unit, self._logger = label, unit, logger
        self._written = 0
        self._last = time.monotonic()
        self._pace = Pace(total, self._last)
        self._notes: dict[str, object] = {}

    def advance(self, steps: int = 1, **notes: object) -> None:
        self._notes.update(notes)
        now = time.monotonic()
        self._pace.advance(steps, now)
        if now - self._last >= LOG_LINE_SECONDS:
            self._last = now
            self.write()

    def write(self) -> None:
        """One line, unless the last one said the same."""
        pace, now = self._pace, time.monotonic()
        if self._written == pace.done:
            return
        self._written = pace.done
        of_total = f"/{pace.total}" if pace.total is not None else ""
        left = pace.seconds_left(now)
        notes = "".join(f", {name} {value}" for name, value in self._notes.items())
        self._logger.info(
            "%s: %d%s %s, %.2f %s/s%s%s",
            self._label,
            pace.done,
            of_total,
            self._unit,
            pace.rate(now),
            self._unit,
            "" if left is None else f", ETA {left:.0f} s",
            notes,
        )


@contextmanager
def progress(label: str, total: int | None = None, unit: str = "items") -> Iterator[Progress]:
    """Show the progress of long work: a bar on a terminal, plain log lines elsewhere.

    >>> with progress("decode", total=2, unit="clips") as bar:
    ...     bar.advance(failed=0)
    """
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
        from rich.progress import Progress as RichProgress

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(unit),
            TextColumn("{task.fields[left]}"),
            TextColumn("{task.fields[notes]}"),
        )
        with RichProgress(*columns, console=Console(stderr=True)) as bar:
            yield _BarProgress(bar, bar.add_task(label, total=total, left="", notes=""), total)
        return
    lines = _LineProgress(label, total, unit, logging.getLogger("vrldata"))
    yield lines
    lines.write()

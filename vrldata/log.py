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


class _BarProgress:
    def __init__(self, bar: object, task: object) -> None:
        self._bar, self._task = bar, task
        self._notes: dict[str, object] = {}

    def advance(self, steps: int = 1, **notes: object) -> None:
        self._notes.update(notes)
        text = "  ".join(f"{name} {value}" for name, value in self._notes.items())
        self._bar.update(self._task, advance=steps, notes=text)  # type: ignore[attr-defined]


class _LineProgress:
    def __init__(self, label: str, total: int | None, unit: str, logger: logging.Logger) -> None:
        self._label, self._total, self._unit, self._logger = label, total, unit, logger
        self._done = self._written = 0
        self._start = self._last = time.monotonic()
        self._notes: dict[str, object] = {}

    def advance(self, steps: int = 1, **notes: object) -> None:
        self._done += steps
        self._notes.update(notes)
        now = time.monotonic()
        if now - self._last >= LOG_LINE_SECONDS:
            self._last = now
            self.write()

    def write(self) -> None:
        """One line, unless the last one said the same."""
        if self._written == self._done:
            return
        self._written = self._done
        elapsed = max(time.monotonic() - self._start, 1e-9)
        rate = self._done / elapsed
        of_total = f"/{self._total}" if self._total is not None else ""
        left = f", ETA {(self._total - self._done) / rate:.0f} s" if self._total and rate > 0 else ""
        notes = "".join(f", {name} {value}" for name, value in self._notes.items())
        self._logger.info(
            "%s: %d%s %s, %.2f %s/s%s%s",
            self._label,
            self._done,
            of_total,
            self._unit,
            rate,
            self._unit,
            left,
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
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(unit),
            TimeRemainingColumn(),
            TextColumn("{task.fields[notes]}"),
        )
        with RichProgress(*columns, console=Console(stderr=True)) as bar:
            yield _BarProgress(bar, bar.add_task(label, total=total, notes=""))
        return
    lines = _LineProgress(label, total, unit, logging.getLogger("vrldata"))
    yield lines
    lines.write()

"""The file that an evaluation writes as it goes: one line a question, appended and never rewritten.

A killed run is continued from it: finished questions are skipped, a torn last line is dropped. Lines carry
the digest of the configuration that they were made under; lines of another one stay and are not read, but
for the responses that `rescoring` takes from them.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from vrldata.errors import BenchmarkError, ConfigError
from vrleval.types import STATUSES, Prediction

logger = logging.getLogger(__name__)

FILE_NAME = "predictions.jsonl"
SYNC_SECONDS = 1.0
"""Longest time that a finished question may be lost to a power cut."""

_FIELDS = {field.name for field in dataclasses.fields(Prediction)}


class Journal:
    """Appends predictions to `<folder>/predictions.jsonl`; one process at a time.

    Raises:
        ConfigError: another run writes to the same folder.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / FILE_NAME
        self._lock = _lock(folder)
        _drop_torn_line(self.path)
        self._file = open(self.path, "a", encoding="utf-8")  # noqa: SIM115 - closed by close()
        self._synced = time.monotonic()

    def append(self, prediction: Prediction) -> None:
        """Write one line; it survives the death of the process at once, of the machine within a second."""
        self._file.write(json.dumps(to_json(prediction), ensure_ascii=False) + "\n")
        self._file.flush()
        if time.monotonic() - self._synced >= SYNC_SECONDS:
            self.sync()

    def sync(self) -> None:
        """Have the system write everything to disk."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._synced = time.monotonic()

    def close(self) -> None:
        if not self._file.closed:
            self.sync()
            self._file.close()
            self._lock.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_journal(folder: Path, config: str | None = None) -> dict[str, Prediction]:
    """Predictions by key; of several for one key the last counts. `config` keeps that configuration only.

    Raises:
        BenchmarkError: the folder holds no predictions.
    """
    path = folder / FILE_NAME
    if not path.is_file():
        raise BenchmarkError(f"{folder}: no {FILE_NAME} here; give the --out folder of a `vrleval run`")
    found: dict[str, Prediction] = {}
    num_lines = num_broken = 0
    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if not line.strip():
                continue
            num_lines += 1
            prediction = from_json(line)
            if prediction is None:
                num_broken += 1
            elif config is None or prediction.config == config:
                found[prediction.key] = prediction
    if num_broken:
        logger.warning("%s: %d of %d lines are not readable; not used", path, num_broken, num_lines)
    return found


def to_json(prediction: Prediction) -> dict[str, Any]:
    """The line's object; fields at their defaults are left out, except status and score."""
    values: dict[str, Any] = {}
    for field in dataclasses.fields(prediction):
        value = getattr(prediction, field.name)
        if field.name in ("status", "score") or value not in (None, "", 0, 0.0, (), {}):
            values[field.name] = dict(value) if hasattr(value, "items") else value
    if prediction.strict is not None:
        values["strict"] = prediction.strict
    return values


def from_json(line: str) -> Prediction | None:
    """The prediction of a line; None when the line is torn or is no prediction."""
    try:
        values = json.loads(line)
    except ValueError:
        return None
    if not isinstance(values, dict) or values.get("status") not in STATUSES:
        return None
    known = {name: value for name, value in values.items() if name in _FIELDS}
    if "options" in known:
        known["options"] = tuple(known["options"])
    try:
        return Prediction(**known)
    except TypeError:
        return None


def write_atomically(path: Path, text: str) -> None:
    """Replace `path` by a file with this text, so that a reader sees the old or the new one, never half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def _lock(folder: Path) -> IO[str]:
    import fcntl

    file = open(folder / ".lock", "a", encoding="utf-8")  # noqa: SIM115 - held until close()
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise ConfigError(
            f"{folder}: another run writes there; wait for it, or give another --out"
        ) from error
    return file


def _drop_torn_line(path: Path) -> None:
    """Cut what follows the last line end: a process was killed while writing it."""
    if not path.is_file():
        return
    with open(path, "rb+") as file:
        file.seek(0, os.SEEK_END)
        end = size = file.tell()
        while end > 0:
            start = max(0, end - 65_536)
            file.seek(start)
            position = file.read(end - start).rfind(b"\n")
            if position >= 0:
                end = start + position + 1
                break
            end = start
        if end != size:
            logger.warning("%s: dropped a torn last line of %d bytes", path, size - end)
            file.truncate(end)


def unfinished(keys: Iterable[str], done: dict[str, Prediction], *, retry: frozenset[str]) -> set[str]:
    """Keys that still have to be asked: those without a line, and those whose status is in `retry`."""
    return {key for key in keys if key not in done or done[key].status in retry}

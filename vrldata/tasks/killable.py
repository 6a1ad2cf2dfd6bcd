"""A child process that answers requests and can be killed: a time limit that holds inside C code too.

One JSON line in, one JSON line out. `worker_main` is the child's program; the module it loads has
`handle(request) -> reply`. The child starts on first use and is replaced after a kill.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from vrldata.errors import MissingExtraError, TaskError
from vrldata.tasks.reading import ScorerTimeoutError

START_SECONDS = 60.0
"""Limit for the child's imports; not part of a request's limit."""
MEMORY_BYTES = 4 << 30

_MAX_REPLY_BYTES = 64 << 20
_ROOT = str(Path(__file__).resolve().parents[2])


class KillableWorker:
    """Client of one child process that serves `module`. `call` is safe to use from several threads."""

    def __init__(self, module: str) -> None:
        self.module = module
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._pending = b""
        self._lock = threading.Lock()

    def call(self, request: dict[str, Any], *, seconds: float) -> dict[str, Any]:
        """The child's reply to `request`.

        Raises:
            ScorerTimeoutError: no reply within `seconds` (the child is killed), or the child died twice.
            MissingExtraError: the child's libraries are not installed.
        """
        with self._lock:
            for attempt in range(2):
                fresh = self.ensure_started()
                self.send(request, seconds=seconds)
                reply = self.receive(seconds=seconds)
                if reply is not None:
                    return reply
                # A kept child may have been ended from outside since its last request: ask a fresh one once.
                if fresh or attempt:
                    break
            raise ScorerTimeoutError(f"the process that scores with {self.module} died on this answer")

    def send(self, request: dict[str, Any], *, seconds: float) -> None:
        """Hand a request to the started child; its replies come in the order of the requests."""
        if self._process is None or self._process.stdin is None:
            return
        message = json.dumps({"limit": seconds, "request": request}, default=_plain).encode() + b"\n"
        # A child that has died says so when its reply is asked for.
        with contextlib.suppress(BrokenPipeError):
            written = 0
            while written < len(message):
                written += self._process.stdin.write(message[written:]) or 0

    def receive(self, *, seconds: float) -> dict[str, Any] | None:
        """The next reply; None when the child has died.

        Raises:
            ScorerTimeoutError: none within `seconds`; the child is killed.
        """
        deadline = time.monotonic() + seconds
        try:
            line = self._read_line(deadline)
        except BaseException:
            # An interrupt from outside would leave a reply behind that answers the next request.
            self.close()
            raise
        if line is not None:
            reply: dict[str, Any] = json.loads(line)
            return reply
        self.close()
        if time.monotonic() >= deadline:
            raise ScorerTimeoutError(f"no result within {seconds:g} s")
        return None

    def close(self) -> None:
        """End the child; a later call starts a new one."""
        process, self._process = self._process, None
        if process is None or self._owner != os.getpid():
            return
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    def ensure_started(self) -> bool:
        """Start the child unless it runs; whether it had to be started."""
        if self._process is not None and self._owner == os.getpid() and self._process.poll() is None:
            return False
        self.close()
        self._pending = b""
        self._owner = os.getpid()
        # The child gets no variable of ours but what Python needs to find the package.
        environment = {"PYTHONPATH": _ROOT, "PATH": os.defpath, "LC_ALL": "C.UTF-8"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "vrldata.tasks.worker_main", self.module, str(MEMORY_BYTES)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            cwd="/",
            bufsize=0,
        )
        try:
            hello = self._read_line(time.monotonic() + START_SECONDS)
        except BaseException:
            # Interrupted before the child said hello: that line would answer the first request.
            self.close()
            raise
        if hello is None:
            self.close()
            raise ScorerTimeoutError(f"the process that scores with {self.module} does not start")
        if missing := json.loads(hello).get("missing"):
            self.close()
            raise MissingExtraError(missing)
        return True

    def _read_line(self, deadline: float) -> bytes | None:
        if self._process is None or self._process.stdout is None:
            return None
        descriptor = self._process.stdout.fileno()
        while b"\n" not in self._pending:
            left = deadline - time.monotonic()
            if left <= 0 or len(self._pending) > _MAX_REPLY_BYTES:
                return None
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            if not poll.poll(left * 1000):
                return None
            chunk = os.read(descriptor, 1 << 16)
            if not chunk:
                return None
            self._pending += chunk
        line, _, self._pending = self._pending.partition(b"\n")
        return line


def _plain(value: Any) -> Any:
    """Arrays and sets as lists, so that a row may come straight from a table."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    raise TaskError(f"a record's field holds a {type(value).__name__}; fields are JSON values")


_WORKERS: dict[str, KillableWorker] = {}


def shared_worker(module: str) -> KillableWorker:
    """This process's worker for `module`."""
    worker = _WORKERS.get(module)
    if worker is None:
        worker = _WORKERS.setdefault(module, KillableWorker(module))
    return worker


@atexit.register
def close_workers() -> None:
    """End every child of this process."""
    for worker in _WORKERS.values():
        worker.close()

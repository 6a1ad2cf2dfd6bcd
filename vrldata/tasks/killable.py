"""A child process that answers requests and can be killed: a time limit that holds inside C code too.

One JSON line in, one JSON line out. `worker_main` is the child's program; the module it loads has
`handle(request) -> reply`. Two processes serve a module: one imports it once and waits, and its fork
answers. A fork that overruns a limit is killed and the next one is there in milliseconds.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vrldata.errors import MissingExtraError, TaskError
from vrldata.tasks.reading import ScorerTimeoutError

START_SECONDS = 60.0
"""Limit for the child's imports; not part of a request's limit."""
MEMORY_BYTES = 4 << 30
MAX_REQUESTS = 2000
"""A fork is replaced after so many calls: what a library keeps of each request must not fill the machine."""

_MAX_REPLY_BYTES = 64 << 20
_ROOT = str(Path(__file__).resolve().parents[2])


class _Spent(threading.local):
    """Seconds that the calls of the score in progress have taken; None outside `shared_limit`."""

    seconds: float | None = None


_SPENT = _Spent()


@contextlib.contextmanager
def shared_limit() -> Iterator[None]:
    """Inside, the limits of this thread's calls hold for the sum of their times: one score, one limit."""
    before, _SPENT.seconds = _SPENT.seconds, 0.0
    try:
        yield
    finally:
        _SPENT.seconds = before


class KillableWorker:
    """Client of the processes that serve `module`. `call` is safe to use from several threads."""

    def __init__(self, module: str, *, argument: str | None = None) -> None:
        """
        Args:
            module: what the child serves.
            argument: handed to the module's `prepare` in place of asking it for missing libraries. The module
                then runs the user's own code, so that it has their environment, working folder and error
                output, and no limit of memory.
        """
        self.module = module
        self._argument = argument
        self._starter: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._owner = 0
        self._child = -1
        """Process file descriptor of the fork that answers; -1 while there is none."""
        self._requests, self._replies = -1, -1
        self._pending = b""
        self._served = 0
        self._lock = threading.Lock()

    def call(self, request: dict[str, Any], *, seconds: float) -> dict[str, Any]:
        """The child's reply to `request`.

        Raises:
            ScorerTimeoutError: no reply within `seconds` (the child is killed), or the child died twice.
            MissingExtraError: the child's libraries are not installed.
        """
        with self._lock:
            if self._served >= MAX_REQUESTS:
                self._end_child()
            left = seconds
            for attempt in range(2):
                fresh = self.ensure_started()
                left = seconds - (_SPENT.seconds or 0.0)
                if left <= 0:
                    break
                start = time.monotonic()
                try:
                    self.send(request, seconds=left)
                    reply = self.receive(seconds=left)
                except BaseException:
                    # An interrupt from outside would leave a reply behind that answers the next request.
                    self._end_child()
                    raise
                finally:
                    if _SPENT.seconds is not None:
                        _SPENT.seconds += time.monotonic() - start
                if reply is not None:
                    return reply
                # A kept child may have been ended from outside since its last request: ask a fresh one once.
                if fresh or attempt:
                    break
            if left <= 0:
                raise ScorerTimeoutError(f"no result within {seconds:g} s")
            raise ScorerTimeoutError(f"the process that scores with {self.module} died on this answer")

    def send(self, request: dict[str, Any], *, seconds: float) -> None:
        """Hand a request to the started child; its replies come in the order of the requests."""
        if self._requests < 0:
            return
        self._served += 1
        message = json.dumps({"limit": seconds, "request": request}, default=_plain).encode() + b"\n"
        # A child that has died says so when its reply is asked for.
        with contextlib.suppress(BrokenPipeError):
            written = 0
            while written < len(message):
                written += os.write(self._requests, message[written:])

    def receive(self, *, seconds: float) -> dict[str, Any] | None:
        """The next reply; None when the child has died.

        Raises:
            ScorerTimeoutError: none within `seconds`; the child is killed.
        """
        deadline = time.monotonic() + seconds
        line = self._read_line(deadline)
        if line is not None:
            reply: dict[str, Any] = json.loads(line)
            return reply
        self._end_child()
        if time.monotonic() >= deadline:
            raise ScorerTimeoutError(f"no result within {seconds:g} s")
        return None

    def close(self) -> None:
        """End both processes; a later call starts new ones."""
        self._end_child()
        starter, self._starter = self._starter, None
        control, self._control = self._control, None
        if control is not None:
            control.close()
        if starter is not None and self._owner == os.getpid():
            starter.kill()
            starter.wait()

    def _end_child(self) -> None:
        child, self._child = self._child, -1
        if child >= 0:
            if self._owner == os.getpid():
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(child, signal.SIGKILL)
            for descriptor in (child, self._requests, self._replies):
                os.close(descriptor)
        self._requests, self._replies = -1, -1
        self._pending, self._served = b"", 0

    def ensure_started(self) -> bool:
        """See that a child is there to answer; whether it had to be started."""
        alive = self._starter is not None and self._owner == os.getpid() and self._starter.poll() is None
        if alive and self._child >= 0 and not _readable(self._child, 0.0):
            return False
        self._end_child()
        try:
            if not alive:
                self._start()
            self._fork()
        except (OSError, ValueError) as error:
            self.close()
            raise ScorerTimeoutError(f"the process that scores with {self.module} does not start") from error
        except BaseException:
            # Interrupted halfway: what the processes say next would answer something else.
            self.close()
            raise
        return True

    def _start(self) -> None:
        """Start the process that imports the module, and wait until it has."""
        self.close()
        self._owner = os.getpid()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        number = theirs.fileno()
        with theirs:
            self._starter = self._popen(number)
        if missing := self._told(self._control).get("missing"):
            self.close()
            raise MissingExtraError(missing)

    def _popen(self, number: int) -> subprocess.Popen[bytes]:
        """The process of `worker_main`, with socket `number`."""
        program = [sys.executable, "-P", "-m", "vrldata.tasks.worker_main", self.module]
        if self._argument is not None:
            paths = os.pathsep.join([*(os.path.abspath(path) for path in sys.path if path), _ROOT])
            return subprocess.Popen(
                [*program, "0", str(number), self._argument],
                stdin=subprocess.DEVNULL,
                stdout=2,  # standard output is for the results of a command alone
                env={**os.environ, "PYTHONPATH": paths},
                pass_fds=[number],
            )
        # The child gets no variable of ours but what Python needs to find the package.
        environment = {"PYTHONPATH": _ROOT, "PATH": os.defpath, "LC_ALL": "C.UTF-8"}
        return subprocess.Popen(
            [*program, str(MEMORY_BYTES), str(number)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
            cwd="/",
            pass_fds=[number],
        )

    def _fork(self) -> None:
        """Have a fork made that reads requests from one pipe and writes replies to another."""
        control = self._control
        if control is None:
            raise ValueError("not started")
        their_requests, self._requests = os.pipe()
        self._replies, their_replies = os.pipe()
        try:
            socket.send_fds(control, [b"fork"], [their_requests, their_replies])
            self._child = os.pidfd_open(self._told(control)["child"])
        finally:
            os.close(their_requests)
            os.close(their_replies)
            if self._child < 0:
                os.close(self._requests)
                os.close(self._replies)
                self._requests, self._replies = -1, -1

    @staticmethod
    def _told(control: socket.socket) -> dict[str, Any]:
        """The next message of the starting process; empty or cut off ones are a ValueError."""
        control.settimeout(START_SECONDS)
        told: dict[str, Any] = json.loads(control.recv(1 << 16))
        return told

    def _read_line(self, deadline: float) -> bytes | None:
        if self._replies < 0:
            return None
        while b"\n" not in self._pending:
            left = deadline - time.monotonic()
            if left <= 0 or len(self._pending) > _MAX_REPLY_BYTES:
                return None
            if not _readable(self._replies, left):
                return None
            chunk = os.read(self._replies, 1 << 16)
            if not chunk:
                return None
            self._pending += chunk
        line, _, self._pending = self._pending.partition(b"\n")
        return line


def _readable(descriptor: int, seconds: float) -> bool:
    """Whether a descriptor has something to read within `seconds`; of a process, that it has ended."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


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

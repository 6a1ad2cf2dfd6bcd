"""One decoder process as its pool sees it: started, given a job, watched, and killed where it must be.

Decoders are forked by a `decode_nursery`, a child of this process that lives until its last decoder ends.
"""

from __future__ import annotations

import atexit
import itertools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from vrldata.worker_channel import Channel, ChannelClosed

ALLOCATOR = "glibc.malloc.mmap_threshold=33554432:glibc.malloc.trim_threshold=67108864"
"""Has the C library keep freed pictures of up to 32 MB for the next one, 64 MB of them between videos."""


class DecodeProcess:
    """A process that runs, or is about to run, `decode_worker.serve`.

    Attributes:
        channel: its end of the socket pair.
        ready: it has imported its libraries and waits for jobs.
        idle_bytes: physical memory that it held when it became ready.
        started_at: monotonic seconds.
        with_torch: torch is among its libraries.
    """

    def __init__(self, *, with_torch: bool = False) -> None:
        ours, theirs = socket.socketpair()
        self._nursery = _nursery_for_one_more(with_torch)
        with theirs:
            self._number = self._nursery.fork(theirs.fileno())
        self.channel = Channel(ours)
        self.with_torch = with_torch
        self.ready = False
        self.idle_bytes = 0
        self.started_at = time.monotonic()
        self._process_id: int | None = None
        self._errors: BinaryIO | None = None

    @property
    def process_id(self) -> int | None:
        """Of the worker; waits until it is there. None where it could not be started."""
        if self._process_id is None:
            self._process_id = self._nursery.process_id(self._number)
        return self._process_id

    @property
    def dead_nursery(self) -> object | None:
        """What it was to be forked by, where that is gone: one such death is the end of several starts."""
        return None if self._nursery.runs else self._nursery

    def send(self, message: dict[str, Any]) -> None:
        """See `Channel.send`."""
        self.channel.send(message)

    def became_ready(self, message: dict[str, Any], errors: int | None) -> None:
        """Take its first message: `errors` is a descriptor of what its libraries print."""
        self.ready, self.idle_bytes = True, message["resident_bytes"]
        if errors is not None:
            self._errors = open(errors, "rb")  # noqa: SIM115 - closed by `end`

    def end(self) -> str:
        """Kill it where it still runs, reap it, and say how it ended."""
        code = self._nursery.end(self._number)
        last = _last_line(self._errors or self._nursery.errors)
        self.channel.close()
        if self._errors is not None:
            self._errors.close()
        _leave(self._nursery)
        if code is None:
            return f"the decoder process was stopped{f' ({last})' if last else ''}"
        if code < 0:
            name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
            return f"the decoder process died by {name}{f' ({last})' if last else ''}"
        return f"the decoder process ended with code {code}{f': {last}' if last else ''}"


class _Nursery:
    """A running `decode_nursery`. Its methods may be called from any thread.

    Attributes:
        with_torch: torch is among its libraries.
        decoders: that have been asked for and not ended.
        errors: what it printed.
    """

    def __init__(self, *, with_torch: bool) -> None:
        ours, theirs = socket.socketpair()
        # one thread a library: the pool decides how many processes and decoder threads there are
        environment = {
            **os.environ,
            **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
            "GLIBC_TUNABLES": ":".join(filter(None, [ALLOCATOR, os.environ.get("GLIBC_TUNABLES")])),
            "PYTHONPATH": os.pathsep.join(_import_path()),
        }
        options = json.dumps({"with_torch": with_torch})
        self.with_torch = with_torch
        self.decoders = 0
        self.errors: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "vrldata.decode_nursery", str(theirs.fileno()), options],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self.errors,
                env=environment,
                # an interrupt from the keyboard is the parent's to handle; decoders end with their socket
                start_new_session=True,
            )
        self._channel = Channel(ours)
        self._up = False
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    @property
    def runs(self) -> bool:
        """It can be asked for decoders."""
        return self._process.poll() is None

    def fork(self, descriptor: int) -> int:
        """Ask for a decoder that serves the socket `descriptor`; its number. Does not wait for it.

        A decoder that never comes to be shows as the end of its socket.
        """
        with self._lock, suppress(ChannelClosed):
            number = next(self._numbers)
            self._channel.send({"kind": "fork", "number": number, "descriptor": True}, descriptor)
        return number

    def process_id(self, number: int) -> int | None:
        """Of a decoder; waits until it has been forked."""
        with self._lock, suppress(ChannelClosed):
            self._wait_until_up()
            found: int | None = self._asked({"kind": "process_id", "number": number})["process_id"]
            return found
        return None

    def end(self, number: int) -> int | None:
        """Kill a decoder where it still runs and reap it.

        Returns:
            its exit code, negative for a signal; None where there is none; the nursery's where that is gone.
        """
        with self._lock, suppress(ChannelClosed):
            if not self._up and not self._has_spoken():
                # still importing: there is nothing to kill yet, and nobody waits for it
                self._channel.send({"kind": "drop", "number": number})
                return None
            self._wait_until_up()
            code: int | None = self._asked({"kind": "end", "number": number})["code"]
            return code
        return self._process.wait()

    def close(self) -> None:
        """End it; what it has forked ends with its own socket."""
        self._process.kill()
        self._process.wait()
        self._channel.close()
        self.errors.close()

    def _has_spoken(self) -> bool:
        """It is up, or gone: there is something to read."""
        poll = select.poll()
        poll.register(self._channel.endpoint, select.POLLIN)
        return bool(poll.poll(0))

    def _wait_until_up(self) -> None:
        if not self._up:
            self._channel.receive()
            self._up = True

    def _asked(self, message: dict[str, Any]) -> dict[str, Any]:
        self._channel.send(message)
        return self._channel.receive()[0]


_nurseries: dict[tuple[int, bool], _Nursery] = {}
"""By process, which a fork of the caller changes, and whether torch is among the libraries."""

_nurseries_lock = threading.Lock()


def start_nursery() -> None:
    """Have the libraries of decoders imported before it is known how many are wanted, if any."""
    with _nurseries_lock:
        _nurseries[os.getpid(), False] = _Nursery(with_torch=False)
    atexit.register(_end_unused)


def _end_unused() -> None:
    """End the nurseries that no decoder was asked of; any other has ended with its last one."""
    for (process_id, _), nursery in _nurseries.items():
        if process_id == os.getpid() and not nursery.decoders:
            nursery.close()


def _nursery_for_one_more(with_torch: bool) -> _Nursery:
    key = (os.getpid(), with_torch)
    with _nurseries_lock:
        nursery = _nurseries.get(key)
        if nursery is None or not nursery.runs:
            nursery = _nurseries[key] = _Nursery(with_torch=with_torch)
        nursery.decoders += 1
        return nursery


def _leave(nursery: _Nursery) -> None:
    """One of its decoders has ended; with the last one goes the nursery."""
    with _nurseries_lock:
        nursery.decoders -= 1
        if nursery.decoders:
            return
        key = (os.getpid(), nursery.with_torch)
        if _nurseries.get(key) is nursery:
            del _nurseries[key]
    nursery.close()


def _last_line(file: BinaryIO) -> str:
    file.seek(0, os.SEEK_END)
    file.seek(max(0, file.tell() - 4096))
    lines = file.read().decode(errors="replace").split("\n")
    return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "")


@contextmanager
def started_early(count: int) -> Iterator[list[DecodeProcess]]:
    """Decoder processes that import their libraries while the caller finds out what there is to do.

    A pool that takes them over removes them from the list; those that stay in it are ended.
    """
    processes = [DecodeProcess() for _ in range(count)]
    try:
        yield processes
    finally:
        for process in processes:
            process.end()


def resident_bytes(process_id: int) -> int | None:
    """Physical memory that a process holds now; None where the system does not say."""
    try:
        pages = int(Path(f"/proc/{process_id}/statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def _import_path() -> list[str]:
    """Where this process imports from, for a worker that finds the same packages."""
    return [os.path.abspath(entry) for entry in sys.path if entry == "" or os.path.exists(entry)]

"""One worker process as its pool sees it: started, given a job, watched, and killed where it must be."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vrldata.worker_channel import Channel


class DecodeProcess:
    """A running `decode_worker`.

    Attributes:
        channel: its end of the socket pair.
        ready: it has imported its libraries and waits for jobs.
        idle_bytes: physical memory that it held when it became ready.
        started_at: monotonic seconds.
        with_torch: torch is among its libraries.
    """

    def __init__(self, *, with_torch: bool = False) -> None:
        ours, theirs = socket.socketpair()
        options = json.dumps({"with_torch": with_torch})
        # one thread a library: the pool decides how many processes and decoder threads there are
        environment = {
            **os.environ,
            **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
            "PYTHONPATH": os.pathsep.join(_import_path()),
        }
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process, closed by `end`
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "vrldata.decode_worker", str(theirs.fileno()), options],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                env=environment,
                # an interrupt from the keyboard is the parent's to handle; the worker ends with its socket
                start_new_session=True,
            )
        self.channel = Channel(ours)
        self.with_torch = with_torch
        self.ready = False
        self.idle_bytes = 0
        self.started_at = time.monotonic()

    @property
    def process_id(self) -> int:
        """Of the worker."""
        return self._process.pid

    def send(self, message: dict[str, Any]) -> None:
        """See `Channel.send`."""
        self.channel.send(message)

    def end(self) -> str:
        """Kill it where it still runs, reap it, and say how it ended."""
        if self._process.poll() is None:
            self._process.kill()
        code = self._process.wait()
        self.channel.close()
        last = self._last_line()
        self._errors.close()
        if code < 0:
            name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
            return f"the decoder process died by {name}{f' ({last})' if last else ''}"
        return f"the decoder process ended with code {code}{f': {last}' if last else ''}"

    def _last_line(self) -> str:
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, self._errors.tell() - 4096))
        lines = self._errors.read().decode(errors="replace").split("\n")
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

"""Decoding in processes that can be killed: a bad file costs its own deadline and memory, never the build.

Workers are processes of their own (no fork of the caller, no `__main__` of the caller, no pickle). Frames
come back as a read-only map of memory that the worker filled. What a worker does is in `decode_worker`;
what a clip is, in `decoding`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import math
import os
import queue
import selectors
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from typing import Any

from vrldata.decode_jobs import DecodeJob, DecodeResult, result_of
from vrldata.decode_process import DecodeProcess, resident_bytes
from vrldata.errors import ConfigError, DecodeError, missing_extra
from vrldata.processors import MAX_THREADS, available_cpus
from vrldata.worker_channel import ChannelClosed

START_DEADLINE_S = 180.0
"""Seconds in which a worker must have imported its libraries."""

JOBS_AHEAD = 4
"""Jobs per worker that are taken ahead of the results handed out: workers go on while those are used."""

_WATCH_INTERVAL_S = 0.1
_MAX_FAILED_STARTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeLimits:
    """What decoding may take.

    Attributes:
        workers: processes at most; never more than there are jobs.
        timeout_s: seconds for one file.
        memory_limit_bytes: physical memory of one worker beyond what its libraries take; None for no limit.
        bytes_in_flight: frames that are being decoded or wait to be handed out; a single clip may exceed it.
        threads: decoder threads of one worker; by default the CPUs are shared out.

    Raises:
        ConfigError: a value is out of range.
    """

    workers: int
    timeout_s: float = 120.0
    memory_limit_bytes: int | None = None
    bytes_in_flight: int = 2 << 30
    threads: int | None = None

    def __post_init__(self) -> None:
        for name in ("workers", "timeout_s", "bytes_in_flight"):
            value = getattr(self, name)
            if not value > 0 or math.isnan(value):
                raise ConfigError(f"{name}={value!r}: expected more than 0")

    @property
    def decoder_threads(self) -> int:
        """Of one worker."""
        return self.threads or min(MAX_THREADS, max(1, available_cpus() // self.workers))


def decode_many(jobs: Iterable[DecodeJob], **limits: Any) -> Iterator[DecodeResult]:
    """Decode `jobs` in worker processes; results come as they are done, one for every job.

    A file that takes longer than `timeout_s`, needs more than `memory_limit_bytes`, or kills its process
    gives a result with the reason; its worker is replaced and the others go on. Waiting for room is not
    counted as time.

    Args:
        jobs: taken from as results are handed out, a few ahead.
        limits: fields of `DecodeLimits`.

    Raises:
        ConfigError: a value is out of range.
        MissingExtraError: PyAV is not installed.
        DecodeError: no worker can be started.
    """
    checked = DecodeLimits(**limits)
    _check_decoder()
    return _results(checked, jobs)


def open_pool(
    limits: DecodeLimits,
    *,
    start: int = 0,
    with_torch: bool = False,
    started: list[DecodeProcess] | None = None,
) -> DecodePool:
    """A pool whose `decode` takes jobs; to be closed by its `close`.

    Args:
        start: workers to start at once: they import their libraries while the caller finds out what to do.
        with_torch: whether these import torch, for jobs that need it.
        started: processes that run already; those that the pool can use are taken from the list.

    Raises:
        MissingExtraError: PyAV is not installed.
    """
    _check_decoder()
    pool = DecodePool(limits, early=start, with_torch=with_torch, started=started or [])
    pool.start()
    return pool


def _check_decoder() -> None:
    if importlib.util.find_spec("av") is None:
        raise missing_extra("PyAV", "build", "Decoding video")


def _results(limits: DecodeLimits, jobs: Iterable[DecodeJob]) -> Iterator[DecodeResult]:
    """The results of a pool of their own, opened when the first one is asked for."""
    with contextlib.closing(open_pool(limits)) as pool:
        yield from pool.decode(jobs)


@dataclass(slots=True)
class _Task:
    """A job in the hands of a worker."""

    job: DecodeJob
    started_at: float
    deadline: float
    granted_bytes: int = 0
    wanted_bytes: int | None = None
    asked_at: float = 0.0


class DecodePool(threading.Thread):
    """The thread that starts, feeds, watches and kills the workers; made by `open_pool`."""

    def __init__(
        self, limits: DecodeLimits, *, early: int, with_torch: bool, started: list[DecodeProcess]
    ) -> None:
        super().__init__(name="vrl-decode-pool", daemon=True)
        self._limits, self._early, self._with_torch = limits, early, with_torch
        self._jobs: deque[tuple[int, DecodeJob]] = deque()
        self._begun: deque[DecodeJob] = deque()
        self._results: queue.Queue[tuple[DecodeResult | DecodeError, int]] = queue.Queue()
        self._tasks: dict[DecodeProcess, _Task | None] = {}
        self._lock = threading.Lock()
        self._in_flight = 0
        self._failed_starts = 0
        self._dead_nursery: object | None = None
        self._closed = False
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        while started and not with_torch and len(self._tasks) < limits.workers:
            self._take_on(started.pop())

    # called by the consumer

    def begin(self, jobs: Iterable[DecodeJob]) -> None:
        """Take a few jobs before the caller is ready for results; `decode` has to be given the same first."""
        self._begun.extend(islice(jobs, JOBS_AHEAD * self._limits.workers))
        self._jobs.extend((job.source_bytes, job) for job in self._begun)
        self._wake()

    def decode(self, jobs: Iterable[DecodeJob]) -> Iterator[DecodeResult]:
        """See `decode_many`."""
        waiting = iter(jobs)
        unfinished, exhausted = 0, False
        while True:
            while not exhausted and unfinished < JOBS_AHEAD * self._limits.workers:
                job = next(waiting, None)
                if job is None:
                    exhausted = True
                    continue
                unfinished += 1
                if self._begun:
                    assert job == self._begun.popleft()
                else:
                    self._jobs.append((job.source_bytes, job))
                    self._wake()
            if not unfinished:
                return
            result = self._take()
            unfinished -= 1
            yield result

    def _take(self) -> DecodeResult:
        """The next result; its bytes are the caller's from here on."""
        result, size = self._results.get()
        if isinstance(result, DecodeError):
            raise result
        with self._lock:
            self._in_flight -= size
        self._wake()
        return result

    def close(self) -> None:
        """Kill every worker and end the thread."""
        self._closed = True
        self._wake()
        if self.is_alive():
            self.join()
        self._selector.close()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def _wake(self) -> None:
        # a full pipe holds wake-ups enough
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_write, b"\0")

    # the thread

    def run(self) -> None:
        """Serve until closed."""
        try:
            while not self._closed:
                self._dispatch()
                self._grant()
                for key, _ in self._selector.select(self._wait_s()):
                    if key.data is None:
                        os.read(self._wake_read, 4096)
                    else:
                        self._hear(key.data)
                self._check_limits()
        finally:
            for process in list(self._tasks):
                self._remove(process)
            if not self._closed:
                self._results.put(
                    (DecodeError("the decode pool ended by an error of its own; see the log"), 0)
                )

    def _dispatch(self) -> None:
        idle = [process for process, task in self._tasks.items() if task is None]
        for process in idle:
            if not process.ready or not self._jobs:
                continue
            # large files first: at the end no worker waits long for another
            largest = max(list(self._jobs), key=itemgetter(0))
            if largest[1].needs_torch and not process.with_torch:
                self._remove(process)
            else:
                self._jobs.remove(largest)
                self._assign(process, largest[1])
        starting = sum(not process.ready for process in self._tasks)
        wanted, self._early = max(len(self._jobs), self._early), 0
        while starting < wanted and len(self._tasks) < self._limits.workers:
            waiting = list(self._jobs)
            with_torch = any(job.needs_torch for _, job in waiting) if waiting else self._with_torch
            self._take_on(DecodeProcess(with_torch=with_torch))
            starting += 1

    def _take_on(self, process: DecodeProcess) -> None:
        self._tasks[process] = None
        self._selector.register(process.channel.endpoint, selectors.EVENT_READ, process)
        limits = {
            "threads": self._limits.decoder_threads,
            "memory_limit_bytes": self._limits.memory_limit_bytes,
        }
        # where nobody is there to read it, the selector tells
        with contextlib.suppress(ChannelClosed):
            process.send(limits)

    def _assign(self, process: DecodeProcess, job: DecodeJob) -> None:
        now = time.monotonic()
        self._tasks[process] = _Task(job=job, started_at=now, deadline=now + self._limits.timeout_s)
        message = {
            "path": os.fspath(job.path),
            "video_path": job.video_path,
            "spec": job.spec.to_json(),
            "media_kind": job.kind,
            "source": dataclasses.asdict(job.source) if job.source else None,
        }
        try:
            process.send(message)
        except ChannelClosed:
            self._lose(process)

    def _grant(self) -> None:
        """Let workers allocate their frames, the longest waiting first, as long as there is room."""
        waiting = [
            (task.asked_at, process, task)
            for process, task in self._tasks.items()
            if task and task.wanted_bytes
        ]
        for _, process, task in sorted(waiting, key=lambda entry: entry[0]):
            wanted = task.wanted_bytes or 0
            with self._lock:
                if self._in_flight and self._in_flight + wanted > self._limits.bytes_in_flight:
                    return
                self._in_flight += wanted
            task.granted_bytes, task.wanted_bytes = wanted, None
            task.deadline += time.monotonic() - task.asked_at
            try:
                process.send({"kind": "grant"})
            except ChannelClosed:
                self._lose(process)

    def _wait_s(self) -> float | None:
        now = time.monotonic()
        ends = [task.deadline for task in self._tasks.values() if task and not task.wanted_bytes]
        ends += [process.started_at + START_DEADLINE_S for process in self._tasks if not process.ready]
        wait = max(0.0, min(ends) - now) if ends else None
        busy = any(task is not None for task in self._tasks.values())
        if self._limits.memory_limit_bytes is not None and busy:
            wait = min(_WATCH_INTERVAL_S, wait if wait is not None else _WATCH_INTERVAL_S)
        return wait

    def _hear(self, process: DecodeProcess) -> None:
        if process not in self._tasks:
            return
        try:
            process.channel.read()
            while (found := process.channel.next_message()) is not None:
                self._answer(process, *found)
        except ChannelClosed:
            self._lose(process)

    def _answer(self, process: DecodeProcess, message: dict[str, Any], descriptor: int | None) -> None:
        task = self._tasks[process]
        if message["kind"] == "ready":
            process.became_ready(message, descriptor)
            self._failed_starts = 0
        elif message["kind"] == "need" and task is not None:
            self._give_back(task)
            task.wanted_bytes, task.asked_at = message["bytes"], time.monotonic()
        elif message["kind"] == "result" and task is not None:
            self._tasks[process] = None
            self._deliver(task, result_of(task.job, message, descriptor), keep=descriptor is not None)

    def _deliver(self, task: _Task, result: DecodeResult, *, keep: bool = False) -> None:
        if not keep:
            self._give_back(task)
        self._results.put((result, task.granted_bytes))

    def _give_back(self, task: _Task) -> None:
        with self._lock:
            self._in_flight -= task.granted_bytes
        task.granted_bytes = 0

    def _check_limits(self) -> None:
        now = time.monotonic()
        for process, task in list(self._tasks.items()):
            if not process.ready:
                if now > process.started_at + START_DEADLINE_S:
                    self._lose(process)
            elif task is not None:
                if not task.wanted_bytes and now > task.deadline:
                    self._lose(
                        process, f"no result after {self._limits.timeout_s:g} s; its process was stopped"
                    )
                elif self._over_memory(process):
                    limit = f"{(self._limits.memory_limit_bytes or 0) / (1 << 20):.0f} MiB"
                    self._lose(process, f"decoding needs more memory than {limit}; its process was stopped")

    def _over_memory(self, process: DecodeProcess) -> bool:
        if self._limits.memory_limit_bytes is None:
            return False
        held = resident_bytes(process.process_id) if process.process_id is not None else None
        return held is not None and held - process.idle_bytes > self._limits.memory_limit_bytes

    def _lose(self, process: DecodeProcess, reason: str | None = None) -> None:
        """A worker is gone or must go: its job fails, and the next job starts another."""
        task = self._tasks.get(process)
        nursery = process.dead_nursery
        ended = self._remove(process)
        if task is not None:
            text = f"{os.fspath(task.job.path)}: {reason or ended}"
            seconds = time.monotonic() - task.started_at
            self._deliver(task, DecodeResult(job=task.job, clip=None, reason=text, seconds=seconds))
        elif not process.ready and (nursery is None or nursery is not self._dead_nursery):
            self._dead_nursery = nursery
            self._failed_starts += 1
            if self._failed_starts >= _MAX_FAILED_STARTS:
                self._results.put((DecodeError(f"decode workers cannot be started: {ended}"), 0))
                self._jobs.clear()

    def _remove(self, process: DecodeProcess) -> str:
        self._tasks.pop(process, None)
        self._selector.unregister(process.channel.endpoint)
        return process.end()

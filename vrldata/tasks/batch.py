"""`score_batch`: many responses, in worker processes, with a time limit for each.

Workers are kept between batches. A worker that overruns a row's hard limit is killed and replaced, and
only that row pays. Results are in the order of the records.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from vrldata.errors import MissingExtraError, TaskError, VRLError, nearest
from vrldata.processors import available_cpus
from vrldata.tasks.code import execution_seconds
from vrldata.tasks.killable import START_SECONDS, KillableWorker
from vrldata.tasks.reading import Record, ScorerTimeoutError, ScoringSettings
from vrldata.tasks.registry import ORIGINAL_TYPE
from vrldata.tasks.sandbox import check_sandbox
from vrldata.tasks.scoring import TASKS, make_record, score_record, skipped, unscored
from vrldata.types import Score

logger = logging.getLogger(__name__)

SOFT_SECONDS = 5.0
HARD_SECONDS = 10.0
IN_PROCESS_ROWS = 256
"""Up to so many rows of types without a child process or quadratic work are scored where they are."""
MAX_WORKERS = 8

_LIGHT = frozenset(
    {
        "multiple_choice",
        "numerical",
        "regression",
        "boolean",
        "temporal_grounding",
        "spatial_grounding",
        "preference",
    }
)
_LIGHT_CHARS = 20_000
_IN_FLIGHT = 4
"""Rows that a worker holds at once: it never waits for us, and its replies fit into the pipe."""


def score_batch(
    records: Sequence[Mapping[str, Any]],
    *,
    protocol: str = "train",
    settings: ScoringSettings | None = None,
    workers: int | None = None,
    soft_seconds: float = SOFT_SECONDS,
    hard_seconds: float = HARD_SECONDS,
    total_seconds: float | None = None,
) -> list[Score]:
    """The score of each record, in order; a row's fault or death changes no other row.

    Args:
        records: mappings with `problem_type`, `response`, `ground_truth` (or `answer`), and further fields
            of `Record`; fields that are no part of a record go to its `extra`.
        protocol: as in `score`.
        settings: choices of the run, for all rows.
        workers: processes; by default min(8, CPUs of this process).
        soft_seconds: from here on a row is interrupted, with status `timeout`. A row whose unit tests are
            run has their time on top.
        hard_seconds: from here on its process is killed and replaced.
        total_seconds: limit for the whole batch; rows that it cuts off have status `timeout`.

    Raises:
        TaskError: an unknown type, protocol or setting; found before anything is scored.
    """
    _check_protocol(protocol)
    made = [record_from_mapping(record, settings) for record in records]
    _log_unknown(made)
    rows = [record for record in made if record.problem_type in TASKS]
    scores = iter(_score_rows(rows, protocol, workers, (soft_seconds, hard_seconds), total_seconds))
    return [next(scores) if record.problem_type in TASKS else skipped(record) for record in made]


def _log_unknown(records: Sequence[Record]) -> None:
    """Say how many rows of which unknown type are scored as `open_ended` or not at all."""
    renamed = Counter(
        str(record.extra[ORIGINAL_TYPE])
        for record in records
        # a sample that was renamed at its build was told about there
        if record.settings.on_unknown_type == "open_ended" and ORIGINAL_TYPE in record.extra
    )
    left_out = Counter(record.problem_type for record in records if record.problem_type not in TASKS)
    for counts, what in ((renamed, "scored as open_ended"), (left_out, "not scored (skip)")):
        if counts:
            listed = ", ".join(f"{name!r} {count}" for name, count in counts.most_common())
            logger.warning("rows of unknown problem_type %s: %s", what, listed)


def _score_rows(
    made: Sequence[Record],
    protocol: str,
    workers: int | None,
    limits: tuple[float, float],
    total_seconds: float | None,
) -> list[Score]:
    soft_seconds, hard_seconds = limits
    if len(made) <= IN_PROCESS_ROWS and all(_is_light(record) for record in made):
        return [score_record(record, protocol) for record in made]
    if any(execution_seconds(record) for record in made):
        check_sandbox()  # a machine without one is said at once, not by a row that is lost
    batch = _Batch(
        records=made,
        protocol=protocol,
        soft_seconds=soft_seconds,
        hard_seconds=max(hard_seconds, soft_seconds),
        deadline=time.monotonic() + total_seconds if total_seconds is not None else float("inf"),
    )
    return batch.run(workers or min(MAX_WORKERS, available_cpus()))


def record_from_mapping(record: Mapping[str, Any], settings: ScoringSettings | None = None) -> Record:
    """A record from a row of data: `answer` may stand for `ground_truth`, unknown fields go to `extra`.

    Raises:
        TaskError: a field that every record needs is missing, or the type is unknown.
    """
    known: dict[str, Any] = {}
    extra = dict(record.get("extra") or {})
    for name, value in record.items():
        if name in Record.__dataclass_fields__ and name not in ("extra", "settings", "tolerant"):
            known[name] = value
        elif name not in ("answer", "extra"):
            extra[name] = value
    for name in ("problem_type", "response"):
        if name not in known:
            raise TaskError(f"record without {name!r}; it has {', '.join(map(str, record)) or 'no field'}")
    answer = known.pop("ground_truth", record.get("answer"))
    return make_record(
        known.pop("problem_type"),
        known.pop("response"),
        answer,
        options=known.pop("options", None),
        settings=settings,
        extra=extra,
        **known,
    )


def _check_protocol(protocol: str) -> None:
    from vrldata.tasks.protocols import PROTOCOLS

    if protocol not in PROTOCOLS:
        hint = nearest(protocol, PROTOCOLS)
        raise TaskError(f"unknown protocol {protocol!r}.{hint} Known: {', '.join(PROTOCOLS)}.")


def _is_light(record: Record) -> bool:
    key = record.ground_truth
    return (
        record.problem_type in _LIGHT
        and len(record.response) <= _LIGHT_CHARS
        and (not isinstance(key, str) or len(key) <= _LIGHT_CHARS)
    )


@dataclass(slots=True, kw_only=True)
class _Batch:
    """The rows of one call, shared by the threads that each drive one worker process."""

    records: Sequence[Record]
    protocol: str
    soft_seconds: float
    hard_seconds: float
    deadline: float

    def run(self, count: int) -> list[Score]:
        late = unscored("timeout", "the time limit of the whole batch ended before this row was scored")
        scores = [late] * len(self.records)
        queue = deque(range(len(self.records)))
        failures: list[BaseException] = []
        threads = [
            threading.Thread(
                target=self._drive, args=(queue, scores, failures), name="vrl-score-batch", daemon=True
            )
            for _ in range(min(count, len(self.records)))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        return scores

    def _drive(self, queue: deque[int], scores: list[Score], failures: list[BaseException]) -> None:
        worker = _borrow()
        try:
            while (queue and not failures) and time.monotonic() < self.deadline:
                self._prepare(worker)
                self._pump(worker, queue, scores)
        except (VRLError, OSError) as error:
            failures.append(error)
            worker.close()
        finally:
            _give_back(worker)

    def _prepare(self, worker: KillableWorker) -> None:
        """Start the worker and the child processes that these rows need, outside any row's limit."""
        kinds = {record.problem_type for record in self.records}
        modules = sorted({TASKS[kind].child_module for kind in kinds} - {""})
        for _ in range(2):  # a kept worker may have been ended from outside since its last batch
            worker.ensure_started()
            worker.send({"start": modules}, seconds=START_SECONDS)
            reply = worker.receive(seconds=START_SECONDS)
            if reply is not None:
                break
        if reply and "missing" in reply:
            raise MissingExtraError(reply["missing"])

    def _pump(self, worker: KillableWorker, queue: deque[int], scores: list[Score]) -> None:
        """Score rows until the queue is empty, or until the worker is lost with the row that it was at."""
        held: deque[int] = deque()
        restarting = False
        while True:
            while len(held) < _IN_FLIGHT and time.monotonic() < self.deadline:
                try:
                    row = queue.popleft()
                except IndexError:
                    break
                held.append(row)
                worker.send(self._request(self.records[row]), seconds=self.hard_seconds)
            if not held:
                return
            left = self.deadline - time.monotonic()
            uses_child = bool(TASKS[self.records[held[0]].problem_type].child_module)
            # A row that was cut off took its child process along: the new start is not this row's fault.
            limit = self.hard_seconds + (START_SECONDS if restarting and uses_child else 0.0)
            limit += execution_seconds(self.records[held[0]])
            try:
                reply = worker.receive(seconds=max(0.0, min(limit, left)))
                reason = "the scoring process died on this row"
            except ScorerTimeoutError as error:
                reply, reason = None, str(error)
            row = held.popleft()
            if reply is None:
                scores[row] = unscored("timeout", reason)
                queue.extendleft(reversed(held))
                return
            if "missing" in reply:
                raise MissingExtraError(reply["missing"])
            scores[row] = Score(**reply)
            if uses_child:
                restarting = scores[row].status == "timeout"

    def _request(self, record: Record) -> dict[str, Any]:
        fields = {name: getattr(record, name) for name in Record.__dataclass_fields__ if name != "settings"}
        fields["extra"] = dict(record.extra)
        settings = _settings_fields(record.settings)
        return {
            "record": fields,
            "settings": settings,
            "protocol": self.protocol,
            "soft_seconds": self.soft_seconds + execution_seconds(record),
        }


@lru_cache(maxsize=64)
def _settings_fields(settings: ScoringSettings) -> dict[str, Any]:
    return asdict(settings)


_IDLE: list[KillableWorker] = []


def _borrow() -> KillableWorker:
    """A worker that an earlier batch left, or a new one."""
    try:
        return _IDLE.pop()
    except IndexError:
        return KillableWorker("vrldata.tasks.batch_worker")


def _give_back(worker: KillableWorker) -> None:
    _IDLE.append(worker)


@atexit.register
def close_workers() -> None:
    """End the worker processes that `score_batch` keeps."""
    while _IDLE:
        _IDLE.pop().close()

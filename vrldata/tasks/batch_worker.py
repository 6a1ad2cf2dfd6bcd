"""What a worker process of `score_batch` does with one row. Runs in a child process (`killable`)."""

from __future__ import annotations

import signal
from dataclasses import asdict
from types import FrameType
from typing import Any

from vrldata.errors import MissingExtraError, VRLError
from vrldata.tasks.killable import shared_worker
from vrldata.tasks.reading import Record, ScoringSettings, Weights
from vrldata.tasks.scoring import TASKS, score_record, unscored


class _SoftLimitError(VRLError):
    pass


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise _SoftLimitError


def missing_library() -> str | None:
    """None: libraries are asked for by the row that needs them. Prepares the soft limit's signal."""
    signal.signal(signal.SIGALRM, _interrupt)
    return None


def _start(modules: list[str]) -> dict[str, Any]:
    try:
        for module in modules:
            shared_worker(module).ensure_started()
    except MissingExtraError as error:
        return {"missing": str(error)}
    return {}


def handle(request: dict[str, Any]) -> dict[str, Any]:
    """The fields of the row's `Score`; past the soft limit one with status `timeout`.

    `{"start": modules}` starts the child processes that rows will need, ahead of any limit.
    """
    if "start" in request:
        return _start(request["start"])
    settings = dict(request["settings"])
    fields = dict(request["record"])
    fields["options"] = tuple(fields["options"])
    record = Record(
        **fields, settings=ScoringSettings(**{**settings, "weights": Weights(**settings["weights"])})
    )
    if module := TASKS[record.problem_type].child_module:
        _start([module])  # again after a kill; its imports do not count against the row
    seconds = request["soft_seconds"]
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        score = score_record(record, request["protocol"])
    except _SoftLimitError:
        score = unscored("timeout", f"no score within {seconds:g} s")
    except MissingExtraError as error:
        return {"missing": str(error)}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return {**asdict(score), "parts": dict(score.parts)}

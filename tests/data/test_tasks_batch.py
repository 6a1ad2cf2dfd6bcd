"""`score_batch` in worker processes: order, limits, and rows that cannot hurt each other."""

from __future__ import annotations

import signal
import time
from typing import Any

import pytest

from vrldata.errors import TaskError
from vrldata.tasks import ScoringSettings, score_batch
from vrldata.tasks.batch import _IDLE
from vrldata.tasks.killable import KillableWorker
from vrldata.tasks.reading import ScorerTimeoutError


def row(content: str, key: Any = "B", problem_type: str = "multiple choice", **fields: Any) -> dict[str, Any]:
    return {"problem_type": problem_type, "response": f"<answer>{content}</answer>", "answer": key, **fields}


SLOW = row("(x+y+z+w)^{99}", "(x+y+z)^{98}", "math")
"""A comparison that takes far longer than any limit here."""


def test_results_keep_the_order_of_the_records() -> None:
    rows = [row("hello world", "hello world" if index % 3 else "other text", "ocr") for index in range(40)]
    results = score_batch(rows, workers=2)
    assert [result.accuracy == 1.0 for result in results] == [bool(index % 3) for index in range(40)]


def test_slow_row_is_cut_off_and_the_others_are_scored() -> None:
    rows = [row("1/2", "0.5", "math"), SLOW, row("2", "2", "math"), row("x", "x", "ocr")]
    settings = ScoringSettings(math_seconds=30.0)
    results = score_batch(rows, workers=1, soft_seconds=1.0, hard_seconds=3.0, settings=settings)
    assert [result.accuracy for result in results] == [1.0, None, 1.0, 1.0]
    assert results[1].status == "timeout"


def test_math_has_a_limit_of_its_own() -> None:
    (result,) = score_batch([SLOW], workers=1, settings=ScoringSettings(math_seconds=0.5))
    assert (result.accuracy, result.status) == (None, "timeout")


def test_killed_worker_costs_at_most_its_row() -> None:
    rows = [row("hello", "hello", "ocr") for _ in range(20)]
    score_batch(rows, workers=1)
    worker = _IDLE[-1]
    signal.pidfd_send_signal(worker._child, signal.SIGKILL)
    assert [result.accuracy for result in score_batch(rows, workers=1)] == [1.0] * 20


def test_whole_batch_has_a_limit() -> None:
    start = time.monotonic()
    results = score_batch(
        [SLOW] * 4, workers=1, total_seconds=2.0, settings=ScoringSettings(math_seconds=30.0)
    )
    assert [result.status for result in results] == ["timeout"] * 4
    assert time.monotonic() - start < 20


def test_configuration_errors_are_raised_before_anything_is_scored() -> None:
    with pytest.raises(TaskError, match="unknown problem_type"):
        score_batch([row("x"), row("x", problem_type="riddle")])
    with pytest.raises(TaskError, match="without 'response'"):
        score_batch([{"problem_type": "ocr"}])
    with pytest.raises(TaskError, match="unknown protocol"):
        score_batch([row("x")], protocol="tain")


def test_unknown_columns_travel_as_extra_and_do_not_fail() -> None:
    (result,) = score_batch([row("B", options=["saw", "drill"], level=3)])
    assert result.accuracy == 1.0


def test_child_is_killed_inside_c_code_and_replaced() -> None:
    worker = KillableWorker("vrldata.tasks.symbolic")
    try:
        with pytest.raises(ScorerTimeoutError, match="no result within"):
            worker.call({"key": "1", "answer": "\\binom{999999999}{499999999}"}, seconds=1.0)
        assert worker.call({"key": "1/2", "answer": "\\frac{2}{4}"}, seconds=10.0)["equal"]
    finally:
        worker.close()

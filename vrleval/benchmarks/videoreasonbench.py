"""VideoReasonBench: six games, six questions a video, answers behind a marker, one kind simulated.

Five kinds of questions go to a judge. Of the sixth, which asks for moves that reach a given state, many
answers are right: the moves are carried out (`videoreasonbench_games`), where the row says from which state.
EasyVideoR1's rows do not; they stay `needs_simulator`, and a literal "None" earns nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from vrldata.types import Score
from vrleval.benchmarks.videoreasonbench_games import SimulationError, reaches_target
from vrleval.intervals import Unit
from vrleval.types import UNSCORED, Prediction, Question

if TYPE_CHECKING:
    from vrleval.rows import Row

DEMOS = ("card", "chip", "cup", "file_sys", "grid", "hrd")
QUESTIONS_PER_VIDEO = 6
SIMULATED = "prediction_operation"

_MARKER = re.compile(r"final answer\s*\**\s*[:：]?\s*\**", re.IGNORECASE)


def prepare(rows: list[Row]) -> list[Row]:
    """Rows with their game, and the kind of those that have to be simulated.

    In EasyVideoR1's file the kind is known by place: the fifth or sixth question of a video, answer "None".
    """
    for index, row in enumerate(rows):
        row["problem_type"] = "open-ended"
        row["options"] = []
        path = str(row.get("video", ""))
        demo = row.get("demo") or next((name for name in DEMOS if f"{name}/" in path), "")
        if demo:
            row["demo"] = demo
        if not row.get("dim"):
            simulated = index % QUESTIONS_PER_VIDEO >= QUESTIONS_PER_VIDEO - 2
            if simulated and str(row.get("answer", "")).strip() == "None":
                row["dim"] = SIMULATED
    return rows


def final_answer(response: str) -> str | None:
    """What follows the last marker, after the reasoning; None without a marker."""
    after = re.split(r"</think>|◁/think▷", response)[-1]
    parts = _MARKER.split(after)
    return parts[-1].strip() if len(parts) > 1 else None


def score(question: Question, response: str) -> Score | None:
    """No marker: 0. Simulated: right if the moves reach the target. Else the answer waits for a judge."""
    if not response.strip():
        return _score(0.0, "empty", "")
    answer = final_answer(response)
    if not answer:
        return _score(0.0, "unparsed", "", reason="no final answer marker")
    if question.sample.extra.get("dim") != SIMULATED:
        return _score(None, "needs_judge", answer)
    try:
        right = reaches_target(question.sample.problem, answer, question.sample.extra)
    except SimulationError as error:
        return _score(None, "needs_simulator", answer, reason=str(error))
    return _score(float(right), "scored", answer)


def _score(accuracy: float | None, status: str, extracted: str, *, reason: str = "") -> Score:
    return Score(
        accuracy=accuracy,
        format=1.0 if extracted else 0.0,
        overall=accuracy,
        status=status,
        extracted=extracted[:500],
        how="final_answer_marker",
        reason=reason,
        strict=accuracy,
    )


def marked(predictions: Sequence[Prediction]) -> list[Unit]:
    """Share of answered questions whose response holds the marker."""
    return [
        Unit(float(final_answer(one.response) is not None), one.video or one.key)
        for one in predictions
        if one.response or one.status not in UNSCORED
    ]

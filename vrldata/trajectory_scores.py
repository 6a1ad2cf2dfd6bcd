"""Rewards of stored responses: the scores of `tasks` as columns of `trajectories`, and which are correct."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from vrldata.errors import ConfigError, MissingExtraError, TaskError
from vrldata.types import Sample, Score, Trajectory

logger = logging.getLogger(__name__)

ZERO_ONE_TYPES = frozenset({"multiple_choice", "numerical", "boolean", "math", "preference"})
"""Problem types whose accuracy is 0 or 1; all others are graded, such as by IoU."""

_ROUNDING = 1e-9


def success_threshold(problem_type: str, threshold: float | None = None) -> float:
    """Accuracy from which a response counts as correct: `threshold`, else 1.0 for 0/1 types and 0.5 for
    graded ones.

    `problem_type` is a canonical name.
    """
    if threshold is not None:
        return threshold
    return 1.0 if problem_type in ZERO_ONE_TYPES else 0.5


def check_correct_from(threshold: float | None) -> None:
    """Raises ConfigError for a threshold that every response, or none, would reach."""
    if threshold is not None and not 0 < threshold <= 1:
        raise ConfigError(f"correct_from={threshold}: expected an accuracy above 0, up to 1")


def is_correct(problem_type: str, accuracy: float | None, threshold: float | None = None) -> bool | None:
    """The column `correct` of a response; None where it has no accuracy. See `success_threshold`."""
    return None if accuracy is None else accuracy >= success_threshold(problem_type, threshold) - _ROUNDING


def score_trajectories(
    trajectories: Sequence[Trajectory],
    samples: Mapping[str, Sample],
    *,
    protocol: str = "train",
    correct_from: float | None = None,
) -> list[Trajectory]:
    """The trajectories in order, those without a reward scored against the answers of their samples.

    A reward that is given stays; `correct` is told beside it where the response can be scored, since pass
    rates count by it. A response that cannot be scored keeps what it has and says why in `status`, unless it
    has a status of its own.

    Args:
        samples: by `sample_id`.
        correct_from: accuracy from which a response is correct; see `success_threshold`.
    """
    places = [
        place for place, one in enumerate(trajectories) if one.correct is None and one.sample_id in samples
    ]
    scored = list(trajectories)
    records = [record_of(samples[scored[place].sample_id], scored[place]) for place in places]
    for place, score in zip(places, _scores(records, protocol), strict=True):
        given = scored[place]
        correct = is_correct(samples[given.sample_id].problem_type, score.accuracy, correct_from)
        if given.reward is None:
            given = _with_rewards(given, score)
        scored[place] = dataclasses.replace(given, correct=correct, status=given.status or score.status)
    return scored


def record_of(sample: Sample, trajectory: Trajectory) -> dict[str, Any]:
    """What a scorer needs of one response; unknown fields of the sample go along."""
    known = {
        "problem_type": sample.problem_type,
        "problem": sample.problem,
        "response": trajectory.response,
        "ground_truth": sample.answer,
        "options": sample.options,
        "data_type": sample.data_type,
        "sample_id": sample.sample_id,
        "finish_reason": trajectory.finish_reason or None,
    }
    further = {name: value for name, value in sample.extra.items() if name not in ("settings", "source")}
    return {**further, **known}


def _with_rewards(trajectory: Trajectory, score: Score) -> Trajectory:
    """The trajectory with the columns that a score alone fills: rewards, reward, status."""
    if score.accuracy is None:
        return dataclasses.replace(trajectory, status=score.status)
    return dataclasses.replace(
        trajectory,
        rewards={"accuracy": score.accuracy, "format": score.format, **score.parts},
        reward=score.overall,
        status=score.status,
    )


def _scores(records: Sequence[Mapping[str, Any]], protocol: str) -> list[Score]:
    """Scores of all records; where a batch is refused, one by one, so that a bad record costs only itself."""
    from vrldata.tasks import score_batch

    if not records:
        return []
    try:
        return score_batch(records, protocol=protocol)
    except MissingExtraError as error:
        logger.warning("responses are stored without a score: %s", error)
        return [_unscored("not_scored", str(error)) for _ in records]
    except TaskError:
        return [_score_alone(record, protocol) for record in records]


def _score_alone(record: Mapping[str, Any], protocol: str) -> Score:
    from vrldata.tasks import score_batch

    try:
        return score_batch([record], protocol=protocol)[0]
    except TaskError as error:
        logger.warning("sample %s: its response is stored without a score: %s", record["sample_id"], error)
        return _unscored("not_scored", str(error))


def _unscored(status: str, reason: str) -> Score:
    return Score(accuracy=None, format=0.0, overall=None, status=status, reason=reason)

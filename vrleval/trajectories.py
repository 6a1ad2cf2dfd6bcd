"""Responses of an evaluation as trajectories of a dataset, where SQL finds them beside rollouts."""

from __future__ import annotations

import logging

from vrldata.trajectory_scores import is_correct
from vrldata.types import Trajectory
from vrleval.results import RunResult

logger = logging.getLogger(__name__)


def write_trajectories(uri: str, result: RunResult, model: str, run_id: str) -> int:
    """Add one trajectory a response to the dataset at `uri`; the number that were new.

    The same run written twice adds nothing the second time.

    Raises:
        UriError: no such dataset. StoreError: it cannot be written.
    """
    import vrldata

    dataset = vrldata.open(uri)
    added = dataset.add_trajectories(
        Trajectory(
            trajectory_id="",
            sample_id=prediction.sample_id,
            response=prediction.response,
            source="eval",
            model=model,
            run_id=run_id,
            rewards={name: float(value) for name, value in prediction.parts.items()},
            reward=prediction.score,
            correct=is_correct(prediction.problem_type, prediction.score),
            status=prediction.status,
            num_tokens=prediction.num_tokens,
            finish_reason=prediction.finish_reason,
            extra={"benchmark": prediction.benchmark, "key": prediction.key},
        )
        for prediction in result.predictions
        if prediction.response
    )
    logger.info("%s: %d trajectories added", uri, added)
    return added

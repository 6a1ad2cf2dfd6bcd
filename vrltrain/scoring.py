"""From responses to scores and rewards: one call a batch, through `vrldata.tasks` and `rewards`."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from vrldata.errors import TaskError
from vrldata.tasks import score_batch
from vrldata.tasks.prompts import coordinate_space
from vrldata.types import Sample, Score
from vrltrain.inputs import Prompt
from vrltrain.rewards import Reward, RewardConfig, shape_reward
from vrltrain.types import Rollout

logger = logging.getLogger(__name__)


def score_rollouts(
    prompts: Sequence[Prompt],
    rollouts: Sequence[Sequence[Rollout]],
    *,
    family: str,
    reward: RewardConfig,
    max_response_length: int,
) -> list[list[tuple[Score, Reward]]]:
    """Score and reward of every rollout, in the shape of `rollouts`.

    A response that cannot be scored has a reward without value and says why; it is never 0.
    """
    pairs = [(prompt, rollout) for prompt, group in zip(prompts, rollouts, strict=True) for rollout in group]
    scores = iter(_scores([record_of(prompt, rollout, family) for prompt, rollout in pairs]))
    results: list[list[tuple[Score, Reward]]] = []
    for prompt, group in zip(prompts, rollouts, strict=True):
        results.append([])
        for rollout in group:
            score = next(scores)
            shaped = shape_reward(
                score,
                reward,
                response_length=len(rollout.token_ids),
                max_response_length=max_response_length,
                token_ids=rollout.token_ids,
                problem_type=prompt.sample.problem_type,
            )
            results[-1].append((score, shaped))
    return results


def _scores(records: Sequence[dict[str, Any]]) -> list[Score]:
    """Scores in order. Where a batch is refused its records are scored one by one: a bad one costs itself."""
    try:
        return score_batch(records)
    except TaskError as error:
        logger.warning("scoring one by one: %s", error)
    scores: list[Score] = []
    for record in records:
        try:
            scores += score_batch([record])
        except TaskError as error:
            scores.append(
                Score(accuracy=None, format=0.0, overall=None, status="bad_record", reason=str(error))
            )
    return scores


def record_of(prompt: Prompt, rollout: Rollout, family: str) -> dict[str, Any]:
    """What the scorer of the sample's type may ask for; fields of the sample that we do not know go along."""
    sample: Sample = prompt.sample
    record: dict[str, Any] = {
        name: value for name, value in sample.extra.items() if name not in ("settings", "source")
    }
    # what the data declares is the space of its answers; the response's is that of the prompt
    record.setdefault("answer_coord_space", record.get("coord_space"))
    record["coord_space"] = coordinate_space(family)
    if prompt.clips:
        metadata = prompt.clips[0].metadata
        record.setdefault("duration", metadata.duration if prompt.clips[0].kind == "video" else None)
        record.setdefault("width", metadata.source_width)
        record.setdefault("height", metadata.source_height)
        record["frame_width"], record["frame_height"] = metadata.width, metadata.height
    record |= {
        "problem_type": sample.problem_type,
        "problem": sample.problem,
        "data_type": sample.data_type,
        "response": rollout.text,
        "response_length": len(rollout.token_ids),
        "finish_reason": rollout.finish_reason,
        "ground_truth": sample.answer,
        "options": sample.options,
        "sample_id": sample.sample_id,
        "source": "offline" if rollout.source == "offline" else "online",
    }
    return record

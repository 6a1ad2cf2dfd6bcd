"""From responses to scores and rewards: one call a batch, through `vrldata.tasks` and `rewards`.

A user's reward function (`algorithm.reward.function`) takes the place of the built-in scorers here.
"""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from vrldata.errors import ConfigError, TaskError
from vrldata.tasks import RewardFunction, ScoringSettings, score_batch
from vrldata.tasks.prompts import coordinate_space
from vrldata.tasks.reward_functions import Outcome
from vrldata.types import Sample, Score
from vrltrain.inputs import Prompt
from vrltrain.rewards import Reward, RewardConfig, RewardWeights, shape_reward
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

    Raises:
        TaskError: a user's batch function returned another number of values than there are responses.
    """
    records = [
        {**record_of(prompt, rollout, family), "group_id": str(number)}
        for number, (prompt, group) in enumerate(zip(prompts, rollouts, strict=True))
        for rollout in group
    ]
    outcomes = iter(_outcomes(records, reward))
    results: list[list[tuple[Score, Reward]]] = []
    for prompt, group in zip(prompts, rollouts, strict=True):
        results.append([])
        for rollout in group:
            outcome = next(outcomes)
            score = outcome.score
            shaped = shape_reward(
                score,
                reward,
                response_length=len(rollout.token_ids),
                max_response_length=max_response_length,
                token_ids=rollout.token_ids,
                problem_type=prompt.sample.problem_type,
                given=score.overall if outcome.given else None,
            )
            results[-1].append((score, shaped))
    return results


def reward_function(config: RewardConfig) -> RewardFunction | None:
    """The user's function of a config, with its processes; None where the built-in scorers serve.

    Raises:
        ConfigError: it cannot be loaded or called.
    """
    if config.function is None:
        return None
    try:
        options = json.dumps(config.function_options, sort_keys=True)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"algorithm.reward.function_options: {error}; options are JSON values") from error
    return _loaded_function(config.function, options, config.function_seconds, config.function_workers)


@lru_cache(maxsize=8)
def _loaded_function(name: str, options: str, seconds: float, workers: int | None) -> RewardFunction:
    return RewardFunction(
        name,
        json.loads(options),
        seconds=seconds,
        workers=workers,
        purpose="algorithm.reward.function",
    )


def _outcomes(records: Sequence[dict[str, Any]], config: RewardConfig) -> list[Outcome]:
    """Score of each record, by the user's function or the built-in scorers."""
    function = reward_function(config)
    if function is None:
        return [Outcome(score=score) for score in _scores(records, config.scoring.settings())]
    outcomes = [
        _with_overall(outcome, config.weights_for(record["problem_type"]))
        for record, outcome in zip(records, function.outcomes(records), strict=True)
    ]
    failed = [number for number, outcome in enumerate(outcomes) if outcome.score.accuracy is None]
    if failed:
        first = failed[0]
        logger.warning(
            "%s: %d of %d responses have no reward and are masked; the first is of sample %s: %s",
            function.name,
            len(failed),
            len(outcomes),
            records[first]["sample_id"],
            outcomes[first].score.reason,
        )
    return outcomes


def _scores(records: Sequence[dict[str, Any]], settings: ScoringSettings) -> list[Score]:
    """Scores in order. Where a batch is refused its records are scored one by one: a bad one costs itself."""
    try:
        return score_batch(records, settings=settings)
    except TaskError as error:
        logger.warning("scoring one by one: %s", error)
    scores: list[Score] = []
    for record in records:
        try:
            scores += score_batch([record], settings=settings)
        except TaskError as error:
            scores.append(
                Score(accuracy=None, format=0.0, overall=None, status="bad_record", reason=str(error))
            )
    return scores


def _with_overall(outcome: Outcome, weights: RewardWeights) -> Outcome:
    score = outcome.score
    if outcome.given or score.accuracy is None:
        return outcome
    overall = weights.accuracy * score.accuracy + weights.format * score.format
    return dataclasses.replace(outcome, score=dataclasses.replace(score, overall=overall))


def trial_records(samples: Sequence[Sample]) -> list[dict[str, Any]]:
    """Records like those of a run, to try a function on: the right answer to each, and an empty response."""
    tried = [(sample, f"<answer>{sample.answer}</answer>") for sample in samples]
    tried += [(sample, "") for sample in samples[:1]]
    return [
        {
            **_extra_fields(sample),
            "problem_type": sample.problem_type,
            "problem": sample.problem,
            "data_type": sample.data_type,
            "response": response,
            "response_length": len(response.split()) + 1,
            "finish_reason": "stop",
            "ground_truth": sample.answer,
            "options": sample.options,
            "sample_id": sample.sample_id,
            "group_id": str(number),
            "source": "online",
        }
        for number, (sample, response) in enumerate(tried)
    ]


def _extra_fields(sample: Sample) -> dict[str, Any]:
    return {name: value for name, value in sample.extra.items() if name not in ("settings", "source")}


def record_of(prompt: Prompt, rollout: Rollout, family: str) -> dict[str, Any]:
    """What the scorer of the sample's type may ask for; fields of the sample that we do not know go along."""
    sample: Sample = prompt.sample
    record = _extra_fields(sample)
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

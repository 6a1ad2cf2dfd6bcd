"""Groups and trajectories as plain JSON values, for checkpoints and for the dataset."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from vrldata.trajectory_scores import is_correct
from vrldata.types import Sample, Score, Trajectory
from vrltrain.rewards import Reward
from vrltrain.types import Rollout, RolloutGroup


def group_to_json(group: RolloutGroup) -> dict[str, Any]:
    """A group as values that JSON can hold."""
    return {
        "uid": group.uid,
        "sample": dataclasses.asdict(group.sample),
        "rollouts": [dataclasses.asdict(rollout) for rollout in group.rollouts],
        "scores": [dataclasses.asdict(score) for score in group.scores],
        "rewards": [dataclasses.asdict(reward) for reward in group.rewards],
        "prompt_tokens": group.prompt_tokens,
        "step": group.step,
        "greedy_reward": group.greedy_reward,
    }


def group_from_json(values: Mapping[str, Any]) -> RolloutGroup:
    """The group that `group_to_json` wrote."""
    return RolloutGroup(
        uid=values["uid"],
        sample=_record(Sample, values["sample"]),
        rollouts=tuple(_record(Rollout, one) for one in values["rollouts"]),
        scores=tuple(_record(Score, one) for one in values["scores"]),
        rewards=tuple(_record(Reward, one) for one in values["rewards"]),
        prompt_tokens=values["prompt_tokens"],
        step=values["step"],
        greedy_reward=values["greedy_reward"],
    )


def group_trajectories(group: RolloutGroup, *, run_id: str, model: str) -> list[Trajectory]:
    """The rollouts of a group as stored trajectories; those that came from the store are not written again.

    The id depends on the place in the run (run, step, group, index) alone: writing a step twice adds nothing.
    """
    found = []
    for rollout, score, reward in zip(group.rollouts, group.scores, group.rewards, strict=True):
        if rollout.source != "rollout":
            continue
        place = f"{run_id}\x00{group.step}\x00{group.uid}\x00{group.sample.sample_id}\x00{rollout.index}"
        found.append(
            Trajectory(
                trajectory_id=hashlib.sha256(place.encode()).hexdigest(),
                sample_id=group.sample.sample_id,
                response=rollout.text,
                source="rollout",
                model=model,
                run_id=run_id,
                step=group.step,
                policy_version=rollout.policy_version,
                rewards=dict(reward.components),
                reward=reward.overall,
                correct=is_correct(group.sample.problem_type, score.accuracy),
                status=score.status,
                num_tokens=len(rollout.token_ids),
                finish_reason=rollout.finish_reason,
                token_ids=rollout.token_ids,
                log_probs=rollout.log_probs,
            )
        )
    return found


def trajectory_to_json(trajectory: Trajectory) -> dict[str, Any]:
    """A trajectory as values that JSON can hold."""
    return dataclasses.asdict(trajectory)


def trajectory_from_json(values: Mapping[str, Any]) -> Trajectory:
    """The trajectory that `trajectory_to_json` wrote."""
    return _record(Trajectory, values)


def _record(kind: type[Any], values: Mapping[str, Any]) -> Any:
    """A frozen record from JSON values, which hold lists where it has tuples."""
    return kind(**{name: _frozen(value) for name, value in values.items()})


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else value

"""Mixed policy: stored trajectories as rows of a group of rollouts, after LUFFY (Yan et al., 2025).

Here: which trajectories are usable, in which groups they join, which rollout they replace, and the
advantages of the mixed group. How their tokens enter the loss is `losses.policy_loss`; the names are those
of `MixConfig`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from vrldata.errors import ConfigError
from vrldata.trajectory_scores import success_threshold
from vrltrain.algorithms import compute_advantages
from vrltrain.configs_algorithm import MixConfig
from vrltrain.response_mask import mask_from_turns
from vrltrain.rewards import Reward
from vrltrain.types import Rollout

GATED = ("below", "no_success")
"""Values of `MixConfig.when` that look at the online rewards of the group first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineRow:
    """A usable stored trajectory.

    Attributes:
        trajectory_id: of the dataset's `trajectories`.
        token_ids: response tokens, one end-of-sequence token last.
        response_mask: 1 for each token that is trained on; same length.
        log_probs: ln p under the policy that wrote them, NaN where unknown; None where all are.
        reward: overall reward, computed like that of a rollout.
        accuracy: of its score.
    """

    trajectory_id: str
    token_ids: tuple[int, ...]
    response_mask: tuple[int, ...]
    log_probs: tuple[float, ...] | None
    reward: float
    accuracy: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineRejection:
    """A trajectory that is left out.

    Attributes:
        reason: `empty`, `truncated`, `too_long`, `unscored`, `low_accuracy`, `log_probs_length` or
            `turns_length`.
        detail: the figures behind it.
    """

    trajectory_id: str
    reason: str
    detail: str = ""


def prepare_offline(
    trajectory_id: str,
    token_ids: Sequence[int],
    *,
    eos: Sequence[int],
    max_response_length: int,
    reward: float | None,
    accuracy: float | None,
    problem_type: str,
    min_offline_accuracy: float | None = None,
    log_probs: Sequence[float] | None = None,
    finish_reason: str = "",
    turns: Sequence[tuple[str, int]] = (),
) -> OfflineRow | OfflineRejection:
    """Check one stored trajectory and append its end; a bad one is returned with its reason, never raised.

    Args:
        token_ids: response tokens, with or without the end-of-sequence token.
        eos: ids that end a response; the first one is appended where none is there.
        max_response_length: tokens, the end included; a longer trajectory is not cut, it is left out.
        reward, accuracy: the trajectory scored like a rollout; None where it could not be scored.
        min_offline_accuracy: least accuracy; None takes 1.0 for 0/1 problem types and 0.5 for graded ones.
        log_probs: ln p of `token_ids` under the policy that wrote them; that of an appended end is unknown.
        finish_reason: `length` marks a response that was cut off, which has no end to learn.
        turns: (role, tokens) where the trajectory has several turns; other roles are not trained on.
    """
    tokens = list(token_ids)
    least = success_threshold(problem_type, min_offline_accuracy)

    def rejected(reason: str, detail: str = "") -> OfflineRejection:
        return OfflineRejection(trajectory_id=trajectory_id, reason=reason, detail=detail)

    if not tokens:
        return rejected("empty")
    if finish_reason == "length":
        return rejected("truncated", "finish_reason is length")
    if log_probs is not None and len(log_probs) != len(tokens):
        return rejected("log_probs_length", f"{len(log_probs)} log-probs for {len(tokens)} tokens")
    if turns and sum(count for _, count in turns) != len(tokens):
        return rejected("turns_length", f"turns cover {sum(n for _, n in turns)} of {len(tokens)} tokens")
    mask = mask_from_turns(turns) if turns else [1] * len(tokens)
    known = None if log_probs is None else [float(value) for value in log_probs]
    if tokens[-1] not in eos:
        tokens.append(eos[0])
        mask.append(1)
        if known is not None:
            known.append(float("nan"))
    if len(tokens) > max_response_length:
        return rejected("too_long", f"{len(tokens)} tokens, limit {max_response_length}")
    if reward is None or accuracy is None:
        return rejected("unscored")
    if accuracy < least - 1e-9:
        return rejected("low_accuracy", f"accuracy {accuracy:g}, needs {least:g}")
    return OfflineRow(
        trajectory_id=trajectory_id,
        token_ids=tuple(tokens),
        response_mask=tuple(mask),
        log_probs=None if known is None else tuple(known),
        reward=reward,
        accuracy=accuracy,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """What to generate for one prompt.

    Attributes:
        num_online: rollouts to sample.
        num_offline: stored trajectories that may join: at once, or after the gate in `gated` groups.
        gated: True when `gate_opens` decides after the rollouts are scored.
    """

    num_online: int
    num_offline: int
    gated: bool


def plan_group(
    config: MixConfig, *, sample_id: str, n: int, num_usable: int, step: int, seed: int
) -> GroupPlan:
    """Rollouts and stored trajectories of a group of `n` rows, before anything is generated.

    Without a gate `n - num_offline` rollouts are sampled, none to be thrown away; with one, all n. A group
    without usable trajectory, and every group while mixing is off, is an ordinary one.

    Args:
        num_usable: trajectories of this sample that passed `prepare_offline`.
        step: training step, from 0, for `probability` and `schedule`.
    """
    count = min(config.num_offline, num_usable, n - 1)
    if config.when == "never" or count < 1:
        return GroupPlan(num_online=n, num_offline=0, gated=False)
    if config.when in GATED:
        return GroupPlan(num_online=n, num_offline=count, gated=True)
    if config.when in ("probability", "schedule") and _uniform(
        seed, step, sample_id, "mix"
    ) >= mix_probability(config, step):
        return GroupPlan(num_online=n, num_offline=0, gated=False)
    return GroupPlan(num_online=n - count, num_offline=count, gated=False)


def mix_probability(config: MixConfig, step: int) -> float:
    """Probability at `step` that a group is mixed: `probability`, or linear to `probability_end`."""
    if config.when != "schedule":
        return config.probability
    progress = min(step / config.schedule_steps, 1.0)
    return config.probability + (config.probability_end - config.probability) * progress


def gate_opens(config: MixConfig, accuracies: Sequence[float | None], problem_type: str) -> bool:
    """True when the online rows of a gated group call for a stored trajectory.

    `below`: their mean accuracy is under `threshold`. `no_success`: none is right (1.0 for 0/1 types, 0.5
    for graded ones). Rows that could not be scored do not count; a group without scored row keeps its gate
    closed.
    """
    scored = [accuracy for accuracy in accuracies if accuracy is not None]
    if not scored:
        return False
    if config.when == "below":
        return sum(scored) / len(scored) < config.threshold
    return max(scored) < success_threshold(problem_type) - 1e-9


def rows_to_replace(rewards: Sequence[float | None], count: int) -> list[int]:
    """The `count` worst rows, in ascending order; rows without a reward first, ties from the last.

    >>> rows_to_replace([0.1, 1.0, 0.1], 1)
    [2]
    """
    ranked = sorted(
        range(len(rewards)),
        key=lambda row: (float("-inf") if rewards[row] is None else rewards[row], -row),
    )
    return sorted(ranked[:count])


def choose_offline(
    candidates: Sequence[OfflineRow], count: int, *, sample_id: str, step: int, seed: int
) -> list[OfflineRow]:
    """`count` different trajectories of a sample, drawn anew each step; same arguments, same draw."""
    ranked = sorted(candidates, key=lambda row: _uniform(seed, step, sample_id, row.trajectory_id))
    return list(ranked[:count])


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedGroup:
    """Rewards and advantages of one mixed group of n rows.

    Attributes:
        rewards: of all rows; None where a row could not be scored.
        advantages: one number a row (it is the same for all its tokens).
        offline_row: 1 for rows that are stored trajectories.
        replaced: rows of the online group that gave way.
    """

    rewards: tuple[float | None, ...]
    advantages: tuple[float, ...]
    offline_row: tuple[int, ...]
    replaced: tuple[int, ...] = ()


def mixed_policy_group(
    *,
    online_rewards: Sequence[float | None],
    offline_reward: float | Sequence[float],
    n: int,
    estimator: str = "grpo",
    offline_in_baseline: bool = True,
    **options: Any,
) -> MixedGroup:
    """Put stored trajectories into a group of rollouts and compute its advantages.

    With fewer than n online rows the trajectories follow them; with n, they take the places of the worst
    ones.

    Args:
        online_rewards: of the rollouts; None where one could not be scored.
        offline_reward: of the trajectory, or of each.
        estimator: see `algorithms.compute_advantages`; `options` go to it.
        offline_in_baseline: False takes the statistics of the group from the online rows alone.
    """
    stored = list(offline_reward) if isinstance(offline_reward, Sequence) else [offline_reward]
    rewards: list[float | None] = list(online_rewards)
    replaced: list[int] = []
    if len(rewards) == n:
        replaced = rows_to_replace(rewards, len(stored))
        for row, reward in zip(replaced, stored, strict=True):
            rewards[row] = reward
        places = set(replaced)
    elif len(rewards) + len(stored) == n:
        places = set(range(len(rewards), n))
        rewards += stored
    else:
        raise ConfigError(
            f"a group of {n} rows cannot be made of {len(rewards)} rollouts and {len(stored)} trajectories"
        )
    placed = torch.tensor([[0.0 if reward is None else reward] for reward in rewards], dtype=torch.float64)
    offline = torch.tensor([row in places for row in range(n)])
    if not offline_in_baseline:
        options["in_baseline"] = ~offline
    result = compute_advantages(
        estimator,
        token_level_rewards=placed,
        response_mask=torch.ones_like(placed),
        uid=["group"] * n,
        valid=torch.tensor([reward is not None for reward in rewards]),
        **options,
    )
    return MixedGroup(
        rewards=tuple(rewards),
        advantages=tuple(result.advantages[:, 0].tolist()),
        offline_row=tuple(int(flag) for flag in offline.tolist()),
        replaced=tuple(replaced),
    )


def mix_metrics(rows: Sequence[tuple[Rollout, Reward]]) -> dict[str, float]:
    """Share of the stored rows among all rows of a batch, and their mean reward, accuracy and length."""
    stored = [(rollout, reward) for rollout, reward in rows if rollout.source == "offline"]
    metrics = {"mix/offline_row_share": len(stored) / max(len(rows), 1)}
    if stored:
        rewards = [reward.overall for _, reward in stored if reward.overall is not None]
        accuracies = [
            reward.components["accuracy"] for _, reward in stored if "accuracy" in reward.components
        ]
        metrics["mix/tokens_mean"] = sum(len(rollout.token_ids) for rollout, _ in stored) / len(stored)
        metrics["mix/reward_mean"] = sum(rewards) / max(len(rewards), 1)
        metrics["mix/accuracy_mean"] = sum(accuracies) / max(len(accuracies), 1)
    return metrics


@dataclass(slots=True, kw_only=True)
class ReplayBuffer:
    """The run's own best rollouts of each sample, as a source of trajectories. Part of a checkpoint.

    Attributes:
        capacity: rows kept for one sample; the worst by reward, then the oldest, goes first.
        rows: sample_id -> rows, best first.
    """

    capacity: int = 1
    rows: dict[str, list[OfflineRow]] = field(default_factory=dict)

    def add(self, sample_id: str, row: OfflineRow) -> bool:
        """Offer a row; True when it is kept. The same tokens are kept once, with the latest log-probs."""
        held = [old for old in self.rows.get(sample_id, []) if old.token_ids != row.token_ids]
        # Python's sort is stable: with the newcomer first, it wins a tie against an older row.
        best = sorted([row, *held], key=lambda item: -item.reward)[: self.capacity]
        self.rows[sample_id] = best
        return row in best

    def get(self, sample_id: str) -> list[OfflineRow]:
        """Rows of one sample, best first."""
        return list(self.rows.get(sample_id, []))

    def state_dict(self) -> dict[str, Any]:
        """Plain values for a checkpoint."""
        return {
            "rows": {
                sample_id: [
                    {
                        "trajectory_id": row.trajectory_id,
                        "token_ids": list(row.token_ids),
                        "response_mask": list(row.response_mask),
                        "log_probs": None if row.log_probs is None else list(row.log_probs),
                        "reward": row.reward,
                        "accuracy": row.accuracy,
                    }
                    for row in rows
                ]
                for sample_id, rows in self.rows.items()
            }
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        self.rows = {
            sample_id: [
                OfflineRow(
                    trajectory_id=row["trajectory_id"],
                    token_ids=tuple(row["token_ids"]),
                    response_mask=tuple(row["response_mask"]),
                    log_probs=None if row["log_probs"] is None else tuple(row["log_probs"]),
                    reward=row["reward"],
                    accuracy=row["accuracy"],
                )
                for row in rows
            ]
            for sample_id, rows in state["rows"].items()
        }


def _uniform(seed: int, step: int, sample_id: str, purpose: str) -> float:
    """A number in [0, 1) from its arguments alone, whatever the order of groups or the number of ranks."""
    digest = hashlib.blake2b(f"{seed}\x00{step}\x00{sample_id}\x00{purpose}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64

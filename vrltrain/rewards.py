"""From the score of a response to the reward that trains: weights, length and repetition, every component
kept.

Scores come from `vrldata.tasks`; advantages from `algorithms`. A response that could not be scored has no
reward (None), never 0. No torch here but in `outcome_to_tokens`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Any

from pydantic import Field, field_validator, model_validator

from vrldata.config import BaseConfig
from vrldata.types import Score
from vrltrain.configs_scoring import ScoringConfig

if TYPE_CHECKING:
    from torch import Tensor


class RewardWeights(BaseConfig):
    """Weights of the components of a reward."""

    accuracy: float = Field(default=0.9, ge=0)
    """Weight of the accuracy (0 to 1). accuracy + format must be 1."""
    format: float = Field(default=0.1, ge=0)
    """Weight of keeping to the requested answer form (0, 0.5 or 1)."""
    overlong: float = Field(default=0.0, ge=0)
    """Weight of the length penalty (-1 to 0); 0 switches it off."""
    repetition: float = Field(default=0.0, ge=0)
    """Weight of the repetition penalty (-1 to 0); 0 switches it off."""

    @model_validator(mode="after")
    def _sum_is_one(self) -> RewardWeights:
        total = self.accuracy + self.format
        if abs(total - 1) > 1e-6:
            raise ValueError(
                f"accuracy ({self.accuracy}) and format ({self.format}) must add up to 1, not {total:g}"
            )
        return self


class RewardConfig(BaseConfig):
    """How a score becomes a reward."""

    weights: RewardWeights = RewardWeights()
    """Weights of the components."""
    weights_by_type: dict[str, RewardWeights] = Field(default_factory=dict)
    """Weights of single problem types, in place of `weights`."""
    scoring: ScoringConfig = ScoringConfig()
    """Choices of the built-in scorers."""
    overlong_buffer: int | None = Field(default=None, ge=1)
    """Tokens below the length limit over which the penalty grows to -1; null takes a quarter of it."""
    mask_truncated: bool = False
    """Leave responses that hit the length limit out of the loss; their reward still counts in the group."""
    repetition_ngram: int = Field(default=8, ge=1)
    """Length in tokens of the n-grams that the repetition penalty counts."""
    function: str | None = None
    """A function of your own in place of the built-in scorers: `file.py:function` or
    `package.module.function`; its first parameter is `record` (one row) or `records` (the batch)."""
    function_options: dict[str, Any] = Field(default_factory=dict)
    """Its further keyword arguments; null for none, also where a file gives some."""
    function_seconds: float = Field(default=10.0, gt=0)
    """Limit for one record; a batch has it for each of its records."""
    function_workers: int | None = Field(default=None, ge=1)
    """Processes that call a function of one record; null takes one a CPU, at most 8."""

    @model_validator(mode="after")
    def _types_are_known(self) -> RewardConfig:
        if self.weights_by_type:
            from vrldata.errors import TaskError
            from vrldata.tasks import canonical_type

            for name in self.weights_by_type:
                try:
                    canonical_type(name)
                except TaskError as error:
                    raise ValueError(f"weights_by_type: {error}") from error
        return self

    @field_validator("function_options", mode="before")
    @classmethod
    def _null_is_no_option(cls, value: Any) -> Any:
        return {} if value is None else value

    @model_validator(mode="after")
    def _function_is_named(self) -> RewardConfig:
        given = self.function_options or self.function_workers is not None or self.function_seconds != 10.0
        if self.function is None and given:
            raise ValueError(
                "function_options, function_seconds and function_workers need function, such as "
                "function: my_rewards.py:length_reward"
            )
        if self.function is not None and self.scoring != ScoringConfig():
            raise ValueError("function takes the place of the built-in scorers: leave out scoring")
        if self.function is not None:
            from vrldata.errors import ConfigError
            from vrldata.named_functions import split_name

            try:
                split_name(self.function, purpose="function")
            except ConfigError as error:
                raise ValueError(str(error)) from error
        return self

    def weights_for(self, problem_type: str | None) -> RewardWeights:
        """Weights of one problem type; any spelling that the task registry accepts."""
        if problem_type is None or not self.weights_by_type:
            return self.weights
        if problem_type in self.weights_by_type:
            return self.weights_by_type[problem_type]
        from vrldata.tasks import canonical_type

        wanted = canonical_type(problem_type)
        for name, weights in self.weights_by_type.items():
            if canonical_type(name) == wanted:
                return weights
        return self.weights


@dataclass(frozen=True, slots=True, kw_only=True)
class Reward:
    """The reward of one response.

    Attributes:
        overall: what trains; None where the response could not be scored.
        components: `accuracy` (absent where None), `format`, `overlong`, `repetition`, and the parts of
            the score.
    """

    overall: float | None
    components: Mapping[str, float] = field(default_factory=dict)

    @property
    def valid(self) -> bool:
        """False where the row must be masked out of its group."""
        return self.overall is not None


def shape_reward(
    score: Score,
    config: RewardConfig,
    *,
    response_length: int,
    max_response_length: int,
    token_ids: Sequence[int] = (),
    problem_type: str | None = None,
    given: float | None = None,
) -> Reward:
    """w_accuracy accuracy + w_format format + w_overlong overlong + w_repetition repetition.

    A reward that is given takes the place of the first two.

    Args:
        score: of the response.
        response_length: tokens of the response.
        max_response_length: the run's limit.
        token_ids: tokens of the response, for the repetition penalty.
        problem_type: chooses the weights where `weights_by_type` is set.
        given: what a user's reward function returned.
    """
    weights = config.weights_for(problem_type)
    length = overlong_penalty(response_length, max_response_length, config.overlong_buffer)
    repetition = repetition_penalty(token_ids, config.repetition_ngram)
    components = {**score.parts, "format": score.format, "overlong": length, "repetition": repetition}
    if score.accuracy is None:
        return Reward(overall=None, components=components)
    components["accuracy"] = score.accuracy
    earned = weights.accuracy * score.accuracy + weights.format * score.format if given is None else given
    overall = earned + weights.overlong * length + weights.repetition * repetition
    return Reward(overall=overall, components=components)


def overlong_penalty(response_length: int, max_response_length: int, buffer: int | None = None) -> float:
    """0 up to max - buffer, then falling to -1 at the limit, -1 beyond; Yu et al., "DAPO" (2025), equation
    13.

    `buffer` None takes a quarter of the limit.

    >>> [overlong_penalty(length, 100, 20) for length in (80, 90, 100, 101)]
    [0.0, -0.5, -1.0, -1.0]
    """
    size = max_response_length / 4 if buffer is None else buffer
    start = max_response_length - size
    if response_length <= start:
        return 0.0
    if response_length > max_response_length:
        return -1.0
    return (start - response_length) / size


def repetition_penalty(tokens: Sequence[Hashable], ngram: int = 8) -> float:
    """-(share of n-grams that occurred before), 0 to -1; 0 for responses shorter than two n-grams.

    >>> repetition_penalty([1, 2, 1, 2, 1, 2], ngram=2)
    -0.6
    """
    total = len(tokens) - ngram + 1
    if total < 2:
        return 0.0
    distinct = {tuple(tokens[start : start + ngram]) for start in range(total)}
    repeated = total - len(distinct)
    return -repeated / total if repeated else 0.0


UNREAD = frozenset({"no_answer", "unparsable"})
"""Statuses of responses in which no answer was found or read."""


def reward_metrics(
    rewards: Sequence[Reward],
    *,
    uid: Sequence[Hashable],
    problem_types: Sequence[str],
    statuses: Sequence[str] = (),
) -> dict[str, float]:
    """Figures of a batch, of all rows (`reward/...`) and of each problem type (`reward_by_type/TYPE/...`).

    `overall` and each component with mean, std, min and max (by type mean and std); `zero_std_group_share`,
    groups without anything to learn from; `unread_share`, responses without a readable answer. Rows that
    could not be scored count in `valid_share` and in nothing else; `reward_by_type/TYPE` is the mean.

    Args:
        rewards: of all generated rows, (B,).
        uid: (B,), names the group of a row.
        problem_types: (B,).
        statuses: (B,), of the scores; without them there is no `unread_share`.
    """
    metrics = _figures(range(len(rewards)), rewards, uid, statuses, "reward/")
    for kind in sorted(set(problem_types)):
        rows = [row for row, name in enumerate(problem_types) if name == kind]
        figures = _figures(rows, rewards, uid, statuses, f"reward_by_type/{kind}/")
        metrics |= {name: value for name, value in figures.items() if not name.endswith(("_min", "_max"))}
        if f"reward_by_type/{kind}/overall_mean" in figures:
            metrics[f"reward_by_type/{kind}"] = figures[f"reward_by_type/{kind}/overall_mean"]
    return metrics


def _figures(
    rows: Sequence[int],
    rewards: Sequence[Reward],
    uid: Sequence[Hashable],
    statuses: Sequence[str],
    prefix: str,
) -> dict[str, float]:
    """Figures of some rows of a batch, under names that begin with `prefix`."""
    valid = [row for row in rows if rewards[row].overall is not None]
    metrics = {f"{prefix}valid_share": len(valid) / len(rows) if rows else 0.0}
    if statuses and rows:
        metrics[f"{prefix}unread_share"] = sum(statuses[row] in UNREAD for row in rows) / len(rows)
    columns: dict[str, list[float]] = {}
    groups: dict[Hashable, list[float]] = {}
    for row in valid:
        overall = rewards[row].overall
        assert overall is not None
        for name, value in {**rewards[row].components, "overall": overall}.items():
            columns.setdefault(name, []).append(value)
        groups.setdefault(uid[row], []).append(overall)
    for name, values in sorted(columns.items()):
        metrics[f"{prefix}{name}_mean"] = fmean(values)
        metrics[f"{prefix}{name}_std"] = pstdev(values)
        metrics[f"{prefix}{name}_min"] = min(values)
        metrics[f"{prefix}{name}_max"] = max(values)
    if groups:
        silent = sum(max(values) == min(values) for values in groups.values())
        metrics[f"{prefix}zero_std_group_share"] = silent / len(groups)
    return metrics


def group_accuracy(
    accuracies: Sequence[float | None], *, uid: Sequence[Hashable], thresholds: Sequence[float]
) -> dict[str, float]:
    """`accuracy/mean_at_n` and `accuracy/pass_at_n` over the groups: mean, and share with a right row.

    A group without scored row is in neither.

    Args:
        thresholds: (B,), accuracy from which a row counts as right (`vrldata.trajectory_scores`).
    """
    means: dict[Hashable, list[float]] = {}
    passed: dict[Hashable, bool] = {}
    for accuracy, name, threshold in zip(accuracies, uid, thresholds, strict=True):
        if accuracy is None:
            continue
        means.setdefault(name, []).append(accuracy)
        passed[name] = passed.get(name, False) or accuracy >= threshold - 1e-9
    if not means:
        return {}
    return {
        "accuracy/mean_at_n": fmean(fmean(values) for values in means.values()),
        "accuracy/pass_at_n": sum(passed.values()) / len(passed),
    }


def outcome_to_tokens(rewards: Sequence[float | None], response_mask: Tensor) -> tuple[Tensor, Tensor]:
    """(token_level_rewards (B, T), valid bool (B,)): each reward on the last masked token of its row.

    A reward of None, or a row without tokens, gives a row of zeros that is not valid.
    """
    import torch

    dtype = torch.float64 if response_mask.dtype == torch.float64 else torch.float32
    placed = torch.zeros(response_mask.shape, dtype=dtype, device=response_mask.device)
    valid = torch.zeros(response_mask.shape[0], dtype=torch.bool, device=response_mask.device)
    for row, reward in enumerate(rewards):
        positions = torch.nonzero(response_mask[row]).flatten()
        if reward is None or positions.numel() == 0:
            continue
        placed[row, positions[-1]] = reward
        valid[row] = True
    return placed, valid


def drop_truncated(response_mask: Tensor, finish_reasons: Sequence[str]) -> Tensor:
    """`response_mask` with rows that ended by `length` set to 0. Apply it once advantages are computed."""
    import torch

    ended = torch.tensor([reason != "length" for reason in finish_reasons], device=response_mask.device)
    return response_mask * ended.unsqueeze(-1).to(response_mask.dtype)

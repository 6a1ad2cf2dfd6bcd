"""The records that move through a training step: sampling options, rollouts, groups. No tensors, no logic.

A rollout is live and in tokens; a trajectory (`vrldata.types`) is stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vrldata.types import Sample, Score
from vrltrain.rewards import Reward


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How responses are drawn.

    Attributes:
        temperature: divides the logits; 0 is greedy.
        top_p: smallest set of tokens with this probability; 1 switches it off.
        top_k: that many most likely tokens; 0 switches it off.
        max_tokens: longest response, its end included.
        seed: of this call; the transformers engine draws each response from (seed, sample_id, index).
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_tokens: int = 512
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """One response in tokens.

    Attributes:
        token_ids: the response, its end token included.
        log_probs: ln p of each token under the engine's policy at the sampling temperature, before any
            truncation by top_p or top_k; None where unknown.
        finish_reason: `stop` or `length`.
        policy_version: number of weight updates of the policy that wrote it.
        text: decoded, without special tokens.
        index: of the response among those to the same prompt.
        source: `rollout`, or `offline` for a stored trajectory that joined the group.
        trajectory_id: of the stored trajectory; empty for a rollout.
        response_mask: 1 where a token trains; None means everywhere.
    """

    token_ids: tuple[int, ...]
    log_probs: tuple[float, ...] | None
    finish_reason: str
    policy_version: int
    text: str
    index: int = 0
    source: str = "rollout"
    trajectory_id: str = ""
    response_mask: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutResult:
    """What an engine gives back for one prompt.

    Attributes:
        sample_id: of the prompt.
        rollouts: the responses; empty when the request failed.
        prompt_token_ids: the prompt as the engine saw it, placeholders expanded.
        error: why there are no rollouts.
    """

    sample_id: str
    rollouts: tuple[Rollout, ...] = ()
    prompt_token_ids: tuple[int, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutGroup:
    """All responses to one prompt with their scores: the unit of advantages.

    Attributes:
        uid: unique in the step; the same sample may come up twice.
        sample: the question.
        rollouts, scores, rewards: one each a response.
        prompt_tokens: length of the prompt, visual tokens included.
        step: the step whose policy wrote the rollouts.
        greedy_reward: reward of a greedy response, where the estimator needs that baseline.
    """

    uid: str
    sample: Sample
    rollouts: tuple[Rollout, ...]
    scores: tuple[Score, ...]
    rewards: tuple[Reward, ...]
    prompt_tokens: int = 0
    step: int = 0
    greedy_reward: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A sample that left the batch, with the reason. It costs only itself and is counted."""

    sample_id: str
    stage: str
    reason: str


@dataclass(slots=True, kw_only=True)
class Timings:
    """Seconds by phase of one step."""

    seconds: dict[str, float] = field(default_factory=dict)

    def add(self, phase: str, seconds: float) -> None:
        """Add to a phase."""
        self.seconds[phase] = self.seconds.get(phase, 0.0) + seconds

    def metrics(self) -> Mapping[str, float]:
        """`time/<phase>_s` by phase."""
        return {f"time/{phase}_s": value for phase, value in self.seconds.items()}

"""The stored trajectories that may join groups: where they come from, and which of them are usable.

How they join is `mixing`; how their tokens enter the loss is `losses`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from vrldata.errors import ConfigError
from vrltrain.configs_algorithm import MixConfig
from vrltrain.inputs import Prompt, PromptEncoder
from vrltrain.mixing import OfflineRejection, OfflineRow, ReplayBuffer, prepare_offline
from vrltrain.rewards import RewardConfig
from vrltrain.scoring import score_rollouts
from vrltrain.types import Rollout, RolloutGroup

if TYPE_CHECKING:
    from vrldata.dataset import Dataset
    from vrldata.types import Trajectory

logger = logging.getLogger(__name__)


class OfflinePool:
    """Usable trajectories by sample, prepared when first asked for."""

    def __init__(
        self,
        config: MixConfig,
        dataset: Dataset,
        encoder: PromptEncoder,
        *,
        reward: RewardConfig,
        max_response_length: int,
    ) -> None:
        self._config = config
        self._encoder = encoder
        self._reward = reward
        self._max_response_length = max_response_length
        self._stored = _stored_trajectories(config, dataset)
        self._prepared: dict[str, list[OfflineRow]] = {}
        self.replay = ReplayBuffer(capacity=config.replay_capacity)
        self.rejected: Counter[str] = Counter()

    def usable(self, prompt: Prompt) -> list[OfflineRow]:
        """Trajectories of the prompt's sample that may join its group."""
        sample_id = prompt.sample.sample_id
        if not self._config.on:
            return []
        if self._config.source == "replay":
            return self.replay.get(sample_id)
        if sample_id not in self._prepared:
            rows = [self._prepare(prompt, one) for one in self._stored.get(sample_id, [])]
            self.rejected.update(row.reason for row in rows if isinstance(row, OfflineRejection))
            self._prepared[sample_id] = [row for row in rows if isinstance(row, OfflineRow)]
        return self._prepared[sample_id]

    def remember(self, groups: Sequence[RolloutGroup]) -> None:
        """Offer the best rollout of each group to the replay buffer."""
        if not self._config.on or self._config.source != "replay":
            return
        for group in groups:
            for rollout, reward in zip(group.rollouts, group.rewards, strict=True):
                accuracy = reward.components.get("accuracy")
                if rollout.source == "offline" or reward.overall is None or accuracy is None:
                    continue
                row = prepare_offline(
                    f"{group.uid}-{rollout.index}",
                    rollout.token_ids,
                    eos=self._encoder.eos_token_ids,
                    max_response_length=self._max_response_length,
                    reward=reward.overall,
                    accuracy=accuracy,
                    problem_type=group.sample.problem_type,
                    min_offline_accuracy=self._config.min_offline_accuracy,
                    log_probs=rollout.log_probs,
                    finish_reason=rollout.finish_reason,
                )
                if isinstance(row, OfflineRow):
                    self.replay.add(group.sample.sample_id, row)

    def metrics(self) -> dict[str, float]:
        """`mix/rejected` and its reasons, counted over the run."""
        figures = {f"mix/rejected_{reason}": float(count) for reason, count in sorted(self.rejected.items())}
        return {"mix/rejected": float(sum(self.rejected.values())), **figures} if self._config.on else {}

    def _prepare(self, prompt: Prompt, trajectory: Trajectory) -> OfflineRow | OfflineRejection:
        token_ids, log_probs = self._tokens(trajectory)
        if set(token_ids) & set(self._encoder.media_token_ids):
            return OfflineRejection(trajectory_id=trajectory.trajectory_id, reason="media_tokens")
        text = self._encoder.decode(token_ids)
        rollout = Rollout(
            token_ids=token_ids,
            log_probs=None,
            finish_reason=trajectory.finish_reason,
            policy_version=-1,
            text=text,
            source="offline",
        )
        scored = score_rollouts(
            [prompt],
            [[rollout]],
            family=self._encoder.family,
            reward=self._reward,
            max_response_length=self._max_response_length,
        )
        reward = scored[0][0][1]
        return prepare_offline(
            trajectory.trajectory_id,
            token_ids,
            eos=self._encoder.eos_token_ids,
            max_response_length=self._max_response_length,
            reward=reward.overall,
            accuracy=reward.components.get("accuracy"),
            problem_type=prompt.sample.problem_type,
            min_offline_accuracy=self._config.min_offline_accuracy,
            log_probs=log_probs,
            finish_reason=trajectory.finish_reason,
        )

    def _tokens(self, trajectory: Trajectory) -> tuple[tuple[int, ...], tuple[float, ...] | None]:
        """Stored tokens where this tokenizer reads them as the stored text, else the text tokenised here."""
        stored = trajectory.token_ids
        size = len(self._encoder.tokenizer)
        if stored and max(stored) < size and self._encoder.decode(stored) == trajectory.response:
            return tuple(stored), trajectory.log_probs
        ids: Any = self._encoder.tokenizer(trajectory.response, add_special_tokens=False)["input_ids"]
        return tuple(int(token) for token in ids), None


def _stored_trajectories(config: MixConfig, dataset: Dataset) -> dict[str, list[Trajectory]]:
    if not config.on or config.source == "replay":
        return {}
    if config.source == "own":
        found = list(dataset.iter_trajectories(filter="source = 'offline'"))
    else:
        table = dataset.sql(str(config.sql))
        if "trajectory_id" not in table.column_names:
            raise ConfigError(
                f"algorithm.mix.sql: the query must give trajectory_id, not {table.column_names}"
            )
        wanted = set(table.column("trajectory_id").to_pylist())
        found = [one for one in dataset.iter_trajectories() if one.trajectory_id in wanted]
    by_sample: dict[str, list[Trajectory]] = {}
    for trajectory in found:
        by_sample.setdefault(trajectory.sample_id, []).append(trajectory)
    if not by_sample:
        logger.warning("algorithm.mix is on, but %s holds no trajectory that it selects", dataset.uri)
    return by_sample

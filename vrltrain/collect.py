"""The first half of a training step: prompts, rollouts, scores, rewards, and the groups that are kept.

Runs on rank 0. What is done with the groups is the work of `update`.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from vrldata.errors import RolloutError
from vrldata.trajectory_scores import success_threshold
from vrltrain.configs import RunConfig
from vrltrain.corrections import fresh_rows, staleness_counts
from vrltrain.filters import DynamicSampling
from vrltrain.inputs import Prompt, PromptEncoder
from vrltrain.mixing import (
    GroupPlan,
    OfflineRow,
    choose_offline,
    gate_opens,
    mix_metrics,
    plan_group,
    rows_to_replace,
)
from vrltrain.offline import OfflinePool
from vrltrain.prompts import PromptStream, load_prompt
from vrltrain.rewards import Reward, group_accuracy, reward_metrics
from vrltrain.scoring import score_rollouts
from vrltrain.types import Failure, Rollout, RolloutGroup, RolloutResult, SamplingParams, Timings

if TYPE_CHECKING:
    from vrldata.types import Score
    from vrltrain.rollout import RolloutEngine

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """What one step trains on, and what it cost.

    Attributes:
        groups: kept groups, at most `prompts_per_step`.
        generated: all groups of the step, for metrics and for the store.
        failures: samples that left, with their reasons.
        metrics: figures over everything that was generated.
    """

    groups: list[RolloutGroup]
    generated: list[RolloutGroup]
    failures: list[Failure]
    metrics: dict[str, float]


class Collector:
    """Draws prompts and turns them into scored groups. Its state is part of a checkpoint."""

    def __init__(
        self,
        config: RunConfig,
        encoder: PromptEncoder,
        engine: RolloutEngine,
        stream: PromptStream,
        offline: OfflinePool,
    ) -> None:
        self._config = config
        self._encoder = encoder
        self._engine = engine
        self.stream = stream
        self.offline = offline
        chosen = config.algorithm.filter
        self.dynamic: DynamicSampling[RolloutGroup] = DynamicSampling(
            rule=chosen.rule,
            key=chosen.key,
            min_std=chosen.min_std,
            low=chosen.low,
            high=chosen.high,
            max_tries=chosen.max_tries,
        )

    def collect(self, step: int, version: int, timings: Timings) -> Collected:
        """The groups of one step, counted from 1.

        Args:
            version: of the policy that will train on them, in updates; decides which left-over groups of
                dynamic sampling are too old.

        Raises:
            RolloutError: more than `max_failed_share` of the samples failed.
        """
        wanted = self._config.prompts_per_step
        filtered = self._config.algorithm.filter.enabled
        generated: list[RolloutGroup] = []
        failures: list[Failure] = []
        drawn = 0
        dropped = self._drop_stale(version)
        self.dynamic.start_step()
        while True:
            missing = wanted - len(self.dynamic.pending)
            prompts = self._draw(missing, failures, timings)
            drawn += missing
            groups = self._groups(prompts, step, self.dynamic.tries, failures, timings)
            generated += groups
            if not filtered:
                self.dynamic.pending += groups
                break
            self.dynamic.add((group, [_values(reward) for reward in group.rewards]) for group in groups)
            if self.dynamic.enough(wanted) or self.dynamic.exhausted:
                break
        self._check_failures(failures, drawn)
        self.offline.remember(generated)
        taken = self.dynamic.take(wanted)
        metrics = self._metrics(generated, failures, drawn)
        if self._config.algorithm.max_staleness > 0:
            ages = staleness_counts([group_version(group) for group in taken], version)
            metrics |= {f"staleness/groups_{age}": float(count) for age, count in ages.items()}
            metrics["staleness/dropped_groups"] = float(dropped)
        if filtered:
            metrics |= self.dynamic.metrics()
        return Collected(groups=taken, generated=generated, failures=failures, metrics=metrics)

    def _drop_stale(self, version: int) -> int:
        """Forget pending groups older than `max_staleness` updates; how many there were."""
        limit, pending = self._config.algorithm.max_staleness, self.dynamic.pending
        if limit == 0:
            return 0
        fresh = fresh_rows([group_version(group) for group in pending], version, limit)
        self.dynamic.pending = [group for group, kept in zip(pending, fresh.tolist(), strict=True) if kept]
        return len(pending) - len(self.dynamic.pending)

    def _draw(self, count: int, failures: list[Failure], timings: Timings) -> list[Prompt]:
        start = time.perf_counter()
        prompts = []
        for sample, clips in self.stream.take(count):
            prompt = load_prompt(self._encoder, sample, clips, template=self._config.data.template)
            if isinstance(prompt, Failure):
                logger.warning("sample %s left out (%s): %s", prompt.sample_id, prompt.stage, prompt.reason)
                failures.append(prompt)
            else:
                prompts.append(prompt)
        timings.add("data_wait", time.perf_counter() - start)
        return prompts

    def _groups(
        self, prompts: Sequence[Prompt], step: int, attempt: int, failures: list[Failure], timings: Timings
    ) -> list[RolloutGroup]:
        config, start = self._config, time.perf_counter()
        usable = [self.offline.usable(prompt) for prompt in prompts]
        plans = [
            plan_group(
                config.algorithm.mix,
                sample_id=prompt.sample.sample_id,
                n=config.rollout.n,
                num_usable=len(rows),
                step=step - 1,
                seed=config.seed,
            )
            for prompt, rows in zip(prompts, usable, strict=True)
        ]
        sampling = self.sampling(seed=config.seed * 1_000_003 + step * 101 + attempt)
        results = self._engine.generate(prompts, [plan.num_online for plan in plans], sampling)
        greedy = self._greedy_rewards(prompts)
        timings.add("rollout", time.perf_counter() - start)
        start = time.perf_counter()
        self._check_prompts(prompts, results, first=step == 1 and attempt == 0)
        alive = [number for number, result in enumerate(results) if not result.error]
        for result in results:
            if result.error:
                logger.warning("sample %s left out (rollout): %s", result.sample_id, result.error)
                failures.append(Failure(sample_id=result.sample_id, stage="rollout", reason=result.error))
        scored = self.score(
            [prompts[number] for number in alive], [results[number].rollouts for number in alive]
        )
        groups = []
        for number, rows in zip(alive, scored, strict=True):
            group = RolloutGroup(
                uid=f"{step}-{attempt}-{number}",
                sample=prompts[number].sample,
                rollouts=results[number].rollouts,
                scores=tuple(score for score, _ in rows),
                rewards=tuple(reward for _, reward in rows),
                prompt_tokens=len(results[number].prompt_token_ids),
                step=step,
                greedy_reward=greedy[number],
            )
            if self._config.algorithm.needs_greedy_rollout and greedy[number] is None:
                reason = "the greedy response, which is the baseline, could not be scored"
                failures.append(Failure(sample_id=group.sample.sample_id, stage="greedy", reason=reason))
                continue
            groups.append(self._mixed(group, plans[number], usable[number], prompts[number], step))
        timings.add("reward", time.perf_counter() - start)
        return groups

    def sampling(self, *, seed: int) -> SamplingParams:
        """How training responses are drawn."""
        rollout = self._config.rollout
        return SamplingParams(
            temperature=rollout.temperature,
            top_p=rollout.top_p,
            top_k=rollout.top_k,
            max_tokens=rollout.max_tokens,
            seed=seed,
        )

    def score(
        self, prompts: Sequence[Prompt], rollouts: Sequence[Sequence[Rollout]]
    ) -> list[list[tuple[Score, Reward]]]:
        """Score and reward of each rollout."""
        return score_rollouts(
            prompts,
            rollouts,
            family=self._encoder.family,
            reward=self._config.algorithm.reward,
            max_response_length=self._config.rollout.max_tokens,
        )

    def _greedy_rewards(self, prompts: Sequence[Prompt]) -> list[float | None]:
        """Reward of one greedy response to each prompt, for estimators that take it as a baseline."""
        if not self._config.algorithm.needs_greedy_rollout:
            return [None] * len(prompts)
        sampling = SamplingParams(temperature=0.0, max_tokens=self._config.rollout.max_tokens)
        results = self._engine.generate(prompts, [1] * len(prompts), sampling)
        scored = self.score(prompts, [result.rollouts for result in results])
        return [rows[0][1].overall if rows else None for rows in scored]

    def _mixed(
        self,
        group: RolloutGroup,
        plan: GroupPlan,
        usable: Sequence[OfflineRow],
        prompt: Prompt,
        step: int,
    ) -> RolloutGroup:
        """The group with stored trajectories behind its rollouts, or in the places of the worst ones."""
        mix = self._config.algorithm.mix
        accuracies = [reward.components.get("accuracy") for reward in group.rewards]
        if not plan.num_offline or (
            plan.gated and not gate_opens(mix, accuracies, group.sample.problem_type)
        ):
            return group
        rows = choose_offline(
            usable,
            plan.num_offline,
            sample_id=group.sample.sample_id,
            step=step,
            seed=self._config.seed,
        )
        joined = [self._offline_rollout(row) for row in rows]
        scored = self.score([prompt], [joined])[0]
        rollouts, scores, rewards = list(group.rollouts), list(group.scores), list(group.rewards)
        if plan.gated:
            places = rows_to_replace([reward.overall for reward in rewards], len(joined))
        else:
            places = list(range(len(rollouts), len(rollouts) + len(joined)))
        for place, rollout, (score, reward) in zip(places, joined, scored, strict=True):
            rollouts[place : place + 1] = [dataclasses.replace(rollout, index=place)]
            scores[place : place + 1] = [score]
            rewards[place : place + 1] = [reward]
        return dataclasses.replace(
            group, rollouts=tuple(rollouts), scores=tuple(scores), rewards=tuple(rewards)
        )

    def _offline_rollout(self, row: OfflineRow) -> Rollout:
        return Rollout(
            token_ids=row.token_ids,
            log_probs=row.log_probs,
            finish_reason="stop",
            policy_version=-1,
            text=self._encoder.decode(row.token_ids),
            source="offline",
            trajectory_id=row.trajectory_id,
            response_mask=row.response_mask,
        )

    def _check_prompts(
        self, prompts: Sequence[Prompt], results: Sequence[RolloutResult], *, first: bool
    ) -> None:
        """Engine and trainer must read the same prompt: all of the first batch, then one of each batch.

        Raises:
            RolloutError: they do not, so that training would see other inputs than the rollout.
        """
        for prompt, result in list(zip(prompts, results, strict=True))[: None if first else 1]:
            if result.error:
                continue
            ours = self._encoder.encode(prompt).input_ids.tolist()
            if list(result.prompt_token_ids) != ours:
                raise RolloutError(
                    f"sample {prompt.sample.sample_id}: the engine reads {len(result.prompt_token_ids)} "
                    f"prompt tokens, the trainer {len(ours)} other ones: engine and transformers disagree "
                    "about the model's inputs; check that their versions belong together"
                )

    def _check_failures(self, failures: Sequence[Failure], drawn: int) -> None:
        if len(failures) > self._config.max_failed_share * max(drawn, 1):
            last = failures[-1]
            raise RolloutError(
                f"{len(failures)} of {drawn} samples of this step failed, more than max_failed_share="
                f"{self._config.max_failed_share:g}; the last one, {last.sample_id} ({last.stage}): "
                f"{last.reason}"
            )

    def _metrics(
        self, groups: Sequence[RolloutGroup], failures: Sequence[Failure], drawn: int
    ) -> dict[str, float]:
        rows = [
            (group, rollout, reward)
            for group in groups
            for rollout, reward in zip(group.rollouts, group.rewards, strict=True)
        ]
        online = [row for row in rows if row[1].source == "rollout"]
        metrics = reward_metrics(
            [reward for _, _, reward in online],
            uid=[group.uid for group, _, _ in online],
            problem_types=[group.sample.problem_type for group, _, _ in online],
            statuses=[
                score.status
                for group in groups
                for rollout, score in zip(group.rollouts, group.scores, strict=True)
                if rollout.source == "rollout"
            ],
        )
        metrics |= group_accuracy(
            [reward.components.get("accuracy") for _, _, reward in online],
            uid=[group.uid for group, _, _ in online],
            thresholds=[success_threshold(group.sample.problem_type) for group, _, _ in online],
        )
        lengths = [len(rollout.token_ids) for _, rollout, _ in online]
        statuses = [score.status for group in groups for score in group.scores]
        if lengths:
            metrics["response/length_mean"] = sum(lengths) / len(lengths)
            metrics["response/length_max"] = float(max(lengths))
            cut = sum(rollout.finish_reason == "length" for _, rollout, _ in online)
            metrics["response/truncated_share"] = cut / len(online)
            metrics["prompt/length_mean"] = sum(group.prompt_tokens for group in groups) / len(groups)
            for status in sorted(set(statuses)):
                metrics[f"score/{status}_share"] = statuses.count(status) / len(statuses)
        metrics["data/failed_samples"] = float(len(failures))
        metrics["data/drawn_samples"] = float(drawn)
        for stage in sorted({failure.stage for failure in failures}):
            metrics[f"data/failed_{stage}"] = float(sum(one.stage == stage for one in failures))
        if self._config.algorithm.mix.on:
            metrics |= mix_metrics([(rollout, reward) for _, rollout, reward in rows])
        return metrics | self.offline.metrics()


def group_version(group: RolloutGroup) -> int:
    """Of the oldest policy that wrote one of its rollouts."""
    return min(rollout.policy_version for rollout in group.rollouts if rollout.source == "rollout")


def _values(reward: Reward) -> dict[str, float | None]:
    return {**reward.components, "overall": reward.overall}

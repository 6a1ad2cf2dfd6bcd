"""`vrltrain rollouts`: k responses to each question, scored and stored, for pass rates and distillation."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import vrldata
from vrldata.log import progress
from vrltrain.configs import RolloutsConfig
from vrltrain.data_checks import check_data, known_samples
from vrltrain.group_records import group_trajectories
from vrltrain.inputs import Prompt, load_encoder
from vrltrain.prompts import load_prompt
from vrltrain.rollout import make_engine
from vrltrain.scoring import score_rollouts
from vrltrain.trajectory_store import TrajectoryStore, open_trajectory_store
from vrltrain.types import Failure, RolloutGroup, SamplingParams

if TYPE_CHECKING:
    from vrldata.dataset import Dataset
    from vrldata.types import Sample
    from vrltrain.inputs import PromptEncoder
    from vrltrain.rollout import RolloutEngine

logger = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class RolloutsResult:
    """What was done.

    Attributes:
        samples: questions answered now.
        skipped: questions that had their responses from an earlier call with the same run_id.
        stored: responses added.
        failed: questions left out; the log gives each reason.
        accuracy: mean over the responses that could be scored; None without any.
    """

    samples: int = 0
    skipped: int = 0
    stored: int = 0
    failed: int = 0
    accuracy: float | None = None
    seconds: float = 0.0


def sample_responses(config: RolloutsConfig) -> RolloutsResult:
    """Sample, score and store; a batch is stored before the next begins, and a second call goes on there."""
    started = time.perf_counter()
    check_data(config.data, config.algorithm.reward, split=None)
    dataset = vrldata.open(config.data.train)
    logger.info("loading model %s", config.model.path)
    encoder = load_encoder(config.model.path)
    store = open_trajectory_store(config.trajectories, dataset, None)
    samples, skipped = _still_open(config, dataset, store)
    result = RolloutsResult(skipped=skipped)
    if not samples:
        result.seconds = time.perf_counter() - started
        return result
    rollout = config.rollout
    if rollout.dtype == "auto":
        rollout = rollout.model_copy(update={"dtype": config.model.dtype})
    engine = make_engine(rollout, encoder, config.model.path, seed=config.seed + skipped)
    accuracies: list[float] = []
    try:
        with progress("rollouts", total=len(samples), unit="samples") as bar:
            for number, part in enumerate(_batches(samples, config.batch_size)):
                groups, failed = _answer(config, dataset, encoder, engine, part, number)
                for group in groups:
                    accuracies += [score.accuracy for score in group.scores if score.accuracy is not None]
                trajectories = [
                    one
                    for group in groups
                    for one in group_trajectories(group, run_id=config.run_id, model=config.model.path)
                ]
                result.stored += store.add(trajectories)
                result.samples += len(groups)
                result.failed += failed
                bar.advance(len(part), failed=result.failed)
    finally:
        engine.close()
    result.accuracy = sum(accuracies) / len(accuracies) if accuracies else None
    result.seconds = time.perf_counter() - started
    return result


def _still_open(config: RolloutsConfig, dataset: Dataset, store: TrajectoryStore) -> tuple[list[Sample], int]:
    """(questions without n responses under this run_id, number of those that have them)."""
    from vrldata.commits import sql_text

    samples = known_samples(dataset.iter_samples(limit=config.limit), config.data.on_unknown_type)
    done: Counter[str] = Counter()
    if store.dataset is not None:
        wanted = f"run_id = {sql_text(config.run_id)} AND source = 'rollout'"
        table = store.dataset.trajectories.to_table(filter=wanted, columns=["sample_id"])
        done.update(table.column("sample_id").to_pylist())
    open_samples = [sample for sample in samples if done[sample.sample_id] < config.rollout.n]
    return open_samples, len(samples) - len(open_samples)


def _answer(
    config: RolloutsConfig,
    dataset: Dataset,
    encoder: PromptEncoder,
    engine: RolloutEngine,
    samples: Sequence[Sample],
    number: int,
) -> tuple[list[RolloutGroup], int]:
    """(scored groups, number of questions that failed) of one batch."""
    prompts: list[Prompt] = []
    failures: list[Failure] = []
    for sample in samples:
        prompt = load_prompt(encoder, sample, dataset=dataset, template=config.data.template)
        if isinstance(prompt, Failure):
            failures.append(prompt)
        else:
            prompts.append(prompt)
    sampling = _sampling(config, number)
    results = engine.generate(prompts, [config.rollout.n] * len(prompts), sampling)
    failures += [
        Failure(sample_id=result.sample_id, stage="rollout", reason=result.error)
        for result in results
        if result.error
    ]
    for failure in failures:
        logger.warning("sample %s left out (%s): %s", failure.sample_id, failure.stage, failure.reason)
    scored = score_rollouts(
        prompts,
        [result.rollouts for result in results],
        family=encoder.family,
        reward=config.algorithm.reward,
        max_response_length=config.rollout.max_tokens,
    )
    groups = [
        RolloutGroup(
            uid=prompt.sample.sample_id,
            sample=prompt.sample,
            rollouts=result.rollouts,
            scores=tuple(score for score, _ in rows),
            rewards=tuple(reward for _, reward in rows),
        )
        for prompt, result, rows in zip(prompts, results, scored, strict=True)
        if not result.error
    ]
    return groups, len(failures)


def _sampling(config: RolloutsConfig, number: int) -> SamplingParams:
    rollout = config.rollout
    return SamplingParams(
        temperature=rollout.temperature,
        top_p=rollout.top_p,
        top_k=rollout.top_k,
        max_tokens=rollout.max_tokens,
        seed=config.seed * 1_000_003 + number,
    )


def _batches(samples: Sequence[Sample], size: int) -> Iterator[Sequence[Sample]]:
    for start in range(0, len(samples), size):
        yield samples[start : start + size]

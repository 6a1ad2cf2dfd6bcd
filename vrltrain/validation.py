"""Validation: responses to the questions of `data.val`, scored, by problem type. Nothing is trained on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vrldata.trajectory_scores import success_threshold
from vrltrain.configs import RunConfig
from vrltrain.data_checks import known_samples
from vrltrain.inputs import Prompt, PromptEncoder
from vrltrain.prompts import load_prompt
from vrltrain.rewards import group_accuracy, reward_metrics
from vrltrain.scoring import score_rollouts
from vrltrain.types import Failure, SamplingParams

if TYPE_CHECKING:
    from vrldata.dataset import Dataset
    from vrltrain.rollout import RolloutEngine


def validate(
    config: RunConfig, dataset: Dataset, encoder: PromptEncoder, engine: RolloutEngine
) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """(figures named `validation/…`, some examples).

    Questions that failed are counted in `validation/failed`, and in the share that is right they count as
    wrong: a failure never raises a score. Those of a type that `data.on_unknown_type: skip` leaves out are no
    part of the data: `validation/skipped` counts them.
    """
    options = config.validation
    split = None if dataset.uri.split else "val"
    found = list(dataset.iter_samples(split=split, limit=options.limit))
    samples = known_samples(found, config.data.on_unknown_type)
    prompts: list[Prompt] = []
    failed = 0
    for sample in samples:
        prompt = load_prompt(encoder, sample, dataset=dataset, template=config.data.template)
        if isinstance(prompt, Failure):
            failed += 1
        else:
            prompts.append(prompt)
    sampling = SamplingParams(
        temperature=options.temperature, max_tokens=config.rollout.max_tokens, seed=config.seed
    )
    rewards, uids, types, accuracies, examples = [], [], [], [], []
    for start in range(0, len(prompts), options.batch_size):
        part = prompts[start : start + options.batch_size]
        results = engine.generate(part, [options.n] * len(part), sampling)
        scored = score_rollouts(
            part,
            [result.rollouts for result in results],
            family=encoder.family,
            reward=config.algorithm.reward,
            max_response_length=config.rollout.max_tokens,
        )
        for prompt, result, rows in zip(part, results, scored, strict=True):
            failed += bool(result.error)
            for rollout, (score, reward) in zip(result.rollouts, rows, strict=True):
                rewards.append(reward)
                uids.append(prompt.sample.sample_id)
                types.append(prompt.sample.problem_type)
                accuracies.append(score.accuracy)
                examples.append(example_row(0, prompt.sample, rollout.text, reward.overall, "validation"))
    figures = reward_metrics(rewards, uid=uids, problem_types=types)
    thresholds = [success_threshold(name) for name in types]
    figures |= group_accuracy(accuracies, uid=uids, thresholds=thresholds)
    named = {f"validation/{name}": value for name, value in figures.items()}
    named["validation/samples"] = float(len(samples))
    named["validation/skipped"] = float(len(found) - len(samples))
    named["validation/failed"] = float(failed)
    # a question that failed counts as wrong here: leaving questions out must not raise the score
    right = sum(accuracy or 0.0 for accuracy in accuracies) / options.n
    named["validation/accuracy_of_all"] = right / max(len(samples), 1)
    return named, examples[: config.num_examples]


def example_row(step: int, sample: Any, response: str, reward: float | None, kind: str) -> dict[str, Any]:
    """One response as the report shows it."""
    return {
        "step": step,
        "kind": kind,
        "sample_id": sample.sample_id,
        "problem_type": sample.problem_type,
        "problem": sample.problem,
        "answer": sample.answer,
        "response": response,
        "reward": reward,
    }

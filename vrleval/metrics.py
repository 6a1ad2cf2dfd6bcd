"""A metric of the user's own in place of the scoring rules (`--metric`).

What it is given and may return is the business of `vrldata.tasks.reward_functions`; here its values must lie
between 0 and 1, and one that fails counts 0 with its reason, as every failure does.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from vrldata.errors import ConfigError
from vrldata.tasks import RewardFunction
from vrldata.tasks.reward_functions import Outcome
from vrldata.types import Score
from vrleval.configs import RunConfig
from vrleval.types import Benchmark, Question

logger = logging.getLogger(__name__)

NUM_TRIED = 3
"""Questions that a metric is tried on before a model is loaded."""


def load_metric(config: RunConfig) -> RewardFunction | None:
    """The metric of a run; None where the scoring rules serve.

    Raises:
        ConfigError: it cannot be loaded or called, or takes a batch.
    """
    if config.metric is None:
        return None
    metric = RewardFunction(
        config.metric, config.metric_options, seconds=config.metric_seconds, purpose="--metric"
    )
    if metric.batch:
        raise ConfigError(
            f"--metric: {config.metric!r}: takes the whole batch, but an evaluation scores each response "
            "when it is there: name its first parameter `record`"
        )
    return metric


def try_metric(metric: RewardFunction, questions: Sequence[Question]) -> None:
    """Call a metric on the right answers to some questions.

    Raises:
        ConfigError: every call fails, or one returns something that is no value of a metric.
    """
    readable = [question for question in questions if not question.problem][:NUM_TRIED]
    if not readable:
        return
    failure = metric.check([_trial_record(question) for question in readable])
    if failure:
        logger.warning("--metric failed on one of the questions that it was tried on: %s", failure)


def _trial_record(question: Question) -> dict[str, Any]:
    sample = question.sample
    return {
        "problem": sample.problem,
        "problem_type": sample.problem_type,
        "data_type": sample.data_type,
        "response": f"<answer>{sample.answer}</answer>",
        "response_length": 8,
        "finish_reason": "stop",
        "ground_truth": sample.answer,
        "options": sample.options,
        "sample_id": sample.sample_id,
        "extra": {**sample.extra, "benchmark": question.benchmark},
    }


def score_by(metric: RewardFunction, record: Mapping[str, Any]) -> Score:
    """The score of one response: status `scored`, or `metric_failed` with its reason."""
    (outcome,) = metric.outcomes([record])
    value = _value(outcome)
    score = outcome.score
    if value is None:
        return dataclasses.replace(score, status="metric_failed", accuracy=0.0, overall=None, strict=0.0)
    if not 0.0 <= value <= 1.0:
        reason = f"the metric returned {value:g}; it lies between 0 and 1"
        return dataclasses.replace(score, status="metric_failed", accuracy=0.0, strict=0.0, reason=reason)
    return dataclasses.replace(score, status="scored", accuracy=value, strict=value, how="metric")


def _value(outcome: Outcome) -> float | None:
    return outcome.score.overall if outcome.given else outcome.score.accuracy


def with_metric(benchmark: Benchmark) -> Benchmark:
    """The benchmark as a metric scores it: no measure of its own rules is left for its headline."""
    headline = "micro" if benchmark.headline.startswith("part:") else benchmark.headline
    return dataclasses.replace(benchmark, metric="score", headline=headline, chance=None)

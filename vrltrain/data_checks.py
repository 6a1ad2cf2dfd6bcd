"""What is looked at before a model is loaded: all problem types, a user's reward function on some rows."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

import vrldata
from vrldata.errors import ConfigError
from vrldata.tasks.registry import PROBLEM_TYPES, resolved_sample, resolved_type, unknown_text
from vrldata.types import Sample
from vrltrain.configs import DataConfig
from vrltrain.rewards import RewardConfig
from vrltrain.scoring import reward_function, trial_records

if TYPE_CHECKING:
    from vrldata.dataset import Dataset

logger = logging.getLogger(__name__)

NUM_TRIED = 3
"""Questions, of different types where there are some, that a user's reward function is tried on."""


def check_data(data: DataConfig, reward: RewardConfig | None = None, *, split: str | None = "train") -> None:
    """Check all questions of `data.train` and `data.val`, then the reward function, and log counts by type.

    Args:
        reward: with the function to try; None where nothing is scored.
        split: of the training questions, where the URI names none; None for all.

    Raises:
        UriError: a dataset is not there. ConfigError: a problem type is unknown and `data.on_unknown_type` is
            `error`; all are skipped; or the reward function cannot serve.
    """
    function = None if reward is None else reward_function(reward)
    train = vrldata.open(data.train)
    check_problem_types(train, "data.train", split=split, on_unknown_type=data.on_unknown_type)
    if data.val is not None:
        check_problem_types(
            vrldata.open(data.val), "data.val", split="val", on_unknown_type=data.on_unknown_type
        )
    if function is not None:
        chosen = split if train.uri.split is None else None
        samples = _of_different_types(train, chosen, data.on_unknown_type)
        failure = function.check(trial_records(samples)) if samples else None
        if failure:
            logger.warning(
                "algorithm.reward.function failed on one of the rows that it was tried on: %s", failure
            )


def check_problem_types(
    dataset: Dataset, key: str, *, split: str | None, on_unknown_type: str
) -> dict[str, int]:
    """Questions by canonical problem type, those that are skipped left out; logged.

    Args:
        key: of the config that names the dataset, for messages.
        split: where the URI names none; None for all.

    Raises:
        ConfigError: a type is unknown and the policy is `error`, or no question is left.
    """
    from vrldata.selection import select

    chosen = split if dataset.uri.split is None else None
    # as the questions themselves are read: the limit of a URI counts after its shuffle
    table = select(dataset, "samples", split=chosen, columns=["problem_type"], shuffle=True)
    spellings = Counter(table.column("problem_type").to_pylist())
    counts: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    for spelling, count in spellings.items():
        canonical = resolved_type(spelling, "skip")
        if canonical is None:
            unknown[spelling] = count
            canonical = resolved_type(spelling, "skip" if on_unknown_type == "error" else on_unknown_type)
        if canonical is not None:
            counts[canonical] += count
    listed = ", ".join(f"{name!r} {count}" for name, count in unknown.most_common())
    where, total = f"{key}={dataset.uri}", sum(spellings.values())
    if unknown and on_unknown_type == "error":
        raise ConfigError(
            f"{where}: {unknown.total()} of {total} questions have an unknown problem_type ({listed}). "
            f"{unknown_text(unknown.most_common(1)[0][0])} Set data.on_unknown_type: open_ended or skip, or "
            f"build the dataset again with a known type: {', '.join(PROBLEM_TYPES)}"
        )
    if total and not counts:
        raise ConfigError(
            f"{where}: data.on_unknown_type: skip leaves nothing: all {total} questions have an unknown "
            f"problem_type ({listed}); set it to open_ended"
        )
    if unknown:
        became = "left out" if on_unknown_type == "skip" else "read as open_ended"
        logger.warning(
            "%s: %d of %d questions %s, of unknown problem_type: %s",
            where,
            unknown.total(),
            total,
            became,
            listed,
        )
    logger.info(
        "%s: %s",
        where,
        ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "no question",
    )
    return dict(sorted(counts.items()))


def known_samples(samples: Iterable[Sample], on_unknown_type: str) -> list[Sample]:
    """Samples under their canonical types, without those that are skipped.

    Raises:
        TaskError: a type is unknown and the policy is `error`.
    """
    resolved = (resolved_sample(sample, on_unknown_type) for sample in samples)
    return [sample for sample in resolved if sample is not None]


def _of_different_types(dataset: Dataset, split: str | None, on_unknown_type: str) -> list[Sample]:
    found: dict[str, Sample] = {}
    for sample in dataset.iter_samples(split=split):
        resolved = resolved_sample(sample, on_unknown_type)
        if resolved is not None:
            found.setdefault(resolved.problem_type, resolved)
        if len(found) == NUM_TRIED:
            break
    return list(found.values())

"""What is looked at before a model is loaded: that there is data, all problem types, a reward function."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import vrldata
from vrldata.errors import ConfigError
from vrldata.tasks.registry import PROBLEM_TYPES, resolved_sample, resolved_type, unknown_text
from vrldata.tasks.sandbox import check_sandbox
from vrldata.types import Sample
from vrltrain.configs import DataConfig
from vrltrain.inputs import check_model_path
from vrltrain.rewards import RewardConfig
from vrltrain.scoring import reward_function, trial_records

if TYPE_CHECKING:
    from vrldata.dataset import Dataset

logger = logging.getLogger(__name__)

NUM_TRIED = 3
"""Questions, of different types where there are some, that a user's reward function is tried on."""


def check_places(
    data: DataConfig, model_path: str, *, run_dir: str | None = None, split: str | None = "train"
) -> None:
    """What is told in a second, before any library of a model is imported: is there a model, is there data?

    Args:
        run_dir: of a run that may go on from a checkpoint of its own and then needs no other model.
        split: of the training questions, where the URI names none; None for all.

    Raises:
        UriError: the dataset is not there. ConfigError: there is no such model, or no sample to train on.
    """
    if run_dir is None or not (Path(run_dir).expanduser() / "checkpoints").is_dir():
        check_model_path(model_path)
    empty = why_empty(vrldata.open(data.train), "data.train", split=split)
    if empty is not None:
        raise ConfigError(empty)


def check_data(
    data: DataConfig, reward: RewardConfig | None = None, *, split: str | None = "train"
) -> dict[str, dict[str, int]]:
    """Check all questions of `data.train` and `data.val`, then the reward function, and log counts by type.

    Returns the questions by type under `train` and `val`; without `val` there is nothing to validate on.

    Args:
        reward: with the function to try; None where nothing is scored.
        split: of the training questions, where the URI names none; None for all.

    Raises:
        UriError: a dataset is not there. ConfigError: nothing is selected to train on; a problem type is
            unknown and `data.on_unknown_type` is `error`; all are skipped; or the reward function cannot
            serve. TaskError: code may be run and the machine grants no sandbox.
    """
    function = None if reward is None else reward_function(reward)
    if reward is not None and reward.scoring.allow_code_execution:
        check_sandbox()
    train = vrldata.open(data.train)
    empty = why_empty(train, "data.train", split=split)
    if empty is not None:
        raise ConfigError(empty)
    policy = data.on_unknown_type
    counts = {"train": check_problem_types(train, "data.train", split=split, on_unknown_type=policy)}
    if data.val is not None:
        val = vrldata.open(data.val)
        empty = why_empty(val, "data.val", split="val")
        if empty is None:
            counts["val"] = check_problem_types(val, "data.val", split="val", on_unknown_type=policy)
        else:
            logger.warning("%s; validation is left out", empty)
    if function is not None:
        chosen = split if train.uri.split is None else None
        samples = _of_different_types(train, chosen, data.on_unknown_type)
        failure = function.check(trial_records(samples)) if samples else None
        if failure:
            logger.warning(
                "algorithm.reward.function failed on one of the rows that it was tried on: %s", failure
            )
    return counts


def why_empty(dataset: Dataset, key: str, *, split: str | None) -> str | None:
    """Why a URI selects no sample, with the splits that there are; None where it selects one.

    Args:
        key: of the config that names the dataset.
        split: where the URI names none; None for all.
    """
    from vrldata.selection import select

    asked = dataset.uri.split or split
    found = Counter(dataset.lance("samples").to_table(columns=["split"]).column("split").to_pylist())
    listed = ", ".join(f"{name or '(none)'} {count}" for name, count in sorted(found.items(), key=str))
    place = f"{key}={dataset.uri}"
    if not found:
        return f"{place}: the dataset has no sample"
    if asked is not None and asked not in found:
        return f"{place}: no sample in split {asked!r}; samples by split: {listed}"
    chosen = split if dataset.uri.split is None else None
    if select(dataset, "samples", split=chosen, columns=["problem_type"], limit=1).num_rows:
        return None
    of_split = f" of split {asked!r}" if asked is not None else ""
    return f"{place}: its filter and limit select no sample{of_split}; samples by split: {listed}"


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

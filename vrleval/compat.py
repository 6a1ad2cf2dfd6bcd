"""Rules of other toolkits, offered for comparisons only and named in every result (`--compat NAME`).

`random`: LongVideoBench, Video-Holmes and MINERVA reference code guesses where it finds no letter.
`ovo`: OVO-Bench reference code takes the gold letter anywhere, all digits joined, and "Yes"/"No" contained.
`BENCHMARK-official`: the benchmark's own scorer (`vrldata.tasks.official`), on its own questions alone.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence
from functools import partial

from vrldata import tasks
from vrldata.errors import ConfigError, nearest
from vrldata.tasks.choices import letter_options
from vrldata.tasks.official import OFFICIAL
from vrldata.types import Sample
from vrleval.types import Prediction


def _random(prediction: Prediction, sample: Sample, seed: int) -> Prediction:
    if prediction.status not in ("unparsed", "ambiguous", "empty", "truncated") or not sample.options:
        return prediction
    letters = [letter for letter, _ in letter_options(sample.options)]
    guess = random.Random(f"{seed}:{prediction.key}").choice(letters)
    right = guess == sample.answer.strip()[:1].upper()
    return dataclasses.replace(
        prediction, status="scored", score=float(right), extracted=guess, how="compat:random"
    )


def _ovo(prediction: Prediction, sample: Sample, seed: int) -> Prediction:
    if prediction.groups.get("ovo_task") is None or not prediction.response:
        return prediction
    return _rescored(prediction, sample, "ovobench-official", "ovo")


def _official(prediction: Prediction, sample: Sample, seed: int, *, protocol: str) -> Prediction:
    if f"{prediction.benchmark}-official" != protocol or not prediction.response:
        return prediction
    return _rescored(prediction, sample, protocol, protocol)


def _rescored(prediction: Prediction, sample: Sample, protocol: str, name: str) -> Prediction:
    score = tasks.score(
        sample.problem_type,
        prediction.response,
        sample.answer,
        options=list(sample.options) or None,
        protocol=protocol,
        problem=sample.problem,
    )
    if score.status == "bad_ground_truth":
        return prediction
    return dataclasses.replace(
        prediction,
        status=score.status,
        score=score.accuracy,
        extracted=score.extracted,
        how=f"compat:{name}",
        reason=score.reason,
    )


COMPAT: dict[str, Callable[[Prediction, Sample, int], Prediction]] = {
    "random": _random,
    "ovo": _ovo,
    **{name: partial(_official, protocol=name) for name in OFFICIAL},
}


def check_compat(names: Sequence[str]) -> None:
    """Refuse unknown rules.

    Raises:
        ConfigError: no such rule.
    """
    for name in names:
        if name not in COMPAT:
            raise ConfigError(f"--compat {name}: unknown; known: {', '.join(COMPAT)}.{nearest(name, COMPAT)}")


def apply_compat(prediction: Prediction, sample: Sample, names: Sequence[str], seed: int) -> Prediction:
    """The prediction under the named rules; the strict score stays what it was."""
    for name in names:
        prediction = COMPAT[name](prediction, sample, seed)
    return prediction

"""Rules of other toolkits, offered for comparisons only and named in every result (`--compat NAME`).

`random`: LongVideoBench, Video-Holmes and MINERVA reference code guesses where it finds no letter.
`ovo`: OVO-Bench reference code takes the gold letter anywhere, all digits joined, and "Yes"/"No" contained.
"""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Callable, Sequence

from vrldata.errors import ConfigError, nearest
from vrldata.tasks.choices import letter_options
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
    task, text = prediction.groups["ovo_task"], prediction.response
    if task == "REC":
        found = "".join(re.findall(r"[0-9]", text))
        right = found == sample.answer.strip()
    elif task in ("SSR", "CRR"):
        gold = sample.answer.strip().capitalize()
        found = gold if text.strip() == gold[0] or gold in text else ""
        right = bool(found)
    else:
        found = sample.answer.strip()
        right = found in text
    return dataclasses.replace(
        prediction, status="scored", score=float(right), extracted=found if right else "", how="compat:ovo"
    )


COMPAT: dict[str, Callable[[Prediction, Sample, int], Prediction]] = {"random": _random, "ovo": _ovo}


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

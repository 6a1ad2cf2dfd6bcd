"""Named rule sets: each turns a record into a score. A published number names its protocol."""

from __future__ import annotations

from collections.abc import Callable

from vrldata.tasks.easyvideor1 import score_easyvideor1_train
from vrldata.tasks.easyvideor1_eval import score_easyvideor1_eval
from vrldata.tasks.official import OFFICIAL
from vrldata.tasks.reading import Record
from vrldata.tasks.scoring import score_train
from vrldata.tasks.tolerant import score_eval
from vrldata.types import Score

PROTOCOLS: dict[str, Callable[[Record], Score]] = {
    "train": score_train,
    "eval": score_eval,
    "easyvideor1-train": score_easyvideor1_train,
    "easyvideor1-eval": score_easyvideor1_eval,
    **OFFICIAL,
}
"""Protocol name to its rules: `train` strict, `eval` tolerant, the others those of the system they name."""

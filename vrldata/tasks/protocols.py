"""Named rule sets: each turns a record into a score. A published number names its protocol."""

from __future__ import annotations

from collections.abc import Callable

from vrldata.tasks.reading import Record
from vrldata.tasks.scoring import score_train
from vrldata.tasks.tolerant import score_eval
from vrldata.types import Score

PROTOCOLS: dict[str, Callable[[Record], Score]] = {"train": score_train, "eval": score_eval}

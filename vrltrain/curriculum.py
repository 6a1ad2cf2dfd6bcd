"""Curriculum by pass rate: questions from easy to hard, each epoch in order, or drawn around a moving target.

The pass rate is a column of the dataset that an earlier sampling run has written. Keys alone are held; clips
are handles, as in the other readers.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from vrldata.errors import ConfigError
from vrltrain.configs import CurriculumConfig

if TYPE_CHECKING:
    from vrldata.dataset import Dataset

DRAWS_PER_BLOCK = 64
"""Questions that are drawn with one set of weights."""


class CurriculumReader:
    """Rows of samples with handles of their clips, as `vrldata.readers` give them, in the curriculum's order.

    Raises:
        ConfigError: no sample has a pass rate.
    """

    def __init__(self, dataset: Dataset, config: CurriculumConfig, *, seed: int, split: str | None) -> None:
        from vrldata.readers.clips import ClipReader
        from vrldata.readers.order import select_samples

        self._config = config
        self._seed = seed
        self._order = select_samples(dataset, split=split, skip_missing=True)
        self._clips = ClipReader(self._order.uri)
        self._rates: list[float | None] = self._order.rows.column("pass_rate").to_pylist()
        if self._rates and all(rate is None for rate in self._rates):
            raise ConfigError(
                f"data.curriculum.by={config.by}: no sample of {dataset.uri} has a pass_rate; run `vrltrain "
                "rollouts` and `vrldata pass-rate URI --run RUN --write` first, or set it to none"
            )
        self._epoch = self._position = 0
        self._places: tuple[int, list[int]] = (-1, [])

    def __len__(self) -> int:
        """Samples of an epoch."""
        return len(self._order)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rest of the present epoch."""
        while self._position < len(self):
            (row,) = self._order.rows.take([self._next_place()]).to_pylist()
            # counted before the row leaves: what was yielded counts as done
            self._position += 1
            given = {name: row[name] for name in self._order.columns}
            yield {**given, "clips": self._clips.clips(row)}

    def next_epoch(self) -> None:
        """Go on with the epoch after this one."""
        self._epoch, self._position = self._epoch + 1, 0

    def state_dict(self) -> dict[str, Any]:
        """Epoch and position, as values that JSON can hold."""
        return self._order.state(self._epoch, self._position)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` was saved.

        Raises:
            StoreError: it was saved over other samples.
        """
        self._epoch, self._position = self._order.restore(state)

    def _next_place(self) -> int:
        if self._config.by == "order":
            return self._places_of(self._epoch)[self._position]
        drawn = self._epoch * len(self) + self._position
        return self._places_of(drawn // DRAWS_PER_BLOCK)[drawn % DRAWS_PER_BLOCK]

    def _places_of(self, number: int) -> list[int]:
        """Row numbers of an epoch, or of a block of draws; a function of the seed and `number` alone."""
        if self._places[0] != number:
            config, seed = self._config, f"{self._seed}/{number}"
            if config.by == "order":
                places = curriculum_order(self._rates, seed=seed, buckets=config.buckets)
            else:
                weights = curriculum_weights(
                    self._rates,
                    number * DRAWS_PER_BLOCK / config.num_samples,
                    start=config.start,
                    end=config.end,
                    width=config.width,
                    floor=config.floor,
                )
                rows = range(len(self))
                places = random.Random(seed).choices(rows, weights=weights, k=DRAWS_PER_BLOCK)
            self._places = (number, places)
        return self._places[1]


def curriculum_order(pass_rates: Sequence[float | None], *, seed: int | str, buckets: int = 5) -> list[int]:
    """Row numbers from easy (high pass rate) to hard, shuffled inside each of `buckets` equal classes of
    pass rate.

    Rows of unknown pass rate are spread evenly over the whole order. The same seed gives the same order.
    """
    generator = random.Random(seed)
    position: list[tuple[float, float, int]] = []
    for row, rate in enumerate(pass_rates):
        easiness = generator.random() if rate is None else min(max(rate, 0.0), 1.0)
        bucket = min(int(easiness * buckets), buckets - 1)
        position.append((-bucket, generator.random(), row))
    return [row for _, _, row in sorted(position)]


def curriculum_weights(
    pass_rates: Sequence[float | None],
    progress: float,
    *,
    start: float = 0.8,
    end: float = 0.3,
    width: float = 0.25,
    floor: float = 0.05,
) -> list[float]:
    """Sampling weight of each row when training has come to `progress` (0 to 1).

    A bell of `width` around a target pass rate that moves from `start` (easy) to `end` (hard), never below
    `floor`; a row of unknown pass rate gets the mean of the others.
    """
    target = start + (end - start) * min(max(progress, 0.0), 1.0)
    bells = [
        None if rate is None else max(math.exp(-0.5 * ((rate - target) / width) ** 2), floor)
        for rate in pass_rates
    ]
    known = [bell for bell in bells if bell is not None]
    typical = sum(known) / len(known) if known else 1.0
    return [typical if bell is None else bell for bell in bells]

"""Which groups and samples carry signal: dynamic sampling, pass rates, curriculum. No torch.

Dynamic sampling looks at groups that were just generated; the pass rate is a column of the dataset that
was written by an earlier sampling run, so that a cut by it is a plain predicate.
"""

from __future__ import annotations

import math
import random
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from vrldata.errors import ConfigError, nearest

FILTER_RULES = ("std", "range")

ZERO_ONE_TYPES = frozenset({"multiple_choice", "numerical", "boolean", "math", "preference"})
"""Problem types whose accuracy is 0 or 1; all others are graded."""

GroupT = TypeVar("GroupT")
Value = float | None | Mapping[str, float | None]


def has_signal(
    values: Sequence[Value],
    *,
    rule: str = "std",
    key: str = "accuracy",
    min_std: float = 1e-6,
    low: float = 0.01,
    high: float = 0.99,
) -> bool:
    """True when the rows of one group differ enough to train on.

    Args:
        values: one number for each row, or its components by name (then `key` is read); None for a row that
            could not be scored, which takes no part.
        rule: `std`: highest minus lowest above `min_std` (Yu et al., "DAPO", 2025, equation 11). `range`:
            mean strictly between `low` and `high`.

    >>> has_signal([1.0, 0.0, None]), has_signal([0.5, 0.5])
    (True, False)
    """
    picked = (value.get(key) if isinstance(value, Mapping) else value for value in values)
    scored = [float(value) for value in picked if value is not None]
    if rule == "std":
        return len(scored) > 1 and max(scored) - min(scored) > min_std
    if rule == "range":
        return bool(scored) and low < sum(scored) / len(scored) < high
    raise ConfigError(f"unknown filter rule {rule!r}: expected std or range.{nearest(rule, FILTER_RULES)}")


def keep_groups(
    groups: Mapping[Hashable, Sequence[Value]],
    *,
    rule: str = "std",
    key: str = "accuracy",
    min_std: float = 1e-6,
    low: float = 0.01,
    high: float = 0.99,
) -> list[Hashable]:
    """Names of the groups that `has_signal` keeps, in their order."""
    options = {"rule": rule, "key": key, "min_std": min_std, "low": low, "high": high}
    return [name for name, values in groups.items() if has_signal(values, **options)]  # type: ignore[arg-type]


@dataclass(slots=True, kw_only=True)
class DynamicSampling(Generic[GroupT]):
    """Collects groups with signal until a step has enough; what is left over serves the next step.

    The loop: `start_step()`, then `add` what was generated until `enough(n)` or `exhausted`, then
    `take(n)`. A try that keeps nothing is no error. `pending` is part of a checkpoint.

    Attributes:
        rule, key, min_std, low, high: of `has_signal`.
        max_tries: generations of a step before it goes on with what it has.
        pending: kept groups that no step has used yet.
    """

    rule: str = "std"
    key: str = "accuracy"
    min_std: float = 1e-6
    low: float = 0.01
    high: float = 0.99
    max_tries: int = 20
    pending: list[GroupT] = field(default_factory=list)
    tries: int = 0
    generated: int = 0
    kept: int = 0

    def start_step(self) -> None:
        """Forget the counts of the step before; pending groups stay."""
        self.tries = self.generated = self.kept = 0

    def add(self, groups: Iterable[tuple[GroupT, Sequence[Value]]]) -> int:
        """Take in one generation: each group with the values of its rows. Returns how many were kept."""
        kept_before = self.kept
        self.tries += 1
        for group, values in groups:
            self.generated += 1
            if has_signal(
                values, rule=self.rule, key=self.key, min_std=self.min_std, low=self.low, high=self.high
            ):
                self.pending.append(group)
                self.kept += 1
        return self.kept - kept_before

    def enough(self, num_groups: int) -> bool:
        """True when a step of `num_groups` can be filled."""
        return len(self.pending) >= num_groups

    @property
    def exhausted(self) -> bool:
        """True when this step has used its tries."""
        return self.tries >= self.max_tries

    def take(self, num_groups: int) -> list[GroupT]:
        """The oldest pending groups, at most `num_groups`; the rest is kept for the next step."""
        taken, self.pending = self.pending[:num_groups], self.pending[num_groups:]
        return taken

    def metrics(self) -> dict[str, float]:
        """Figures over all groups generated in this step, not only the kept ones."""
        return {
            "filter/kept_share": self.kept / self.generated if self.generated else 0.0,
            "filter/generated_groups": float(self.generated),
            "filter/tries": float(self.tries),
            "filter/pending_groups": float(len(self.pending)),
        }


def success_threshold(problem_type: str, threshold: float | None = None) -> float:
    """Accuracy from which a response counts as right: `threshold`, else 1.0 for 0/1 types and 0.5 for
    graded ones.

    `problem_type` is a canonical name.
    """
    if threshold is not None:
        return threshold
    return 1.0 if problem_type in ZERO_ONE_TYPES else 0.5


def pass_rate(
    accuracies: Sequence[float | None], problem_type: str, threshold: float | None = None
) -> tuple[float | None, int]:
    """(share of right responses, number of scored responses); the share is None where none could be scored.

    >>> pass_rate([1.0, 0.0, None, 1.0], "multiple_choice")
    (0.6666666666666666, 3)
    """
    scored = [accuracy for accuracy in accuracies if accuracy is not None]
    if not scored:
        return None, 0
    least = success_threshold(problem_type, threshold)
    return sum(accuracy >= least - 1e-9 for accuracy in scored) / len(scored), len(scored)


def pass_rate_predicate(low: float = 0.0, high: float = 1.0, *, keep_unknown: bool = False) -> str:
    """Predicate of a dataset URI or filter that keeps samples with low < pass_rate < high.

    >>> pass_rate_predicate()
    'pass_rate > 0.0 AND pass_rate < 1.0'
    """
    if not 0 <= low < high <= 1:
        raise ConfigError(f"pass rate bounds: need 0 <= low < high <= 1, found low {low} and high {high}")
    inside = f"pass_rate > {float(low)!r} AND pass_rate < {float(high)!r}"
    return f"(({inside}) OR pass_rate IS NULL)" if keep_unknown else inside


def curriculum_order(pass_rates: Sequence[float | None], *, seed: int, buckets: int = 5) -> list[int]:
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

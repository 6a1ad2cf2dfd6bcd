"""Which groups carry signal: the rules, and dynamic sampling by them. No torch.

They look at groups that were just generated. The pass rate of earlier responses is a column of the dataset:
a cut by it is a predicate of `data.train`, an order by it is `curriculum`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from vrldata.errors import ConfigError, nearest

FILTER_RULES = ("std", "range")

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

"""95 % intervals of means and differences: Wilson for right or wrong, clustered bootstrap for the rest.

Pure numbers; what is averaged over what is decided in `aggregate`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Z_95 = 1.959963984540054
"""Two-sided 95 % quantile of the normal distribution."""

NUM_RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Unit:
    """What is counted once in a mean: a question, or several that are scored together.

    Attributes:
        value: 0 to 1.
        cluster: units that may share luck, such as the questions of one video.
    """

    value: float
    cluster: str


Tree = Sequence[Unit] | Mapping[str, "Tree"]
"""A plain mean over units, or an unweighted mean over the figures of named parts, to any depth."""


def tree_mean(tree: Tree) -> float | None:
    """The figure of a tree; parts without any unit do not count. None when there is no unit at all."""
    if isinstance(tree, Mapping):
        values = [value for part in tree.values() if (value := tree_mean(part)) is not None]
    else:
        values = [unit.value for unit in tree]
    return math.fsum(values) / len(values) if values else None


def num_units(tree: Tree) -> int:
    """Units in all parts of a tree."""
    if isinstance(tree, Mapping):
        return sum(num_units(part) for part in tree.values())
    return len(tree)


def wilson_interval(num_right: float, total: int) -> tuple[float, float]:
    """Wilson's score interval of a proportion (Wilson 1927), 95 %.

    centre = (p + z^2/2n) / (1 + z^2/n);  half = z/(1 + z^2/n) * sqrt(p(1-p)/n + z^2/4n^2)

    >>> low, high = wilson_interval(8, 10)
    >>> round(low, 4), round(high, 4)
    (0.4902, 0.9433)
    """
    if total <= 0:
        return 0.0, 1.0
    p, z2 = num_right / total, Z_95**2
    centre = (p + z2 / (2 * total)) / (1 + z2 / total)
    half = Z_95 / (1 + z2 / total) * math.sqrt(p * (1 - p) / total + z2 / (4 * total * total))
    return max(0.0, centre - half), min(1.0, centre + half)


def bootstrap_interval(
    tree: Tree, *, seed: int = 0, num_resamples: int = NUM_RESAMPLES, lowest: float = 0.0
) -> tuple[float, float]:
    """Percentile bootstrap (Efron 1979) of a tree's figure, 95 %, clusters drawn with replacement.

    Each part of an unweighted mean is resampled by itself, so that every part keeps its clusters' number.
    Where all resamples agree (one cluster, or equal ones) the bootstrap says nothing. Then up to a share
    q = 1 - 0.025^(1/n) of clusters may be of a kind that none of the n seen is (Clopper and Pearson 1934, for
    0 of n), with any value from `lowest` to 1.
    """
    means = _resampled(tree, np.random.default_rng(seed), num_resamples)
    if means is None:
        return lowest, 1.0
    low, high = (float(end) for end in np.quantile(means, [0.025, 0.975]))
    if high - low > 1e-12:
        return low, high
    unseen = 1.0 - 0.025 ** (1.0 / _num_clusters(tree))
    return low - unseen * (low - lowest), high + unseen * (1.0 - high)


def _num_clusters(tree: Tree) -> int:
    """Of the smallest part that has any."""
    if isinstance(tree, Mapping):
        return min((_num_clusters(part) for part in tree.values() if num_units(part)), default=0)
    return len({unit.cluster for unit in tree})


def _resampled(tree: Tree, generator: np.random.Generator, num_resamples: int) -> NDArray[np.float64] | None:
    """float64 (num_resamples,): the tree's figure in each resample; None without units."""
    if isinstance(tree, Mapping):
        parts = [_resampled(part, generator, num_resamples) for part in tree.values()]
        known = [part for part in parts if part is not None]
        return np.mean(known, axis=0) if known else None
    if not tree:
        return None
    sums, counts = _cluster_sums(tree)
    weights = generator.multinomial(len(sums), np.full(len(sums), 1 / len(sums)), size=num_resamples)
    result: NDArray[np.float64] = (weights @ sums) / (weights @ counts)
    return result


def _cluster_sums(units: Sequence[Unit]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    sums: dict[str, float] = {}
    counts: dict[str, int] = {}
    for unit in units:
        sums[unit.cluster] = sums.get(unit.cluster, 0.0) + unit.value
        counts[unit.cluster] = counts.get(unit.cluster, 0) + 1
    return np.array(list(sums.values())), np.array([float(counts[name]) for name in sums])


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Two models on the same questions, b minus a.

    Attributes:
        value: mean difference.
        low: lower end of the 95 % interval.
        high: upper end.
        p_value: two-sided, of a sign-flip test of the hypothesis that both are alike.
        num_units: questions that both have.
        num_better: where b scores more.
        num_worse: where b scores less.
    """

    value: float
    low: float
    high: float
    p_value: float
    num_units: int
    num_better: int
    num_worse: int


def paired_difference(
    pairs: Sequence[tuple[float, float, str]], *, seed: int = 0, num_resamples: int = NUM_RESAMPLES
) -> Difference | None:
    """Difference of two means over pairs (score of a, score of b, cluster), by clustered resampling.

    The interval is the percentile bootstrap of the mean difference; the p-value flips the sign of whole
    clusters at random (Fisher's randomisation test). Both see the pairing, which removes the difficulty of
    the questions from the comparison. None without pairs.
    """
    if not pairs:
        return None
    units = [Unit(b - a, cluster) for a, b, cluster in pairs]
    generator = np.random.default_rng(seed)
    sums, _ = _cluster_sums(units)
    observed = float(sums.sum()) / len(units)
    low, high = bootstrap_interval(units, seed=seed, num_resamples=num_resamples, lowest=-1.0)
    signs = generator.integers(0, 2, size=(num_resamples, len(sums))) * 2 - 1
    flipped = np.abs(signs @ sums) / len(units)
    at_least = int(np.count_nonzero(flipped >= abs(observed) - 1e-12))
    return Difference(
        value=observed,
        low=low,
        high=high,
        p_value=(at_least + 1) / (num_resamples + 1),
        num_units=len(units),
        num_better=sum(unit.value > 0 for unit in units),
        num_worse=sum(unit.value < 0 for unit in units),
    )

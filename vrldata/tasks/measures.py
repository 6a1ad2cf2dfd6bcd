"""Measures of agreement as plain arithmetic: overlap, relative accuracy, n-gram overlap, edit distance."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Span = tuple[float, float]
Box = tuple[float, float, float, float]
Item = TypeVar("Item", bound=Hashable)

EQUAL_WITHIN = 1e-6
"""Two degenerate spans or boxes are the same when no coordinate differs by more."""


def merge_spans(spans: Sequence[Span]) -> list[Span]:
    """`spans` sorted, with overlapping and touching ones joined.

    >>> merge_spans([(4, 6), (0, 2), (1, 3)])
    [(0, 3), (4, 6)]
    """
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def iou_1d(predicted: Sequence[Span], key: Sequence[Span]) -> float:
    """Intersection over union of two sets of spans; 1 for equal sets of instants.

    >>> round(iou_1d([(5, 10)], [(3, 8)]), 4)
    0.4286
    """
    first, second = merge_spans(predicted), merge_spans(key)
    union = _length(merge_spans([*first, *second]))
    if union <= 0:
        return float(
            len(first) == len(second) and all(_same(a, b) for a, b in zip(first, second, strict=True))
        )
    return min(1.0, max(0.0, (_length(first) + _length(second) - union) / union))


def _length(spans: Sequence[Span]) -> float:
    return math.fsum(end - start for start, end in spans)


def _same(first: Sequence[float], second: Sequence[float]) -> bool:
    return all(abs(a - b) <= EQUAL_WITHIN for a, b in zip(first, second, strict=True))


def iou_2d(predicted: Box, key: Box) -> float:
    """Intersection over union of two boxes (x1, y1, x2, y2); 1 for equal boxes without area.

    >>> round(iou_2d((5, 5, 15, 15), (0, 0, 10, 10)), 4)
    0.1429
    """
    width = min(predicted[2], key[2]) - max(predicted[0], key[0])
    height = min(predicted[3], key[3]) - max(predicted[1], key[1])
    shared = max(0.0, width) * max(0.0, height)
    union = box_area(predicted) + box_area(key) - shared
    if union <= 0:
        return float(_same(predicted, key))
    return min(1.0, shared / union)


def box_area(box: Box) -> float:
    """Area of a box with ordered corners."""
    return (box[2] - box[0]) * (box[3] - box[1])


def best_assignment(gains: Sequence[Sequence[float]]) -> float:
    """Largest sum of `gains[i][j]` over one-to-one pairings of rows and columns.

    Shortest augmenting paths (Jonker and Volgenant 1987), O(rows² · columns).

    >>> best_assignment([[0.1, 0.9], [0.8, 0.9]])
    1.7
    """
    if not gains or not gains[0]:
        return 0.0
    if len(gains) > len(gains[0]):
        gains = [list(column) for column in zip(*gains, strict=True)]
    rows, columns = len(gains), len(gains[0])
    row_price, column_price = [0.0] * (rows + 1), [0.0] * (columns + 1)
    owner = [0] * (columns + 1)
    for row in range(1, rows + 1):
        owner[0], column = row, 0
        slack, came_from, done = [math.inf] * (columns + 1), [0] * (columns + 1), [False] * (columns + 1)
        while owner[column]:
            done[column] = True
            current, step, following = owner[column], math.inf, 0
            for candidate in range(1, columns + 1):
                if done[candidate]:
                    continue
                reduced = -gains[current - 1][candidate - 1] - row_price[current] - column_price[candidate]
                if reduced < slack[candidate]:
                    slack[candidate], came_from[candidate] = reduced, column
                if slack[candidate] < step:
                    step, following = slack[candidate], candidate
            for candidate in range(columns + 1):
                if done[candidate]:
                    row_price[owner[candidate]] += step
                    column_price[candidate] -= step
                else:
                    slack[candidate] -= step
            column = following
        while column:
            owner[column] = owner[came_from[column]]
            column = came_from[column]
    return math.fsum(
        gains[owner[column] - 1][column - 1] for column in range(1, columns + 1) if owner[column]
    )


def mean_relative_accuracy(predicted: float, key: float) -> float:
    """Share of the thresholds 0.50, 0.55 .. 0.95 with |p-g|/|g| <= 1 - threshold (VSI-Bench, with `<=`).

    A key of 0 has no relative error: 1 where |p| <= 1e-6, else 0.

    >>> mean_relative_accuracy(50, 40)
    0.6
    """
    if key == 0:
        return float(abs(predicted) <= 1e-6)
    error = abs(predicted - key) / abs(key)
    return sum(error <= 1 - percent / 100 + 1e-9 for percent in range(50, 100, 5)) / 10


def overlap_f1(predicted: Mapping[Item, int], key: Mapping[Item, int]) -> float:
    """F1 of two multisets given as counts; 0 where either is empty."""
    total = sum(predicted.values()) + sum(key.values())
    if not predicted or not key:
        return 0.0
    return 2 * sum(min(count, key.get(item, 0)) for item, count in predicted.items()) / total


def rouge_n(predicted: Sequence[str], key: Sequence[str], n: int) -> float | None:
    """ROUGE-N F1 (Lin 2004) of token lists; None where the key has fewer than `n` tokens."""
    if len(key) < n:
        return None
    return overlap_f1(Counter(_ngrams(predicted, n)), Counter(_ngrams(key, n)))


def _ngrams(words: Sequence[str], n: int) -> list[Hashable]:
    return [tuple(words[index : index + n]) for index in range(len(words) - n + 1)]


def rouge_l(predicted: Sequence[str], key: Sequence[str]) -> float | None:
    """ROUGE-L F1 (Lin 2004): longest common subsequence of token lists; None where the key is empty."""
    if not key:
        return None
    if not predicted:
        return 0.0
    return 2 * _longest_common(predicted, key) / (len(predicted) + len(key))


def _longest_common(first: Sequence[str], second: Sequence[str]) -> int:
    similarity: Callable[..., float]
    try:
        from rapidfuzz.distance.LCSseq import similarity
    except ImportError as error:
        from vrldata.errors import missing_extra

        raise missing_extra("rapidfuzz", "tasks", "scoring text") from error
    return int(similarity(first, second))


def error_rate(predicted: Sequence[str], key: Sequence[str]) -> float:
    """Levenshtein distance over the length of a non-empty key, capped at 1: WER of words, CER of characters.

    >>> error_rate("the quick brown dog".split(), "the quick brown fox".split())
    0.25
    """
    if abs(len(predicted) - len(key)) >= len(key):
        return 1.0
    try:
        from rapidfuzz.distance.Levenshtein import distance
    except ImportError as error:
        from vrldata.errors import missing_extra

        raise missing_extra("rapidfuzz", "tasks", "scoring text") from error
    return min(1.0, distance(predicted, key) / len(key))

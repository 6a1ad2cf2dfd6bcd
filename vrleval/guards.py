"""Checks that a figure is worth believing: below chance, many unread answers, failures, partial data.

They warn and never change a figure.
"""

from __future__ import annotations

from collections.abc import Sequence

from vrleval.types import UNSCORED, Benchmark, BenchmarkResult, Prediction

MAX_UNREAD_SHARE = 0.05
MAX_TRUNCATED_SHARE = 0.02
MIN_QUESTIONS = 30
"""Below this many questions a rate says nothing about the harness."""


def warnings_for(
    benchmark: Benchmark, predictions: Sequence[Prediction], result: BenchmarkResult
) -> list[str]:
    """What makes the figures of this result doubtful, one line each."""
    total = len(predictions)
    if not total:
        return ["no question was asked"]
    warnings: list[str] = []
    chance = benchmark.chance if benchmark.chance is not None else expected_chance(predictions)
    value = result.headline.value
    if chance and value is not None and total >= MIN_QUESTIONS and (result.headline.high or 0.0) < chance:
        warnings.append(
            f"{100 * value:.1f} is below chance ({100 * chance:.1f}): check prompt, frames and answer format"
        )
    unread = sum(result.statuses.get(status, 0) for status in ("unparsed", "ambiguous", "empty"))
    if unread / total > MAX_UNREAD_SHARE:
        warnings.append(f"{100 * unread / total:.1f} % of the answers could not be read and count as wrong")
    truncated = result.statuses.get("truncated", 0)
    if truncated / total > MAX_TRUNCATED_SHARE:
        warnings.append(
            f"{100 * truncated / total:.1f} % of the responses were cut off before their answer: "
            "raise --max-tokens"
        )
    if result.num_failed:
        warnings.append(f"{result.num_failed} questions failed and count as wrong")
    waiting = sum(result.statuses.get(status, 0) for status in UNSCORED)
    if waiting:
        warnings.append(
            f"{waiting} questions wait for a judge or a simulator: no headline before `vrleval judge FOLDER "
            "--model MODEL --base-url URL` (its --help has an example)"
        )
    if result.num_expected and total < result.num_expected:
        warnings.append(f"partial: {total} of {result.num_expected} questions of the complete benchmark")
    if benchmark.headline.startswith("macro:"):
        warnings += _label_warnings(benchmark.headline.removeprefix("macro:"), predictions)
    return warnings


def _label_warnings(field: str, predictions: Sequence[Prediction]) -> list[str]:
    without = sum(not prediction.groups.get(field) for prediction in predictions)
    if without == len(predictions):
        return [
            f"the annotations carry no {field}: the headline is the micro average, not the official macro one"
        ]
    return [f"{without} questions carry no {field} and count as one of their own"] if without else []


def expected_chance(predictions: Sequence[Prediction]) -> float | None:
    """Accuracy of guessing among each question's own options; None unless every question has options."""
    shares = [1 / len(prediction.options) for prediction in predictions if len(prediction.options) > 1]
    return sum(shares) / len(shares) if len(shares) == len(predictions) and shares else None

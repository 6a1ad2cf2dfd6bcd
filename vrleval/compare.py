"""Two runs on the same questions: paired differences with intervals."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from vrldata.errors import BenchmarkError
from vrleval.intervals import Difference, paired_difference
from vrleval.results import RunResult
from vrleval.types import Prediction


def compare_runs(a: RunResult, b: RunResult) -> dict[str, Any]:
    """Differences b minus a by benchmark and by problem type, over questions that both have a score for.

    Raises:
        BenchmarkError: the runs have no scored question in common.
    """
    first = {one.key: one for one in a.predictions if one.score is not None}
    second = {one.key: one for one in b.predictions if one.score is not None}
    shared = [key for key in first if key in second]
    if not shared:
        raise BenchmarkError(
            f"{a.folder} and {b.folder} have no scored question in common: "
            "they ran on other benchmarks, other data, or other parts of it"
        )
    names = dict.fromkeys(first[key].benchmark for key in shared)
    return {
        "a": _identity(a),
        "b": _identity(b),
        "num_shared": len(shared),
        "num_only_a": len(first) - len(shared),
        "num_only_b": len(second) - len(shared),
        "notes": _notes(a, b),
        "benchmarks": {
            name: _differences([(first[key], second[key]) for key in shared if first[key].benchmark == name])
            for name in names
        },
    }


def _identity(run: RunResult) -> dict[str, Any]:
    return {
        "folder": str(run.folder),
        "model": run.manifest.get("model_name", ""),
        "preset": run.manifest.get("preset", ""),
        "config_digest": run.manifest.get("config_digest", ""),
    }


def _notes(a: RunResult, b: RunResult) -> list[str]:
    """What differs between the runs beside the model, since it may explain a difference."""
    first, second = a.manifest.get("decides", {}), b.manifest.get("decides", {})
    return [
        f"{name} differs: {first.get(name)!r} and {second.get(name)!r}"
        for name in sorted({*first, *second})
        if name != "model" and first.get(name) != second.get(name)
    ]


def _differences(pairs: list[tuple[Prediction, Prediction]]) -> dict[str, Any]:
    by_type: dict[str, list[tuple[Prediction, Prediction]]] = {}
    for pair in pairs:
        by_type.setdefault(pair[0].problem_type or "unknown", []).append(pair)
    result: dict[str, Any] = {"all": _difference(pairs)}
    if len(by_type) > 1:
        result.update({name: _difference(by_type[name]) for name in sorted(by_type)})
    return result


def _difference(pairs: list[tuple[Prediction, Prediction]]) -> dict[str, Any]:
    scores = [(one.score or 0.0, other.score or 0.0, one.video or one.key) for one, other in pairs]
    found = paired_difference(scores)
    assert isinstance(found, Difference)
    return {
        "a": sum(score for score, _, _ in scores) / len(scores),
        "b": sum(score for _, score, _ in scores) / len(scores),
        **asdict(found),
    }


def comparison_text(values: dict[str, Any]) -> str:
    """The comparison as a table for the terminal."""
    lines = [
        f"a: {values['a']['model']} ({values['a']['preset']}, {values['a']['folder']})",
        f"b: {values['b']['model']} ({values['b']['preset']}, {values['b']['folder']})",
        f"{values['num_shared']} questions in common; only in a: {values['num_only_a']}, "
        f"only in b: {values['num_only_b']}",
        *(f"! {note}" for note in values["notes"]),
        "",
        f"{'':<36}{'a':>7}{'b':>7}{'b - a':>8}  {'95 %':<16}{'p':>7}{'better':>8}{'worse':>7}{'n':>7}",
    ]
    for name, parts in values["benchmarks"].items():
        for part, found in parts.items():
            label = name if part == "all" else f"  {part}"
            interval = f"{100 * found['low']:+.1f} to {100 * found['high']:+.1f}"
            lines.append(
                f"{label:<36}{100 * found['a']:>7.1f}{100 * found['b']:>7.1f}{100 * found['value']:>+8.1f}"
                f"  {interval:<16}{found['p_value']:>7.3f}{found['num_better']:>8}{found['num_worse']:>7}"
                f"{found['num_units']:>7}"
            )
    return "\n".join(lines)

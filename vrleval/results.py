"""A finished run: its figures as `summary.json`, as a table for the terminal, and read back from a folder."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vrleval.journal import read_journal, write_atomically
from vrleval.manifest import read_manifest, read_questions
from vrleval.rows import SKIPPED
from vrleval.types import UNSCORED, BenchmarkResult, Figure, Prediction

FILE_NAME = "summary.json"
MAX_ROWS_ON_TERMINAL = 20
"""Longer tables of groups stand in the report alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """One run.

    Attributes:
        rejected: rows of annotation files that are no question.
        min_coverage: share of a complete benchmark below which the run counts as partly failed.
    """

    folder: Path
    manifest: Mapping[str, Any]
    results: tuple[BenchmarkResult, ...]
    predictions: tuple[Prediction, ...]
    rejected: tuple[Mapping[str, Any], ...] = ()
    min_coverage: float = 0.0

    @property
    def exit_code(self) -> int:
        """0 when every question was answered and scored or waits for a judge, 1 when something failed."""
        unasked = [row for row in self.rejected if not str(row["reason"]).startswith(SKIPPED)]
        failed = any(result.num_failed for result in self.results) or bool(unasked)
        return int(failed or any(_share(result) < self.min_coverage for result in self.results))

    def to_json(self) -> dict[str, Any]:
        """The content of `summary.json`."""
        return {
            "model": self.manifest.get("model_name"),
            "preset": self.manifest.get("preset"),
            "config_digest": self.manifest.get("config_digest"),
            "folder": str(self.folder),
            "benchmarks": {result.benchmark: result_json(result) for result in self.results},
            "rejected": [dict(row) for row in self.rejected],
        }


def _share(result: BenchmarkResult) -> float:
    expected = max(result.num_expected, result.num_questions)
    return (result.num_questions - result.num_failed) / expected if expected else 0.0


def result_json(result: BenchmarkResult) -> dict[str, Any]:
    """One benchmark's figures; shares from 0 to 1."""
    values = dataclasses.asdict(result)
    values["figures"] = {figure["name"]: figure for figure in values["figures"]}
    values["groups"] = {
        name: {figure["name"]: figure for figure in figures} for name, figures in values["groups"].items()
    }
    return values


def write_results(result: RunResult) -> None:
    """Write `summary.json` and `report.html`, each at once."""
    from vrleval.report import write_report

    write_atomically(result.folder / FILE_NAME, json.dumps(result.to_json(), ensure_ascii=False, indent=1))
    write_report([result], result.folder / "report.html")


def read_run(folder: Path) -> RunResult:
    """A run from its folder: figures are computed again from the journal.

    A question of the run that has no line yet is missing from the figures, and a warning says how many.

    Raises:
        BenchmarkError: no run lies there.
    """
    from vrleval.aggregate import summarise
    from vrleval.benchmarks.table import benchmark_of

    manifest = read_manifest(folder)
    predictions = read_journal(folder, manifest.get("config_digest"))
    results = []
    used: list[Prediction] = []
    for name, keys in read_questions(folder).items():
        own = [predictions[key] for key in keys if key in predictions]
        result = summarise(benchmark_of(name, manifest), own)
        result = with_type_notes(result, own, manifest)
        if len(own) < len(keys):
            note = f"unfinished: {len(own)} of {len(keys)} questions; run the same command to continue"
            result = dataclasses.replace(result, warnings=(note, *result.warnings))
        results.append(result)
        used += own
    return RunResult(folder=folder, manifest=manifest, results=tuple(results), predictions=tuple(used))


def with_type_notes(
    result: BenchmarkResult, predictions: Sequence[Prediction], manifest: Mapping[str, Any]
) -> BenchmarkResult:
    """The result with a warning for each way in which `on_unknown_type` changed what was measured."""
    notes = []
    renamed = sum(prediction.reason.startswith("unknown problem_type") for prediction in predictions)
    if renamed:
        notes.append(f"questions of unknown problem type, scored as open_ended: {renamed}")
    skipped = manifest.get("benchmarks", {}).get(result.benchmark, {}).get("num_skipped", 0)
    if skipped:
        notes.append(
            f"questions of unknown problem type, left out (on_unknown_type: skip) and in no figure: {skipped}"
        )
    return dataclasses.replace(result, warnings=(*result.warnings, *notes))


def percent(value: float | None) -> str:
    """A share as a figure of tables.

    >>> percent(0.5), percent(None)
    ('50.0', '-')
    """
    return "-" if value is None else f"{100 * value:.1f}"


def interval_text(figure: Figure) -> str:
    """The 95 % interval in percent; empty where there is none."""
    if figure.low is None or figure.high is None:
        return ""
    return f"{100 * figure.low:.1f}-{100 * figure.high:.1f}"


def table_text(results: Sequence[RunResult]) -> str:
    """Figures of one or several runs as a table for the terminal."""
    rows: list[tuple[str, ...]] = [
        ("model", "preset", "benchmark", "figure", "95 %", "n", "failed", "unread", "to judge", "tokens")
    ]
    for run in results:
        for result in run.results:
            rows.append(_table_row(run, result))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    for run in results:
        for result in run.results:
            lines += _details(result)
    return "\n".join(lines)


def _table_row(run: RunResult, result: BenchmarkResult) -> tuple[str, ...]:
    statuses = result.statuses
    unread = sum(statuses.get(name, 0) for name in ("unparsed", "ambiguous", "empty", "truncated"))
    tokens = result.visual_tokens
    return (
        str(run.manifest.get("model_name", "")),
        str(run.manifest.get("preset", "")),
        result.title,
        percent(result.headline.value),
        interval_text(result.headline),
        str(result.num_questions),
        str(result.num_failed),
        str(unread),
        str(sum(statuses.get(name, 0) for name in UNSCORED)),
        f"{tokens['min']:.0f}-{tokens['max']:.0f}" if tokens else "-",
    )


def _details(result: BenchmarkResult) -> list[str]:
    lines = ["", f"{result.title} ({result.headline.name})"]
    lines += [_figure_line(figure) for figure in result.figures]
    for name, figures in result.groups.items():
        if len(figures) > MAX_ROWS_ON_TERMINAL:
            lines.append(f"  by {name}: {len(figures)} values, see the report")
            continue
        lines.append(f"  by {name}")
        lines += [f"  {_figure_line(figure)}" for figure in figures]
    lines += [f"  ! {warning}" for warning in result.warnings]
    return lines


def _figure_line(figure: Figure) -> str:
    interval = interval_text(figure)
    shown = f"  ({interval})" if interval else ""
    return f"  {figure.name:<32} {percent(figure.value):>6}{shown}  n={figure.num_units}"

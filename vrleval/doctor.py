"""What is missing on disk before a run: annotations, videos, rows that cannot be used. Nothing is decoded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vrldata.errors import BenchmarkError, ConfigError
from vrleval.annotation_files import find_files
from vrleval.annotations import missing_annotations, read_benchmark
from vrleval.benchmarks.table import benchmarks, find_benchmark
from vrleval.types import Benchmark

MAX_SHOWN = 5


def examine(data_root: str, names: Sequence[str] = ()) -> dict[str, Any]:
    """The state of benchmarks under a data root; all of the table where none is named.

    Raises:
        ConfigError: no such folder. BenchmarkError: an unknown benchmark.
    """
    root = Path(data_root).expanduser()
    if not root.is_dir():
        raise ConfigError(f"--data-root {data_root}: no such folder")
    wanted = [find_benchmark(name) for name in names] or list(benchmarks().values())
    return {
        "data_root": str(root),
        "benchmarks": {benchmark.name: _examine(benchmark, root) for benchmark in wanted},
    }


def _examine(benchmark: Benchmark, root: Path) -> dict[str, Any]:
    if not find_files(benchmark, root):
        return {"state": "absent", "reason": missing_annotations(benchmark, root)}
    try:
        questions, rejected, files = read_benchmark(benchmark, root)
    except BenchmarkError as error:
        return {"state": "damaged", "reason": str(error)}
    missing = [one for one in questions if one.problem.startswith("media")]
    unreadable = [one for one in questions if one.problem.startswith("answer")]
    asked = len(questions) - len(missing) - len(unreadable)
    complete = not missing and not unreadable and not rejected and asked >= benchmark.num_questions
    unlabelled = [
        field
        for field in benchmark.groups
        if questions and not any(one.groups.get(field) for one in questions)
    ]
    return {
        "state": "complete" if complete else "usable" if asked else "no videos",
        "files": [str(path) for path in files],
        "num_questions": len(questions),
        "num_expected": benchmark.num_questions,
        "num_ready": asked,
        "coverage": asked / max(benchmark.num_questions, len(questions), 1),
        "num_without_media": len(missing),
        "num_unreadable_answers": len(unreadable),
        "num_rejected": len(rejected),
        "missing_labels": unlabelled,
        "examples": [
            *(f"{one.sample.sample_id}: {one.problem}" for one in [*missing, *unreadable][:MAX_SHOWN]),
            *(f"row {row['row']}: {row['reason']}" for row in rejected[:MAX_SHOWN]),
        ],
    }


def exit_code(found: dict[str, Any], names: Sequence[str]) -> int:
    """1 where something is missing from a benchmark that was named or has annotations, or none has any."""
    states = [entry["state"] for entry in found["benchmarks"].values()]
    fine = {"complete"} if names or set(states) == {"absent"} else {"complete", "absent"}
    return int(any(state not in fine for state in states))


def examination_text(found: dict[str, Any]) -> str:
    """The examination for the terminal; benchmarks without any file in one line at the end."""
    lines = [f"{'benchmark':<20}{'state':<11}{'ready':>7}{'rows':>7}{'expected':>10}  missing"]
    absent = []
    for name, entry in found["benchmarks"].items():
        if entry["state"] == "absent":
            absent.append(name)
            continue
        if entry["state"] == "damaged":
            lines.append(f"{name:<20}{'damaged':<11}{'':>24}  {entry['reason']}")
            continue
        counts = {
            "without video": entry["num_without_media"],
            "unreadable answers": entry["num_unreadable_answers"],
            "rejected rows": entry["num_rejected"],
        }
        problems = [f"{count} {what}" for what, count in counts.items() if count]
        problems += [f"no label {label}" for label in entry["missing_labels"]]
        lines.append(
            f"{name:<20}{entry['state']:<11}{entry['num_ready']:>7}{entry['num_questions']:>7}"
            f"{entry['num_expected']:>10}  {', '.join(problems) or '-'}"
        )
        lines += [f"    {example}" for example in entry["examples"]]
    if absent:
        lines.append(f"no annotations in {found['data_root']}: {', '.join(absent)}")
        if len(absent) == len(found["benchmarks"]):
            lines += [found["benchmarks"][name]["reason"] for name in absent[:MAX_SHOWN]]
    return "\n".join(lines)

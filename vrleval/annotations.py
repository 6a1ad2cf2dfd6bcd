"""Benchmarks under the data root as questions: files found, rows read, mapped and repaired.

Finding and reading is `annotation_files`, one row `rows`, what only one benchmark needs `benchmarks`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vrldata.errors import BenchmarkError, ConfigError
from vrldata.sampling import SamplingSpec
from vrleval.annotation_files import digest, find_files, read_rows
from vrleval.benchmarks import PREPARE
from vrleval.benchmarks.table import find_benchmark
from vrleval.clips import CacheClips
from vrleval.configs import RunConfig
from vrleval.loading import Loaded
from vrleval.rows import Row, mapped, question_of
from vrleval.types import Benchmark, Question


def load_benchmarks(config: RunConfig, spec: SamplingSpec) -> list[Loaded]:
    """The benchmarks of a run, all with one cache of frames.

    Raises:
        ConfigError: no such data root. BenchmarkError: an unknown benchmark, or one without annotations.
    """
    root = Path(config.data_root or "").expanduser()
    if not root.is_dir():
        raise ConfigError(f"--data-root {config.data_root}: no such folder")
    clips = CacheClips(
        config.cache or default_cache(), root, spec, workers=config.workers, retry_failed=config.retry_failed
    )
    loaded = []
    for benchmark in [find_benchmark(name) for name in config.benchmarks]:
        questions, rejected, files = read_benchmark(benchmark, root, config.on_unknown_type)
        loaded.append(
            Loaded(
                benchmark=benchmark,
                questions=questions,
                clips=clips,
                provenance={"files": {str(path): digest(path) for path in files}},
                rejected=rejected,
            )
        )
    return loaded


def default_cache() -> str:
    """Where frames are kept when no cache is named."""
    home = os.environ.get("VRL_HOME") or os.path.join(os.path.expanduser("~"), ".cache", "vrl")
    return os.path.join(home, "eval-frames")


def missing_annotations(benchmark: Benchmark, data_root: Path) -> str:
    """One line: which files were looked for, where, and where they come from."""
    names = ", ".join(benchmark.annotations)
    own = ", ".join([benchmark.name, *benchmark.videos])
    official = f", nor {', '.join(benchmark.official_files)}" if benchmark.official_files else ""
    return (
        f"{benchmark.title}: no annotations: {names} not in {data_root}, its valid_data or its folders"
        f" ({own}){official} in these. Source: {benchmark.source}"
    )


def read_benchmark(
    benchmark: Benchmark, data_root: Path, on_unknown_type: str = "error"
) -> tuple[tuple[Question, ...], tuple[Mapping[str, Any], ...], list[Path]]:
    """Questions of a benchmark, rows that are none, and the files that they come from.

    Raises:
        BenchmarkError: no annotation file, or one that cannot be read.
    """
    files = find_files(benchmark, data_root)
    if not files:
        raise BenchmarkError(missing_annotations(benchmark, data_root))
    numbered: list[Row] = []
    for path in files:
        for number, row in enumerate(read_rows(path), start=1):
            numbered.append({**row, "_file": str(path), "_row": number})
    rows = [{**mapped(row, benchmark), "_file": row["_file"], "_row": row["_row"]} for row in numbered]
    prepare = PREPARE.get(benchmark.name)
    if prepare is not None:
        rows = prepare(rows)
    questions: list[Question] = []
    rejected: list[Mapping[str, Any]] = []
    for index, row in enumerate(rows):
        place = {"benchmark": benchmark.name, "file": row.pop("_file"), "row": row.pop("_row")}
        question, reason = question_of(row, index, benchmark, data_root, on_unknown_type)
        if question is None:
            rejected.append({**place, "reason": reason})
        else:
            questions.append(question)
    return tuple(questions), tuple(rejected), files

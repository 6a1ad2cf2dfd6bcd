"""`benchmarks.toml`: the benchmarks as data, checked when read."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from vrldata.errors import BenchmarkError, nearest
from vrleval.types import Benchmark

TABLE = Path(__file__).resolve().parent.parent / "benchmarks.toml"
_FIELDS = {field.name for field in dataclasses.fields(Benchmark)}


@cache
def benchmarks() -> Mapping[str, Benchmark]:
    """All benchmarks of the table by name.

    Raises:
        BenchmarkError: an entry has an unknown key or a wrong value.
    """
    return read_table(TABLE)


def read_table(path: Path) -> dict[str, Benchmark]:
    """Benchmarks of a TOML file: one table a benchmark, keys as in `types.Benchmark`.

    Raises:
        BenchmarkError: the file cannot be read, or an entry has an unknown key or a wrong value.
    """
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BenchmarkError(f"{path}: not readable as TOML: {error}") from error
    return {name: _entry(path, name, values) for name, values in entries.items()}


def _entry(path: Path, name: str, values: Any) -> Benchmark:
    if not isinstance(values, dict) or "title" not in values:
        raise BenchmarkError(f"{path}: [{name}]: expected a table with a title")
    for key in values:
        if key not in _FIELDS or key == "name":
            raise BenchmarkError(f"{path}: [{name}]: unknown key {key!r}.{nearest(key, _FIELDS)}")
    settled: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in values.items()
    }
    return Benchmark(name=name, **settled)


def find_benchmark(name: str) -> Benchmark:
    """The benchmark of this name; `-` and `_` are alike.

    Raises:
        BenchmarkError: no such benchmark; the message suggests the nearest.
    """
    table = benchmarks()
    wanted = name.lower().replace("-", "_")
    for known, benchmark in table.items():
        if wanted in {other.replace("-", "_") for other in (known, *benchmark.aliases)}:
            return benchmark
    raise BenchmarkError(f"benchmark {name!r}: unknown.{nearest(name, table)} `vrleval list` shows all.")


def benchmark_of(name: str, manifest: Mapping[str, Any]) -> Benchmark:
    """The benchmark that a run's manifest speaks of; a dataset's is rebuilt from the manifest."""
    if name in benchmarks():
        found = benchmarks()[name]
        if manifest.get("config", {}).get("metric"):
            from vrleval.metrics import with_metric

            return with_metric(found)
        return found
    entry = manifest.get("benchmarks", {}).get(name, {})
    return Benchmark(
        name=name,
        title=str(entry.get("title", name)),
        metric=str(entry.get("metric", "score")),
        headline=str(entry.get("headline", "micro")),
        groups=tuple(entry.get("groups", ())),
        protocol=str(entry.get("protocol", "eval")),
    )

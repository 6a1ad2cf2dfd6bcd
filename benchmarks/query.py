"""Queries over a million trajectories: `Dataset.sql` beside DuckDB on a Parquet file of the same rows.

    python benchmarks/query.py                       # about two minutes, 2 GB of memory
    python benchmarks/query.py --rows 100000 --json query.json

Both run in this process in turn. The first run of each statement is given apart from the median of the
others: `Dataset.sql` keeps the columns that statements group and filter by in memory between statements. The
ratio is the median over the pairs of runs. Processor time tells more than time where other programs run.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import vrldata
from vrldata.commits import maintain_indexes, merge_rows
from vrldata.tables import schema

STATEMENTS = {
    "group by model": "SELECT model, avg(reward) FROM trajectories GROUP BY model",
    "filter and aggregate": "SELECT run_id, count(*), avg(reward) FROM trajectories WHERE step > 50 "
    "GROUP BY 1",
    "one run": "SELECT model, avg(reward) FROM trajectories WHERE run_id = 'run-3' AND step > 50 GROUP BY 1",
    "reward component": "SELECT run_id, avg(rewards['accuracy']) FROM trajectories WHERE reward > 0.5 "
    "GROUP BY 1",
    "pass rate by sample": "SELECT sample_id, avg(correct::INT) p FROM trajectories GROUP BY 1 "
    "HAVING p > 0.8",
    "best of": "SELECT sample_id, trajectory_id FROM trajectories QUALIFY row_number() OVER "
    "(PARTITION BY sample_id ORDER BY reward DESC) = 1",
    "text pattern": "SELECT count(*) FROM trajectories WHERE response LIKE '%red red red%'",
    "text pattern, rows": "SELECT sample_id, response FROM trajectories "
    "WHERE response LIKE '%red red red red%'",
    "lookup by sample_id": "SELECT * FROM trajectories WHERE sample_id = 'sample-777'",
    "best rows": "SELECT * FROM trajectories ORDER BY reward DESC LIMIT 100",
    "worst rows of late steps": "SELECT * FROM trajectories WHERE step > 50 ORDER BY reward LIMIT 20",
    "one row in 10000": "SELECT * FROM trajectories WHERE reward > 0.9999",
    "one row in 100": "SELECT * FROM trajectories WHERE reward > 0.99",
    "one row in 2, text": "SELECT sample_id, response FROM trajectories WHERE reward > 0.5",
}
SEARCH = "SELECT count(*) FROM trajectories WHERE match(response, '\"red car left\"')"
WORDS = np.array(["red", "car", "left", "turn", "dog", "blue", "answer", "think", "because", "video"])


def trajectories(rows: int) -> pa.Table:
    """Rows of the table's own schema: 8 responses a sample, 20 runs, 4 models."""
    random = np.random.default_rng(0)
    reward = random.random(rows).astype(np.float32)
    offsets = pa.array(np.arange(0, 2 * rows + 1, 2, dtype=np.int32))
    names = pa.array(np.tile(np.array(["accuracy", "format"], dtype=object), rows))
    words = WORDS[random.integers(0, len(WORDS), (rows, 20))]
    number = np.arange(rows)
    columns = {
        "trajectory_id": [f"{index:064x}" for index in range(rows)],
        "sample_id": [f"sample-{index // 8}" for index in range(rows)],
        "response": [" ".join(line) for line in words],
        "source": ["rollout"] * rows,
        "model": [f"model-{index % 4}" for index in range(rows)],
        "run_id": [f"run-{index % 20}" for index in range(rows)],
        "step": number % 100,
        "policy_version": number % 100,
        "rewards": pa.MapArray.from_arrays(offsets, names, pa.array(np.repeat(reward, 2))),
        "reward": reward,
        "correct": reward > 0.5,
        "num_tokens": np.full(rows, 20, dtype=np.int32),
        "extra": ["{}"] * rows,
    }
    arrays = [
        pa.array(columns[field.name]).cast(field.type)
        if field.name in columns and not isinstance(columns[field.name], pa.Array)
        else columns.get(field.name, pa.nulls(rows, field.type))
        for field in schema("trajectories")
    ]
    return pa.Table.from_arrays(arrays, schema=schema("trajectories"))


def milliseconds(function: Callable[[], Any]) -> tuple[float, float]:
    """(time, processor time of all threads) of one call."""
    begun, begun_cpu = time.perf_counter(), time.process_time()
    function()
    return 1000 * (time.perf_counter() - begun), 1000 * (time.process_time() - begun_cpu)


def measure(dataset: vrldata.Dataset, parquet: Path, repeats: int) -> list[dict[str, Any]]:
    """First and median time of each statement on both sides, in turn."""
    connection = duckdb.connect()
    connection.execute(f"CREATE VIEW trajectories AS SELECT * FROM read_parquet('{parquet}')")
    found = []
    for name, statement in STATEMENTS.items():
        ours, theirs = [], []
        for _ in range(repeats + 1):
            ours.append(milliseconds(lambda text=statement: dataset.sql(text)))
            theirs.append(milliseconds(lambda text=statement: connection.sql(text).to_arrow_table()))
        one = {"statement": name} | figures("", ours) | figures("parquet_", theirs)
        one["ratio"] = statistics.median(
            own[0] / other[0] for own, other in zip(ours[1:], theirs[1:], strict=True)
        )
        found.append(one)
    searches = [milliseconds(lambda: dataset.sql(SEARCH)) for _ in range(repeats + 1)]
    found.append({"statement": "full-text phrase"} | figures("", searches))
    return found


def figures(prefix: str, times: list[tuple[float, float]]) -> dict[str, float]:
    """First time, then the median and the processor time of the later ones, in milliseconds."""
    return {
        f"{prefix}first_ms": times[0][0],
        f"{prefix}ms": statistics.median(wall for wall, _ in times[1:]),
        f"{prefix}cpu_ms": statistics.median(cpu for _, cpu in times[1:]),
    }


def main() -> None:
    """Make the rows, measure, print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = trajectories(arguments.rows)
        parquet = Path(folder) / "trajectories.parquet"
        pq.write_table(rows, parquet)
        dataset = vrldata.create(Path(folder) / "dataset")
        merge_rows(dataset, "trajectories", rows)
        indexed, _ = milliseconds(lambda: maintain_indexes(dataset, "trajectories"))
        del rows
        found = measure(dataset, parquet, arguments.repeats)
    versions = {name: version(name) for name in ("pylance", "duckdb", "pyarrow")}
    print(
        f"{arguments.rows} trajectories, indexes made in {indexed / 1000:.1f} s, "
        f"{versions}, {platform.machine()}"
    )
    print(f"{'statement':24s} {'first ms':>9s} {'ms':>8s} {'cpu':>8s} {'Parquet ms':>11s} {'cpu':>8s} ratio")
    for one in found:
        beside = ""
        if "ratio" in one:
            beside = f"{one['parquet_ms']:11.1f} {one['parquet_cpu_ms']:8.1f} {one['ratio']:5.2f}"
        print(f"{one['statement']:24s} {one['first_ms']:9.1f} {one['ms']:8.1f} {one['cpu_ms']:8.1f} {beside}")
    if arguments.json:
        result = {"rows": arguments.rows, "index_s": indexed / 1000, "versions": versions, "results": found}
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()

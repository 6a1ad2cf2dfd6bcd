"""Does training learn? Runs the experiments of `experiments.py` and keeps their curves beside this file.

    python benchmarks/learning/run.py [EXPERIMENT …] [--arm NAME] [--seed N] [--work FOLDER] [--jobs 2]

Each run is a process of its own with one thread. Runs that are done are not done again; one that was cut off
goes on or starts anew. `results.json` and the plots hold every run that is done.
"""

from __future__ import annotations

import argparse
import fcntl
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from experiments import EXPERIMENTS, Arm
from plot import write_plots
from prepare import HERE, PROJECT, command, dataset, environment, media, model

RESULTS = HERE / "results.json"
PACKAGES = ("torch", "transformers", "numpy", "pylance")
FIGURES = {
    "validation/reward/accuracy_mean": "held_out",
    "reward/accuracy_mean": "train",
    "reward/overall_mean": "reward",
    "reward/format_mean": "format",
    "response/length_mean": "length",
    "update/entropy": "entropy",
    "update/loss": "loss",
    "kl/mean": "kl",
}
"""Name in metrics.jsonl -> name in results.json."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One seed of one arm."""

    experiment: str
    arm: str
    seed: int
    settings: Arm

    @property
    def name(self) -> str:
        """Unique, and fit for a folder."""
        return f"{self.experiment}-{self.arm.replace(' ', '_')}-{self.seed}"


def main() -> None:
    """Run what is missing, two processes at a time."""
    options = _options()
    work = options.work.resolve()
    runs = list(_chosen(options))
    results = _load()
    missing = [run for run in runs if run.name not in results["runs"]]
    print(
        f"{len(missing)} of {len(runs)} runs to do on {_machine()['cpu']}, {os.cpu_count()} cores", flush=True
    )
    with ThreadPoolExecutor(options.jobs) as pool:
        prepared = [(run, _arguments(run, work)) for run in missing]
        jobs = {run.name: pool.submit(_execute, run, arguments, work) for run, arguments in prepared}
        outcomes = {name: job.result() for name, job in jobs.items()}
    write_plots(_load(), HERE)
    if None in outcomes.values():
        raise SystemExit(1)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("experiments", nargs="*", default=list(EXPERIMENTS), choices=list(EXPERIMENTS))
    parser.add_argument("--arm", action="append", help="only this arm; repeatable")
    parser.add_argument("--seed", type=int, action="append", help="only this seed; repeatable")
    parser.add_argument("--work", type=Path, default=PROJECT / "build" / "learning")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    return parser.parse_args()


def _chosen(options: argparse.Namespace) -> Iterator[Run]:
    """Seed by seed, so that every arm has a curve early."""
    for experiment in options.experiments:
        arms = EXPERIMENTS[experiment]
        for seed in sorted({seed for arm in arms.values() for seed in arm.seeds}):
            for name, arm in arms.items():
                wanted = (not options.arm or name in options.arm) and (
                    not options.seed or seed in options.seed
                )
                if wanted and seed in arm.seeds:
                    yield Run(experiment=experiment, arm=name, seed=seed, settings=arm)


def _arguments(run: Run, work: Path) -> list[str]:
    """Of `vrltrain run`; makes the data and the model that it needs."""
    arm, data = run.settings, dataset(work, run.settings.data)
    held_out = f"{data}?split=val&filter=data_type = 'video'"
    return [
        str(HERE / "base.yaml"),
        f"run_dir={work / 'runs' / run.name}",
        f"model.path={model(work, arm.model)}",
        f"data.train={data}{arm.query}",
        f"data.val={held_out}",
        f"seed={run.seed}",
        *arm.overrides,
    ]


def _execute(run: Run, arguments: list[str], work: Path) -> dict[str, Any] | None:
    """The figures of a run from its metrics, None where it failed; the log stays in the work folder."""
    folder, log = work / "runs" / run.name, work / f"{run.name}.log"
    started = time.perf_counter()
    line = command("vrltrain", "run", *arguments)
    if run.settings.decode:
        line = [
            sys.executable,
            str(HERE / "decode_on_the_fly.py"),
            str(media(work, run.settings.data)),
            *arguments,
        ]
    with log.open("w", encoding="utf-8") as out:
        process = subprocess.Popen(line, cwd=PROJECT, env=environment(), stdout=out, stderr=out)
        # wait4 gives the CPU time of this process alone, whatever else the machine is doing
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - started
    if process.returncode:
        print(f"{run.name} failed with {process.returncode}: see {log}", flush=True)
        return None
    rows = [json.loads(text) for text in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    curves = {
        name: [[row["step"], round(row[key], 6)] for row in rows if row.get(key) is not None]
        for key, name in FIGURES.items()
    }
    held_out = dict(curves["held_out"])
    last = held_out[max(held_out)]
    print(f"{run.name}: held-out accuracy {held_out[0]:.3f} -> {last:.3f} in {seconds:.0f} s", flush=True)
    result = {
        "experiment": run.experiment,
        "arm": run.arm,
        "seed": run.seed,
        "command": " ".join(["vrltrain run", *[_relative(text, work) for text in arguments]]),
        "seconds": round(seconds, 1),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "training_seconds": round(sum(row.get("time/step_s", 0.0) for row in rows), 1),
        "machine": _machine(),
        "held_out_start": held_out[0],
        "held_out_end": last,
        "curves": curves,
    }
    _keep(run.name, result)
    return result


def _relative(text: str, work: Path) -> str:
    return text.replace(str(work), "build/learning").replace(f"{PROJECT}/", "")


def _load() -> dict[str, Any]:
    if RESULTS.is_file():
        loaded: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
        return loaded
    return {"runs": {}}


def _keep(name: str, result: dict[str, Any]) -> None:
    """Add one run as soon as it is done, so that a driver that is stopped loses none."""
    with (HERE / ".results.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _write_with(name, result)


def _write_with(name: str, result: dict[str, Any]) -> None:
    results = _load()
    results["runs"][name] = result
    rows = ",\n".join(
        f"{json.dumps(key)}: {json.dumps(value)}" for key, value in sorted(results["runs"].items())
    )
    temporary = RESULTS.with_suffix(".tmp")
    temporary.write_text('{"runs": {\n' + rows + "\n}}\n", encoding="utf-8")
    temporary.replace(RESULTS)


def _machine() -> dict[str, Any]:
    names = [
        line.split(":", 1)[1].strip()
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        if line.startswith("model name")
    ]
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    return {
        "cpu": names[0] if names else platform.processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **versions,
    }


if __name__ == "__main__":
    main()

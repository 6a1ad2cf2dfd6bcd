"""Data and starting models of the learning benchmarks, made in the work folder when first asked for."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent.parent
QUESTIONS, HELD_OUT = 320, 80
"""Of each task."""
SFT_STEPS = {"long": 300}
"""Supervised steps by dataset, 60 for the others: `long` holds right answers, which take longer to learn."""
SPEC = ["--preset", "qwen3-vl", "--fps", "1", "--max-frames", "2", "--max-pixels", "4096"]
SPEC += ["--image-max-pixels", "4096"]
WORDS = ("red", "green", "blue", "yellow", "square", "circle", "left", "right", "moves", "stops")

Row = dict[str, Any]


def environment() -> dict[str, str]:
    """One thread a process; code and templates of this checkout."""
    path = [str(PROJECT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(path)}


def command(package: str, *arguments: str) -> list[str]:
    """A command of one of the three packages, run by this Python."""
    code = f"import sys; from {package}.cli import main; sys.exit(main())"
    return [sys.executable, "-c", code, *arguments]


def call(package: str, *arguments: str) -> None:
    """Run it to its end, from the project folder."""
    subprocess.run(command(package, *arguments), cwd=PROJECT, env=environment(), check=True)


def _true(row: Row, draw: random.Random) -> str:
    return str(row["solution"])


def _uniform(row: Row, draw: random.Random) -> str:
    return f"<answer>{draw.choice('ABCD')}</answer>"


def _foreign(row: Row, draw: random.Random) -> str:
    return f"<answer>{draw.choice('EFGHIJKLMNOPQRSTUVWXYZ')}</answer>"


def _long(row: Row, draw: random.Random) -> str:
    return f"<think>{' '.join(draw.choices(WORDS, k=draw.randint(1, 12)))}</think>{_true(row, draw)}"


DATASETS: dict[str, tuple[tuple[str, ...], Callable[[Row, random.Random], str]]] = {
    "true": (("colour",), _true),
    "joint": (("colour", "picture-colour"), _true),
    "uniform": (("colour",), _uniform),
    "foreign": (("colour",), _foreign),
    "long": (("colour",), _long),
}
"""Name -> (tasks, stored trajectory of a question)."""


def dataset(work: Path, name: str) -> Path:
    """A dataset whose first questions of a task train and whose last are held out; made where missing.

    Stored order keeps the answers balanced: every four questions of a task have each answer once.
    """
    tasks, response = DATASETS[name]
    root, demo = work / f"data-{name}", media(work, name)
    if (root / ".complete").is_file():
        return root
    if not (demo / "README.md").is_file():
        chosen = [part for task in tasks for part in ("--task", task)]
        call("vrldata", "-q", "demo-data", str(demo), *chosen, "--count", str(QUESTIONS * len(tasks)))
    rows = [
        json.loads(line)
        for split in ("train", "val")
        for line in (demo / f"{split}.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    # tasks take turns in blocks of eight questions, so that a step of 16 holds as many of each
    rows.sort(key=lambda row: (_number(row) // 8, row["data_source"], _number(row)))
    draw = random.Random(0)
    for row in rows:
        training = _number(row) < QUESTIONS - HELD_OUT
        row.pop("pass_rate", None)
        row |= {"split": "train" if training else "val", "has_offline_trajectory": training}
        row["offline_output"] = response(row, draw) if training else ""
    annotations = work / f"{name}.jsonl"
    annotations.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    call("vrldata", "-q", "build", str(annotations), "--video-root", str(demo), "--out", str(root), *SPEC)
    (root / ".complete").touch()
    return root


def media(work: Path, name: str) -> Path:
    """Folder of the demo clips and pictures of a dataset."""
    return work / f"demo-{len(DATASETS[name][0])}"


def model(work: Path, name: str) -> Path:
    """The tiny model after supervised learning on the trajectories of a dataset; made where missing.

    But in `long`, their letters say nothing about the clips: the form of answers is learned, no answer is.
    """
    tiny, run, steps = work / "tiny", work / f"sft-{name}", SFT_STEPS.get(name, 60)
    if not (tiny / "config.json").is_file():
        call("vrltrain", "-q", "tiny-model", str(tiny))
    done = run / "checkpoints" / f"step_{steps}" / "model"
    if not (done / "config.json").is_file():
        call(
            "vrltrain", "-q", "sft", str(HERE / "sft.yaml"), f"run_dir={run}", f"model.path={tiny}",
            f"data.train={dataset(work, name)}", f"steps={steps}",
        )  # fmt: skip
    return done


def _number(row: Row) -> int:
    return int(row["problem_id"].rsplit("-", 1)[1])

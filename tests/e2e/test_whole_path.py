"""The whole path at its smallest, through the command lines: clips, dataset, training, evaluation.

One dataset is built for the module; training and evaluation run on it once with each engine.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import vrldata

COMMANDS = Path(sys.executable).parent
LOGGED = (
    "reward/overall_mean",
    "update/loss",
    "update/grad_norm",
    "kl/mean",
    "response/length_mean",
    "time/data_wait_s",
    "time/rollout_s",
    "time/update_s",
    "time/weight_sync_s",
)
ENGINES = ["transformers", pytest.param("vllm", marks=pytest.mark.engine)]


def call(command: str, *arguments: str | Path, exit_code: int = 0) -> str:
    """Run one of the three commands; its standard output."""
    done = subprocess.run(
        [str(COMMANDS / command), *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == exit_code, f"{command} {arguments}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def query(dataset: Path | str, statement: str) -> list[dict[str, object]]:
    lines = call("vrldata", "query", str(dataset), statement, "--format", "jsonl").splitlines()
    return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A released dataset of generated questions."""
    folder = tmp_path_factory.mktemp("whole-path")
    call("vrldata", "demo-data", folder / "demo", "--count", "24", "--seed", "1")
    annotations = [folder / "demo" / "train.jsonl", folder / "demo" / "val.jsonl"]
    sampling = ["--fps", "2", "--max-frames", "8", "--max-pixels", "12288"]
    call(
        "vrldata",
        "build",
        *annotations,
        "--video-root",
        folder / "demo",
        "--out",
        folder / "dataset",
        *sampling,
    )
    call("vrldata", "release", folder / "dataset", "v1", "-m", "generated")
    return folder / "dataset"


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("model") / "tiny"
    call("vrltrain", "tiny-model", out, "--family", "qwen3-vl")
    return out


def test_the_dataset_answers_a_join_over_samples_and_frames(dataset: Path) -> None:
    rows = query(
        f"{dataset}@v1",
        "SELECT s.data_type, count(*) AS n, min(f.num_frames) AS fewest FROM samples s "
        "JOIN frames f ON list_contains(s.clip_ids, f.clip_id) GROUP BY ALL ORDER BY s.data_type",
    )
    assert {row["data_type"] for row in rows} == {"image", "video"}
    assert all(isinstance(row["fewest"], int) and row["fewest"] >= 1 for row in rows)


def test_the_preview_is_a_picture_of_a_sample(dataset: Path, tmp_path: Path) -> None:
    call("vrldata", "preview", f"{dataset}@v1", "--png", tmp_path / "sheet.png")
    assert (tmp_path / "sheet.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("engine", ENGINES)
def test_training_and_evaluation_run_from_the_release(
    dataset: Path, tiny_model: Path, tmp_path: Path, engine: str
) -> None:
    run = tmp_path / "run"
    overrides = [f"data.train={dataset}@v1", f"model.path={tiny_model}", f"run_dir={run}"]
    small = ["steps=2", "prompts_per_step=2", "rollout.n=4", f"rollout.engine={engine}", "data.val=null"]
    call("vrltrain", "run", "recipes/quickstart.yaml", *overrides, *small)

    metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    steps = [entry for entry in metrics if "update/loss" in entry]
    assert [entry["step"] for entry in steps] == [1, 2]
    assert set(LOGGED) <= set(steps[0])
    stored = query(
        dataset,
        f"SELECT step, policy_version, count(*) AS n FROM trajectories WHERE run_id = '{run_id(run)}' "
        "GROUP BY ALL ORDER BY step",
    )
    assert [row["n"] for row in stored] == [8, 8]
    assert stored[0]["policy_version"] != stored[1]["policy_version"]

    call("vrltrain", "export", run, tmp_path / "model")
    out = tmp_path / "eval"
    data = f"{dataset}@v1?split=val"
    call(
        "vrleval",
        "run",
        "--model",
        tmp_path / "model",
        "--data",
        data,
        "--engine",
        engine,
        "--out",
        out,
        "--max-tokens",
        "32",
    )
    assert count_of(out) == vrldata.open(data).samples.count("split = 'val'")
    assert (out / "report.html").stat().st_size > 0


def run_id(run: Path) -> str:
    return str(json.loads((run / "manifest.json").read_text())["run_id"])


def count_of(out: Path) -> int:
    """Distinct questions that the evaluation answered."""
    lines = (out / "predictions.jsonl").read_text().splitlines()
    return len({json.loads(line)["key"] for line in lines})


BAD_INPUT: Sequence[tuple[str, Sequence[str], Sequence[str]]] = [
    ("vrldata", ["info", "/nowhere/at/all"], ["/nowhere/at/all", "does not exist"]),
    ("vrltrain", ["run", "/nowhere/recipe.yaml"], ["/nowhere/recipe.yaml", "no such"]),
    ("vrltrain", ["run", "recipes/quickstart.yaml", "optim.learning_rate=1"], ["optim.learning_rate"]),
    ("vrleval", ["run", "--model", "m", "--data", "/nowhere/at/all", "--out", "/tmp/x"], ["/nowhere/at/all"]),
]


@pytest.mark.parametrize(("command", "arguments", "words"), BAD_INPUT)
def test_a_users_mistake_is_one_clear_line_and_exit_code_two(
    command: str, arguments: Sequence[str], words: Sequence[str]
) -> None:
    done = subprocess.run([str(COMMANDS / command), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert all(word in errors[0] for word in words)


def test_bad_rows_and_files_cost_only_themselves(tmp_path: Path) -> None:
    call("vrldata", "demo-data", tmp_path / "demo", "--count", "8", "--seed", "2")
    (tmp_path / "demo" / "videos" / "text.mp4").write_text("this is no video")
    question = {"problem": "What happens?", "answer": "A", "options": ["A. this", "B. that"]}
    question |= {"problem_type": "multiple choice", "data_type": "video"}
    bad = [
        {**question, "problem_id": "missing", "videos": ["videos/missing.mp4"]},
        {**question, "problem_id": "text", "videos": ["videos/text.mp4"]},
        {**question, "problem_id": "no-answer", "videos": ["videos/text.mp4"], "answer": None},
    ]
    (tmp_path / "bad.jsonl").write_text("\n".join(json.dumps(row) for row in bad))
    annotations = [tmp_path / "demo" / "train.jsonl", tmp_path / "bad.jsonl"]
    out = call(
        "vrldata",
        "build",
        *annotations,
        "--video-root",
        tmp_path / "demo",
        "--out",
        tmp_path / "d",
        "--json",
        "--max-pixels",
        "12288",
        exit_code=1,
    )
    report = json.loads(out)
    assert report["decoded"] > 0
    assert report["failed"] == 2
    assert report["rejected"] == 1
    reasons = {row["video_path"]: row["reason"] for row in query(tmp_path / "d", "SELECT * FROM failures")}
    assert set(reasons) == {"videos/missing.mp4", "videos/text.mp4"}

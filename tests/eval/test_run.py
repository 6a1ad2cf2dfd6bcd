"""`vrleval run` from end to end with a tiny model: datasets, benchmarks with a cache, kill -9, bad input."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.eval.conftest import run_command

NUM_QUESTIONS = 18
"""Of the training split of 24 generated questions."""
LIMITS = ("--engine", "transformers", "--max-tokens", "8")


def lines(folder: Path) -> list[dict[str, Any]]:
    text = (folder / "predictions.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(scope="module")
def finished(tiny_model: Path, demo_dataset: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run over the dataset, with its responses written back as trajectories."""
    out = tmp_path_factory.mktemp("run") / "out"
    trajectories = demo_dataset.removesuffix("@v1")
    done = run_command(
        "vrleval", "run", "--model", tiny_model, "--data", demo_dataset, "--out", out, *LIMITS,
        "--trajectories", trajectories, "--json", check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["benchmarks"]["dataset"]["num_questions"] == NUM_QUESTIONS
    return out


def test_a_dataset_is_evaluated_as_it_is(finished: Path, demo_dataset: str) -> None:
    assert len({line["key"] for line in lines(finished)}) == NUM_QUESTIONS
    manifest = json.loads((finished / "manifest.json").read_text())
    entry = manifest["benchmarks"]["dataset"]
    assert (entry["release"], len(entry["digest"])) == ("v1", 64)
    assert manifest["preset"] == "qwen3-vl"
    assert manifest["decides"]["generation"]["temperature"] == 0.0
    assert (finished / "report.html").stat().st_size > 10_000
    summary = json.loads((finished / "summary.json").read_text())
    assert sum(summary["benchmarks"]["dataset"]["statuses"].values()) == NUM_QUESTIONS


def test_frames_and_tokens_that_were_sent_are_recorded(finished: Path) -> None:
    videos = [line for line in lines(finished) if line["video"].endswith(".mp4")]
    assert videos
    for line in videos:
        assert line["num_frames"] in (2, 4, 8)  # some questions show two videos
        assert line["num_prompt_tokens"] > line["num_visual_tokens"] > 0


def test_responses_are_trajectories_of_their_samples(finished: Path, demo_dataset: str) -> None:
    import vrldata

    dataset = vrldata.open(demo_dataset.removesuffix("@v1"))
    found = list(dataset.iter_trajectories(filter="source = 'eval'"))
    responses = [line for line in lines(finished) if line.get("response")]
    assert len(found) == len(responses)
    assert {one.sample_id for one in found} == {line["sample_id"] for line in responses}
    assert {one.model for one in found} == {"tiny"}


def test_a_second_run_loads_no_model_and_changes_nothing(
    finished: Path, tiny_model: Path, demo_dataset: str
) -> None:
    before = (finished / "predictions.jsonl").read_bytes()
    done = run_command(
        "vrleval", "run", "--model", tiny_model, "--data", demo_dataset, "--out", finished, *LIMITS
    )
    assert f"0 questions to ask, {NUM_QUESTIONS} known already" in done.stderr
    assert (finished / "predictions.jsonl").read_bytes() == before


def test_the_figures_of_another_run_are_not_replaced(
    finished: Path, tiny_model: Path, demo_dataset: str, tmp_path: Path
) -> None:
    before = (finished / "manifest.json").read_bytes()
    for model, data in ((tmp_path, demo_dataset), (tiny_model, f"{demo_dataset}?split=val")):
        done = run_command(
            "vrleval", "run", "--model", model, "--data", data, "--out", finished, *LIMITS, check=False
        )
        assert done.returncode == 2
        assert f"--out {finished}: holds the evaluation of" in done.stderr
    assert (finished / "manifest.json").read_bytes() == before


def test_a_model_that_is_no_folder_is_refused_at_once(demo_dataset: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run_command(
        "vrleval", "run", "--model", "nomodel", "--data", demo_dataset, "--out", out, *LIMITS, check=False
    )
    assert done.returncode == 2
    assert "--model nomodel: no such folder" in done.stderr
    assert not out.exists()


@pytest.mark.slow
def test_kill_9_in_the_middle_and_the_same_command_again(
    tiny_model: Path, demo_dataset: str, tmp_path: Path, finished: Path
) -> None:
    out = tmp_path / "out"
    command = [
        sys.executable, "-c", "from vrleval.cli import main; main()", "run", "--model", str(tiny_model),
        "--data", demo_dataset, "--out", str(out), *LIMITS,
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    journal = out / "predictions.jsonl"
    while process.poll() is None and (not journal.is_file() or journal.read_bytes().count(b"\n") < 5):
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    kept = len(lines(out))
    with open(journal, "ab") as file:
        file.write(b'{"key": "torn')
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert kept < NUM_QUESTIONS
    assert f"{NUM_QUESTIONS - kept} questions to ask, {kept} known already" in done.stderr
    assert len(lines(out)) == len({line["key"] for line in lines(out)}) == NUM_QUESTIONS
    assert {line["key"]: line.get("response") for line in lines(out)} == {
        line["key"]: line.get("response") for line in lines(finished)
    }


@pytest.fixture
def data_root(demo_folder: Path, tmp_path: Path) -> Path:
    """A benchmark of four questions: two on one video, one on no video at all, one on a text file."""
    folder = tmp_path / "root" / "Video-MME" / "videos"
    folder.mkdir(parents=True)
    video = sorted((demo_folder / "videos").glob("*.mp4"))[0]
    shutil.copy(video, folder / "a.mp4")
    (folder / "text.mp4").write_text("not a video")
    rows = [
        {
            "problem_id": index,
            "problem": f"Which colour has the {what}?",
            "problem_type": "multiple choice",
            "options": ["A. red", "B. green", "C. blue", "D. white"],
            "solution": "<answer>A</answer>",
            "path": f"./videos/{name}.mp4",
            "duration": "short",
        }
        for index, (what, name) in enumerate([("ball", "a"), ("box", "a"), ("cup", "gone"), ("lamp", "text")])
    ]
    (tmp_path / "root" / "videomme.json").write_text(json.dumps(rows))
    return tmp_path / "root"


def test_a_benchmark_fills_its_cache_and_counts_what_is_missing(
    tiny_model: Path, data_root: Path, tmp_path: Path
) -> None:
    out, cache = tmp_path / "out", tmp_path / "cache"
    command = (
        "run", "--model", tiny_model, "--benchmarks", "videomme", "--data-root", data_root, "--out", out,
        "--cache", cache, "--max-frames", "4", "--max-pixels", "12288", "--workers", "1", *LIMITS,
    )  # fmt: skip
    done = run_command("vrleval", *command, "--json", check=False)
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)["benchmarks"]["videomme"]
    assert (found["num_questions"], found["num_failed"], found["coverage"]) == (4, 2, 0.5)
    assert found["statuses"]["decode_failed"] == 2
    reasons = " ".join(line.get("reason", "") for line in lines(out))
    assert "no file './videos/gone.mp4'" in reasons
    assert "a text file" in reasons
    import vrldata

    assert vrldata.open(cache).frames.count() == 1
    again = run_command("vrleval", *command, check=False)
    assert (again.returncode, len(lines(out))) == (1, 4)


def test_doctor_says_what_is_missing(data_root: Path) -> None:
    done = run_command(
        "vrleval", "doctor", "--data-root", data_root, "--benchmarks", "videomme", "--json", check=False
    )
    assert done.returncode == 1
    found = json.loads(done.stdout)["benchmarks"]["videomme"]
    assert (found["state"], found["num_ready"], found["num_without_media"]) == ("usable", 3, 1)
    assert found["missing_labels"] == ["domain", "sub_category", "task_type"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--data", "nowhere@v1"), "error: nowhere@v1: "),
        (("--benchmarks", "vidomme", "--data-root", "."), "Did you mean 'videomme'?"),
        (("--benchmarks", "videomme"), "--benchmarks needs --data-root"),
        ((), "nothing to evaluate"),
        (("--data", "x", "--preset", "qwen3-v"), "Did you mean 'qwen3-vl'?"),
        (("--data", "x", "--compat", "ramdom"), "Did you mean 'random'?"),
        (("--data", "x", "--protocol", "evall"), "Did you mean 'eval'?"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    tiny_model: Path, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = run_command(
        "vrleval", "run", "--model", tiny_model, "--out", tmp_path / "out", *arguments, check=False
    )
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert len([line for line in done.stderr.splitlines() if line.startswith("error: ")]) == 1


def test_a_folder_that_is_no_model_is_named(tmp_path: Path, demo_dataset: str) -> None:
    done = run_command("vrleval", "run", "--model", tmp_path, "--data", demo_dataset, check=False)
    assert done.returncode == 2
    assert f"error: {tmp_path}: no config.json in it" in done.stderr


@pytest.mark.engine
def test_vllm_answers_as_transformers_does(
    tiny_model: Path, demo_dataset: str, finished: Path, tmp_path: Path
) -> None:
    pytest.importorskip("vllm")
    out = tmp_path / "out"
    done = run_command(
        "vrleval", "run", "--model", tiny_model, "--data", demo_dataset, "--out", out, "--max-tokens", "8",
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    theirs = {line["key"]: line for line in lines(finished)}
    ours = {line["key"]: line for line in lines(out)}
    assert set(ours) == set(theirs)
    for key, line in ours.items():
        assert line["num_prompt_tokens"] == theirs[key]["num_prompt_tokens"]
    same = sum(line.get("response") == theirs[key].get("response") for key, line in ours.items())
    assert same >= NUM_QUESTIONS - 2  # greedy answers may part where two tokens are equally likely

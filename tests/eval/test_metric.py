"""A metric of the user's own, and questions of unknown problem type: from the config to the figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import vrldata
from tests.eval.conftest import run_command
from tests.eval.examples import ScriptedEngine, says
from vrldata.config import validate_config
from vrldata.errors import BenchmarkError, ConfigError
from vrleval.configs import RunConfig
from vrleval.evaluate import evaluate
from vrleval.results import RunResult, read_run

KINDS = ("numerical", "numerical", "Riddle", "numerical", "numerical")


@pytest.fixture
def questions(tmp_path: Path) -> str:
    """Five questions without media, the third of a type that nobody knows; the answer to question n is n."""
    rows = [
        {"problem_id": n, "problem": f"question {n}", "answer": str(n), "problem_type": "numerical"}
        for n in range(len(KINDS))
    ]
    dataset = vrldata.create(tmp_path / "questions")
    dataset.build([{**row, "data_type": "text", "level": 3} for row in rows], video_root=tmp_path)
    table = dataset.open_table("samples")
    table.update({"problem_type": "'Riddle'"}, where="sample_id = 'rows/2'")
    return str(tmp_path / "questions")


@pytest.fixture
def metric(tmp_path: Path) -> Path:
    """A file of metrics."""
    file = tmp_path / "metrics.py"
    file.write_text(
        "def near(record, tolerance=1.0):\n"
        "    assert record['extra']['level'] == 3\n"
        "    found = float(record['response'].strip('</answer>'))\n"
        "    return {'overall': float(abs(found - float(record['answer'])) <= tolerance), 'found': found}\n"
        "def fails_for_three(record):\n"
        "    return {'3': None, '4': 7.0}.get(record['answer'], 1.0)\n"
        "def batch(records):\n"
        "    return [1.0 for _ in records]\n"
        "def text(record):\n"
        "    return 'good'\n"
    )
    return file


KNOWN = "?filter=problem_type = 'numerical'"


def run(data: str, out: Path, response: str = "<answer>2</answer>", **values: Any) -> RunResult:
    given = {"model": "served", "family": "qwen3-vl", "engine": "openai", "base_url": "http://localhost:9"}
    config = validate_config(RunConfig, {**given, "data": [data], "out": str(out), **values}, source="test")
    return evaluate(config, engine=ScriptedEngine(lambda request: says(response)))


def test_a_metric_takes_the_place_of_the_rules(questions: str, metric: Path, tmp_path: Path) -> None:
    plain = run(questions + KNOWN, tmp_path / "plain")
    near = run(questions + KNOWN, tmp_path / "near", metric=f"{metric}:near", metric_options={"tolerance": 2})
    assert plain.results[0].headline.value == 0.0
    assert near.results[0].headline.value == 1.0
    assert {one.status for one in near.predictions} == {"scored"}
    assert {one.parts["found"] for one in near.predictions} == {2.0}
    assert read_run(tmp_path / "near").results[0].headline.value == 1.0


def test_a_question_whose_metric_fails_counts_as_wrong(questions: str, metric: Path, tmp_path: Path) -> None:
    result = run(questions + KNOWN, tmp_path / "out", metric=f"{metric}:fails_for_three")
    assert result.results[0].statuses == {"metric_failed": 2, "scored": 2}
    assert (result.results[0].headline.value, result.results[0].coverage) == (0.5, 0.5)
    assert result.exit_code == 1
    reasons = {one.answer: one.reason for one in result.predictions if one.status == "metric_failed"}
    assert "returned None" in reasons["3"]
    assert "returned 7; it lies between 0 and 1" in reasons["4"]


def test_the_tags_around_reasoning_are_those_of_the_run(questions: str, tmp_path: Path) -> None:
    said = "<plan>The answer is 3.</plan>The count is 1."
    plain = run(questions + KNOWN, tmp_path / "plain", said)
    named = run(questions + KNOWN, tmp_path / "named", said, reasoning_tags=["plan"])
    assert {one.extracted for one in plain.predictions} == {"3.0"}
    assert {one.extracted for one in named.predictions} == {"1.0"}
    assert named.manifest["decides"]["reasoning_tags"] == ["plan"]


def test_other_code_of_a_metric_scores_again(questions: str, metric: Path, tmp_path: Path) -> None:
    name = f"{metric}:near"
    assert run(questions + KNOWN, tmp_path / "out", metric=name).results[0].headline.value == 0.5
    metric.write_text("def near(record):\n    return 0.25\n")
    assert run(questions + KNOWN, tmp_path / "out", metric=name).results[0].headline.value == 0.25


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"metric": "nothing.py:near"}, "--metric: 'nothing.py:near': .*no such file"),
        ({"metric": "metrics.py:batch"}, "takes the whole batch"),
        ({"metric": "metrics.py:text"}, "returned str 'good'"),
        ({"metric": "metrics.py:near", "metric_options": {"tolerence": 1}}, "Did you mean 'tolerance'"),
        ({"metric": "metrics.py:near", "protocol": "train"}, "takes the place of all scoring rules"),
        ({"metric_options": {"tolerance": 1}}, "--metric-option needs --metric"),
    ],
)
def test_a_metric_that_cannot_serve_is_told_before_the_model(
    values: dict[str, Any],
    message: str,
    questions: str,
    metric: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(metric.parent)
    with pytest.raises(ConfigError, match=message):
        run(questions + KNOWN, tmp_path / "out", **values)
    assert not (tmp_path / "out" / "predictions.jsonl").exists()


def test_the_command_line_takes_a_metric(questions: str, metric: Path, tmp_path: Path) -> None:
    given = ["run", "--model", "m", "--family", "qwen3-vl", "--engine", "openai", "--data", questions + KNOWN]
    given += ["--base-url", "http://localhost:9", "--out", tmp_path / "out"]
    done = run_command(
        "vrleval", *given, "--metric", f"{metric}:near", "--metric-option", "tolerence=2", check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: --metric: ")
    assert "--metric-option do not fit near(record, tolerance=1.0)" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_unknown_type_is_refused_before_the_model(questions: str, tmp_path: Path) -> None:
    with pytest.raises(
        BenchmarkError, match=r"sample rows/2: unknown problem_type 'Riddle'.*--on-unknown-type"
    ):
        run(questions, tmp_path / "out")


def test_an_unknown_type_is_asked_as_an_open_question(questions: str, tmp_path: Path) -> None:
    result = run(questions, tmp_path / "out", on_unknown_type="open_ended", protocol="train")
    (riddle,) = [one for one in result.predictions if one.sample_id == "rows/2"]
    assert (riddle.problem_type, riddle.score) == ("open_ended", 1.0)
    assert "'Riddle'" in riddle.reason
    expected = "questions of unknown problem type, scored as open_ended: 1"
    assert expected in result.results[0].warnings
    assert expected in read_run(tmp_path / "out").results[0].warnings


def test_a_skipped_type_is_recorded_and_counted_apart(questions: str, tmp_path: Path) -> None:
    result = run(questions, tmp_path / "out", on_unknown_type="skip")
    assert result.results[0].num_questions == 4
    assert result.exit_code == 0
    (row,) = json.loads((tmp_path / "out" / "summary.json").read_text())["rejected"]
    assert row["row"] == "rows/2"
    assert "'Riddle'" in row["reason"]
    for found in (result, read_run(tmp_path / "out")):
        assert any(
            "left out (on_unknown_type: skip) and in no figure: 1" in one for one in found.results[0].warnings
        )


def test_a_skip_that_leaves_nothing_is_an_error(questions: str, tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match="leaves nothing"):
        run(questions + "?filter=problem_type = 'Riddle'", tmp_path / "out", on_unknown_type="skip")


@pytest.mark.parametrize(
    ("policy", "num_questions", "reason"),
    [("error", 1, "unknown problem_type"), ("open_ended", 2, ""), ("skip", 1, "on_unknown_type: skip")],
)
def test_rows_of_a_benchmark_follow_the_policy(
    policy: str, num_questions: int, reason: str, tmp_path: Path
) -> None:
    from vrleval.annotations import read_benchmark
    from vrleval.benchmarks.table import find_benchmark

    benchmark = find_benchmark("lvbench")
    rows = [
        {"problem": "What?", "solution": "x", "problem_type": kind, "path": "a.mp4", "problem_id": kind}
        for kind in ("open-ended", "Riddle")
    ]
    (tmp_path / benchmark.annotations[0]).write_text(json.dumps(rows))
    questions, rejected, _ = read_benchmark(benchmark, tmp_path, policy)
    assert len(questions) == num_questions
    assert [str(row["reason"]).startswith(reason) for row in rejected] == [True] * (2 - num_questions)

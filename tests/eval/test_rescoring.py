"""One folder, one way of asking: what may change between two runs of it, and what is scored again."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

import vrldata
from tests.eval.examples import ScriptedEngine, make_clip, make_question, says
from vrldata.config import validate_config
from vrldata.errors import ConfigError
from vrleval.configs import RunConfig
from vrleval.evaluate import evaluate
from vrleval.rescoring import rescored
from vrleval.results import RunResult, read_run
from vrleval.scoring import ScoringContext, score_response


@pytest.fixture
def data(tmp_path: Path) -> str:
    """Four questions without media; the answer to question n is n."""
    rows = [
        {
            "problem_id": n,
            "problem": f"question {n}",
            "answer": str(n),
            "problem_type": "numerical",
            "data_type": "text",
        }
        for n in range(4)
    ]
    vrldata.create(tmp_path / "questions").build(rows, video_root=tmp_path)
    return str(tmp_path / "questions")


@pytest.fixture
def metric(tmp_path: Path) -> str:
    """A metric by which every response earns a half."""
    file = tmp_path / "metrics.py"
    file.write_text("def half(record):\n    return 0.5\n")
    return f"{file}:half"


def run(data: str, out: Path, **values: Any) -> tuple[RunResult, int]:
    """The result of a run whose model always says 2, and how often that was asked."""
    given = {"model": "served", "family": "qwen3-vl", "engine": "openai", "base_url": "http://localhost:9"}
    config = validate_config(RunConfig, {**given, "data": [data], "out": str(out), **values}, source="test")
    engine = ScriptedEngine(lambda request: says("<answer>2</answer>"))
    return evaluate(config, engine=engine), len(engine.requests)


def accuracy(result: RunResult) -> float | None:
    return result.results[0].headline.value


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"max_tokens": 7}, "max_tokens was 1024 and is 7"),
        ({"seed": 3}, "seed was 0 and is 3"),
        ({"think": True}, "think was the default and is true"),
        ({"max_frames": 8}, "max_frames was 128 and is 8"),
        ({"engine": "vllm"}, 'engine was "openai" and is "vllm"'),
        ({"subtitles": True}, "subtitles was false and is true"),
        ({"preset": "quick-32f"}, 'otherwise: preset was "qwen3-vl" and is "quick-32f"; use another'),
    ],
)
def test_responses_asked_for_otherwise_are_refused_by_the_name_of_the_option(
    values: dict[str, Any], message: str, data: str, tmp_path: Path
) -> None:
    run(data, tmp_path / "out")
    before = (tmp_path / "out" / "manifest.json").read_bytes()
    with pytest.raises(ConfigError, match="use another --out") as caught:
        run(data, tmp_path / "out", **values)
    assert message in str(caught.value)
    assert (tmp_path / "out" / "manifest.json").read_bytes() == before


@pytest.mark.parametrize("values", [{"max_concurrent": 2}, {"max_samples": 2}, {"request_timeout": 5.0}])
def test_limits_may_differ(values: dict[str, Any], data: str, tmp_path: Path) -> None:
    run(data, tmp_path / "out")
    result, num_asked = run(data, tmp_path / "out", **values)
    assert num_asked == 0
    assert {one.status for one in result.predictions} == {"scored"}


def test_a_run_goes_on_by_another_server_of_its_model_with_a_warning(
    data: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run(data, tmp_path / "out", max_samples=1)
    result, num_asked = run(data, tmp_path / "out", base_url="http://localhost:10")
    assert (num_asked, accuracy(result), len(result.predictions)) == (3, 0.25, 4)
    assert "went by http://localhost:9 before" in caplog.text


def test_other_weights_in_the_folder_of_the_model_are_refused(data: str, tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text(json.dumps({"model_type": "qwen3_vl"}))
    (model / "model.safetensors").write_bytes(b"first")
    run(data, tmp_path / "out", model=str(model))
    (model / "model.safetensors").write_bytes(b"later")
    with pytest.raises(ConfigError, match=r"the files of model .* have changed since"):
        run(data, tmp_path / "out", model=str(model))


def test_a_metric_scores_the_stored_responses_and_asks_nothing(
    data: str, metric: str, tmp_path: Path
) -> None:
    assert run(data, tmp_path / "out")[1] == 4
    result, num_asked = run(data, tmp_path / "out", metric=metric)
    assert (num_asked, accuracy(result)) == (0, 0.5)
    manifest = read_run(tmp_path / "out").manifest
    assert (manifest["config"]["metric"], manifest["engine"]) == (metric, {"scripted": "1"})
    back, num_asked = run(data, tmp_path / "out")
    assert (num_asked, accuracy(back)) == (0, 0.25)
    assert accuracy(read_run(tmp_path / "out")) == 0.25


def test_a_part_that_was_scored_otherwise_leaves_the_rest_to_be_scored_again(
    data: str, metric: str, tmp_path: Path
) -> None:
    run(data, tmp_path / "out")
    run(data, tmp_path / "out", metric=metric, max_samples=1)
    result, num_asked = run(data, tmp_path / "out", metric=metric)
    assert (num_asked, accuracy(result), len(result.predictions)) == (0, 0.5, 4)


def test_a_run_that_is_killed_while_it_scores_again_goes_on(data: str, metric: str, tmp_path: Path) -> None:
    run(data, tmp_path / "out")
    finished = (tmp_path / "out" / "manifest.json").read_bytes()
    run(data, tmp_path / "out", metric=metric)
    lines = (tmp_path / "out" / "predictions.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "out" / "predictions.jsonl").write_text("".join(lines[:6]))
    (tmp_path / "out" / "manifest.json").write_bytes(finished)
    assert accuracy(read_run(tmp_path / "out")) == 0.25
    result, num_asked = run(data, tmp_path / "out", metric=metric)
    assert (num_asked, accuracy(result)) == (0, 0.5)
    assert len((tmp_path / "out" / "predictions.jsonl").read_text().splitlines()) == 8


def test_other_rules_find_their_measures_without_the_clips() -> None:
    box = {"problem_type": "spatial_grounding", "answer": "[10, 10, 90, 90]", "options": ()}
    question = make_question(0, **box)
    before = ScoringContext(config="c", asked="a", family="qwen3-vl", box_frame="pixel")
    after = ScoringContext(config="d", asked="a", family="qwen3-vl", box_frame="pixel", protocol="train")
    response = says("<answer>[52, 78, 468, 703]</answer>")
    known = score_response(question, response, (make_clip("a.mp4"),), before)
    assert known.media["width"] == 192
    expected = score_response(question, response, (make_clip("a.mp4"),), after)
    assert rescored(question, known, after) == expected
    assert 0.9 < (expected.score or 0.0) < 1.0


def test_the_verdict_of_a_judge_is_kept_where_its_answer_is_still_the_one_found() -> None:
    question = make_question(0, problem_type="open_ended", answer="a red ball", options=())
    context = ScoringContext(config="c", family="qwen3-vl")
    waiting = score_response(question, says("<plan>x</plan><answer>a ball</answer>"), (), context)
    assert waiting.status == "needs_judge"
    judged = dataclasses.replace(waiting, status="scored", score=0.5, strict=0.5, judge={"name": "j"})
    again = rescored(
        question, judged, ScoringContext(config="d", family="qwen3-vl", reasoning_tags=("plan",))
    )
    assert (again.config, again.status, again.score, again.judge) == ("d", "scored", 0.5, {"name": "j"})

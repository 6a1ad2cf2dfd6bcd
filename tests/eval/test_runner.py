"""The loop from questions to the journal: order, failures, limits, and continuing after a crash."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.eval.examples import MemoryClips, ScriptedEngine, make_question, says
from vrldata.errors import RolloutError
from vrleval.engines.types import RequestError
from vrleval.journal import Journal, read_journal
from vrleval.loading import Loaded
from vrleval.runner import Limits, Runner
from vrleval.scoring import ScoringContext
from vrleval.types import Benchmark, Prediction, Question


def loaded(questions: list[Question], clips: MemoryClips | None = None) -> Loaded:
    return Loaded(
        benchmark=Benchmark(name="demo", title="demo"),
        questions=tuple(questions),
        clips=clips or MemoryClips(),
    )


def run(
    folder: Path,
    questions: list[Question],
    engine: ScriptedEngine,
    *,
    clips: MemoryClips | None = None,
    retry: frozenset[str] = frozenset(),
    limits: Limits = Limits(),  # noqa: B008 - frozen
) -> dict[str, Prediction]:
    with Journal(folder) as journal:
        runner = Runner(
            [loaded(questions, clips)],
            {"demo": ScoringContext(config="c", family="qwen3-vl")},
            engine,
            journal,
            limits,
        )
        return asyncio.run(runner.run(read_journal(folder, "c"), retry=retry))


def test_every_question_gets_one_line_with_its_score(tmp_path: Path) -> None:
    questions = [make_question(row) for row in range(6)]
    engine = ScriptedEngine(
        lambda request: says("<answer>B</answer>" if "scene 2" in request.prompt else "<answer>C</answer>")
    )
    done = run(tmp_path, questions, engine)
    assert {done[question.key].sample_id: done[question.key].score for question in questions} == {
        "q0": 0.0,
        "q1": 0.0,
        "q2": 1.0,
        "q3": 0.0,
        "q4": 0.0,
        "q5": 0.0,
    }
    assert len((tmp_path / "predictions.jsonl").read_text().splitlines()) == 6


def test_questions_on_one_video_load_its_clip_once(tmp_path: Path) -> None:
    clips = MemoryClips()
    questions = [make_question(row, video=f"{row % 2}.mp4") for row in range(8)]
    run(tmp_path, questions, ScriptedEngine(lambda request: says("<answer>B</answer>")), clips=clips)
    assert sorted(clips.loaded) == ["0.mp4", "1.mp4"]


def test_the_prompt_lists_the_letters_of_the_row_and_carries_the_clip(tmp_path: Path) -> None:
    engine = ScriptedEngine(lambda request: says("<answer>B</answer>"))
    run(tmp_path, [make_question(0, options=(*OPTIONS_OF_SIX,))], engine)
    (request,) = engine.requests
    assert "F. six" in request.prompt
    assert "A, B, C, D, E or F" in request.prompt
    assert request.clips[0].video_path == "a.mp4"


OPTIONS_OF_SIX = ("A. one", "B. two", "C. three", "D. four", "E. five", "F. six")


def test_an_undecodable_video_costs_its_own_questions_only(tmp_path: Path) -> None:
    questions = [make_question(0), make_question(1, video="broken.mp4"), make_question(2, video="broken.mp4")]
    done = run(tmp_path, questions, ScriptedEngine(lambda request: says("<answer>B</answer>")))
    statuses = [done[question.key].status for question in questions]
    assert statuses == ["scored", "decode_failed", "decode_failed"]
    assert done[questions[1].key].score == 0.0
    assert "no video stream" in done[questions[1].key].reason


def test_a_refused_request_is_a_line_and_the_others_go_on(tmp_path: Path) -> None:
    questions = [make_question(row) for row in range(3)]
    engine = ScriptedEngine(
        lambda request: (
            RequestError("prompt of 9000 tokens is too long")
            if "scene 1" in request.prompt
            else says("<answer>B</answer>")
        )
    )
    done = run(tmp_path, questions, engine)
    assert [done[question.key].status for question in questions] == ["scored", "engine_failed", "scored"]
    assert "too long" in done[questions[1].key].reason


def test_a_dead_engine_ends_the_run_and_keeps_what_was_finished(tmp_path: Path) -> None:
    questions = [make_question(row, video=f"{row}.mp4") for row in range(6)]
    engine = ScriptedEngine(
        lambda request: (
            RolloutError("the engine has died") if "scene 4" in request.prompt else says("<answer>B</answer>")
        )
    )
    with pytest.raises(RolloutError, match="has died"):
        run(tmp_path, questions, engine, limits=Limits(max_concurrent=1))
    kept = read_journal(tmp_path, "c")
    assert sorted(prediction.sample_id for prediction in kept.values()) == ["q0", "q1", "q2", "q3"]
    again = ScriptedEngine(lambda request: says("<answer>B</answer>"))
    done = run(tmp_path, questions, again)
    assert len(again.requests) == 2
    assert sorted(prediction.sample_id for prediction in done.values()) == [f"q{row}" for row in range(6)]


def test_a_second_run_asks_nothing_and_retry_asks_failures_only(tmp_path: Path) -> None:
    questions = [make_question(0), make_question(1, video="broken.mp4")]
    answer = ScriptedEngine(lambda request: says("<answer>B</answer>"))
    run(tmp_path, questions, answer)
    again = ScriptedEngine(lambda request: says("<answer>C</answer>"))
    done = run(tmp_path, questions, again)
    assert again.requests == []
    assert done[questions[0].key].score == 1.0
    clips = MemoryClips()
    run(tmp_path, questions, again, clips=clips, retry=frozenset({"decode_failed"}))
    assert again.requests == []
    assert len(read_journal(tmp_path, "c")) == 2


def test_repeated_rows_are_questions_of_their_own(tmp_path: Path) -> None:
    first, second = make_question(0), make_question(1, sample_id="q0", problem="What is carried in scene 0?")
    done = run(tmp_path, [first, second], ScriptedEngine(lambda request: says("<answer>B</answer>")))
    assert len(done) == 2


def test_no_more_requests_run_than_allowed(tmp_path: Path) -> None:
    engine = ScriptedEngine(lambda request: says("<answer>B</answer>"), delay=0.005)
    questions = [make_question(row, video=f"{row}.mp4") for row in range(20)]
    run(tmp_path, questions, engine, limits=Limits(max_concurrent=3))
    assert engine.most_running == 3


def test_clips_in_flight_stay_within_the_byte_budget(tmp_path: Path) -> None:
    clip_bytes = 4 * 64 * 96 * 3
    engine = ScriptedEngine(lambda request: says("<answer>B</answer>"), delay=0.005)
    questions = [make_question(row, video=f"{row}.mp4") for row in range(12)]
    run(tmp_path, questions, engine, limits=Limits(max_concurrent=12, max_bytes_in_flight=2 * clip_bytes))
    assert engine.most_running == 2


@pytest.mark.parametrize(
    ("text", "finish_reason", "status"),
    [
        ("", "stop", "empty"),
        ("<think>the ladder", "length", "truncated"),
        ("A man flies it, so I cannot tell.", "stop", "unparsed"),
        ("A, C", "stop", "ambiguous"),
    ],
)
def test_an_answer_that_cannot_be_read_scores_zero_and_says_why(
    tmp_path: Path, text: str, finish_reason: str, status: str
) -> None:
    question = make_question(0)
    done = run(tmp_path, [question], ScriptedEngine(lambda request: says(text, finish_reason)))
    assert (done[question.key].status, done[question.key].score) == (status, 0.0)


def test_an_open_answer_waits_for_a_judge_without_a_score(tmp_path: Path) -> None:
    question = make_question(0, problem_type="open_ended", options=(), answer="a red car")
    done = run(tmp_path, [question], ScriptedEngine(lambda request: says("A red car.")))
    assert (done[question.key].status, done[question.key].score) == ("needs_judge", None)

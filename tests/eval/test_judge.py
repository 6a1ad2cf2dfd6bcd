"""Judging after the run: verdicts are lines, failures wait, a second call asks the rest."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from tests.eval.conftest import run_command
from tests.eval.examples import make_prediction
from tests.eval.test_engine_openai import says, server
from tests.eval.test_report import write_run
from vrldata.tasks.judge import JudgeError
from vrleval.journal import Journal, read_journal
from vrleval.judge import judge_names, judge_with
from vrleval.results import read_run
from vrleval.types import Prediction


class FirmJudge:
    """Answers that hold the reference word earn 1; it fails on what it is told to fail on."""

    name = "firm-judge-1"

    def __init__(self, fails_on: str = "") -> None:
        self.fails_on = fails_on
        self.prompts: list[str] = []

    async def reply(self, prompt: str) -> str:
        self.prompts.append(prompt)
        if self.fails_on and self.fails_on in prompt:
            raise JudgeError("no answer from the judge")
        return json.dumps({"score": 1.0 if "a red car drives" in prompt else 0.0})


def waiting(name: str, answer: str) -> Prediction:
    return make_prediction(
        name,
        None,
        status="needs_judge",
        problem="What drives by?",
        answer="a red car",
        extracted=answer,
        response=answer,
    )


def judged(folder: Path, judge: FirmJudge, rows: list[Prediction]) -> dict[str, Prediction]:
    with Journal(folder) as journal:
        known = read_journal(folder)
        for row in rows:
            if row.key not in known:
                journal.append(row)
        return asyncio.run(judge_with({**{row.key: row for row in rows}, **known}, judge, journal))


def test_a_verdict_is_a_score_with_the_judges_name(tmp_path: Path) -> None:
    judge = FirmJudge()
    done = judged(tmp_path, judge, [waiting("q1", "a red car drives by"), waiting("q2", "a blue car")])
    assert [(done[key].status, done[key].score) for key in ("q1", "q2")] == [("scored", 1.0), ("scored", 0.0)]
    assert judge_names(list(done.values())) == ["firm-judge-1"]
    assert done["q1"].judge["prompt_sha256"]
    assert "What drives by?" in judge.prompts[0]
    assert read_journal(tmp_path)["q1"].score == 1.0


def test_a_failed_judge_leaves_the_answer_waiting_and_is_asked_again(tmp_path: Path) -> None:
    rows = [waiting("q1", "a red car drives by"), waiting("q2", "a blue boat")]
    done = judged(tmp_path, FirmJudge(fails_on="blue boat"), rows)
    assert (done["q2"].status, done["q2"].score) == ("needs_judge", None)
    assert "no answer from the judge" in done["q2"].reason
    again = FirmJudge()
    done = judged(tmp_path, again, rows)
    assert len(again.prompts) == 1
    assert done["q2"].score == 0.0


def test_the_command_judges_a_run_and_its_figures_follow(tmp_path: Path) -> None:
    write_run(tmp_path, [waiting("q1", "a red car drives by"), make_prediction("q2", 0.0)])
    assert read_run(tmp_path).results[0].headline.value is None
    with server(lambda number: says('{"score": 1}')) as (url, bodies, _):
        done = run_command(
            "vrleval", "judge", tmp_path, "--model", "served-judge", "--base-url", url, "--json", check=False
        )
    assert done.returncode == 0, done.stderr
    assert bodies[0]["model"] == "served-judge"
    assert json.loads(done.stdout)["benchmarks"]["demo"]["headline"]["value"] == 0.5
    assert judge_names(list(read_journal(tmp_path).values()))[0].startswith("served-judge")


def test_nothing_is_asked_where_nothing_waits(tmp_path: Path) -> None:
    judge = FirmJudge()
    judged(tmp_path, judge, [make_prediction("q1", 1.0)])
    assert judge.prompts == []

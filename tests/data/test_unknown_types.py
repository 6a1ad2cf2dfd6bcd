"""`on_unknown_type`: rows whose problem type is unknown are refused, read as open questions, or left out."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from typer.testing import CliRunner

import vrldata
from vrldata.annotations import read_annotations
from vrldata.cli import app
from vrldata.errors import AnnotationError, TaskError
from vrldata.tasks import ScoringSettings, check_answer, score, score_batch
from vrldata.tasks.registry import resolved_sample
from vrldata.types import Sample

OPEN = ScoringSettings(on_unknown_type="open_ended")
SKIP = ScoringSettings(on_unknown_type="skip")


def row(number: int, problem_type: str) -> dict[str, object]:
    return {
        "problem_id": number,
        "problem": "What goes up and never down?",
        "answer": "your age",
        "problem_type": problem_type,
        "data_type": "text",
    }


ROWS = [row(0, "open-ended"), row(1, "Riddle"), row(2, "trackin"), row(3, "Riddle")]


def annotation_file(folder: Path) -> Path:
    file = folder / "train.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in ROWS))
    return file


def test_an_unknown_type_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(TaskError, match="Did you mean 'tracking'"):
        score("trackin", "<answer>x</answer>", "x")


def test_open_ended_scores_a_row_and_names_its_spelling() -> None:
    result = score("Riddle", "<answer>your age</answer>", "your age", settings=OPEN)
    assert result.accuracy == score("open_ended", "<answer>your age</answer>", "your age").accuracy == 1.0
    assert "'Riddle'" in result.reason


def test_skip_masks_a_row_and_says_why() -> None:
    result = score("Riddle", "<answer>your age</answer>", "your age", settings=SKIP)
    assert (result.accuracy, result.overall, result.status) == (None, None, "skipped")
    assert "'Riddle'" in result.reason


def test_a_known_type_is_scored_as_ever_under_each_policy() -> None:
    for settings in (OPEN, SKIP):
        assert score("MCQ", "<answer>B</answer>", "B", options=["saw", "drill"], settings=settings) == score(
            "multiple_choice", "<answer>B</answer>", "B", options=["saw", "drill"]
        )


def test_a_batch_keeps_its_order_around_skipped_rows(caplog: pytest.LogCaptureFixture) -> None:
    records = [
        {"problem_type": kind, "response": f"<answer>{answer}</answer>", "answer": "5"}
        for kind, answer in (
            ("riddle", "5"),
            ("numerical", "5"),
            ("riddle", "5"),
            ("math", "6"),
            ("math", "5"),
        )
    ]
    with caplog.at_level(logging.WARNING):
        scores = score_batch(records, settings=SKIP, workers=1)
    assert [one.accuracy for one in scores] == [None, 1.0, None, 0.0, 1.0]
    assert "'riddle' 2" in caplog.text


def test_a_batch_counts_the_rows_that_it_reads_as_open_ended(caplog: pytest.LogCaptureFixture) -> None:
    records = [{"problem_type": "riddle", "response": "<answer>age</answer>", "answer": "age"}] * 3
    with caplog.at_level(logging.WARNING):
        assert [one.accuracy for one in score_batch(records, settings=OPEN)] == [1.0] * 3
    assert "scored as open_ended: 'riddle' 3" in caplog.text


def test_the_check_of_an_answer_follows_the_policy() -> None:
    assert check_answer("riddle", "age", settings=OPEN) is None
    assert "skip" in (check_answer("riddle", "age", settings=SKIP) or "")


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(TaskError, match="Did you mean 'skip'"):
        ScoringSettings(on_unknown_type="skp")


def test_a_sample_of_another_spelling_gets_its_canonical_type() -> None:
    sample = Sample(sample_id="a", problem="?", answer="3", problem_type="Object Counting")
    assert resolved_sample(sample) == Sample(sample_id="a", problem="?", answer="3", problem_type="numerical")


def test_annotations_with_unknown_types_are_rejected_by_default() -> None:
    found = read_annotations(ROWS)
    assert [sample.sample_id for sample in found.samples] == ["rows/0"]
    assert {one.reason for one in found.rejected} == {"unknown_problem_type"}


def test_annotations_read_as_open_ended_keep_the_spelling() -> None:
    found = read_annotations(ROWS, on_unknown_type="open_ended")
    assert [sample.problem_type for sample in found.samples] == ["open_ended"] * 4
    assert [sample.extra.get("original_problem_type") for sample in found.samples] == [
        None,
        "Riddle",
        "trackin",
        "Riddle",
    ]
    assert found.unknown_types == {"Riddle": 2, "trackin": 1}
    assert any("Did you mean 'tracking'" in notice.message for notice in found.warnings)


def test_annotations_that_are_skipped_are_recorded_with_their_reason() -> None:
    found = read_annotations(ROWS, on_unknown_type="skip")
    assert [sample.sample_id for sample in found.samples] == ["rows/0"]
    assert [(one.row, one.reason, one.field) for one in found.rejected] == [
        (1, "skipped_problem_type", "problem_type"),
        (2, "skipped_problem_type", "problem_type"),
        (3, "skipped_problem_type", "problem_type"),
    ]
    assert found.unknown_types == {"Riddle": 2, "trackin": 1}


def test_a_row_without_any_type_is_rejected_under_each_policy() -> None:
    nameless = {name: value for name, value in row(0, "").items() if name != "problem_type"}
    for policy in ("open_ended", "skip"):
        found = read_annotations([nameless, row(1, " ")], on_unknown_type=policy)
        assert [one.reason for one in found.rejected] == ["missing_field", "unknown_problem_type"]


def test_annotations_refuse_an_unknown_policy() -> None:
    with pytest.raises(AnnotationError, match="on_unknown_type"):
        read_annotations(ROWS, on_unknown_type="ignore")


def test_a_build_counts_what_it_read_as_open_ended(tmp_path: Path) -> None:
    dataset = vrldata.create(tmp_path / "clips")
    report = dataset.build(annotation_file(tmp_path), video_root=tmp_path, on_unknown_type="open_ended")
    assert (report.samples, report.rejected, report.skipped) == (4, 0, 0)
    assert report.unknown_types == {"Riddle": 2, "trackin": 1}
    assert report.complete
    assert dataset.sample("train/1").extra["original_problem_type"] == "Riddle"


def test_a_build_that_skips_is_complete_and_lists_what_it_left_out(tmp_path: Path) -> None:
    dataset = vrldata.create(tmp_path / "clips")
    report = dataset.build(annotation_file(tmp_path), video_root=tmp_path, on_unknown_type="skip")
    assert (report.samples, report.rejected, report.skipped) == (1, 0, 3)
    assert report.complete
    lines = [json.loads(line) for line in Path(report.rejected_file or "").read_text().splitlines()]
    assert [(line["line"], line["reason"]) for line in lines] == [
        (2, "skipped_problem_type"),
        (3, "skipped_problem_type"),
        (4, "skipped_problem_type"),
    ]


def test_the_command_line_takes_the_policy(tmp_path: Path) -> None:
    command = ["build", str(annotation_file(tmp_path)), "--video-root", str(tmp_path), "--out"]
    runner = CliRunner()
    assert runner.invoke(app, [*command, str(tmp_path / "a")]).exit_code == 1
    opened = runner.invoke(app, [*command, str(tmp_path / "b"), "--on-unknown-type", "open_ended"])
    assert opened.exit_code == 0, opened.output
    assert "unknown problem types read as open_ended: 'Riddle' 2, 'trackin' 1" in opened.output
    left_out = runner.invoke(app, [*command, str(tmp_path / "c"), "--on-unknown-type", "skip"])
    assert left_out.exit_code == 0, left_out.output
    assert "3 rows skipped" in left_out.output


def test_the_command_line_refuses_another_policy(tmp_path: Path) -> None:
    command = ["build", str(annotation_file(tmp_path)), "--video-root", str(tmp_path), "--out", str(tmp_path)]
    result = CliRunner().invoke(app, [*command, "--on-unknown-type", "skp"])
    assert isinstance(result.exception, AnnotationError)
    assert result.exception.exit_code == 2

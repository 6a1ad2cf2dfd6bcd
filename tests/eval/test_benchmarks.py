"""Annotation files of every benchmark, in EasyVideoR1's layout and in its own, as questions."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from tests.eval import rows_easyvideor1, rows_official
from tests.eval.examples import says
from tests.eval.rows_easyvideor1 import easyvideor1
from vrldata.errors import BenchmarkError
from vrleval.aggregate import summarise
from vrleval.annotations import read_benchmark
from vrleval.benchmarks.layouts import field_of
from vrleval.benchmarks.table import benchmarks, find_benchmark, read_table
from vrleval.scoring import ScoringContext, score_response
from vrleval.types import UNSCORED, Question

CASES = {**rows_easyvideor1.CASES, **rows_official.CASES}


def load(
    tmp_path: Path, name: str, file: str, rows: Any, videos: tuple[str, ...] = ()
) -> tuple[tuple[Question, ...], list[str]]:
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".jsonl":
        path.write_text("\n".join(json.dumps(row) for row in rows))
    else:
        path.write_text(json.dumps(rows))
    for video in videos:
        (tmp_path / video).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / video).write_bytes(b"not read here")
    questions, rejected, _ = read_benchmark(find_benchmark(name), tmp_path)
    return questions, [row["reason"] for row in rejected]


@pytest.mark.parametrize("case", CASES)
def test_a_row_becomes_a_question(tmp_path: Path, case: str) -> None:
    name, file, row, expected = CASES[case]
    questions, rejected = load(tmp_path, name, file, [row])
    assert rejected == []
    (question,) = questions
    sample = question.sample
    found = {
        "type": sample.problem_type,
        "answer": sample.answer,
        "letters": "".join(option[0] for option in sample.options),
        "problem": sample.problem,
        "groups": dict(question.groups),
        "window": (sample.start, sample.end),
        "video": sample.videos[0],
        "image": (*sample.images, "")[0],
        "unit": question.unit,
        "id": sample.sample_id,
    }
    wanted = {"type": "multiple_choice", **expected}
    assert {name: found[name] for name in wanted} == wanted


@pytest.mark.parametrize("case", CASES)
def test_the_right_answer_earns_its_headline_and_no_answer_earns_nothing(tmp_path: Path, case: str) -> None:
    name, file, row, _ = CASES[case]
    (question,), _ = load(tmp_path, name, file, [row])
    benchmark = find_benchmark(name)
    if benchmark.headline == "videomme_v2":  # a member alone does not make its group right
        benchmark = dataclasses.replace(benchmark, headline="micro")
    context = ScoringContext(config="c", family="qwen3-vl")
    responses = [f"Final Answer: <answer>{question.sample.answer}</answer>", ""]
    predictions = [score_response(question, says(text), [], context) for text in responses]
    right, silent = (summarise(benchmark, [one]).headline.value for one in predictions)
    if predictions[0].status in UNSCORED:
        assert (right, silent) == (None, 0.0)
        return
    assert (right, silent) == (1.0, 0.0)


def test_every_benchmark_of_the_table_has_a_case() -> None:
    covered = {find_benchmark(case[0]).name for case in CASES.values()}
    assert covered == set(benchmarks())


def test_the_27_disciplines_of_mmvu_have_their_field() -> None:
    fields = {
        "Science": "Astronomy Biology Chemistry Electromagnetism Geography Materials_Science Mechanics "
        "Modern_Physics Neurobiology Thermodynamics",
        "Engineering": "Biomedical_Engineering Civil_Engineering Computer_Science Electrical_Engineering "
        "Electronics_and_Communication Mechanical_Engineering",
        "Healthcare": "Basic_Medicine Clinical_Medicine Dentistry Pharmacy Preventive_Medicine",
        "Humanities & Social Science": "Art Economics History Law Literature Management",
    }
    found = {field: [field_of(name) for name in names.split()] for field, names in fields.items()}
    assert sum(map(len, found.values())) == 27
    assert {field: set(names) for field, names in found.items()} == {field: {field} for field in fields}


def test_a_video_is_found_in_the_benchmarks_folder_and_under_another_ending(tmp_path: Path) -> None:
    rows = [easyvideor1(path="./videos/demo_17.mp4"), easyvideor1(path="videos/b.mp4")]
    questions, _ = load(
        tmp_path,
        "videomme",
        "valid_data/videomme.json",
        rows,
        ("Video-MME/videos/demo_17.mp4", "Video-MME/videos/b.mkv"),
    )
    assert [question.sample.videos[0] for question in questions] == [
        "Video-MME/videos/demo_17.mp4",
        "Video-MME/videos/b.mkv",
    ]
    assert [question.problem for question in questions] == ["", ""]


def test_a_missing_video_is_a_question_that_counts_as_failed(tmp_path: Path) -> None:
    (question,), _ = load(tmp_path, "videomme", "videomme.json", [easyvideor1()])
    assert question.problem.startswith("media: no file './videos/demo_17.mp4'")


@pytest.mark.parametrize("path", ["../secret.mp4", "/etc/hostname", "a/../../b.mp4"])
def test_a_path_that_leads_out_of_the_root_is_not_read(tmp_path: Path, path: str) -> None:
    (tmp_path.parent / "secret.mp4").write_bytes(b"x")
    (question,), _ = load(tmp_path, "videomme", "videomme.json", [easyvideor1(path=path)])
    assert "leads out of the data root" in question.problem


def test_an_answer_that_is_no_option_is_reported_and_counts(tmp_path: Path) -> None:
    row = easyvideor1(solution="<answer>J</answer>")
    (question,), _ = load(tmp_path, "videomme", "videomme.json", [row], ("Video-MME/videos/demo_17.mp4",))
    assert question.problem.startswith("answer: ")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["A. one", "B. two", "B. three"], "B stands twice"),
        (["A. one"], "a single option"),
        (["A. ", "B. "], "all are empty"),
    ],
)
def test_damaged_options_reject_their_row_with_the_reason(
    tmp_path: Path, options: list[str], reason: str
) -> None:
    questions, rejected = load(
        tmp_path, "longvideoreason", "longvideoreason.json", [easyvideor1(options=options), easyvideor1()]
    )
    assert len(questions) == 1
    assert reason in rejected[0]


def test_duplicate_rows_and_ids_are_questions_of_their_own(tmp_path: Path) -> None:
    questions, _ = load(tmp_path, "livesports", "livesports3k_qa.json", [easyvideor1(), easyvideor1()])
    assert len({question.key for question in questions}) == 2


def test_a_single_object_is_one_row(tmp_path: Path) -> None:
    questions, _ = load(tmp_path, "videomme", "videomme.json", easyvideor1())
    assert len(questions) == 1


def test_the_files_of_another_benchmark_are_not_taken(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match="ODV-Bench: no annotations"):
        load(tmp_path, "odvbench", "videomme.json", [easyvideor1()])


def test_a_broken_file_names_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "videomathqa.jsonl"
    path.write_text(json.dumps(easyvideor1()) + '\n{"problem": \n')
    with pytest.raises(BenchmarkError, match=r"videomathqa\.jsonl:2"):
        read_benchmark(find_benchmark("videomathqa"), tmp_path)


def test_only_none_answers_at_the_last_two_places_of_a_video_are_simulated(tmp_path: Path) -> None:
    answers = ["None", "3", "4", "5", "None", "None"]
    rows = [
        easyvideor1(
            problem_type="open-ended", options=None, solution=f"<answer>{answer}</answer>", path="grid/a.mp4"
        )
        for answer in answers
    ]
    questions, _ = load(tmp_path, "videoreasonbench", "videoreasonbench.json", rows)
    assert [question.groups.get("dim") for question in questions] == [
        None,
        None,
        None,
        None,
        "prediction_operation",
        "prediction_operation",
    ]


def test_official_ovo_rows_become_a_question_for_each_moment(tmp_path: Path) -> None:
    row = {
        "id": 9,
        "task": "REC",
        "activity": "jumping",
        "test_info": [{"count": 0}, {"count": 2}],
    }
    questions, _ = load(tmp_path, "ovobench", "OVO-Bench/ovo_bench_new.json", [row])
    assert [(one.sample.videos[0], one.sample.answer) for one in questions] == [
        ("9_0.mp4", "0"),
        ("9_1.mp4", "2"),
    ]


def test_an_unknown_benchmark_suggests_the_nearest() -> None:
    with pytest.raises(BenchmarkError, match="Did you mean 'videomme'"):
        find_benchmark("vidomme")


def test_an_unknown_key_in_a_table_is_named(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text('[mine]\ntitle = "Mine"\nheadlin = "micro"\n')
    with pytest.raises(BenchmarkError, match="Did you mean 'headline'"):
        read_table(path)

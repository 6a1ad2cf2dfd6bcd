"""Annotation files of every benchmark, in EasyVideoR1's layout and in its own, as questions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from vrldata.errors import BenchmarkError
from vrleval.annotations import read_benchmark
from vrleval.benchmarks.table import benchmarks, find_benchmark, read_table
from vrleval.types import Question

FOUR = ["A. saw", "B. drill", "C. file", "D. plane"]


def easyvideor1(**values: Any) -> dict[str, Any]:
    """A row as EasyVideoR1's files have it."""
    return {
        "problem_id": 17,
        "problem": "Which tool is used last?",
        "data_type": "video",
        "problem_type": "multiple choice",
        "options": FOUR,
        "solution": "<answer>B</answer>",
        "path": "./videos/demo_17.mp4",
        "data_source": "Demo",
        **values,
    }


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


CASES: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    # name of the case: benchmark, file, row, expected
    "videomme": (
        "videomme",
        "valid_data/videomme.json",
        easyvideor1(
            videoID="abc", duration="medium", domain="Knowledge", sub_category="Law", task_type="OCR Problems"
        ),
        {
            "groups": {
                "duration": "medium",
                "domain": "Knowledge",
                "sub_category": "Law",
                "task_type": "OCR Problems",
            }
        },
    ),
    "videomme official": (
        "videomme",
        "Video-MME/videomme.json",
        {"question_id": "777-2", "videoID": "abc", "question": "Which?", "options": FOUR, "answer": "B"},
        {"video": "abc.mp4", "id": "777-2"},
    ),
    "videomme-v2 official": (
        "videomme_v2",
        "videomme_v2.json",
        {
            "video_id": "001",
            "question_id": "001-3",
            "question": "Which?",
            "options": "A. saw\nB. drill\nC. file",
            "answer": "B",
            "group_type": "logic",
            "group_structure": "[1,[2,3],4]",
            "level": 2,
        },
        {
            "unit": "001",
            "video": "001.mp4",
            "letters": "ABC",
            "groups": {"group_type": "logic", "group_structure": "[1,[2,3],4]", "level": "2"},
        },
    ),
    "mvbench official, answer as text, window": (
        "mvbench",
        "MVBench/json/action_localization.json",
        {
            "video": "x.mp4",
            "question": "When?",
            "candidates": ["start", "end"],
            "answer": "end",
            "start": 2.5,
            "end": 9.0,
        },
        {
            "answer": "B",
            "letters": "AB",
            "window": (2.5, 9.0),
            "video": "sta/sta_video/x.mp4",
            "groups": {"task": "action_localization"},
        },
    ),
    "mvbench of EasyVideoR1 keeps the window": (
        "mvbench",
        "mvbench.json",
        easyvideor1(path="./star/Charades_v1_480/a.mp4", start=1.0, end=4.0, answer="drill"),
        {"window": (1.0, 4.0), "groups": {}},
    ),
    "tempcompass yes_no": (
        "tempcompass",
        "TempCompass/yes_no/test-00000-of-00001.parquet",
        {"video_id": "7", "question": "Is it fast?", "answer": "yes", "dim": "speed"},
        {"type": "boolean", "answer": "yes", "groups": {"format": "yes_no", "dim": "speed"}},
    ),
    "tempcompass choices in the question": (
        "tempcompass",
        "TempCompass/multi-choice/test-00000-of-00001.parquet",
        {
            "video_id": "7",
            "question": "Where to?\nA. up\nB. downward",
            "answer": "B. downward",
            "dim": "direction",
        },
        {
            "letters": "AB",
            "answer": "B",
            "problem": "Where to?",
            "groups": {"format": "multi-choice", "dim": "direction"},
        },
    ),
    "motionbench official": (
        "motionbench",
        "MotionBench/video_info.meta.jsonl",
        {
            "key": "k",
            "video_path": "k.mp4",
            "question_type": "Camera Motion",
            "qa": [
                {"uid": "u1", "question": "How?\n(A) pan\n(B) tilt", "answer": "B"},
                {"uid": "u2", "question": "Hidden?\n(A) x\n(B) y", "answer": "NA"},
            ],
        },
        {
            "id": "u1",
            "letters": "AB",
            "problem": "How?",
            "groups": {"question_type": "Camera Motion"},
        },
    ),
    "lvbench official, several types": (
        "lvbench",
        "LVBench/video_info.meta.jsonl",
        {
            "key": "yt",
            "type": "sport",
            "qa": [
                {
                    "uid": "9",
                    "question": "Who?\n(A) a\n(B) b\n(C) c\n(D) d",
                    "answer": "C",
                    "question_type": ["ER", "KIR"],
                }
            ],
        },
        {
            "answer": "C",
            "video": "yt.mp4",
            "groups": {"question_type": "ER | KIR", "type": "sport"},
        },
    ),
    "longvideobench official, columns and position": (
        "longvideobench",
        "LongVideoBench/longvideobench.json",
        {
            "id": "q_0",
            "question": "What?",
            "option0": "a dog",
            "option1": "a cat",
            "option2": "a cow",
            "option3": "N/A",
            "option4": "N/A",
            "correct_choice": 2,
            "video_path": "v.mp4",
            "duration_group": 600,
            "question_category": "S2E",
        },
        {
            "letters": "ABC",
            "answer": "C",
            "groups": {"duration_group": "600", "question_category": "S2E"},
        },
    ),
    "mlvu dev official, task by file name": (
        "mlvu_dev",
        "MVLU/json/4_count.json",
        {"video": "c.mp4", "question": "How many?", "candidates": ["1", "2", "3", "4"], "answer": "3"},
        {"answer": "C", "groups": {"task_type": "count"}, "video": "c.mp4"},
    ),
    "mlvu test keeps six letters": (
        "mlvu",
        "valid_data/mlvu-test.json",
        easyvideor1(options=[f"{letter}. x{letter}" for letter in "ABCDEF"], solution="<answer>F</answer>"),
        {"letters": "ABCDEF", "answer": "F"},
    ),
    "video-holmes official": (
        "holmes",
        "Video-Holmes/test_Video-Holmes.json",
        {
            "video ID": "h1",
            "Question ID": "1",
            "Question Type": "TCI",
            "Question": "Who did it?",
            "Options": {letter: f"person {letter}" for letter in "ABCDEF"},
            "Answer": "E",
        },
        {"letters": "ABCDEF", "answer": "E", "video": "h1.mp4", "groups": {"Question Type": "TCI"}},
    ),
    "minerva official": (
        "minerva",
        "minerva.json",
        {
            "key": "k",
            "video_id": "m1",
            "question": "Why?",
            **{f"answer_choice_{index}": f"reason {index}" for index in range(5)},
            "answer_id": 4,
            "question_type": ["Temporal", "Counting"],
            "split": "sports",
        },
        {
            "letters": "ABCDE",
            "answer": "E",
            "groups": {"question_type": "Temporal | Counting", "split": "sports"},
        },
    ),
    "vcr-bench keeps option E": (
        "vcrbench",
        "VCR-Bench/vcrbench.json",
        {
            "id": 3,
            "multiple-choice": True,
            "choices": {letter: f"c{letter}" for letter in "ABCDE"},
            "question": "Which?",
            "answer": "E",
            "video_path": "v.mp4",
            "dimension": "FPR",
        },
        {"letters": "ABCDE", "answer": "E", "groups": {"dimension": "FPR"}},
    ),
    "videoreasonbench official": (
        "videoreasonbench",
        "VideoReasonBench/questions/grid.json",
        {
            "video": "videos/grid/a.mp4",
            "question": "Which moves? Provide a summary of the final answer after 'Final Answer:'",
            "answer": "left",
            "dim": "recall_order",
            "visible_time": "start",
        },
        {
            "type": "open_ended",
            "groups": {"dim": "recall_order", "demo": "grid", "visible_time": "start"},
        },
    ),
    "longvideo-reason official, options in the question": (
        "longvideoreason",
        "LongVideo-Reason/longvideo_reason_test.json",
        {"videos": "v.mp4", "problem": "Why?\nA. one\nB. two\nC. three", "answer": "C"},
        {"letters": "ABC", "problem": "Why?"},
    ),
    "mmvu official, open": (
        "mmvu-all",
        "MMVU/validation.json",
        {
            "id": "v_1",
            "video_path": "videos/Clinical_Medicine/1.mp4",
            "question": "Which drug?",
            "question_type": "open-ended",
            "choices": {"A": "", "B": ""},
            "answer": "aspirin",
        },
        {
            "type": "open_ended",
            "letters": "",
            "groups": {"field": "Healthcare", "discipline": "Clinical_Medicine"},
        },
    ),
    "mmvu choices": (
        "mmvu_mc",
        "valid_data/mmvu.json",
        easyvideor1(path="./videos/Chemistry/0.mp4"),
        {"groups": {"field": "Science", "discipline": "Chemistry"}},
    ),
    "video-mmmu with an image and ten options": (
        "videommmu",
        "valid_data/videommmu_with_image.json",
        easyvideor1(
            problem="What does <image 1> show?",
            options=[f"{letter}. x{letter}" for letter in "ABCDEFGHIJ"],
            solution="<answer>I</answer>",
            image_path="images/1.png",
        ),
        {
            "letters": "ABCDEFGHIJ",
            "answer": "I",
            "groups": {"track": "Adaptation"},
            "image": "images/1.png",
            "problem": "The image of the question follows the video.\nWhat does the image show?",
        },
    ),
    "videomathqa choices": (
        "videomathqa",
        "valid_data/videomathqa.jsonl",
        easyvideor1(options=["A. 1", "B. 2", "C. 3", "D. 4", "E. 5"], category="Geometry", length="Long"),
        {"letters": "ABCDE", "groups": {"category": "Geometry", "length": "Long"}},
    ),
    "videomathqa binaries": (
        "videomathqa_mbin",
        "valid_data/videomathqa.jsonl",
        easyvideor1(options=["A. 1", "B. 2"], mbinary_id=3),
        {"letters": "AB", "unit": "17"},
    ),
    "vsi-bench official number": (
        "vsibench",
        "VSI-Bench/test.jsonl",
        {
            "id": 5,
            "dataset": "scannet",
            "scene_name": "scene0",
            "question_type": "object_counting",
            "question": "How many chairs?",
            "options": None,
            "ground_truth": "4",
        },
        {
            "type": "regression",
            "answer": "4",
            "video": "scannet/scene0.mp4",
            "groups": {"question_type": "object_counting", "dataset": "scannet"},
        },
    ),
    "vsi-bench of EasyVideoR1": (
        "vsibench",
        "vsibench.json",
        easyvideor1(original_question_type="route_planning"),
        {"groups": {"question_type": "route_planning"}},
    ),
    "charades damaged": (
        "charades_sta",
        "valid_data/charades_sta.json",
        easyvideor1(
            problem="person opens the door",
            problem_type="temporal grounding",
            options=[],
            solution='<think>{"time":[4.5,12.0],"boxes":{}}</think>\n<placeholder>',
        ),
        {"type": "temporal_grounding", "answer": '{"time": [4.5, 12.0]}'},
    ),
    "charades official": (
        "charades_sta",
        "Charades-STA/charades_sta.json",
        {"video": "AB12.mp4", "caption": "person sits down", "timestamp": [1.2, 7.9]},
        {"type": "temporal_grounding", "answer": '{"time": [1.2, 7.9]}', "problem": "person sits down"},
    ),
    "stvg": (
        "stvg",
        "stvg.json",
        easyvideor1(
            problem="the child in red",
            problem_type="spatial-temporal grounding",
            options=None,
            solution='<answer>{"time":[1,2],"boxes":{"1":[1,2,30,40],"2":[1,2,30,40]}}</answer>',
        ),
        {"type": "spatial_temporal_grounding"},
    ),
    "ovo-bench of EasyVideoR1": (
        "ovobench",
        "ovobench.json",
        easyvideor1(
            problem_type="SSR", options=[], solution="<answer>Yes</answer>", ovo_task="SSR", ovo_type=1
        ),
        {"type": "boolean", "answer": "Yes", "groups": {"ovo_task": "SSR"}},
    ),
    "ovo-bench official choice": (
        "ovobench",
        "OVO-Bench/ovo_bench_new.json",
        {"id": 4, "task": "EPM", "question": "Where?", "options": ["here", "there"], "gt": 1},
        {"answer": "B", "letters": "AB", "video": "4.mp4", "groups": {"ovo_task": "EPM"}},
    ),
    "odv-bench official, answer as text": (
        "odvbench",
        "ODV-Bench/odvbench.json",
        {
            "video": "drive.mp4",
            "question": "What is ahead?",
            "candidates": ["a car", "a bus"],
            "answer": "a bus",
            "start": 3,
            "end": 8,
            "task": "static",
            "subtask": "s",
        },
        {"answer": "B", "window": (3.0, 8.0), "groups": {"task": "static", "subtask": "s"}},
    ),
    "livesports with colons": (
        "livesports",
        "valid_data/livesports3k_qa.json",
        easyvideor1(options=["A: x", "B: y", "C: z", "D: w"], q_type_livesports="Who", ocr_livesports=1),
        {"letters": "ABCD", "groups": {"q_type_livesports": "Who", "ocr_livesports": "1"}},
    ),
    "livesports official, window": (
        "livesports3k_qa",
        "LiveSports-3K/videos/livesports3k_qa.json",
        {
            "video_id": "v",
            "question_id": 2,
            "begin": 10.5,
            "end": 20,
            "q_type": "What",
            "OCR": 0,
            "question": "What?",
            "options": ["A: x", "B: y"],
            "answer": "B",
        },
        {"window": (10.5, 20.0), "video": "v.mp4", "groups": {"q_type": "What", "OCR": "0"}},
    ),
    "video-mmlu captions": (
        "videommlu",
        "videommlu.json",
        easyvideor1(problem="", problem_type="caption", options=None, solution="A lecture on prisms."),
        {"type": "open_ended", "answer": "A lecture on prisms."},
    ),
}


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


def test_every_benchmark_of_the_table_has_a_case() -> None:
    covered = {find_benchmark(case[0]).name for case in CASES.values()}
    assert covered == set(benchmarks())


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

"""Invented annotation rows in the official layouts of the benchmarks, and what they mean."""

from __future__ import annotations

from typing import Any

FOUR = ["A. saw", "B. drill", "C. file", "D. plane"]

# name of the case: benchmark, file, row, expected
CASES: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
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
    "tempcompass yes_no": (
        "tempcompass",
        "TempCompass/yes_no/test-00000-of-00001.parquet",
        {"video_id": "7", "question": "Is it fast?", "answer": "yes", "dim": "speed"},
        {
            "type": "boolean",
            "answer": "yes",
            "groups": {"format": "yes_no", "dim": "speed", "format and dim": "yes_no, speed"},
        },
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
            "groups": {
                "format": "multi-choice",
                "dim": "direction",
                "format and dim": "multi-choice, direction",
            },
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
            "duration": 300.0,
        },
        {
            "letters": "ABCDE",
            "answer": "E",
            "groups": {"dimension": "FPR", "duration_group": "up to 300 s"},
        },
    ),
    "videommmu official": (
        "videommmu",
        "VideoMMMU/Comprehension/test-00000-of-00001.parquet",
        {
            "id": "dev_Clinical_Medicine_12",
            "question": "Which drug?",
            "options": ["aspirin", "insulin"],
            "answer": "B",
            "question_type": "multiple-choice",
        },
        {
            "answer": "B",
            "groups": {
                "track": "Comprehension",
                "discipline": "Medicine",
                "subject": "Clinical_Medicine",
            },
        },
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
    "charades official": (
        "charades_sta",
        "Charades-STA/charades_sta.json",
        {"video": "AB12.mp4", "caption": "person sits down", "timestamp": [1.2, 7.9]},
        {"type": "temporal_grounding", "answer": '{"time": [1.2, 7.9]}', "problem": "person sits down"},
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
}

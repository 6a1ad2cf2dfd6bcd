"""Invented annotation rows in EasyVideoR1's layout, and what they mean."""

from __future__ import annotations

from typing import Any

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


# name of the case: benchmark, file, row, expected
CASES: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
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
    "mvbench of EasyVideoR1 keeps the window": (
        "mvbench",
        "mvbench.json",
        easyvideor1(path="./star/Charades_v1_480/a.mp4", start=1.0, end=4.0, answer="drill"),
        {"window": (1.0, 4.0), "groups": {}},
    ),
    "mlvu test keeps six letters": (
        "mlvu",
        "valid_data/mlvu-test.json",
        easyvideor1(options=[f"{letter}. x{letter}" for letter in "ABCDEF"], solution="<answer>F</answer>"),
        {"letters": "ABCDEF", "answer": "F"},
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
    "livesports with colons": (
        "livesports",
        "valid_data/livesports3k_qa.json",
        easyvideor1(options=["A: x", "B: y", "C: z", "D: w"], q_type_livesports="Who", ocr_livesports=1),
        {"letters": "ABCD", "groups": {"q_type_livesports": "Who", "ocr_livesports": "1"}},
    ),
    "video-mmlu captions": (
        "videommlu",
        "videommlu.json",
        easyvideor1(problem="", problem_type="caption", options=None, solution="A lecture on prisms."),
        {"type": "open_ended", "answer": "A lecture on prisms."},
    ),
}

"""Every shared scoring vector: strict ones for protocol `train`, tolerant ones for protocol `eval`."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.conftest import shared_missing, shared_root
from tests.data.scoring_vectors import call_of, check_expected, check_extracted, check_score
from vrldata.tasks import ScoringSettings, score, score_batch


def _vectors(name: str) -> list[Any]:
    if reason := shared_missing():
        return [pytest.param(None, marks=pytest.mark.skip(reason=reason))]
    return [pytest.param(vector, id=str(vector["id"])) for vector in _read(name)]


def _read(name: str) -> list[dict[str, Any]]:
    """The vectors of a file, each with the settings that the file gives to all."""
    document = json.loads((shared_root() / "vectors" / name).read_text(encoding="utf-8"))
    shared = document.get("defaults", {})
    return [
        {**vector, "settings": {**shared, **vector.get("settings", {})}} for vector in document["vectors"]
    ]


@pytest.mark.parametrize("vector", _vectors("rewards.json"))
def test_reward_vector_has_its_accuracy_and_format(vector: dict[str, Any]) -> None:
    call = call_of(vector, "train")
    if "max_seconds" in vector:
        # starting the process that parses is no part of a score
        score(call.problem_type, "<answer>x + 1</answer>", call.answer, options=call.options)
    start = time.perf_counter()
    result = call.score()
    seconds = time.perf_counter() - start
    if "max_seconds" in vector:
        assert seconds < vector["max_seconds"], vector
    check_expected(result, vector["expected"], float(vector.get("tol") or 1e-6), call.settings.weights)


def test_reward_vectors_score_the_same_in_worker_processes(shared_folder: Any) -> None:
    calls = [call_of(vector, "train") for vector in _read("rewards.json")]
    plain = [call for call in calls if call.settings == ScoringSettings() and call.protocol == "train"]
    records = [
        {
            "problem_type": call.problem_type,
            "response": call.response,
            "ground_truth": call.answer,
            "options": call.options,
            **call.record_fields,
        }
        for call in plain
    ]
    results = score_batch(records, workers=2)
    alone = [call.score() for call in plain]
    assert [(one.accuracy, one.format, one.status) for one in results] == [
        (one.accuracy, one.format, one.status) for one in alone
    ]


@pytest.mark.parametrize("vector", _vectors("eval.json"))
def test_eval_vector_has_its_score_status_and_extraction(vector: dict[str, Any]) -> None:
    result = call_of(vector, "eval").score()
    assert result.status == vector["expected_status"], (vector.get("reason"), result)
    check_score(result, vector["expected_score"], float(vector.get("tol") or 1e-5))
    check_extracted(result, vector.get("expected_extracted"))


FORMS: list[tuple[dict[str, Any], str]] = [
    (
        {
            "problem_type": "mcq",
            "response": "<answer>B</answer>",
            "ground_truth": "B",
            "options": {"A": "x", "B": "y"},
            "expected": {
                "accuracy": 1,
                "format": 1,
                "overall": 1.0,
                "status": "ok",
                "how": "tag",
                "extracted": "B",
            },
        },
        "ok",
    ),
    (
        {
            "problem_type": "mcq",
            "response": "<answer>C</answer>",
            "ground_truth": "C",
            "options": ["x", "y"],
            "expected": {"accuracy": None, "status": "bad_ground_truth"},
        },
        "ok",
    ),
    (
        {
            "problem_type": "mcq",
            "response": "<answer>A</answer>",
            "ground_truth": "Z",
            "options": ["x"],
            "expected": {"valid": False, "format": 0},
        },
        "ok",
    ),
    (
        {
            "problem_type": "mcq",
            "response": "answer is B",
            "ground_truth": "B",
            "extraction": "lenient",
            "expected": {"accuracy": 1, "format": 1},
        },
        "ok",
    ),
    (
        {
            "problem_type": "mcq",
            "response": "<answer>B</answer>",
            "ground_truth": "B",
            "settings": {"weights": {"accuracy": 0.5, "format": 0.5}, "require_think": True},
            "expected": {"accuracy": 0, "format": 0, "status": "no_answer"},
        },
        "ok",
    ),
    (
        {
            "problem_type": "rec",
            "response": '<answer>{"boxes": [0, 0, 500, 500]}</answer>',
            "ground_truth": [0, 0, 64, 36],
            "coord_space": "norm1000",
            "answer_coord_space": "pixel",
            "width": 128,
            "height": 72,
            "tol": None,
            "expected": {"accuracy": 1, "parts": {"iou": 1}},
        },
        "ok",
    ),
    (
        {
            "problem_type": "open ended",
            "response": "<answer>a cat</answer>",
            "ground_truth": "a dog",
            "judge_reply": '{"score": 0.5}',
            "expected": {"accuracy": 0.5, "format": 1},
        },
        "ok",
    ),
    (
        {
            "problem_type": "open ended",
            "response": "<answer>a cat</answer>",
            "ground_truth": "a dog",
            "judge_reply": "well",
            "expected": {"accuracy": None, "status": "judge_error"},
        },
        "ok",
    ),
    (
        {
            "problem_type": "mcq",
            "response": "<answer>B</answer>",
            "ground_truth": "B",
            "expected": {"accuracy": 1, "format": 1, "colour": "red"},
        },
        "no check for the expectations colour",
    ),
    (
        {
            "problem_type": "mcq",
            "response": "<answer>B</answer>",
            "ground_truth": "B",
            "expected": {"accuracy": 1, "format": 0.5},
        },
        "format",
    ),
]


@pytest.mark.parametrize(("vector", "outcome"), FORMS)
def test_whatever_a_vector_expects_is_checked(vector: dict[str, Any], outcome: str) -> None:
    check = test_reward_vector_has_its_accuracy_and_format
    if outcome == "ok":
        check(vector)
        return
    with pytest.raises(AssertionError, match=outcome):
        check(vector)


@pytest.mark.parametrize(
    ("context", "box"),
    [
        ({"box_frame": "pixel"}, [64, 36, 128, 72]),
        ({"box_frame": "norm1000"}, [64, 36, 128, 72]),
        ({"box_frame": "norm1000", "width": 128, "height": 72}, [500, 500, 1000, 1000]),
        ({"pred_box_frame": "norm1000", "video_width": 128, "video_height": 72}, [500, 500, 1000, 1000]),
        (
            {
                "pred_box_frame": "pixel-resized",
                "width": 128,
                "height": 72,
                "resized_width": 64,
                "resized_height": 72,
            },
            [32, 36, 64, 72],
        ),
        ({"pred_box_frame": "norm1", "box_frame": "pixel", "width": 128, "height": 72}, [0.5, 0.5, 1, 1]),
    ],
)
def test_frame_of_the_boxes_is_that_of_the_context(context: dict[str, Any], box: list[float]) -> None:
    vector = {
        "problem_type": "stvg",
        "prediction": json.dumps({"time": [1, 2], "boxes": {"1": box}}),
        "ground_truth": {"time": [1, 2], "boxes": {"1": [64, 36, 128, 72], "2": [64, 36, 128, 72]}},
        "expected_score": {"tIoU": 1, "sIoU": 1.0, "viou": 0.5, "viou@0.5": 1, "accuracy": 0.75},
        "expected_status": "scored",
        "context": context,
    }
    test_eval_vector_has_its_score_status_and_extraction(vector)


@pytest.mark.parametrize(
    ("prediction", "key", "kind", "expected"),
    [
        ("It is 5 %.", "5%", "numerical", 5),
        ("A and C", ["A", "C"], "mcq", ["A", "C"]),
        ("[[1, 2], [4, 5]]", [[1, 2], [4, 5]], "tvg", [[1.0, 2.0], [4.0, 5.0]]),
        ("yes", "yes", "boolean", True),
        ("5", "5", "counting", "5"),
    ],
)
def test_extraction_is_compared_as_the_kind_of_value_that_it_is(
    prediction: str, key: Any, kind: str, expected: Any
) -> None:
    result = score(kind, prediction, key, protocol="eval")
    check_extracted(result, expected)
    with pytest.raises(AssertionError):
        check_extracted(result, "another")

"""Every shared scoring vector: strict ones for protocol `train`, tolerant ones for protocol `eval`."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.conftest import shared_missing, shared_root
from vrldata.tasks import score, score_batch
from vrldata.types import Score

_RECORD_FIELDS = (
    "data_type",
    "duration",
    "width",
    "height",
    "coord_space",
    "answer_coord_space",
    "response_length",
    "finish_reason",
    "problem",
    "extra",
)


def _vectors(name: str) -> list[Any]:
    if reason := shared_missing():
        return [pytest.param(None, marks=pytest.mark.skip(reason=reason))]
    document = json.loads((shared_root() / "vectors" / name).read_text(encoding="utf-8"))
    return [pytest.param(vector, id=vector["id"]) for vector in document["vectors"]]


def _train(vector: dict[str, Any]) -> Score:
    fields = {name: vector[name] for name in _RECORD_FIELDS if name in vector}
    return score(
        vector["problem_type"],
        vector["response"],
        vector["ground_truth"],
        options=vector.get("options"),
        **fields,
    )


@pytest.mark.parametrize("vector", _vectors("rewards.json"))
def test_reward_vector_has_its_accuracy_and_format(vector: dict[str, Any]) -> None:
    start = time.perf_counter()
    result = _train(vector)
    seconds = time.perf_counter() - start
    expected, tolerance = vector["expected"], vector["tol"]
    if "max_seconds" in vector:
        assert seconds < vector["max_seconds"], vector["why"]
    if expected.get("valid") is False or expected["accuracy"] is None:
        assert (result.accuracy, result.overall) == (None, None), (vector["why"], result)
        return
    assert result.accuracy == pytest.approx(expected["accuracy"], abs=tolerance), (vector["why"], result)
    assert result.format == pytest.approx(expected["format"], abs=tolerance), (vector["why"], result)
    overall = 0.9 * expected["accuracy"] + 0.1 * expected["format"]
    assert result.overall == pytest.approx(overall, abs=tolerance)


def test_reward_vectors_score_the_same_in_worker_processes(shared_folder: Any) -> None:
    document = json.loads((shared_folder / "vectors" / "rewards.json").read_text(encoding="utf-8"))
    vectors = document["vectors"]
    fields = ("problem_type", "response", "ground_truth", "options", *_RECORD_FIELDS)
    records = [{name: vector[name] for name in fields if name in vector} for vector in vectors]
    results = score_batch(records, workers=2)
    assert [(result.accuracy, result.format) for result in results] == [
        (alone.accuracy, alone.format) for alone in map(_train, vectors)
    ]


@pytest.mark.parametrize("vector", _vectors("eval.json"))
def test_eval_vector_has_its_score_status_and_extraction(vector: dict[str, Any]) -> None:
    context = dict(vector.get("context") or {})
    fields = {name: context.pop(name) for name in _RECORD_FIELDS if name in context}
    result = score(
        vector["problem_type"],
        vector["prediction"],
        vector["ground_truth"],
        options=vector.get("options"),
        protocol="eval",
        **{"extra": context, **fields},
    )
    assert result.status == vector["expected_status"], (vector["reason"], result)
    _check_score(result, vector["expected_score"])
    _check_extracted(result, vector["expected_extracted"])


def _check_score(result: Score, expected: Any) -> None:
    if isinstance(expected, dict):
        assert {name: result.parts[name] for name in expected} == pytest.approx(expected)
    elif expected is None:
        assert result.accuracy is None
    else:
        assert result.accuracy == pytest.approx(expected)


def _check_extracted(result: Score, expected: Any) -> None:
    if expected is None:
        assert result.status == "scored" or not result.extracted
    elif isinstance(expected, str):
        assert result.extracted == expected
    elif isinstance(expected, list) and all(isinstance(item, str) for item in expected):
        assert sorted(result.extracted.split(", ")) == sorted(expected)
    else:
        assert json.loads(result.extracted.removesuffix("%")) == pytest.approx(expected)

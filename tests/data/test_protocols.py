"""Protocols pinned against each other: what EasyVideoR1's rules give, and where ours differ."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conftest import shared_missing, shared_root
from vrldata.tasks import score

OPTIONS = ["A. red bucket", "B. green ladder", "C. blue kite", "D. grey boat"]


def _eval_vectors() -> list[Any]:
    if reason := shared_missing():
        return [pytest.param(None, marks=pytest.mark.skip(reason=reason))]
    document = json.loads((shared_root() / "vectors" / "eval.json").read_text(encoding="utf-8"))
    return [pytest.param(vector, id=vector["id"]) for vector in document["vectors"]]


@pytest.mark.parametrize("vector", _eval_vectors())
def test_easyvideor1_eval_gives_what_its_script_gave(vector: dict[str, Any]) -> None:
    extra = {"ovo_task": "REC"} if vector["problem_type"] == "counting" else {}
    result = score(
        vector["problem_type"],
        vector["prediction"],
        vector["ground_truth"],
        options=vector.get("options"),
        protocol="easyvideor1-eval",
        extra=extra,
    )
    assert result.accuracy == pytest.approx(vector["easyvideor1_score"])


TUBE = '{"time": [3, 8], "boxes": {"3": [0, 0, 9, 9], "4": [0, 0, 9, 9]}}'


@pytest.mark.parametrize(
    ("problem_type", "content", "key", "theirs", "ours"),
    [
        ("multiple choice", "I think B", "B", 0.0, 1.0),
        ("multiple choice", "A man is running", "A", 1.0, 0.0),
        ("multiple choice", "A, B, C, D", "D", 1.0, 0.0),
        ("numerical", "two hundred", "200", 0.0, 1.0),
        ("numerical", "0.02", "0.01", 1.0, 0.0),
        ("numerical", "50%", "50", 0.0, 1.0),
        ("numerical", "between 3 and 5", "3", 1.0, 0.0),
        ("boolean", "Yes, there is no doubt", "Yes", 0.0, 1.0),
        ("temporal grounding", '{"time": [5, 5]}', '{"time": [5, 5]}', 0.0, 1.0),
        ("temporal grounding", '{"time": [0, 1]} {"time": [3, 8]}', '{"time": [3, 8]}', 1.0, 0.0),
        ("spatial-temporal grounding", '{"time": [3, 8], "boxes": {"4": [0, 0, 9, 9]}}', TUBE, 1.0, 0.75),
        ("open-ended", "dog", "dog", 2 / 3, 1.0),
        ("open-ended", "一个男人", "一个男人", 0.0, 1.0),
    ],
)
def test_easyvideor1_train_differs_where_its_faults_lie(
    problem_type: str, content: str, key: str, theirs: float, ours: float
) -> None:
    response = f"<answer>{content}</answer>"
    assert score(problem_type, response, key, protocol="easyvideor1-train").accuracy == pytest.approx(theirs)
    assert score(problem_type, response, key).accuracy == pytest.approx(ours)


@pytest.mark.parametrize(
    ("prediction", "letter"),
    [
        ("**Answer:** B", "B"),
        ("The correct option is B because it is tall", "B"),
        ("答案是B。", "B"),
        ("La respuesta correcta es B.", "B"),
        ("Die Antwort lautet (B)", "B"),
        ("Правильный ответ: B", "B"),
        ("正解はBです", "B"),
        ("b", "B"),
        ("(Ｂ)", "B"),
        ("Option B", "B"),
        ("<b>B</b>", "B"),
        ("[[B]]", "B"),
        ("B ✓", "B"),
        ("A man walks in. The answer is C", "C"),
        ("The answer is B. Because Charlie Did it", "B"),
        ("Correct: B", "B"),
        ("Because the man left, D", "D"),
        ("Option B is correct.", "B"),
        ("I see the green ladder.", "B"),
        ("<answer>A</answer> wait <answer>B</answer>", "B"),
        ("Reasoning here.\n\nC. blue kite", "C"),
    ],
)
def test_tolerant_protocol_finds_the_letter(prediction: str, letter: str) -> None:
    result = score("mcq", prediction, letter, options=OPTIONS, protocol="eval")
    assert (result.accuracy, result.extracted, result.status) == (1.0, letter, "scored")


@pytest.mark.parametrize(
    "prediction", ["I do not know.", "A man, a plan.", "None of them", "It is E", "Plan", "b c"]
)
def test_tolerant_protocol_does_not_guess(prediction: str) -> None:
    for letter in "ABCD":
        result = score("mcq", prediction, letter, options=OPTIONS, protocol="eval")
        assert (result.accuracy, result.status) == (0.0, "unparsed")


def test_strict_figure_stands_beside_the_tolerant_one() -> None:
    assert score("mcq", "B", "B", options=OPTIONS, protocol="eval").strict == 0.0
    tagged = score("mcq", "<answer>B</answer>", "B", options=OPTIONS, protocol="eval")
    assert (tagged.accuracy, tagged.strict, tagged.how) == (1.0, 1.0, "tag")


@pytest.mark.parametrize(
    ("problem_type", "prediction", "key"),
    [
        ("numerical", "There are about 3.5 m/s2 of it", 3.5),
        ("regression", "1.5 to 2 meters", 1.5),
        ("temporal grounding", "It happens at 10 - 20 s.", [10, 20]),
        ("temporal grounding", "start time: 10, end time: 20", [10, 20]),
        ("temporal grounding", "{'time': [10, 20,]}", [10, 20]),
        ("temporal grounding", '{"time": [[10, 20], [30, 40]]}', [10, 20]),
        ("spatial grounding", '```json\n[{"bbox_2d": [9, 9, 0, 0], "label": "car"}]\n```', [0, 0, 9, 9]),
        ("spatial grounding", "<box>(0,0),(9,9)</box>", [0, 0, 9, 9]),
        ("temporal grounding", "(10, 20)", [10, 20]),
        ("code", "Here it is:\n```python\nx = f(1)\n```\nresult = 5 stands for nothing", "x = f(1)"),
        ("math", "Therefore the answer is $\\frac{1}{2}$.", "0.5"),
    ],
)
def test_tolerant_protocol_reads_other_types(problem_type: str, prediction: str, key: Any) -> None:
    assert score(problem_type, prediction, key, protocol="eval").accuracy == 1.0

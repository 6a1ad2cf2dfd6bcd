"""Hostile texts: every protocol gives a score in bounds for each, and none makes a scorer raise or stall."""

from __future__ import annotations

import math
from typing import Any

import pytest

from vrldata.tasks import PROBLEM_TYPES, PROTOCOLS, ScoringSettings, check_answer, score, score_batch

LONG = 70_000
CONTENTS: dict[str, str] = {
    "open braces": "{" * LONG,
    "open brackets": "[" * LONG,
    "nested JSON": '{"a":' * 5000 + "1" + "}" * 5000,
    "blanks": " " * LONG,
    "line breaks": "\n" * LONG,
    "digits": "1" * 4000,
    "numbers": "1," * 4000,
    "clocks": "1:" * 4000,
    "capitals": "A " * 4000,
    "quotes": '"' * LONG,
    "backslashes": "\\" * LONG,
    "answer tags": "<answer>" * 2000,
    "conclusions": "the answer is " * 1000,
    "chinese conclusions": "答案是" * 3000,
    "number words": "two hundred and " * 1000,
    "fractions": "\\frac{" * 2000,
    "ligatures": "\ufdfa" * 2000,
    "combining marks": "e" + "\u0301" * 3000,
    "nul": "\x00B\x00",
    "surrogate": "\ud800B",
    "huge exponent": "1e999999",
    "tower": "9**9**9",
    "factorial": "99999999!",
    "power tower": "10^{10^{10}}",
    "binomial": "\\binom{999999999}{499999999}",
    "huge JSON numbers": '{"time": [1e400, 2e400], "boxes": [1e400, 0, 1, 1]}',
    "entity bomb": '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><svg>&b;</svg>',
    "nested calls": "(" * 3000 + ")" * 3000,
    "deep XML": "<g>" * 5000,
    "marked section": "<![CDATA[" * 2000,
}


def nested(depth: int) -> Any:
    """Lists in objects in lists, each holding the next one twice."""
    value: Any = {}
    for _ in range(depth):
        value = {"boxes": [value, value], "time": value}
    return value


KEYS: list[Any] = [
    *(nested(40), nested(3000)),
    *(None, True, -1, 1.5, math.nan, math.inf, 10**400, 10**5000, "", "\x00", "\ud800", [], [[]], {}, "B"),
    *({"time": None}, {"time": [math.nan, 1]}, {"boxes": {"1": None}}, {"boxes": [0, 0, 1, 10**400]}),
    *("{" * 10_000, "1" * 10_000, "a" * 70_000, "\\boxed{", "<svg", "def f(", b"bytes", object(), {1, 2}),
]
FIELDS: list[dict[str, Any]] = [
    {"duration": -5.0},
    {"duration": math.nan},
    {"width": 0, "height": 0, "coord_space": "pixel", "answer_coord_space": "norm1000"},
    {"extra": {"dim": ["x"], "ovo_task": 5, "unit_tests": 5}},
    {"options": ["x"] * 60},
    {"options": ["", "", ""]},
]
KEY_OF_TYPE: dict[str, Any] = {
    "multiple_choice": "B",
    "regression": 40,
    "boolean": "yes",
    "spatial_grounding": [0, 0, 9, 9],
    "segmentation": {
        "boxes": [0, 0, 9, 9],
        "positive_points": [[1, 1]] * 3,
        "negative_points": [[9, 9]] * 3,
    },
    "svg_code": "<svg><g/></svg>",
    "html_code": "<p>x</p>",
    "code": "x = f(1)",
    "preference": "tie",
}
TUBE = {"time": [3, 8], "boxes": {"3": [0, 0, 9, 9]}}
QUICK = ScoringSettings(math_seconds=0.2)


def key_of(problem_type: str) -> Any:
    if "grounding" in problem_type or problem_type == "tracking":
        return KEY_OF_TYPE.get(problem_type, TUBE)
    return KEY_OF_TYPE.get(problem_type, "7")


PAIRS = [
    (problem_type, protocol)
    for problem_type in PROBLEM_TYPES
    for protocol in PROTOCOLS
    # the benchmarks' own rules are for few types and refuse the others at once
    if not protocol.endswith("-official") or problem_type in ("multiple_choice", "boolean", "regression")
]


@pytest.mark.parametrize(("problem_type", "protocol"), PAIRS)
def test_hostile_answer_is_scored(problem_type: str, protocol: str) -> None:
    for name, content in CONTENTS.items():
        tagged = f"<answer>{content}</answer>"
        for response in (tagged,) if protocol == "train" else (tagged, content):
            result = score(problem_type, response, key_of(problem_type), protocol=protocol, settings=QUICK)
            assert result.accuracy is None or 0 <= result.accuracy <= 1, name
            assert len(result.extracted) <= 500, name


@pytest.mark.parametrize(("problem_type", "protocol"), PAIRS)
def test_hostile_key_or_field_masks_the_row_at_most(problem_type: str, protocol: str) -> None:
    for key in KEYS:
        result = score(problem_type, "<answer>B</answer>", key, protocol=protocol, settings=QUICK)
        assert result.accuracy is None or 0 <= result.accuracy <= 1
        reason = check_answer(problem_type, key)
        assert reason is None or reason
    for fields in FIELDS:
        result = score(problem_type, "<answer>B</answer>", key_of(problem_type), protocol=protocol, **fields)
        assert result.accuracy is None or 0 <= result.accuracy <= 1


def test_answer_beyond_the_length_limit_is_unparsable() -> None:
    result = score("mcq", f"<answer>B{' ' * LONG}.</answer>", "B", options=["saw", "drill"])
    assert (result.accuracy, result.status) == (0.0, "unparsable")
    assert "longer than 65536" in result.reason


def test_comparisons_of_one_score_share_their_limit() -> None:
    slow = "(x+y+z+w)^{99}"
    response = f"<answer>{slow}</answer>"
    (result,) = score_batch(
        [{"problem_type": "math", "response": response, "answer": "(x+y+z)^{98}"}],
        protocol="eval",
        workers=1,
        soft_seconds=3.0,
        settings=ScoringSettings(math_seconds=0.5),
    )
    assert (result.accuracy, result.status) == (None, "timeout")
    assert "0.5 s" in result.reason

"""What a scoring vector asks and expects, in every form that its fields allow.

What a vector carries is either used or refused by name: no field and no expectation is passed over.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import pytest

from vrldata.tasks import ScoringSettings, score
from vrldata.tasks.judged import score_with_judge
from vrldata.tasks.reading import Record, Weights
from vrldata.tasks.scoring import make_record
from vrldata.types import Score

_OWN = {"problem_type", "response", "ground_truth", "options", "extra", "settings", "tolerant"}
_RECORD_FIELDS = {field.name for field in fields(Record)} - _OWN
_SETTINGS = {field.name for field in fields(ScoringSettings)}
# What a vector says about itself, and what another system's scorer returned for it.
_NOTES = {"id", "why", "reason", "expected", "tol", "max_seconds", "prediction", "notes", "context"}
_MASKED = {"bad_ground_truth", "judge_error", "timeout", "skipped"}
_WITHOUT_ANSWER = {"unparsed", "ambiguous", "empty", "truncated"}
_SIZES = {
    "width": ("video_width", "source_width"),
    "height": ("video_height", "source_height"),
    "frame_width": ("resized_width",),
    "frame_height": ("resized_height",),
}
_FRAMES = {"norm1": "unit", "pixel-original": "pixel", "pixel-resized": "pixel"}


@dataclass(frozen=True, kw_only=True)
class Call:
    """The arguments that a vector gives to `score`."""

    problem_type: str
    response: str
    answer: Any
    options: Any
    protocol: str
    settings: ScoringSettings
    record_fields: Mapping[str, Any]
    judge_reply: str | None = None

    def score(self) -> Score:
        """What the scorer says; with a judge where the vector holds the judge's reply."""
        shared: dict[str, Any] = {"options": self.options, "settings": self.settings, **self.record_fields}
        if self.judge_reply is None:
            return score(self.problem_type, self.response, self.answer, protocol=self.protocol, **shared)
        record = make_record(self.problem_type, self.response, self.answer, **shared)
        judged = score_with_judge([record], ScriptedJudge(self.judge_reply), protocol=self.protocol)
        return asyncio.run(judged)[0].score


@dataclass(frozen=True)
class ScriptedJudge:
    """A judge that gives one reply."""

    text: str
    name: str = "scripted"

    async def reply(self, prompt: str) -> str:
        return self.text


def call_of(vector: Mapping[str, Any], protocol: str) -> Call:
    """Fields of the record and of the settings wherever the vector has them; the rest is data of the row."""
    given = {name: value for name, value in vector.items() if name not in _NOTES}
    given |= dict(given.pop("fields", None) or {}) | dict(vector.get("context") or {})
    chosen = dict(given.pop("settings", None) or {})
    chosen |= {name: given.pop(name) for name in list(given) if name in _SETTINGS}
    if call_mode := given.pop("mode", None):
        chosen["ocr_mode"] = call_mode  # as rewards.md names it
    if "weights" in chosen:
        chosen["weights"] = Weights(**chosen["weights"])
    call: dict[str, Any] = {"problem_type": given.pop("problem_type"), "answer": given.pop("ground_truth")}
    call["response"] = given.pop("response", None) if "response" in given else vector["prediction"]
    call["options"], call["protocol"] = given.pop("options", None), given.pop("protocol", protocol)
    call["judge_reply"] = given.pop("judge_reply", None)
    spaces = _spaces(given)
    record_fields = {name: given.pop(name) for name in list(given) if name in _RECORD_FIELDS}
    extra = dict(given.pop("extra", None) or {})
    extra |= {
        name: value for name, value in given.items() if not name.startswith(("expected", "easyvideor1"))
    }
    return Call(
        **call,
        settings=ScoringSettings(**chosen),
        record_fields={**spaces, **record_fields, "extra": extra},
    )


def _spaces(given: dict[str, Any]) -> dict[str, Any]:
    """Coordinate spaces from `box_frame`, that of the boxes; keys are then pixels of the source video."""
    for name, further in _SIZES.items():
        found = next((given.pop(other) for other in further if given.get(other)), None)
        if found is not None:
            given.setdefault(name, found)
    predicted, key = given.pop("pred_box_frame", None), given.pop("box_frame", None)
    sized = bool(given.get("width") and given.get("height"))
    if predicted is None:
        predicted, key = key, "pixel" if key and sized else key
    elif key is None and sized:
        key = "pixel"
    named = {"coord_space": predicted, "answer_coord_space": key or predicted}
    return {name: _FRAMES.get(space, space) for name, space in named.items() if space}


def check_expected(result: Score, expected: Mapping[str, Any], tolerance: float, weights: Weights) -> None:
    """Every expectation of a vector, and the total that follows from accuracy and format.

    A masked row has no accuracy and no total; its format is of no consequence.
    """
    wanted = {name: value for name, value in expected.items() if name not in ("valid", "status")}
    status, masked = expected.get("status"), expected.get("valid") is False
    assert status in (None, result.status), result
    if masked or status in _MASKED or wanted.get("accuracy", 0.0) is None:
        assert (result.accuracy, result.overall, result.valid) == (None, None, False), result
        return
    assert result.accuracy is not None, result
    accuracy, form = wanted.pop("accuracy", result.accuracy), wanted.pop("format", result.format)
    assert result.accuracy == pytest.approx(accuracy, abs=tolerance), result
    assert result.format == pytest.approx(form, abs=tolerance), result
    overall = wanted.pop("overall", weights.accuracy * accuracy + weights.format * form)
    assert result.overall == pytest.approx(overall, abs=tolerance), result
    if "how" in wanted:
        assert result.how == wanted.pop("how"), result
    if "extracted" in wanted:
        check_extracted(result, wanted.pop("extracted"))
    for name in ("parts", "metrics"):
        check_parts(result, wanted.pop(name, None) or {}, tolerance)
    assert not wanted, f"no check for the expectations {', '.join(wanted)}"


def check_score(result: Score, expected: Any, tolerance: float) -> None:
    """A number is the accuracy, null none, an object names measures."""
    if isinstance(expected, dict):
        check_parts(result, expected, tolerance)
    elif expected is None:
        assert result.accuracy is None, result
    else:
        assert result.accuracy == pytest.approx(float(expected), abs=tolerance), result


def check_parts(result: Score, expected: Mapping[str, Any], tolerance: float) -> None:
    """Measures by name, in any case; `tiou@0.5` is whether the measure reaches the threshold."""
    measures: dict[str, float | None] = {"tiou": result.parts.get("iou"), **result.parts}
    measures |= {"accuracy": result.accuracy, "score": result.accuracy, "format": result.format}
    for name, value in expected.items():
        measure, _, threshold = name.casefold().partition("@")
        assert measure in measures, f"no measure {name!r} among {', '.join(measures)}"
        found = measures[measure]
        if threshold and found is not None:
            found = float(found >= float(threshold) - 1e-9)
        assert found == (None if value is None else pytest.approx(float(value), abs=tolerance)), name


def check_extracted(result: Score, expected: Any) -> None:
    """Texts as they are, lists of letters in any order, everything else as the JSON value that it is."""
    if expected is None:
        assert not (result.status in _WITHOUT_ANSWER and result.extracted), result
    elif isinstance(expected, bool):
        assert result.extracted.casefold() in (("yes", "true") if expected else ("no", "false")), result
    elif isinstance(expected, str):
        assert result.extracted == expected or _json(result.extracted) == _json(expected), result
    elif isinstance(expected, list) and expected and all(isinstance(item, str) for item in expected):
        assert sorted(result.extracted.split(", ")) == sorted(expected), result
    else:
        assert _close(_json(result.extracted), expected), result


def _json(text: str) -> Any:
    try:
        return json.loads(text.removesuffix("%"))
    except ValueError:
        return f"no JSON: {text}"


def _close(found: Any, expected: Any) -> bool:
    if isinstance(expected, list):
        same = isinstance(found, list) and len(found) == len(expected)
        return same and all(map(_close, found, expected))
    if isinstance(expected, dict):
        same = isinstance(found, dict) and set(found) == set(expected)
        return same and all(_close(found[name], value) for name, value in expected.items())
    return bool(found == (pytest.approx(expected) if isinstance(expected, int | float) else expected))

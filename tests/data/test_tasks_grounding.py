"""Spans and boxes in the forms that models give them: other names, damaged JSON, corners, frames by time."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from vrldata.tasks import score
from vrldata.types import Score

BOX = [0, 0, 10, 10]
TUBE = {"time": [3, 4], "boxes": {"3": BOX, "4": BOX}}


def train(problem_type: str, content: Any, key: Any, **fields: Any) -> Score:
    text = content if isinstance(content, str) else json.dumps(content)
    return score(problem_type, f"<answer>{text}</answer>", key, **fields)


def tolerant(problem_type: str, content: Any, key: Any) -> Score:
    text = content if isinstance(content, str) else json.dumps(content)
    return score(problem_type, text, key, protocol="eval")


@pytest.mark.parametrize(
    "content",
    [
        "[3s, 8s]",
        '{"time": "3 to 8"}',
        '{"time": ["00:03", "00:08"]}',
        '{"start_time": 3, "end_time": 8}',
        '{"time_range": [3, 8]}',
        '{"time": [[3, 8]]}',
        "{'time': [3, 8], 'boxes': {'3': [0, 0, 1, 1]}}",
    ],
)
def test_span_in_another_form_is_read_and_has_half_the_format(content: str) -> None:
    result = train("tvg", content, [3, 8])
    assert (result.accuracy, result.format) == (1.0, 0.5)


@pytest.mark.parametrize(
    "content",
    [
        "from second 3 to second 8",
        "start time: 3s, end time: 8s",
        "t=3 to t=8",
        "00:00:03 --> 00:00:08",
        "从第3秒到第8秒",
        "3秒から8秒まで",
        "3초부터 8초까지",
        "von 3 bis 8 Sekunden",
        "{'time': (3, 8)}",
        "[[3, 8], [30, 40]]",
        '{"time": [[3, 8], [30, 40]]}',
        "It happens from 3 to 8 s and again from 30 to 40 s.",
    ],
)
def test_tolerant_span_is_the_first_window(content: str) -> None:
    assert tolerant("tvg", content, [3, 8]).accuracy == 1.0


def test_tolerant_span_with_an_alternative_is_ambiguous() -> None:
    assert tolerant("tvg", "3 to 8 or 30 to 40", [3, 8]).status == "ambiguous"


@pytest.mark.parametrize(
    "content",
    [
        {"x1": 0, "y1": 0, "x2": 10, "y2": 10},
        {"xmin": 0, "ymin": 0, "xmax": 10, "ymax": 10},
        {"boxes": [[0, 0], [10, 10]]},
        [{"bbox_2d": BOX, "label": "cat"}],
    ],
)
def test_box_in_another_form_is_read_and_has_half_the_format(content: Any) -> None:
    result = train("rec", content, BOX)
    assert (result.accuracy, result.format) == (1.0, 0.5)


@pytest.mark.parametrize(
    "content", ["x1=0, y1=0, x2=10, y2=10", "<box>(0,0),(10,10)</box>", "0, 0, 10, 10", "0 0 10 10"]
)
def test_tolerant_box_is_read_from_text(content: str) -> None:
    assert tolerant("rec", content, BOX).accuracy == 1.0


@pytest.mark.parametrize(
    ("content", "form"),
    [
        (TUBE, 1.0),
        ({"time": [3, 4], "boxes": {"3.0": BOX, "4.0004": BOX}}, 1.0),
        ({"time": [3, 4], "boxes": {"3s": BOX, "00:04": BOX}}, 0.5),
        ({"time": [3, 4], "bbox_2d": {"3": BOX, "4": BOX}}, 0.5),
        (json.dumps(TUBE).replace('"', "'"), 0.5),
        ("{time: [3, 4], boxes: {3: [0, 0, 10, 10], 4: [0, 0, 10, 10]}}", 0.5),
    ],
)
def test_tube_is_read_in_any_usual_form(content: Any, form: float) -> None:
    result = train("stvg", content, TUBE)
    assert (result.accuracy, result.format) == (1.0, form)


def test_swapped_corners_cost_their_frame_in_training_and_are_put_in_order_by_the_tolerant_reading() -> None:
    content = {"time": [3, 4], "boxes": {"3": BOX, "4": [10, 10, 0, 0]}}
    assert train("stvg", content, TUBE).accuracy == pytest.approx(0.75)
    assert tolerant("stvg", content, TUBE).parts["viou"] == 1.0


def test_one_unreadable_box_costs_its_frame_alone() -> None:
    content = {"boxes": {"3": BOX, "4": [1, 2, 3]}}
    for result in (train("tracking", content, TUBE), tolerant("tracking", content, TUBE)):
        assert result.accuracy == 0.5


def test_two_objects_are_ambiguous_whatever_their_quotes() -> None:
    for one in ('{"time": [3, 8]}', "{'time': [3, 8]}"):
        assert train("tvg", f"{one} {one}", [3, 8]).accuracy == 0.0


@pytest.mark.parametrize(
    "damage",
    ['\\"', '"\\', '{"', "'{", '{"a":"', "[(" + "1" * 150, "{(" + "1.1" * 60 + ",", "[(" + "1 " * 90],
)
def test_brackets_and_quotes_without_end_take_linear_time(damage: str) -> None:
    start = time.process_time()
    assert train("tvg", damage * (60_000 // len(damage)), [3, 8]).accuracy == 0.0
    assert time.process_time() - start < 2.0


@pytest.mark.parametrize(
    "content",
    [
        '{"time": [3, 8}',
        '{"time": [3; 8]}',
        '{"time": [3s, 8 s]}',
        '{"time": [00:03, 00:08]}',
        '{"time": [+3, 08.]}',
        '{"time": ［3, 8］}',
        '{"time": [3, 8] /* seconds */}',
        "```json {'time': [3, 8], 'note': \"it's\"} ```",
        '{"time": [3 8]}',
        '{"time": 3, 8}',
        "{time: 3 - 8}",
        '{"time": 3 to 8}',
        '{"time": [3-8]}',
        "{start: 00:03, end: 00:08}",
    ],
)
def test_damaged_json_is_mended(content: str) -> None:
    result = train("tvg", content, [3, 8])
    assert (result.accuracy, result.format) == (1.0, 0.5)


@pytest.mark.parametrize("content", ['{"time": [3 8 9]}', '{"time": 3, 8, 9}', '{"time": 3 - 8 - 9}'])
def test_three_times_are_no_span(content: str) -> None:
    assert train("tvg", content, [3, 8]).accuracy == 0.0


def test_boxes_without_commas_are_read() -> None:
    assert train("rec", '{"boxes": [0 0 10 10]}', [0, 0, 10, 10]).accuracy == 1.0


def test_json_written_out_as_a_text_is_read() -> None:
    assert train("tvg", '{\\"time\\": [3, 8]}', [3, 8]).accuracy == 1.0

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
        '{"time": ["3e0", "8"]}',
        '{"time_start": 3, "time_end": 8}',
        '{"startTime": "00:03", "endTime": "00:08"}',
        '[{"Timestamp": [3, 8], "event": "runs"}]',
        '{"answer": {"time": [3, 8]}}',
        '{"he runs": {"start": 3, "end": 8}}',
        "\\boxed{3 to 8}",
        "<3> to <8>",
        "about 3 to 8 s",
        "00:00:03,000 --> 00:00:08,000",
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
        "It begins at 0:03 and finishes around 0:08.",
        "**Start time**: 00:03\n**End time**: 00:08",
        "<start>3</start><end>8</end>",
        "开始时间:3秒,结束时间:8秒",
        "from the 3rd second to the 8th second",
        "{'time': (3, 8)}",
        "[[3, 8], [30, 40]]",
        '{"time": [[3, 8], [30, 40]]}',
        "It happens from 3 to 8 s and again from 30 to 40 s.",
    ],
)
def test_tolerant_span_is_the_first_window(content: str) -> None:
    assert tolerant("tvg", content, [3, 8]).accuracy == 1.0


@pytest.mark.parametrize(
    "content",
    [
        '{"start_frame": 3, "end_frame": 8}',
        '{"frames": [3, 8]}',
        '{"start": 3, "start_time": 2, "end": 8}',
        "It starts with 3 men and ends with 8.",
        "12,003 to 8",
    ],
)
def test_numbers_that_are_no_times_are_no_span(content: str) -> None:
    assert tolerant("tvg", content, [3, 8]).accuracy == 0.0


def test_tolerant_span_with_an_alternative_is_ambiguous() -> None:
    assert tolerant("tvg", "3 to 8 or 30 to 40", [3, 8]).status == "ambiguous"


@pytest.mark.parametrize(
    "content",
    [
        {"x1": 0, "y1": 0, "x2": 10, "y2": 10},
        {"xmin": 0, "ymin": 0, "xmax": 10, "ymax": 10},
        {"boxes": [[0, 0], [10, 10]]},
        [{"bbox_2d": BOX, "label": "cat"}],
        {"x_min": 0, "y_min": 0, "x_max": 10, "y_max": 10},
        {"x": 0, "y": 0, "width": 10, "height": 10},
        {"top_left": [0, 0], "bottom_right": [10, 10]},
        {"BBox": "[0, 0, 10, 10]"},
        {"objects": [{"bbox_2d": BOX}]},
        {"the cat": BOX},
        {"cat": {"bbox_2d": BOX}},
    ],
)
def test_box_in_another_form_is_read_and_has_half_the_format(content: Any) -> None:
    result = train("rec", content, BOX)
    assert (result.accuracy, result.format) == (1.0, 0.5)


@pytest.mark.parametrize(
    "content",
    [
        "x1=0, y1=0, x2=10, y2=10",
        "<box>(0,0),(10,10)</box>",
        "0, 0, 10, 10",
        "0 0 10 10",
        "<ref>the cat</ref><box>(0,0),(10,10)</box>",
        "The cat is at (0, 0, 10, 10).",
        "top left (0, 0), bottom right (10, 10)",
    ],
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
        ({"time": [3, 4], "boxes": [{"time": 3, "bbox_2d": BOX}, {"time": "00:04", "bbox_2d": BOX}]}, 0.5),
        ({"time": [3, 4], "boxes": {"3": {"bbox_2d": BOX}, "4": BOX}}, 0.5),
        ([TUBE], 0.5),
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
        '{"time": [3, /* start */ 8]}',
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


def test_two_boxes_in_prose_are_ambiguous() -> None:
    assert tolerant("rec", "(0,0,10,10) or (5,5,9,9)", BOX).status == "ambiguous"


@pytest.mark.parametrize(
    ("said", "key", "fields"),
    [
        ([-50, 0, 100, 100], [0, 0, 64, 36], {"coord_space": "norm1000", "answer_coord_space": "pixel"}),
        (
            [600, 0, 700, 36],
            [600, 0, 640, 36],
            {"coord_space": "pixel", "frame_width": 640, "frame_height": 360},
        ),
        ([900, 0, 1100, 100], [900, 0, 1000, 100], {"coord_space": "norm1000"}),
        ([-9, -9, 10, 10], BOX, {"coord_space": "pixel", "width": None}),
    ],
)
def test_tolerant_box_ends_where_the_picture_ends(said: Any, key: Any, fields: dict[str, Any]) -> None:
    fields = {"width": 640, "height": 360, **fields}
    tube, key_tube = ({"time": [3, 4], "boxes": {"3": box}} for box in (said, key))
    result = score("stvg", json.dumps(tube), key_tube, protocol="eval", **fields)
    assert result.parts["viou"] == pytest.approx(1.0)
    tagged = score("stvg", f"<answer>{json.dumps(tube)}</answer>", key_tube, protocol="eval", **fields)
    strict = train("stvg", tube, key_tube, **fields).accuracy
    assert tagged.accuracy == 1.0
    assert tagged.strict == strict != 1.0


@pytest.mark.parametrize(
    "content",
    [
        {"start": 3, "end": 4, "boxes": TUBE["boxes"]},
        {"time": [[3, 4], [8, 9]], "boxes": TUBE["boxes"]},
        {"time": "3 to 4", "boxes": TUBE["boxes"]},
    ],
)
def test_tolerant_tube_has_the_first_of_its_windows(content: Any) -> None:
    assert tolerant("stvg", content, TUBE).accuracy == 1.0
    assert train("stvg", content, TUBE).format == 0.5


def test_tolerant_tube_of_words_alone_has_its_span() -> None:
    assert tolerant("stvg", "From 3 to 4 s.", TUBE).parts == {"tiou": 1.0, "viou": 0.0, "siou": 0.0}


def test_a_list_of_boxes_with_their_times_is_a_track() -> None:
    track = [{"time": 3, "bbox_2d": BOX}, {"time": 4, "bbox_2d": BOX}]
    assert train("tracking", track, TUBE).accuracy == 1.0
    assert train("tracking", [*track, track[0]], TUBE).accuracy == 0.0

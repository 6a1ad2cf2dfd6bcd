"""What each problem type reads, refuses and scores, beyond the shared vectors."""

from __future__ import annotations

import json
from typing import Any

import pytest

from vrldata.errors import TaskError
from vrldata.tasks import PROBLEM_TYPES, ScoringSettings, Weights, canonical_type, check_answer, score

OPTIONS = ["A. the blue car", "B. the red car", "C. a bicycle", "D. Both A and B"]


def accuracy(problem_type: str, content: str, key: Any, **fields: Any) -> float | None:
    return score(problem_type, f"<answer>{content}</answer>", key, **fields).accuracy


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        (" multiple choice", "multiple_choice"),
        ("Multiple-Choice", "multiple_choice"),
        ("ＭＣＱ", "multiple_choice"),
        ("spatial-temporal grounding", "spatial_temporal_grounding"),
        ("Video QA", "open_ended"),
        ("SVG-code", "svg_code"),
        ("yes/no", "boolean"),
        ("REC", "spatial_grounding"),
    ],
)
def test_spelling_resolves_to_one_name(spelling: str, name: str) -> None:
    assert canonical_type(spelling) == name


def test_unknown_type_names_the_nearest() -> None:
    with pytest.raises(TaskError, match="Did you mean 'multiple choice'"):
        canonical_type("multipel choice")


def test_unknown_field_names_the_nearest() -> None:
    with pytest.raises(TaskError, match="Did you mean 'duration'"):
        score("mcq", "", "A", durations=3)


def test_unknown_protocol_names_the_nearest() -> None:
    with pytest.raises(TaskError, match="Did you mean 'easyvideor1-eval'"):
        score("mcq", "", "A", protocol="easyvideor1-evl")


def test_weights_must_sum_to_one() -> None:
    with pytest.raises(TaskError, match="sum to 1"):
        Weights(accuracy=0.9, format=0.2)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("B. because it is red", 1.0),
        ("Option B", 1.0),
        ("选B", 1.0),
        ("THE RED CAR!", 1.0),
        ("__B__", 1.0),
        ("<b>B</b>", 1.0),
        ("【B】", 1.0),
        ("b. the red car", 1.0),
        ("A.B", 0.0),
        ("B and not A", 0.0),
        ("car", 0.0),
        ("I'm sure", 0.0),
    ],
)
def test_multiple_choice_content(content: str, expected: float) -> None:
    assert accuracy("mcq", content, "B", options=OPTIONS) == expected


def test_letters_come_from_the_rows_own_prefixes() -> None:
    options = ["E: saw", "F: drill"]
    assert accuracy("mcq", "F", "F", options=options) == 1.0
    assert accuracy("mcq", "A", "E", options=options) == 0.0
    assert accuracy("mcq", "B", "drill", options={"A": "saw", "B": "drill"}) == 1.0


@pytest.mark.parametrize("key", ["E", "", "car", [], None, True, "A. the red car"])
def test_key_that_is_no_option_masks_the_row(key: Any) -> None:
    result = score("mcq", "<answer>A</answer>", key, options=OPTIONS)
    assert (result.accuracy, result.overall, result.status) == (None, None, "bad_ground_truth")
    assert check_answer("mcq", key, OPTIONS)


@pytest.mark.parametrize(
    ("content", "value"),
    [
        ("1,234,567", 1234567),
        ("3,14", 3.14),
        ("1 1/2", 1.5),
        ("1 and 1/2", 1.5),
        ("½", 0.5),
        ("\\dfrac{3}{4}", 0.75),
        ("x = 7", 7),
        ("2 + 3 = 5", 5),
        ("three point five", 3.5),
        ("a dozen eggs", 12),
        ("two thousand and five", 2005),
        ("三十二个", 32),
        ("结果是-3", -3),
        ("٣", 3),
        ("3:45", 225),
        ("1:02:03", 3723),
        ("5 m²", 5),
        ("10²", 100),
        ("$1{,}234$", 1234),
        ("5 (five)", 5),
        ("-3 degrees", -3),
        ("1.5×10^{3}", 1500),
        ("1\u202f234\u00a0567", 1234567),
        ("1'234", 1234),
        ("one thousand, two hundred and four", 1204),
        ("half", 0.5),
        ("three quarters", 0.75),
        ("1½", 1.5),
        ("two and a half", 2.5),
        ("two and three quarters", 2.75),
        ("point five", 0.5),
        ("1.2 million", 1_200_000),
        ("2 dozen", 24),
        ("half a dozen", 6),
        ("三点五", 3.5),
        ("三分之一", 1 / 3),
        ("负五", -5),
        ("百分之五十", 0.5),
        ("3.5万", 35_000),
    ],
)
def test_number_in_its_usual_dress(content: str, value: float) -> None:
    assert accuracy("numerical", content, value) == 1.0


@pytest.mark.parametrize(
    "content",
    [
        *("", "many", "3-5", "one, two", "3 or 5", "nan", "inf", "1e999", "1/0", "3 4", "v2"),
        *("3,4", "3,4,5", "3,5", "3.1.2", "3...5", "3_4", "3or4", "1.234,56"),
        *("3orfour", "fouror3", "3tofour", "3 and 4/2", "between 3 and 1/2"),
    ],
)
def test_what_is_no_single_number_scores_nothing(content: str) -> None:
    assert accuracy("numerical", content, 3) == 0.0


@pytest.mark.parametrize(
    ("content", "key"), [("10.505", "10.5"), ("0.495", "0.5"), ("5.000001", "5"), ("5", ["5"])]
)
def test_a_difference_of_just_the_tolerance_is_tolerated(content: str, key: Any) -> None:
    assert accuracy("numerical", content, key) == 1.0


@pytest.mark.parametrize(
    ("response", "extracted"),
    [
        ("The person did it 3 times in 12 seconds.", 3),
        ("1.5 to 2 meters", 1.5),
        ("3 (out of 10)", 3),
        ("about 3.5 m/s2", 3.5),
        ("The answer is 7, not 8.", 7),
        ("There are not 5 but 6 cars.", 6),
        ("Not 5, but 6.", 6),
    ],
)
def test_tolerant_number_is_the_leading_one(response: str, extracted: float) -> None:
    result = score("numerical", response, extracted, protocol="eval")
    assert (result.accuracy, float(result.extracted)) == (1.0, extracted)


@pytest.mark.parametrize(
    "response",
    ["3 or 4", "3, 4, 5", "between 3 and 5", "3 or5", "3 vs. 5", "3 dogs and 2 cats", "3/4/5", "3 + 2"],
)
def test_tolerant_number_with_an_alternative_is_ambiguous(response: str) -> None:
    assert score("numerical", response, 3, protocol="eval").status == "ambiguous"


@pytest.mark.parametrize("key", ["", "many", "3 or 5", "nan", float("inf"), True, None])
def test_unreadable_number_key_masks_the_row(key: Any) -> None:
    assert accuracy("numerical", "3", key) is None


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("不是", False),
        ("不", False),
        ("没错", True),
        ("对，没有错", True),
        ("是的", True),
        ("It is not true", False),
        ("N", False),
        ("1", True),
        ("right", True),
    ]
    + [(word, True) for word in ("Oui", "Ja, gewiss", "Sí.", "да", "はい", "네", "نعم", "हाँ", "evet")]
    + [(word, False) for word in ("Non", "Nein", "não", "нет", "いいえ", "아니요", "لا", "नहीं", "không")],
)
def test_polarity(content: str, expected: bool) -> None:
    assert accuracy("boolean", content, expected) == 1.0


@pytest.mark.parametrize(
    "content",
    [
        "nobody",
        "yesterday",
        "maybe",
        "不知道",
        "是还是不是",
        "对称",
        "it is yes or it is no",
        "ja/nein",
        "non-stop",
    ],
)
def test_no_polarity(content: str) -> None:
    result = score("boolean", f"<answer>{content}</answer>", "no")
    assert (result.accuracy, result.format) == (0.0, 0.5)


@pytest.mark.parametrize(
    ("content", "form"),
    [
        ('{"time": [3, 8]}', 1.0),
        ('{"time": ["0:03", "00:08.0"]}', 0.5),
        ("[3, 8]", 0.5),
        ("{'time': [3, 8],}", 0.5),
        ('{"time": [3, 8]', 0.5),
        ('{ {"time": [3, 8]}', 0.5),
        ('The span is {"time": [3, 8]}.', 0.5),
        ("between 3 and 8 seconds", 0.5),
        ("00:03 - 00:08", 0.5),
        ("(3, 8)", 0.5),
        ("3s, 8s", 0.5),
        ('{"time": {"start": 3, "end": 8}}', 0.5),
    ],
)
def test_span_is_read_in_any_usual_form(content: str, form: float) -> None:
    result = score("tvg", f"<answer>{content}</answer>", [3, 8])
    assert (result.accuracy, result.format) == (1.0, form)


@pytest.mark.parametrize(
    "content",
    [
        '{"time": [8, 3]}',
        '{"time": [3, NaN]}',
        '{"time": [true, 8]}',
        '{"time": [3, 8], "time": [0, 99]}',
        "3",
        "[]",
    ],
)
def test_invalid_span_scores_nothing(content: str) -> None:
    result = score("tvg", f"<answer>{content}</answer>", [3, 8])
    assert (result.accuracy, result.format) == (0.0, 0.5)


def test_whole_video_span_is_marked() -> None:
    result = score("tvg", '<answer>{"time": [0, 60]}</answer>', [10, 40], duration=60.0)
    assert result.parts["covers_video"] == 1.0


def test_iou_can_be_shaped() -> None:
    settings = ScoringSettings(iou_shape="threshold:0.4")
    assert accuracy("tvg", '{"time": [5, 10]}', [3, 8], settings=settings) == 1.0
    with pytest.raises(TaskError, match="positive number"):
        ScoringSettings(iou_shape="power:x")


def test_declared_coordinate_spaces_are_converted() -> None:
    fields = {"coord_space": "norm1000", "answer_coord_space": "pixel", "width": 640, "height": 360}
    assert accuracy("rec", '{"boxes": [0, 0, 500, 500]}', [0, 0, 320, 180], **fields) == 1.0
    resized = {**fields, "coord_space": "pixel", "frame_width": 320, "frame_height": 180}
    assert accuracy("rec", '{"boxes": [0, 0, 160, 90]}', [0, 0, 320, 180], **resized) == 1.0
    alone = {"coord_space": "pixel", "answer_coord_space": "pixel"}
    assert accuracy("rec", '{"boxes": [0, 0, 320, 180]}', [0, 0, 320, 180], **alone) == 1.0
    del fields["width"]
    assert accuracy("rec", '{"boxes": [0, 0, 500, 500]}', [0, 0, 320, 180], **fields) is None


def test_swapped_key_box_is_put_in_order() -> None:
    assert accuracy("rec", '{"boxes": [0, 0, 10, 10]}', [10, 10, 0, 0]) == 1.0


def test_frame_names_are_compared_as_numbers() -> None:
    key = {"boxes": {"4": [0, 0, 10, 10]}}
    assert accuracy("tracking", '{"boxes": {"4.0": [0, 0, 10, 10]}}', key) == 1.0
    assert accuracy("tracking", '{"boxes": {"4": [0, 0, 10, 10], "4.0": [0, 0, 9, 9]}}', key) == 0.0


def test_key_tube_without_boxes_scores_the_span_alone() -> None:
    result = score(
        "stvg", '<answer>{"time": [3, 8], "boxes": {"3": [0, 0, 1, 1]}}</answer>', {"time": [3, 8]}
    )
    assert result.accuracy == 1.0


def test_video_segmentation_counts_the_moment() -> None:
    key = {"time": 4, "boxes": [0, 0, 9, 9], "positive_points": [[1, 1]] * 3, "negative_points": [[9, 9]] * 3}
    late = json.dumps({**key, "time": 6})
    assert accuracy("segmentation", json.dumps(key), key) == pytest.approx(1.0)
    assert accuracy("segmentation", late, key) == pytest.approx(0.7 + 0.3 * 0.36787944)


def test_open_ended_stems_words() -> None:
    assert accuracy("open-ended", "running dogs", "run dog") == pytest.approx(1.0)


def test_ocr_modes() -> None:
    assert accuracy("ocr", "停车场出口。", "停车场出口") == 1.0
    assert accuracy("ocr", "?", "!") == 0.0
    assert accuracy("ocr", "GH45", "GH46", settings=ScoringSettings(ocr_mode="exact")) == 0.0


@pytest.mark.parametrize("problem_type", PROBLEM_TYPES)
@pytest.mark.parametrize("key", ["", None])
def test_empty_key_never_pays(problem_type: str, key: Any) -> None:
    for protocol in ("train", "eval"):
        result = score(problem_type, f"<answer>{key}</answer>", key, protocol=protocol)
        assert (result.accuracy, result.status) == (None, "bad_ground_truth")

"""Attempts to be paid without the answer: none of them earns more than a wrong answer."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vrldata.tasks import PROBLEM_TYPES, render_prompt, score
from vrldata.types import Sample

OPTIONS = ["A. the blue car", "B. the red car", "C. a bicycle", "D. a bus"]


@pytest.mark.parametrize(
    "response",
    [
        "<answer>A, B, C, D</answer>",
        "<answer>A or B</answer>",
        "<answer>A/B/C/D</answer>",
        "<answer>ABCD</answer>",
        "<answer>B. the blue car</answer>",
        "<answer>the red car or the blue car</answer>",
        "<answer>A</answer><answer>B</answer><answer>C</answer>",
        "<answer>A</answer>" * 50 + "<answer>B</answer>",
        "<think><answer>B</answer>",
        "<think>B, so <answer>B</answer></think>",
        "<answer><answer>B</answer></answer>",
        "<answer>letter</answer>",
    ],
)
def test_hedging_and_hiding_earns_nothing(response: str) -> None:
    assert score("mcq", response, "B", options=OPTIONS).accuracy == 0.0


@pytest.mark.parametrize(
    "content", ["A, B", "A or B", "B. the blue car", "the red car or the blue car", "A/B"]
)
def test_tolerant_protocol_is_no_easier_to_hedge(content: str) -> None:
    for response in (content, f"<answer>{content}</answer>", f"The answer is {content}."):
        result = score("mcq", response, "B", options=OPTIONS, protocol="eval")
        assert (result.accuracy, result.status) == (0.0, "ambiguous"), response


@pytest.mark.parametrize(
    ("problem_type", "content", "key", "fields"),
    [
        ("numerical", "3 4 5 6", 3, {}),
        ("boolean", "yes/no", "no", {}),
        ("boolean", "yes no yes no", "yes", {}),
        ("temporal grounding", '{"time": [[0, 3], [3, 8]]}', [3, 8], {}),
        ("temporal grounding", '{"time": [0, 1]} {"time": [3, 8]}', [3, 8], {}),
        ("spatial grounding", '{"boxes": [[0, 0, 9, 9], [5, 5, 9, 9]]}', [5, 5, 9, 9], {}),
        ("preference", "Response 1, Response 2", 1, {}),
        ("preference", "Response 2orResponse 1", 1, {}),
        ("preference", "Response2Response1", 1, {}),
        ("math", "5, 7", "5", {}),
    ],
)
def test_listing_candidates_earns_nothing(
    problem_type: str, content: str, key: Any, fields: dict[str, Any]
) -> None:
    assert score(problem_type, f"<answer>{content}</answer>", key, **fields).accuracy == 0.0


def test_whole_video_earns_its_overlap_and_no_more() -> None:
    result = score("tvg", '<answer>{"time": [-1e9, 1e9]}</answer>', [10, 16], duration=60.0)
    assert result.accuracy == pytest.approx(0.1)


def test_boxes_over_everything_earn_their_overlap() -> None:
    key = {"boxes": {str(second): [0, 0, 100, 100] for second in range(1, 33)}}
    everything = ", ".join(f'"{second}": [0, 0, 1000, 1000]' for second in range(1, 33))
    result = score("tracking", f'<answer>{{"boxes": {{{everything}}}}}</answer>', key)
    assert result.accuracy == pytest.approx(0.01)


def test_one_easy_frame_earns_one_frame() -> None:
    key = {"boxes": {str(second): [0, 0, 100, 100] for second in range(1, 33)}}
    assert score("tracking", '<answer>{"boxes": {"4": [0, 0, 100, 100]}}</answer>', key).accuracy == 1 / 32


@pytest.mark.parametrize("problem_type", PROBLEM_TYPES)
def test_echoing_the_prompt_earns_nothing(problem_type: str) -> None:
    keys: dict[str, Any] = {
        "multiple_choice": "B",
        "numerical": 7,
        "regression": 7,
        "boolean": "no",
        "temporal_grounding": [3, 8],
        "spatial_temporal_grounding": {"time": [3, 8], "boxes": {"3": [0, 0, 9, 9]}},
        "spatial_grounding": [0, 0, 9, 9],
        "tracking": {"boxes": {"3": [0, 0, 9, 9]}},
        "segmentation": {
            "boxes": [0, 0, 9, 9],
            "positive_points": [[1, 1]] * 3,
            "negative_points": [[9, 9]] * 3,
        },
        "math": "7",
        "preference": "tie",
    }
    key = keys.get(problem_type)
    if key is None:
        key = {"svg_code": "<svg><g/></svg>", "html_code": "<b>x</b>", "code": "x = f(1)"}.get(
            problem_type, "zebra"
        )
    options = tuple(OPTIONS) if problem_type == "multiple_choice" else ()
    sample = Sample(sample_id="1", problem="What?", answer="B", problem_type=problem_type, options=options)
    prompt = render_prompt(sample)
    for response in (prompt, f"<answer>{prompt}</answer>"):
        result = score(problem_type, response, key, options=options)
        assert result.accuracy == 0.0, result


@pytest.mark.parametrize("protocol", ["train", "eval", "easyvideor1-train", "easyvideor1-eval"])
@pytest.mark.parametrize("problem_type", [kind for kind in PROBLEM_TYPES if kind != "math"])
@given(text=st.text(max_size=60), tagged=st.booleans())
@settings(max_examples=15, deadline=None)
def test_any_text_gives_a_score_in_bounds(problem_type: str, protocol: str, text: str, tagged: bool) -> None:
    response = f"<answer>{text}</answer>" if tagged else text
    for key in ("B", '{"time": [3, 8], "boxes": {"3": [0, 0, 1, 1]}}', "<svg><g/></svg>", text):
        result = score(problem_type, response, key, options=OPTIONS, protocol=protocol)
        assert result.accuracy is None or 0 <= result.accuracy <= 1
        assert result.format in (0, 0.5, 1)
        assert (result.overall is None) == (result.accuracy is None)


@given(
    first=st.tuples(st.floats(0, 100), st.floats(0, 100)).map(sorted),
    second=st.tuples(st.floats(0, 100), st.floats(0, 100)).map(sorted),
)
@settings(max_examples=100, deadline=None)
def test_span_overlap_is_symmetric(first: list[float], second: list[float]) -> None:
    there = score("tvg", f'<answer>{{"time": {first}}}</answer>', second).accuracy
    back = score("tvg", f'<answer>{{"time": {second}}}</answer>', first).accuracy
    assert there == pytest.approx(back, abs=1e-9)
    assert score("tvg", f'<answer>{{"time": {first}}}</answer>', first).accuracy == pytest.approx(1.0)


@given(
    st.lists(st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=6), min_size=1, max_size=8)
)
@settings(max_examples=100, deadline=None)
def test_text_equal_to_its_key_is_right(words: list[str]) -> None:
    text = " ".join(words)
    assert score("ocr", f"<answer>{text}</answer>", text).accuracy == 1.0
    assert score("open ended", f"<answer>{text}</answer>", text).accuracy == 1.0


SEPARATORS = (
    *(
        " ",
        ", ",
        ",",
        "; ",
        "/",
        " | ",
        " or ",
        " and ",
        "&",
        "\n",
        "...",
        "_",
        "**",
        " vs ",
        "、",
        "或",
        "と",
    ),
    *(
        ") (",
        "] [",
        "<br>",
        " \\text{ or } ",
        "$,$",
        "' '",
        "'",
        "’",
        "\u200b",
        "\u00a0",
        "->",
        "^",
        "x",
        "or",
    ),
)


@pytest.mark.parametrize("separator", SEPARATORS)
@pytest.mark.parametrize(
    ("problem_type", "candidates", "fields"),
    [
        ("mcq", ["A", "B", "C"], {"options": OPTIONS}),
        ("mcq", ["the blue car", "the red car"], {"options": OPTIONS}),
        ("numerical", ["3", "4", "5"], {}),
        ("numerical", ["3.5", "4.25"], {}),
        ("numerical", ["3%", "4%"], {}),
        ("temporal grounding", ['{"time": [3, 8]}', '{"time": [10, 20]}'], {}),
        ("temporal grounding", ["00:03-00:08", "00:10-00:20"], {}),
        ("spatial grounding", ["[0, 0, 9, 9]", "[20, 20, 30, 30]"], {}),
        ("preference", ["1", "2"], {}),
    ],
)
def test_candidates_joined_in_any_way_earn_nothing(
    problem_type: str, candidates: list[str], fields: dict[str, Any], separator: str
) -> None:
    keys: dict[str, Any] = {"mcq": "B", "numerical": candidates[0], "preference": 1}
    keys |= {"temporal grounding": [3, 8], "spatial grounding": [0, 0, 9, 9]}
    for order in (candidates, candidates[::-1]):
        content = separator.join(order)
        result = score(problem_type, f"<answer>{content}</answer>", keys[problem_type], **fields)
        assert result.accuracy == 0.0, (content, result)


@pytest.mark.parametrize(
    "joint", ["/", " or ", " and ", " vs ", "と", " ou ", " maybe ", "<br>", " xor ", "|"]
)
def test_both_polarities_and_nothing_else_earn_nothing(joint: str) -> None:
    for first, second in (("yes", "no"), ("no", "yes"), ("true", "false"), ("是", "否")):
        for key in ("yes", "no"):
            result = score("boolean", f"<answer>{first}{joint}{second}</answer>", key)
            assert result.accuracy == 0.0, (first, joint, second)


@pytest.mark.parametrize("content", ["\\sqrt{3}", "3\\pi", "√3", "3 ± 1", "\\ln 3"])
def test_a_formula_is_not_the_number_in_it(content: str) -> None:
    assert score("numerical", f"<answer>{content}</answer>", 3).accuracy == 0.0


WORDS = ["red", "blue", "car", "bus", "runs"]
CORNERS = st.tuples(*[st.integers(0, 20)] * 4).map(
    lambda c: [min(c[0], c[2]), min(c[1], c[3]), max(c[0], c[2]), max(c[1], c[3])]
)


@given(first=CORNERS, second=CORNERS)
@settings(max_examples=100, deadline=None)
def test_box_overlap_is_symmetric_and_one_for_equal_boxes(first: list[int], second: list[int]) -> None:
    there = score("rec", f'<answer>{{"boxes": {first}}}</answer>', second).accuracy
    back = score("rec", f'<answer>{{"boxes": {second}}}</answer>', first).accuracy
    assert there == pytest.approx(back, abs=1e-9)
    assert (there == 1.0) == (first == second)


@given(
    boxes=st.lists(CORNERS, min_size=2, max_size=4),
    said=st.lists(CORNERS, min_size=1, max_size=4),
    more=st.lists(CORNERS, min_size=1, max_size=4),
)
@settings(max_examples=100, deadline=None)
def test_boxes_that_fit_no_key_never_raise_the_score(
    boxes: list[list[int]], said: list[list[int]], more: list[list[int]]
) -> None:
    elsewhere = [[x + 1000 for x in box] for box in more]
    before = score("rec", f'<answer>{{"boxes": {said}}}</answer>', {"boxes": boxes}).accuracy
    after = score("rec", f'<answer>{{"boxes": {said + elsewhere}}}</answer>', {"boxes": boxes}).accuracy
    assert before is not None
    assert after is not None
    assert after <= before + 1e-9


@given(
    key=st.lists(st.sampled_from(WORDS), min_size=1, max_size=6),
    said=st.lists(st.sampled_from(WORDS), min_size=1, max_size=6),
    more=st.lists(st.sampled_from(["xylo", "zebra", "qux", "9"]), min_size=1, max_size=6),
    problem_type=st.sampled_from(["open ended", "ocr"]),
)
@settings(max_examples=150, deadline=None)
def test_words_that_the_key_lacks_never_raise_the_score(
    key: list[str], said: list[str], more: list[str], problem_type: str
) -> None:
    reference = " ".join(key)
    before = score(problem_type, f"<answer>{' '.join(said)}</answer>", reference).accuracy
    after = score(problem_type, f"<answer>{' '.join(said + more)}</answer>", reference).accuracy
    assert before is not None
    assert after is not None
    assert after <= before + 1e-9


@given(
    spans=st.lists(st.tuples(st.integers(0, 50), st.integers(1, 9)), min_size=1, max_size=4),
    more=st.integers(1, 99),
)
@settings(max_examples=100, deadline=None)
def test_spans_outside_the_key_never_raise_the_score(spans: list[tuple[int, int]], more: int) -> None:
    key = {"time": [[0, 20], [30, 50]]}
    said = [[start, start + length] for start, length in spans]
    before = score("tvg", f'<answer>{{"time": {said}}}</answer>', key).accuracy
    after = score("tvg", f'<answer>{{"time": {[*said, [100, 100 + more]]}}}</answer>', key).accuracy
    assert before is not None
    assert after is not None
    assert after <= before + 1e-9


_JOINS = (
    *(" or ", "or", " or", "or ", "/", "|", ",", "; ", " and ", " & ", " vs ", "->", " - ", "\n", "\t", "+"),
    *(
        "?",
        ". ",
        " xor ",
        " then ",
        " but ",
        " maybe ",
        " perhaps ",
        " alternatively ",
        " otherwise ",
        " instead ",
    ),
    *(
        " if not ",
        " versus ",
        " plus ",
        " nor ",
        "\\text{ or }",
        " \\lor ",
        "||",
        "&&",
        "、",
        "或",
        " and/or ",
    ),
)


@pytest.mark.parametrize(
    ("problem_type", "first", "second", "keys", "fields"),
    [
        ("mcq", "A", "C", ("A", "C"), {"options": ["A. saw", "B. drill", "C. blue kite"]}),
        (
            "mcq",
            "A. red saw",
            "C. blue kite",
            ("A", "C"),
            {"options": ["A. red saw", "B. x", "C. blue kite"]},
        ),
        ("numerical", "3", "5", (3, 5), {}),
        ("numerical", "three", "five", (3, 5), {}),
        ("regression", "3 m", "57 m", (3, 57), {}),
        ("boolean", "yes", "no", ("yes", "no"), {}),
        ("preference", "Response 1", "Response 2", ("1", "2"), {}),
        ("tvg", "[3, 8]", "[10, 12]", ([3, 8], [10, 12]), {}),
        ("rec", "[0, 0, 5, 5]", "[6, 6, 9, 9]", ([0, 0, 5, 5], [6, 6, 9, 9]), {}),
        ("math", "\\frac{1}{2}", "\\frac{1}{3}", ("1/2", "1/3"), {}),
    ],
)
@pytest.mark.parametrize("join", _JOINS)
def test_two_candidates_are_not_paid_however_they_are_joined(
    problem_type: str, first: str, second: str, keys: Any, fields: dict[str, Any], join: str
) -> None:
    for key in keys:
        result = score(problem_type, f"<answer>{first}{join}{second}</answer>", key, **fields)
        assert result.accuracy == 0.0, (key, result)


@pytest.mark.parametrize("content", ["1 or tie", "tie/1", "Response 1 or a tie", "A or tie", "tie, maybe B"])
def test_a_tie_beside_one_response_is_no_verdict(content: str) -> None:
    for key in ("1", "2", "tie"):
        assert score("preference", f"<answer>{content}</answer>", key).accuracy == 0.0


def test_digits_that_hide_in_words_are_numbers_of_their_own() -> None:
    for key in (3, 57):
        assert score("numerical", "<answer>3 m_57 m</answer>", key).accuracy == 0.0
    assert score("numerical", "<answer>3 m2 of CO2</answer>", 3).accuracy == 1.0


@pytest.mark.parametrize(
    "join", [" or maybe ", ", or ", "; or ", " (or ", " or perhaps option ", " vs ", ", or even "]
)
def test_tolerant_protocol_pays_no_second_thought(join: str) -> None:
    close = ")" if "(" in join else ""
    for response in (f"B{join}C{close}", f"The answer is B{join}C{close}."):
        result = score("mcq", response, "B", options=OPTIONS, protocol="eval")
        assert (result.accuracy, result.status) == (0.0, "ambiguous"), response


@pytest.mark.parametrize(
    ("problem_type", "content", "key"),
    [
        *(("numerical", "3 (or 4)", 3), ("numerical", "-3或-4", -3), ("numerical", "The answer is 3\n4.", 3)),
        *(
            ("boolean", "The answer is yes? No.", "yes"),
            ("boolean", "否或是", "no"),
            ("boolean", "是还是不是", "yes"),
        ),
    ],
)
def test_two_answers_are_ambiguous(problem_type: str, content: str, key: Any) -> None:
    result = score(problem_type, content, key, protocol="eval")
    assert (result.accuracy, result.status) == (0.0, "ambiguous")

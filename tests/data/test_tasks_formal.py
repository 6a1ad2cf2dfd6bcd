"""Preference, math and code: what each reads, refuses and scores, beyond the shared vectors."""

from __future__ import annotations

from typing import Any

import pytest

from vrldata.tasks import check_answer, score


def accuracy(problem_type: str, content: str, key: Any, **fields: Any) -> float | None:
    return score(problem_type, f"<answer>{content}</answer>", key, **fields).accuracy


@pytest.mark.parametrize(
    ("content", "key"),
    [
        ("Response 1 is worse than Response 2", 2),
        ("I prefer the second response", "B"),
        ("Both are equally good", "tie"),
        ("Answer (A)", "Response 1"),
        ("Winner: 2", 2),
        ("The final verdict is Response B.", 2),
        ("response_2", 2),
        ("[[A>B]]", 1),
        ("Response 1 << Response 2", 2),
        ("A = B", "tie"),
        ("回答2更好", 2),
        ("第一个回答不如第二个回答", 2),
        ("回答1比回答2好", 1),
        ("两个回答一样好", "tie"),
        ("Response 1", ["Response 1"]),
        ("A is better than B.", 1),
        ("1 is worse than 2", 2),
        ("The latter is better", 2),
        ("response-2", 2),
        ("I compared both. Final verdict: [[B]]", 2),
        ("[[C]]", "tie"),
        ("tie", "[[C]]"),
        ("The preferred response is 1.", 1),
        ("Response 2 outperforms Response 1", 2),
        ("Response 1 is less accurate than Response 2", 2),
        ("Response 1 is not as good as Response 2", 2),
        ("Response 1 provides a better answer than Response 2", 1),
        ("Response 1 is as good as Response 2", "tie"),
        ("Neither response is better", "tie"),
        ("There is no clear winner", "tie"),
        ("The worse response is Response 1", 2),
        ("I prefer B over A", 2),
        ("prefer 1", 1),
        ("Neither Response 1 nor Response 2 is better", "tie"),
        ("Response 2 does not answer and Response 1 is better", 1),
    ],
)
def test_preference_verdicts(content: str, key: Any) -> None:
    assert accuracy("llava", content, key) == 1.0


@pytest.mark.parametrize(
    "content",
    [
        "Response 1 is better. [[B]]",
        "[[A]] [[B]]",
        "A is better, or B is better",
        "Response 1 is not better than Response 2",
        "Response 1 is more verbose than Response 2",
        "I prefer a detailed answer",
        "I do not think Response 1 is better",
        "I wouldn't choose Response 2",
        "The best response is a detailed one",
        "Response 1 is as good as Response 2, but [[B]]",
    ],
)
def test_no_verdict_and_two_verdicts_earn_nothing(content: str) -> None:
    assert [accuracy("llava", content, key) for key in (1, 2, "tie")] == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("answer", "key", "expected"),
    [
        ("5 cm", "5", 1.0),
        ("5x", "5", 0.0),
        ("\\sqrt{12}", "12", 0.0),
        ("y=2x+1", "z=2x+1", 0.0),
        ("x=5", "5", 1.0),
        ("\\[5\\]", "5", 1.0),
        ("The answer is $5$.", "5", 1.0),
        ("\\text{Odd}", "odd", 1.0),
        ("$5$ and $7$", "5", 0.0),
        ("\\boxed{5} or \\boxed{7}", "5", 0.0),
        ("\\frac{\\pi}{2}", "\\pi/2", 1.0),
        ("xy", "yx", 1.0),
        ("30°", "30^{\\circ}", 1.0),
        ("0.1\\overline{6}", "\\frac{1}{6}", 1.0),
        ("\\varnothing", "\\emptyset", 1.0),
        ("x^2+1", "x^2+1.001", 0.0),
        ("(x+1)^{999}", "1.5", 0.0),
    ],
)
def test_math(answer: str, key: str, expected: float) -> None:
    assert accuracy("math", answer, key) == expected


def test_math_key_that_does_not_parse_is_found_at_build() -> None:
    assert check_answer("math", "\\frac{1}{2}") is None
    assert "does not parse" in (check_answer("math", "\\frac{1}{") or "")


def test_text_of_svg_and_html_counts() -> None:
    key = "<svg width='10'><text>Stop</text></svg>"
    assert accuracy("svg", "<svg width='10.0'><text>Stop</text></svg>", key) == 1.0
    assert accuracy("svg", "<svg width='10'><text>Go</text></svg>", key) == pytest.approx(0.8)
    assert accuracy("html", "<p>wrong</p>", "<p>right</p>") == pytest.approx(2 / 3)


def test_words_of_neighbouring_elements_are_different_words() -> None:
    key = "<h1>Title</h1><p>text</p>"
    assert accuracy("html", "<h1>Title</h1>\n<p>text</p>", key) == pytest.approx(1.0)
    assert accuracy("html", "<h1>Title</h1><p>other</p>", key) == pytest.approx((0.4 + 0.2 * 0.5) / 0.6)


@pytest.mark.parametrize(
    ("problem_type", "source"), [("svg", "<svg width='10'><g/></svg>"), ("html", "<p>Hello <b>you</b></p>")]
)
def test_tolerant_source_is_found_in_prose(problem_type: str, source: str) -> None:
    for response in (f"Here it is:\n{source}\nDone.", f"Sure!\n```{problem_type}\n{source}\n```"):
        assert score(problem_type, response, source, protocol="eval").accuracy == pytest.approx(1.0)
        assert score(problem_type, f"<answer>{response}</answer>", source).accuracy != 1.0


@pytest.mark.parametrize(
    "source",
    ["<svg>", "<p/>", '<!DOCTYPE svg [<!ENTITY a "b">]><svg>&a;</svg>', "<svg>" * 300 + "</svg>" * 300],
)
def test_svg_that_is_refused(source: str) -> None:
    result = score("svg", f"<answer>{source}</answer>", "<svg/>")
    assert (result.accuracy, result.format) == (0.0, 0.5)


def test_python_body_counts() -> None:
    key = "import os\ndef f(x):\n    return x + 1\n"
    assert accuracy("code", key, key) == 1.0
    assert (accuracy("code", "import os\ndef f(x): pass\n", key) or 0) < 0.7
    assert accuracy("code", "def f(:", key) == 0.0


@pytest.mark.parametrize("unit", ["<!--", '<p a="', "<?", "</", "<!"])
def test_markup_without_end_is_scored_and_not_timed_out(unit: str) -> None:
    for source in (unit * (60_000 // len(unit)), "<p>x</p>" + unit * (50_000 // len(unit))):
        assert score("html", f"<answer>{source}</answer>", "<p>x</p>").accuracy is not None


def test_an_unclosed_comment_or_tag_at_the_end_counts_for_nothing() -> None:
    for end in ("<!-- <b>no</b>", '<b class="', "</p"):
        assert accuracy("html", f"<p>x</p>{end}", "<p>x</p>") == pytest.approx(1.0)
    assert accuracy("html", "<p>1 < 2", "<p>1 &lt; 2</p>") == pytest.approx(1.0)

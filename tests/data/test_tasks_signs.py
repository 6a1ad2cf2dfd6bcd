"""Signs of plain text in formulas and numbers: exponents, roots, infinity, brackets."""

from __future__ import annotations

import pytest

from vrldata.tasks import score


def accuracy(problem_type: str, content: str, key: object) -> float | None:
    return score(problem_type, f"<answer>{content}</answer>", key).accuracy


@pytest.mark.parametrize(
    ("content", "key"),
    [
        ("x²+2x+1", "(x+1)^2"),
        ("10⁻³", "0.001"),
        ("x¹⁰", "x^{10}"),
        ("x₁", "x_1"),
        ("2√3", "\\sqrt{12}"),
        ("√(x+1)", "\\sqrt{x+1}"),
        ("2*sqrt(3)", "\\sqrt{12}"),
        ("(-∞,0)∪(1,∞)", "(-\\infty, 0) \\cup (1, \\infty)"),
        ("∅", "\\emptyset"),
        ("1½", "\\frac{3}{2}"),
        ("5 cm²", "5"),
        ("= 100", "100"),
        ("≈ 3.14", "3.14159"),
        ("0.333...", "0.333..."),
        *(("3*pi/4", "\\frac{3\\pi}{4}"), ("ln(2)", "\\ln 2"), ("sin x", "\\sin(x)"), ("2pi", "2\\pi")),
        *(("approximately 3.14", "3.14159"), ("therefore 3", "3"), ("log cabin", "\\text{log cabin}")),
    ],
)
def test_signs_mean_what_their_latex_means(content: str, key: str) -> None:
    assert accuracy("math", content, key) == 1.0
    assert score("math", f"The answer is ${content}$.", key, protocol="eval").accuracy == 1.0


@pytest.mark.parametrize(
    ("content", "key"),
    [
        ("1²", "12"),
        ("x²", "x2"),
        ("√2", "\\sqrt{3}"),
        ("\\{2,1\\}", "(2,1)"),
        ("(1,2)", "\\{1,2\\}"),
        ("[1,2]", "\\{1,2\\}"),
        ("{1,2}", "(1,2)"),
    ],
)
def test_what_only_looks_alike_differs(content: str, key: str) -> None:
    assert accuracy("math", content, key) == 0.0


@pytest.mark.parametrize(
    ("response", "key"),
    [
        ("The answer is 10³.", 1000),
        ("The answer is 2¹⁰ m².", 1024),
        ("The answer is 1\u202f000.", 1000),
        ("The answer is **三十二**.", 32),
        ("The answer is 5 m².", 5),
        ("**7**\n\n2 on the left and 5 on the right", 7),
    ],
)
def test_number_of_a_conclusion_keeps_its_signs(response: str, key: int) -> None:
    for problem_type in ("numerical", "regression"):
        assert score(problem_type, response, key, protocol="eval").accuracy == 1.0


def test_numbers_on_lines_of_their_own_are_candidates() -> None:
    assert score("numerical", "3\n\n4", 3, protocol="eval").status == "ambiguous"
    assert score("numerical", "3\n4 cars", 3, protocol="eval").status == "ambiguous"


def test_two_letters_are_no_value() -> None:
    options = ["A. 1", "B. 2", "C. 3"]
    for content in ("A or B", "B. 3"):
        result = score("math", f"<answer>{content}</answer>", "B", options=options)
        assert (result.accuracy, result.format) == (0.0, 0.5)
    assert score("math", "<answer>2.0</answer>", "B", options=options).accuracy == 1.0


@pytest.mark.parametrize(
    "join", [" vs ", " | ", "|", " ", " \\quad ", " \\lor ", "或", "、", "\\\\", " & ", " + ", " \\mid "]
)
def test_a_symbol_with_two_values_is_no_result(join: str) -> None:
    for key in ("y=x", "y=2x"):
        assert score("math", f"<answer>y=x{join}y=2x</answer>", key).accuracy == 0.0
    assert score("math", f"<answer>x=3{join}x=4</answer>", "4").accuracy == 0.0

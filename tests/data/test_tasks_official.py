"""The benchmarks' own scorers, pinned where they differ from protocol `eval`."""

from __future__ import annotations

from typing import Any

import pytest

from vrldata.tasks import PROTOCOLS, score
from vrldata.types import Score

OPTIONS = ["A. red bucket", "B. green ladder", "C. blue kite", "D. grey boat"]
SIX = [*OPTIONS, "E. black cat", "F. white dog"]
CAPTIONS = "Which caption fits?\nCaption A: The ball rolls left.\nCaption B: The ball rolls right."
RIGHT = "Caption B: The ball rolls right."


def official(name: str, problem_type: str, response: str, key: Any, **fields: Any) -> Score:
    return score(problem_type, response, key, protocol=f"{name}-official", **fields)


@pytest.mark.parametrize(
    ("response", "accuracy"),
    [("B", 1), ("b", 1), ("B.", 1), ("B. green ladder", 1), ("The answer is B", 0), (" B", 0), ("(B)", 0)],
)
def test_vsibench_takes_the_first_word_of_a_choice(response: str, accuracy: float) -> None:
    assert official("vsibench", "mcq", response, "B", options=OPTIONS).accuracy == accuracy


@pytest.mark.parametrize(
    ("response", "accuracy"),
    [("2", 0.1), ("3", 0.6), ("5", 0.6), ("3.8", 1.0), ("4 chairs", 1.0), ("about 4", 0.0), ("four", 0.0)],
)
def test_vsibench_compares_the_first_word_as_a_number(response: str, accuracy: float) -> None:
    result = official("vsibench", "regression", response, "4")
    assert result.accuracy == pytest.approx(accuracy)
    assert score("regression", "two", "4", protocol="eval").accuracy == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("problem_type", "response", "key", "accuracy"),
    [
        ("mcq", "I saw a Boat", "B", 1),
        ("mcq", "A. text", "A", 1),
        ("mcq", "b", "B", 0),
        ("counting", "in 2 rooms, 5 times", "25", 1),
        ("counting", "about 5", "5", 1),
        ("SSR", "Y", "Yes", 1),
        ("SSR", "Not sure, Yes", "Yes", 1),
        ("CRR", "yes", "Yes", 0),
        ("CRR", "NOT enough", "No", 0),
        ("CRR", "Nothing can be said", "No", 1),
    ],
)
def test_ovobench_finds_the_key_anywhere(problem_type: str, response: str, key: str, accuracy: float) -> None:
    options = OPTIONS if problem_type == "mcq" else None
    assert official("ovobench", problem_type, response, key, options=options).accuracy == accuracy


@pytest.mark.parametrize(
    ("response", "accuracy"),
    [("B", 1), ("B. whatever", 1), ("B) whatever", 1), ("B. green ladder", 1), ("A", 0), ("It is B", None)],
)
def test_tempcompass_choices(response: str, accuracy: float | None) -> None:
    result = official("tempcompass", "mcq", response, "B. green ladder", options=OPTIONS)
    assert result.accuracy == accuracy
    assert result.status == ("needs_judge" if accuracy is None else "scored")


def test_tempcompass_reads_how_a_yes_or_no_begins() -> None:
    said = {
        text: official("tempcompass", "yes no", text, "yes").accuracy for text in ("Yes!", "Not sure, yes")
    }
    assert said == {"Yes!": 1.0, "Not sure, yes": 0.0}
    assert official("tempcompass", "yes no", "Maybe", "yes").status == "needs_judge"


@pytest.mark.parametrize(
    ("response", "accuracy"),
    [
        (RIGHT, 1),
        ("The ball rolls right.", 1),
        ("Caption B", 1),
        ("Caption B.", 1),
        ("(B) The ball rolls right.", 1),
        ("Caption A", 0),
        ("caption b", None),
        ("The ball rolls right", None),
    ],
)
def test_tempcompass_captions(response: str, accuracy: float | None) -> None:
    assert official("tempcompass", "open ended", response, RIGHT, problem=CAPTIONS).accuracy == accuracy


@pytest.mark.parametrize(
    ("response", "letter"),
    [
        ("<answer>B: A man</answer>", "A"),
        ("<answer>A</answer> then <answer>C</answer>", "C"),
        ("<answer>F</answer>", "F"),
        ("Eve Did it", "D"),
        ("no idea", ""),
    ],
)
def test_video_holmes_takes_the_first_letter_of_the_alphabet(response: str, letter: str) -> None:
    for option in "ABCDEF":
        result = official("video_holmes", "mcq", response, option, options=SIX)
        assert (result.accuracy, result.extracted) == (float(option == letter), letter)
    assert result.status == ("scored" if letter else "unparsed")


@pytest.mark.parametrize(
    ("name", "response", "letter"),
    [
        ("videomme_v2", "Because the man left, D", "B"),
        ("videomme_v2", "The best answer is C", "C"),
        ("longvideobench", "Because the man left, D", "B"),
        ("longvideobench", "(C)", "C"),
        ("minerva", "It is B. Every Day", "D"),
        ("minerva", "Final: (C)", "C"),
    ],
)
def test_first_or_last_capital_counts_even_inside_a_word(name: str, response: str, letter: str) -> None:
    result = official(name, "mcq", response, letter, options=OPTIONS)
    assert (result.accuracy, result.extracted) == (1.0, letter)


@pytest.mark.parametrize("protocol", [name for name in PROTOCOLS if name.endswith("-official")])
def test_a_type_without_rule_or_a_key_that_cannot_be_read_is_no_zero(protocol: str) -> None:
    assert score("segmentation", "x", {}, protocol=protocol).accuracy is None
    result = score("mcq", "A", "Z", options=OPTIONS, protocol=protocol)
    assert (result.accuracy, result.status) == (None, "bad_ground_truth")

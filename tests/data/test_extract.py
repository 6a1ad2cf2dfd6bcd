"""Where the answer of a response lies."""

from __future__ import annotations

import pytest

from vrldata.errors import TaskError
from vrldata.tasks import score
from vrldata.tasks.extract import strict_answer
from vrldata.tasks.reading import ScoringSettings


def content(response: str, **settings: object) -> str | None:
    return strict_answer(response, ScoringSettings(**settings)).text  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "response",
    [
        "<answer>B</answer>",
        "<ANSWER> B </Answer>",
        "<think>x</think><answer>B</answer>",
        "<thought>x</thought> so <answer>B</answer> is my answer",
        "x</think><answer>B</answer>",
        "<think>I reply as <answer>A</answer></think><answer>B</answer>",
    ],
)
def test_one_answer_tag_after_the_reasoning_counts(response: str) -> None:
    assert content(response) == "B"


@pytest.mark.parametrize(
    "response",
    [
        "",
        "B",
        "\\boxed{B}",
        "<answer></answer>",
        "<answer> \n</answer>",
        "<answer>B",
        "B</answer>",
        "</answer><answer>B",
        "<answer>A</answer><answer>B</answer>",
        "<answer><answer>B</answer></answer>",
        "<think><answer>B</answer>",
        "<think>x</think><think><answer>B</answer>",
        "<think><answer>B</answer></think>",
        "<answer>B</answer></think>",
    ],
)
def test_anything_else_is_no_answer(response: str) -> None:
    assert content(response) is None


def test_settings_loosen_or_tighten_the_rule() -> None:
    assert content("<answer>A</answer><answer>B</answer>", multi_answer="last") == "B"
    assert content("<answer>B</answer>", require_think=True) is None
    assert content("<answer>B</answer> done", strict_tail=True) is None
    assert content("so \\boxed{B}", extraction="lenient") == "B"
    assert content("the answer is B", extraction="lenient") == "B"
    assert content("<think>the answer is B</think>I do not know", extraction="lenient") is None


def test_reasoning_may_stand_in_other_tags() -> None:
    tags = ("reasoning", "seed:think")
    assert content("<reasoning>A</reasoning><answer>B</answer>", reasoning_tags=tags) == "B"
    assert content("<reasoning><answer>A</answer></reasoning><answer>B</answer>", reasoning_tags=tags) == "B"
    assert content("<seed:think><answer>B</answer>", reasoning_tags=tags) is None
    assert content("<think><answer>B</answer>", reasoning_tags=()) == "B"
    settings = ScoringSettings(reasoning_tags=tags)
    result = score("mcq", "<reasoning>The answer is A</reasoning>B", "B", protocol="eval", settings=settings)
    assert result.accuracy == 1.0
    with pytest.raises(TaskError, match="reasoning_tags: '<think>'"):
        ScoringSettings(reasoning_tags=("<think>",))


def test_long_s_is_not_the_s_of_a_tag() -> None:
    assert content("<anſwer>B</anſwer>") is None

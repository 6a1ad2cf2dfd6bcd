"""From a response to a prediction: coordinates, statuses, rules of other toolkits, benchmarks' own rules."""

from __future__ import annotations

import dataclasses
import json

import pytest

from tests.eval.examples import make_clip, make_question, says
from vrldata.errors import ConfigError, TaskError
from vrldata.tasks.sandbox import check_sandbox
from vrleval.benchmarks import tempcompass
from vrleval.compat import apply_compat, check_compat
from vrleval.scoring import ScoringContext, score_response

CONTEXT = ScoringContext(config="c", family="qwen3-vl")


def test_boxes_in_thousandths_are_compared_in_pixels_of_the_source() -> None:
    clip = make_clip(height=64, width=96)  # the source is 192 x 128
    answer = json.dumps({"time": [0, 1], "boxes": {"0": [0, 0, 96, 64], "1": [0, 0, 96, 64]}})
    said = json.dumps({"time": [0, 1], "boxes": {"0": [0, 0, 500, 500], "1": [0, 0, 500, 500]}})
    question = make_question(0, problem_type="spatial_temporal_grounding", options=(), answer=answer)
    context = ScoringContext(config="c", family="qwen3-vl", box_frame="pixel")
    prediction = score_response(question, says(f"<answer>{said}</answer>"), [clip], context)
    assert prediction.parts["viou"] == pytest.approx(1.0)
    untold = score_response(question, says(f"<answer>{said}</answer>"), [clip], CONTEXT)
    assert untold.parts["viou"] < 0.1


def test_boxes_in_pixels_of_the_frame_are_scaled_to_the_source() -> None:
    clip = make_clip(height=64, width=96)
    answer = json.dumps({"time": [0, 1], "boxes": {"0": [0, 0, 96, 64]}})
    said = json.dumps({"time": [0, 1], "boxes": {"0": [0, 0, 48, 32]}})
    question = make_question(0, problem_type="spatial_temporal_grounding", options=(), answer=answer)
    context = ScoringContext(config="c", family="qwen2.5-vl", box_frame="pixel")
    prediction = score_response(question, says(f"<answer>{said}</answer>"), [clip], context)
    assert prediction.parts["viou"] == pytest.approx(1.0)


def test_the_strict_score_stands_beside_the_tolerant_one() -> None:
    prediction = score_response(make_question(0), says("B. green ladder"), [], CONTEXT)
    assert (prediction.score, prediction.strict) == (1.0, 0.0)


def test_what_was_sent_is_counted() -> None:
    prediction = score_response(make_question(0), says("<answer>B</answer>"), [make_clip(frames=4)], CONTEXT)
    assert (prediction.num_frames, prediction.num_visual_tokens) == (4, 2 * 2 * 3)


def test_an_unreadable_answer_of_the_data_counts_and_says_so() -> None:
    prediction = score_response(make_question(0, answer="Z"), says("<answer>B</answer>"), [], CONTEXT)
    assert (prediction.status, prediction.score) == ("bad_answer", 0.0)


def test_guessing_is_only_done_when_asked_for_and_is_named() -> None:
    question = make_question(0)
    plain = score_response(question, says("no idea"), [], CONTEXT)
    assert (plain.status, plain.score) == ("unparsed", 0.0)
    guessed = apply_compat(plain, question.sample, ("random",), 3)
    assert (guessed.status, guessed.how) == ("scored", "compat:random")
    assert apply_compat(plain, question.sample, ("random",), 3) == guessed
    assert guessed.extracted in "ABCD"
    assert guessed.strict == 0.0


def test_lenient_ovo_rules_are_those_of_the_reference() -> None:
    import dataclasses

    question = dataclasses.replace(make_question(0), groups={"ovo_task": "EPM"})
    context = ScoringContext(config="c", family="qwen3-vl", compat=("ovo",))
    prediction = score_response(question, says("I saw a Boat"), [], context)
    assert (prediction.score, prediction.how) == (1.0, "compat:ovo")


def test_official_rules_touch_their_own_benchmark_alone() -> None:
    import dataclasses

    names = ("longvideobench-official", "random")
    context = ScoringContext(config="c", family="qwen3-vl", compat=names)
    other = score_response(make_question(0), says("Because the man left, D"), [], context)
    assert (other.extracted, other.how) == ("D", "trailing")
    question = dataclasses.replace(make_question(0), benchmark="longvideobench")
    own = score_response(question, says("Because the man left, D"), [], context)
    assert (own.extracted, own.how) == ("B", "compat:longvideobench-official")
    guessed = score_response(question, says("no idea"), [], context)
    assert guessed.how == "compat:random"


def test_an_unknown_rule_suggests_the_nearest() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'random'"):
        check_compat(["ramdom"])


CAPTIONS = "Which one fits?\nCaption A: The ball rolls left.\nCaption B: The ball rolls right."


@pytest.mark.parametrize(
    ("response", "status", "score"),
    [
        ("Caption B: The ball rolls right.", "scored", 1.0),
        ("The ball rolls right", "scored", 1.0),
        ("caption b", "scored", 1.0),
        ("B", "scored", 1.0),
        ("Caption A", "scored", 0.0),
        ("**Caption B**", "scored", 1.0),
        ('"The ball rolls right."', "scored", 1.0),
        ("(B) The ball rolls right.", "scored", 1.0),
        ("It turns to the right. The answer is Caption B.", "scored", 1.0),
        ("Caption A, or rather B", "unparsed", 0.0),
        ("", "empty", 0.0),
    ],
)
def test_caption_matching_takes_line_sentence_or_label(response: str, status: str, score: float) -> None:
    question = make_question(
        0,
        problem=CAPTIONS,
        answer="Caption B: The ball rolls right.",
        problem_type="open_ended",
        options=(),
        extra={"format": "caption_matching"},
    )
    found = tempcompass.score(question, response)
    assert found is not None
    assert (found.status, found.accuracy) == (status, score)


def test_other_formats_keep_the_rules_of_their_type() -> None:
    assert tempcompass.score(make_question(0, extra={"format": "yes_no"}), "yes") is None


@pytest.mark.parametrize(
    ("benchmark", "extra"),
    [("tempcompass", {"format": "caption_matching"}), ("videoreasonbench", {"dim": "infer_state"})],
)
@pytest.mark.parametrize("tag", ["think", "plan"])
def test_rules_of_a_benchmark_see_no_reasoning(benchmark: str, extra: dict[str, str], tag: str) -> None:
    answer = "Caption B: The ball rolls right."
    question = make_question(
        0, problem=CAPTIONS, answer=answer, problem_type="open_ended", options=(), extra=extra
    )
    question = dataclasses.replace(question, benchmark=benchmark)
    context = ScoringContext(config="c", family="qwen3-vl", reasoning_tags=("think", "plan"))
    final = f"<answer>Final Answer: {answer}</answer>" if benchmark == "videoreasonbench" else answer
    cut = score_response(question, says(f"<{tag}> so {final}"), [], context)
    assert (cut.status, cut.score) == ("truncated", 0.0)
    whole = score_response(question, says(f"<{tag}> or Caption A </{tag}>{final}"), [], context)
    assert whole.status in ("scored", "needs_judge")
    assert answer in whole.extracted


def test_unit_tests_of_code_are_run_where_the_run_allows_it() -> None:
    try:
        check_sandbox()
    except TaskError as error:
        pytest.skip(f"no sandbox on this machine: {error}")
    tests = ["assert f(1) == 2", "assert f(1) == 3"]
    question = make_question(
        0, problem_type="code", answer="def f(x): return x", options=(), extra={"unit_tests": tests}
    )
    said = says("<answer>def f(x): return x + 1</answer>")
    allowed = dataclasses.replace(CONTEXT, allow_code_execution=True)
    assert score_response(question, said, [], allowed).parts["tests_passed"] == 0.5
    assert "tests_passed" not in score_response(question, said, [], CONTEXT).parts

"""VideoReasonBench: answers behind the marker, and moves that are carried out."""

from __future__ import annotations

from typing import Any

import pytest

from tests.eval.examples import make_question
from vrleval.benchmarks import videoreasonbench
from vrleval.benchmarks.videoreasonbench_games import SimulationError, reaches_target

GRID = {
    "demo": "grid",
    "visible_time": "start",
    "states": [[[0, 0], [0, 0]], [[0, 0], [0, 0]]],
    "coords": [[1, 1], [0, 0]],
}
GRID_TARGET = (
    "Reach the desired arrangement of black and white pieces: "
    "`(a,0): black, (a,1): black, (b,0): white, (b,1): black`"
)


def test_a_circle_flips_the_piece_under_it_and_its_neighbours() -> None:
    # from (0, 0) one step right: the piece at x=1 y=0 flips, with its left and lower neighbours
    assert reaches_target(GRID_TARGET, "right", GRID)
    assert not reaches_target(GRID_TARGET, "right, left", GRID)
    assert not reaches_target(GRID_TARGET, "up, right", GRID)  # leaves the board


def test_the_first_state_counts_where_the_last_is_shown() -> None:
    row = {**GRID, "visible_time": "end"}  # starts from (1, 1)
    assert not reaches_target(GRID_TARGET, "right", row)
    assert reaches_target(GRID_TARGET, "up", row)


def test_numbers_slide_into_the_hole() -> None:
    row = {"demo": "hrd", "visible_time": "start", "states": [[[1, 2], [3, 0]]]}
    target = "the desired number arrangement: `(b,1): 1, (b,2): 2, (a,1): 0, (a,2): 3`"
    assert reaches_target(target, "Move right", row)
    assert not reaches_target(target, "left", row)


def test_cups_change_places() -> None:
    row = {"demo": "cup", "visible_time": "start", "states": [[[1, 0], [0, 0]]]}
    target = "achieve the desired distribution of coins: `b2`"
    assert reaches_target(target, "(a1, a2), (a2, b2)", row)
    assert not reaches_target(target, "(a1, a2)", row)


FILES = {
    "demo": "file_sys",
    "visible_time": "start",
    "states": {"path1": {"init": ["a"], "touch": ["a", "b"]}},
}
FILES_TARGET = "to ensure that `path1` contains exactly the following files: `b, c`"


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("rm -rf path1/{a} && touch path1/{c}", True),
        ("touch path1/{c} & rm -rf path1/{a}", True),
        ("rm -rf path1/{a}", False),
        ("touch path1/{a,c}; rm -rf path1/{a}", False),
        ("mv path1/{a} path2; touch path1/{c}", False),
        ("rm -rf path1/{a}; touch path1/{c}; touch path1/{b}", False),
    ],
)
def test_files_are_removed_and_made_by_two_commands_at_most(answer: str, right: bool) -> None:
    assert reaches_target(FILES_TARGET, answer, FILES) is right


def test_chips_are_counted_not_only_named() -> None:
    row = {"demo": "chip", "visible_time": "start", "states": [{"cup0": [20], "cup1": []}]}
    target = "to ensure that `cup0` contains exactly the following chips: `20, 20`"
    assert reaches_target(target, "add 20 to cup0", row)
    assert not reaches_target(
        "to ensure that `cup0` contains exactly the following chips: `20`", "add 20 to cup0", row
    )
    assert not reaches_target(target, "add 30 to cup0", row)


def test_a_card_leaves_only_from_the_end_where_it_may() -> None:
    row = {
        "demo": "card",
        "visible_time": "start",
        "states": [{"pile0": ["Ace of Hearts", "2 of Clubs"], "pile1": []}],
    }
    target = (
        "to ensure that `pile0` contains exactly the following cards from top to bottom: "
        "`2 of Clubs, King of Spades`"
    )
    moves = "remove Ace of Hearts from pile0, add King of Spades to pile0"
    assert reaches_target(target, moves, row)
    assert not reaches_target(target, moves.replace("Ace of Hearts", "2 of Clubs"), row)


def test_a_row_without_states_cannot_be_simulated() -> None:
    with pytest.raises(SimulationError, match="no states"):
        reaches_target(GRID_TARGET, "right", {"demo": "grid"})


@pytest.mark.parametrize(
    ("extra", "response", "status", "score"),
    [
        ({}, "I count three. Final Answer: 3", "needs_judge", None),
        ({}, "I count three.", "unparsed", 0.0),
        ({}, "<think>Final Answer: 3</think>Three it is.", "unparsed", 0.0),
        ({}, "  ", "empty", 0.0),
        ({"dim": "prediction_operation"}, "Final Answer: None", "needs_simulator", None),
        ({"dim": "prediction_operation", **GRID}, "**Final Answer:** right", "scored", 1.0),
        ({"dim": "prediction_operation", **GRID}, "Final Answer: None", "scored", 0.0),
    ],
)
def test_the_answer_stands_behind_the_marker(
    extra: dict[str, Any], response: str, status: str, score: float | None
) -> None:
    question = make_question(
        0, problem=GRID_TARGET, answer="None", problem_type="open_ended", options=(), extra=extra
    )
    found = videoreasonbench.score(question, response)
    assert found is not None
    assert (found.status, found.accuracy) == (status, score)

"""The six games of VideoReasonBench: moves read from an answer are carried out and compared with the target.

Each reader takes moves from plain text, strictly: a move that is not allowed ends the attempt as wrong. The
state before the moves comes from the row: the first one where the video shows the last, else the last.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from vrldata.errors import BenchmarkError

Board = list[list[int]]

_COLUMNS = {letter: index for index, letter in enumerate("abcde")}
_DIRECTION = re.compile(r"\b(left|right|up|down)\b", re.IGNORECASE)
_PAIR = re.compile(
    r"\(?\s*['\"]?([a-e][1-5])['\"]?\s*(?:,|<->|↔|and|with)\s*['\"]?([a-e][1-5])['\"]?\s*\)?", re.I
)
_CARD = re.compile(
    r"\b(add|remove)\s+(?:the\s+)?((?:ace|[2-9]|10|jack|queen|king)\s+of\s+(?:hearts|clubs|diamonds|spades))"
    r"\s+(?:to|from|on|onto|off)?\s*(pile[01])\b",
    re.IGNORECASE,
)
_CHIP = re.compile(r"\b(add|remove)\s+(?:a\s+)?(\d+)(?:\s+chip)?\s+(?:to|from|in|into)?\s*(cup[01])\b", re.I)
_CHIP_VALUES = frozenset({5, 10, 20, 50, 100})
_COMMAND = re.compile(r"(rm\s+-rf|touch)\s+(\S*?)/?\{([^}]*)\}", re.IGNORECASE)
MAX_COMMANDS = 2


class SimulationError(BenchmarkError):
    """The row does not say enough to carry out the moves."""


def reaches_target(problem: str, answer: str, row: Mapping[str, Any]) -> bool:
    """Whether the moves of an answer lead from the row's hidden state to the state that the question names.

    Raises:
        SimulationError: no such game, or the row lacks the state or the question the target.
    """
    game = GAMES.get(str(row.get("demo", "")))
    if game is None:
        raise SimulationError(f"no game {row.get('demo')!r}")
    if not row.get("states"):
        raise SimulationError("the row holds no states to start from")
    try:
        return game(problem, answer, row)
    except (KeyError, IndexError, ValueError, TypeError, AttributeError) as error:
        raise SimulationError(f"states or target are not as expected: {error}") from error


def _start(row: Mapping[str, Any], name: str = "states") -> Any:
    values = row[name]
    return values[0] if row.get("visible_time") == "end" else values[-1]


def _target(problem: str, pattern: str) -> str:
    match = re.search(pattern + r"\s*`([^`]+)`", problem)
    if match is None:
        raise SimulationError("the question names no target")
    return match[1]


def _cells(target: str) -> list[tuple[str, str, str]]:
    """Entries such as `(a,1): black` as (letter, digit, value)."""
    return re.findall(r"\(?([a-e]),\s*(\d)\)?:\s*(\w+)", target)


def _grid(problem: str, answer: str, row: Mapping[str, Any]) -> bool:
    """A circle moves; the piece under it and its four neighbours change colour. board[y][x], 1 is black."""
    board: Board = [list(line) for line in _start(row)]
    x, y = _start(row, "coords")
    size = len(board)
    moves = [name.lower() for name in _DIRECTION.findall(answer)]
    if not moves:
        return False
    steps = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}
    for move in moves:
        x, y = x + steps[move][0], y + steps[move][1]
        if not (0 <= x < size and 0 <= y < size):
            return False
        for dx, dy in ((0, 0), *steps.values()):
            if 0 <= x + dx < size and 0 <= y + dy < size:
                board[y + dy][x + dx] ^= 1
    wanted: Board = [[0] * size for _ in range(size)]
    for letter, digit, colour in _cells(_target(problem, r"arrangement of black and white pieces:")):
        wanted[_COLUMNS[letter]][int(digit)] = int(colour == "black")
    return board == wanted


def _sliding_puzzle(problem: str, answer: str, row: Mapping[str, Any]) -> bool:
    """Numbers slide into the hole (0). A move names where the number goes; vertical names are the hole's."""
    board: Board = [list(line) for line in _start(row)]
    size = len(board)
    moves = [name.lower() for name in _DIRECTION.findall(answer)]
    if not moves:
        return False
    # the official simulator moves the hole up and down, but numbers left and right
    steps = {"up": (-1, 0), "down": (1, 0), "left": (0, 1), "right": (0, -1)}
    for move in moves:
        hole = next((i, j) for i in range(size) for j in range(size) if board[i][j] == 0)
        i, j = hole[0] + steps[move][0], hole[1] + steps[move][1]
        if 0 <= i < size and 0 <= j < size:
            board[hole[0]][hole[1]], board[i][j] = board[i][j], 0
    wanted: Board = [[0] * size for _ in range(size)]
    for letter, digit, number in _cells(_target(problem, r"the desired number arrangement:")):
        wanted[size - 1 - _COLUMNS[letter]][int(digit) - 1] = int(number)
    return board == wanted


def _cups(problem: str, answer: str, row: Mapping[str, Any]) -> bool:
    """Two cups change places, with what is under them."""
    board: Board = [list(line) for line in _start(row)]
    swaps = _PAIR.findall(answer)
    if not swaps:
        return False
    for first, second in swaps:
        (i, j), (k, m) = _place(first), _place(second)
        if max(i, k) >= len(board) or max(j, m) >= len(board[0]):
            return False
        board[i][j], board[k][m] = board[k][m], board[i][j]
    wanted: Board = [[0] * len(board[0]) for _ in board]
    for coin in re.findall(r"[a-e][1-5]", _target(problem, r"distribution of coins:")):
        i, j = _place(coin)
        wanted[i][j] = 1
    return board == wanted


def _place(name: str) -> tuple[int, int]:
    return _COLUMNS[name[0].lower()], int(name[1]) - 1


def _files(problem: str, answer: str, row: Mapping[str, Any]) -> bool:
    """At most one `rm -rf` and one `touch`, on different files of the folder that is asked about."""
    path = _target(problem, r"to ensure that")
    wanted = {name.strip() for name in _target(problem, r"exactly the following files:").split(",")}
    states = row["states"][path]
    history = list(states.values()) if isinstance(states, Mapping) else list(states)
    files = set(history[0] if row.get("visible_time") == "end" else history[-1])
    commands = _COMMAND.findall(answer)
    others = re.findall(r"\b(cp|mv|ln|dd)\b", answer)
    if not commands or len(commands) > MAX_COMMANDS or others:
        return False
    touched: dict[str, set[str]] = {}
    for command, folder, names in commands:
        if folder and folder.strip("/") != path.strip("/"):
            return False
        verb = "rm" if command.lower().startswith("rm") else "touch"
        touched.setdefault(verb, set()).update(name.strip() for name in names.split(",") if name.strip())
    removed, made = touched.get("rm", set()), touched.get("touch", set())
    return not removed & made and (files - removed) | made == wanted


def _cards(problem: str, answer: str, row: Mapping[str, Any]) -> bool:
    """A card is added on top of a pile, or the bottom one removed; the first of a list is the bottom."""
    pile = _target(problem, r"to ensure that")
    wanted = [_card(name) for name in _target(problem, r"cards from top to bottom:").split(",")]
    piles = {name: [_card(card) for card in cards] for name, cards in _start(row).items()}
    moves = _CARD.findall(answer)
    if not moves:
        return False
    for action, card, name in moves:
        cards = piles[name.lower()]
        if action.lower() == "add":
            cards.append(_card(card))
        elif cards and cards[0] == _card(card):
            del cards[0]
        else:
            return False
    return piles[pile] == wanted


def _card(name: str) -> str:
    return " ".join(name.lower().split())


def _chips(problem: str, answer: str, row: Mapping[str, Any]) -> bool:
    """Chips are added to or removed from cups; how many of each value counts, their order does not."""
    cup = _target(problem, r"to ensure that")
    wanted = Counter(int(chip) for chip in _target(problem, r"exactly the following chips:").split(","))
    cups = {name: Counter(int(chip) for chip in chips) for name, chips in _start(row).items()}
    moves = _CHIP.findall(answer)
    if not moves:
        return False
    for action, chip, name in moves:
        value, chips = int(chip), cups[name.lower()]
        if value not in _CHIP_VALUES:
            return False
        if action.lower() == "add":
            chips[value] += 1
        elif chips[value] > 0:
            chips[value] -= 1
        else:
            return False
    return +cups[cup] == wanted


GAMES: Mapping[str, Callable[[str, str, Mapping[str, Any]], bool]] = {
    "grid": _grid,
    "hrd": _sliding_puzzle,
    "cup": _cups,
    "file_sys": _files,
    "card": _cards,
    "chip": _chips,
}
"""Game to its simulator: (problem, answer, row) to whether the target is reached."""

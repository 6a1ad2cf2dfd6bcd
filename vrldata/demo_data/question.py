"""What the generators of questions share: the question itself and the random draws behind it."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vrldata.demo_data.drawing import COLOURS, HEIGHT, SHAPES, WIDTH, Frame, Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question with its media and its answer.

    Attributes:
        answer: as the response should give it: a letter, a number, a text, or JSON.
        thought: one sentence of reasoning that leads to the answer, for offline trajectories.
        clips: frames of each video.
        pictures: each image.
        fields: further fields of the annotation row, such as `start` and `end`.
    """

    problem: str
    problem_type: str
    answer: str
    thought: str
    options: tuple[str, ...] = ()
    clips: tuple[Sequence[Frame], ...] = ()
    pictures: tuple[Frame, ...] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)


class Draws:
    """The random choices of the question `index` of a task; the same for the same seed."""

    def __init__(self, seed: int, task: str, index: int) -> None:
        self._seed, self._task, self._index = seed, task, index
        self.random = random.Random(f"{seed}/{task}/{index}")

    def balanced(self, choices: int) -> int:
        """0 to choices - 1; each comes once in a run of `choices` questions, in an order of its own."""
        block, place = divmod(self._index, choices)
        order = list(range(choices))
        random.Random(f"{self._seed}/{self._task}/order/{block}").shuffle(order)
        return order[place]

    def seconds(self, low: int, high: int) -> int:
        """A whole number of seconds."""
        return self.random.randint(low, high)

    def shape(self, *, kind: str | None = None, colour: str | None = None, size: int = 24) -> Shape:
        """A shape; what is not given is drawn."""
        kind = kind or self.random.choice(SHAPES)
        colour = colour or self.random.choice(list(COLOURS))
        return Shape(kind=kind, colour=colour, size=size)

    def place(self, shape: Shape) -> tuple[int, int]:
        """An even (left, top) with the whole shape inside the picture."""
        left = 2 * self.random.randint(1, (WIDTH - shape.size) // 2 - 1)
        top = 2 * self.random.randint(1, (HEIGHT - shape.size) // 2 - 1)
        return left, top


def lettered(texts: Sequence[str]) -> tuple[str, ...]:
    """Options with their letters.

    >>> lettered(["red", "green"])
    ('A. red', 'B. green')
    """
    return tuple(f"{chr(65 + index)}. {text}" for index, text in enumerate(texts))

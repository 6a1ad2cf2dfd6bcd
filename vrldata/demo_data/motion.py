"""Shapes over time: where each is at a moment, when it is visible, and the frames that show it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vrldata.demo_data.drawing import HEIGHT, WIDTH, Frame, Shape, canvas, draw_shape, relative_box
from vrldata.demo_data.media import FPS

DIRECTIONS: dict[str, tuple[int, int]] = {
    "to the left": (-1, 0),
    "to the right": (1, 0),
    "upwards": (0, -1),
    "downwards": (0, 1),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """A shape that moves on a straight line.

    Attributes:
        left: pixels, of the upper left corner until `moves_from`.
        top: pixels, likewise.
        velocity: pixels per second (x, y) while it moves.
        moves_from: seconds; it rests before.
        moves_until: seconds; it rests afterwards; None for the whole clip.
        visible_from: seconds, first moment that shows it.
        visible_until: seconds, first moment that no longer shows it; None for the whole clip.
    """

    shape: Shape
    left: float
    top: float
    velocity: tuple[float, float] = (0.0, 0.0)
    moves_from: float = 0.0
    moves_until: float | None = None
    visible_from: float = 0.0
    visible_until: float | None = None

    def visible(self, time: float) -> bool:
        """Whether the frame at `time` (seconds) shows it."""
        return self.visible_from <= time and (self.visible_until is None or time < self.visible_until)

    def corner(self, time: float) -> tuple[float, float]:
        """Upper left corner in pixels at `time` (seconds)."""
        end = time if self.moves_until is None else min(time, self.moves_until)
        moved = max(0.0, end - self.moves_from)
        return self.left + self.velocity[0] * moved, self.top + self.velocity[1] * moved

    def box(self, time: float) -> list[int]:
        """Box in thousandths at `time` (seconds)."""
        return relative_box(self.shape, *self.corner(time))


def render(actors: Sequence[Actor], seconds: float) -> list[Frame]:
    """The frames of a clip; later actors cover earlier ones."""
    frames = []
    for index in range(round(seconds * FPS)):
        frame = canvas()
        for actor in actors:
            if actor.visible(index / FPS):
                draw_shape(frame, actor.shape, *actor.corner(index / FPS))
        frames.append(frame)
    return frames


def crossing(shape: Shape, direction: str, seconds: float, across: float) -> Actor:
    """An actor that crosses the picture in `seconds`, from 4 pixels inside one edge to 4 inside the other.

    Args:
        direction: one of `DIRECTIONS`.
        across: 0 to 1, where it is along the other axis.
    """
    dx, dy = DIRECTIONS[direction]
    reach_x, reach_y = WIDTH - shape.size - 8, HEIGHT - shape.size - 8
    left = 4 + (across * reach_x if dx == 0 else reach_x * (dx < 0))
    top = 4 + (across * reach_y if dy == 0 else reach_y * (dy < 0))
    return Actor(shape=shape, left=left, top=top, velocity=(dx * reach_x / seconds, dy * reach_y / seconds))

"""Questions about one clip, or about a window of it, or about two clips. One function a task.

Multiple-choice tasks list their options in one fixed order, so that even a tiny model can learn the way from
what it sees to a letter; the answers are balanced over the letters.
"""

from __future__ import annotations

import json

from vrldata.demo_data.drawing import COLOURS, HEIGHT, WIDTH, canvas, draw_text
from vrldata.demo_data.media import FPS
from vrldata.demo_data.motion import DIRECTIONS, Actor, crossing, render
from vrldata.demo_data.question import Draws, Question, lettered

COLOUR_NAMES = tuple(COLOURS)
WORDS = ("CAT", "BIRD", "TREE", "STAR", "ROAD", "DOOR", "HILL", "FACE", "TOP", "BUS")
_GRID = [(left, top) for top in (10, 52) for left in (8, 52, 96)]
"""Six places for shapes of up to 28 pixels that do not touch."""


def colour(draws: Draws) -> Question:
    """Which of four colours a resting square has."""
    index = draws.balanced(len(COLOUR_NAMES))
    shape = draws.shape(kind="square", colour=COLOUR_NAMES[index], size=32)
    left, top = draws.place(shape)
    return Question(
        problem="What colour is the square?",
        problem_type="multiple choice",
        options=lettered(COLOUR_NAMES),
        answer="ABCD"[index],
        thought=f"The square is {shape.colour}.",
        clips=(render([Actor(shape=shape, left=left, top=top)], draws.seconds(2, 3)),),
    )


def direction(draws: Draws) -> Question:
    """In which of four directions a shape moves."""
    index = draws.balanced(len(DIRECTIONS))
    towards = tuple(DIRECTIONS)[index]
    seconds = draws.seconds(2, 4)
    actor = crossing(draws.shape(), towards, seconds, draws.random.random())
    return Question(
        problem=f"In which direction does the {actor.shape.kind} move?",
        problem_type="multiple choice",
        options=lettered(tuple(DIRECTIONS)),
        answer="ABCD"[index],
        thought=f"The {actor.shape.kind} moves {towards}.",
        clips=(render([actor], seconds),),
    )


def order(draws: Draws) -> Question:
    """Which of four colours is shown first."""
    index = draws.balanced(len(COLOUR_NAMES))
    second = draws.random.choice([name for name in COLOUR_NAMES if name != COLOUR_NAMES[index]])
    seconds = 2 * draws.seconds(1, 2)
    actors = []
    for name, start in ((COLOUR_NAMES[index], 0.0), (second, seconds / 2)):
        shape = draws.shape(colour=name, size=32)
        left, top = draws.place(shape)
        end = start + seconds / 2
        actors.append(Actor(shape=shape, left=left, top=top, visible_from=start, visible_until=end))
    return Question(
        problem="Which colour is shown first?",
        problem_type="multiple choice",
        options=lettered(COLOUR_NAMES),
        answer="ABCD"[index],
        thought=f"First {COLOUR_NAMES[index]}, then {second}.",
        clips=(render(actors, seconds),),
    )


def motion_order(draws: Draws) -> Question:
    """Which of two squares moves first: the upper or the lower one."""
    index = draws.balanced(2)
    seconds = 2 * draws.seconds(1, 2)
    actors = []
    for row, top in enumerate((12, 60)):
        start = 0.0 if row == index else seconds / 2
        shape = draws.shape(kind="square")
        speed = draws.random.choice((-1, 1)) * 72 / (seconds / 2)
        left = 8.0 if speed > 0 else float(WIDTH - shape.size - 8)
        actors.append(
            Actor(
                shape=shape,
                left=left,
                top=top,
                velocity=(speed, 0.0),
                moves_from=start,
                moves_until=start + seconds / 2,
            )
        )
    return Question(
        problem="Two squares move one after the other. Which one moves first?",
        problem_type="multiple choice",
        options=lettered(("the upper one", "the lower one")),
        answer="AB"[index],
        thought=f"The {('upper', 'lower')[index]} square moves while the other one still rests.",
        clips=(render(actors, seconds),),
    )


def window(draws: Draws) -> Question:
    """The colour of a square within a window of the clip; it differs before and after."""
    index = draws.balanced(len(COLOUR_NAMES))
    others = [name for name in COLOUR_NAMES if name != COLOUR_NAMES[index]]
    draws.random.shuffle(others)
    names = (others[0], COLOUR_NAMES[index], others[1])
    left, top = draws.place(draws.shape(size=32))
    actors = [
        Actor(
            shape=draws.shape(kind="square", colour=name, size=32),
            left=left,
            top=top,
            visible_from=2.0 * part,
            visible_until=2.0 * part + 2.0,
        )
        for part, name in enumerate(names)
    ]
    return Question(
        problem="What colour is the square in this part of the video?",
        problem_type="multiple choice",
        options=lettered(COLOUR_NAMES),
        answer="ABCD"[index],
        thought=f"In this part the square is {COLOUR_NAMES[index]}.",
        clips=(render(actors, 6),),
        # the window ends inside the middle part, so that no frame of the next one is taken
        fields={"start": 2.0, "end": 3.5},
    )


def compare(draws: Draws) -> Question:
    """In which of two clips a square moves faster."""
    index = draws.balanced(2)
    shape = draws.shape(kind="square")
    top = draws.place(shape)[1]
    clips = []
    for clip in range(2):
        speed = 40.0 if clip == index else 12.0
        clips.append(render([Actor(shape=shape, left=4, top=top, velocity=(speed, 0.0))], 2))
    return Question(
        problem="In which video does the square move faster?",
        problem_type="multiple choice",
        options=lettered(("the first video", "the second video")),
        answer="AB"[index],
        thought=f"The square goes further in the {('first', 'second')[index]} video.",
        clips=tuple(clips),
    )


def counting(draws: Draws) -> Question:
    """How many squares there are: one to six."""
    number = 1 + draws.balanced(6)
    actors = [
        Actor(shape=draws.shape(kind="square"), left=left, top=top)
        for left, top in draws.random.sample(_GRID, number)
    ]
    return Question(
        problem="How many squares are there?",
        problem_type="numerical",
        answer=str(number),
        thought=f"I count {number}.",
        clips=(render(actors, 2),),
    )


def number(draws: Draws) -> Question:
    """Which of two numbers is shown last."""
    shown = draws.random.sample(range(1, 100), 2)
    frames = []
    for value in shown:
        picture = canvas()
        draw_text(picture, str(value), scale=10)
        frames += [picture] * (2 * FPS)
    return Question(
        problem="Which number is shown last?",
        problem_type="number",
        answer=str(shown[1]),
        thought=f"First {shown[0]} is shown, then {shown[1]}.",
        clips=(frames,),
    )


def duration(draws: Draws) -> Question:
    """For how many seconds a shape is visible."""
    seconds = draws.seconds(4, 8)
    start, end = _span(draws, seconds)
    shape = draws.shape(size=32)
    left, top = draws.place(shape)
    actor = Actor(shape=shape, left=left, top=top, visible_from=start, visible_until=end)
    return Question(
        problem=f"For how many seconds is the {shape.kind} visible?",
        problem_type="regression",
        answer=f"{end - start:g}",
        thought=f"It appears at {start:g} s and disappears at {end:g} s.",
        clips=(render([actor], seconds),),
    )


def presence(draws: Draws) -> Question:
    """Whether a circle is shown at some time."""
    shown = draws.balanced(2) == 0
    seconds = draws.seconds(2, 4)
    kinds = ["square", "triangle", "circle" if shown else draws.random.choice(("square", "triangle"))]
    actors = []
    for kind, (left, top) in zip(kinds, draws.random.sample(_GRID, 3), strict=True):
        actors.append(Actor(shape=draws.shape(kind=kind, size=28), left=left, top=top))
    return Question(
        problem="Is there a circle in the video?",
        problem_type="boolean",
        answer="Yes" if shown else "No",
        thought="There is a circle." if shown else "There are only squares and triangles.",
        clips=(render(actors, seconds),),
    )


def event(draws: Draws) -> Question:
    """When a circle is visible."""
    seconds = draws.seconds(4, 8)
    start, end = _span(draws, seconds)
    square, circle = draws.shape(kind="square"), draws.shape(kind="circle", size=32)
    (left, top), (other_left, other_top) = draws.random.sample(_GRID, 2)
    actors = [
        Actor(shape=square, left=left, top=top),
        Actor(shape=circle, left=other_left, top=other_top - 2, visible_from=start, visible_until=end),
    ]
    return Question(
        problem="When is the circle visible?",
        problem_type="temporal grounding",
        answer=json.dumps({"time": [start, end]}),
        thought=f"The circle appears at {start:g} s and disappears at {end:g} s.",
        clips=(render(actors, seconds),),
    )


def tracking(draws: Draws) -> Question:
    """Where a moving square is at each full second."""
    seconds = draws.seconds(4, 6)
    actor = crossing(
        draws.shape(kind="square"),
        draws.random.choice(tuple(DIRECTIONS)),
        seconds,
        draws.random.random(),
    )
    return Question(
        problem=f"Where is the square at each second from 1 to {seconds - 1}?",
        problem_type="tracking",
        answer=json.dumps({"boxes": {str(time): actor.box(time) for time in range(1, seconds)}}),
        thought="The square moves evenly along a straight line.",
        clips=(render([actor], seconds),),
    )


def tube(draws: Draws) -> Question:
    """When a moving circle is visible, and where it is at each full second of that time."""
    seconds = draws.seconds(5, 8)
    start, end = _span(draws, seconds, shortest=2.0)
    circle = draws.shape(kind="circle")
    speed = (WIDTH - circle.size - 16) / (end - start)
    actor = Actor(
        shape=circle,
        left=8.0 - speed * start,
        top=2 * draws.random.randint(4, (HEIGHT - circle.size) // 2 - 4),
        velocity=(speed, 0.0),
        visible_from=start,
        visible_until=end,
    )
    times = [time for time in range(seconds) if actor.visible(time)]
    return Question(
        problem="When is the circle visible, and where is it at each full second of that time?",
        problem_type="spatial-temporal grounding",
        answer=json.dumps({"time": [start, end], "boxes": {str(time): actor.box(time) for time in times}}),
        thought=f"The circle is visible from {start:g} s to {end:g} s and moves to the right.",
        clips=(render([actor], seconds),),
    )


def description(draws: Draws) -> Question:
    """One sentence about a moving shape."""
    towards = tuple(DIRECTIONS)[draws.balanced(len(DIRECTIONS))]
    seconds = draws.seconds(2, 4)
    actor = crossing(draws.shape(), towards, seconds, draws.random.random())
    return Question(
        problem="Describe the video in one sentence: which shape, which colour, which motion?",
        problem_type="open-ended",
        answer=f"A {actor.shape.name} moves {towards}.",
        thought=f"I see a {actor.shape.name}.",
        clips=(render([actor], seconds),),
    )


def caption(draws: Draws) -> Question:
    """A caption for two shapes that follow each other."""
    first, second = draws.shape(size=32), draws.shape(size=32)
    actors = []
    for part, shape in enumerate((first, second)):
        left, top = draws.place(shape)
        actors.append(
            Actor(shape=shape, left=left, top=top, visible_from=2.0 * part, visible_until=2.0 * part + 2.0)
        )
    return Question(
        problem="Write a caption for the video.",
        problem_type="caption",
        answer=f"First a {first.name} is shown, then a {second.name}.",
        thought="Two shapes follow each other.",
        clips=(render(actors, 4),),
    )


def text(draws: Draws) -> Question:
    """Two words shown after each other."""
    words = draws.random.sample(WORDS, 2)
    frames = []
    for word in words:
        picture = canvas()
        draw_text(picture, word, scale=7)
        frames += [picture] * (2 * FPS)
    return Question(
        problem="Which words are shown, in their order?",
        problem_type="OCR",
        answer=" ".join(words),
        thought="Two words follow each other.",
        clips=(frames,),
    )


def appearance(draws: Draws) -> Question:
    """The box of a circle, points on it and off it, and the moment when it appears."""
    from vrldata.demo_data.image_questions import mask_answer

    seconds = draws.seconds(3, 5)
    start = draws.random.randint(2, 2 * seconds - 2) / 2
    circle = draws.shape(kind="circle", size=32)
    left, top = draws.place(circle)
    actor = Actor(shape=circle, left=left, top=top, visible_from=start)
    return Question(
        problem="Segment the circle at the moment it appears.",
        problem_type="segmentation",
        answer=json.dumps({"time": start, **mask_answer(circle, left, top)}),
        thought=f"The circle appears at {start:g} s.",
        clips=(render([actor], seconds),),
    )


def function(draws: Draws) -> Question:
    """A Python function for the position of a square that moves evenly."""
    speed = 4 * draws.random.randint(2, 6)
    start = 4 * draws.random.randint(1, 6)
    shape = draws.shape(kind="square")
    actor = Actor(shape=shape, left=start, top=draws.place(shape)[1], velocity=(float(speed), 0.0))
    return Question(
        problem=(
            f"The video is {WIDTH} pixels wide. Write a Python function left(t) that returns the left edge"
            " of the square in pixels, t seconds after the start."
        ),
        problem_type="code",
        answer=f"def left(t):\n    return {start} + {speed} * t",
        thought=f"The square starts at {start} and moves {speed} pixels a second.",
        clips=(render([actor], 3),),
        fields={"unit_tests": [f"assert left({time}) == {start + speed * time}" for time in range(3)]},
    )


def preference(draws: Draws) -> Question:
    """Which of two descriptions fits the clip; with a tie where both do."""
    verdict = draws.balanced(3)
    towards = draws.random.choice(tuple(DIRECTIONS))
    shape = draws.shape()
    actor = crossing(shape, towards, 3, draws.random.random())
    right = f"A {shape.name} moves {towards}."
    if verdict == 2:
        first, second = right, f"Moving {towards}: a {shape.name}."
    else:
        other = draws.random.choice([name for name in COLOUR_NAMES if name != shape.colour])
        wrong = f"A {other} {shape.kind} moves {towards}."
        first, second = (right, wrong) if verdict == 0 else (wrong, right)
    answer = ("Response 1", "Response 2", "tie")[verdict]
    return Question(
        problem=(
            "Which response describes the video better, or is it a tie?\n"
            f"Response 1: {first}\nResponse 2: {second}"
        ),
        problem_type="preference",
        answer=answer,
        thought=f"The video shows a {shape.name} that moves {towards}.",
        clips=(render([actor], 3),),
    )


def _span(draws: Draws, seconds: int, *, shortest: float = 1.0) -> tuple[float, float]:
    """Start and end in half seconds, at least half a second away from both ends of the clip."""
    length = draws.random.randint(round(2 * shortest), 2 * seconds - 3) / 2
    start = draws.random.randint(1, round(2 * (seconds - length)) - 1) / 2
    return start, start + length

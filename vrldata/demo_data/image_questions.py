"""Questions about one image, and one about none. One function a task."""

from __future__ import annotations

import json
from math import gcd

from vrldata.demo_data.drawing import (
    BACKGROUND,
    HEIGHT,
    TEXT_COLOUR,
    WIDTH,
    Shape,
    canvas,
    draw_shape,
    draw_text,
    relative_box,
    relative_point,
)
from vrldata.demo_data.question import Draws, Question, lettered
from vrldata.demo_data.video_questions import COLOUR_NAMES, WORDS


def picture_colour(draws: Draws) -> Question:
    """Which of four colours a square has."""
    index = draws.balanced(len(COLOUR_NAMES))
    shape = draws.shape(kind="square", colour=COLOUR_NAMES[index], size=40)
    picture = canvas()
    draw_shape(picture, shape, *draws.place(shape))
    return Question(
        problem="What colour is the square?",
        problem_type="multiple choice",
        options=lettered(COLOUR_NAMES),
        answer="ABCD"[index],
        thought=f"The square is {shape.colour}.",
        pictures=(picture,),
    )


def location(draws: Draws) -> Question:
    """The box of a shape, beside another one of a different kind."""
    wanted = draws.shape(size=2 * draws.random.randint(8, 18))
    other = draws.shape(kind=next(kind for kind in ("square", "circle") if kind != wanted.kind), size=20)
    picture = canvas()
    # one in the left half, one in the right half
    halves = [draws.random.randint(0, 24), draws.random.randint(64, 88)]
    draws.random.shuffle(halves)
    draw_shape(picture, other, halves[1], draws.place(other)[1])
    left, top = halves[0], draws.place(wanted)[1]
    draw_shape(picture, wanted, left, top)
    return Question(
        problem=f"Where is the {wanted.kind}?",
        problem_type="spatial grounding",
        answer=json.dumps({"boxes": relative_box(wanted, left, top)}),
        thought=f"The {wanted.kind} is {wanted.colour}.",
        pictures=(picture,),
    )


def mask(draws: Draws) -> Question:
    """The box of a circle with points on it and off it."""
    circle = draws.shape(kind="circle", size=2 * draws.random.randint(14, 24))
    left, top = draws.place(circle)
    picture = canvas()
    draw_shape(picture, circle, left, top)
    return Question(
        problem="Segment the circle.",
        problem_type="segmentation",
        answer=json.dumps(mask_answer(circle, left, top)),
        thought=f"The circle is {circle.colour}.",
        pictures=(picture,),
    )


def mask_answer(shape: Shape, left: int, top: int) -> dict[str, list[int] | list[list[int]]]:
    """Box, three points on a circle and three off it: its centre line, and corners of the picture."""
    half, quarter = shape.size / 2, shape.size / 4
    inside = [(left + half + step * quarter, top + half) for step in (-1, 0, 1)]
    outside = [(1, 1), (WIDTH - 2, 1), (WIDTH - 2, HEIGHT - 2)]
    return {
        "boxes": relative_box(shape, left, top),
        "positive_points": [relative_point(*point) for point in inside],
        "negative_points": [relative_point(*point) for point in outside],
    }


def picture_text(draws: Draws) -> Question:
    """A word and a number below it."""
    word, number = draws.random.choice(WORDS), draws.random.randint(10, 99)
    picture = canvas()
    draw_text(picture, word, scale=6, top=10)
    draw_text(picture, str(number), scale=6, top=54)
    return Question(
        problem="Which text is shown?",
        problem_type="ocr",
        answer=f"{word} {number}",
        thought="A word stands above a number.",
        pictures=(picture,),
    )


def shown_math(draws: Draws) -> Question:
    """A sum, a difference or a fraction that is shown."""
    kind = draws.balanced(3)
    first, second = draws.random.randint(2, 9), draws.random.randint(2, 9)
    if kind == 2:
        divisor = gcd(first, second)
        shown, problem = f"{first}/{second}", "Write the fraction that is shown in lowest terms."
        top, bottom = first // divisor, second // divisor
        answer = str(top) if bottom == 1 else f"$\\frac{{{top}}}{{{bottom}}}$"
    else:
        shown, problem = f"{first}{'+-'[kind]}{second}", "What is the value of the expression that is shown?"
        answer = f"${first + second if kind == 0 else first - second}$"
    picture = canvas()
    draw_text(picture, shown, scale=8)
    return Question(
        problem=problem,
        problem_type="math",
        answer=answer,
        thought=f"The picture shows {shown}.",
        pictures=(picture,),
    )


def arithmetic(draws: Draws) -> Question:
    """A product, asked in words: no media."""
    first, second = draws.random.randint(2, 9), draws.random.randint(2, 9)
    return Question(
        problem=f"What is {first} times {second}?",
        problem_type="mathematics",
        answer=str(first * second),
        thought=f"{first} times {second} makes {first * second}.",
    )


def svg(draws: Draws) -> Question:
    """The SVG source of a picture with a square and a circle."""
    square, circle = draws.shape(kind="square", size=32), draws.shape(kind="circle", size=32)
    square_x, circle_x = 2 * draws.random.randint(4, 12), 2 * draws.random.randint(36, 44)
    square_y, circle_y = draws.place(square)[1], draws.place(circle)[1]
    picture = canvas()
    draw_shape(picture, square, square_x, square_y)
    draw_shape(picture, circle, circle_x, circle_y)
    answer = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}">'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="{_hexadecimal(BACKGROUND)}"/>'
        f'<rect x="{square_x}" y="{square_y}" width="32" height="32" fill="{square.colour}"/>'
        f'<circle cx="{circle_x + 16}" cy="{circle_y + 16}" r="16" fill="{circle.colour}"/></svg>'
    )
    return Question(
        problem="Write the SVG source of this picture.",
        problem_type="svg_code",
        answer=answer,
        thought=f"A {square.name} and a {circle.name} on a dark ground.",
        pictures=(picture,),
    )


def html(draws: Draws) -> Question:
    """The HTML source of a page with a heading and a coloured box."""
    word = draws.random.choice(WORDS)
    box = draws.shape(kind="square", size=32)
    picture = canvas()
    draw_text(picture, word, scale=5, left=8, top=8)
    draw_shape(picture, box, 8, 48)
    answer = (
        f'<html><body style="background:{_hexadecimal(BACKGROUND)};color:{_hexadecimal(TEXT_COLOUR)}">'
        f'<h1>{word}</h1><div style="width:32px;height:32px;background:{box.colour}"></div></body></html>'
    )
    return Question(
        problem="Write the HTML source of this page.",
        problem_type="html_code",
        answer=answer,
        thought=f"A heading {word} above a {box.colour} box.",
        pictures=(picture,),
    )


def _hexadecimal(colour: tuple[int, int, int]) -> str:
    return "#" + "".join(f"{channel:02x}" for channel in colour)

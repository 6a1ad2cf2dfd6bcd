"""Contact sheets: pictures of samples with their frames, question, answer marks and responses, by Pillow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from PIL import Image, ImageDraw

from vrldata.answer_marks import AnswerMarks, Box, answer_marks
from vrldata.counts import counted
from vrldata.sheet_text import SheetFont, sheet_font

if TYPE_CHECKING:
    from vrldata.types import Clip, Sample, Trajectory

SHEET_WIDTH = 1200
MARGIN = 24
GAP = 8
FRAMES_IN_A_LINE = 4
LARGEST_FRAME_HEIGHT = 300
MARKED_SECONDS = 0.6
"""A box of one moment is drawn on the shown frame nearest to it, if that is not further away than this."""
SAME_MOMENT_SECONDS = 0.05

INK, FAINT, PAPER, RULE = "#1c2430", "#68758a", "#ffffff", "#d5dbe5"
ANSWER, WRONG, SPAN = "#0a8f4f", "#c02f2f", "#bfe8d2"


@dataclass(frozen=True, slots=True, kw_only=True)
class SheetItem:
    """What one sheet shows.

    Attributes:
        sample: None for a clip on its own.
        clips: with the frames to show only.
        trajectories: in the order to show; not all that there are.
        num_responses: trajectories of the sample in all, and of these scored and correct ones.
        trouble: why clips are missing; empty where none are.
    """

    sample: Sample | None
    clips: Sequence[Clip]
    trajectories: Sequence[Trajectory] = ()
    trouble: str = ""
    num_responses: int = 0
    num_scored: int = 0
    num_correct: int = 0

    @property
    def verdict(self) -> str:
        """`solved`, `unsolved`, `mixed`, or `unscored`, over all responses."""
        if not self.num_scored:
            return "unscored"
        return {0: "unsolved", self.num_scored: "solved"}.get(self.num_correct, "mixed")


def marks_of(item: SheetItem) -> AnswerMarks:
    """What the answer of the sample points at; nothing for a clip on its own."""
    if item.sample is None or not item.clips:
        return AnswerMarks()
    source = item.clips[0].metadata
    return answer_marks(item.sample, width=source.source_width, height=source.source_height)


def shown_options(options: Sequence[str]) -> list[str]:
    """Options with the letters that answers name them by.

    >>> shown_options(["circle", "square"]), shown_options(["(B) left", "(C) right"])
    (['A. circle', 'B. square'], ['(B) left', '(C) right'])
    """
    from vrldata.tasks.choices import letter_options, split_option

    own = [split_option(option)[0] for option in options]
    lettered = letter_options(options)
    if own == [letter for letter, _ in lettered]:
        return list(options)
    return [f"{letter}. {text}" for letter, text in lettered]


def contact_sheet(items: Sequence[SheetItem]) -> Image.Image:
    """One picture (RGB) of the items, one below the other."""
    sheets = [_sheet(item) for item in items]
    height = sum(sheet.height for sheet in sheets)
    whole = Image.new("RGB", (SHEET_WIDTH, max(height, 1)), PAPER)
    top = 0
    for sheet in sheets:
        whole.paste(sheet, (0, top))
        top += sheet.height
    return whole


def marked_frame(clip: Clip, index: int, marks: AnswerMarks, size: tuple[int, int]) -> Image.Image:
    """Frame `index` of a clip (RGB) with the boxes and points of the answer that belong to its moment.

    Args:
        size: (width, height) of the picture in pixels.
    """
    picture = Image.fromarray(clip.frames[index]).resize(size, Image.Resampling.BICUBIC)
    boxes = [*marks.boxes, *timed_boxes_of(clip, index, marks).values()]
    canvas = ImageDraw.Draw(picture)
    width, height = picture.size
    thick = max(2, round(min(width, height) / 120))
    for x1, y1, x2, y2 in boxes:
        corners = (x1 * (width - 1), y1 * (height - 1), x2 * (width - 1), y2 * (height - 1))
        canvas.rectangle(corners, outline="#ffffff", width=thick + 2)
        canvas.rectangle(corners, outline="#00d26a", width=thick)
    for x, y in marks.points if boxes or not marks.timed_boxes else ():
        radius = thick * 2
        place = (x * width - radius, y * height - radius, x * width + radius, y * height + radius)
        canvas.ellipse(place, fill="#00d26a", outline="#ffffff")
    return picture


def timed_boxes_of(clip: Clip, index: int, marks: AnswerMarks) -> dict[float, Box]:
    """The boxes with a time of their own that frame `index` is the nearest frame to, by that time."""
    shown = [float(time) for time in clip.metadata.timestamps]
    found = {}
    for time, box in marks.timed_boxes.items():
        nearest = min(range(len(shown)), key=lambda place: abs(shown[place] - time))
        if nearest == index and abs(shown[index] - time) <= MARKED_SECONDS:
            found[time] = box
    return found


def box_note(clip: Clip, index: int, marks: AnswerMarks) -> str:
    """Which moments the boxes on frame `index` belong to, where that is not the frame's own; else empty."""
    shown = float(clip.metadata.timestamps[index])
    others = [time for time in timed_boxes_of(clip, index, marks) if abs(time - shown) > SAME_MOMENT_SECONDS]
    return f"box of {', '.join(f'{time:g}' for time in others)} s" if others else ""


class _Page:
    """A strip of paper of fixed width on which parts are put one below the other."""

    def __init__(self) -> None:
        self.image = Image.new("RGB", (SHEET_WIDTH, 400), PAPER)
        self.canvas = ImageDraw.Draw(self.image)
        self.top = MARGIN

    def room(self, height: float) -> None:
        """Make sure that `height` more pixels fit."""
        needed = round(self.top + height + MARGIN)
        if needed > self.image.height:
            larger = Image.new("RGB", (SHEET_WIDTH, needed + 400), PAPER)
            larger.paste(self.image, (0, 0))
            self.image = larger
            self.canvas = ImageDraw.Draw(larger)

    def text(self, text: str, font: SheetFont, colour: str = INK, *, most: int = 12, indent: int = 0) -> None:
        """Put broken lines of text."""
        for line in font.lines(text, SHEET_WIDTH - 2 * MARGIN - indent, most=most):
            self.room(font.line_height)
            font.draw(self.canvas, (MARGIN + indent, self.top), line, colour)
            self.top += font.line_height

    def finished(self) -> Image.Image:
        """The paper cut to its content, with a rule at the end."""
        self.top += MARGIN // 2
        self.room(2)
        self.canvas.line((MARGIN, self.top, SHEET_WIDTH - MARGIN, self.top), fill=RULE, width=2)
        return self.image.crop((0, 0, SHEET_WIDTH, self.top + 2))


def _sheet(item: SheetItem) -> Image.Image:
    page = _Page()
    body, small = sheet_font(20), sheet_font(15)
    sample = item.sample
    if sample is not None:
        facts = [sample.sample_id, sample.problem_type, sample.split, sample.data_source]
        if sample.pass_rate is not None:
            facts.append(f"pass rate {sample.pass_rate:.2f}")
        page.text("  ·  ".join(fact for fact in facts if fact), small, FAINT, most=2)
        page.text(sample.problem, body)
        for option in shown_options(sample.options):
            page.text(option, body, most=3, indent=20)
        page.text(f"Answer: {sample.answer}", body, ANSWER, most=4)
        page.top += GAP
    marks = marks_of(item)
    for clip in item.clips:
        _put_clip(page, clip, marks, small)
    if item.trouble:
        page.text(item.trouble, small, WRONG, most=4)
    if item.num_responses:
        page.text(responses_facts(item), small, FAINT, most=1)
    for trajectory in item.trajectories:
        _put_trajectory(page, trajectory, small)
    return page.finished()


def _put_clip(page: _Page, clip: Clip, marks: AnswerMarks, font: SheetFont) -> None:
    meta = clip.metadata
    if clip.kind == "image":
        facts = f"{clip.video_path}  ·  {meta.width}×{meta.height}"
    else:
        length = f"{meta.duration:.2f} s at {meta.fps:.3g} fps"
        facts = f"{clip.video_path}  ·  {length}  ·  {meta.width}×{meta.height}"
    page.text(facts, font, FAINT, most=2)
    columns = min(FRAMES_IN_A_LINE, len(clip.frames))
    width = (SHEET_WIDTH - 2 * MARGIN - GAP * (FRAMES_IN_A_LINE - 1)) // FRAMES_IN_A_LINE
    if columns == 1:
        width = width * 2 + GAP
    scale = min(width / meta.width, LARGEST_FRAME_HEIGHT * (2 if columns == 1 else 1) / meta.height)
    size = (max(1, round(meta.width * scale)), max(1, round(meta.height * scale)))
    for first in range(0, len(clip.frames), FRAMES_IN_A_LINE):
        page.room(size[1] + font.line_height + GAP)
        for column, index in enumerate(range(first, min(first + FRAMES_IN_A_LINE, len(clip.frames)))):
            left = MARGIN + column * (width + GAP)
            page.image.paste(marked_frame(clip, index, marks, size), (left, page.top))
            if clip.kind == "image":
                continue
            time = float(meta.timestamps[index])
            inside = any(start <= time <= end for start, end in marks.spans)
            if inside:
                corners = (left, page.top, left + size[0] - 1, page.top + size[1] - 1)
                page.canvas.rectangle(corners, outline=ANSWER, width=4)
            note = box_note(clip, index, marks)
            label = f"{time:.2f} s  #{int(meta.frame_indices[index])}" + (f"  {note}" if note else "")
            font.draw(page.canvas, (left, page.top + size[1] + 2), label, ANSWER if inside else FAINT)
        page.top += size[1] + font.line_height + GAP
    if clip.kind != "image" and marks.spans:
        _put_timeline(page, clip, marks, font)


def _put_timeline(page: _Page, clip: Clip, marks: AnswerMarks, font: SheetFont) -> None:
    """A bar of the whole video with the spans of the answer and a tick for every shown frame."""
    duration = max(clip.metadata.duration, *(end for _, end in marks.spans), 1e-6)
    left, right, height = MARGIN, SHEET_WIDTH - MARGIN, 14
    page.room(height + font.line_height + GAP)

    def place(time: float) -> float:
        return left + (right - left) * min(max(time / duration, 0.0), 1.0)

    page.canvas.rectangle((left, page.top, right, page.top + height), fill="#eef1f6")
    for start, end in marks.spans:
        page.canvas.rectangle(
            (place(start), page.top, place(end), page.top + height), fill=SPAN, outline=ANSWER, width=2
        )
    for time in clip.metadata.timestamps:
        x = place(float(time))
        page.canvas.line((x, page.top + height - 5, x, page.top + height), fill=INK, width=2)
    listed = ", ".join(f"{start:.2f}–{end:.2f} s" for start, end in marks.spans)
    font.draw(page.canvas, (left, page.top + height + 2), f"{listed} of {duration:.2f} s", ANSWER)
    page.top += height + font.line_height + GAP


def _put_trajectory(page: _Page, trajectory: Trajectory, font: SheetFont) -> None:
    page.top += GAP // 2
    page.text(trajectory_facts(trajectory), font, _verdict_colour(trajectory), most=2)
    page.text(trajectory.response, font, most=5, indent=20)


def _verdict_colour(trajectory: Trajectory) -> str:
    return FAINT if trajectory.correct is None else ANSWER if trajectory.correct else WRONG


def responses_facts(item: SheetItem) -> str:
    """One line: how many responses there are, scored, correct and shown."""
    shown = f", best {len(item.trajectories)} shown" if item.num_responses > len(item.trajectories) else ""
    correct = f"{item.num_correct} of {item.num_scored} scored correct"
    return f"{counted(item.num_responses, 'response')}, {correct}{shown}"


def trajectory_facts(trajectory: Trajectory) -> str:
    """One line: verdict, reward and its parts, where the response comes from."""
    verdict = {True: "correct", False: "wrong", None: "not scored"}[trajectory.correct]
    facts: list[Any] = [verdict]
    if trajectory.reward is not None:
        facts.append(f"reward {trajectory.reward:.3f}")
    facts += [f"{name} {value:.3g}" for name, value in sorted(trajectory.rewards.items())]
    origin = [trajectory.source, trajectory.model, trajectory.run_id]
    if trajectory.source == "rollout":
        origin.append(f"step {trajectory.step}")
    return "  ·  ".join([*facts, " ".join(part for part in origin if part)])

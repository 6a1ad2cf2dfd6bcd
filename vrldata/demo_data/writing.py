"""`write_demo_data`: generate questions, write their media, and write the annotation files.

What is asked lies in `video_questions` and `image_questions`; this module numbers, splits and stores.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vrldata.demo_data import image_questions, video_questions
from vrldata.demo_data.drawing import HEIGHT, WIDTH
from vrldata.demo_data.media import FPS, video_library, write_picture, write_text, write_video
from vrldata.demo_data.question import Draws, Question
from vrldata.errors import ConfigError, nearest
from vrldata.log import progress

TASKS: dict[str, Callable[[Draws], Question]] = {
    "colour": video_questions.colour,
    "direction": video_questions.direction,
    "counting": video_questions.counting,
    "event": video_questions.event,
    "location": image_questions.location,
    "text": video_questions.text,
    "presence": video_questions.presence,
    "duration": video_questions.duration,
    "description": video_questions.description,
    "math": image_questions.shown_math,
    "tracking": video_questions.tracking,
    "tube": video_questions.tube,
    "mask": image_questions.mask,
    "svg": image_questions.svg,
    "html": image_questions.html,
    "function": video_questions.function,
    "preference": video_questions.preference,
    "order": video_questions.order,
    "motion-order": video_questions.motion_order,
    "number": video_questions.number,
    "caption": video_questions.caption,
    "window": video_questions.window,
    "compare": video_questions.compare,
    "appearance": video_questions.appearance,
    "picture-colour": image_questions.picture_colour,
    "picture-text": image_questions.picture_text,
    "arithmetic": image_questions.arithmetic,
}
"""Task to its generator; rows carry `data_source = demo/<task>`. The first 17 cover every problem type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoReport:
    """What was written.

    Attributes:
        out: the folder, which is also the video root of the annotation files.
        changed: media and text files that were not there before, or were different.
        tasks: number of questions by `data_source`.
    """

    out: Path
    train: int
    val: int
    videos: int
    images: int
    trajectories: int
    changed: int
    tasks: Mapping[str, int]


def write_demo_data(
    out: str | Path, *, count: int = 48, seed: int = 0, tasks: Sequence[str] = ()
) -> DemoReport:
    """Write generated questions with their clips and images.

    `out` receives `videos/*.mp4` (H.264, 128 x 96, 8 frames per second, 2 to 8 s), `images/*.png`,
    `train.jsonl`, `val.jsonl` and `README.md`. The same arguments and library versions give the same bytes.

    Args:
        out: folder; made when missing.
        count: number of questions, dealt out evenly over the tasks. From 17 on every problem type appears.
        seed: another seed gives other questions.
        tasks: names of `TASKS`; empty for all.

    Raises:
        ConfigError: `count` is not positive, an unknown task, or `out` cannot be written.
        MissingExtraError: PyAV is not installed.
    """
    names = _checked_tasks(tasks)
    if count < 1:
        raise ConfigError(f"count: expected at least 1 question, found {count}")
    video_library()
    folder = Path(out).expanduser()
    try:
        for part in ("videos", "images"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        return _write(folder, names, count, seed)
    except OSError as error:
        raise ConfigError(f"{folder}: cannot write the demo data there: {error}") from error


def _checked_tasks(tasks: Sequence[str]) -> list[str]:
    for name in tasks:
        if name not in TASKS:
            raise ConfigError(f"unknown demo task {name!r}.{nearest(name, TASKS)} Known: {', '.join(TASKS)}")
    return list(dict.fromkeys(tasks)) or list(TASKS)


def _write(folder: Path, names: Sequence[str], count: int, seed: int) -> DemoReport:
    rows: dict[str, list[dict[str, Any]]] = {"train": [], "val": []}
    totals: Counter[str] = Counter()
    with progress("demo data", total=count, unit="questions") as bar:
        for position in range(count):
            round_, place = divmod(position, len(names))
            task = names[place]
            question = TASKS[task](Draws(seed, task, round_))
            videos, images, changed = _write_media(folder, f"{task}-{round_:04d}", question)
            totals.update(videos=len(videos), images=len(images), changed=changed)
            # every fourth question of a task is held out; tasks take turns: few questions give both splits
            split = "val" if (round_ + place) % 4 == 1 else "train"
            row = _row(question, f"demo-{task}-{round_:04d}", task, split)
            row |= {"videos": videos} if videos else {}
            row |= {"images": images} if images else {}
            row |= _learning_fields(question, round_, split, seed, task)
            rows[split].append(row)
            bar.advance()
    for split, lines in rows.items():
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in lines)
        totals["changed"] += write_text(folder / f"{split}.jsonl", text)
    report = DemoReport(
        out=folder,
        train=len(rows["train"]),
        val=len(rows["val"]),
        videos=totals["videos"],
        images=totals["images"],
        trajectories=sum(row.get("has_offline_trajectory", False) for row in rows["train"]),
        changed=totals["changed"],
        tasks=Counter(row["data_source"] for lines in rows.values() for row in lines),
    )
    write_text(folder / "README.md", _readme(report, names, seed))
    return report


def _write_media(folder: Path, name: str, question: Question) -> tuple[list[str], list[str], int]:
    """Write a question's files; returns their paths relative to `folder` and how many changed."""
    videos, images, changed = [], [], 0
    for index, frames in enumerate(question.clips):
        path = f"videos/{name}{chr(97 + index) if len(question.clips) > 1 else ''}.mp4"
        changed += write_video(folder / path, frames)
        videos.append(path)
    for picture in question.pictures:
        path = f"images/{name}.png"
        changed += write_picture(folder / path, picture)
        images.append(path)
    return videos, images, changed


def _row(question: Question, problem_id: str, task: str, split: str) -> dict[str, Any]:
    data_type = "video" if question.clips else "image" if question.pictures else "text"
    return {
        "problem_id": problem_id,
        "problem": question.problem,
        "data_type": data_type,
        "problem_type": question.problem_type,
        "options": list(question.options),
        "solution": f"<answer>{question.answer}</answer>",
        "data_source": f"demo/{task}",
        "split": split,
        **question.fields,
    }


def _learning_fields(question: Question, round_: int, split: str, seed: int, task: str) -> dict[str, Any]:
    """An offline trajectory for every third training question, a pass rate for every fourth."""
    if split != "train":
        return {}
    fields: dict[str, Any] = {"has_offline_trajectory": round_ % 3 == 0}
    if round_ % 3 == 0:
        fields["offline_output"] = f"<think>{question.thought}</think>\n<answer>{question.answer}</answer>"
    if round_ % 4 == 2:
        fields["pass_rate"] = Draws(seed, f"{task}/pass-rate", round_).random.randint(0, 8) / 8
    return fields


def _readme(report: DemoReport, names: Sequence[str], seed: int) -> str:
    lines = [
        "# Generated questions with known answers",
        "",
        f"{report.train} training and {report.val} validation questions, seed {seed}, in `train.jsonl` and",
        f"`val.jsonl`; {report.videos} clips ({WIDTH}x{HEIGHT}, {FPS} frames per second, H.264) and"
        f" {report.images} images.",
        "Media paths are relative to this folder:",
        "`vrldata build train.jsonl val.jsonl --video-root . --out ROOT`.",
        "",
        "Answers follow from how each picture was drawn. Boxes and points are thousandths of width and",
        "height; times are seconds, events start and end on half seconds. Multiple-choice options keep one",
        "order, with the answers balanced over the letters. Every third training question carries an offline",
        "trajectory that ends in the right answer; some carry a made-up pass rate.",
        "",
        "| data_source | questions | asks |",
        "|---|---|---|",
    ]
    for name in names:
        asks = (TASKS[name].__doc__ or "").strip().splitlines()[0]
        lines.append(f"| demo/{name} | {report.tasks.get(f'demo/{name}', 0)} | {asks} |")
    return "\n".join(lines) + "\n"

"""One annotation row of a benchmark as a question: fields, options, answer, media, window, groups.

Rows come in the layout of EasyVideoR1 (`problem`, `solution`, `path`, ...) or in the benchmark's own, whose
columns `benchmarks.toml` maps. Nothing here knows a benchmark by name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from vrldata import tasks
from vrldata.errors import BenchmarkError, TaskError
from vrldata.sampling import normalise_video_path
from vrldata.tasks.choices import split_option
from vrldata.tasks.registry import ORIGINAL_TYPE, is_known, resolved_type, unknown_text
from vrldata.types import Sample
from vrleval.annotation_files import FILE_FIELD
from vrleval.keys import question_key
from vrleval.types import Benchmark, Question

Row = dict[str, Any]

FIELDS = ("problem", "answer", "options", "problem_type", "video", "image", "start", "end", "id")
"""Fields of a row after mapping; everything else keeps its name."""

SKIPPED = "on_unknown_type: skip"
"""How the reason of a row begins that was left out on purpose."""

_EASYVIDEOR1 = {
    "problem": "problem",
    "answer": "solution",
    "video": "path",
    "image": "image_path",
    "id": "problem_id",
}
_ANSWER_TAG = re.compile(r"<answer>(.*?)</answer>", re.IGNORECASE | re.DOTALL)
_LISTED_OPTION = re.compile(r"^[ \t]*(?:\(([A-Z])\)|([A-Z])[.:)])[ \t]*(.*)$")
_VIDEO_ENDINGS = (".mp4", ".MP4", ".mkv", ".webm", ".avi", ".mov")


def mapped(row: Mapping[str, Any], benchmark: Benchmark) -> Row:
    """The row with the names of `FIELDS`, from either layout. A `{column}` in a mapping is filled in."""
    names = _EASYVIDEOR1 if "problem" in row and "solution" in row else benchmark.fields
    result: Row = dict(row)
    for field, column in names.items():
        value = _mapped_value(row, column)
        if value is not None:
            result[field] = unwrapped(value) if field == "answer" and isinstance(value, str) else value
    return result


def _mapped_value(row: Mapping[str, Any], column: str) -> Any:
    if "{" in column:
        try:
            return column.format_map(row)
        except (KeyError, IndexError, ValueError):
            return None
    if column.endswith("*"):
        prefix = column[:-1]
        numbered = sorted(
            (name for name in row if name.startswith(prefix) and name[len(prefix) :].isdigit()),
            key=lambda name: int(name[len(prefix) :]),
        )
        return [row[name] for name in numbered if str(row[name]) not in ("N/A", "None", "")] or None
    return row.get(column)


def with_options(row: Row) -> Row:
    """The row with `options` as texts that carry their letters, and `answer` as a letter where it can be.

    Options may be a list, a mapping of letters, one text with a line each, or stand inside the question. An
    answer may be a letter, a position from 0, or the text of one option.
    """
    options = option_list(row.get("options"))
    if not options and _is_choice(row):
        question, options = split_listed_options(str(row.get("problem", "")))
        if options:
            row["problem"] = question
    row["options"] = [_with_letter(option, index) for index, option in enumerate(options)]
    row["answer"] = choice_answer(row.get("answer"), row["options"])
    return row


def _is_choice(row: Mapping[str, Any]) -> bool:
    try:
        return tasks.canonical_type(str(row.get("problem_type") or "multiple choice")) == "multiple_choice"
    except TaskError:
        return False


def option_list(value: Any) -> list[str]:
    """Options as a list of texts.

    >>> option_list({"A": "saw", "B": "drill"})
    ['A. saw', 'B. drill']
    >>> option_list("A. saw\\nB. drill")
    ['A. saw', 'B. drill']
    """
    if isinstance(value, str):
        text = value.strip()
        if text.startswith(("[", "{")):
            try:
                return option_list(json.loads(text))
            except ValueError:
                pass
        return [line.strip() for line in text.splitlines() if line.strip()]
    if isinstance(value, Mapping):
        return [f"{letter}. {text}" for letter, text in value.items() if text is not None]
    if isinstance(value, Sequence):
        return [str(item).strip() for item in value if item is not None]
    return []


def _with_letter(option: str, index: int) -> str:
    letter, _ = split_option(option)
    return option if letter is not None else f"{chr(65 + index)}. {option}"


def split_listed_options(text: str) -> tuple[str, list[str]]:
    """A question and the options that are listed line by line at its end, A first and none left out.

    >>> split_listed_options("What is used?\\n(A) saw\\n(B) drill")
    ('What is used?', ['A. saw', 'B. drill'])
    """
    lines = text.splitlines()
    for start, line in enumerate(lines):
        match = _LISTED_OPTION.match(line)
        if match is None or (match[1] or match[2]) != "A":
            continue
        options: list[str] = []
        for following in lines[start:]:
            match = _LISTED_OPTION.match(following)
            if match and (match[1] or match[2]) == chr(65 + len(options)):
                options.append(f"{match[1] or match[2]}. {match[3].strip()}")
            elif options and following.strip() and not match:
                options[-1] = f"{options[-1]} {following.strip()}"
        if len(options) > 1:
            return "\n".join(lines[:start]).strip(), options
    return text, []


def choice_answer(value: Any, options: Sequence[str]) -> Any:
    """The answer as a letter of `options`: given as one, as a position, or as a text; else unchanged."""
    if isinstance(value, str):
        value = unwrapped(value)
    if not options or value is None:
        return value
    pairs = [split_option(option) for option in options]
    letters = [letter for letter, _ in pairs]
    if isinstance(value, int) and not isinstance(value, bool):
        return letters[value] if 0 <= value < len(letters) else value
    text = str(value).strip()
    named, _ = split_option(text)
    if text in letters:
        return text
    if named in letters and any(text == option.strip() for option in options):
        return named
    same = [letter for letter, own in pairs if own.strip().casefold() == text.casefold()]
    if len(same) == 1:
        return same[0]
    bare = text.strip("().: ")
    return bare if bare in letters else value


def unwrapped(answer: str) -> str:
    """The content of an answer tag; the text itself without one.

    >>> unwrapped("<answer>B</answer>")
    'B'
    """
    match = _ANSWER_TAG.search(answer)
    return match[1].strip() if match else answer.strip()


def question_of(
    row: Row, number: int, benchmark: Benchmark, data_root: Path, on_unknown_type: str = "error"
) -> tuple[Question | None, str]:
    """The question of a mapped row, and why there is none.

    A missing video or an unreadable answer does not reject a row: the question is asked for in vain and
    counts as wrong, with its reason.
    """
    row = with_options(row)
    problem_type = str(row.get("problem_type") or "multiple choice")
    try:
        canonical = resolved_type(problem_type, on_unknown_type)
    except TaskError as error:
        return None, str(error)
    if canonical is None:
        return None, f"{SKIPPED}: {unknown_text(problem_type)}"
    if not str(row.get("problem") or "").strip() and canonical != "open_ended":
        return None, "field 'problem': empty; the row asks nothing"
    fault = options_fault(row["options"])
    if fault:
        return None, fault
    videos, images, missing = _media(row, benchmark, data_root)
    if not videos and not images:
        return None, f"no video: field {benchmark.fields.get('video', 'path')!r} is empty"
    answer = row.get("answer")
    sample = Sample(
        sample_id=str(row.get("id", number)),
        problem=str(row.get("problem") or "Describe the video."),
        answer=answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False),
        problem_type=canonical,
        split="test",
        data_type="video" if videos else "image",
        options=tuple(row["options"]),
        videos=videos,
        images=images,
        start=_seconds(row.get("start")),
        end=_seconds(row.get("end")),
        data_source=benchmark.name,
        extra=_extra(row, benchmark, data_root)
        | ({} if is_known(problem_type) else {ORIGINAL_TYPE: problem_type}),
    )
    problem = f"media: {missing}" if missing else ""
    if not problem:
        unreadable = tasks.check_answer(canonical, sample.answer, list(sample.options) or None)
        problem = f"answer: {unreadable}" if unreadable else ""
    return Question(
        key=question_key(benchmark.name, number, sample),
        benchmark=benchmark.name,
        sample=sample,
        groups=group_values(row, benchmark),
        unit=str(row.get("unit") or ""),
        problem=problem,
    ), ""


def options_fault(options: Sequence[str]) -> str:
    """What makes options no choice: letters twice, nothing but empty texts, or a single one. Empty if sound.

    >>> options_fault(["A. saw", "B. drill", "B. file"])
    "field 'options': B stands twice"
    """
    pairs = [split_option(option) for option in options]
    letters = [letter for letter, _ in pairs]
    twice = sorted({str(letter) for letter in letters if letters.count(letter) > 1})
    if twice:
        return f"field 'options': {', '.join(twice)} stands twice"
    if len(pairs) == 1:
        return "field 'options': a single option leaves nothing to choose"
    if pairs and not any(text.strip() for _, text in pairs):
        return "field 'options': all are empty"
    return ""


def group_values(row: Mapping[str, Any], benchmark: Benchmark) -> dict[str, str]:
    """Values of the benchmark's group fields, as text; several of one field joined by ` | `."""
    values: dict[str, str] = {}
    for field in benchmark.groups:
        value = row.get(field)
        if isinstance(value, list | tuple):
            value = " | ".join(str(item) for item in value)
        if value not in (None, ""):
            values[field] = str(value)
    return values


def _extra(row: Mapping[str, Any], benchmark: Benchmark, data_root: Path) -> dict[str, Any]:
    extra = {
        name: value
        for name, value in row.items()
        if name not in FIELDS
        and name != FILE_FIELD
        and isinstance(value, str | int | float | bool | list | dict)
    }
    if benchmark.subtitles:
        name = _mapped_value(row, benchmark.subtitles)
        for base in ("", benchmark.name, *benchmark.videos):
            if name and _inside(name) and (data_root / base / name).is_file():
                extra["subtitle_file"] = str(data_root / base / name)
                break
    return extra


def _seconds(value: Any) -> float | None:
    try:
        return None if value in (None, "") else float(value)
    except (TypeError, ValueError):
        return None


def _media(
    row: Mapping[str, Any], benchmark: Benchmark, data_root: Path
) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    """Paths of videos and images under the root, and why one of them is missing."""
    missing = ""
    found: dict[str, list[str]] = {"video": [], "image": []}
    for kind, paths in found.items():
        value = row.get(kind)
        for given in value if isinstance(value, list) else [value]:
            if not given or not isinstance(given, str):
                continue
            try:
                path = locate(given, benchmark, data_root)
            except BenchmarkError as error:
                missing, path = str(error), normalise_video_path(given)
            paths.append(path)
    return tuple(found["video"]), tuple(found["image"]), missing


def locate(given: str, benchmark: Benchmark, data_root: Path) -> str:
    """The path of a file relative to the root, which several folders and endings are tried for.

    Raises:
        BenchmarkError: no such file, or a path that leads out of the root.
    """
    if not _inside(given):
        raise BenchmarkError(f"{given!r} leads out of the data root; nothing outside it is read")
    relative = PurePosixPath(normalise_video_path(given))
    bases = [*benchmark.videos, benchmark.name, ""]
    names = [relative, *(relative.with_suffix(ending) for ending in _VIDEO_ENDINGS if relative.suffix)]
    names += [relative.with_name(relative.name + ending) for ending in _VIDEO_ENDINGS]
    for base in bases:
        for name in names:
            if (data_root / base / name).is_file():
                return str(PurePosixPath(base) / name)
    tried = ", ".join(str(data_root / base) for base in bases[:2])
    raise BenchmarkError(f"no file {given!r} under {tried} or the root")


def _inside(path: str) -> bool:
    parts = PurePosixPath(path.replace("\\", "/"))
    return not parts.is_absolute() and ".." not in parts.parts

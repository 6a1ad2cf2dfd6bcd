"""TempCompass: four formats of asking about time, each with its own rule; the headline is their mean.

Liu et al. 2024. Captions are judged through a question that a language model answers from the caption
alone, so captioning rows wait for a judge.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from vrldata.tasks.conclusions import concluding_statements, sentence
from vrldata.types import Score
from vrleval.aggregate import split_by, units_of
from vrleval.intervals import Unit
from vrleval.types import Prediction, Question

if TYPE_CHECKING:
    from vrleval.aggregate import Rule
    from vrleval.rows import Row

FORMATS = ("multi-choice", "yes_no", "caption_matching", "captioning")

_LABELLED = re.compile(r"^\s*((?:caption|sentence|option)\s+([A-Z0-9]))\s*[:.]\s*(.+?)\s*$", re.IGNORECASE)
_TAG = re.compile(r"<answer>(.*?)</answer>", re.IGNORECASE | re.DOTALL)


def prepare(rows: list[Row]) -> list[Row]:
    """Rows with their format (from the file's name where no column has it) and its problem type.

    Rows of EasyVideoR1, all of them recast as choices, keep `multi-choice`.
    """
    for row in rows:
        form = str(row.get("format") or _format_of(row))
        row["format"] = form
        if row.get("dim"):
            row["format and dim"] = f"{form}, {row['dim']}"
        if form == "yes_no":
            row.update(problem_type="boolean", options=[])
        elif form in ("caption_matching", "captioning"):
            row.update(problem_type="open-ended", options=[])
        if form == "captioning" and row.get("mc_question"):
            # the caption is judged by whether it answers this question
            row["judge_problem"], row["answer"] = row["mc_question"], row.get("mc_answer")
        if not str(row.get("video", "")).strip() and row.get("video_id"):
            row["video"] = f"videos/{row['video_id']}.mp4"
    return rows


def _format_of(row: Row) -> str:
    place = PurePosixPath(str(row.get("_file", "")))
    name = f"{place.parent.name}/{place.stem}"
    return next((form for form in reversed(FORMATS) if form in name), FORMATS[0])


def one_format(name: str) -> Rule:
    """The rule of one format alone."""

    def rule(predictions: Sequence[Prediction]) -> list[Unit]:
        return units_of(split_by(predictions, "format").get(name, []))

    return rule


def score(question: Question, response: str) -> Score | None:
    """Caption matching: the right option's whole line, its sentence or its label, alone or as the conclusion.

    None for the other formats, whose problem types have rules of their own.
    """
    if question.sample.extra.get("format") != "caption_matching":
        return None
    text = _final(response)
    options = [match for line in question.sample.problem.splitlines() if (match := _LABELLED.match(line))]
    said = [_plain(text), *(_plain(sentence(one)) for one in concluding_statements(text)[:4])]
    letters = ({match[2].upper() for match in options if one in _forms(match)} for one in said)
    named: set[str] = next(filter(None, letters), set())
    gold = _LABELLED.match(question.sample.answer)
    if gold is None:
        return Score(accuracy=None, format=0.0, overall=None, status="bad_ground_truth", reason="no label")
    if not text.strip():
        return _scored(0.0, "empty", "")
    if len(named) > 1:
        return _scored(0.0, "ambiguous", text)
    if not named:
        return _scored(0.0, "unparsed", text)
    return _scored(float(named == {gold[2].upper()}), "scored", text)


def _forms(match: re.Match[str]) -> set[str]:
    """What names an option: line, sentence, label, or the label's letter, alone or before the sentence."""
    label, letter, text = match[1], match[2], match[3]
    lettered = (f"{dress} {text}" for dress in (f"{letter}.", f"{letter}:", f"{letter})", f"({letter})"))
    return {_plain(form) for form in (match[0], text, label, letter, f"({letter})", *lettered)}


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).strip("*\"' .")


def _final(response: str) -> str:
    after = re.split(r"</think>", response, flags=re.IGNORECASE)[-1]
    tags = _TAG.findall(after)
    return str(tags[-1] if tags else after).strip()


def _scored(accuracy: float, status: str, text: str) -> Score:
    return Score(
        accuracy=accuracy,
        format=1.0,
        overall=accuracy,
        status=status,
        extracted=text[:200],
        how="tempcompass",
        strict=accuracy,
    )

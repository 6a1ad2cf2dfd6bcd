"""Layouts that several benchmarks share: nested questions, labels in file names or paths."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vrleval.rows import Row

DISCIPLINES = {
    "Science": (
        "Astronomy",
        "Biology",
        "Chemistry",
        "Electromagnetism",
        "Geography",
        "Materials",
        "Mechanics",
        "Neurobiology",
        "Physics",
        "Thermodynamics",
    ),
    "Engineering": ("Engineering", "Computer", "Electronics", "Architecture", "Agriculture"),
    "Healthcare": ("Medicine", "Dentistry", "Pharmacy", "Nursing", "Public_Health"),
    "Humanities & Social Science": (
        "Art",
        "Economics",
        "History",
        "Law",
        "Literature",
        "Management",
        "Politics",
        "Sociology",
    ),
}
"""Field to words in the names of its disciplines; the folder of a video is its discipline."""


def one_row_a_question(rows: list[Row]) -> list[Row]:
    """Videos with a list `qa` become a row for each question; an answer `NA` is hidden and left out."""
    result: list[Row] = []
    for row in rows:
        if not isinstance(row.get("qa"), list):
            result.append(row)
            continue
        shared = {name: value for name, value in row.items() if name != "qa"}
        for own in row["qa"]:
            if str(own.get("answer", "")).strip().upper() == "NA":
                continue
            merged = {**shared, **own, "id": own.get("uid", own.get("id")), "problem": own.get("question")}
            result.append({**merged, "video": shared.get("video") or f"{shared.get('key')}.mp4"})
    return result


def task_from_file_name(rows: list[Row]) -> list[Row]:
    """The task of a row: its own label, else the name of a per-task file such as `4_count.json`."""
    for row in rows:
        label = row.get("task_type") or row.get("question_type")
        stem = PurePosixPath(str(row.get("annotation_file", ""))).stem
        numbered = re.fullmatch(r"\d+_(\w+)", stem)
        if label or numbered:
            row["task_type"] = str(label or (numbered[1] if numbered else ""))
    return rows


def choice_or_open(rows: list[Row]) -> list[Row]:
    """Rows that say by a flag whether they offer choices (`multiple-choice`) get a problem type.

    Those that say how long their video is get one of the lengths that VCR-Bench reports.
    """
    for row in rows:
        if group := _duration_group(row.get("duration")):
            row["duration_group"] = group
        if "multiple-choice" in row and "problem_type" not in row:
            row["problem_type"] = "multiple choice" if row["multiple-choice"] else "open-ended"
    return rows


def _duration_group(duration: object) -> str:
    try:
        seconds = float(str(duration))
    except ValueError:
        return ""
    return next((f"up to {limit} s" for limit in (60, 300) if seconds <= limit), "over 300 s")


def discipline_from_path(rows: list[Row]) -> list[Row]:
    """Discipline and field from the folder of the video; problem type from `question_type`."""
    for row in rows:
        parts = PurePosixPath(str(row.get("video", ""))).parts
        if len(parts) > 1:
            row["discipline"] = parts[-2]
            row["field"] = field_of(parts[-2])
        if "problem_type" not in row and row.get("question_type"):
            row["problem_type"] = str(row["question_type"]).replace("-", " ")
        if "open" in str(row.get("problem_type", "")):
            row["options"] = []
    return rows


def field_of(discipline: str) -> str:
    """The field of a discipline; empty when it is not known.

    >>> field_of("Mechanical_Engineering"), field_of("Clinical_Medicine"), field_of("Alchemy")
    ('Engineering', 'Healthcare', '')
    """
    for field, words in DISCIPLINES.items():
        if any(word.casefold() in discipline.casefold() for word in words):
            return field
    return ""

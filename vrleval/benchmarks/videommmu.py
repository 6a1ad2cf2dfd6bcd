"""Video-MMMU: three tracks of 300 questions, and the gain of knowledge from having seen the video."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from vrldata.errors import BenchmarkError

if TYPE_CHECKING:
    from vrleval.rows import Row

TRACKS = ("Adaptation", "Comprehension", "Perception")
"""In the order of EasyVideoR1's file, 300 rows each."""
ROWS_PER_TRACK = 300

DISCIPLINES = {
    "Art": "Art Art_Theory Design Music",
    "Business": "Accounting Economics Finance Manage Marketing",
    "Science": "Biology Chemistry Geography Math Physics",
    "Medicine": "Basic_Medical_Science Clinical_Medicine Diagnostics_and_Laboratory_Medicine Pharmacy "
    "Public_Health",
    "Humanities": "History Literature Psychology Sociology",
    "Engineering": "Agriculture Architecture_and_Engineering Computer_Science Electronics Energy_and_Power "
    "Materials Mechanical_Engineering",
}
"""The six disciplines and their subjects, as the ids of the questions name them (Yue et al. 2024, MMMU)."""

NOTE_IMAGE = "The image of the question follows the video."
NOTE_QUIZ = "Ignore the quiz that the last frames of the video may show."


def prepare(rows: list[Row]) -> list[Row]:
    """Rows with their track, discipline, problem type and the note that their track needs."""
    named = [_track_in_name(row) for row in rows]
    complete = len(rows) == ROWS_PER_TRACK * len(TRACKS)
    for index, row in enumerate(rows):
        track = named[index] or (TRACKS[index // ROWS_PER_TRACK] if complete else None)
        track = track or ("Adaptation" if row.get("image") else None)
        if track:
            row["track"] = track
        parts = str(row.get("id", "")).split("_")
        if len(parts) > 2:
            row["subject"] = "_".join(parts[1:-1])
            row["discipline"] = discipline_of(row["subject"])
        note = NOTE_IMAGE if row.get("image") else NOTE_QUIZ if track in TRACKS[1:] else ""
        problem = str(row.get("problem", "")).replace("<image 1>", "the image").strip()
        row["problem"] = f"{note}\n{problem}" if note else problem
        if not row.get("options") and not row.get("problem_type"):
            row["problem_type"] = "numerical" if _is_number(row.get("answer")) else "open-ended"
    return rows


def discipline_of(subject: str) -> str:
    """The discipline of a subject; empty when it is not known.

    >>> discipline_of("Clinical_Medicine")
    'Medicine'
    """
    return next((name for name, subjects in DISCIPLINES.items() if subject in subjects.split()), "")


def _track_in_name(row: Row) -> str | None:
    place = f"{row.get('_file', '')}/{row.get('track', '')}".casefold()
    parts = set(PurePosixPath(place).parts) | {PurePosixPath(place).stem}
    return next((track for track in TRACKS if any(track.casefold() in part for part in parts)), None)


def _is_number(value: object) -> bool:
    try:
        float(str(value).replace(",", ""))
    except ValueError:
        return False
    return True


def delta_knowledge(acc_before: float, acc_after: float) -> float:
    """Gain of knowledge in percent: (after - before) / (100 - before) x 100 (Hu et al. 2025, Video-MMMU).

    Args:
        acc_before: accuracy in percent on the Adaptation questions without the video.
        acc_after: the same after the video.

    Raises:
        BenchmarkError: everything was right before, so that nothing could be learnt.
    """
    if acc_before >= 100:
        raise BenchmarkError(
            "delta knowledge: every answer was right before the video; the gain is undefined"
        )
    return (acc_after - acc_before) / (100 - acc_before) * 100

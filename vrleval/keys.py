"""The identity of a question: benchmark, row and content, so that repeated ids of a data set do no harm."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from vrldata.types import Sample
from vrleval.types import Question


def question_key(benchmark: str, row: int, sample: Sample) -> str:
    """Hex digest (32 digits) of everything that a response depends on but the model.

    The row number keeps exact duplicates apart.
    """
    content = [
        benchmark,
        row,
        sample.problem,
        sample.answer,
        sample.problem_type,
        list(sample.options),
        list(sample.videos),
        list(sample.images),
        sample.start,
        sample.end,
        list(sample.clip_ids),
    ]
    text = json.dumps(content, ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def draw(questions: Sequence[Question], max_samples: int | None, seed: int) -> list[Question]:
    """A random part of about `max_samples` questions, the same for the same seed, in their old order.

    Questions that are scored together are drawn together. A larger part holds every question of a smaller
    one, so that a run can be extended.
    """
    if max_samples is None or max_samples >= len(questions):
        return list(questions)
    units: dict[str, list[str]] = {}
    for question in questions:
        units.setdefault(question.unit or question.key, []).append(question.key)
    ranked = sorted(units, key=lambda unit: hashlib.sha256(f"{seed}:{unit}".encode()).digest())
    chosen: set[str] = set()
    for unit in ranked:
        if len(chosen) >= max_samples:
            break
        chosen.update(units[unit])
    return [question for question in questions if question.key in chosen]

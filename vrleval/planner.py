"""The order of asking: questions on the same clips stand together, so that each clip is loaded once.

The engine's prefix and media caches then serve all questions of a video from one encoding.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vrleval.types import Question

MediaKey = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], float | None, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Questions on the same clips of the same source."""

    source: str
    questions: tuple[Question, ...]


def plan(questions: Sequence[Question], source: str) -> list[Batch]:
    """Batches in order of the first appearance of their clips."""
    groups: dict[MediaKey, list[Question]] = {}
    for question in questions:
        groups.setdefault(media_key(question), []).append(question)
    return [Batch(source=source, questions=tuple(group)) for group in groups.values()]


def media_key(question: Question) -> MediaKey:
    """What decides the clips of a question: stored ids, or paths and window."""
    sample = question.sample
    return sample.clip_ids, sample.videos, sample.images, sample.start, sample.end


def chunks(batches: Sequence[Batch], size: int) -> Iterator[list[Batch]]:
    """Batches in runs of `size`: what is prepared together while the run before is being answered."""
    for start in range(0, len(batches), size):
        yield list(batches[start : start + size])


class ByteBudget:
    """Bytes of frames that may be held at a time; a clip larger than all of it passes alone."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = 0
        self._changed = asyncio.Condition()

    async def take(self, amount: int) -> None:
        """Wait until `amount` more bytes fit."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._held == 0 or self._held + amount <= self._limit)
            self._held += amount

    async def give_back(self, amount: int) -> None:
        async with self._changed:
            self._held -= amount
            self._changed.notify_all()

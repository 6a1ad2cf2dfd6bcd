"""The evaluation itself: one event loop from questions to lines of the journal, for all benchmarks of a run.

    questions -> planner -> [clips prepared, a chunk ahead] -> load, within a budget of bytes -> engine
              -> score, in a thread -> journal

Every failure becomes a line. What the journal holds already is not asked again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vrldata import tasks
from vrldata.errors import DecodeError, StoreError, TaskError
from vrldata.log import Progress, progress
from vrldata.types import Clip
from vrleval.engines.types import Engine, Request, RequestError
from vrleval.journal import Journal, unfinished
from vrleval.loading import Loaded
from vrleval.planner import Batch, ByteBudget, chunks, plan
from vrleval.scoring import ScoringContext, media_values, prediction_for, score_response
from vrleval.types import FAILED, Prediction, Question

logger = logging.getLogger(__name__)

BATCHES_PER_CHUNK = 64
"""Groups of questions whose clips are prepared together."""

NUM_LOADERS = 4
"""Clips that are being loaded at a time; at most so many pass the byte budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a run does at a time."""

    max_concurrent: int = 32
    max_bytes_in_flight: int = 8 << 30


class Runner:
    """Asks the questions of several benchmarks through one engine."""

    def __init__(
        self,
        loaded: Sequence[Loaded],
        contexts: dict[str, ScoringContext],
        engine: Engine,
        journal: Journal,
        limits: Limits,
        *,
        subtitles: bool = False,
    ) -> None:
        self._loaded = {item.benchmark.name: item for item in loaded}
        self._contexts = contexts
        self._engine = engine
        self._journal = journal
        self._limits = limits
        self._subtitles = subtitles
        self._done: dict[str, Prediction] = {}
        self._num_failed = 0
        self.num_asked = 0
        """Questions that the engine was started for."""

    async def run(
        self, done: dict[str, Prediction], *, retry: frozenset[str] = frozenset()
    ) -> dict[str, Prediction]:
        """Predictions by key for all questions; those in `done` are taken as they are, except by `retry`.

        Raises:
            RolloutError: the engine does not start or has died; the journal keeps what was finished.
        """
        self._done = dict(done)
        batches: list[Batch] = []
        for item in self._loaded.values():
            todo = unfinished([question.key for question in item.questions], done, retry=retry)
            waiting = [question for question in item.questions if question.key in todo]
            self._record_problems(waiting)
            batches += plan([question for question in waiting if not question.problem], item.benchmark.name)
        total = self.num_asked = sum(len(batch.questions) for batch in batches)
        num_known = sum(len(item.questions) for item in self._loaded.values()) - total
        logger.info("%d questions to ask, %d known already", total, num_known)
        if total:
            with progress("evaluate", total=total, unit="questions") as bar:
                await self._ask_all(batches, bar)
        self._journal.sync()
        return self._done

    def _record_problems(self, questions: Sequence[Question]) -> None:
        """Questions that cannot be asked: their lines are written without troubling the engine."""
        for question in questions:
            if question.problem:
                status = "decode_failed" if question.problem.startswith("media") else "bad_answer"
                self._finish(
                    prediction_for(question, self._context(question), status=status, reason=question.problem)
                )

    async def _ask_all(self, batches: Sequence[Batch], bar: Progress) -> None:
        queue: asyncio.Queue[Batch | None] = asyncio.Queue(maxsize=2 * BATCHES_PER_CHUNK)
        self._budget = ByteBudget(self._limits.max_bytes_in_flight)
        self._requests = asyncio.Semaphore(self._limits.max_concurrent)
        self._loaders = asyncio.Semaphore(NUM_LOADERS)
        started = asyncio.Event()
        num_workers = min(self._limits.max_concurrent, len(batches))
        async with _unwrapped_task_group() as group:
            group.create_task(self._start_engine(started))
            group.create_task(self._prepare(batches, queue, num_workers))
            for _ in range(num_workers):
                group.create_task(self._work(queue, started, bar))

    async def _start_engine(self, started: asyncio.Event) -> None:
        # the first chunk's frames are decoded in a thread meanwhile
        await asyncio.sleep(0)
        logger.info("starting the engine")
        await self._engine.start()
        started.set()

    async def _prepare(
        self, batches: Sequence[Batch], queue: asyncio.Queue[Batch | None], num_workers: int
    ) -> None:
        for chunk in chunks(batches, BATCHES_PER_CHUNK):
            by_source: dict[str, list[Question]] = {}
            for batch in chunk:
                by_source.setdefault(batch.source, []).extend(batch.questions)
            for source, questions in by_source.items():
                await asyncio.to_thread(self._loaded[source].clips.prepare, questions)
            for batch in chunk:
                await queue.put(batch)
        for _ in range(num_workers):
            await queue.put(None)

    async def _work(self, queue: asyncio.Queue[Batch | None], started: asyncio.Event, bar: Progress) -> None:
        while (batch := await queue.get()) is not None:
            async with self._loaders:
                try:
                    clips = await asyncio.to_thread(self._loaded[batch.source].clips.load, batch.questions[0])
                except (DecodeError, StoreError, OSError) as error:
                    for question in batch.questions:
                        self._fail(question, "decode_failed", str(error), bar)
                    continue
                num_bytes = sum(clip.frames.nbytes for clip in clips)
                await self._budget.take(num_bytes)
            try:
                await started.wait()
                await asyncio.gather(*(self._ask(question, clips, bar) for question in batch.questions))
            finally:
                await self._budget.give_back(num_bytes)

    async def _ask(self, question: Question, clips: tuple[Clip, ...], bar: Progress) -> None:
        context = self._context(question)
        async with self._requests:
            try:
                prompt = await asyncio.to_thread(
                    render_question, question, clips, context.family, self._subtitles
                )
                response = await self._engine.ask(Request(key=question.key, prompt=prompt, clips=clips))
            except (RequestError, TaskError) as error:
                self._fail(question, "engine_failed", str(error), bar, **media_values(clips))
                return
        prediction = await asyncio.to_thread(score_response, question, response, clips, context)
        self._finish(prediction)
        bar.advance(failed=self._num_failed)

    def _fail(self, question: Question, status: str, reason: str, bar: Progress, **values: Any) -> None:
        logger.debug("%s %s: %s: %s", question.benchmark, question.sample.sample_id, status, reason)
        self._finish(
            prediction_for(question, self._context(question), status=status, reason=reason[:500], **values)
        )
        bar.advance(failed=self._num_failed)

    def _finish(self, prediction: Prediction) -> None:
        self._journal.append(prediction)
        self._done[prediction.key] = prediction
        self._num_failed += prediction.status in FAILED

    def _context(self, question: Question) -> ScoringContext:
        return self._contexts[question.benchmark]


class _unwrapped_task_group(asyncio.TaskGroup):  # noqa: N801 - reads as the function that it replaces
    """A task group whose first failure is raised as itself: its message is meant for the user."""

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            await super().__aexit__(kind, error, trace)
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None


def render_question(question: Question, clips: Sequence[Clip], family: str, subtitles: bool = False) -> str:
    """The prompt text of a question, with subtitles of the sampled frames where the run wants them."""
    width = clips[0].metadata.width if clips else None
    height = clips[0].metadata.height if clips else None
    text = tasks.render_prompt(question.sample, family=family, frame_width=width, frame_height=height)
    path = question.sample.extra.get("subtitle_file")
    if subtitles and path and clips:
        from vrleval.subtitles import subtitle_block

        block = subtitle_block(Path(str(path)), clips[0])
        return f"{block}\n\n{text}" if block else text
    return text

"""Open answers after the run: a language model compares each with its reference.

The judge sees question, reference and answer. Its name, the digest of the prompt and its raw reply stand
with the prediction. A judge that fails leaves the question waiting: never a zero, never another rule.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from vrldata.log import Progress, progress
from vrldata.tasks.judge import (
    Judge,
    JudgeCache,
    JudgeSettings,
    OpenAIJudge,
    Question,
    judge_answer,
)
from vrldata.tasks.judge_prompts import Verdict
from vrleval.journal import Journal
from vrleval.types import Prediction

logger = logging.getLogger(__name__)

MAX_CONCURRENT = 16


def judge_predictions(
    predictions: Mapping[str, Prediction], settings: JudgeSettings, journal: Journal
) -> dict[str, Prediction]:
    """The predictions with those judged that wait for it; each verdict is a line of the journal at once.

    A second call asks only what is still waiting; replies are cached beside the journal.
    """
    return asyncio.run(_judge(predictions, settings, journal))


async def _judge(
    predictions: Mapping[str, Prediction], settings: JudgeSettings, journal: Journal
) -> dict[str, Prediction]:
    async with OpenAIJudge(settings) as judge:
        return await judge_with(predictions, judge, journal)


async def judge_with(
    predictions: Mapping[str, Prediction], judge: Judge, journal: Journal, *, cache_folder: Path | None = None
) -> dict[str, Prediction]:
    """The same with a judge of your own."""
    waiting = [one for one in predictions.values() if one.status == "needs_judge"]
    result = dict(predictions)
    if not waiting:
        return result
    cache = JudgeCache(folder=cache_folder or journal.path.parent / "judge")
    gate = asyncio.Semaphore(MAX_CONCURRENT)
    with progress("judge", total=len(waiting), unit="answers") as bar:
        judged = await asyncio.gather(*(_judge_one(one, judge, cache, gate, journal, bar) for one in waiting))
    for prediction in judged:
        result[prediction.key] = prediction
    num_waiting = sum(one.status == "needs_judge" for one in judged)
    if num_waiting:
        logger.warning("%d answers were not judged; `vrleval judge` asks them again", num_waiting)
    return result


async def _judge_one(
    prediction: Prediction,
    judge: Judge,
    cache: JudgeCache,
    gate: asyncio.Semaphore,
    journal: Journal,
    bar: Progress,
) -> Prediction:
    question = Question(
        problem=str(prediction.judge.get("problem") or prediction.problem),
        reference=prediction.answer,
        answer=prediction.extracted or prediction.response,
    )
    async with gate:
        verdict = await judge_answer(judge, question, cache=cache)
    settled = with_verdict(prediction, verdict)
    if settled.status != "needs_judge":
        journal.append(settled)
    bar.advance()
    return settled


def with_verdict(prediction: Prediction, verdict: Verdict) -> Prediction:
    """The prediction with the judge's score; unchanged but for the reason where the judge gave none."""
    if verdict.score is None:
        return dataclasses.replace(prediction, reason=verdict.reason)
    identity = {
        **prediction.judge,
        "name": verdict.judge,
        "prompt_sha256": hashlib.sha256(verdict.prompt.encode()).hexdigest(),
        "reply": verdict.reply[:1000],
    }
    return dataclasses.replace(
        prediction,
        status="scored",
        score=verdict.score,
        strict=verdict.score,
        reason="",
        judge=identity,
    )


def judge_names(predictions: Sequence[Prediction]) -> list[str]:
    """Judges that scored any of the predictions."""
    return sorted({str(one.judge["name"]) for one in predictions if one.judge.get("name")})

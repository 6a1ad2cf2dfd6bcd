"""Scores of judged rows: the answer extracted as the protocol says, the verdict of a judge as accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vrldata.errors import TaskError
from vrldata.tasks.extract import final_segment, strict_answer
from vrldata.tasks.judge import Judge, JudgeCache, Question, judge_answers
from vrldata.tasks.judge_prompts import Verdict
from vrldata.tasks.reading import Record, UnreadableGoldError
from vrldata.tasks.scoring import TASKS, finished, score_record, unscored
from vrldata.tasks.tolerant import free_answer
from vrldata.types import Score


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedScore:
    """A score, and the verdict (prompt, judge, raw reply) behind it; None where no judge was asked."""

    score: Score
    verdict: Verdict | None = None


async def score_with_judge(
    records: Sequence[Record],
    judge: Judge,
    *,
    protocol: str = "train",
    cache: JudgeCache | None = None,
    concurrency: int = 16,
) -> list[JudgedScore]:
    """The score and verdict of each record, in order; the judge sees those whose answer needs one.

    Without an answer nothing is asked: the record gets the protocol's own score. A judge that fails or
    cannot be read gives status `judge_error` and no accuracy.

    Raises:
        TaskError: a record's type is not judged, or the protocol has no judged form.
    """
    if protocol not in ("train", "eval"):
        raise TaskError(f"protocol {protocol!r} has no judged form; use 'train' or 'eval'")
    scores: dict[int, JudgedScore] = {}
    asked: list[tuple[int, Question]] = []
    for index, record in enumerate(records):
        question = _question(record, protocol)
        if isinstance(question, Score):
            scores[index] = JudgedScore(score=question)
        else:
            asked.append((index, question))
    questions = [question for _, question in asked]
    verdicts = await judge_answers(judge, questions, cache=cache, concurrency=concurrency)
    for (index, question), verdict in zip(asked, verdicts, strict=True):
        score = _judged(records[index], question, verdict, protocol)
        scores[index] = JudgedScore(score=score, verdict=verdict)
    return [scores[index] for index in range(len(records))]


def _question(record: Record, protocol: str) -> Question | Score:
    if record.problem_type not in TASKS:
        return score_record(record)
    task = TASKS[record.problem_type]
    if not task.judged:
        raise TaskError(f"problem_type {record.problem_type!r} is scored by rule and takes no judge")
    try:
        gold = task.read_gold(record)
    except UnreadableGoldError as error:
        return unscored("bad_ground_truth", str(error))
    if protocol == "train":
        answer = strict_answer(record.response, record.settings).text
        if answer is None:
            return score_record(record, "train")
    else:
        plain = score_record(record, "eval")
        if plain.status != "needs_judge":
            return plain
        answer = free_answer(final_segment(record.response, record.settings.reasoning_tags)[0] or "")
    return Question(problem=record.problem, reference=gold, answer=answer)


def _judged(record: Record, question: Question, verdict: Verdict, protocol: str) -> Score:
    if verdict.score is None:
        return unscored("judge_error", verdict.reason, extracted=question.answer, form=1.0)
    status = "ok" if protocol == "train" else "scored"
    return finished(
        record,
        verdict.score,
        1.0,
        status=status,
        extracted=question.answer,
        how="judge",
        parts={"judge": verdict.score},
    )

"""From a response to a prediction: `vrldata.tasks.score` under the run's protocol, and its status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vrldata import tasks
from vrldata.model_inputs import num_visual_tokens
from vrldata.tasks import RewardFunction, ScoringSettings
from vrldata.tasks.extract import final_segment
from vrldata.tasks.prompts import coordinate_space
from vrldata.tasks.reading import REASONING_TAGS
from vrldata.types import Clip, Score
from vrleval.engines.types import Response
from vrleval.types import STATUSES, UNSCORED, Prediction, Question

_STATUS_OF_SCORE = {
    "ok": "scored",
    "no_answer": "unparsed",
    "unparsable": "unparsed",
    "bad_ground_truth": "bad_answer",
    "judge_error": "needs_judge",
    "timeout": "unparsed",
}
"""Statuses of the training protocol in the words of an evaluation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringContext:
    """What scoring needs beside question and response.

    Attributes:
        config: digest of the run's configuration.
        asked: digest of the part of it that decides responses.
        family: of the model, which decides the coordinates that it speaks.
        protocol: scoring rules.
        box_frame: coordinates of the boxes in the answers; empty: those of the model.
        compat: rules of other toolkits, by name.
        seed: for rules that guess.
        metric: of the user, in place of all rules.
        reasoning_tags: names of the tags around reasoning.
        allow_code_execution: run Python answers against their unit tests, in the sandbox.
    """

    config: str
    asked: str = ""
    family: str
    protocol: str = "eval"
    box_frame: str = ""
    compat: tuple[str, ...] = ()
    seed: int = 0
    metric: RewardFunction | None = None
    reasoning_tags: tuple[str, ...] = REASONING_TAGS
    allow_code_execution: bool = False


def prediction_for(
    question: Question, context: ScoringContext, *, status: str, reason: str = "", **values: Any
) -> Prediction:
    """The line of a question with this status; a failure scores 0, what waits for a judge has no score."""
    sample = question.sample
    score = None if status in UNSCORED else 0.0
    fields: dict[str, Any] = {"score": score, "strict": score, **values}
    return Prediction(
        key=question.key,
        benchmark=question.benchmark,
        sample_id=sample.sample_id,
        config=context.config,
        asked=context.asked,
        status=status,
        reason=reason,
        problem=sample.problem,
        problem_type=sample.problem_type,
        options=tuple(sample.options),
        answer=sample.answer,
        video=(*sample.videos, *sample.images, "")[0],
        groups=dict(question.groups),
        unit=question.unit,
        **fields,
    )


def score_response(
    question: Question, response: Response, clips: Sequence[Clip], context: ScoringContext
) -> Prediction:
    """The prediction of an answered question. Raises as `score_text` does."""
    return score_text(question, response, media_values(clips), context)


def score_text(
    question: Question, response: Response, sent: Mapping[str, Any], context: ScoringContext
) -> Prediction:
    """The prediction of an answered question without its clips, as for a stored response.

    Args:
        sent: `media_values` of the clips.

    Raises:
        TaskError: the protocol or the problem type is unknown: a fault of the run, not of the response.
    """
    from vrleval.compat import apply_compat
    from vrleval.metrics import score_by

    sample = question.sample
    fields = record_fields(question, sent["media"], context, response)
    if context.metric is not None:
        given = {"problem_type": sample.problem_type, "response": response.text, "answer": sample.answer}
        score = score_by(context.metric, {**fields, **given, "options": list(sample.options)})
    else:
        score = _benchmark_score(question, response, context) or tasks.score(
            sample.problem_type,
            response.text,
            sample.answer,
            options=list(sample.options) or None,
            protocol=context.protocol,
            settings=ScoringSettings(
                reasoning_tags=context.reasoning_tags, allow_code_execution=context.allow_code_execution
            ),
            **fields,
        )
    status = status_of(score, response)
    prediction = prediction_for(
        question,
        context,
        status=status,
        reason=score.reason,
        score=None if status in UNSCORED else float(score.accuracy or 0.0),
        strict=None if status in UNSCORED else float(score.strict or 0.0),
        extracted=score.extracted,
        how=score.how,
        parts=dict(score.parts),
        judge={"problem": asked} if (asked := sample.extra.get("judge_problem")) else {},
        **sent,
        **response_values(response),
    )
    return apply_compat(prediction, sample, context.compat, context.seed)


def _benchmark_score(question: Question, response: Response, context: ScoringContext) -> Score | None:
    """The score by the benchmark's own rules for what follows the reasoning; None where it has none."""
    from vrleval.benchmarks import SCORERS

    own = SCORERS.get(question.benchmark)
    segment, _ = final_segment(response.text, context.reasoning_tags)
    return own(question, segment) if own and context.protocol == "eval" and segment is not None else None


def record_fields(
    question: Question, media: Mapping[str, float | None], context: ScoringContext, response: Response
) -> Mapping[str, Any]:
    """Fields of a scoring record that come from the question and its first clip (`Prediction.media`)."""
    sample = question.sample
    fields: dict[str, Any] = {
        "problem": sample.problem,
        "data_type": sample.data_type,
        "response_length": response.num_tokens,
        "finish_reason": response.finish_reason,
        "sample_id": sample.sample_id,
        "coord_space": coordinate_space(context.family),
        "answer_coord_space": context.box_frame or sample.extra.get("answer_coord_space"),
        "extra": {**sample.extra, "benchmark": question.benchmark},
    }
    sizes = {name: sample.extra[name] for name in ("width", "height") if sample.extra.get(name)}
    return {**fields, **media, **(sizes if media else {})}


def status_of(score: Score, response: Response) -> str:
    """The question's status: a score's own, or why there is none."""
    status = _STATUS_OF_SCORE.get(score.status, score.status)
    if status not in STATUSES:
        return "unparsed" if score.accuracy is not None else "needs_judge"
    if status == "unparsed" and not response.text.strip():
        return "empty"
    if status == "unparsed" and response.finish_reason == "length":
        return "truncated"
    return status


def media_values(clips: Sequence[Clip]) -> dict[str, Any]:
    """What was sent: frames, the tokens that they take, and what scoring needs of the first clip."""
    media: dict[str, float | None] = {}
    if clips:
        metadata = clips[0].metadata
        media = {
            "duration": metadata.duration if clips[0].kind == "video" else None,
            "width": metadata.source_width,
            "height": metadata.source_height,
            "frame_width": metadata.width,
            "frame_height": metadata.height,
        }
    return {
        "num_frames": sum(len(clip.frames) for clip in clips),
        "num_visual_tokens": num_visual_tokens(clips),
        "media": media,
    }


def response_values(response: Response) -> dict[str, Any]:
    """Fields of a prediction that copy the response."""
    return {
        "response": response.text,
        "finish_reason": response.finish_reason,
        "num_tokens": response.num_tokens,
        "num_prompt_tokens": response.num_prompt_tokens,
        "seconds": round(response.seconds, 4),
    }

"""Responses that a run has already, scored under other rules than before: the model is not asked again."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from vrldata.log import progress
from vrleval.engines.types import Response
from vrleval.journal import Journal, read_journal
from vrleval.loading import Loaded
from vrleval.scoring import ScoringContext, score_text
from vrleval.types import Prediction, Question

logger = logging.getLogger(__name__)

WITHOUT_RESPONSE = frozenset({"decode_failed", "engine_failed"})
"""Statuses of questions that no rule of scoring decided."""


def rescore(
    folder: Path,
    loaded: Sequence[Loaded],
    contexts: Mapping[str, ScoringContext],
    journal: Journal,
    *,
    config: str,
) -> dict[str, Prediction]:
    """Score the folder's responses under the contexts' rules; returns all predictions under them by key.

    Lines that were made under these rules already stay what they are, as long as their response is the
    newest. A verdict of a judge is kept where the answer that it judged is still the one that is found.

    Args:
        config: digest of the run; lines that carry it were made under its rules.

    Raises:
        TaskError: the protocol or a problem type is unknown.
    """
    latest = read_journal(folder)
    done = latest
    if any(one.config != config for one in latest.values()):
        done = read_journal(folder, config)
    done = {key: one for key, one in done.items() if one.benchmark in contexts}
    todo = []
    for item in loaded:
        context = contexts[item.benchmark.name]
        for question in item.questions:
            known, scored = latest.get(question.key), done.get(question.key)
            if known is None or known is scored or question.problem or known.asked != context.asked:
                continue
            if scored is None or _said(scored) != _said(known):
                todo.append((question, known, context))
    if not todo:
        return done
    logger.info("scoring has changed: %d responses are scored again, none is asked for again", len(todo))
    with progress("score", total=len(todo), unit="responses") as bar:
        for question, known, context in todo:
            done[known.key] = rescored(question, known, context)
            journal.append(done[known.key])
            bar.advance()
    journal.sync()
    return done


def rescored(question: Question, known: Prediction, context: ScoringContext) -> Prediction:
    """The prediction under the context's rules, of the response that is known."""
    if known.status in WITHOUT_RESPONSE:
        return dataclasses.replace(known, config=context.config)
    response = Response(
        text=known.response,
        finish_reason=known.finish_reason,
        num_tokens=known.num_tokens,
        num_prompt_tokens=known.num_prompt_tokens,
        seconds=known.seconds,
    )
    sent = {
        "num_frames": known.num_frames,
        "num_visual_tokens": known.num_visual_tokens,
        "media": known.media,
    }
    found = score_text(question, response, sent, context)
    if found.status != "needs_judge" or not known.judge.get("name") or _judged(found) != _judged(known):
        return found
    return dataclasses.replace(
        found,
        status=known.status,
        score=known.score,
        strict=known.strict,
        reason=known.reason,
        judge=known.judge,
    )


def _said(one: Prediction) -> tuple[str, str, bool]:
    return one.response, one.finish_reason, one.status in WITHOUT_RESPONSE


def _judged(one: Prediction) -> str:
    return one.extracted or one.response

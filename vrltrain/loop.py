"""The training loop, to be read from top to bottom: prompts, rollouts, rewards, update, sync, records.

Rank 0 draws prompts, owns the engine and writes files; all ranks train. Starting, resuming and saving live in
`session`; the two halves of a step in `collect` and `update`.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from vrldata.log import progress
from vrltrain.batch import train_batch
from vrltrain.collect import Collected
from vrltrain.configs import RunConfig
from vrltrain.distributed import full_state_dict, process_group
from vrltrain.files import read_lines
from vrltrain.group_records import group_trajectories
from vrltrain.report import write_report
from vrltrain.session import Session, open_session
from vrltrain.types import Timings
from vrltrain.update import update
from vrltrain.validation import example_row, validate

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What a run left behind.

    Attributes:
        steps: done in all, those before a resume included.
        failed_samples: left out in this process, each for a reason that the log names.
        metrics: figures of the last step.
        validation: step to the figures of the run's validations, those before a resume included.
    """

    run_dir: Path
    run_id: str
    steps: int
    failed_samples: int
    metrics: dict[str, float]
    validation: dict[int, dict[str, float]] = field(default_factory=dict)


def train(config: RunConfig, *, resume: bool = False, command: str = "vrltrain run") -> RunResult:
    """Train by reinforcement learning; goes on where the run folder's last checkpoint ends.

    Args:
        resume: insist on a checkpoint to go on from.
        command: as the manifest records it.

    Raises:
        ConfigError: the config contradicts itself or the run folder.
        RolloutError: the engine fails for more samples than `max_failed_share` allows.
    """
    with process_group() as ranks, open_session(config, ranks, resume=resume, command=command) as session:
        failed, figures = 0, {}
        if session.step == 0 and session.validates_at(0):
            session.on_main(lambda: session.folder.log(0, _validate(session, 0)))
        with progress("train", total=config.steps - session.step, unit="steps") as bar:
            for step in range(session.step + 1, config.steps + 1):
                started, timings = time.perf_counter(), Timings()

                collected = session.on_main(partial(_collect, session, step, timings))
                figures = dict(collected.metrics)
                if collected.groups:
                    batch = train_batch(collected.groups)
                    encode = session.encode_of(collected.groups)
                    session.start_ahead(step + 1)
                    figures |= update(session.learner, batch, collected.groups, encode, timings)
                    session.wait_ahead(timings)
                    _sync(session, step, timings)

                session.step = step
                failed += len(collected.failures)
                figures |= {**timings.metrics(), "time/step_s": time.perf_counter() - started}
                session.on_main(partial(_record, session, step, collected, figures))
                if session.saves_at(step):
                    session.save()
                    session.on_main(partial(write_report, session.folder.path))
                bar.advance(reward=f"{figures.get('reward/overall_mean', float('nan')):.3f}")
        return RunResult(
            run_dir=session.folder.path,
            run_id=session.folder.run_id,
            steps=session.step,
            failed_samples=failed,
            metrics=figures,
            validation=validations(session.folder.metrics),
        )


def validations(metrics: Path) -> dict[int, dict[str, float]]:
    """Step to its figures `validation/…`, from the `metrics.jsonl` of a run; empty where none was made."""
    found: dict[int, dict[str, float]] = {}
    for row in read_lines(metrics):
        figures = {name: value for name, value in row.items() if name.startswith("validation/")}
        if figures:
            found[int(row["step"])] = figures
    return found


def _collect(session: Session, step: int, timings: Timings) -> Collected:
    return session.ahead.take(step, session.engine.policy_version, timings)


def _sync(session: Session, step: int, timings: Timings) -> None:
    """Give the engine the new weights; rollouts carry the step as their policy version."""
    start = time.perf_counter()
    learner = session.learner
    weights = full_state_dict(learner.policy, session.ranks)
    session.on_main(lambda: session.engine.load_weights(weights.items(), step))
    every = session.config.algorithm.ref_update_steps
    if every and step % every == 0 and learner.reference is not None:
        session.refresh_reference(weights)
    timings.add("weight_sync", time.perf_counter() - start)


def _record(session: Session, step: int, collected: Collected, figures: dict[str, float]) -> None:
    """Log the step, some of its responses, and keep its rollouts for the next checkpoint."""
    config, folder = session.config, session.folder
    if session.validates_at(step):
        figures = {**figures, **_validate(session, step)}
    folder.log(step, figures)
    rows = [
        example_row(step, group.sample, rollout.text, reward.overall, rollout.source)
        for group in collected.generated
        for rollout, reward in zip(group.rollouts, group.rewards, strict=True)
    ]
    folder.log_examples(rows[:: max(len(rows) // max(config.num_examples, 1), 1)][: config.num_examples])
    for group in collected.generated:
        session.unsaved += group_trajectories(group, run_id=folder.run_id, model=config.model.path)


def _validate(session: Session, step: int) -> dict[str, float]:
    if session.val is None:
        return {}
    start = time.perf_counter()
    figures, examples = validate(session.config, session.val, session.encoder, session.engine)
    session.folder.log_examples([{**row, "step": step} for row in examples])
    return {**figures, "time/validation_s": time.perf_counter() - start}

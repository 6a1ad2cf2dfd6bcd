"""One update in this process: norms by part of the model, the alarm for another engine, the critic."""

from __future__ import annotations

import dataclasses
import logging
import math
from pathlib import Path

import pytest
import torch

from tests.train.one_update import encode_of, groups_of, learner_of
from vrltrain.batch import train_batch
from vrltrain.distributed import Ranks
from vrltrain.types import RolloutGroup, Timings
from vrltrain.update import update

CPU = Ranks(rank=0, world_size=1, device=torch.device("cpu"))


def figures_of(
    model: Path, case: str, algorithm: str = "grpo", groups: list[RolloutGroup] | None = None
) -> dict[str, float]:
    learner, rows = learner_of(CPU, model, algorithm), groups or groups_of(case)
    return update(learner, train_batch(rows), rows, encode_of(model, case), Timings())


def known(groups: list[RolloutGroup], log_prob: float) -> list[RolloutGroup]:
    """The groups as if the engine had given every token this log-probability."""
    return [
        dataclasses.replace(
            group,
            rollouts=tuple(
                dataclasses.replace(one, log_probs=(log_prob,) * len(one.token_ids)) for one in group.rollouts
            ),
        )
        for group in groups
    ]


def test_norms_of_the_parts_make_up_the_whole(tiny_model: Path) -> None:
    figures = figures_of(tiny_model, "mixed")
    parts = [figures[f"update/grad_norm_{part}"] for part in ("vision", "projector", "language")]
    assert all(part > 0 for part in parts)
    assert math.hypot(*parts) == pytest.approx(figures["update/grad_norm"], rel=1e-4)
    assert "update/grad_norm_vision" not in figures_of(tiny_model, "text")


def test_an_engine_that_samples_from_another_distribution_raises_an_alarm(
    tiny_model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="vrltrain.update"):
        figures = figures_of(tiny_model, "text", groups=known(groups_of("text"), -1.0))
    assert figures["mismatch/k3_kl"] > 0.05
    (record,) = caplog.records
    assert "not those of the trainer" in record.getMessage()
    assert "algorithm.correction.level" in record.getMessage()


def test_an_update_with_a_critic_repeats_itself(tiny_model: Path) -> None:
    figures = figures_of(tiny_model, "mixed", "ppo")
    again = figures_of(tiny_model, "mixed", "ppo")
    assert figures == again
    assert figures["critic/loss"] > 0
    assert figures["critic/grad_norm_vision"] > 0
    assert figures["kl/mean"] > 0
    assert -1 < figures["advantage/mean"] < 1

"""Rollouts one step ahead of the update: versions, age, corrections, resume, and errors of the thread."""

from __future__ import annotations

import dataclasses
import json
import shutil
import threading
from pathlib import Path

import pytest

import vrldata
from tests.train.colour_clips import run_values
from tests.train.one_update import groups_of
from vrldata.config import validate_config
from vrldata.errors import RolloutError
from vrltrain.ahead import RolloutsAhead
from vrltrain.collect import Collected, Collector
from vrltrain.configs import RunConfig
from vrltrain.files import read_lines
from vrltrain.inputs import load_encoder
from vrltrain.loop import train
from vrltrain.offline import OfflinePool
from vrltrain.prompts import PromptStream
from vrltrain.rollout import make_engine
from vrltrain.types import Failure, Timings

STALE: dict[str, object] = {"max_staleness": 1, "correction": {"level": "token"}}


def run(dataset: Path, model: Path, run_dir: Path, **changes: object) -> list[dict[str, object]]:
    values = run_values(dataset, model, run_dir, **changes)
    train(validate_config(RunConfig, values, source="test"))
    return [
        {name: value for name, value in row.items() if not name.startswith("time/")}
        for row in read_lines(run_dir / "metrics.jsonl")
    ]


def collected(step: int) -> Collected:
    groups = groups_of("videos")
    return Collected(
        groups=groups[1:],
        generated=groups[:2],
        failures=[Failure(sample_id="s", stage="clip", reason="lost")],
        metrics={"step": float(step)},
    )


def test_a_batch_that_was_not_started_is_collected_when_it_is_asked_for() -> None:
    asked = []
    ahead = RolloutsAhead(lambda step, version, timings: asked.append((step, version)) or collected(step))
    assert ahead.take(3, 2, Timings()).metrics == {"step": 3.0}
    assert asked == [(3, 2)]
    assert ahead.state_dict() is None
    ahead.close()


def test_a_started_batch_is_collected_in_another_thread_meanwhile() -> None:
    may_end, threads = threading.Event(), []

    def collect(step: int, version: int, timings: Timings) -> Collected:
        threads.append(threading.current_thread())
        assert may_end.wait(30)
        timings.add("rollout", 2.5)
        return collected(step)

    ahead, timings = RolloutsAhead(collect), Timings()
    ahead.start(2, version=1)
    may_end.set()
    ahead.wait()
    assert ahead.take(2, 1, timings).metrics == {"step": 2.0}
    assert threads[0] is not threading.current_thread()
    assert timings.seconds == {"rollout": 2.5}
    ahead.close()


def test_an_error_of_the_thread_comes_with_its_batch_and_is_not_saved() -> None:
    def collect(step: int, version: int, timings: Timings) -> Collected:
        raise RolloutError("too much failed")

    ahead = RolloutsAhead(collect)
    ahead.start(2, version=1)
    ahead.wait()
    assert ahead.state_dict() is None
    with pytest.raises(RolloutError, match="too much failed"):
        ahead.take(2, 1, Timings())
    ahead.close()


def test_what_was_collected_ahead_survives_a_checkpoint() -> None:
    ahead = RolloutsAhead(lambda step, version, timings: collected(step))
    ahead.start(2, version=1)
    ahead.wait()
    restored = RolloutsAhead(lambda step, version, timings: collected(99))
    restored.load_state_dict(json.loads(json.dumps(ahead.state_dict())))
    assert restored.take(2, 1, Timings()) == ahead.take(2, 1, Timings()) == collected(2)
    ahead.close()
    restored.close()


def test_each_batch_is_written_one_update_behind_and_corrected_for_it(
    own_dataset: Path, tiny_model: Path, tmp_path: Path
) -> None:
    rows = run(own_dataset, tiny_model, tmp_path / "run", steps=4, algorithm=STALE)
    stored = vrldata.open(own_dataset).iter_trajectories(filter="source = 'rollout'")
    assert {(one.step, one.policy_version) for one in stored} == {(1, 0), (2, 0), (3, 1), (4, 2)}
    assert "staleness/groups_0" in rows[0]
    assert [row["staleness/groups_1"] for row in rows[1:]] == [4.0] * 3
    assert abs(float(rows[0]["mismatch/k3_kl"])) < 1e-6  # type: ignore[arg-type]
    assert all(float(row["mismatch/k3_kl"]) > 1e-6 for row in rows[1:])  # type: ignore[arg-type]
    assert all("correction/weight_mean" in row for row in rows)


def test_a_run_that_goes_on_equals_an_uninterrupted_one_bit_for_bit(
    colour_dataset: Path, tiny_model: Path, tmp_path: Path
) -> None:
    changes: dict[str, object] = {"trajectories": None, "checkpoint__every": 2, "algorithm": STALE}
    whole = run(colour_dataset, tiny_model, tmp_path / "whole", steps=4, **changes)
    folder = Path("checkpoints") / "step_2"
    shutil.copytree(tmp_path / "whole" / folder, tmp_path / "parts" / folder)
    shutil.copy(tmp_path / "whole" / "metrics.jsonl", tmp_path / "parts")
    shutil.copy(tmp_path / "whole" / "manifest.json", tmp_path / "parts")
    parts = run(colour_dataset, tiny_model, tmp_path / "parts", steps=4, **changes)
    assert parts == whole
    files = [
        (tmp_path / name / "checkpoints" / "step_4" / "model" / "model.safetensors").read_bytes()
        for name in ("whole", "parts")
    ]
    assert files[0] == files[1]


def test_left_over_groups_that_are_too_old_are_dropped_and_replaced(
    colour_dataset: Path, tiny_model: Path
) -> None:
    values = run_values(
        colour_dataset, tiny_model, Path("none"), algorithm={**STALE, "filter": {"enabled": True}}
    )
    config = validate_config(RunConfig, values, source="test")
    dataset, encoder = vrldata.open(colour_dataset), load_encoder(tiny_model)
    engine = make_engine(config.rollout.model_copy(update={"dtype": "float32"}), encoder, tiny_model)
    engine.policy_version = 6
    offline = OfflinePool(
        config.algorithm.mix, dataset, encoder, reward=config.algorithm.reward, max_response_length=8
    )
    collector = Collector(config, encoder, engine, PromptStream(dataset, config.data, seed=0), offline)
    ages = {"fresh": 7, "one behind": 6, "old": 5}
    collector.dynamic.pending = [
        dataclasses.replace(
            group,
            uid=uid,
            rollouts=tuple(dataclasses.replace(one, policy_version=age) for one in group.rollouts),
        )
        for group, (uid, age) in zip(groups_of("videos"), ages.items(), strict=True)
    ]
    done = collector.collect(8, 7, Timings())
    assert [group.uid for group in done.groups[:2]] == ["fresh", "one behind"]
    assert done.metrics["staleness/dropped_groups"] == 1
    assert done.metrics["staleness/groups_0"] == 1
    assert done.metrics["staleness/groups_1"] == len(done.groups) - 1
    assert "staleness/groups_2" not in done.metrics

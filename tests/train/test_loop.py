"""The training loop end to end on the CPU: records, resume, crashes, bad samples, presets."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import vrldata
from tests.train.colour_clips import run_values
from vrldata.config import validate_config
from vrldata.errors import ConfigError, RolloutError
from vrltrain.checkpoint import checkpoint_steps
from vrltrain.configs import RunConfig
from vrltrain.files import read_lines
from vrltrain.loop import RunResult, train


def run(dataset: Path, model: Path, run_dir: Path, *, resume: bool = False, **changes: object) -> RunResult:
    values = run_values(dataset, model, run_dir, **changes)
    return train(validate_config(RunConfig, values, source="test"), resume=resume)


def weights_of(run_dir: Path, step: int) -> bytes:
    return (run_dir / "checkpoints" / f"step_{step}" / "model" / "model.safetensors").read_bytes()


def untimed(row: dict[str, object]) -> dict[str, object]:
    """The figures of a step but for the seconds it took."""
    return {name: value for name, value in row.items() if not name.startswith("time/")}


def test_a_run_leaves_metrics_manifest_report_checkpoint_and_rollouts(
    own_dataset: Path, tiny_model: Path, tmp_path: Path
) -> None:
    vrldata.open(own_dataset).create_release("v1")
    uri = Path(f"{own_dataset}@v1")
    result = run(
        uri, tiny_model, tmp_path / "run", data__val=f"{own_dataset}@v1", algorithm={"preset": "grpo"}
    )
    rows = read_lines(tmp_path / "run" / "metrics.jsonl")
    assert [row["step"] for row in rows] == [0, 1, 2]
    for name in (
        "reward/overall_mean",
        "update/loss",
        "update/grad_norm",
        "kl/mean",
        "response/length_mean",
        "time/rollout_s",
        "time/update_s",
        "time/data_wait_s",
        "mismatch/k3_kl",
    ):
        assert rows[1][name] is not None, name
    assert abs(rows[1]["mismatch/k3_kl"]) < 1e-6
    assert rows[0]["validation/samples"] == rows[2]["validation/samples"] == 4
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["datasets"]["train"]["release"] == "v1"
    assert len(manifest["datasets"]["train"]["digest"]) == 64
    page = (tmp_path / "run" / "report.html").read_text()
    assert "<polyline" in page
    assert "http" not in page.replace("http-equiv", "")
    stored = list(vrldata.open(own_dataset).iter_trajectories(filter="source = 'rollout'"))
    assert len(stored) == 2 * 4 * 4
    assert {(one.step, one.policy_version) for one in stored} == {(1, 0), (2, 1)}
    assert {one.run_id for one in stored} == {result.run_id}
    assert all(len(one.token_ids or ()) == len(one.log_probs or ()) == one.num_tokens for one in stored)


def test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit(
    colour_dataset: Path, tiny_model: Path, tmp_path: Path
) -> None:
    changes: dict[str, object] = {
        "trajectories": None,
        "algorithm": {
            "preset": "dapo",
            "filter": {"enabled": True, "max_tries": 3},
            "kl_in": "loss",
            "kl_coef": 0.01,
            "kl_controller": {"type": "adaptive", "target": 0.01, "horizon": 100},
            "ref_update_steps": 3,
        },
    }
    run(colour_dataset, tiny_model, tmp_path / "whole", steps=4, **changes)
    run(colour_dataset, tiny_model, tmp_path / "parts", steps=2, **changes)
    run(colour_dataset, tiny_model, tmp_path / "parts", steps=4, resume=True, **changes)
    assert weights_of(tmp_path / "whole", 4) == weights_of(tmp_path / "parts", 4)
    whole, parts = (read_lines(tmp_path / name / "metrics.jsonl") for name in ("whole", "parts"))
    assert [untimed(row) for row in whole] == [untimed(row) for row in parts]
    states = [
        json.loads((tmp_path / name / "checkpoints" / "step_4" / "state.json").read_text())
        for name in ("whole", "parts")
    ]
    for name in ("cursor", "pending", "kl_controller", "optimizer_steps"):
        assert states[0][name] == states[1][name]


def test_a_resumed_run_with_a_critic_equals_an_uninterrupted_one_bit_for_bit(
    colour_dataset: Path, tiny_model: Path, tmp_path: Path
) -> None:
    changes: dict[str, object] = {
        "trajectories": None,
        "algorithm": {"preset": "ppo", "kl_in": "loss", "kl_kind": "full", "kl_coef": 0.1},
        "critic": {"warmup_steps": 1, "optim": {"lr": 1e-3}},
        "update": {"mini_batches": 2},
    }
    run(colour_dataset, tiny_model, tmp_path / "whole", steps=4, **changes)
    run(colour_dataset, tiny_model, tmp_path / "parts", steps=2, **changes)
    run(colour_dataset, tiny_model, tmp_path / "parts", steps=4, resume=True, **changes)
    for name in ("model/model", "critic", "critic_optimizer", "optimizer"):
        files = [
            (tmp_path / run_name / "checkpoints" / "step_4" / f"{name}.safetensors").read_bytes()
            for run_name in ("whole", "parts")
        ]
        assert files[0] == files[1], name
    rows = read_lines(tmp_path / "parts" / "metrics.jsonl")
    assert [untimed(row) for row in rows] == [
        untimed(row) for row in read_lines(tmp_path / "whole" / "metrics.jsonl")
    ]
    assert rows[-1]["critic/loss"] > 0
    assert rows[-1]["kl/mean"] > 0


def test_the_policy_waits_for_the_warm_up_of_the_critic(
    colour_dataset: Path, tiny_model: Path, tmp_path: Path
) -> None:
    changes: dict[str, object] = {"algorithm": {"preset": "ppo"}, "critic": {"warmup_steps": 2}}
    run(colour_dataset, tiny_model, tmp_path / "run", steps=3, trajectories=None, **changes)
    start = load_file(tiny_model / "model.safetensors")
    waited = load_file(tmp_path / "run" / "checkpoints" / "step_2" / "model" / "model.safetensors")
    assert all(torch.equal(waited[name], weight) for name, weight in start.items())
    assert weights_of(tmp_path / "run", 3) != weights_of(tmp_path / "run", 2)
    rows = read_lines(tmp_path / "run" / "metrics.jsonl")
    assert ["update/loss" in row for row in rows] == [False, False, True]
    assert all(row["critic/grad_norm"] > 0 for row in rows)
    state = json.loads((tmp_path / "run" / "checkpoints" / "step_3" / "state.json").read_text())
    assert (state["optimizer_steps"], state["critic"]["optimizer_steps"]) == (1, 3)


def test_a_checkpoint_of_a_version_that_lacked_a_key_goes_on(
    colour_dataset: Path, tiny_model: Path, tmp_path: Path
) -> None:
    run(colour_dataset, tiny_model, tmp_path / "run", steps=1, trajectories=None)
    file = tmp_path / "run" / "checkpoints" / "step_1" / "state.json"
    state = json.loads(file.read_text())
    del state["config"]["critic"]
    file.write_text(json.dumps(state))
    assert run(colour_dataset, tiny_model, tmp_path / "run", steps=2, trajectories=None).steps == 2


@pytest.mark.slow
def test_a_killed_run_goes_on_without_losing_or_doubling_a_rollout(
    own_dataset: Path, tiny_model: Path, tmp_path: Path
) -> None:
    values = run_values(own_dataset, tiny_model, tmp_path / "run", steps=12, checkpoint__every=2)
    config = tmp_path / "config.json"
    config.write_text(json.dumps(values))
    command = [sys.executable, "-m", "vrltrain.cli", "run", str(config)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while len(checkpoint_steps(tmp_path / "run")) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    reached = checkpoint_steps(tmp_path / "run")[-1]
    assert 4 <= reached < 12
    subprocess.run(command, check=True, capture_output=True)
    rows = read_lines(tmp_path / "run" / "metrics.jsonl")
    assert [row["step"] for row in rows] == list(range(1, 13))
    stored = list(vrldata.open(own_dataset).iter_trajectories(filter="source = 'rollout'"))
    assert len({one.trajectory_id for one in stored}) == len(stored) == 12 * 4 * 4
    per_step = {step: sum(one.step == step for one in stored) for step in range(1, 13)}
    assert set(per_step.values()) == {16}
    assert not list((tmp_path / "run" / "checkpoints").glob(".*"))


def test_bad_samples_cost_only_themselves_and_are_counted(
    own_dataset: Path, tiny_model: Path, tmp_path: Path
) -> None:
    from vrldata.commits import merge_rows
    from vrldata.tables import sample_to_row
    from vrldata.types import Sample

    dataset = vrldata.open(own_dataset)
    good = next(dataset.iter_samples())
    bad = [
        Sample(sample_id="no-number", problem="?", answer="blue", problem_type="numerical", data_type="text"),
        Sample(
            sample_id="bad-answer",
            problem="?",
            answer="Z",
            problem_type="multiple_choice",
            options=("a", "b"),
            data_type="text",
        ),
        Sample(
            sample_id="lost-clip",
            problem="?",
            answer="A",
            problem_type="multiple_choice",
            options=("a", "b"),
            videos=good.videos,
            clip_ids=("0" * 64,),
            data_type="video",
        ),
    ]
    merge_rows(dataset, "samples", [sample_to_row(sample) for sample in bad])
    result = run(own_dataset, tiny_model, tmp_path / "run", steps=1, prompts_per_step=19)
    row = read_lines(tmp_path / "run" / "metrics.jsonl")[-1]
    assert result.failed_samples == row["data/failed_samples"] == 3
    assert row["data/drawn_samples"] == 19
    stored = {one.sample_id for one in dataset.iter_trajectories(filter="source = 'rollout'")}
    assert len(stored) == 16
    assert not stored & {"no-number", "bad-answer", "lost-clip"}


def test_a_step_in_which_too_much_fails_stops_the_run(
    own_dataset: Path, tiny_model: Path, tmp_path: Path
) -> None:
    with pytest.raises(RolloutError, match=r"4 of 4 samples of this step failed.*max_model_len=40"):
        run(own_dataset, tiny_model, tmp_path / "run", rollout__max_model_len=40)


def test_another_config_in_the_same_folder_is_an_error_that_names_the_key(
    colour_dataset: Path, tiny_model: Path, tmp_path: Path
) -> None:
    run(colour_dataset, tiny_model, tmp_path / "run", steps=1, trajectories=None)
    with pytest.raises(ConfigError, match=r"optim\.lr was 0\.001 and is 0\.5"):
        run(colour_dataset, tiny_model, tmp_path / "run", steps=2, optim__lr=0.5, trajectories=None)


def test_resume_without_a_checkpoint_is_an_error(
    colour_dataset: Path, tiny_model: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="no checkpoint"):
        run(colour_dataset, tiny_model, tmp_path / "run", resume=True)


def test_a_model_that_is_not_there_leaves_no_folder(colour_dataset: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such folder; a model on the Hub is named as"):
        run(colour_dataset, tmp_path / "missing", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_folder_that_another_process_works_on_is_an_error(
    colour_dataset: Path, tiny_model: Path, tmp_path: Path
) -> None:
    from vrltrain.run_folder import open_run_folder

    with open_run_folder(tmp_path / "run"), pytest.raises(ConfigError, match="another process"):
        run(colour_dataset, tiny_model, tmp_path / "run")


def test_only_the_newest_checkpoints_are_kept(colour_dataset: Path, tiny_model: Path, tmp_path: Path) -> None:
    run(colour_dataset, tiny_model, tmp_path / "run", steps=4, checkpoint__keep=2, trajectories=None)
    assert checkpoint_steps(tmp_path / "run") == [3, 4]


def test_an_offline_trajectory_joins_each_group_and_is_not_stored_again(
    own_dataset: Path, tiny_model: Path, tmp_path: Path
) -> None:
    run(own_dataset, tiny_model, tmp_path / "run", steps=1, algorithm={"preset": "luffy_mix"})
    row = read_lines(tmp_path / "run" / "metrics.jsonl")[-1]
    assert row["mix/offline_row_share"] == pytest.approx(1 / 4)
    assert row["update/offline_token_share"] > 0
    stored = list(vrldata.open(own_dataset).iter_trajectories(filter="source = 'rollout'"))
    assert len(stored) == 4 * 3


def test_mini_batches_and_epochs_take_that_many_optimizer_steps(
    colour_dataset: Path, tiny_model: Path, tmp_path: Path
) -> None:
    run(
        colour_dataset,
        tiny_model,
        tmp_path / "run",
        steps=1,
        update={"mini_batches": 2, "epochs": 2},
        trajectories=None,
    )
    state = json.loads((tmp_path / "run" / "checkpoints" / "step_1" / "state.json").read_text())
    assert state["optimizer_steps"] == 4
    assert read_lines(tmp_path / "run" / "metrics.jsonl")[-1]["update/ppo_kl"] != 0


def test_the_gradient_does_not_depend_on_the_size_of_micro_batches(
    colour_dataset: Path, tiny_model: Path, tmp_path: Path
) -> None:
    norms = []
    for number, limit in enumerate((100_000, 300, 1)):
        run(
            colour_dataset,
            tiny_model,
            tmp_path / str(number),
            steps=1,
            update={"max_tokens_per_micro_batch": limit},
            trajectories=None,
        )
        norms.append(read_lines(tmp_path / str(number) / "metrics.jsonl")[-1]["update/grad_norm"])
    assert norms[1] == pytest.approx(norms[0], rel=1e-4)
    assert norms[2] == pytest.approx(norms[0], rel=1e-4)


def test_ray_data_streams_the_same_samples_as_the_local_reader(
    colour_dataset: Path, tiny_model: Path, tmp_path: Path
) -> None:
    pytest.importorskip("ray")
    for reader in ("local", "ray"):
        run(colour_dataset, tiny_model, tmp_path / reader, steps=2, data__reader=reader, trajectories=None)
    assert weights_of(tmp_path / "local", 2) == weights_of(tmp_path / "ray", 2)


@pytest.mark.slow
def test_the_reward_goes_up_on_a_task_that_only_the_frames_can_solve(
    colour_dataset: Path, practised_model: Path, tmp_path: Path
) -> None:
    run(
        colour_dataset,
        practised_model,
        tmp_path / "run",
        steps=30,
        prompts_per_step=8,
        rollout__n=8,
        checkpoint__every=30,
        data__val=str(colour_dataset),
        trajectories=None,
    )
    rows = read_lines(tmp_path / "run" / "metrics.jsonl")
    accuracy = [row["reward/accuracy_mean"] for row in rows if row["step"] > 0]
    first, last = sum(accuracy[:5]) / 5, sum(accuracy[-5:]) / 5
    assert last > first + 0.3, (first, last)
    assert last > 0.75, (first, last)
    assert rows[-1]["validation/accuracy/mean_at_n"] > rows[0]["validation/accuracy/mean_at_n"]

"""Two ranks with FSDP2 over gloo take the step that one process takes, whatever each rank has to look at."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.train.colour_clips import run_values
from tests.train.one_update import MEDIA
from vrltrain.checkpoint import checkpoint_folder
from vrltrain.files import read_lines

pytestmark = pytest.mark.slow
PROJECT = Path(__file__).resolve().parents[2]


def start_ranks(world_size: int, arguments: list[str]) -> None:
    """Run `python arguments` as that many ranks, as torchrun would start them."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    shared = {"WORLD_SIZE": str(world_size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    processes = [
        subprocess.Popen(
            [sys.executable, *arguments],
            cwd=PROJECT,
            env={**os.environ, **shared, "RANK": str(rank), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(world_size)
    ]
    outputs = [process.communicate(timeout=300)[0] for process in processes]
    assert all(process.returncode == 0 for process in processes), "\n".join(outputs)


@pytest.fixture(scope="module")
def updates(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """Folder with the results of every case, by number of ranks."""
    folders = {}
    for world_size in (1, 2):
        folders[world_size] = tmp_path_factory.mktemp("updates")
        start_ranks(world_size, ["-m", "tests.train.one_update", str(tiny_model), str(folders[world_size])])
    return folders


def assert_same_step(start: Path, updates: dict[int, Path], name: str) -> None:
    """Both numbers of ranks moved every weight by the same, and moved some of them far."""
    before = load_file(start / "model.safetensors")
    one, two = (load_file(updates[size] / f"{name}.safetensors") for size in (1, 2))
    assert set(one) == set(two)
    moved = max(float((one[key] - before[key]).abs().max()) for key in set(one) & set(before))
    apart = max(float((one[key] - two[key]).abs().max()) for key in one)
    assert moved > 1e-2
    assert apart < 1e-4 * max(moved, 1.0)


def assert_same_figures(updates: dict[int, Path], name: str, *keys: str) -> None:
    one, two = (json.loads((updates[size] / f"{name}.json").read_text()) for size in (1, 2))
    for key in ("update/loss", "update/grad_norm", "kl/mean", "update/entropy", *keys):
        assert one[key] == pytest.approx(two[key], rel=1e-3, abs=1e-6), key


@pytest.mark.parametrize("case", sorted(MEDIA))
def test_two_ranks_take_the_step_of_one(tiny_model: Path, updates: dict[int, Path], case: str) -> None:
    assert_same_step(tiny_model, updates, f"{case} grpo policy")
    assert_same_figures(updates, f"{case} grpo")


@pytest.mark.parametrize("case", ["mixed", "one rank has text alone"])
def test_two_ranks_take_the_step_of_one_with_a_critic_and_the_full_kl(
    tiny_model: Path, updates: dict[int, Path], case: str
) -> None:
    assert_same_step(tiny_model, updates, f"{case} ppo policy")
    assert_same_step(tiny_model, updates, f"{case} ppo critic")
    assert_same_figures(updates, f"{case} ppo", "critic/loss", "critic/grad_norm", "critic/values_mean")


def test_a_run_of_one_rank_goes_on_with_two(own_dataset: Path, tiny_model: Path, tmp_path: Path) -> None:
    """With all that a checkpoint may hold: a critic, a moving reference, a batch ahead of its step."""
    algorithm = {
        "preset": "ppo",
        "ref_update_steps": 1,
        "max_staleness": 1,
        "correction": {"level": "token"},
    }
    config = tmp_path / "config.json"
    for world_size, steps in ((1, 1), (2, 3)):
        values = run_values(
            own_dataset,
            tiny_model,
            tmp_path / "run",
            steps=steps,
            algorithm=algorithm,
            critic={"optim": {"lr": 1e-3}},
        )
        config.write_text(json.dumps(values))
        start_ranks(world_size, ["-m", "vrltrain.cli", "run", str(config)])
    rows = read_lines(tmp_path / "run" / "metrics.jsonl")
    assert [row["step"] for row in rows] == [1, 2, 3]
    assert all(row["update/grad_norm"] > 0 and row["critic/grad_norm"] > 0 for row in rows)
    assert abs(rows[1]["mismatch/k3_kl"]) < 1e-6
    assert rows[2]["staleness/groups_1"] == 4
    two, three = (
        load_file(checkpoint_folder(tmp_path / "run", step) / "critic.safetensors") for step in (2, 3)
    )
    assert set(two) == set(three)
    assert not torch.equal(two["value_head.weight"], three["value_head.weight"])

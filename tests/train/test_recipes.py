"""Every recipe in `recipes/algorithms` names its preset and validates; those with own parts train."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from vrldata.config import load_config
from vrltrain.algorithms.presets import PRESETS
from vrltrain.cli import app
from vrltrain.configs import RunConfig
from vrltrain.files import read_lines
from vrltrain.loop import train

RECIPES = Path(__file__).resolve().parents[2] / "recipes" / "algorithms"
SMALL = ("steps=1", "prompts_per_step=2", "rollout.n=4", "rollout.max_tokens=16", "data.val=null")


def recipe(name: str, dataset: Path, model: Path, run_dir: Path, *overrides: str) -> RunConfig:
    places = (f"data.train={dataset}", f"model.path={model}", f"run_dir={run_dir}")
    return load_config(RunConfig, RECIPES / f"{name}.yaml", [*places, *overrides])


def test_every_preset_has_a_recipe() -> None:
    assert {file.stem for file in RECIPES.glob("*.yaml")} == set(PRESETS)


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_recipe_selects_its_preset_and_keeps_its_estimator(name: str) -> None:
    algorithm = load_config(RunConfig, RECIPES / f"{name}.yaml").algorithm
    assert algorithm.preset == name
    assert algorithm.adv_estimator == PRESETS[name]["adv_estimator"]
    assert algorithm.loss_type == PRESETS[name].get("loss_type", "ppo")


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_recipe_passes_a_dry_run(name: str, colour_dataset: Path, tiny_model: Path, tmp_path: Path) -> None:
    places = [f"data.train={colour_dataset}", f"model.path={tiny_model}", f"run_dir={tmp_path / 'run'}"]
    result = CliRunner().invoke(app, ["run", str(RECIPES / f"{name}.yaml"), *places, "--dry-run"])
    assert result.exit_code == 0, result.output
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["dapo", "gdpo", "luffy_mix", "remax"])
def test_recipe_trains_one_step(name: str, own_dataset: Path, tiny_model: Path, tmp_path: Path) -> None:
    result = train(recipe(name, own_dataset, tiny_model, tmp_path / "run", *SMALL))
    (row,) = read_lines(tmp_path / "run" / "metrics.jsonl")
    assert result.steps == row["step"] == 1
    assert result.failed_samples == 0
    assert 0.0 <= row["reward/accuracy_mean"] <= 1.0

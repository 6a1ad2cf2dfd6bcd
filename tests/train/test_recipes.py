"""Every recipe validates and trains, and does what its first lines say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import vrldata
from vrldata.cli import app as vrldata_app
from vrldata.config import load_config
from vrltrain.checkpoint import checkpoint_folder, load_state
from vrltrain.cli import app
from vrltrain.configs import RolloutsConfig, RunConfig
from vrltrain.files import read_lines
from vrltrain.loop import train
from vrltrain.presets import PRESETS
from vrltrain.sample_responses import sample_responses

ALL = Path(__file__).resolve().parents[2] / "recipes"
RECIPES = ALL / "algorithms"
SMALL = ("steps=1", "prompts_per_step=2", "rollout.n=4", "rollout.max_tokens=16", "data.val=null")


def recipe(name: str, dataset: Path, model: Path, run_dir: Path, *overrides: str) -> RunConfig:
    places = (f"data.train={dataset}", f"model.path={model}", f"run_dir={run_dir}")
    return load_config(RunConfig, ALL / f"{name}.yaml", [*places, *overrides])


def run(name: str, dataset: Path, model: Path, run_dir: Path, *overrides: str) -> list[dict[str, Any]]:
    """Figures of the steps of a small run."""
    result = train(recipe(name, dataset, model, run_dir, *SMALL, *overrides))
    assert result.failed_samples == 0
    rows = read_lines(run_dir / "metrics.jsonl")
    assert [row["step"] for row in rows] == list(range(1, result.steps + 1))
    assert all(row["update/skipped_steps"] == 0 for row in rows)
    return rows


def test_every_preset_has_a_recipe() -> None:
    assert {file.stem for file in RECIPES.glob("*.yaml")} == set(PRESETS)


def test_the_page_about_algorithms_names_every_preset_and_recipe() -> None:
    page = (ALL.parent / "docs" / "algorithms.md").read_text()
    assert {name for name in PRESETS if f"| `{name}` |" not in page} == set()
    others = {"demo-grpo", "demo-sft", "quickstart", "rollouts"}
    assert {f.stem for f in ALL.glob("*.yaml") if f"recipes/{f.name}" not in page} == others


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


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_recipe_trains_one_step(name: str, own_dataset: Path, tiny_model: Path, tmp_path: Path) -> None:
    own = {"ppo": ["critic.warmup_steps=0"], "grpo_passk": ["prompts_per_step=8"]}.get(name, [])
    (row,) = run(f"algorithms/{name}", own_dataset, tiny_model, tmp_path / "run", *own)
    assert 0.0 <= row["reward/accuracy_mean"] <= 1.0
    assert row["update/grad_norm"] > 0


def test_replay_brings_back_the_best_response_of_the_run_itself(
    own_dataset: Path, tiny_model: Path, tmp_path: Path
) -> None:
    options = ("algorithm.mix.when=always", "steps=3", "prompts_per_step=16", "rollout.max_tokens=8")
    first, second, third = run("mixing/replay", own_dataset, tiny_model, tmp_path / "run", *options)
    assert first["mix/offline_row_share"] == 0  # nothing to replay yet
    assert 0 < second["mix/offline_row_share"] <= 1 / 4
    assert second["mix/accuracy_mean"] == third["mix/accuracy_mean"] == 1.0
    assert third["mix/offline_row_share"] >= second["mix/offline_row_share"]
    kept = load_state(checkpoint_folder(tmp_path / "run", 3))["replay"]["rows"]
    assert all(
        len(rows) == 1 and rows[0]["accuracy"] == 1.0 and rows[0]["log_probs"] for rows in kept.values()
    )


def test_a_schedule_mixes_fewer_and_fewer_groups(own_dataset: Path, tiny_model: Path, tmp_path: Path) -> None:
    options = ("algorithm.mix.schedule_steps=2", "steps=3", "prompts_per_step=16", "rollout.max_tokens=8")
    rows = run("mixing/schedule", own_dataset, tiny_model, tmp_path / "run", *options)
    shares = [row["mix/offline_row_share"] for row in rows]
    assert shares[0] == pytest.approx(1 / 4)
    assert 0 < shares[1] < 1 / 4
    assert shares[2] == 0


def test_a_probability_mixes_some_groups_as_supervised_rows(
    own_dataset: Path, tiny_model: Path, tmp_path: Path
) -> None:
    options = ("prompts_per_step=16", "rollout.max_tokens=8")
    (row,) = run("mixing/probability", own_dataset, tiny_model, tmp_path / "run", *options)
    assert 0 < row["mix/offline_row_share"] < 1 / 4
    assert row["update/offline_loss"] > 0


def test_sql_chooses_the_trajectories_that_join_groups_below_the_threshold(
    own_dataset: Path, tiny_model: Path, tmp_path: Path
) -> None:
    samples = vrldata.open(f"{own_dataset}?split=train").iter_samples()
    chosen = ", ".join(f"'{name}'" for name in sorted(sample.sample_id for sample in samples)[:6])
    query = f"SELECT trajectory_id FROM trajectories WHERE sample_id IN ({chosen})"
    options = ("prompts_per_step=16", "rollout.max_tokens=8", f"algorithm.mix.sql={query}")
    shares = []
    for threshold in (1.0, 1e-9):
        gate = f"algorithm.mix.threshold={threshold}"
        run_dir = tmp_path / str(threshold)
        (row,) = run("mixing/sql", own_dataset, tiny_model, run_dir, *options, gate, "rollout.n=16")
        shares.append(row["mix/offline_row_share"])
    assert shares[0] == pytest.approx(6 / (16 * 16))
    assert shares[1] < shares[0]


def test_pass_rates_cut_and_order_the_questions_of_a_run(
    own_dataset: Path, tiny_model: Path, tmp_path: Path
) -> None:
    """From sampling to pass rates to a run on what is solved sometimes, easy questions first."""
    sampling = load_config(
        RolloutsConfig,
        ALL / "rollouts.yaml",
        [
            f"data.train={own_dataset}?split=train",
            f"model.path={tiny_model}",
            "run_id=base",
            "rollout.engine=transformers",
            "rollout.n=6",
            "rollout.max_tokens=8",
            "rollout.max_model_len=512",
        ],
    )
    sample_responses(sampling)
    called = CliRunner().invoke(vrldata_app, ["pass-rate", str(own_dataset), "--run", "base", "--write"])
    assert called.exit_code == 0, called.output
    rates = {sample.sample_id: sample.pass_rate for sample in vrldata.open(own_dataset).iter_samples()}
    frontier = {name for name, rate in rates.items() if rate is not None and 0 < rate < 1}
    assert 0 < len(frontier) < 20
    uri = Path(f"{own_dataset}?filter=pass_rate > 0 AND pass_rate < 1")
    options = (f"steps={len(frontier)}", "prompts_per_step=1", "rollout.max_tokens=8")
    run("curriculum", uri, tiny_model, tmp_path / "run", *options)
    stored = vrldata.open(own_dataset).iter_trajectories(filter="run_id != 'base' AND source = 'rollout'")
    asked = dict(sorted({one.step: one.sample_id for one in stored}.items()))
    assert set(asked.values()) == frontier
    classes = [min(int((rates[name] or 0) * 5), 4) for name in asked.values()]
    assert classes == sorted(classes, reverse=True)


def test_one_step_off_recipe_trains_on_rollouts_of_the_update_before(
    own_dataset: Path, tiny_model: Path, tmp_path: Path
) -> None:
    rows = run("one-step-off", own_dataset, tiny_model, tmp_path / "run", "steps=3")
    assert [row.get("staleness/groups_1") for row in rows] == [None, 2.0, 2.0]


KL_CHOICES = [
    ("algorithm.kl_kind=full",),
    ("algorithm.kl_kind=full", "algorithm.kl_grad=k2"),
    ("algorithm.kl_kind=kl",),
    ("algorithm.kl_kind=abs",),
    ("algorithm.kl_kind=mse",),
    ("algorithm.kl_kind=low_var_kl", "algorithm.kl_grad=k2"),
    ("algorithm.kl_kind=low_var_kl", "algorithm.kl_in=reward"),
    ("algorithm.kl_kind=abs", "algorithm.kl_in=reward"),
    ("algorithm.kl_kind=mse", "algorithm.kl_in=reward"),
]


@pytest.mark.parametrize("choices", KL_CHOICES, ids=" ".join)
def test_kl_recipe_trains_with_each_of_its_choices(
    colour_dataset: Path, tiny_model: Path, tmp_path: Path, choices: tuple[str, ...]
) -> None:
    options = ("trajectories=null", "steps=2", "rollout.max_tokens=8", *choices)
    first, second = run("kl", colour_dataset, tiny_model, tmp_path / "run", *options)
    assert first["kl/mean"] == pytest.approx(0.0, abs=1e-6)  # the policy still is its reference
    assert abs(second["kl/mean"]) > 1e-6
    assert second["kl/coef"] < first["kl/coef"] == 0.05  # the KL is below its target
    if "algorithm.kl_kind=full" in choices:
        assert second["kl/mean"] > 0


CORRECTION = "algorithm.correction"
CORRECTION_CHOICES = [
    (),
    (f"{CORRECTION}.level=sequence", f"{CORRECTION}.batch_normalise=true"),
    (f"{CORRECTION}.reject=token", f"{CORRECTION}.reject_low=0.5", f"{CORRECTION}.reject_high=2"),
    (f"{CORRECTION}.reject=geometric", f"{CORRECTION}.reject_high=1.5"),
    (f"{CORRECTION}.level=none", f"{CORRECTION}.reject=seq_max", f"{CORRECTION}.reject_high=1.5"),
    ("algorithm.loss_avg=seq_sum",),
]


@pytest.mark.parametrize("choices", CORRECTION_CHOICES, ids=" ".join)
def test_corrections_recipe_trains_with_each_of_its_choices(
    colour_dataset: Path, tiny_model: Path, tmp_path: Path, choices: tuple[str, ...]
) -> None:
    options = ("trajectories=null", "prompts_per_step=4", "rollout.max_tokens=8", *choices)
    (row,) = run("corrections", colour_dataset, tiny_model, tmp_path / "run", *options)
    assert row["mismatch/k3_kl"] > 0  # bfloat16 is not float32
    assert 0 <= row["correction/rejected_share"] <= 1
    assert ("correction/weight_mean" in row) == (f"{CORRECTION}.level=none" not in choices)
    assert row["update/grad_norm"] > 0
    assert 1 <= row["filter/tries"] <= 3

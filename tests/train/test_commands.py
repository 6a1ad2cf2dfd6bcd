"""The commands beside `run`, as a user calls them, and what they say when something is wrong."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import vrldata
from tests.train.colour_clips import run_values
from vrldata.config import validate_config
from vrldata.errors import ConfigError
from vrltrain.checkpoint import checkpoint_steps
from vrltrain.commands.run import summary_text
from vrltrain.configs import DataConfig, RolloutsConfig, RunConfig, SftConfig
from vrltrain.data_checks import check_data
from vrltrain.export import export_model
from vrltrain.files import read_lines
from vrltrain.plan import describe_plan, plan_run
from vrltrain.sample_responses import sample_responses
from vrltrain.sft import fine_tune, step_rows

PROJECT = Path(__file__).resolve().parents[2]


def sft_config(dataset: Path, model: Path, run_dir: Path, **changes: object) -> SftConfig:
    values: dict[str, object] = {
        "run_dir": str(run_dir),
        "model": {"path": str(model)},
        "data": {"train": f"{dataset}?split=train"},
        "optim": {"lr": 2e-3},
        "steps": 6,
        "rows_per_step": 8,
        "checkpoint": {"every": 3},
        **changes,
    }
    return validate_config(SftConfig, values, source="test")


def call(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "vrltrain.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=PROJECT, check=False)


def test_sft_lowers_the_loss_and_resumes_bit_for_bit(
    colour_dataset: Path, tiny_model: Path, tmp_path: Path
) -> None:
    whole = fine_tune(sft_config(colour_dataset, tiny_model, tmp_path / "whole"))
    fine_tune(sft_config(colour_dataset, tiny_model, tmp_path / "parts", steps=3, optim={"lr": 2e-3}))
    fine_tune(sft_config(colour_dataset, tiny_model, tmp_path / "parts"), resume=True)
    rows = read_lines(tmp_path / "whole" / "metrics.jsonl")
    assert whole.rows == 16
    assert rows[-1]["update/loss"] < rows[0]["update/loss"]
    files = [
        (tmp_path / name / "checkpoints" / "step_6" / "model" / "model.safetensors").read_bytes()
        for name in ("whole", "parts")
    ]
    assert files[0] == files[1]


def test_sft_without_a_usable_trajectory_is_an_error_that_shows_the_filter(
    colour_dataset: Path, tiny_model: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=r"no trajectory to learn under filter \"source = 'nobody'\""):
        fine_tune(sft_config(colour_dataset, tiny_model, tmp_path / "run", filter="source = 'nobody'"))


def test_every_row_comes_up_once_an_epoch() -> None:
    config = SftConfig(model={"path": "m"}, data={"train": "d"}, rows_per_step=4)  # type: ignore[arg-type]
    first_epoch = [row for step in (1, 2, 3) for row in step_rows(6, step, config)][:6]
    assert sorted(first_epoch) == list(range(6))


def test_rollouts_are_stored_once_and_a_second_call_goes_on(own_dataset: Path, tiny_model: Path) -> None:
    values: dict[str, object] = {
        "model": {"path": str(tiny_model)},
        "data": {"train": f"{own_dataset}?split=train"},
        "rollout": {"engine": "transformers", "n": 3, "max_tokens": 8, "max_model_len": 512},
        "run_id": "base",
        "limit": 5,
        "batch_size": 2,
    }
    first = sample_responses(validate_config(RolloutsConfig, values, source="test"))
    second = sample_responses(validate_config(RolloutsConfig, {**values, "limit": 8}, source="test"))
    assert (first.samples, first.stored, first.skipped, first.failed) == (5, 15, 0, 0)
    assert (second.samples, second.stored, second.skipped) == (3, 9, 5)
    stored = list(vrldata.open(own_dataset).iter_trajectories(filter="run_id = 'base'"))
    assert len(stored) == 24
    assert all(one.reward is not None and one.source == "rollout" for one in stored)


def test_export_gives_a_model_folder_in_the_precision_asked_for(
    colour_dataset: Path, tiny_model: Path, tmp_path: Path
) -> None:
    import torch
    from transformers import AutoModelForImageTextToText

    fine_tune(sft_config(colour_dataset, tiny_model, tmp_path / "run", steps=1, checkpoint={"every": 1}))
    made = export_model(tmp_path / "run", tmp_path / "model", dtype="bfloat16")
    model = AutoModelForImageTextToText.from_pretrained(tmp_path / "model")
    assert made["step"] == 1
    assert {weight.dtype for weight in model.parameters()} == {torch.bfloat16}
    with pytest.raises(ConfigError, match=r"no checkpoint of step 7; there are 1"):
        export_model(tmp_path / "run", tmp_path / "other", step=7)
    with pytest.raises(ConfigError, match="no checkpoint there"):
        export_model(tmp_path, tmp_path / "other")


def test_a_dry_run_plans_and_starts_nothing(colour_dataset: Path, tiny_model: Path, tmp_path: Path) -> None:
    values = run_values(colour_dataset, tiny_model, tmp_path / "run")
    plan = plan_run(validate_config(RunConfig, values, source="test"))
    assert plan["data"]["samples"] == 16
    assert plan["data"]["by_type"] == {"multiple_choice": 16}
    assert plan["data"]["visual_tokens_max"] == 2 * 2 * 2
    assert plan["batches"]["rows_per_step"] == 16
    assert plan["memory"]["parameters"] > 500_000
    assert not (tmp_path / "run").exists()


def test_the_text_of_a_dry_run_ends_with_the_config(
    colour_dataset: Path, tiny_model: Path, tmp_path: Path
) -> None:
    values = run_values(colour_dataset, tiny_model, tmp_path / "run")
    text = describe_plan(plan_run(validate_config(RunConfig, values, source="test")))
    assert text.startswith("data:\n  samples: 16\n")
    plan, _, config = text.partition("\nconfig:\n")
    assert "memory:" in plan
    assert yaml.safe_load(config)["steps"] == 2


def test_a_dry_run_on_a_model_folder_imports_no_torch(
    colour_dataset: Path, tiny_model: Path, tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(run_values(colour_dataset, tiny_model, tmp_path / "run")))
    program = (
        "import sys; from vrldata.config import load_config; from vrltrain.configs import RunConfig;"
        "from vrltrain.plan import plan_run; plan_run(load_config(RunConfig, sys.argv[1]));"
        "print([name for name in ('torch', 'transformers', 'ray', 'vllm') if name in sys.modules])"
    )
    command = [sys.executable, "-c", program, str(config)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=PROJECT, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("dry_run", [(), ("--dry-run",)])
def test_a_split_that_is_not_there_is_told_with_those_that_are(
    dry_run: tuple[str, ...], colour_dataset: Path, tmp_path: Path
) -> None:
    (tmp_path / "model").mkdir()
    config = tmp_path / "config.yaml"
    config.write_text(
        yaml.safe_dump(run_values(Path(f"{colour_dataset}?split=foo"), tmp_path / "model", tmp_path / "run"))
    )
    done = call("run", str(config), *dry_run)
    assert done.returncode == 2
    assert "no sample in split 'foo'; samples by split: train 16, val 4" in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_filter_that_selects_nothing_is_told(
    colour_dataset: Path, tiny_model: Path, tmp_path: Path
) -> None:
    uri = Path(f"{colour_dataset}?filter=problem_type = 'ocr'")
    with pytest.raises(ConfigError, match="its filter and limit select no sample of split 'train'"):
        plan_run(validate_config(RunConfig, run_values(uri, tiny_model, tmp_path / "run"), source="test"))


def test_a_misspelt_model_folder_is_refused_without_asking_the_hub(
    colour_dataset: Path, tmp_path: Path
) -> None:
    values = run_values(colour_dataset, Path("nomodel"), tmp_path / "run")
    with pytest.raises(ConfigError, match=r"model.path='nomodel': no such folder"):
        plan_run(validate_config(RunConfig, values, source="test"))


def test_validation_without_a_question_is_left_out_with_a_warning(
    colour_dataset: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = DataConfig(train=str(colour_dataset), val=f"{colour_dataset}?split=vall")
    with caplog.at_level(logging.WARNING, logger="vrltrain"):
        counts = check_data(data)
    assert counts == {"train": {"multiple_choice": 16}}
    (warning,) = caplog.messages
    assert "no sample in split 'vall'; samples by split: train 16, val 4; validation is left out" in warning


def test_wrong_input_is_one_clear_line_and_exit_code_2(
    colour_dataset: Path, tiny_model: Path, tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(run_values(colour_dataset, tiny_model, tmp_path / "run")))
    unknown = call("run", str(config), "optim.learning_rate=1")
    assert unknown.returncode == 2
    assert "unknown key 'optim.learning_rate'" in unknown.stderr
    nowhere = call("run", str(config), f"data.train={tmp_path / 'nowhere'}")
    assert nowhere.returncode == 2
    assert "does not exist" in nowhere.stderr
    contradiction = call("run", str(config), "rollout.top_p=0.9")
    assert contradiction.returncode == 2
    assert "algorithm.correction" in contradiction.stderr
    for done in (unknown, nowhere, contradiction):
        assert "Traceback" not in done.stderr


def test_a_run_prints_json_for_machines(own_dataset: Path, tiny_model: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    values = run_values(own_dataset, tiny_model, tmp_path / "run", steps=1, data__val=str(own_dataset))
    config.write_text(yaml.safe_dump({**values, "validation": {"before": True, "after": True}}))
    done = call("-q", "run", str(config), "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["steps"] == 1
    assert checkpoint_steps(tmp_path / "run") == [1]
    assert {step: row["validation/samples"] for step, row in result["validation"].items()} == {"0": 4, "1": 4}


def test_the_last_lines_of_a_run_compare_its_first_and_last_validation() -> None:
    figures = {
        step: {"validation/accuracy_of_all": accuracy, "validation/samples": 4.0}
        for step, accuracy in ((0, 0.25), (5, 0.5), (10, 0.75))
    }
    summary = {"run_id": "r", "steps": 10, "failed_samples": 0, "report": "r/report.html", "metrics": {}}
    shown = summary_text({**summary, "validation": figures})
    assert "validation accuracy    0.2500 (step 0) -> 0.7500 (step 10), 4 questions" in shown
    assert "validation" not in summary_text({**summary, "validation": {}})


@pytest.mark.parametrize("recipe", sorted(path.name for path in (PROJECT / "recipes").glob("*.yaml")))
def test_every_recipe_is_a_valid_config(recipe: str) -> None:
    from vrldata.config import load_config

    kinds = {"demo-sft.yaml": SftConfig, "rollouts.yaml": RolloutsConfig}
    load_config(kinds.get(recipe, RunConfig), PROJECT / "recipes" / recipe)

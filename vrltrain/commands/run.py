"""`vrltrain run`: train by reinforcement learning."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from vrldata.command_line import PARTLY_FAILED, JsonOption, print_result

OVERRIDES_HELP = "Values in place of the file's, such as optim.lr=1e-6."


def run(
    config: Annotated[Path, typer.Argument(help="Config file (YAML).")],
    overrides: Annotated[list[str] | None, typer.Argument(help=OVERRIDES_HELP)] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Insist on a checkpoint to go on from; without it one is used if there."
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan and the resolved config, and start nothing.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Train a model by reinforcement learning on a dataset. The same command again goes on after a stop.

    Example: vrltrain run recipes/demo-grpo.yaml data.train=clips@v1 model.path=tiny run_dir=runs/first
    """
    from vrldata.config import load_config
    from vrltrain.configs import RunConfig

    loaded = load_config(RunConfig, config, overrides or [])
    if dry_run:
        from vrltrain.plan import describe_plan, plan_run

        print_result(plan_run(loaded), as_json=as_json, text=describe_plan)
        return
    from vrltrain.data_checks import check_places
    from vrltrain.libraries import quiet_libraries

    check_places(loaded.data, loaded.model.path, run_dir=loaded.run_dir)
    quiet_libraries()
    from vrltrain.loop import train

    command = " ".join(["vrltrain run", str(config), *(overrides or [])])
    result = train(loaded, resume=resume, command=command)
    if os.environ.get("RANK", "0") != "0":
        return
    summary: dict[str, Any] = {
        "run_dir": str(result.run_dir),
        "run_id": result.run_id,
        "steps": result.steps,
        "failed_samples": result.failed_samples,
        "report": str(result.run_dir / "report.html"),
        "metrics": result.metrics,
        "validation": result.validation,
    }
    print_result(summary, as_json=as_json, text=summary_text)
    if result.failed_samples:
        raise typer.Exit(PARTLY_FAILED)


def summary_text(summary: dict[str, Any]) -> str:
    """The last lines of a run."""
    lines = [f"{summary['run_id']}: {summary['steps']} steps done"]
    for name in (
        "reward/overall_mean",
        "reward/accuracy_mean",
        "update/loss",
        "update/grad_norm",
        "time/step_s",
    ):
        if name in summary["metrics"]:
            lines.append(f"  {name:<22} {summary['metrics'][name]:.4f}")
    if summary["validation"]:
        lines.append(_validation_line(summary["validation"]))
    if summary["failed_samples"]:
        lines.append(f"  {summary['failed_samples']} samples were left out; the log gives each reason")
    lines.append(f"  report                 {summary['report']}")
    return "\n".join(lines)


def _validation_line(validation: dict[int, dict[str, float]]) -> str:
    """Accuracy over all questions of the first and the last validation."""
    steps = sorted(validation)
    shown = [
        f"{validation[step]['validation/accuracy_of_all']:.4f} (step {step})"
        for step in dict.fromkeys((steps[0], steps[-1]))
    ]
    num_questions = validation[steps[-1]]["validation/samples"]
    return f"  validation accuracy    {' -> '.join(shown)}, {num_questions:.0f} questions"

"""`vrltrain sft`: supervised warm-up on stored trajectories."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from vrldata.command_line import JsonOption, print_result
from vrltrain.commands.run import OVERRIDES_HELP


def sft(
    config: Annotated[Path, typer.Argument(help="Config file (YAML).")],
    overrides: Annotated[list[str] | None, typer.Argument(help=OVERRIDES_HELP)] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Insist on a checkpoint to go on from.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Teach a model the trajectories of a dataset before reinforcement learning.

    Example: vrltrain sft recipes/demo-sft.yaml data.train=clips@v1 model.path=tiny run_dir=runs/sft
    """
    from vrldata.config import load_config
    from vrltrain.configs import SftConfig

    loaded = load_config(SftConfig, config, overrides or [])
    from vrltrain.data_checks import check_places
    from vrltrain.libraries import quiet_libraries

    check_places(loaded.data, loaded.model.path, run_dir=loaded.run_dir, split=None)
    quiet_libraries()
    from vrltrain.sft import fine_tune

    command = " ".join(["vrltrain sft", str(config), *(overrides or [])])
    result = fine_tune(loaded, resume=resume, command=command)
    if os.environ.get("RANK", "0") != "0":
        return
    summary: dict[str, Any] = {
        "run_dir": str(result.run_dir),
        "steps": result.steps,
        "trajectories": result.rows,
        "left_out": result.left_out,
        "loss": result.metrics.get("update/loss"),
    }
    print_result(
        summary,
        as_json=as_json,
        text=lambda done: (
            f"{done['run_dir']}: {done['steps']} steps on {done['trajectories']} trajectories, "
            f"loss {done['loss'] if done['loss'] is None else round(done['loss'], 4)}"
            + (f", left out {done['left_out']}" if done["left_out"] else "")
        ),
    )

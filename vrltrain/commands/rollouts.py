"""`vrltrain rollouts`: sample, score and store responses."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from vrldata.command_line import PARTLY_FAILED, JsonOption, print_result
from vrltrain.commands.run import OVERRIDES_HELP


def rollouts(
    config: Annotated[Path, typer.Argument(help="Config file (YAML).")],
    overrides: Annotated[list[str] | None, typer.Argument(help=OVERRIDES_HELP)] = None,
    as_json: JsonOption = False,
) -> None:
    """Sample responses to every question, score and store them. The same command again goes on after a stop.

    Example: vrltrain rollouts recipes/rollouts.yaml data.train=clips@v1 model.path=tiny run_id=base
    """
    from vrldata.config import load_config
    from vrltrain.configs import RolloutsConfig

    loaded = load_config(RolloutsConfig, config, overrides or [])
    from vrltrain.data_checks import check_places
    from vrltrain.libraries import quiet_libraries

    check_places(loaded.data, loaded.model.path, split=None)
    quiet_libraries()
    from vrltrain.sample_responses import sample_responses

    result = sample_responses(loaded)
    summary = {"run_id": loaded.run_id, **dataclasses.asdict(result)}
    print_result(
        summary,
        as_json=as_json,
        text=lambda done: (
            f"{done['run_id']}: {done['samples']} questions, {done['stored']} responses stored, "
            f"{done['skipped']} done before, {done['failed']} failed, "
            f"accuracy {'unknown' if done['accuracy'] is None else round(done['accuracy'], 4)}, "
            f"{done['seconds']:.0f} s"
        ),
    )
    if result.failed:
        raise typer.Exit(PARTLY_FAILED)

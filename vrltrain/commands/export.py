"""`vrltrain export`: a checkpoint as a model folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vrldata.command_line import JsonOption, print_result


def export(
    run_dir: Annotated[Path, typer.Argument(help="Folder of a run.")],
    out: Annotated[Path, typer.Argument(help="Model folder to make.")],
    step: Annotated[int | None, typer.Option(help="Checkpoint to take; the newest by default.")] = None,
    dtype: Annotated[
        str | None, typer.Option(help="float32, bfloat16 or float16; as trained by default.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write the model of a run as a folder that transformers and vLLM load.

    Example: vrltrain export runs/first model --dtype bfloat16
    """
    from vrltrain.export import export_model

    print_result(
        export_model(run_dir, out, step=step, dtype=dtype),
        as_json=as_json,
        text=lambda made: f"{made['path']}: model of step {made['step']}, {made['bytes'] / 1e6:.1f} MB",
    )

"""`vrltrain tiny-model`: make a tiny model for tests and demos."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from vrldata.command_line import JsonOption, print_result

logger = logging.getLogger(__name__)


def tiny_model(
    out: Annotated[Path, typer.Argument(help="Folder to make.")],
    family: Annotated[str, typer.Option(help="qwen3-vl, qwen2.5-vl or qwen2-vl.")] = "qwen3-vl",
    seed: Annotated[int, typer.Option(help="The same seed gives the same model.")] = 0,
    warm_up_steps: Annotated[
        int, typer.Option(min=0, help="Steps that teach the form of answers; 0 leaves the weights random.")
    ] = 150,
    as_json: JsonOption = False,
) -> None:
    """Make a tiny random model with tokenizer and processor, which transformers and vLLM load as any other.

    Example: vrltrain tiny-model tiny --family qwen3-vl
    """
    from vrltrain.libraries import quiet_libraries
    from vrltrain.tiny_model import make_tiny_model

    quiet_libraries()
    logger.info("making a tiny %s model", family)
    result = make_tiny_model(out, family, seed=seed, warm_up_steps=warm_up_steps)
    print_result(
        result,
        as_json=as_json,
        text=lambda made: (
            f"{made['path']}: {made['family']}, {made['parameters']:,} parameters, "
            f"vocabulary {made['vocabulary']}"
        ),
    )

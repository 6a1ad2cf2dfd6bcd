"""`vrltrain export`: the model of a run's checkpoint as a folder that transformers and vLLM load."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from vrldata.errors import ConfigError
from vrltrain.checkpoint import checkpoint_folder, checkpoint_steps
from vrltrain.files import publish_folder, write_json

DTYPE_NAMES = ("float32", "bfloat16", "float16")


def export_model(
    run_dir: str | Path, out: str | Path, *, step: int | None = None, dtype: str | None = None
) -> dict[str, Any]:
    """Copy the model of a checkpoint to `out`; returns what was written.

    Args:
        step: of the checkpoint; None takes the newest.
        dtype: convert the weights; None leaves them as they were trained.

    Raises:
        ConfigError: the run has no such checkpoint, the precision is unknown, or `out` holds something else.
    """
    run, target = Path(run_dir).expanduser(), Path(out).expanduser()
    steps = checkpoint_steps(run)
    if not steps:
        raise ConfigError(f"{run}: no checkpoint there; expected a run folder with checkpoints/step_N")
    chosen = steps[-1] if step is None else step
    if chosen not in steps:
        raise ConfigError(f"{run}: no checkpoint of step {step}; there are {', '.join(map(str, steps))}")
    if dtype is not None and dtype not in DTYPE_NAMES:
        raise ConfigError(f"--dtype {dtype!r}: expected one of {', '.join(DTYPE_NAMES)}")
    if target.exists() and (
        not target.is_dir() or (any(target.iterdir()) and not (target / "config.json").is_file())
    ):
        raise ConfigError(f"{target}: exists and holds no model; choose another folder")
    partial = target.with_name(f".{target.name}.partial-{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)
    partial.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(checkpoint_folder(run, chosen) / "model", partial)
    if dtype is not None:
        _convert(partial, dtype)
    publish_folder(partial, target)
    size = sum(file.stat().st_size for file in target.glob("*.safetensors"))
    return {"path": str(target), "step": chosen, "dtype": dtype or "as trained", "bytes": size}


def _convert(folder: Path, dtype: str) -> None:
    import json

    import torch
    from safetensors.torch import load_file, save_file

    kind = getattr(torch, dtype)
    file = folder / "model.safetensors"
    weights = load_file(file)
    save_file({name: tensor.to(kind) for name, tensor in weights.items()}, file, metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    for part in (config, config.get("text_config", {}), config.get("vision_config", {})):
        if "dtype" in part:
            part["dtype"] = dtype
    write_json(folder / "config.json", config)

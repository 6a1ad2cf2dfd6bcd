"""Checkpoints: a folder that appears whole or not at all, and that any number of ranks can go on from.

checkpoints/step_N/
  model/                   the policy in the format of transformers, ready to load or export
  optimizer.safetensors    moments of AdamW by weight
  reference.safetensors    only where the reference moves
  critic.safetensors       weights of the value model, and critic_optimizer.safetensors, where there is one
  trajectories.jsonl       rollouts that were due to be stored with this checkpoint
  state.json               step, cursor of the data, KL coefficient, pending groups, config, …
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrldata.config import BaseConfig, validate_config
from vrldata.errors import ConfigError
from vrltrain.files import publish_folder, read_lines, write_json, write_lines

if TYPE_CHECKING:
    from torch import Tensor

    from vrldata.types import Trajectory
    from vrltrain.inputs import PromptEncoder

logger = logging.getLogger(__name__)

_STEP = re.compile(r"step_(\d+)")


def checkpoint_folder(run_dir: Path, step: int) -> Path:
    """Where the checkpoint of a step lies."""
    return run_dir / "checkpoints" / f"step_{step}"


def checkpoint_steps(run_dir: Path) -> list[int]:
    """Steps that have a complete checkpoint, oldest first."""
    folder = run_dir / "checkpoints"
    if not folder.is_dir():
        return []
    found = [(_STEP.fullmatch(entry.name), entry) for entry in folder.iterdir()]
    return sorted(int(match[1]) for match, entry in found if match and (entry / "state.json").is_file())


def save_checkpoint(
    run_dir: Path,
    step: int,
    *,
    encoder: PromptEncoder,
    model_config: Any,
    weights: Mapping[str, Tensor],
    optimizer: Mapping[str, Tensor],
    trajectories: Sequence[Trajectory],
    state: Mapping[str, Any],
    keep: int,
    others: Mapping[str, Mapping[str, Tensor]] | None = None,
) -> Path:
    """Write a checkpoint, then drop the oldest ones so that `keep` are left.

    Args:
        model_config: of transformers, saved with the weights.
        weights, optimizer: whole tensors by name.
        state: plain values.
        others: further tensors by name, by the name of their file.
    """
    from safetensors.torch import save_file

    from vrltrain.group_records import trajectory_to_json

    target = checkpoint_folder(run_dir, step)
    partial = target.with_name(f".{target.name}.partial-{os.getpid()}")
    for stale in target.parent.glob(".step_*.partial-*"):
        shutil.rmtree(stale)
    (partial / "model").mkdir(parents=True)
    save_model_folder(partial / "model", encoder=encoder, model_config=model_config, weights=weights)
    save_file(_plain(optimizer), partial / "optimizer.safetensors")
    for name, tensors in (others or {}).items():
        save_file(_plain(tensors), partial / f"{name}.safetensors")
    write_lines(partial / "trajectories.jsonl", (trajectory_to_json(one) for one in trajectories))
    write_json(partial / "state.json", dict(state))
    publish_folder(partial, target)
    for old in checkpoint_steps(run_dir)[:-keep]:
        shutil.rmtree(checkpoint_folder(run_dir, old))
    return target


def save_model_folder(
    folder: Path, *, encoder: PromptEncoder, model_config: Any, weights: Mapping[str, Tensor]
) -> None:
    """A folder that transformers and vLLM load: weights, config, tokenizer and processor."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    save_file(_plain(weights), folder / "model.safetensors", metadata={"format": "pt"})
    model_config.save_pretrained(folder)
    encoder.processor.save_pretrained(folder)
    if encoder.generation_config is not None:
        encoder.generation_config.save_pretrained(folder)


def load_state(folder: Path) -> dict[str, Any]:
    """The plain values of a checkpoint."""
    state: dict[str, Any] = json.loads((folder / "state.json").read_text(encoding="utf-8"))
    return state


def load_tensors(folder: Path, name: str) -> dict[str, Tensor]:
    """The tensors of `<name>.safetensors`."""
    from safetensors.torch import load_file

    tensors: dict[str, Tensor] = load_file(folder / f"{name}.safetensors")
    return tensors


def load_trajectories(folder: Path) -> list[Trajectory]:
    """Rollouts that were due to be stored with this checkpoint."""
    from vrltrain.group_records import trajectory_from_json

    return [trajectory_from_json(row) for row in read_lines(folder / "trajectories.jsonl")]


def check_same_config(saved: Mapping[str, Any], now: BaseConfig, *, free: Sequence[str]) -> None:
    """A run goes on only with the config that it began with, but for the keys in `free`.

    A key that the version which saved it did not know had the effect of its default.

    Raises:
        ConfigError: names each key that changed.
    """
    with contextlib.suppress(ConfigError):  # a key of old that is no more is shown as a change
        saved = validate_config(type(now), saved, source="checkpoint").model_dump(mode="json")
    before, after = _flat(saved), _flat(now.model_dump(mode="json"))
    changed = [
        f"{name} was {before.get(name)!r} and is {after.get(name)!r}"
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name) and not any(_inside(name, key) for key in free)
    ]
    if changed:
        raise ConfigError(
            "\n".join([f"this run cannot go on with another config: {line}" for line in changed])
            + "\nset run_dir to a new folder to start another run"
        )


def _inside(name: str, key: str) -> bool:
    return name == key or name.startswith(f"{key}.")


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def _plain(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Independent CPU tensors: safetensors refuses shared memory."""
    return {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}

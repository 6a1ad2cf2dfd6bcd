"""`--dry-run`: what a run would do, in numbers, before anything heavy starts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

import vrldata
from vrldata.errors import ConfigError
from vrltrain.configs import RunConfig
from vrltrain.data_checks import check_data, check_places, known_samples
from vrltrain.inputs import CHUNK_TOKENS

GIB = 2**30
ADAM_BYTES = 16
"""Weight, gradient and two moments of a parameter in float32."""


def plan_run(config: RunConfig) -> dict[str, Any]:
    """Resolved config, batches, tokens and memory of a run; reads the tables and the model's headers alone.

    Raises:
        UriError, ConfigError: the dataset, its split or the model is not there.
    """
    check_places(config.data, config.model.path)
    dataset = vrldata.open(config.data.train)
    split = None if dataset.uri.split else "train"
    counts = check_data(config.data, config.algorithm.reward)
    samples = known_samples(dataset.iter_samples(split=split), config.data.on_unknown_type)
    tokens = _visual_tokens(config, dataset, samples)
    rows = config.prompts_per_step * config.rollout.n
    parameters = _num_parameters(config.model.path)
    longest = max(tokens, default=0) + config.rollout.max_tokens
    copies = 1 + int(config.algorithm.needs_reference) * 4 / ADAM_BYTES + int(config.algorithm.needs_critic)
    vocabulary, hidden = _vocabulary_and_hidden(config.model.path)
    full_kl = config.algorithm.needs_reference and config.algorithm.kl_kind == "full"
    return {
        "config": config.model_dump(mode="json"),
        "data": {
            "samples": len(samples),
            "by_type": _count(sample.problem_type for sample in samples),
            "validation_samples": sum(counts.get("val", {}).values()),
            "visual_tokens_mean": sum(tokens) / len(tokens) if tokens else 0.0,
            "visual_tokens_max": max(tokens, default=0),
            "too_long": sum(
                count + config.rollout.max_tokens >= config.rollout.max_model_len for count in tokens
            ),
        },
        "batches": {
            "prompts_per_step": config.prompts_per_step,
            "rows_per_step": rows,
            "optimizer_steps_per_step": config.update.mini_batches * config.update.epochs,
            "steps": config.steps,
            "epochs": config.steps * config.prompts_per_step / max(len(samples), 1),
            "response_tokens_per_step_max": rows * config.rollout.max_tokens,
            "rows_per_micro_batch_at_most": max(
                config.update.max_tokens_per_micro_batch // max(longest, 1), 1
            ),
            "on_policy": config.update.on_policy,
        },
        "memory": {
            "parameters": parameters,
            "trainer_gib": parameters * ADAM_BYTES * copies / GIB,
            "engine_weights_gib": parameters * (2 if config.model.dtype == "bfloat16" else 4) / GIB,
            "logits_gib_peak": CHUNK_TOKENS * vocabulary * 4 * (6 if full_kl else 3) / GIB,
            "activations_gib_per_micro_batch": config.update.max_tokens_per_micro_batch
            * hidden
            * 4
            * 2
            / GIB,
        },
    }


def describe_plan(plan: dict[str, Any]) -> str:
    """The plan as text: the figures, then the resolved config as YAML."""
    parts = []
    for name in ("data", "batches", "memory"):
        parts.append(f"{name}:")
        for key, value in plan[name].items():
            shown = f"{value:.3f}" if isinstance(value, float) else value
            parts.append(f"  {key}: {shown}")
        parts.append("")
    config = yaml.safe_dump(plan["config"], sort_keys=False).rstrip()
    return "\n".join([*parts, "config:", *(f"  {line}" for line in config.splitlines())])


def _visual_tokens(config: RunConfig, dataset: Any, samples: list[Any]) -> list[int]:
    """Visual tokens of each sample, from the sizes in the table."""
    vision = _read_config(config.model.path).get("vision_config", {})
    cell = int(vision.get("patch_size", 16)) * int(vision.get("spatial_merge_size", 2))
    temporal = int(vision.get("temporal_patch_size", 2))
    table = dataset.frames.to_table(columns=["clip_id", "num_frames", "height", "width"])
    sizes = {
        row["clip_id"]: -(-row["num_frames"] // temporal) * (row["height"] // cell) * (row["width"] // cell)
        for row in table.to_pylist()
    }
    return [sum(sizes.get(clip_id, 0) for clip_id in sample.clip_ids) for sample in samples]


def _num_parameters(path: str) -> int:
    """Weights of a local model folder, counted from the headers of its files; 0 for a Hub id."""
    total = 0
    for file in sorted(Path(path).glob("*.safetensors")):
        with file.open("rb") as handle:
            size = int.from_bytes(handle.read(8), "little")
            header = json.loads(handle.read(size))
        for name, tensor in header.items():
            if name != "__metadata__":
                count = 1
                for side in tensor["shape"]:
                    count *= side
                total += count
    return total


def _vocabulary_and_hidden(path: str) -> tuple[int, int]:
    text = _read_config(path).get("text_config", {})
    return int(text.get("vocab_size", 0)), int(text.get("hidden_size", 0))


def _read_config(path: str) -> dict[str, Any]:
    file = Path(path) / "config.json"
    if file.is_file():
        values: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return values
    if Path(path).exists() or path.startswith((".", "/")):
        raise ConfigError(f"model.path={path!r}: no model lies there (config.json is missing)")
    from vrltrain.libraries import quiet_libraries

    quiet_libraries()
    from transformers import AutoConfig

    try:
        found: dict[str, Any] = AutoConfig.from_pretrained(path).to_dict()
    except (OSError, ValueError) as error:
        first = str(error).strip().splitlines()[0]
        raise ConfigError(f"model.path={path!r}: no model can be loaded from there: {first}") from error
    return found


def _count(names: Any) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return dict(sorted(counts.items()))

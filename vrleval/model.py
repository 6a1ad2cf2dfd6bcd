"""What an evaluation must know about a model: family, context length, identity, chat template."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vrldata.errors import ConfigError, RolloutError, VRLError, missing_extra

FAMILIES = {
    "qwen2_vl": "qwen2-vl",
    "qwen2_5_vl": "qwen2.5-vl",
    "qwen3_vl": "qwen3-vl",
    "qwen3_vl_moe": "qwen3-vl",
    "qwen3_5": "qwen3.5-vl",
    "qwen3_5_moe": "qwen3.5-vl",
    "qwen3_5_vl": "qwen3.5-vl",
}
"""`model_type` of a configuration to the family that presets, prompts and coordinates go by."""

DEFAULT_FAMILY = "qwen3-vl"
_WEIGHTS = (".safetensors", ".bin", ".pt", ".gguf")
_PROBES = 16
_PROBE_BYTES = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """What can be read without loading a model.

    Attributes:
        name: last part of the path or Hub name; with the parent where the last part says nothing.
        family: as in `vrldata.sampling.PRESETS`.
        max_position_embeddings: longest context; 0 when unknown.
        digest: content digest of configuration and weights; the Hub name and revision when not on disk.
    """

    name: str
    family: str
    max_position_embeddings: int = 0
    digest: str = ""

    @property
    def takes_metadata(self) -> bool:
        """Whether vLLM wants `(frames, metadata)`; Qwen2-VL takes bare frames."""
        return self.family != "qwen2-vl"


def read_model_facts(model: str, family: str | None = None) -> ModelFacts:
    """Facts of a local folder, of a cached Hub model, or of a name that only a server knows.

    Raises:
        ConfigError: a folder that is no model.
    """
    folder = local_folder(model)
    if folder is None:
        return ModelFacts(name=short_name(model), family=family or guess_family(model), digest=model)
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(
            f"{model}: no config.json in it; give a Hugging Face model folder"
            " (`vrltrain export RUN OUT` makes one of a checkpoint)"
        ) from error
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: not readable as JSON: {error}") from error
    text_config = config.get("text_config") or config
    model_type = str(config.get("model_type", ""))
    return ModelFacts(
        name=short_name(model),
        family=family or FAMILIES.get(model_type) or guess_family(model_type or model),
        max_position_embeddings=int(text_config.get("max_position_embeddings") or 0),
        digest=folder_digest(folder),
    )


def local_folder(model: str) -> Path | None:
    """The folder of a model on disk: the path itself, or the Hub cache's snapshot; None when not there.

    Raises:
        ConfigError: it looks like a path and does not exist.
    """
    path = Path(model).expanduser()
    if path.is_dir():
        return path
    if model.startswith((".", "/", "~")) or model.count("/") > 1 or "\\" in model:
        raise ConfigError(f"--model {model}: no such folder")
    from huggingface_hub import try_to_load_from_cache

    cached = try_to_load_from_cache(model, "config.json") if model.count("/") == 1 else None
    return Path(cached).parent if isinstance(cached, str) else None


def guess_family(name: str) -> str:
    """The family that a model's name tells; Qwen3-VL where it tells none.

    >>> guess_family("Qwen/Qwen2.5-VL-7B-Instruct")
    'qwen2.5-vl'
    """
    squeezed = name.lower().replace("_", "").replace("-", "")
    for family in ("qwen3.5-vl", "qwen2.5-vl", "qwen3-vl", "qwen2-vl"):
        if family.removesuffix("-vl") in squeezed:
            return family
    return DEFAULT_FAMILY


def short_name(model: str) -> str:
    """A name for tables: the last part of a path, with its parent where the last part says nothing.

    >>> short_name("runs/a/step_100/huggingface")
    'step_100-huggingface'
    """
    parts = [part for part in model.replace("\\", "/").split("/") if part not in ("", ".", "~", "..")]
    if not parts:
        return "model"
    vague = parts[-1].lower() in ("huggingface", "hf", "model", "actor", "checkpoint", "final", "latest")
    if vague and len(parts) > 1:
        return "-".join(parts[-2:])
    return parts[-1]


def folder_digest(folder: Path) -> str:
    """Content digest of a model folder: small files whole, weights by size and evenly spread probes.

    Two checkpoints differ in every probe of a trained tensor, so that a checkpoint written over another one
    is another model, while a moved or copied folder stays the same one.
    """
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if not path.is_file() or path.name.startswith("."):
            continue
        is_weights = path.suffix in _WEIGHTS
        if not is_weights and path.suffix not in (".json", ".jinja", ".txt"):
            continue
        size = path.stat().st_size
        digest.update(f"{path.name}\0{size}\0".encode())
        with open(path, "rb") as file:
            if size <= _PROBES * _PROBE_BYTES:
                digest.update(file.read())
                continue
            for probe in range(_PROBES):
                file.seek((size - _PROBE_BYTES) * probe // (_PROBES - 1))
                digest.update(file.read(_PROBE_BYTES))
    return digest.hexdigest()


def import_failure(library: str, extra: str, purpose: str, error: ImportError) -> VRLError:
    """The error of a library that does not import: not installed, or installed and broken."""
    if error.name is not None and error.name.split(".")[0] == library and "cannot import" not in str(error):
        return missing_extra(library, extra, purpose)
    return RolloutError(f"{purpose} needs {library}, which is installed and does not import: {error}")


def load_processor(model: str) -> Any:
    """The model's processor (tokenizer, chat template, media preprocessing).

    Raises:
        ConfigError: the folder holds none. MissingExtraError: transformers is not installed.
    """
    try:
        from transformers import AutoProcessor
        from transformers.utils import logging as transformers_logging
    except ImportError as error:
        raise import_failure("transformers", "eval", "Loading a model", error) from error
    transformers_logging.disable_progress_bar()
    # clips are read-only views of the store; processors copy before they write
    warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
    try:
        return AutoProcessor.from_pretrained(model)
    except (OSError, ValueError) as error:
        raise ConfigError(f"--model {model}: its processor does not load: {error}") from error


def apply_chat_template(processor: Any, messages: Sequence[dict[str, Any]], *, think: bool | None) -> str:
    """The prompt text of a conversation, ready for the answer."""
    switches = {} if think is None else {"enable_thinking": think}
    text = processor.apply_chat_template(
        list(messages), tokenize=False, add_generation_prompt=True, **switches
    )
    return str(text)

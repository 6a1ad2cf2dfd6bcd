"""Tiny random Qwen-VL models with tokenizer and processor, for tests and demos: half a million weights.

Everything is made here from a seed: a byte-level BPE trained on the project's own prompts, a processor with
the family's real settings, and random weights. A short warm-up then teaches the *form* of answers to every
problem type, with random content, so that reinforcement learning has something to choose from.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrldata.errors import ConfigError, nearest
from vrltrain.tiny_answers import corpus

if TYPE_CHECKING:
    from torch import nn

logger = logging.getLogger(__name__)

SPECIAL_TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
PLAIN_TOKENS = ("<think>", "</think>", "<answer>", "</answer>")
"""Single tokens that stay in decoded text: an answer such as <answer>B</answer> is three tokens."""

VOCABULARY_SIZE = 640
"""Bytes and merges, before the tokens above."""

HIDDEN, HEADS, KV_HEADS, HEAD_DIM, LAYERS = 64, 2, 1, 32, 2

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "<|im_start|>{{ message.role }}\n"
    "{%- if message.content is string %}{{ message.content }}{% else -%}"
    "{%- for part in message.content -%}"
    "{%- if part.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{%- elif part.type == 'video' %}<|vision_start|><|video_pad|><|vision_end|>"
    "{%- else %}{{ part.text }}{% endif -%}"
    "{%- endfor -%}{%- endif -%}"
    "<|im_end|>\n"
    "{%- endfor -%}"
    "{%- if add_generation_prompt %}<|im_start|>assistant\n{% endif -%}"
)


def make_tiny_model(
    out: str | Path, family: str = "qwen3-vl", *, seed: int = 0, warm_up_steps: int = 150
) -> dict[str, Any]:
    """Write a model folder that transformers and vLLM load as any other; returns what was made.

    The same arguments give the same files on one machine.

    Args:
        out: folder to make; an existing model there is replaced.
        family: key of `TINY_FAMILIES`.
        warm_up_steps: optimizer steps that teach the form of answers; 0 leaves the weights random.

    Raises:
        ConfigError: the family is unknown, or `out` is a folder that holds something else.
    """
    import torch

    if family not in TINY_FAMILIES:
        raise ConfigError(
            f"--family {family!r} is unknown.{nearest(family, TINY_FAMILIES)} "
            f"Known: {', '.join(TINY_FAMILIES)}"
        )
    target = Path(out).expanduser()
    if target.exists() and not (target / "config.json").is_file() and any(target.iterdir()):
        raise ConfigError(f"{target}: the folder is not empty and holds no model; choose another one")
    building = target.with_name(f".{target.name}.partial-{os.getpid()}")
    shutil.rmtree(building, ignore_errors=True)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        processor = _processor(family)
        model = _random_model(family, processor.tokenizer)
        processor.save_pretrained(building)
        model.save_pretrained(building)
        if warm_up_steps:
            from vrltrain.tiny_answers import teach_answer_form

            teach_answer_form(model, building, steps=warm_up_steps, seed=seed)
            model.save_pretrained(building)
    if target.exists():
        shutil.rmtree(target)
    building.replace(target)
    return {
        "path": str(target),
        "family": family,
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "vocabulary": len(processor.tokenizer),
        "seed": seed,
        "warm_up_steps": warm_up_steps,
    }


def _tokenizer() -> Any:
    """Byte-level BPE with Qwen's own pre-tokenizer and special tokens."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import Qwen2Tokenizer
    from transformers.models.qwen2.tokenization_qwen2 import PRETOKENIZE_REGEX

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PRETOKENIZE_REGEX), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY_SIZE,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    import json

    state = json.loads(tokenizer.to_str())["model"]
    fast = Qwen2Tokenizer(
        vocab=state["vocab"],
        merges=[tuple(pair) for pair in state["merges"]],
        **{"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "unk_token": "<|endoftext|>"},
        model_max_length=8192,
    )
    fast.add_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS])
    fast.add_tokens([AddedToken(token, special=False, normalized=False) for token in PLAIN_TOKENS])
    return fast


def _processor(family: str) -> Any:
    import transformers

    processor_class, patch = TINY_FAMILIES[family][1:]
    video_class = "Qwen3VLVideoProcessor" if family == "qwen3-vl" else "Qwen2VLVideoProcessor"
    grid: dict[str, Any] = {"patch_size": patch, "temporal_patch_size": 2, "merge_size": 2}
    if family == "qwen3-vl":
        # as published: pictures and videos are normalised alike, which the engine relies on
        grid |= {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    images = transformers.Qwen2VLImageProcessor(**grid)
    capped = {"cap_pixels_per_frame": False} if family == "qwen3-vl" else {}  # only where it exists
    videos = getattr(transformers, video_class)(**grid, **capped)
    return getattr(transformers, processor_class)(
        image_processor=images,
        tokenizer=_tokenizer(),
        video_processor=videos,
        chat_template=CHAT_TEMPLATE,
    )


def _random_model(family: str, tokenizer: Any) -> nn.Module:
    """Random weights, wide enough that every parameter moves the output."""
    import torch
    from transformers import AutoModelForImageTextToText, GenerationConfig

    config = TINY_FAMILIES[family][0](tokenizer)
    model = AutoModelForImageTextToText.from_config(config, dtype=torch.float32)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 1:  # norms and biases start at 1 and 0: jitter shows whether they are used
                weight.add_(torch.randn_like(weight) * 0.05)
            elif "embed_tokens" not in name and "patch_embed" not in name:
                weight.normal_(0.0, 1.0 / weight[0].numel() ** 0.5)
    model.generation_config = GenerationConfig(
        eos_token_id=[
            tokenizer.convert_tokens_to_ids("<|im_end|>"),
            tokenizer.convert_tokens_to_ids("<|endoftext|>"),
        ],
        pad_token_id=tokenizer.convert_tokens_to_ids("<|endoftext|>"),
    )
    return model


def _token_ids(tokenizer: Any) -> dict[str, int]:
    names = {
        "image_token_id": "<|image_pad|>",
        "video_token_id": "<|video_pad|>",
        "vision_start_token_id": "<|vision_start|>",
        "vision_end_token_id": "<|vision_end|>",
    }
    return {name: tokenizer.convert_tokens_to_ids(token) for name, token in names.items()}


def _text_fields(tokenizer: Any, rope: dict[str, Any]) -> dict[str, Any]:
    return {
        "vocab_size": len(tokenizer),
        "hidden_size": HIDDEN,
        "intermediate_size": 2 * HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "max_position_embeddings": 8192,
        "initializer_range": 0.2,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, **rope},
        "eos_token_id": tokenizer.convert_tokens_to_ids("<|im_end|>"),
        "pad_token_id": tokenizer.convert_tokens_to_ids("<|endoftext|>"),
    }


def _qwen3_vl(tokenizer: Any) -> Any:
    from transformers import Qwen3VLConfig

    return Qwen3VLConfig(
        text_config={
            **_text_fields(tokenizer, {"mrope_section": [6, 5, 5], "mrope_interleaved": True}),
            "head_dim": HEAD_DIM,
        },
        vision_config={
            "depth": 2,
            "hidden_size": HIDDEN,
            "intermediate_size": 2 * HIDDEN,
            "num_heads": HEADS,
            "patch_size": 16,
            "out_hidden_size": HIDDEN,
            "num_position_embeddings": 256,
            "deepstack_visual_indexes": [0, 1],
            "initializer_range": 0.2,
        },
        **_token_ids(tokenizer),
    )


def _qwen2_5_vl(tokenizer: Any) -> Any:
    from transformers import Qwen2_5_VLConfig

    return Qwen2_5_VLConfig(
        text_config=_text_fields(tokenizer, {"mrope_section": [4, 6, 6]}),
        vision_config={
            "depth": 2,
            "hidden_size": HIDDEN,
            "intermediate_size": 2 * HIDDEN,
            "num_heads": HEADS,
            "out_hidden_size": HIDDEN,
            "fullatt_block_indexes": [1],
            "tokens_per_second": 2,
            "initializer_range": 0.2,
        },
        **_token_ids(tokenizer),
    )


def _qwen2_vl(tokenizer: Any) -> Any:
    from transformers import Qwen2VLConfig

    return Qwen2VLConfig(
        text_config=_text_fields(tokenizer, {"mrope_section": [4, 6, 6]}),
        vision_config={
            "depth": 2,
            "embed_dim": HIDDEN,
            "hidden_size": HIDDEN,
            "mlp_ratio": 2,
            "num_heads": HEADS,
            "initializer_range": 0.2,
        },
        **_token_ids(tokenizer),
    )


TINY_FAMILIES: dict[str, tuple[Callable[[Any], Any], str, int]] = {
    "qwen3-vl": (_qwen3_vl, "Qwen3VLProcessor", 16),
    "qwen2.5-vl": (_qwen2_5_vl, "Qwen2_5_VLProcessor", 14),
    "qwen2-vl": (_qwen2_vl, "Qwen2VLProcessor", 14),
}
"""Family -> (config maker, processor class of transformers, patch size in pixels)."""

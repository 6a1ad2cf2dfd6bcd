"""From a sample and its clips to what a model takes: prompt text, token ids, pixels, position ids.

The only place that calls the processor. Clips arrive sampled and resized; nothing here samples or resizes
again. Where the clips come from is the work of `prompts`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrldata.errors import ConfigError, RolloutError, nearest
from vrldata.model_inputs import chat_messages, processor_media
from vrldata.tasks import render_prompt
from vrldata.types import Clip, Sample
from vrltrain.positions import mrope_position_ids

if TYPE_CHECKING:
    from torch import Tensor

logger = logging.getLogger(__name__)

FAMILIES: dict[str, str] = {
    "qwen2_vl": "qwen2-vl",
    "qwen2_5_vl": "qwen2.5-vl",
    "qwen3_vl": "qwen3-vl",
    "qwen3_vl_moe": "qwen3-vl",
}
"""`model_type` of a model's config to its family."""

LOGIT_BIAS = -100.0
"""Added to the logits of media tokens, in the engine and in the trainer alike: exp(-100) is never sampled."""


CHUNK_TOKENS = 1024
"""Response positions whose logits the trainer holds at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A question in the form that an engine takes.

    Attributes:
        sample: the question.
        text: after the chat template, with one placeholder for each clip.
        clips: in the order of the placeholders.
    """

    sample: Sample
    text: str
    clips: tuple[Clip, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedPrompt:
    """Tensors of one prompt, on the CPU.

    Attributes:
        input_ids: int64 (P,), placeholders expanded.
        position_ids: int64 (3, P).
        media: keyword arguments of the vision tower: `pixel_values_videos` float32 (patches, values),
            `video_grid_thw` int64 (videos, 3), and `pixel_values`, `image_grid_thw` likewise. Absent keys
            mean no such media.
    """

    input_ids: Tensor
    position_ids: Tensor
    media: dict[str, Tensor]

    @property
    def num_bytes(self) -> int:
        """Memory of the tensors."""
        tensors = (self.input_ids, self.position_ids, *self.media.values())
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


@dataclass(frozen=True, slots=True)
class PromptEncoder:
    """Processor and model config of one model folder, and what follows from them.

    Attributes:
        processor: of transformers: tokenizer, image and video processor.
        config: of the model.
        family: such as `qwen3-vl`; decides coordinates in prompts and positions of frames.
        generation_config: of transformers; None where the folder has none.
    """

    processor: Any
    config: Any
    family: str
    generation_config: Any = None

    @property
    def tokenizer(self) -> Any:
        """The tokenizer of the processor."""
        return self.processor.tokenizer

    @property
    def eos_token_ids(self) -> tuple[int, ...]:
        """Ids that end a response; the first one is the end of a chat turn."""
        tokenizer = self.tokenizer
        ids = [tokenizer.eos_token_id]
        for name in ("<|im_end|>", "<|endoftext|>"):
            token = tokenizer.convert_tokens_to_ids(name)
            if token is not None and (token != tokenizer.unk_token_id or name == tokenizer.unk_token):
                ids.append(token)
        return tuple(dict.fromkeys(int(token) for token in ids if token is not None))

    @property
    def pad_token_id(self) -> int:
        """The id that fills rows; where it lies is decided by masks, never by the id."""
        pad = self.tokenizer.pad_token_id
        return int(pad if pad is not None else self.eos_token_ids[-1])

    @property
    def media_token_ids(self) -> tuple[int, ...]:
        """Tokens that stand for media. A policy must never write them: they would shift the features."""
        names = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")
        found = [getattr(self.config, name, None) for name in names]
        return tuple(sorted({int(token) for token in found if token is not None}))

    def prompt(self, sample: Sample, clips: Sequence[Clip] = (), *, template: str | None = None) -> Prompt:
        """The prompt of a sample: task text and chat template, the clips in front of the text.

        Raises:
            TaskError: the problem type is unknown or the template does not render.
            RolloutError: the frames do not fit the model's patch grid.
        """
        ordered = tuple(clips)
        for clip in ordered:
            self._check_grid(sample, clip)
        size = ordered[0].metadata if ordered else None
        question = render_prompt(
            sample,
            family=self.family,
            template=template,
            frame_width=size.width if size else None,
            frame_height=size.height if size else None,
        )
        text = self.processor.apply_chat_template(
            chat_messages(question, ordered), tokenize=False, add_generation_prompt=True
        )
        return Prompt(sample=sample, text=text, clips=ordered)

    def encode(self, prompt: Prompt) -> EncodedPrompt:
        """Token ids, pixels and positions of a prompt, as the engine computes them.

        Raises:
            RolloutError: text and media do not fit together.
        """
        try:
            features = self.processor(
                text=[prompt.text], return_tensors="pt", **processor_media(prompt.clips)
            )
            positions = self._positions(features)
        except (ValueError, RolloutError) as error:
            raise RolloutError(f"sample {prompt.sample.sample_id}: {error}") from error
        names = ("pixel_values_videos", "video_grid_thw", "pixel_values", "image_grid_thw")
        return EncodedPrompt(
            input_ids=features["input_ids"][0],
            position_ids=positions,
            media={name: features[name] for name in names if name in features},
        )

    def decode(self, token_ids: Sequence[int]) -> str:
        """Response text without special tokens."""
        return str(self.tokenizer.decode(list(token_ids), skip_special_tokens=True))

    def _positions(self, features: Any) -> Tensor:
        vision = self.config.vision_config
        seconds = features.get("second_per_grid_ts")
        return mrope_position_ids(
            features["mm_token_type_ids"][0].tolist(),
            image_grid_thw=features["image_grid_thw"].tolist() if "image_grid_thw" in features else (),
            video_grid_thw=features["video_grid_thw"].tolist() if "video_grid_thw" in features else (),
            seconds_per_grid=None if seconds is None else [float(value) for value in seconds],
            merge_size=vision.spatial_merge_size,
            tokens_per_second=float(getattr(vision, "tokens_per_second", 1.0)),
            split_frames=self.family.startswith("qwen3"),
        )

    def _check_grid(self, sample: Sample, clip: Clip) -> None:
        vision = self.config.vision_config
        multiple = int(vision.patch_size) * int(vision.spatial_merge_size)
        height, width = clip.frames.shape[1:3]
        if height % multiple or width % multiple:
            raise RolloutError(
                f"sample {sample.sample_id}: frames of {clip.video_path} are {width} x {height} pixels, but "
                f"{self.family} needs multiples of {multiple}: build the dataset with --preset {self.family}"
            )


def check_model_path(model_path: str | Path) -> None:
    """Raises ConfigError where this is neither a folder nor the name of a model on the Hub."""
    name = str(model_path)
    if not Path(name).expanduser().exists() and (name.startswith((".", "/", "~")) or name.count("/") != 1):
        raise ConfigError(
            f"model.path={name!r}: no such folder; a model on the Hub is named as organisation/model"
        )


def load_encoder(model_path: str | Path) -> PromptEncoder:
    """Processor and config of a model folder or Hub id.

    Raises:
        ConfigError: nothing lies there, or the model is of a family that is not known here.
    """
    from transformers import AutoConfig, AutoProcessor, GenerationConfig

    check_model_path(model_path)
    try:
        config = AutoConfig.from_pretrained(str(model_path))
        processor = AutoProcessor.from_pretrained(str(model_path))
    except (OSError, ValueError) as error:
        first = str(error).strip().splitlines()[0]
        raise ConfigError(
            f"model.path={str(model_path)!r}: no model can be loaded from there: {first}"
        ) from error
    family = FAMILIES.get(config.model_type)
    if family is None:
        hint = nearest(config.model_type, FAMILIES)
        raise ConfigError(
            f"model.path={str(model_path)!r}: model_type {config.model_type!r} is not supported.{hint} "
            f"Supported: {', '.join(FAMILIES)}"
        )
    generation = None
    try:
        generation = GenerationConfig.from_pretrained(str(model_path))
    except OSError:
        logger.debug("%s has no generation config", model_path)
    return PromptEncoder(processor, config, family, generation)

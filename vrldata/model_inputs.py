"""What a model is given: chat messages with media placeholders, and decoded clips for vLLM or a processor.

Both the trainer and the evaluator build their requests here, so that the policy is measured on the very
inputs that it is trained on. Clips are sampled and resized once, when they are decoded; everything below
says so to the consumer (`do_sample_frames=False`, `do_resize=False`). Plain dicts and views: no copy of a
video's frames, no torch, no tokenizer.

    prompt = tasks.render_prompt(sample, family="qwen3-vl")
    messages = chat_messages(prompt, clips)
    text = processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    vLLM:        {"prompt": text, "multi_modal_data": vllm_multi_modal_data(clips),
                  "mm_processor_kwargs": MM_PROCESSOR_KWARGS}
    processor:   processor(text=[text], **processor_media(clips), return_tensors="pt")
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from vrldata.types import Clip

MM_PROCESSOR_KWARGS: Mapping[str, Any] = MappingProxyType({"do_sample_frames": False, "do_resize": False})
"""Sent along with every request to vLLM: frames are final."""

_PLACEHOLDER = re.compile(r"<(video|image)>")


def chat_messages(prompt: str, clips: Sequence[Clip], *, system: str | None = None) -> list[dict[str, Any]]:
    """The conversation of one question, one placeholder for each clip, as chat templates take it.

    `<video>` and `<image>` in the prompt decide where the media stand if there are as many of each as there
    are clips of that kind; otherwise they are dropped and the media come first, in the order of `clips`.

    >>> chat_messages("What moves?", [])
    [{'role': 'user', 'content': [{'type': 'text', 'text': 'What moves?'}]}]
    """
    kinds = [clip.kind for clip in clips]
    content: list[dict[str, Any]] = []
    if kinds and _PLACEHOLDER.findall(prompt) == kinds:
        for part in _PLACEHOLDER.split(prompt):
            if part in ("video", "image"):
                content.append({"type": part})
            elif part.strip():
                content.append({"type": "text", "text": part})
    else:
        content = [{"type": kind} for kind in kinds]
        content.append({"type": "text", "text": _PLACEHOLDER.sub("", prompt).strip()})
    messages: list[dict[str, Any]] = [{"role": "user", "content": content}]
    if system:
        messages.insert(0, {"role": "system", "content": [{"type": "text", "text": system}]})
    return messages


def vllm_multi_modal_data(clips: Sequence[Clip], *, with_metadata: bool = True) -> dict[str, list[Any]]:
    """The `multi_modal_data` of a vLLM request; empty for a question of text alone.

    A video is `(uint8 (T, H, W, 3), metadata)`, an image a PIL image. `with_metadata=False` gives bare
    frames, as vLLM wants them for models without timestamps (Qwen2-VL).
    """
    data: dict[str, list[Any]] = {}
    for clip in clips:
        item = clip.as_vllm()
        if clip.kind == "video" and not with_metadata:
            item = item[0]
        data.setdefault(clip.kind, []).append(item)
    return data


def processor_media(clips: Sequence[Clip]) -> dict[str, Any]:
    """Keyword arguments for a transformers processor: videos with their metadata, images, and no resampling.

    Videos are uint8 (T, H, W, 3); sizes are multiples of patch x merge already.
    """
    media: dict[str, Any] = dict(MM_PROCESSOR_KWARGS) if clips else {}
    videos = [clip.as_hf() for clip in clips if clip.kind == "video"]
    images = [clip.as_hf() for clip in clips if clip.kind == "image"]
    if videos:
        media["videos"] = [frames for frames, _ in videos]
        media["video_metadata"] = [metadata for _, metadata in videos]
    else:
        # the switch belongs to the video processor; an image processor does not know it
        media.pop("do_sample_frames", None)
    if images:
        media["images"] = images
    return media


def normalises_alike(processor: Any) -> bool:
    """True when a processor of transformers normalises images and videos by the same mean and deviation.

    vLLM, where it normalises on the device, takes the image processor's figures for videos as well; switch
    that off (`mm_device_do_normalize=False`) for a model whose two processors differ.
    """
    images, videos = getattr(processor, "image_processor", None), getattr(processor, "video_processor", None)
    if images is None or videos is None:
        return True
    return all(
        list(getattr(images, name, None) or ()) == list(getattr(videos, name, None) or ())
        for name in ("image_mean", "image_std")
    )


def num_visual_tokens(clips: Sequence[Clip]) -> int:
    """Tokens that the clips take in the prompt of a Qwen-VL model, timestamps and markers not counted.

    (T / frame_multiple) x (H / size_multiple) x (W / size_multiple) for a video; one such grid for an image.
    """
    total = 0
    for clip in clips:
        frames, height, width = clip.frames.shape[:3]
        steps = -(-frames // clip.spec.frame_multiple) if clip.kind == "video" else 1
        total += steps * (height // clip.spec.size_multiple) * (width // clip.spec.size_multiple)
    return total

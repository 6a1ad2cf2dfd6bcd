"""The vision tower: one call for all pictures of a micro-batch, each distinct prompt's pictures once.

The rows of a group share their prompt, and images and videos share the tower. One call also keeps ranks in
step: sharded weights are gathered by the same sequence of modules everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

KINDS = {"image": ("pixel_values", "image_grid_thw"), "video": ("pixel_values_videos", "video_grid_thw")}
"""Kind of picture -> names of its pixels and of its grids in the processor's output."""


def picture_features(
    backbone: nn.Module, media: Mapping[str, Tensor], order: Mapping[str, Sequence[int]]
) -> dict[str, Any]:
    """Features of all rows' pictures by kind, in the form that transformers takes as `mm_encoder_outputs`.

    Args:
        backbone: the model without its head.
        media: pixels and grids of the distinct prompts, concatenated.
        order: kind -> numbers of its pictures in the order in which the rows show them, with repeats.
    """
    kinds = [kind for kind, (pixels, _) in KINDS.items() if pixels in media]
    pixels = torch.cat([media[KINDS[kind][0]] for kind in kinds])
    grids = torch.cat([media[KINDS[kind][1]] for kind in kinds])
    output = backbone.get_image_features(pixels, grids, return_dict=True)  # type: ignore[operator]
    pooled = list(output.pooler_output)
    layers = [list(layer) for layer in getattr(output, "deepstack_features", None) or ()]
    features: dict[str, Any] = {}
    start = 0
    for kind in kinds:
        numbers = [start + number for number in order[kind]]
        features[kind] = SimpleNamespace(
            pooler_output=tuple(pooled[number] for number in numbers),
            deepstack_features=[tuple(layer[number] for number in numbers) for layer in layers],
        )
        start += len(media[KINDS[kind][1]])
    return features


def blank_picture(model: nn.Module) -> Tensor:
    """Scalar 0 that depends on every weight of the vision tower, from one black picture."""
    vision: Any = model.config.vision_config
    backbone: Any = model.model
    merge, patch = int(vision.spatial_merge_size), int(vision.patch_size)
    width = int(vision.in_channels) * int(vision.temporal_patch_size) * patch * patch
    weight = next(backbone.visual.parameters())
    pixels = torch.zeros(merge * merge, width, device=weight.device)
    grid = torch.tensor([[1, merge, merge]], device=weight.device)
    output = backbone.get_image_features(pixels, grid, return_dict=True)
    layers = getattr(output, "deepstack_features", None) or ()
    parts = [*output.pooler_output, *(part for layer in layers for part in layer)]
    return torch.stack([part.sum() for part in parts]).sum() * 0.0


def picture_order(grids_per_prompt: Sequence[int], prompts_of_rows: Sequence[int]) -> list[int]:
    """Numbers of the pictures in the order of the rows.

    Args:
        grids_per_prompt: pictures of each distinct prompt.
        prompts_of_rows: distinct prompt of each row.

    >>> picture_order([2, 1], [0, 0, 1])
    [0, 1, 0, 1, 2]
    """
    first = [sum(grids_per_prompt[:number]) for number in range(len(grids_per_prompt))]
    return [
        first[prompt] + offset for prompt in prompts_of_rows for offset in range(grids_per_prompt[prompt])
    ]

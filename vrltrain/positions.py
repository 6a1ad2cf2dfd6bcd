"""M-RoPE position ids of a prompt: one rule for every Qwen-VL family, the one that the engine applies.

Text advances all three axes by one. A picture spans (t, h, w) from where the text stopped, and the text
after it goes on at the largest of them plus one (Wang et al., "Qwen2-VL", 2024, section 2.1). Here and not
from the model's own `get_rope_index`, which in some releases of transformers ignores t after a video.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vrldata.errors import RolloutError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

TEXT, IMAGE, VIDEO = 0, 1, 2
"""Values of `mm_token_type_ids`."""


def mrope_position_ids(
    mm_token_type_ids: Sequence[int],
    *,
    image_grid_thw: Sequence[Sequence[int]] = (),
    video_grid_thw: Sequence[Sequence[int]] = (),
    seconds_per_grid: Sequence[float] | None = None,
    merge_size: int = 2,
    tokens_per_second: float = 1.0,
    split_frames: bool = False,
) -> Tensor:
    """int64 (3, L): positions along time, height and width of every token of one prompt.

    Args:
        mm_token_type_ids: (L,), 0 text, 1 image, 2 video.
        image_grid_thw, video_grid_thw: patches of each picture along (t, h, w), before merging.
        seconds_per_grid: seconds between two temporal patches of each video (Qwen2.5-VL); None counts 1.
        merge_size: patches along a side that become one token.
        tokens_per_second: temporal positions in one second (Qwen2.5-VL).
        split_frames: a video is a run of single pictures with time stamps as text between them (Qwen3-VL).

    Raises:
        RolloutError: the runs of placeholder tokens do not match the grids.
    """
    import torch

    images = [(int(t), int(h), int(w), 1.0) for t, h, w in image_grid_thw]
    videos = _video_blocks(video_grid_thw, seconds_per_grid, tokens_per_second, split_frames)
    waiting = {IMAGE: iter(images), VIDEO: iter(videos)}
    parts: list[Tensor] = []
    position, start = 0, 0
    for kind, length in _runs(mm_token_type_ids):
        if kind == TEXT:
            parts.append(torch.arange(position, position + length).expand(3, -1))
            position += length
        else:
            covered = 0
            while covered < length:  # pictures without text between them form one run
                block = next(waiting[kind], None)
                if block is None:
                    raise RolloutError(
                        f"placeholder tokens at position {start} have no picture left to stand for"
                    )
                places = _block_positions(block, merge_size) + position
                parts.append(places)
                covered += places.shape[1]
                position = int(places.max()) + 1
            if covered != length:
                raise RolloutError(
                    f"{length} placeholder tokens at position {start}, but their pictures have {covered}"
                )
        start += length
    if any(next(rest, None) is not None for rest in waiting.values()):
        raise RolloutError("the prompt has fewer placeholder tokens than its pictures need")
    return torch.cat(parts, dim=1) if parts else torch.zeros(3, 0, dtype=torch.int64)


def _video_blocks(
    grids: Sequence[Sequence[int]],
    seconds_per_grid: Sequence[float] | None,
    tokens_per_second: float,
    split_frames: bool,
) -> list[tuple[int, int, int, float]]:
    """(t, h, w, temporal step) of each block of placeholder tokens."""
    blocks: list[tuple[int, int, int, float]] = []
    for index, (t, h, w) in enumerate(grids):
        if split_frames:
            blocks += [(1, int(h), int(w), 1.0)] * int(t)
            continue
        seconds = 1.0 if seconds_per_grid is None else float(seconds_per_grid[index])
        blocks.append((int(t), int(h), int(w), seconds * tokens_per_second))
    return blocks


def _block_positions(block: tuple[int, int, int, float], merge_size: int) -> torch.Tensor:
    import torch

    t, h, w, step = block
    # float64 and truncation, as in the engine: a float32 product can miss a whole number
    times = (torch.arange(t, dtype=torch.float64) * step).long()
    axes = (times, torch.arange(h // merge_size), torch.arange(w // merge_size))
    return torch.stack(torch.meshgrid(*axes, indexing="ij")).reshape(3, -1)


def _runs(kinds: Sequence[int]) -> list[tuple[int, int]]:
    """Runs of equal values as (value, length)."""
    runs: list[tuple[int, int]] = []
    for kind in kinds:
        if runs and runs[-1][0] == kind:
            runs[-1] = (kind, runs[-1][1] + 1)
        else:
            runs.append((int(kind), 1))
    return runs

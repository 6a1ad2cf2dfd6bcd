"""Which frames of a timeline become the clip, and the metadata that follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vrldata.errors import DecodeError
from vrldata.sampling import SamplingSpec, num_sampled_frames, pad_indices, sample_indices, sampled_fps
from vrldata.timeline import Timeline
from vrldata.types import VideoMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class FramePlan:
    """The frames of a clip: `positions` int32 (T,), ascending, the last repeated to fill the multiple."""

    timeline: Timeline
    positions: NDArray[np.int32]
    distinct: int
    window_frames: int
    notes: tuple[str, ...]

    def slots(self, keys: Sequence[int] | NDArray[np.int64]) -> dict[int, list[int]]:
        """Key of each source frame to the places of the clip that it fills."""
        slots: dict[int, list[int]] = {}
        for place, position in enumerate(self.positions):
            slots.setdefault(int(keys[position]), []).append(place)
        return slots


def plan_frames(timeline: Timeline, spec: SamplingSpec) -> FramePlan:
    """The frames of `timeline` that `spec` takes.

    Raises:
        DecodeError: no frame lies in the window.
    """
    first, stop = timeline.window(spec.start, spec.end)
    if stop <= first:
        raise DecodeError(
            f"no frame lies in the window from {spec.start or 0:g} s to "
            f"{'the end' if spec.end is None else f'{spec.end:g} s'}: the video runs from 0 to "
            f"{float(timeline.duration):.3f} s"
        )
    total = stop - first
    distinct = num_sampled_frames(total, timeline.rate, spec)
    positions = pad_indices(first + sample_indices(total, distinct), spec.frame_multiple)
    notes = []
    if len(positions) > distinct:
        notes.append(
            f"the last frame is repeated {len(positions) - distinct} time(s) to fill a multiple of "
            f"{spec.frame_multiple}"
        )
    if spec.end is not None and spec.end > float(timeline.duration):
        notes.append(f"the window ends at {spec.end:g} s, the video at {float(timeline.duration):.3f} s")
    return FramePlan(
        timeline=timeline,
        positions=positions.astype(np.int32),
        distinct=distinct,
        window_frames=total,
        notes=tuple(notes),
    )


def metadata_of(plan: FramePlan, size: tuple[int, int], source_size: tuple[int, int]) -> VideoMetadata:
    """Metadata of the clip; `size` and `source_size` are (height, width) of its frames and of the upright
    source."""
    timeline = plan.timeline
    return VideoMetadata(
        fps=float(timeline.rate),
        frame_indices=plan.positions,
        timestamps=timeline.seconds()[plan.positions],
        duration=float(timeline.duration),
        total_num_frames=len(timeline),
        height=size[0],
        width=size[1],
        source_height=source_size[0],
        source_width=source_size[1],
        sampled_fps=sampled_fps(plan.distinct, plan.window_frames, timeline.rate),
    )

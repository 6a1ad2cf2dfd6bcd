"""Animations that FFmpeg does not read (WebP) as videos, by Pillow, with the frame and size rules of any
video."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vrldata.errors import DecodeError
from vrldata.frame_collector import Allocate
from vrldata.frame_plan import metadata_of, plan_frames
from vrldata.resize import resize
from vrldata.sampling import SamplingSpec, resized_size
from vrldata.still_image import as_rgb, open_image
from vrldata.timeline import timeline_of
from vrldata.types import VideoMetadata

_MILLISECOND = Fraction(1, 1000)
_UNTIMED_MS = 100
"""Milliseconds for which a picture is shown that asks for none, as browsers do."""


def is_animated_webp(head: bytes) -> bool:
    """Whether a file that starts with `head` is a WebP animation.

    >>> is_animated_webp(b"RIFF....WEBPVP8X...." + b"\x02")
    True
    """
    is_extended = head[:4] == b"RIFF" and head[8:16] == b"WEBPVP8X"
    return is_extended and len(head) > 20 and bool(head[20] & 2)


def decode_animation(
    file: Path, spec: SamplingSpec, allocate: Allocate
) -> tuple[NDArray[np.uint8], VideoMetadata, list[str]]:
    """Frames uint8 (T, H, W, 3), their metadata, and warnings.

    Raises:
        DecodeError: not readable, no frame in the window, or longer than 200 times its width.
    """
    with open_image(file) as image:
        times: list[int] = []
        shown = 0
        for number in range(getattr(image, "n_frames", 1)):
            image.seek(number)
            image.load()
            times.append(times[-1] + shown if times else 0)
            shown = int(image.info.get("duration") or _UNTIMED_MS)
        try:
            plan = plan_frames(timeline_of(np.array(times, dtype=np.int64), _MILLISECOND, shown, ()), spec)
            height, width = resized_size(image.height, image.width, len(plan.positions), spec)
        except DecodeError as error:
            raise DecodeError(f"{file}: {error}") from error
        frames = allocate((len(plan.positions), height, width, 3))
        for position, places in plan.slots(range(len(times))).items():
            image.seek(position)
            frames[places] = resize(np.asarray(as_rgb(image)), height, width, spec.resize)
        source_size = (image.height, image.width)
    return frames, metadata_of(plan, (height, width), source_size), list(plan.notes)

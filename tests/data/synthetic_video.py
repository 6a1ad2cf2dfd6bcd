"""Small real videos for tests, made with PyAV; each picture carries its number as a grey level per digit."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import numpy as np


def picture(number: int, height: int, width: int) -> np.ndarray:
    """RGB with moving texture; the left half of the top band is a bar code of `number` in 12 bits."""
    rows, columns = np.mgrid[0:height, 0:width]
    frame = np.stack(
        [(rows * 3 + number * 5) % 256, (columns * 2 + number * 3) % 256, (rows + columns) % 256], axis=-1
    ).astype(np.uint8)
    cell = width // 12
    for bit in range(12):
        frame[: height // 3, bit * cell : (bit + 1) * cell] = 235 if number >> bit & 1 else 20
    return frame


def number_in(frame: np.ndarray) -> int:
    """The number that `picture` drew, read from a frame of any size."""
    height, width = frame.shape[:2]
    cell = width / 12
    band = frame[height // 12 : height // 4].astype(np.float64).mean(axis=(0, 2))
    centres = [
        band[int(cell * (bit + 0.35)) : max(int(cell * (bit + 0.65)), int(cell * (bit + 0.35)) + 1)]
        for bit in range(12)
    ]
    return sum(1 << bit for bit, values in enumerate(centres) if values.mean() > 128)


def write_video(
    path: Path,
    num_frames: int,
    *,
    width: int = 192,
    height: int = 128,
    fps: Fraction | int = 30,
    gop: int = 30,
    codec: str = "libx264",
    **options: str,
) -> Path:
    """Encode `num_frames` pictures, numbered from 0, with a key frame every `gop` of them."""
    settings = {"g": str(gop), "preset": "ultrafast", "crf": "20", "bf": "2", "sc_threshold": "0", **options}
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=fps, options=settings)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for number in range(num_frames):
            frame = av.VideoFrame.from_ndarray(picture(number, height, width), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path

"""Frames to files: H.264 in MP4 through PyAV and PNG through Pillow, byte for byte the same on every run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from types import ModuleType

import numpy as np

from vrldata.demo_data.drawing import Frame
from vrldata.errors import missing_extra

FPS = 8
_X264 = {"crf": "8", "preset": "veryfast", "threads": "1", "x264-params": "threads=1:lookahead_threads=1"}


def video_library() -> ModuleType:
    """PyAV.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        import av
    except ImportError as error:
        raise missing_extra("PyAV (av)", "build", "generating clips") from error
    return av


def write_video(path: Path, frames: Sequence[Frame], *, keyframe_every: int = 16) -> bool:
    """Encode frames at `FPS` frames per second.

    Args:
        frames: RGB, uint8 (H, W, 3) with even H and W.
        keyframe_every: frames from one keyframe to the next.

    Returns:
        Whether the file changed; an equal file keeps its time of modification.

    Raises:
        MissingExtraError: PyAV is not installed.
    """
    av = video_library()
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    height, width, _ = frames[0].shape
    try:
        with av.open(str(temporary), "w", format="mp4", options={"fflags": "+bitexact"}) as container:
            stream = container.add_stream("libx264", rate=FPS, options=_X264)
            stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
            stream.codec_context.thread_count = 1
            stream.codec_context.gop_size = keyframe_every
            stream.codec_context.time_base = Fraction(1, FPS)
            for index, rgb in enumerate(frames):
                frame = av.VideoFrame.from_ndarray(yuv420p(rgb), format="yuv420p")
                frame.pts = index
                frame.time_base = Fraction(1, FPS)
                container.mux(stream.encode(frame))
            container.mux(stream.encode(None))
        return _replace_if_different(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_picture(path: Path, frame: Frame) -> bool:
    """Write a PNG; returns whether the file changed."""
    from PIL import Image

    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        Image.fromarray(frame).save(temporary, format="PNG")
        return _replace_if_different(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> bool:
    """Write a UTF-8 text file atomically; returns whether the file changed."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8", newline="\n")
        return _replace_if_different(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _replace_if_different(temporary: Path, path: Path) -> bool:
    if path.is_file() and path.read_bytes() == temporary.read_bytes():
        return False
    os.replace(temporary, path)
    return True


def yuv420p(rgb: Frame) -> Frame:
    """RGB as planar Y'CbCr of ITU-R BT.601 in studio range, colour at half resolution.

    Computed here in integers (coefficients in 1/65536), since a library's conversion may differ between CPUs.

    Returns:
        uint8 (3 H / 2, W): the planes Y, Cb, Cr below each other, as PyAV takes them.
    """
    red, green, blue = (rgb[..., channel].astype(np.int64) for channel in range(3))
    luma = (16829 * red + 33039 * green + 6416 * blue + (16 << 16) + 32768) >> 16
    blue_difference = (-9714 * red - 19071 * green + 28784 * blue + (128 << 16) + 32768) >> 16
    red_difference = (28784 * red - 24103 * green - 4681 * blue + (128 << 16) + 32768) >> 16
    height, width = luma.shape
    planes = [luma]
    for plane in (blue_difference, red_difference):
        blocks = plane.reshape(height // 2, 2, width // 2, 2)
        planes.append(((blocks.sum(axis=(1, 3)) + 2) >> 2).reshape(height // 4, width))
    return np.concatenate(planes).clip(0, 255).astype(np.uint8)

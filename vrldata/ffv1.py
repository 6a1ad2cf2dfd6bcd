"""The codec `ffv1` of `codecs`: lossless packets by FFmpeg, each readable by itself."""

from __future__ import annotations

import os
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vrldata.codecs import Buffer
from vrldata.errors import StoreError, missing_extra

MAX_THREADS = 4


def encode_ffv1(frames: NDArray[np.uint8]) -> tuple[list[bytes], bytes]:
    """Packets and extradata of uint8 (T, H, W, 3): FFV1 version 3 (RFC 9043), key frames alone."""
    av = _av()
    height, width = frames.shape[1:3]
    context = av.CodecContext.create("ffv1", "w")
    context.width, context.height, context.pix_fmt = width, height, "bgr0"
    context.time_base = Fraction(1, 25)
    slices = "4" if height >= 64 and width >= 64 else "1"
    context.options = {"level": "3", "g": "1", "coder": "1", "slices": slices, "slicecrc": "1"}
    packets = []
    for frame in frames:
        picture = av.VideoFrame(width, height, "bgr0")
        plane = picture.planes[0]
        lines = np.frombuffer(plane, dtype=np.uint8).reshape(height, plane.line_size)[:, : width * 4]
        lines.reshape(height, width, 4)[..., :3] = frame[..., ::-1]
        lines.reshape(height, width, 4)[..., 3] = 0
        packets += context.encode(picture)
    packets += context.encode(None)
    if len(packets) != len(frames):
        raise StoreError(f"FFV1 gave {len(packets)} packets for {len(frames)} frames")
    return [bytes(packet) for packet in packets], bytes(context.extradata or b"")


def decode_ffv1(chunks: Sequence[Buffer], extradata: bytes, out: NDArray[np.uint8]) -> None:
    """Fill `out`, uint8 (T, H, W, 3), with the frames of packets.

    Raises:
        StoreError: a packet is damaged, or gives a picture of another size.
    """
    av = _av()
    count, height, width = out.shape[:3]
    context = av.CodecContext.create("ffv1", "r")
    context.width, context.height, context.extradata = width, height, extradata
    context.thread_count = min(MAX_THREADS, os.cpu_count() or 1)
    pictures: list[int] = []
    try:
        for chunk in chunks:
            pictures += _copied(context.decode(av.Packet(bytes(chunk))), out, len(pictures))
        pictures += _copied(context.decode(None), out, len(pictures))
    except (av.error.FFmpegError, ValueError) as error:
        raise StoreError(f"FFV1 frame is damaged: {error}") from error
    if len(pictures) != count:
        raise StoreError(f"FFV1 gave {len(pictures)} frames of {count}: damaged")


def _copied(pictures: Sequence[Any], out: NDArray[np.uint8], place: int) -> list[int]:
    """Copy decoded pictures into `out` from `place` on; their places."""
    height, width = out.shape[1:3]
    for offset, picture in enumerate(pictures):
        if (picture.height, picture.width, picture.format.name) != (height, width, "bgr0"):
            raise ValueError(f"picture is {picture.width} x {picture.height} {picture.format.name}")
        plane = picture.planes[0]
        lines = np.frombuffer(plane, dtype=np.uint8).reshape(height, plane.line_size)[:, : width * 4]
        out[place + offset] = lines.reshape(height, width, 4)[..., 2::-1]
    return list(range(place, place + len(pictures)))


def _av() -> Any:
    try:
        import av
    except ImportError as error:
        raise missing_extra("PyAV", "build", "The codec ffv1") from error
    return av

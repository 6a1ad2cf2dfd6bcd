"""One decoded video frame becomes an upright RGB array: colour, shape, orientation.

Which frames, and when they are shown, is decided elsewhere. Policies that a file's tags leave open:

- Untagged YUV is read as BT.601 limited range, as FFmpeg reads it; so is YUV with a matrix that the
  conversion lacks, with a warning from the caller.
- HDR (PQ, HLG) is converted by its matrix without tone mapping; the caller records a warning.
- Alpha is dropped. Interlaced frames are kept as they are woven.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vrldata.errors import DecodeError

MAX_PICTURE_PIXELS = 1 << 26
"""Most pixels of a coded video picture (8192 x 8192): a small file must not ask for gigabytes."""

_HDR_TRANSFERS = {16: "PQ", 18: "HLG"}
# codes of ISO/IEC 23091-2 MatrixCoefficients to the names that swscale knows; 0 is RGB, 2 is unspecified
_MATRICES = {1: "ITU709", 4: "FCC", 5: "ITU601", 6: "ITU601", 7: "SMPTE240M", 9: 9, 10: 9}
_UNSPECIFIED = 2
_LIMITED, _FULL = 1, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Orientation:
    """How the coded picture is turned upright: transpose first, then mirror columns and rows."""

    transpose: bool = False
    mirror_columns: bool = False
    mirror_rows: bool = False
    exact: bool = True

    def apply(self, picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The upright view of (H, W, 3)."""
        if self.transpose:
            picture = picture.transpose(1, 0, 2)
        if self.mirror_columns:
            picture = picture[:, ::-1]
        return picture[::-1] if self.mirror_rows else picture


def orientation_of(matrix: bytes | None) -> Orientation:
    """Read a display matrix: nine int32, native order, as FFmpeg hands it on from the track header.

    A point (x, y) of the coded picture is shown at (a x + c y, b x + d y) with the matrix rows (a, b, u),
    (c, d, v). Angles between the right ones are rounded to the nearest, with `exact` False.
    """
    if not matrix or len(matrix) < 36:
        return Orientation()
    a, b, _, c, d = struct.unpack("=5i", matrix[:20])
    if abs(a) + abs(d) >= abs(b) + abs(c):
        kept, lost = (a, d), (b, c)
        turned = Orientation(mirror_columns=a < 0, mirror_rows=d < 0)
    else:
        kept, lost = (b, c), (a, d)
        turned = Orientation(transpose=True, mirror_columns=c < 0, mirror_rows=b < 0)
    if 0 in kept:
        return Orientation()
    exact = max(abs(value) for value in lost) < min(abs(value) for value in kept) / 100
    return Orientation(
        transpose=turned.transpose,
        mirror_columns=turned.mirror_columns,
        mirror_rows=turned.mirror_rows,
        exact=exact,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """Shape of the upright picture: `height` x `width` display pixels after aspect ratio and orientation."""

    height: int
    width: int
    orientation: Orientation


def geometry_of(frame: Any, sample_aspect_ratio: Fraction | None) -> Geometry:
    """Geometry of a decoded frame; pixels that are not square stretch the picture before it is turned.

    Raises:
        DecodeError: the picture has more than `MAX_PICTURE_PIXELS`.
    """
    check_picture_size(frame.width, frame.height)
    ratio = sample_aspect_ratio or Fraction(1)
    if not Fraction(1, 100) <= ratio <= 100:
        ratio = Fraction(1)
    width = max(1, math.floor(frame.width * ratio + Fraction(1, 2)))
    orientation = _orientation(frame)
    if orientation.transpose:
        return Geometry(height=width, width=frame.height, orientation=orientation)
    return Geometry(height=frame.height, width=width, orientation=orientation)


def pixel_aspect(stream: Any) -> Fraction | None:
    """Width over height of a pixel as the container or the codec says; None where neither does.

    H.263 codes 12:11 in every standard picture format, meant or not: only a container's word counts there.
    """
    ratio = stream.sample_aspect_ratio
    if not ratio or (stream.codec_context.name.startswith("h263") and ratio == Fraction(12, 11)):
        return None
    return Fraction(ratio)


def check_picture_size(width: int, height: int) -> None:
    """Refuse a picture over the limit before its pixels are allocated."""
    if width * height > MAX_PICTURE_PIXELS:
        raise DecodeError(
            f"a picture of {width} x {height} is over the limit of {MAX_PICTURE_PIXELS} pixels: "
            "scale the video down"
        )


def _orientation(frame: Any) -> Orientation:
    try:
        matrix = next((bytes(entry) for entry in frame.side_data if entry.type.name == "DISPLAYMATRIX"), None)
    except ValueError:
        # PyAV hides everything that is attached to a frame where it does not know one kind of it (EXIF,
        # views of a stereo video); the angle is left, counter-clockwise
        turn = math.radians(frame.rotation)
        a, b = round(math.cos(turn) * (1 << 16)), round(-math.sin(turn) * (1 << 16))
        matrix = struct.pack("=9i", a, b, 0, -b, a, 0, 0, 0, 1 << 30)
    return orientation_of(matrix)


def to_rgb(frame: Any, reformatter: Any) -> NDArray[np.uint8]:
    """uint8 (H, W, 3) of a decoded frame at its coded size, with matrix and range taken from its tags.

    A view of the converted picture, without a copy. `reformatter` is an `av.video.reformatter.
    VideoReformatter`, which keeps its tables from frame to frame.
    """
    import av

    is_rgb = frame.format.is_rgb or frame.format.has_palette
    options: dict[str, Any] = {}
    if not is_rgb:
        options["src_color_range"] = _range_of(frame)
        options["dst_color_range"] = _FULL
        matrix = _MATRICES.get(int(frame.colorspace))
        if matrix is not None:
            options["src_colorspace"] = matrix
        elif unknown_matrix(frame):
            frame.colorspace = _UNSPECIFIED
    try:
        plane = reformatter.reformat(frame, format="rgb24", threads=1, **options).planes[0]
    except av.error.FFmpegError as error:
        if isinstance(error, MemoryError):
            raise
        raise DecodeError(f"a picture in {frame.format.name} cannot be converted to RGB: {error}") from error
    lines = np.frombuffer(plane, dtype=np.uint8).reshape(plane.height, plane.line_size)
    return lines[:, : plane.width * 3].reshape(plane.height, plane.width, 3)


def unknown_matrix(frame: Any) -> bool:
    """Whether a YUV frame is tagged with a matrix that the conversion lacks (YCgCo, ICtCp, derived ones)."""
    is_rgb = frame.format.is_rgb or frame.format.has_palette
    return not is_rgb and int(frame.colorspace) not in (0, _UNSPECIFIED, *_MATRICES)


def _range_of(frame: Any) -> int:
    tagged = int(frame.color_range)
    if tagged in (_LIMITED, _FULL):
        return tagged
    return _FULL if frame.format.name.startswith(("yuvj", "gray", "ya", "mono")) else _LIMITED


def hdr_transfer(frame: Any) -> str | None:
    """`PQ` or `HLG` where the frame is tagged as high dynamic range."""
    return _HDR_TRANSFERS.get(int(frame.color_trc))

"""Images as clips of one frame, by Pillow, and the question whether a file is a still image or a video."""

from __future__ import annotations

import mmap
import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from vrldata.errors import DecodeError
from vrldata.frame_collector import Allocate
from vrldata.sampling import SamplingSpec, resized_image_size
from vrldata.types import VideoMetadata

MAX_IMAGE_PIXELS = 1 << 27
"""Most pixels of an image (134 million)."""

# formats that Pillow reads by itself; others start external programs or belong to editors
_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF", "JPEG2000", "ICO", "TGA")
# what Pillow's readers raise for damaged content; some index, unpack or divide by what they read
_READ_ERRORS = (
    ArithmeticError,
    EOFError,
    LookupError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    struct.error,
    Image.DecompressionBombError,
)
_ALPHA_MODES = ("RGBA", "LA", "PA", "RGBa", "La")


def is_still_image(content: bytes | mmap.mmap) -> bool:
    """Whether a file with this content is one picture. Animations and streams of JPEG pictures are videos.

    >>> is_still_image(b"GIF89a" + bytes(20))
    True
    """
    start = bytes(content[:24])
    if start.startswith(b"\xff\xd8\xff"):
        return not _is_jpeg_stream(content)
    if start.startswith(b"\x89PNG\r\n\x1a\n"):
        return not _has_animation_control(content)
    if start.startswith((b"GIF87a", b"GIF89a")):
        # one picture that says how often it is repeated was meant to move
        return content.find(b"NETSCAPE2.0", 0, 1024) < 0 and _num_gif_pictures(content) < 2
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        return not (start[12:16] == b"VP8X" and len(start) > 20 and bool(start[20] & 2))
    if start[4:8] == b"ftyp":
        return start[8:12] in (b"avif", b"heic", b"heix", b"mif1")
    starts = (b"BM", b"II*\0", b"MM\0*", b"P6", b"P5", b"\0\0\0\x0cjP  ", b"\xff\x4f\xff\x51", b"\0\0\1\0")
    return start.startswith(starts)


def _is_jpeg_stream(content: bytes | mmap.mmap) -> bool:
    """Motion JPEG is picture after picture of one size; a phone's photo may carry a preview, a second view or
    a gain map behind its end, of another size or announced in an MPF segment."""
    second = content.find(b"\xff\xd9\xff\xd8\xff") + 2
    if second < 2 or content.find(b"MPF\0", 0, second) >= 0:
        return False
    return _jpeg_size(content, 0) == _jpeg_size(content, second)


def _jpeg_size(content: bytes | mmap.mmap, offset: int) -> bytes:
    """The four bytes of height and width of a JPEG picture (ITU-T T.81, B.2.2); empty where it has none."""
    offset += 2
    while content[offset : offset + 1] == b"\xff":
        marker = int.from_bytes(content[offset + 1 : offset + 2], "big")
        if marker == 0xFF:
            offset += 1
        elif 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return bytes(content[offset + 5 : offset + 9])
        else:
            offset += 2 + int.from_bytes(content[offset + 2 : offset + 4], "big")
    return b""


def _has_animation_control(content: bytes | mmap.mmap) -> bool:
    """Whether a PNG has an acTL chunk before its pixels."""
    offset = 8
    while (name := content[offset + 4 : offset + 8]) and name != b"IDAT":
        if name == b"acTL":
            return True
        offset += 12 + int.from_bytes(content[offset : offset + 4], "big")
    return False


def _num_gif_pictures(content: bytes | mmap.mmap) -> int:
    """Pictures of a GIF, counted up to two, by a walk over its blocks (GIF89a specification)."""
    found, offset = 0, 13 + _gif_colours(content[10:11])
    while found < 2:
        kind = content[offset : offset + 1]
        if kind == b",":
            found += 1
            offset += 11 + _gif_colours(content[offset + 9 : offset + 10])
        elif kind == b"!":
            offset += 2
        else:
            break
        while size := content[offset : offset + 1]:
            offset += 1 + size[0]
            if size == b"\0":
                break
    return found


def _gif_colours(flags: bytes) -> int:
    """Bytes of the table of colours that these flags announce."""
    return 3 << (flags[0] & 7) + 1 if flags and flags[0] & 0x80 else 0


@contextmanager
def open_image(file: Path) -> Iterator[Image.Image]:
    """A Pillow image; what fails while it is read inside the block becomes a `DecodeError` with the path."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            image = Image.open(file, formats=_FORMATS)
        with image:
            if image.width * image.height > MAX_IMAGE_PIXELS:
                raise DecodeError(
                    f"{file}: an image of {image.width} x {image.height} is over the limit of "
                    f"{MAX_IMAGE_PIXELS} pixels"
                )
            yield image
    except UnidentifiedImageError as error:
        raise DecodeError(f"{file}: not an image that Pillow can read") from error
    except _READ_ERRORS as error:
        raise DecodeError(f"{file}: the image cannot be decoded: {error or type(error).__name__}") from error


def decode_image(
    file: Path, spec: SamplingSpec, allocate: Allocate
) -> tuple[NDArray[np.uint8], VideoMetadata, list[str]]:
    """Frames uint8 (1, H, W, 3), their metadata, and warnings.

    The picture is turned upright by its EXIF tag, transparency is laid on white, 16-bit grey is scaled to 8
    bit, and the size follows `resized_image_size` with Pillow's bicubic filter, as qwen-vl-utils resizes
    images.

    Raises:
        DecodeError: not a readable image, over the pixel limit, or longer than 200 times its width.
    """
    with open_image(file) as image:
        rgb = as_rgb(ImageOps.exif_transpose(image))
    try:
        height, width = resized_image_size(rgb.height, rgb.width, spec)
    except DecodeError as error:
        raise DecodeError(f"{file}: {error}") from error
    frames = allocate((1, height, width, 3))
    frames[0] = np.asarray(rgb.resize((width, height), Image.Resampling.BICUBIC))
    metadata = VideoMetadata(
        fps=1.0,
        frame_indices=np.zeros(1, dtype=np.int32),
        timestamps=np.zeros(1, dtype=np.float64),
        duration=0.0,
        total_num_frames=1,
        height=height,
        width=width,
        source_height=rgb.height,
        source_width=rgb.width,
        sampled_fps=1.0,
    )
    return frames, metadata, []


def as_rgb(image: Image.Image) -> Image.Image:
    """The picture in 8-bit RGB, transparency on white, deep grey scaled down, fractions of one scaled up."""
    if image.mode.startswith(("I", "F")):
        # Pillow clips grey at 255 on conversion, which turns depth and medical pictures white
        values = np.nan_to_num(np.asarray(image).astype(np.float64))
        most = values.max(initial=0)
        scale = 255 if image.mode == "F" and most <= 1 else 1 if most <= 255 else 1 / 256
        return Image.fromarray(np.clip(values * scale, 0, 255).astype(np.uint8)).convert("RGB")
    if image.mode in _ALPHA_MODES or "transparency" in image.info:
        picture = image.convert("RGBA")
        white = Image.new("RGB", picture.size, (255, 255, 255))
        white.paste(picture, mask=picture.getchannel("A"))
        return white
    return image.convert("RGB")

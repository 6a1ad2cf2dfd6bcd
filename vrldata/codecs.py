"""Frames as bytes and back: the payload of a row of `frames`, and which codec a byte budget asks for.

`raw` is the pixels and nothing else, so that a mapped file is the array. Every other payload is a header with
the place of each frame, then one chunk a frame, each readable by itself. Where payloads lie is the work of
`store`.
"""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from vrldata.errors import ConfigError, StoreError, nearest

MAGIC = b"VRLF\x01\x00\x00\x00"
"""First bytes of a payload of any codec but `raw`; the last four are reserved."""

PARALLEL_BYTES = 8 << 20
"""Pixels from which the frames of one clip are coded by several threads."""

MAX_THREADS = 4

Buffer = Any
"""bytes, memoryview, mmap or a uint8 array: what the buffer protocol offers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodecInfo:
    """What a codec's name means.

    Attributes:
        lossless: whether the same pixels come back.
        level: default of the number after the colon; None where the codec takes none.
        levels: lowest and highest number that it takes.
        meaning: one line for help texts.
    """

    lossless: bool
    level: int | None
    levels: tuple[int, int]
    meaning: str


CODECS: dict[str, CodecInfo] = {
    "raw": CodecInfo(lossless=True, level=None, levels=(0, 0), meaning="the pixels, mapped without a copy"),
    "zstd": CodecInfo(lossless=True, level=3, levels=(1, 19), meaning="lossless, fast to read"),
    "ffv1": CodecInfo(lossless=True, level=None, levels=(0, 0), meaning="lossless, smallest, slow to read"),
    "jpeg": CodecInfo(lossless=False, level=92, levels=(1, 100), meaning="lossy, quality 92, 4:4:4"),
}
"""Codecs by name, from fastest to smallest: the order in which `auto` tries them."""

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Codec:
    """A codec with its level, such as `jpeg:90`.

    >>> str(parse_codec("jpeg:90")), str(parse_codec("raw")), str(parse_codec("zstd"))
    ('jpeg:90', 'raw', 'zstd:3')
    """

    name: str
    level: int | None = None

    def __str__(self) -> str:
        return self.name if self.level is None else f"{self.name}:{self.level}"

    @property
    def lossless(self) -> bool:
        """Whether the same pixels come back."""
        return CODECS[self.name].lossless


def parse_codec(text: str) -> Codec:
    """A codec from its text, `<name>` or `<name>:<level>`.

    Raises:
        ConfigError: unknown name or level out of range.
    """
    name, colon, number = text.partition(":")
    info = CODECS.get(name)
    if info is None:
        known = ", ".join([*CODECS, AUTO])
        raise ConfigError(f"codec {text!r}: unknown.{nearest(name, [*CODECS, AUTO])} Known: {known}.")
    if not colon:
        return Codec(name, info.level)
    if info.level is None:
        raise ConfigError(f"codec {text!r}: {name} takes no number; write codec={name}")
    low, high = info.levels
    if not number.isdecimal() or not low <= int(number) <= high:
        raise ConfigError(f"codec {text!r}: expected a whole number from {low} to {high} after the colon")
    return Codec(name, int(number))


class RangeReader(Protocol):
    """Reads parts of a payload; called with (offset, length) pairs, gives one buffer each."""

    def __call__(self, ranges: Sequence[tuple[int, int]]) -> Sequence[Buffer]: ...


def encode_frames(frames: NDArray[np.uint8], codec: Codec) -> Buffer:
    """The payload of uint8 (T, H, W, 3) frames. For `raw` a view of `frames`, without a copy.

    Raises:
        StoreError: not uint8 (T, H, W, 3), or empty.
    """
    if frames.dtype != np.uint8 or frames.ndim != 4 or frames.shape[3] != 3 or frames.size == 0:
        raise StoreError(f"frames must be uint8 (T, H, W, 3), found {frames.dtype} {frames.shape}")
    if codec.name == "raw":
        return np.ascontiguousarray(frames).reshape(-1)
    if codec.name == "ffv1":
        from vrldata.ffv1 import encode_ffv1

        chunks, extradata = encode_ffv1(frames)
    else:
        encode_one = _ENCODERS[codec.name](codec.level)
        chunks, extradata = _map(encode_one, list(frames), frames.nbytes), b""
    return _packed(chunks, extradata)


def decode_frames(
    read: RangeReader,
    codec: str,
    shape: tuple[int, int, int, int],
    size: int,
    indices: Sequence[int] | None = None,
    out: NDArray[np.uint8] | None = None,
) -> NDArray[np.uint8]:
    """Frames (T, H, W, 3) of a payload, or those at `indices` of it, reading only their bytes.

    Read-only; a view of what `read` gives for whole `raw` payloads.

    Args:
        read: reads ranges of the payload.
        codec: its `codec` column.
        shape: (T, H, W, 3) of the stored clip.
        size: bytes of the payload.
        out: contiguous array of the shape of the result, filled with it; the result is then a view of it.

    Raises:
        StoreError: the payload is damaged, or the codec unknown.
    """
    wanted = range(shape[0]) if indices is None else indices
    if codec == "raw":
        frames = _read_raw(read, shape, size, indices, out)
    elif codec not in CODECS:
        raise StoreError(f"codec {codec!r} is unknown: the row was written by a newer version")
    else:
        places, extradata = _read_header(read, shape[0], size)
        distinct = sorted(set(wanted))
        in_order = distinct == list(wanted)
        chunks = read([places[index] for index in distinct])
        if out is not None and in_order:
            decoded = out.view()
        else:
            decoded = _empty((len(distinct), *shape[1:]))
        if codec == "ffv1":
            from vrldata.ffv1 import decode_ffv1

            decode_ffv1(chunks, extradata, decoded)
        else:
            decode_one = _DECODERS[codec]
            jobs = list(zip(chunks, decoded, strict=True))
            _map(lambda job: decode_one(*job), jobs, decoded.nbytes)
        if in_order:
            frames = decoded
        else:
            row_of = {index: row for row, index in enumerate(distinct)}
            frames = np.take(decoded, [row_of[index] for index in wanted], axis=0, out=out).view()
    frames.flags.writeable = False
    return frames


def _empty(shape: tuple[int, int, int, int]) -> NDArray[np.uint8]:
    try:
        return np.empty(shape, dtype=np.uint8)
    except (ValueError, MemoryError) as error:
        raise StoreError(f"no memory for frames of shape {shape}: {error}") from error


def choose_codec(bytes_by_codec: dict[str, float], budget_bytes: float) -> str:
    """The fastest codec whose expected size keeps to the budget; the smallest where none does.

    >>> choose_codec({"raw": 100.0, "zstd": 40.0, "ffv1": 25.0, "jpeg": 12.0}, 50.0)
    'zstd'
    """
    for name in CODECS:
        if name in bytes_by_codec and bytes_by_codec[name] <= budget_bytes:
            return name
    return min(bytes_by_codec, key=lambda name: bytes_by_codec[name])


def _map(function: Callable[[Any], Any], items: list[Any], num_bytes: int) -> list[Any]:
    """Results in order, by several threads where there is enough to do; all coders release the GIL."""
    threads = min(MAX_THREADS, os.cpu_count() or 1, len(items))
    if threads < 2 or num_bytes < PARALLEL_BYTES:
        return [function(item) for item in items]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, items))


def _header_bytes(num_frames: int) -> int:
    return len(MAGIC) + 8 + 8 * (num_frames + 1)


def _packed(chunks: Sequence[bytes], extradata: bytes) -> bytes:
    """Magic, number of frames, T + 1 offsets from the payload's start, extradata, chunks; little-endian."""
    start = _header_bytes(len(chunks)) + len(extradata)
    offsets = start + np.concatenate([[0], np.cumsum([len(chunk) for chunk in chunks])])
    header = MAGIC + struct.pack("<Q", len(chunks)) + offsets.astype("<u8").tobytes()
    return b"".join([header, extradata, *chunks])


def _read_header(read: RangeReader, num_frames: int, size: int) -> tuple[list[tuple[int, int]], bytes]:
    """(offset, length) of each frame's chunk, and the codec's extradata."""
    length = _header_bytes(num_frames)
    if size < length:
        raise StoreError(f"payload of {size} bytes is shorter than its header: damaged")
    (header,) = read([(0, length)])
    header = bytes(header)
    count = struct.unpack_from("<Q", header, len(MAGIC))[0]
    if header[: len(MAGIC)] != MAGIC or count != num_frames:
        raise StoreError("payload header does not match its row: damaged")
    offsets = np.frombuffer(header, dtype="<u8", offset=len(MAGIC) + 8).astype(np.int64)
    if offsets[0] < length or offsets[-1] != size or (np.diff(offsets) <= 0).any():
        raise StoreError("payload offsets are out of order: damaged")
    extra_bytes = int(offsets[0]) - length
    extradata = bytes(read([(length, extra_bytes)])[0]) if extra_bytes else b""
    lengths = np.diff(offsets)
    return list(zip(offsets[:-1].tolist(), lengths.tolist(), strict=True)), extradata


def _read_raw(
    read: RangeReader,
    shape: tuple[int, int, int, int],
    size: int,
    indices: Sequence[int] | None,
    out: NDArray[np.uint8] | None,
) -> NDArray[np.uint8]:
    frame_bytes = shape[1] * shape[2] * shape[3]
    if size != shape[0] * frame_bytes:
        raise StoreError(f"raw payload of {size} bytes does not hold frames of shape {shape}: damaged")
    if indices is None:
        (whole,) = read([(0, size)])
        stored = np.frombuffer(whole, dtype=np.uint8).reshape(shape)
        if out is None:
            return stored
        out[:] = stored
        return out.view()
    frames = _empty((len(indices), *shape[1:])) if out is None else out.view()
    place = 0
    for first, length in _runs(indices):
        (part,) = read([(first * frame_bytes, length * frame_bytes)])
        frames[place : place + length] = np.frombuffer(part, dtype=np.uint8).reshape(length, *shape[1:])
        place += length
    return frames


def _runs(indices: Sequence[int]) -> list[tuple[int, int]]:
    """Consecutive indices as (first, length).

    >>> _runs([3, 4, 5, 1, 9])
    [(3, 3), (1, 1), (9, 1)]
    """
    runs: list[tuple[int, int]] = []
    for index in indices:
        if runs and index == runs[-1][0] + runs[-1][1]:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((index, 1))
    return runs


def _zstd_encoder(level: int | None) -> Callable[[NDArray[np.uint8]], bytes]:
    import zstandard

    def encode_one(frame: NDArray[np.uint8]) -> bytes:
        # residuals of green, then of the line above, plane by plane: video halves in size once more
        planes = np.empty((3, *frame.shape[:2]), dtype=np.uint8)
        planes[0] = frame[..., 1]
        np.subtract(frame[..., 0], frame[..., 1], out=planes[1])
        np.subtract(frame[..., 2], frame[..., 1], out=planes[2])
        residual = planes.copy()
        residual[:, 1:] -= planes[:, :-1]
        # the compressor is not safe to share among threads
        return zstandard.ZstdCompressor(level=level or 3).compress(residual.tobytes())

    return encode_one


def _decode_zstd(chunk: Buffer, out: NDArray[np.uint8]) -> None:
    import zstandard

    try:
        # a frame that names its size is unpacked whatever the limit says
        if zstandard.frame_content_size(chunk) > out.size:
            raise StoreError(f"zstd frame unpacks to more than the {out.size} bytes expected: damaged")
        residual = zstandard.ZstdDecompressor().decompress(chunk, max_output_size=out.size)
    except zstandard.ZstdError as error:
        raise StoreError(f"zstd frame is damaged: {error}") from error
    if len(residual) != out.size:
        raise StoreError(f"zstd frame holds {len(residual)} bytes, expected {out.size}: damaged")
    height, width = out.shape[:2]
    lines = np.frombuffer(residual, dtype=np.uint8).reshape(3, height, width)
    planes = np.cumsum(lines, axis=1, dtype=np.uint8)
    out[..., 1] = planes[0]
    np.add(planes[1], planes[0], out=out[..., 0])
    np.add(planes[2], planes[0], out=out[..., 2])


def _jpeg_encoder(quality: int | None) -> Callable[[NDArray[np.uint8]], bytes]:
    from PIL import Image

    def encode_one(frame: NDArray[np.uint8]) -> bytes:
        buffer = io.BytesIO()
        Image.fromarray(frame).save(buffer, "JPEG", quality=quality, subsampling=0)
        return buffer.getvalue()

    return encode_one


def _decode_jpeg(chunk: Buffer, out: NDArray[np.uint8]) -> None:
    from PIL import Image

    try:
        with Image.open(io.BytesIO(chunk), formats=("JPEG",)) as image:
            if image.size != (out.shape[1], out.shape[0]) or image.mode != "RGB":
                raise StoreError(f"JPEG frame is {image.size} {image.mode}, expected {out.shape}: damaged")
            out[:] = np.asarray(image)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise StoreError(f"JPEG frame is damaged: {error}") from error


_ENCODERS: dict[str, Callable[[int | None], Callable[[NDArray[np.uint8]], bytes]]] = {
    "zstd": _zstd_encoder,
    "jpeg": _jpeg_encoder,
}
_DECODERS: dict[str, Callable[[Buffer, NDArray[np.uint8]], None]] = {
    "zstd": _decode_zstd,
    "jpeg": _decode_jpeg,
}

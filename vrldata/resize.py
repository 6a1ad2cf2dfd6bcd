"""Bicubic resize with antialiasing: the quick way and the way that gives the reference's very pixels.

Both compute the same filter, that of Pillow and torchvision: cubic convolution with a = -0.5, widened by the
reduction factor, its weights normalised to 1 (R. Keys, "Cubic Convolution Interpolation for Digital Image
Processing", 1981, eq. 15, with a = -1/2).
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from vrldata.errors import missing_extra

BAND = 4
"""Rows or columns of the result that one matrix product gives: few, so that their taps are mostly shared."""

BANDS_AT_ONCE = 4
"""Bands whose source rows are converted to float32 together: neighbours lean on the same rows."""


def resize(
    picture: NDArray[np.uint8],
    height: int,
    width: int,
    method: str,
    out: NDArray[np.uint8] | None = None,
) -> NDArray[np.uint8]:
    """uint8 (height, width, 3) from uint8 (H, W, 3).

    `exact` goes through torch's float32 kernel, clamps and rounds, which is what torchvision (and so qwen-
    vl-utils) does to a uint8 tensor. `native` sums weighted rows, first of the height, then of the width,
    in float32 without clamping in between: within 1 level of `exact`, at a small part of its time and without
    torch. Kernels for uint8 clamp between their passes and err by up to 10 levels at hard edges between black
    and white.

    Args:
        out: contiguous array for the result; a new one, or `picture` where nothing is to be done, without it.

    Raises:
        MissingExtraError: `exact` without torch.
    """
    if picture.shape[:2] == (height, width):
        if out is None:
            return picture
        out[:] = picture
        return out
    if out is None:
        out = np.empty((height, width, 3), dtype=np.uint8)
    if method == "exact":
        out[:] = _resize_exact(picture, height, width)
    else:
        _resize_bands(picture, out)
    return out


def _resize_exact(picture: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    try:
        import torch
        from torch.nn.functional import interpolate
    except ImportError as error:
        raise missing_extra("torch", "build", "Resizing frames with resize='exact'") from error
    planes = torch.from_numpy(np.ascontiguousarray(picture)).permute(2, 0, 1)[None].to(torch.float32)
    values = interpolate(planes, size=(height, width), mode="bicubic", antialias=True, align_corners=False)
    resized: NDArray[np.uint8] = (
        values.clamp_(min=0, max=255).round_().to(torch.uint8)[0].permute(1, 2, 0).numpy()
    )
    return resized


def _resize_bands(picture: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
    """Rows, then columns; each band of the result is a small matrix times the lines that it leans on."""
    height, width = out.shape[:2]
    source_height, source_width = picture.shape[:2]
    lines = picture.reshape(source_height, source_width * 3)
    bands = _bands(source_height, height)
    groups = [bands[start : start + BANDS_AT_ONCE] for start in range(0, len(bands), BANDS_AT_ONCE)]
    tallest = max(group[-1].stop - group[0].first for group in groups)
    floats = _scratch("lines", (tallest, source_width * 3))
    rows = _scratch("rows", (height, source_width * 3))
    for group in groups:
        top = group[0].first
        floats[: group[-1].stop - top] = lines[top : group[-1].stop]
        for band in group:
            taps = floats[band.first - top : band.stop - top]
            np.matmul(band.weights, taps, out=rows[band.begin : band.begin + len(band.weights)])
    values = _scratch("values", (height, width * 3))
    for band in _pixel_bands(source_width, width):
        columns = rows[:, 3 * band.first : 3 * band.stop]
        begin = 3 * band.begin
        np.matmul(columns, band.weights, out=values[:, begin : begin + band.weights.shape[1]])
    np.rint(values, out=values)
    np.clip(values, 0, 255, out=values)
    np.copyto(out.reshape(height, width * 3), values, casting="unsafe")


_buffers = threading.local()


def _scratch(name: str, shape: tuple[int, int]) -> NDArray[np.float32]:
    """A float32 array that the thread uses again: the page faults of a new one cost a third of the work."""
    held: NDArray[np.float32] | None = getattr(_buffers, name, None)
    if held is None or held.shape != shape:
        held = np.empty(shape, dtype=np.float32)
        setattr(_buffers, name, held)
    return held


@dataclass(frozen=True, slots=True, kw_only=True)
class _Band:
    """Results from `begin` on, from the samples `first` to `stop` (excluded)."""

    begin: int
    first: int
    stop: int
    weights: NDArray[np.float32]


@lru_cache(maxsize=64)
def _bands(source: int, target: int) -> tuple[_Band, ...]:
    """Weights (results, samples) by band that map `source` samples to `target`."""
    scale = source / target
    spread = max(scale, 1.0)
    support = 2.0 * spread
    centre = scale * (np.arange(target) + 0.5)
    first = np.maximum((centre - support + 0.5).astype(np.int64), 0)
    stop = np.minimum((centre + support + 0.5).astype(np.int64), source)
    bands = []
    for begin in range(0, target, BAND):
        end = min(begin + BAND, target)
        taps = np.arange(first[begin], stop[end - 1])
        weights = _cubic((taps - centre[begin:end, None] + 0.5) / spread)
        weights[(taps < first[begin:end, None]) | (taps >= stop[begin:end, None])] = 0.0
        weights /= weights.sum(axis=1, keepdims=True)
        bands.append(
            _Band(
                begin=begin,
                first=int(first[begin]),
                stop=int(stop[end - 1]),
                weights=weights.astype(np.float32),
            )
        )
    return tuple(bands)


@lru_cache(maxsize=64)
def _pixel_bands(source: int, target: int) -> tuple[_Band, ...]:
    """`_bands` with weights (3 * samples, 3 * results) for lines of pixels of three interleaved channels."""
    channels = np.eye(3, dtype=np.float32)
    return tuple(
        _Band(
            begin=band.begin,
            first=band.first,
            stop=band.stop,
            weights=np.ascontiguousarray(np.kron(band.weights.T, channels)),
        )
        for band in _bands(source, target)
    )


def _cubic(distance: NDArray[np.float64]) -> NDArray[np.float64]:
    x = np.abs(distance)
    near = (1.5 * x - 2.5) * x * x + 1.0
    far = ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0
    return np.where(x < 1.0, near, np.where(x < 2.0, far, 0.0))

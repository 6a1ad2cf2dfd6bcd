"""Bicubic resize with antialiasing: the quick way and the way that gives the reference's very pixels.

Both compute the same filter, that of Pillow and torchvision: cubic convolution with a = -0.5, widened by the
reduction factor, its weights normalised to 1 (R. Keys, "Cubic Convolution Interpolation for Digital Image
Processing", 1981, eq. 15, with a = -1/2). The weights are made here; the quick way's sums are those of
`_bicubic.c` where a C compiler was at hand at installation, else small matrix products of NumPy.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from vrldata.errors import missing_extra

try:
    from vrldata import _bicubic
except ImportError:
    _bicubic = None  # type: ignore[assignment]

COMPILED = _bicubic is not None
"""The quick way runs compiled: in a half to a fifth of NumPy's time."""

BAND = 4
"""Rows or columns of the result that one matrix product gives: few, so that their taps are mostly shared."""

BANDS_AT_ONCE = 24
"""Bands of rows that are finished together: what lies between the two passes stays in the cache."""


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
    elif COMPILED:
        _resize_compiled(picture, out)
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


def _resize_compiled(picture: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
    source_height, source_width = picture.shape[:2]
    rows, columns = _axis(source_height, out.shape[0]), _axis(source_width, out.shape[1])
    lines = np.ascontiguousarray(picture)
    _bicubic.resize(lines, source_width, rows.firsts, rows.weights, columns.firsts, columns.weights, out)


def _resize_bands(picture: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
    """Rows, then columns; each band of the result is a small matrix times the lines that it leans on."""
    height, width = out.shape[:2]
    source_height, source_width = picture.shape[:2]
    lines, flat = picture.reshape(source_height, source_width * 3), out.reshape(height, width * 3)
    bands = _bands(source_height, height)
    for start in range(0, len(bands), BANDS_AT_ONCE):
        group = bands[start : start + BANDS_AT_ONCE]
        begin, end = group[0].begin, group[-1].begin + len(group[-1].weights)
        rows = _weighted_rows(lines, group)
        values = rows if source_width == width else _weighted_columns(rows, _pixel_bands(source_width, width))
        np.rint(values, out=values)
        np.clip(values, 0, 255, out=values)
        np.copyto(flat[begin:end], values, casting="unsafe")


def _weighted_rows(lines: NDArray[np.uint8], bands: Sequence[_Band]) -> NDArray[np.float32]:
    """float32 (results of `bands`, D) from uint8 (H, D)."""
    first, begin = bands[0].first, bands[0].begin
    floats = _scratch("floats", bands[-1].stop - first, lines.shape[1])
    floats[:] = lines[first : bands[-1].stop]
    rows = _scratch("rows", bands[-1].begin + len(bands[-1].weights) - begin, lines.shape[1])
    for band in bands:
        place = band.begin - begin
        taps = floats[band.first - first : band.stop - first]
        np.matmul(band.weights, taps, out=rows[place : place + len(band.weights)])
    return rows


def _weighted_columns(rows: NDArray[np.float32], bands: Sequence[_Band]) -> NDArray[np.float32]:
    """float32 (N, 3 * results of `bands`) from float32 (N, 3 * samples)."""
    values = _scratch("values", len(rows), 3 * bands[-1].begin + bands[-1].weights.shape[1])
    for band in bands:
        begin = 3 * band.begin
        taps = rows[:, 3 * band.first : 3 * band.stop]
        np.matmul(taps, band.weights, out=values[:, begin : begin + band.weights.shape[1]])
    return values


_buffers = threading.local()


def _scratch(name: str, height: int, width: int) -> NDArray[np.float32]:
    """A float32 array that the thread uses again: the page faults of a new one cost a third of the work."""
    held: NDArray[np.float32] | None = getattr(_buffers, name, None)
    if held is None or held.size < height * width:
        held = np.empty(height * width, dtype=np.float32)
        setattr(_buffers, name, held)
    return held[: height * width].reshape(height, width)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Axis:
    """Samples that each result along one axis is the weighted sum of.

    Attributes:
        firsts: int32 (results,), the first sample.
        weights: float32 (results, taps), of the samples from there on.
    """

    firsts: NDArray[np.int32]
    weights: NDArray[np.float32]


@lru_cache(maxsize=64)
def _axis(source: int, target: int) -> _Axis:
    """How `source` samples become `target` results."""
    scale = source / target
    spread = max(scale, 1.0)
    support = 2.0 * spread
    centre = scale * (np.arange(target) + 0.5)
    first = np.maximum((centre - support + 0.5).astype(np.int64), 0)
    stop = np.minimum((centre + support + 0.5).astype(np.int64), source)
    num_taps = int((stop - first).max())
    firsts = np.minimum(first, source - num_taps)
    taps = firsts[:, None] + np.arange(num_taps)
    weights = _cubic((taps - centre[:, None] + 0.5) / spread)
    weights[(taps < first[:, None]) | (taps >= stop[:, None])] = 0.0
    weights /= weights.sum(axis=1, keepdims=True)
    return _Axis(firsts=firsts.astype(np.int32), weights=weights.astype(np.float32))


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
    axis = _axis(source, target)
    num_taps = axis.weights.shape[1]
    bands = []
    for begin in range(0, target, BAND):
        firsts = axis.firsts[begin : begin + BAND]
        first, stop = int(firsts[0]), int(firsts[-1]) + num_taps
        weights = np.zeros((len(firsts), stop - first), dtype=np.float32)
        for line, place, taps in zip(weights, firsts - first, axis.weights[begin:], strict=False):
            line[place : place + num_taps] = taps
        bands.append(_Band(begin=begin, first=first, stop=stop, weights=weights))
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

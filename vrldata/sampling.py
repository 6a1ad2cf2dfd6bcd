"""Which frames of a video are taken, and at what size: `SamplingSpec` and its arithmetic, in numpy alone.

The rules are those of Qwen-VL's reference preprocessing (qwen-vl-utils 0.0.14, `smart_nframes` and
`smart_resize`), computed with exact rationals where it uses floats. Opening files and touching pixels is
the work of `decoding`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import numbers
import os
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vrldata.errors import ConfigError, DecodeError, nearest

PREPROCESS_VERSION = "vrl-2"
"""Changes when the same file and spec give other pixels: rows of another version are decoded again."""

MAX_ASPECT_RATIO = 200
"""Longer side over shorter side from which the reference refuses a picture."""

MAX_CELLS_PER_FRAME = 768
"""Cells of `size_multiple` squared that the reference allows one video frame, whatever `max_pixels` says."""

DEFAULT_TOTAL_CELLS = 115_200
"""Cells that the reference shares among the frames of a video when `total_pixels` is None (0.9 x 128,000)."""

IMAGE_MAX_CELLS = 1024
"""Cells of an image when no budget is given: 1,048,576 pixels on the 32-pixel grid."""

RESIZE_METHODS = ("native", "exact")
NOT_IN_KEY = frozenset({"codec"})
"""Fields of the spec that say how a row is stored, not which pixels it holds."""

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_MAX_INT32 = 2**31 - 1
_MAX_INT64 = 2**63 - 1
_INTEGER_LIMITS: Mapping[str, int] = MappingProxyType(
    {
        "max_frames": _MAX_INT32,
        "max_pixels": _MAX_INT64,
        "min_frames": _MAX_INT32,
        "min_pixels": _MAX_INT64,
        "total_pixels": _MAX_INT64,
        "frame_multiple": _MAX_INT32,
        "size_multiple": 4096,
    }
)


@dataclass(frozen=True, slots=True)
class SamplingSpec:
    """How a video becomes frames. Every field but `codec` is part of the key of the stored row.

    Attributes:
        fps: frames to take per second of video.
        max_frames: most frames of a clip; wins over `min_frames`.
        max_pixels: most pixels of one frame (height x width).
        min_frames: fewest frames of a clip, where the video has them.
        min_pixels: fewest pixels of one frame; smaller pictures are scaled up.
        total_pixels: pixels shared by all frames of a clip, counted once per `frame_multiple` frames; None
            takes the reference's 115,200 cells of `size_multiple` squared.
        frame_multiple: the number of frames is a multiple of this (the temporal patch of the model).
        size_multiple: height and width are multiples of this (patch x merge: 28 or 32).
        start: first second of the window, inclusive; None for the start of the video.
        end: last second of the window, inclusive; None for the end of the video.
        codec: how the frames are stored; not part of the key.
        resize: `native` is bicubic with antialiasing, within 1 level of the reference; `exact` goes
            through float32 as the reference does and gives its pixels.

    Raises:
        ConfigError: a value is of the wrong type or out of range; the message names field, value and fix.
    """

    fps: float = 2.0
    max_frames: int = 128
    max_pixels: int = 262144
    min_frames: int = 4
    min_pixels: int = 4096
    total_pixels: int | None = None
    frame_multiple: int = 2
    size_multiple: int = 32
    start: float | None = None
    end: float | None = None
    codec: str = "raw"
    resize: str = "native"

    def __post_init__(self) -> None:
        for name in ("fps", "start", "end"):
            object.__setattr__(self, name, _seconds_or_rate(name, getattr(self, name)))
        for name, limit in _INTEGER_LIMITS.items():
            object.__setattr__(self, name, _positive_integer(name, getattr(self, name), limit))
        for name, example in (("codec", "'raw'"), ("resize", "'native'")):
            value = getattr(self, name)
            if not isinstance(value, str) or not value:
                raise ConfigError(f"{name}={value!r}: expected a name such as {example}")
        if self.resize not in RESIZE_METHODS:
            hint = nearest(self.resize, RESIZE_METHODS)
            raise ConfigError(f"resize={self.resize!r}: expected one of {', '.join(RESIZE_METHODS)}.{hint}")
        self._check_relations()

    def _check_relations(self) -> None:
        if self.max_frames < self.frame_multiple:
            raise ConfigError(
                f"max_frames={self.max_frames} is less than frame_multiple={self.frame_multiple}: "
                f"raise max_frames to {self.frame_multiple} or more"
            )
        if self.min_pixels > self.max_pixels:
            raise ConfigError(
                f"min_pixels={self.min_pixels} is more than max_pixels={self.max_pixels}: "
                "lower min_pixels or raise max_pixels"
            )
        cell = self.size_multiple**2
        if self.max_pixels < cell:
            raise ConfigError(
                f"max_pixels={self.max_pixels} is less than one cell of size_multiple={self.size_multiple} "
                f"squared: raise max_pixels to {cell} or more"
            )
        if self.start is not None and self.end is not None and self.end <= self.start:
            raise ConfigError(
                f"end={self.end} is not after start={self.start}: give a window of positive length"
            )

    def clip_id(self, video_path: str) -> str:
        """Hex sha256 of the key (video_path, spec without `codec`); the same on every machine.

        >>> SamplingSpec(fps=2).clip_id("a/b.mp4") == SamplingSpec(fps=2.0).clip_id("./a/b.mp4")
        True
        """
        key = {**self._key_fields(), "video_path": normalise_video_path(video_path)}
        return hashlib.sha256(_canonical_json(key).encode()).hexdigest()

    def to_json(self) -> str:
        """All fields as JSON with sorted keys, the `spec` column of the `frames` table."""
        return _canonical_json(dataclasses.asdict(self))

    def key_json(self) -> str:
        """The fields that are part of the key as JSON with sorted keys."""
        return _canonical_json(self._key_fields())

    def _key_fields(self) -> dict[str, Any]:
        return {name: value for name, value in dataclasses.asdict(self).items() if name not in NOT_IN_KEY}

    @classmethod
    def from_json(cls, text: str | bytes | Mapping[str, Any]) -> SamplingSpec:
        """The spec that `to_json` wrote; absent fields take their defaults.

        Raises:
            ConfigError: not a JSON object, an unknown field, or a wrong value.
        """
        if isinstance(text, Mapping):
            values: Any = dict(text)
        else:
            try:
                values = json.loads(text)
            except ValueError as error:
                raise ConfigError(f"sampling spec {text!r} is not JSON: {error}") from error
        if not isinstance(values, dict):
            raise ConfigError(f'sampling spec {text!r}: expected a JSON object such as {{"fps": 2.0}}')
        known = [field.name for field in dataclasses.fields(cls)]
        for name in values:
            if name not in known:
                hint = nearest(str(name), known) or f" Known: {', '.join(known)}."
                raise ConfigError(f"sampling spec: unknown field {name!r}.{hint}")
        return cls(**values)

    def for_image(self, image_max_pixels: int | None = None) -> SamplingSpec:
        """The spec of an image beside videos of this spec: one frame, own budget, no window.

        Fields that mean nothing for an image are set to fixed values, so that one image has one key whatever
        the frame rate of the videos. Without `image_max_pixels` the budget is 1024 cells of `size_multiple`
        squared, or `min_pixels` where that is more.
        """
        budget = image_max_pixels
        if budget is None:
            budget = max(IMAGE_MAX_CELLS * self.size_multiple**2, self.min_pixels)
        return dataclasses.replace(
            self,
            fps=1.0,
            max_frames=1,
            min_frames=1,
            frame_multiple=1,
            max_pixels=budget,
            total_pixels=None,
            start=None,
            end=None,
        )


def preset(name: str) -> SamplingSpec:
    """The spec of a model family.

    Raises:
        ConfigError: no such preset; the message lists the known ones.
    """
    if name not in PRESETS:
        raise ConfigError(
            f"preset {name!r} is unknown: choose one of {', '.join(PRESETS)}.{nearest(name, PRESETS)}"
        )
    return PRESETS[name]


def normalise_video_path(video_path: str | os.PathLike[str]) -> str:
    """`video_path` as the tables hold it: `/` separators, NFC, without `./` and doubled slashes.

    `..` is kept, since through a symbolic link it is no plain text operation. Where `/` is the separator of
    the system a backslash is part of a name and stays.

    >>> normalise_video_path("./a//b/./c.mp4")
    'a/b/c.mp4'
    """
    path = os.fspath(video_path)
    if not isinstance(path, str):
        raise ConfigError(f"video_path={path!r}: expected text, found bytes; decode it with os.fsdecode")
    if os.sep != "/":
        path = path.replace(os.sep, "/")
    path = unicodedata.normalize("NFC", path)
    if _SCHEME.match(path):
        return path
    root = "/" if path.startswith("/") else ""
    return root + "/".join(part for part in path.split("/") if part not in ("", "."))


def num_sampled_frames(total_num_frames: int, source_fps: Fraction | float, spec: SamplingSpec) -> int:
    """How many distinct frames are taken from `total_num_frames` frames at `source_fps`.

    n = total / source_fps * fps, at least `min_frames` (rounded up to the multiple), at most `max_frames`
    (rounded down) and at most what there is, floored to a multiple of `frame_multiple`. A video with fewer
    frames than one multiple gives all of them; `pad_indices` then repeats the last. Rationals keep exact
    products exact: a rate that is off by 1e-7 would lose one multiple of frames at every knife edge.

    >>> num_sampled_frames(120, Fraction(30), SamplingSpec(fps=2))
    8
    >>> num_sampled_frames(101, Fraction(24000, 1001), SamplingSpec(fps=2))
    8

    Raises:
        DecodeError: there are no frames, or the rate is not positive.
    """
    if total_num_frames < 1:
        raise DecodeError("there is no frame to sample from")
    rate = _as_fraction(source_fps)
    if rate <= 0:
        raise DecodeError(f"source frame rate {source_fps} is not positive")
    multiple = spec.frame_multiple
    fewest = -(-spec.min_frames // multiple) * multiple
    most = spec.max_frames // multiple * multiple
    wanted = total_num_frames / rate * _as_fraction(spec.fps)
    frames = math.floor(min(min(max(wanted, Fraction(fewest)), Fraction(most)), Fraction(total_num_frames)))
    return frames // multiple * multiple or total_num_frames


def sample_indices(total_num_frames: int, num_frames: int) -> NDArray[np.int32]:
    """int32 (num_frames,): evenly spaced indices from 0 to `total_num_frames - 1`, both included.

    The same figures as `torch.linspace(0, total - 1, n).round()`: float32 with one rounding per element,
    counted from the nearer end, ties to even.

    >>> sample_indices(300, 8).tolist()
    [0, 43, 85, 128, 171, 214, 256, 299]
    """
    if num_frames == 1:
        return np.zeros(1, dtype=np.int32)
    last = np.float32(total_num_frames - 1)
    step = float(last / np.float32(num_frames - 1))
    positions = np.arange(num_frames, dtype=np.float64)
    # products of a float32 and a small integer are exact in float64: one rounding to float32 is left
    from_start = (step * positions).astype(np.float32)
    from_end = (float(last) - step * (num_frames - 1 - positions)).astype(np.float32)
    values = np.where(positions < num_frames // 2, from_start, from_end)
    return np.rint(values).astype(np.int32)


def pad_indices(indices: NDArray[np.int32], frame_multiple: int) -> NDArray[np.int32]:
    """`indices` with the last one repeated up to a multiple of `frame_multiple`.

    >>> pad_indices(np.array([0], dtype=np.int32), 2).tolist()
    [0, 0]
    """
    missing = -len(indices) % frame_multiple
    return np.concatenate([indices, np.repeat(indices[-1:], missing)]) if missing else indices


def sampled_fps(num_frames: int, total_num_frames: int, source_fps: Fraction | float) -> float:
    """Frames per second of the sample: num_frames / total_num_frames * source_fps."""
    return float(Fraction(num_frames, max(total_num_frames, 1)) * _as_fraction(source_fps))


def resized_size(height: int, width: int, num_frames: int, spec: SamplingSpec) -> tuple[int, int]:
    """(height, width) in pixels of every frame of a clip of `num_frames` frames from a picture of this size.

    Both are multiples of `size_multiple`, their product lies within the budget, and the shape is kept as well
    as the grid allows. The budget of a video frame is `max_pixels`, but no more than 768 cells and no more
    than its share of `total_pixels`. A side never falls below one cell, where the reference would give 0.

    >>> resized_size(1080, 1920, 16, SamplingSpec())
    (384, 672)

    Raises:
        DecodeError: the picture is empty, or longer than 200 times its width.
    """
    share = (
        (spec.total_pixels or DEFAULT_TOTAL_CELLS * spec.size_multiple**2) / num_frames * spec.frame_multiple
    )
    most = max(min(MAX_CELLS_PER_FRAME * spec.size_multiple**2, share), int(spec.min_pixels * 1.05))
    return _fit(height, width, spec.size_multiple, spec.min_pixels, min(spec.max_pixels, most))


def resized_image_size(height: int, width: int, spec: SamplingSpec) -> tuple[int, int]:
    """(height, width) in pixels of an image: as `resized_size`, with `max_pixels` alone as the budget."""
    return _fit(height, width, spec.size_multiple, spec.min_pixels, spec.max_pixels)


def _fit(height: int, width: int, multiple: int, min_pixels: int, max_pixels: float) -> tuple[int, int]:
    if height < 1 or width < 1:
        raise DecodeError(f"the picture is empty: {width} x {height} pixels")
    ratio = max(height, width) / min(height, width)
    if ratio > MAX_ASPECT_RATIO:
        raise DecodeError(
            f"absolute aspect ratio must be smaller than {MAX_ASPECT_RATIO}, got {ratio:g} "
            f"({width} x {height} pixels): crop the video or drop the sample"
        )
    fitted_height = max(multiple, round(height / multiple) * multiple)
    fitted_width = max(multiple, round(width / multiple) * multiple)
    if fitted_height * fitted_width > max_pixels:
        shrink = math.sqrt(height * width / max_pixels)
        fitted_height = max(multiple, math.floor(height / shrink / multiple) * multiple)
        fitted_width = max(multiple, math.floor(width / shrink / multiple) * multiple)
    elif fitted_height * fitted_width < min_pixels:
        grow = math.sqrt(min_pixels / (height * width))
        fitted_height = math.ceil(height * grow / multiple) * multiple
        fitted_width = math.ceil(width * grow / multiple) * multiple
    return fitted_height, fitted_width


def _as_fraction(rate: Fraction | float) -> Fraction:
    """Exact for rationals; a float is read as the decimal that it prints, so that 0.6 means 3/5."""
    return rate if isinstance(rate, Fraction) else Fraction(repr(float(rate)))


def _canonical_json(values: Mapping[str, Any]) -> str:
    return json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _seconds_or_rate(name: str, value: object) -> float | None:
    if value is None and name != "fps":
        return None
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ConfigError(
            f"{name}={value!r}: expected a number, found {type(value).__name__}; write {name}=2.0"
        )
    number = float(value) + 0.0
    if not math.isfinite(number):
        raise ConfigError(f"{name}={value!r}: expected a finite number")
    if name == "fps" and number <= 0:
        raise ConfigError(f"fps={value!r}: expected more than 0 frames per second, such as fps=2.0")
    if number < 0:
        raise ConfigError(f"{name}={value!r}: expected seconds from the start of the video, 0 or more")
    return number


def _positive_integer(name: str, value: object, limit: int) -> int | None:
    if value is None and name == "total_pixels":
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise ConfigError(f"{name}={value!r}: expected a whole number, found {type(value).__name__}")
    number = int(value)
    if not 1 <= number <= limit:
        raise ConfigError(f"{name}={number}: expected a whole number from 1 to {limit}")
    return number


def _preset(size_multiple: int) -> SamplingSpec:
    """256 cells a frame at most and 4 at least, on the grid of the model family."""
    cell = size_multiple**2
    return SamplingSpec(size_multiple=size_multiple, max_pixels=256 * cell, min_pixels=4 * cell)


PRESETS: Mapping[str, SamplingSpec] = MappingProxyType(
    {
        "qwen2-vl": _preset(28),
        "qwen2.5-vl": _preset(28),
        "qwen3-vl": _preset(32),
        "qwen3.5-vl": _preset(32),
    }
)
"""Specs by model family: patch 14 x merge 2 gives a 28-pixel grid, patch 16 x merge 2 a 32-pixel grid."""

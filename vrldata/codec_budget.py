"""Which codec keeps a build within a byte budget: measured on the first clips, corrected as it goes."""

from __future__ import annotations

import logging
import threading
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vrldata.codecs import AUTO, CODECS, Codec, choose_codec, encode_frames, parse_codec
from vrldata.errors import ConfigError

logger = logging.getLogger(__name__)

TRIAL_CLIPS = 8
"""Clips of which every codec's size is measured."""

TRIAL_FRAMES = 4
"""Frames of such a clip that are encoded, evenly spaced."""


class Chooser(Protocol):
    """Gives the codec of each clip of a build."""

    def choose(self, frames: NDArray[np.uint8]) -> Codec:
        """The codec for a clip of uint8 (T, H, W, 3)."""

    def spent(self, num_bytes: int) -> None:
        """Count a clip that was packed."""


def measured_ratios(frames: NDArray[np.uint8]) -> dict[str, float]:
    """Bytes by codec over the bytes of the pixels, from a few frames of a clip uint8 (T, H, W, 3)."""
    places = np.unique(np.linspace(0, len(frames) - 1, TRIAL_FRAMES).round().astype(int))
    some = np.ascontiguousarray(frames[places])
    return {name: memoryview(encode_frames(some, parse_codec(name))).nbytes / some.nbytes for name in CODECS}


class CodecChooser:
    """Gives the codec of each clip; safe to share among threads.

    A codec that is named is always the answer. `auto` spreads what is left of the budget over the clips that
    are left: the fastest codec that is expected to fit, from the sizes seen so far.

    Args:
        name: a codec, or `auto`.
        budget_bytes: bytes for the payloads of this build.

    Attributes:
        shortage: what is missing where even the smallest codec does not fit; empty where all is well.

    Raises:
        ConfigError: an unknown codec, `auto` without a budget, or a budget without `auto`.
    """

    def __init__(self, name: str, budget_bytes: int | None = None) -> None:
        if name == AUTO and budget_bytes is None:
            raise ConfigError("codec=auto needs a budget in bytes, such as --budget 2TB")
        if name != AUTO and budget_bytes is not None:
            raise ConfigError(f"a budget chooses the codec: use it with codec=auto, not with codec={name}")
        if budget_bytes is not None and budget_bytes <= 0:
            raise ConfigError(f"budget={budget_bytes}: expected more than 0 bytes")
        self._fixed = None if name == AUTO else parse_codec(name)
        self._budget = float(budget_bytes or 0)
        self._left = 0
        self._raw_sizes: list[int] = []
        self._ratios: list[dict[str, float]] = []
        self.shortage = ""
        self._lock = threading.Lock()

    def expect(self, clips: int, stored_bytes: int = 0) -> None:
        """Say how many clips are going to come, and how much of the budget is taken by payloads already."""
        self._left = clips
        self._budget -= stored_bytes

    def choose(self, frames: NDArray[np.uint8]) -> Codec:
        """The codec for a clip of uint8 (T, H, W, 3)."""
        if self._fixed is not None:
            return self._fixed
        ratios = measured_ratios(frames) if self.wants_trial() else None
        return parse_codec(self.decide(frames.nbytes, ratios))

    def wants_trial(self) -> bool:
        """Whether `decide` needs the measured ratios of the next clip."""
        return len(self._ratios) < TRIAL_CLIPS

    def decide(self, raw_bytes: int, ratios: dict[str, float] | None) -> str:
        """Name of the codec for a clip with `raw_bytes` of pixels; `ratios` where they were measured."""
        with self._lock:
            self._raw_sizes.append(raw_bytes)
            if ratios is not None:
                self._ratios.append(ratios)
            expected_raw = float(np.mean(self._raw_sizes)) * max(self._left, 1)
            sizes = {
                codec: expected_raw * float(np.mean([seen[codec] for seen in self._ratios]))
                for codec in CODECS
            }
            name = choose_codec(sizes, self._budget)
            if sizes[name] > self._budget and not self.shortage:
                self.shortage = (
                    f"the budget is too small: {self._left} clips left need about {sizes[name] / 1e9:.1f} GB "
                    f"as {name}, {max(self._budget, 0.0) / 1e9:.1f} GB are left"
                )
                logger.warning("%s", self.shortage)
            return name

    @property
    def left(self) -> tuple[int, int]:
        """Clips and bytes that are left."""
        return self._left, int(self._budget)

    def spent(self, num_bytes: int) -> None:
        """Count a clip that was packed."""
        with self._lock:
            self._left -= 1
            self._budget -= num_bytes

"""Which codec keeps a build within a byte budget: measured on the first clips, corrected as it goes."""

from __future__ import annotations

import logging
import threading

import numpy as np
from numpy.typing import NDArray

from vrldata.codecs import AUTO, CODECS, Codec, choose_codec, encode_frames, parse_codec
from vrldata.errors import ConfigError

logger = logging.getLogger(__name__)

TRIAL_CLIPS = 8
"""Clips of which every codec's size is measured."""

TRIAL_FRAMES = 4
"""Frames of such a clip that are encoded, evenly spaced."""


class CodecChooser:
    """Gives the codec of each clip; safe to share among threads.

    A codec that is named is always the answer. `auto` spreads what is left of the budget over the clips that
    are left: the fastest codec that is expected to fit, from the sizes seen so far.

    Args:
        name: a codec, or `auto`.
        budget_bytes: bytes for the payloads of this build.

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
        self._ratios: dict[str, list[float]] = {codec: [] for codec in CODECS}
        self._warned = False
        self._lock = threading.Lock()

    def expect(self, clips: int, stored_bytes: int = 0) -> None:
        """Say how many clips are going to come, and how much of the budget is taken by payloads already."""
        self._left = clips
        self._budget -= stored_bytes

    def choose(self, frames: NDArray[np.uint8]) -> Codec:
        """The codec for a clip of uint8 (T, H, W, 3)."""
        if self._fixed is not None:
            return self._fixed
        with self._lock:
            self._raw_sizes.append(frames.nbytes)
            if len(self._ratios["raw"]) < TRIAL_CLIPS:
                self._measure(frames)
            expected_raw = float(np.mean(self._raw_sizes)) * max(self._left, 1)
            sizes = {codec: expected_raw * float(np.mean(seen)) for codec, seen in self._ratios.items()}
            name = choose_codec(sizes, self._budget)
            if sizes[name] > self._budget and not self._warned:
                self._warned = True
                logger.warning(
                    "the budget is too small: %d clips left need about %.1f GB as %s, %.1f GB are left",
                    self._left,
                    sizes[name] / 1e9,
                    name,
                    max(self._budget, 0.0) / 1e9,
                )
            return parse_codec(name)

    def spent(self, num_bytes: int) -> None:
        """Count a clip that was packed."""
        with self._lock:
            self._left -= 1
            self._budget -= num_bytes

    def _measure(self, frames: NDArray[np.uint8]) -> None:
        places = np.unique(np.linspace(0, len(frames) - 1, TRIAL_FRAMES).round().astype(int))
        some = np.ascontiguousarray(frames[places])
        for name, seen in self._ratios.items():
            size = memoryview(encode_frames(some, parse_codec(name))).nbytes
            seen.append(size / some.nbytes)

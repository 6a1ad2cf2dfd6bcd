"""When each frame of a stream is shown: one clock without leaps, its rate, its length, and windows in it.

Rates of headers are candidates; a rate is believed only where every frame agrees with it.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

ASSUMED_RATE = Fraction(25)
"""Frames per second of a stream that says nothing."""

_LEAP_BACK = 1
"""Seconds by which times may be out of order before the clock has been set anew."""

_LEAP_AHEAD = 10
"""Seconds without a picture from which a broadcast has been set anew, as FFmpeg has it."""

_SAME_TICK = Fraction(1, 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """When each frame of a stream is shown.

    Attributes:
        ticks: int64 (N,), ascending, relative to the first frame.
        time_base: seconds of one tick.
        rate: frames per second: exact where the spacing is constant, else frames over duration.
        duration: seconds from the first frame to the end of the last.
        constant: the spacing is constant to within one tick.
        leaps: how often the clock was set anew; what lay between is left out.
    """

    ticks: NDArray[np.int64]
    time_base: Fraction
    rate: Fraction
    duration: Fraction
    constant: bool
    leaps: int = 0

    def __len__(self) -> int:
        return len(self.ticks)

    def seconds(self) -> NDArray[np.float64]:
        """float64 (N,)."""
        return self.ticks * self.time_base.numerator / self.time_base.denominator

    def window(self, start: float | None, end: float | None) -> tuple[int, int]:
        """First and one past the last frame whose time t fulfils start <= t <= end to 1/1000 of a tick.

        A window between two frames gives the frame that is on screen then; one outside the video gives (n,
        n).
        """
        first, stop = 0, len(self)
        if start is not None:
            first = int(np.searchsorted(self.ticks, math.ceil(self._in_ticks(start)), side="left"))
        if end is not None:
            stop = int(np.searchsorted(self.ticks, math.floor(self._in_ticks(end)), side="right"))
        if stop <= first and first > 0 and (start is None or _decimal(start) < self.duration):
            first = min(first, len(self)) - 1
            stop = first + 1
        return first, max(stop, first)

    def _in_ticks(self, seconds: float) -> Fraction:
        ticks = _decimal(seconds) / self.time_base
        # a frame's own time as a float is the frame's time
        return Fraction(round(ticks)) if abs(ticks - round(ticks)) < _SAME_TICK else ticks


def _decimal(seconds: float) -> Fraction:
    """The decimal that a float prints: 0.3 is 3/10, as its author meant."""
    return Fraction(repr(seconds))


def is_steady(ticks: NDArray[np.int64], time_base: Fraction) -> bool:
    """Whether a clock never goes back by more than a second."""
    return not (np.diff(ticks) < -_LEAP_BACK / time_base).any()


def joined(
    ticks: NDArray[np.int64], time_base: Fraction, *, broadcast: bool
) -> tuple[NDArray[np.int64], int]:
    """Times of frames in the order in which they are shown, made to ascend, and how many leaps that took.

    Times in the order of decoding are sorted; where some are the same, those that do not ascend are moved
    between their neighbours. Behind a step back of more than a second,
    and in a broadcast behind a long step ahead, a new clock begins: its first frame follows the last one at
    the usual distance.
    """
    steps = np.diff(ticks)
    leaps = steps < -_LEAP_BACK / time_base
    if broadcast:
        leaps |= steps > max(_LEAP_AHEAD / time_base, Fraction(10 * _usual(steps)))
    runs = [_ascending(run) for run in np.split(ticks, np.flatnonzero(leaps) + 1)]
    for number in range(1, len(runs)):
        runs[number] = runs[number] + (runs[number - 1][-1] + _usual(steps) - runs[number][0])
    return np.concatenate(runs), len(runs) - 1


def _usual(steps: NDArray[np.int64]) -> int:
    ahead = steps[steps > 0]
    return int(np.median(ahead)) if len(ahead) else 1


def _ascending(ticks: NDArray[np.int64]) -> NDArray[np.int64]:
    ordered = np.sort(ticks)
    if (np.diff(ordered) > 0).all():
        return ordered
    kept = _longest_ascent(ticks)
    places = np.arange(len(ticks))
    spread = np.interp(places, kept, ticks[kept])
    for behind, end, inner in (
        (places < kept[0], kept[0], kept[:2][-1]),
        (places > kept[-1], kept[-1], kept[-2:][0]),
    ):
        # at the distances of the nearest frames whose times are kept
        step = (ticks[end] - ticks[inner]) / (end - inner) if end != inner else 1
        spread[behind] = ticks[end] + step * (places[behind] - end)
    return spread.round().astype(np.int64)


def _longest_ascent(ticks: NDArray[np.int64]) -> list[int]:
    """Places of a longest strictly ascending part of `ticks`, of equal ones the first (patience sorting)."""
    ends: list[int] = []
    places: list[int] = []
    previous: list[int] = []
    for place, tick in enumerate(ticks.tolist()):
        length = bisect.bisect_left(ends, tick)
        previous.append(places[length - 1] if length else -1)
        if ends[length : length + 1] != [tick]:
            ends[length : length + 1] = [tick]
            places[length : length + 1] = [place]
    found = [places[-1]]
    while previous[found[-1]] >= 0:
        found.append(previous[found[-1]])
    return found[::-1]


def timeline_of(
    pts: NDArray[np.int64],
    time_base: Fraction,
    last_duration: int,
    rates: Sequence[Fraction],
    *,
    leaps: int = 0,
) -> Timeline:
    """Timeline of frames at `pts`, which never fall; the last is shown for `last_duration` ticks."""
    ticks = pts - pts[0]
    rate = _constant_rate(ticks, time_base, last_duration, rates)
    if rate is not None:
        duration = len(ticks) / rate
    else:
        # muxers guess how long the last frame is shown: never less than what is usual just before it
        steps = np.diff(ticks)
        end = int(ticks[-1]) + max(last_duration, _usual(steps[steps > 0][-3:]))
        # times are rounded to ticks: the plainest number within one of them is what was meant
        duration = _simplest((end - 1) * time_base, (end + 1) * time_base)
    return Timeline(
        ticks=ticks,
        time_base=time_base,
        rate=rate if rate is not None else len(ticks) / duration,
        duration=duration,
        constant=rate is not None,
        leaps=leaps,
    )


def _simplest(low: Fraction, high: Fraction) -> Fraction:
    """The number from `low` to `high` with the smallest denominator (by continued fractions)."""
    whole = -(-low.numerator // low.denominator)
    if whole <= high:
        return Fraction(whole)
    floor = low.numerator // low.denominator
    return floor + 1 / _simplest(1 / (high - floor), 1 / (low - floor))


def timeline_by_rate(num_frames: int, rate: Fraction) -> Timeline:
    """Timeline of frames without usable times: one after the other at `rate`."""
    return Timeline(
        ticks=np.arange(num_frames, dtype=np.int64) * rate.denominator,
        time_base=Fraction(1, rate.numerator),
        rate=rate,
        duration=num_frames / rate,
        constant=True,
    )


_USUAL_RATES = tuple(Fraction(n, 1001) for n in (24000, 30000, 60000, 120000)) + tuple(
    Fraction(n) for n in (5, 6, 8, 10, 12, 15, 20, 24, 25, 30, 48, 50, 60, 90, 100, 120, 144, 240)
)


def _constant_rate(
    ticks: NDArray[np.int64], time_base: Fraction, last_duration: int, rates: Sequence[Fraction]
) -> Fraction | None:
    if len(ticks) == 1:
        shown = last_duration * time_base
        if not shown:
            return rates[0] if rates else ASSUMED_RATE
        return min(rates, key=lambda rate: abs(1 / rate - shown), default=1 / shown)
    number = np.arange(len(ticks), dtype=np.float64)
    for rate in (*rates, *_USUAL_RATES):
        step = 1 / (rate * time_base)
        # one tick where the grid is fine: both ends of an interval are rounded to it
        tolerance = 1.0 if step >= 4 else 0.5
        if step >= 1 and np.abs(ticks - number * float(step)).max() <= tolerance + 1e-6:
            return rate
    steps = np.diff(ticks)
    if steps[0] > 0 and (steps == steps[0]).all():
        return 1 / (int(steps[0]) * time_base)
    return None

"""Wanted frames as they leave the decoder: converted, resized and laid into one array.

Memory holds the sampled frames and the few pictures under conversion, never the decoded video.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from fractions import Fraction
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vrldata import picture
from vrldata.resize import resize
from vrldata.sampling import SamplingSpec, resized_size

Allocate = Callable[[tuple[int, int, int, int]], NDArray[np.uint8]]
"""Gives the writable uint8 array (T, H, W, 3) that the frames go to."""

_PICTURES_AT_ONCE = 4
"""Full-size pictures that may wait for their conversion beside the decoder."""


class FrameCollector:
    """Takes wanted frames in the order in which they are shown. A context manager.

    Attributes:
        slots: key of a frame (its ordinal or its time) to the places of the clip that it fills.
        frames: uint8 (T, H, W, 3) once the first frame has come; filled when `settle` has returned.
        geometry: of the first frame taken.
        notes: what had to be decided on the way.
    """

    def __init__(
        self, slots: Mapping[int, Sequence[int]], spec: SamplingSpec, allocate: Allocate, *, threads: int
    ) -> None:
        self.slots = slots
        self.frames: NDArray[np.uint8] | None = None
        self.geometry: picture.Geometry | None = None
        self.notes: dict[str, None] = {}
        self._spec, self._allocate = spec, allocate
        self._missing = set(slots)
        self._coded_size = (0, 0)
        self._reformatter: Any = None
        # beside a decoder with threads of its own the conversion would stop them between packets
        self._converter = ThreadPoolExecutor(1, "vrl-convert") if threads > 1 else None
        self._room = threading.BoundedSemaphore(_PICTURES_AT_ONCE)
        self._conversions: list[Future[None]] = []

    def __enter__(self) -> FrameCollector:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._converter is not None:
            self._converter.shutdown(wait=True, cancel_futures=True)
        # PyAV ties a frame and its side data into a cycle, which holds on to the memory of the decoder
        gc.collect(1)

    @property
    def complete(self) -> bool:
        """Every slot is filled or about to be."""
        return not self._missing

    def add(self, key: int, frame: Any, sample_aspect_ratio: Fraction | None) -> None:
        """Take one frame for all of its places."""
        geometry = picture.geometry_of(frame, sample_aspect_ratio)
        if self.frames is None or self.geometry is None:
            self.geometry = geometry
            self._coded_size = (frame.width, frame.height)
            self.frames = self._allocate_frames(geometry)
            self._note_tags(frame, geometry)
        elif (frame.width, frame.height) != self._coded_size:
            note = "the picture size changes within the video; every frame has the size of the first"
            self.notes[note] = None
        self._missing.discard(key)
        if self._converter is None:
            self._convert(key, frame, geometry, self.frames)
        else:
            self._room.acquire()
            self._conversions.append(
                self._converter.submit(self._convert_and_make_room, key, frame, geometry, self.frames)
            )

    def settle(self) -> None:
        """Wait for what is under conversion; raises what went wrong there."""
        for conversion in self._conversions:
            conversion.result()
        self._conversions.clear()

    def _convert_and_make_room(self, *conversion: Any) -> None:
        try:
            self._convert(*conversion)
        finally:
            self._room.release()

    def _convert(self, key: int, frame: Any, geometry: picture.Geometry, frames: NDArray[np.uint8]) -> None:
        if self._reformatter is None:
            from av.video.reformatter import VideoReformatter

            self._reformatter = VideoReformatter()
        rgb = geometry.orientation.apply(picture.to_rgb(frame, self._reformatter))
        first, *repeats = self.slots[key]
        resize(rgb, frames.shape[1], frames.shape[2], self._spec.resize, out=frames[first])
        for slot in repeats:
            frames[slot] = frames[first]

    def _allocate_frames(self, geometry: picture.Geometry) -> NDArray[np.uint8]:
        num_frames = sum(len(places) for places in self.slots.values())
        height, width = resized_size(geometry.height, geometry.width, num_frames, self._spec)
        return self._allocate((num_frames, height, width, 3))

    def _note_tags(self, frame: Any, geometry: picture.Geometry) -> None:
        transfer = picture.hdr_transfer(frame)
        if transfer:
            self.notes[f"HDR ({transfer}) was converted to 8 bit without tone mapping"] = None
        if picture.unknown_matrix(frame):
            self.notes["the colour matrix is one that cannot be converted: read as BT.601"] = None
        if not geometry.orientation.exact:
            self.notes["the rotation tag is no multiple of 90 degrees and was rounded"] = None

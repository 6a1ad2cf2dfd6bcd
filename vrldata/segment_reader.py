"""Wanted frames by the shortest way through a video, as long as all goes as its packet table foretells.

Reading starts at key frames where that is cheaper than reading everything, and leaves out pictures that
nobody asked for and no other picture leans on. The frames are the same as those of a full decode: whatever
differs from the forecast ends the attempt, and `frame_reader` then decodes everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vrldata import picture
from vrldata.coded_pictures import ReferenceReader
from vrldata.frame_collector import FrameCollector
from vrldata.video_stream import (
    PacketTable,
    bound_decoder,
    open_video,
    packets_in,
    refuse_shortage,
    stream_of,
)

SEEK_COST = 12
"""Packets whose decoding takes about as long as one jump: seek, restart of the decoder, late output."""

SEEK_MARGIN = 1.25
"""How much cheaper the jumps must look before they are preferred to reading everything."""

_MAX_SKIPPED_PACKETS = 5000
# codecs whose key frames and times can be relied on to start decoding in the middle
_SEEKABLE_CODECS = frozenset(
    (
        "h264",
        "hevc",
        "av1",
        "libdav1d",
        "vp8",
        "vp9",
        "libvpx-vp9",
        "mpeg1video",
        "mpeg2video",
        "mpeg4",
        "prores",
        "dnxhd",
        "mjpeg",
        "ffv1",
        "png",
        "rawvideo",
        "v210",
        "huffyuv",
        "ffvhuff",
        "utvideo",
        "magicyuv",
        "cfhd",
        "jpeg2000",
        "qtrle",
        "theora",
        "vvc",
    )
)
_INTRA_PICTURE = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Packets to decode, from the key frame `first` to `last` (places in the table, both included).

    Attributes:
        until: time in ticks up to which the frames that come out are compared with the forecast.
    """

    first: int
    last: int
    until: int


def plan_segments(
    table: PacketTable, frame_pts: NDArray[np.int64], positions: Sequence[int]
) -> list[Segment]:
    """How to reach the frames at `positions` (ascending): one segment that is the whole video, or several.

    A frame is decoded from the latest key frame that precedes it both in time and in the file: leading
    pictures of an open GOP thereby start one GOP earlier.
    """
    whole = [Segment(first=0, last=len(table.pts) - 1, until=int(frame_pts[-1]))]
    if table.codec not in _SEEKABLE_CODECS or not table.keys.any() or not table.complete:
        return whole
    place_of = np.argsort(table.pts, kind="stable")
    sorted_pts = table.pts[place_of]
    # a frame is put out when all that is shown before it has been decoded
    needed = np.maximum.accumulate(place_of)
    key_places = np.flatnonzero(table.keys)
    key_pts = table.pts[key_places]
    if not (np.diff(key_pts) > 0).all():
        return whole
    segments: list[Segment] = []
    for position in positions:
        pts = int(frame_pts[position])
        rank = int(np.searchsorted(sorted_pts, pts))
        place, last = int(place_of[rank]), int(needed[rank])
        earlier_keys = min(
            np.searchsorted(key_places, place, "right"), np.searchsorted(key_pts, pts, "right")
        )
        if earlier_keys == 0:
            return whole
        first = int(key_places[earlier_keys - 1])
        previous = segments[-1] if segments else None
        if previous and first <= previous.last + SEEK_COST:
            segments[-1] = Segment(first=previous.first, last=max(previous.last, last), until=pts)
        else:
            segments.append(Segment(first=first, last=last, until=pts))
    cost = sum(segment.last - segment.first + 1 + SEEK_COST for segment in segments)
    return segments if cost * SEEK_MARGIN < len(table.pts) else whole


def read_segments(
    file: Path,
    table: PacketTable,
    frame_pts: NDArray[np.int64],
    segments: Sequence[Segment],
    threads: int,
    collector: FrameCollector,
    opened: Any = None,
    held: Sequence[Any] = (),
) -> bool:
    """Decode only `segments`; collected frames are keyed by their time in ticks.

    `opened` is a container of the file whose packets have been read: opening costs as much as ten pictures.
    `held` are its packets where they were few enough to be kept.
    False as soon as anything differs from what the packet table foretells: a jump that lands elsewhere, a
    start on a picture that is not intra coded, a frame that is damaged, missing or out of order.
    """
    import av

    if not table.complete:
        return False
    with nullcontext(opened) if opened is not None else open_video(file) as container:
        stream = stream_of(container, table)
        bound_decoder(stream, threads)
        reading = _Reading(container, stream, table, frame_pts, collector, held)
        for number, segment in enumerate(segments):
            if number:
                stream.codec_context.flush_buffers()
            if not held and (number or segment.first or opened is not None):
                try:
                    container.seek(
                        int(table.dts[segment.first]), stream=stream, backward=True, any_frame=False
                    )
                except av.error.FFmpegError as error:
                    refuse_shortage(error)
                    return False
            if not reading.read(segment):
                return False
    return collector.complete


class _SeekMissedError(Exception):
    """The packet to go on with did not turn up."""


class _Reading:
    """One open video that is read segment by segment."""

    def __init__(
        self,
        container: Any,
        stream: Any,
        table: PacketTable,
        frame_pts: NDArray[np.int64],
        collector: FrameCollector,
        held: Sequence[Any],
    ) -> None:
        self._container, self._stream, self._held = container, stream, held
        self._table, self._frame_pts, self._collector = table, frame_pts, collector
        # plain integers: elements of an array cost ten times as much to compare
        self._pts, self._sizes = table.pts.tolist(), table.sizes.tolist()
        self._references = ReferenceReader.of(stream.codec_context)
        self._left_out: set[int] = set()

    def read(self, segment: Segment) -> bool:
        """Collect the wanted frames of a segment; False where it is not as foretold."""
        import av

        # leading pictures of a key frame in the middle cannot be decoded from there
        begin_pts = int(self._table.pts[segment.first]) if segment.first else None
        aspect = picture.pixel_aspect(self._stream)
        shown: list[int] = []
        try:
            for frame in self._decoded(segment):
                if frame.pts is None or frame.is_corrupt:
                    return False
                if begin_pts is not None and frame.pts < begin_pts:
                    continue
                if frame.pts == begin_pts and int(frame.pict_type) != _INTRA_PICTURE:
                    return False
                if frame.pts <= segment.until:
                    shown.append(frame.pts)
                    if frame.pts in self._collector.slots:
                        self._collector.add(frame.pts, frame, aspect)
        except av.error.FFmpegError as error:
            refuse_shortage(error)
            return False
        except _SeekMissedError:
            return False
        return shown == self._foretold(begin_pts, segment.until)

    def _foretold(self, begin_pts: int | None, until: int) -> list[int]:
        begin = 0 if begin_pts is None else int(np.searchsorted(self._frame_pts, begin_pts))
        stop = int(np.searchsorted(self._frame_pts, until, "right"))
        return [pts for pts in self._frame_pts[begin:stop].tolist() if pts not in self._left_out]

    def _decoded(self, segment: Segment) -> Iterator[Any]:
        decoder = self._stream.codec_context
        held = self._held[segment.first : segment.last + 1]
        for packet in held or self._packets_from_file(segment):
            if packet.pts not in self._collector.slots and self._references.is_unreferenced(packet):
                self._left_out.add(packet.pts)
            else:
                yield from decoder.decode(packet)
        yield from decoder.decode(None)

    def _packets_from_file(self, segment: Segment) -> Iterator[Any]:
        """The packets of a segment, each where the table says that it lies."""
        place, skipped = None, 0
        for packet in packets_in(self._container, self._stream):
            if not packet.size:
                continue
            if place is None:
                if not self._is_packet(packet, segment.first):
                    skipped += 1
                    if skipped > _MAX_SKIPPED_PACKETS:
                        raise _SeekMissedError
                    continue
                place = segment.first
            elif not self._is_packet(packet, place):
                raise _SeekMissedError
            yield packet
            if place == segment.last:
                return
            place += 1
        raise _SeekMissedError

    def _is_packet(self, packet: Any, place: int) -> bool:
        return bool(packet.pts == self._pts[place] and packet.size == self._sizes[place])

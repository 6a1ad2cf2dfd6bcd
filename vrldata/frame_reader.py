"""Decoded frames of a video: every one in order, or only the wanted ones by way of key frames.

Both readers hand the wanted frames to a `FrameCollector`, which converts and resizes each at once, so that
memory holds the sampled frames and never the decoded video.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vrldata import picture
from vrldata.resize import resize
from vrldata.sampling import SamplingSpec, resized_size
from vrldata.video_stream import PacketTable, bound_decoder, open_video, reason_of, refuse_shortage

Allocate = Callable[[tuple[int, int, int, int]], NDArray[np.uint8]]
"""Gives the writable uint8 array (T, H, W, 3) that the frames go to."""

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


class FrameCollector:
    """Takes wanted frames, converts them, and lays them into one array.

    Attributes:
        slots: key of a frame (its ordinal or its time) to the places of the clip that it fills.
        frames: uint8 (T, H, W, 3) once the first frame has come.
        geometry: of the first frame taken.
        notes: what had to be decided on the way.
    """

    def __init__(self, slots: Mapping[int, Sequence[int]], spec: SamplingSpec, allocate: Allocate) -> None:
        self.slots = slots
        self.frames: NDArray[np.uint8] | None = None
        self.geometry: picture.Geometry | None = None
        self.notes: dict[str, None] = {}
        self._spec, self._allocate = spec, allocate
        self._missing = set(slots)
        self._coded_size = (0, 0)

    @property
    def complete(self) -> bool:
        """Every slot is filled."""
        return not self._missing

    def add(self, key: int, frame: Any, sample_aspect_ratio: Fraction | None) -> None:
        """Convert one frame into all of its places."""
        geometry = picture.geometry_of(frame, sample_aspect_ratio)
        if self.frames is None or self.geometry is None:
            self.geometry = geometry
            self._coded_size = (frame.width, frame.height)
            self.frames = self._allocate_frames(geometry)
            self._note_tags(frame, geometry)
        elif (frame.width, frame.height) != self._coded_size:
            self.notes["the picture size changes within the video; every frame has the size of the first"] = (
                None
            )
        rgb = geometry.orientation.apply(picture.to_rgb(frame))
        height, width = self.frames.shape[1:3]
        resized = resize(rgb, height, width, self._spec.resize)
        for slot in self.slots[key]:
            self.frames[slot] = resized
        self._missing.discard(key)

    def _allocate_frames(self, geometry: picture.Geometry) -> NDArray[np.uint8]:
        num_frames = sum(len(places) for places in self.slots.values())
        height, width = resized_size(geometry.height, geometry.width, num_frames, self._spec)
        return self._allocate((num_frames, height, width, 3))

    def _note_tags(self, frame: Any, geometry: picture.Geometry) -> None:
        transfer = picture.hdr_transfer(frame)
        if transfer:
            self.notes[f"HDR ({transfer}) was converted to 8 bit without tone mapping"] = None
        if not geometry.orientation.exact:
            self.notes["the rotation tag is no multiple of 90 degrees and was rounded"] = None


@dataclass(slots=True)
class Walk:
    """What came out of decoding a stream from start to end.

    Attributes:
        pts: time of each decoded frame in ticks, in the order of output; None where the decoder knows none.
        sound: for each of them, False when it was concealed or leans on a packet that was lost.
        damaged_packets: packets that the decoder refused.
        reason: what the decoder said first.
    """

    pts: list[int | None] = field(default_factory=list)
    sound: list[bool] = field(default_factory=list)
    damaged_packets: int = 0
    reason: str = ""
    _lost_pts: int | None = None
    _lost_from: int | None = None

    @property
    def damaged(self) -> bool:
        return self.damaged_packets > 0 or not all(self.sound)

    def note_error(self, error: BaseException, pts: int | None) -> None:
        """A packet was refused: what is put out until the next key frame leans on it."""
        refuse_shortage(error)
        self.reason = self.reason or reason_of(error)
        self.damaged_packets += 1
        self._lost_pts = pts
        if self._lost_from is None:
            self._lost_from = len(self.pts)

    def note_frame(self, frame: Any) -> None:
        """A frame came out."""
        behind = self._lost_pts is None or frame.pts is None or frame.pts > self._lost_pts
        if frame.key_frame and behind:
            self._lost_from = None
        self.pts.append(frame.pts)
        self.sound.append(self._lost_from is None and not frame.is_corrupt)

    def finish(self) -> None:
        """Where no key frame follows the loss, what the decoder concealed is the best there is."""
        if self._lost_from is not None:
            rest = len(self.pts) - self._lost_from
            self.sound[self._lost_from :] = [True] * rest
        if not any(self.sound):
            self.sound = [True] * len(self.pts)


def read_all(file: Path, table: PacketTable, threads: int, collector: FrameCollector | None) -> Walk:
    """Decode every packet; a damaged one is counted and costs only what leans on it.

    Collected frames are keyed by their ordinal in the output.
    """
    walk = Walk()
    with open_video(file) as container:
        stream = container.streams[table.stream_index]
        bound_decoder(stream, threads)
        for frame in _decoded(container, stream, walk):
            ordinal = len(walk.pts)
            walk.note_frame(frame)
            if collector is not None and ordinal in collector.slots:
                collector.add(ordinal, frame, picture.pixel_aspect(stream))
    walk.finish()
    return walk


def _decoded(container: Any, stream: Any, walk: Walk) -> Iterator[Any]:
    import av

    packets = container.demux(stream)
    while True:
        try:
            packet = next(packets, None)
        except av.error.FFmpegError as error:
            walk.note_error(error, None)
            packet = None
        try:
            # a packet of None flushes what the decoder still holds
            frames = stream.codec_context.decode(packet) if packet is None or packet.size else []
        except av.error.EOFError:
            frames = []
        except av.error.FFmpegError as error:
            walk.note_error(error, packet.pts if packet is not None else None)
            frames = []
        yield from frames
        if packet is None:
            return


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Packets to decode: from the key frame `first` to `last` (places in the table, both included)."""

    first: int
    last: int
    targets: tuple[int, ...]


def plan_segments(
    table: PacketTable, frame_pts: NDArray[np.int64], positions: Sequence[int]
) -> list[Segment] | None:
    """How to reach the frames at `positions` (ascending) through key frames; None where reading all is as
    cheap.

    A frame is decoded from the latest key frame that precedes it both in time and in the file: leading
    pictures of an open GOP thereby start one GOP earlier.
    """
    if table.codec not in _SEEKABLE_CODECS or not table.keys.any() or not table.complete:
        return None
    place_of = np.argsort(table.pts, kind="stable")
    sorted_pts = table.pts[place_of]
    # a frame is put out when all that is shown before it has been decoded
    needed = np.maximum.accumulate(place_of)
    key_places = np.flatnonzero(table.keys)
    key_pts = table.pts[key_places]
    if len(key_pts) > 1 and not (np.diff(key_pts) > 0).all():
        return None
    segments: list[Segment] = []
    for position in positions:
        pts = int(frame_pts[position])
        rank = int(np.searchsorted(sorted_pts, pts))
        place, last = int(place_of[rank]), int(needed[rank])
        number = (
            min(int(np.searchsorted(key_places, place, "right")), int(np.searchsorted(key_pts, pts, "right")))
            - 1
        )
        if number < 0:
            return None
        first = int(key_places[number])
        previous = segments[-1] if segments else None
        if previous and first <= previous.last + SEEK_COST:
            segments[-1] = Segment(
                first=previous.first, last=max(previous.last, last), targets=(*previous.targets, pts)
            )
        else:
            segments.append(Segment(first=first, last=last, targets=(pts,)))
    cost = sum(segment.last - segment.first + 1 + SEEK_COST for segment in segments)
    return segments if cost * SEEK_MARGIN < len(table.pts) else None


def read_segments(
    file: Path,
    table: PacketTable,
    frame_pts: NDArray[np.int64],
    segments: Sequence[Segment],
    threads: int,
    collector: FrameCollector,
) -> bool:
    """Decode only `segments`; collected frames are keyed by their time in ticks.

    False as soon as anything differs from what the packet table foretells: a jump that lands elsewhere, a
    start on a picture that is not intra coded, a frame that is damaged, missing or out of order. Then read
    everything.
    """
    import av

    with open_video(file) as container:
        stream = container.streams[table.stream_index]
        bound_decoder(stream, threads)
        for number, segment in enumerate(segments):
            if number or segment.first:
                stream.codec_context.flush_buffers()
                try:
                    container.seek(
                        int(table.dts[segment.first]), stream=stream, backward=True, any_frame=False
                    )
                except av.error.FFmpegError:
                    return False
            if not _read_segment(container, stream, table, frame_pts, segment, collector):
                return False
    return collector.complete


def _read_segment(
    container: Any,
    stream: Any,
    table: PacketTable,
    frame_pts: NDArray[np.int64],
    segment: Segment,
    collector: FrameCollector,
) -> bool:
    import av

    key_pts, last_target = int(table.pts[segment.first]), max(segment.targets)
    begin = int(np.searchsorted(frame_pts, key_pts))
    expected = frame_pts[begin : int(np.searchsorted(frame_pts, last_target, "right"))]
    seen = 0
    try:
        for frame in _segment_frames(container, stream, table, segment):
            if frame.pts is None or frame.is_corrupt:
                return False
            if frame.pts < key_pts:
                continue
            if frame.pts == key_pts and int(frame.pict_type) != _INTRA_PICTURE:
                return False
            if seen < len(expected):
                if frame.pts != expected[seen]:
                    return False
                seen += 1
                if frame.pts in collector.slots:
                    collector.add(frame.pts, frame, picture.pixel_aspect(stream))
    except (av.error.FFmpegError, _SeekMissedError):
        return False
    return seen == len(expected)


class _SeekMissedError(Exception):
    """The packet to start from did not turn up after a jump."""


def _segment_frames(container: Any, stream: Any, table: PacketTable, segment: Segment) -> Iterator[Any]:
    place, skipped = None, 0
    for packet in container.demux(stream):
        if not packet.size:
            continue
        if place is None:
            if not _is_packet(packet, table, segment.first):
                skipped += 1
                if skipped > _MAX_SKIPPED_PACKETS:
                    raise _SeekMissedError
                continue
            place = segment.first
        elif not _is_packet(packet, table, place):
            raise _SeekMissedError
        yield from stream.codec_context.decode(packet)
        if place == segment.last:
            break
        place += 1
    if place != segment.last:
        raise _SeekMissedError
    yield from stream.codec_context.decode(None)


def _is_packet(packet: Any, table: PacketTable, place: int) -> bool:
    return bool(packet.pts == table.pts[place] and packet.size == table.sizes[place])

"""Every packet of a video decoded from start to end: what comes out is the truth about the frames that there
are.

Damage is counted and costs only what leans on it. The quicker reading that trusts the packet table is in
`segment_reader`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vrldata import picture
from vrldata.frame_collector import FrameCollector
from vrldata.video_stream import (
    PacketTable,
    bound_decoder,
    open_video,
    packets_in,
    reason_of,
    refuse_shortage,
    stream_of,
)


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
        """Where no key frame follows the loss, most of the video must not stand still: then what the decoder
        concealed is the best there is."""
        if self._lost_from is not None and 2 * self._lost_from < len(self.pts):
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
        stream = stream_of(container, table)
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

    packets = packets_in(container, stream)
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

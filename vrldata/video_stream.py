"""A video file as FFmpeg sees it: safe opening, the choice of stream, the table of its packets.

Nothing here decodes pictures. Headers are hints: counts and times come from the packets themselves; what they
say about rate and length is worked out in `timeline`.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vrldata.errors import DecodeError, missing_extra
from vrldata.picture import MAX_PICTURE_PIXELS
from vrldata.timeline import ASSUMED_RATE, is_steady

# Containers that hold their pictures themselves. Playlists (hls, dash, concat), image sequences and devices
# are left out: a text file must not make the decoder open other files or hosts.
_CONTAINERS = (
    "3dostr,3g2,3gp,aiff,amv,apng,asf,asf_o,av1,avi,avs,avs2,avs3,bfi,bink,c93,cdxl,"
    "cine,dfa,dhav,dirac,dnxhd,dv,dvb,evc,film_cpk,filmstrip,fits,flic,flv,gdv,gif,gxf,"
    "h261,h263,h264,hevc,iamf,idcin,iff,ingenient,ipmovie,ipu,iv8,ivf,jv,kux,live_flv,"
    "lmlm4,lvf,lxf,m4a,m4v,matroska,mgsts,mj2,mjpeg,mjpeg_2000,mlv,mov,mp4,mpeg,mpegts,"
    "mpegtsraw,mpegvideo,mtv,mv,mvi,mxf,nc,nsv,nut,nuv,obu,ogg,paf,pmp,pva,qcp,r3d,"
    "rawvideo,rl2,rm,roq,rpl,rsd,sdr2,sga,smjpeg,smk,smush,swf,thp,tmv,txd,ty,vc1,"
    "vc1test,vividas,vivo,vmd,vqf,vvc,wc3movie,webm,webp_anim,wsvqa,wtv,wv,xmv,xwma,yop,"
    "yuv4mpegpipe,"
)

_BROADCASTS = frozenset(
    {"mpegts", "mpegtsraw", "mpeg", "mpegvideo", "h264", "hevc", "h261", "h263", "m4v", "vc1"}
)

# by their first picture FFmpeg may take these for single images
_MOVING_PICTURES = {b"\xff\xd8\xff": "mjpeg", b"\x89PNG": "apng"}

# containers that number pictures in the order of decoding; FFmpeg guesses when they are shown
_WITHOUT_DISPLAY_TIMES = frozenset({"avi", "mpegvideo"})

_TRANSPORT_PACKETS = 5
"""Packets of a transport stream by whose sync bytes it is known: too few for FFmpeg in a short file."""

_INDEXED = "mov,mp4,m4a,3gp,3g2,mj2"
_ATTACHED_PICTURE = 1 << 10
_TIMED_THUMBNAILS = 1 << 11
_STILL_IMAGE = 1 << 20
_DEFAULT = 1


HELD_BYTES = 32 << 20
"""Packets of a stream are held for the decoder where all of them take no more than this."""

_SPARE_BYTES = 1 << 28
"""Memory that can be had where none has run out."""


@contextmanager
def open_video(file: Path) -> Iterator[Any]:
    """An open PyAV container for a local file; never a protocol, a playlist or a pattern, whatever its name.

    Raises:
        DecodeError: no known container.
    """
    try:
        import av
    except ImportError as error:
        raise missing_extra("PyAV", "build", "Decoding video") from error
    # the logging callback takes the GIL from decoder threads and can dead-lock beside other libraries
    av.logging.set_level(None)
    with file.open("rb") as stream:
        start = stream.read(_TRANSPORT_PACKETS * 192)
    try:
        container = av.open(
            f"file:{os.fspath(file)}",
            format=_format_of(start),
            metadata_errors="replace",
            # the pictures that FFmpeg decodes to learn their format are seen by nobody
            options={"skip_loop_filter": "all"},
            container_options={"protocol_whitelist": "file", "format_whitelist": _CONTAINERS},
        )
    except (av.error.FFmpegError, ValueError) as error:
        raise DecodeError(f"{file}: not a video that FFmpeg can open: {reason_of(error)}") from error
    try:
        yield container
    finally:
        container.close()


def _format_of(start: bytes) -> str | None:
    """The name of the container where FFmpeg may guess wrong; None where it may guess."""
    for packet_bytes, sync in ((188, 0), (192, 4)):
        signs = start[sync::packet_bytes]
        if len(signs) >= _TRANSPORT_PACKETS - 1 and signs.strip(b"G") == b"":
            return "mpegts"
    return next((name for magic, name in _MOVING_PICTURES.items() if start.startswith(magic)), None)


def reason_of(error: BaseException) -> str:
    """One line of what FFmpeg said, without its path and number."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(text).split())


def packets_in(container: Any, stream: Any) -> Iterator[Any]:
    """Packets of a stream, and what `av` raises on the way; empty ones at the end.

    PyAV stumbles over a packet of a stream that was not there at first, as broadcasts have them.
    """
    while True:
        try:
            yield from container.demux(stream)
        except IndexError:
            continue
        return


def refuse_shortage(error: BaseException) -> None:
    """Raise where memory ran out: that is no damage of the file.

    A damaged size asks for more than any machine has, while there is memory left.
    """
    if isinstance(error, MemoryError) and not _has_memory():
        raise MemoryError(f"FFmpeg: {reason_of(error)}") from error


def _has_memory() -> bool:
    try:
        mmap.mmap(-1, _SPARE_BYTES).close()
    except (OSError, MemoryError):
        return False
    return True


def stream_of(container: Any, table: PacketTable) -> Any:
    """The stream that `table` lists, in a container of the same file.

    Raises:
        DecodeError: it is not there.
    """
    found = next((stream for stream in container.streams if stream.index == table.stream_index), None)
    if found is None:
        raise DecodeError("it shows other streams each time it is opened; the file is damaged")
    return found


def choose_stream(file: Path, container: Any) -> Any:
    """The video stream to decode: the first that is marked default, else the first; never a cover, a
    thumbnail, or a single picture beside a stream that moves.

    Raises:
        DecodeError: no video stream, or no decoder for it.
    """
    videos = list(container.streams.video)
    hidden = _ATTACHED_PICTURE | _TIMED_THUMBNAILS | _STILL_IMAGE
    moving = [stream for stream in videos if not _disposition(stream) & hidden]
    if not moving:
        kinds = sorted({stream.type or "data" for stream in container.streams})
        held = (
            "only cover pictures"
            if videos
            else f"streams: {', '.join(kinds) or 'none, its index is damaged'}"
        )
        raise DecodeError(f"{file}: no video stream ({container.format.name}, {held})")
    moving = [stream for stream in moving if stream.frames != 1] or moving
    stream = next((stream for stream in moving if _disposition(stream) & _DEFAULT), moving[0])
    if stream.codec_context is None:
        raise DecodeError(
            f"{file}: FFmpeg has no decoder for its video stream: convert it, for instance to H.264"
        )
    return stream


def _disposition(stream: Any) -> int:
    return int(stream.disposition or 0)


def bound_decoder(stream: Any, threads: int) -> None:
    """Set the threads of a decoder that is not yet open; let it refuse pictures over the pixel limit."""
    stream.thread_type = "AUTO"
    # what VP8 makes of damage depends on the threads, and it says nothing of the damage
    stream.codec_context.thread_count = 1 if stream.codec_context.name == "vp8" else threads
    stream.codec_context.options = {"max_pixels": str(MAX_PICTURE_PIXELS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketTable:
    """Every packet of the chosen stream, from one pass over the file without decoding.

    Attributes:
        pts: int64 (P,), presentation time in ticks, in the order of decoding.
        dts: int64 (P,), decoding time in ticks.
        sizes: int64 (P,), bytes.
        keys: bool (P,), flagged as a point of random access.
        shown: bool (P,), False for pictures that an edit list hides.
        time_base: seconds of one tick.
        last_duration: ticks for which the packet with the latest `pts` is shown; 0 when unknown.
        rates: candidates for the frame rate that the headers give, best first.
        coded_rate: frame rate for a stream without times: what the codec says, else what FFmpeg guesses.
        claimed_frames: frames by the header; 0 when it says nothing.
        stream_index: of the chosen stream.
        codec: name of the codec.
        width: of the coded picture by the header; `height` likewise.
        complete: False when reading stopped at an error.
        timed: every packet has a time of its own, on one clock from start to end.
        display_times: the times are those of the container, not a guess from the order of decoding.
        broadcast: the container has no index and may begin in the middle of a transmission.
        indexed: the container has an index of every packet, by which it can be read again from the start as
            if it had just been opened.
    """

    pts: NDArray[np.int64]
    dts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    keys: NDArray[np.bool_]
    shown: NDArray[np.bool_]
    time_base: Fraction
    last_duration: int
    rates: tuple[Fraction, ...]
    coded_rate: Fraction
    claimed_frames: int
    stream_index: int
    codec: str
    width: int
    height: int
    complete: bool
    timed: bool
    display_times: bool
    broadcast: bool
    indexed: bool

    def frame_pts(self) -> NDArray[np.int64]:
        """int64 (N,), the times that the decoder should put out, in order; only where `timed`.

        A broadcast may begin anywhere: there, pictures before the first key frame cannot be decoded, nor
        those that lean on them. A file with an index begins where its index says.
        """
        usable = self.shown.copy()
        if self.broadcast and self.keys.any():
            first_key = int(np.argmax(self.keys))
            usable[:first_key] = False
            usable &= self.pts >= self.pts[first_key]
        return np.sort(self.pts[usable])

    def times_of(self, frame_pts: NDArray[np.int64]) -> NDArray[np.int64]:
        """int64 (N,), ticks at which frames with these times in order are shown.

        Where a container only counts pictures in the order of decoding, one is shown a constant delay after
        the next one is read.
        """
        counted = len(frame_pts) == len(self.dts) and bool((np.diff(self.dts) > 0).all())
        return self.dts if counted and not self.display_times else frame_pts


def read_packets(file: Path) -> PacketTable:
    """Demultiplex the whole file once.

    Raises:
        DecodeError: no container, no video stream, no packets.
    """
    with open_video(file) as container:
        return packets_of(file, container)


def packets_of(file: Path, container: Any, held: list[Any] | None = None) -> PacketTable:
    """The packets of a container that was just opened; it stands at its end then.

    Args:
        held: takes the packets themselves, in the order of the table; empty where they exceed `HELD_BYTES`.

    Raises:
        DecodeError: no video stream, no packets.
    """
    import av

    rows: list[tuple[int | None, int | None, int, bool, bool, int]] = []
    complete, room = True, HELD_BYTES if held is not None else 0
    stream = choose_stream(file, container)
    facts = _stream_facts(container, stream)
    try:
        for packet in packets_in(container, stream):
            if packet.size:
                rows.append(
                    (
                        packet.pts,
                        packet.dts,
                        packet.size,
                        packet.is_keyframe,
                        packet.is_discard,
                        packet.duration or 0,
                    )
                )
                if held is not None and room >= 0:
                    room -= packet.size
                    held.append(packet)
                    if room < 0:
                        held.clear()
    except av.error.FFmpegError as error:
        refuse_shortage(error)
        complete = False
    if not rows:
        raise DecodeError(
            f"{file}: its video stream ({facts['codec']}) holds no packets: the file is cut or damaged"
        )
    return _table(rows, complete, facts)


def _stream_facts(container: Any, stream: Any) -> dict[str, Any]:
    context = stream.codec_context
    # a palette comes with the first packet that is read after opening, and never again
    has_palette = context.format is not None and context.format.has_palette
    rates = (stream.average_rate, stream.base_rate, stream.guessed_rate, context.framerate)
    return {
        "time_base": Fraction(stream.time_base or Fraction(1, 90000)),
        "rates": tuple(dict.fromkeys(Fraction(rate) for rate in rates if rate and rate > 0)),
        "coded_rate": next(
            (Fraction(rate) for rate in reversed(rates) if rate and 0 < rate <= 1000), ASSUMED_RATE
        ),
        "claimed_frames": stream.frames or 0,
        "stream_index": stream.index,
        "codec": context.name,
        "width": context.width,
        "height": context.height,
        "broadcast": container.format.name in _BROADCASTS,
        "display_times": container.format.name not in _WITHOUT_DISPLAY_TIMES,
        "indexed": container.format.name == _INDEXED and not has_palette,
    }


def _table(rows: Sequence[tuple[Any, ...]], complete: bool, facts: dict[str, Any]) -> PacketTable:
    pts, dts, sizes, keys, discard, durations = zip(*rows, strict=True)
    timed = all(time is not None for time in pts) and len(set(pts)) == len(pts)
    known_dts = np.array([time for time in dts if time is not None], dtype=np.int64)
    times = np.array([time if time is not None else 0 for time in pts], dtype=np.int64)
    return PacketTable(
        pts=times,
        dts=np.array([time if time is not None else 0 for time in dts], dtype=np.int64),
        sizes=np.array(sizes, dtype=np.int64),
        keys=np.array(keys, dtype=np.bool_),
        shown=~np.array(discard, dtype=np.bool_),
        last_duration=int(durations[int(np.argmax(times))]),
        complete=complete,
        timed=timed and is_steady(known_dts, facts["time_base"]),
        **facts,
    )

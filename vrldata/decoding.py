"""A video or an image file becomes a `Clip`: which frames there are, which are taken, and what had to be
repaired.

The frames of a video are foretold from a pass over its packets, decoded, and compared with the forecast.
Where they agree the clip is done in one decode; where they do not, what was decoded is the truth. Reading
packets and pictures is the work of `video_stream` and `frame_reader`, storing clips that of `store`.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vrldata.errors import ConfigError, DecodeError, missing_extra, nearest
from vrldata.frame_collector import Allocate, FrameCollector
from vrldata.frame_plan import FramePlan, metadata_of, plan_frames
from vrldata.frame_reader import Walk, read_all
from vrldata.media_file import find_media_file, read_head
from vrldata.picture import check_picture_size
from vrldata.processors import default_threads
from vrldata.sampling import SamplingSpec, normalise_video_path
from vrldata.segment_reader import plan_segments, read_segments
from vrldata.timeline import Timeline, joined, timeline_by_rate, timeline_of
from vrldata.types import Clip, VideoMetadata
from vrldata.video_stream import PacketTable, open_video, packets_of

KINDS = ("video", "image")


def decode(
    path: str | os.PathLike[str],
    spec: SamplingSpec | None = None,
    *,
    video_path: str | None = None,
    kind: str | None = None,
    threads: int | None = None,
    allocate: Allocate | None = None,
) -> Clip:
    """The frames of the file at `path` that `spec` asks for, uint8 (T, H, W, 3) RGB, read-only.

    Times are seconds from the first frame of the stream. A clip shorter than `frame_multiple` repeats its
    last frame; damaged packets are skipped and a frame that is lost with them is replaced by its nearest
    neighbour, whose index and time it then carries. `Clip.warnings` says so.

    Args:
        path: a local file; never taken for a URL or a pattern.
        spec: defaults to `SamplingSpec()`. For an image only its pixel fields count.
        video_path: name of the clip in the dataset; defaults to `path`.
        kind: `video` or `image`; None decides by content: pictures that move are videos.
        threads: decoder threads, by default at most 4.
        allocate: gives the array for the frames, for callers that share memory.

    Raises:
        DecodeError: the file is no video or image that can be decoded; names the file and the reason.
        MissingExtraError: PyAV is not installed, or torch for `resize="exact"`.
    """
    spec = SamplingSpec() if spec is None else spec
    if kind is not None and kind not in KINDS:
        raise ConfigError(f"kind={kind!r}: expected 'video', 'image' or None.{nearest(kind, KINDS)}")
    file = find_media_file(path)
    head = read_head(file)
    allocate = allocate or _allocate
    from vrldata.animated_image import decode_animation, is_animated_webp
    from vrldata.still_image import decode_image

    still = _holds_still_image(file)
    if kind == "video" and still:
        raise DecodeError(f"{file}: a still image, not a video: list it under `images`, or pass kind='image'")
    kind = kind or ("image" if still else "video")
    if kind == "image":
        frames, metadata, notes = decode_image(file, spec, allocate)
    elif is_animated_webp(head):
        frames, metadata, notes = decode_animation(file, spec, allocate)
    else:
        frames, metadata, notes = _decode_video(file, spec, threads or default_threads(), allocate)
    frames.flags.writeable = False
    name = os.fspath(path) if video_path is None else video_path
    return Clip(
        frames=frames,
        metadata=metadata,
        video_path=normalise_video_path(name),
        spec=spec,
        kind=kind,
        warnings=tuple(notes),
    )


def _holds_still_image(file: Path) -> bool:
    from vrldata.still_image import is_still_image

    with file.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return is_still_image(content)


def decoder_version(kind: str = "video") -> str:
    """Library and version that decodes this kind of file, the `decoder` column of the `frames` table."""
    if kind == "image":
        import PIL

        return f"Pillow {PIL.__version__}"
    try:
        import av
    except ImportError as error:
        raise missing_extra("PyAV", "build", "Decoding video") from error
    return f"PyAV {av.__version__}, FFmpeg {av.ffmpeg_version_info}"


def _allocate(shape: tuple[int, int, int, int]) -> NDArray[np.uint8]:
    return np.empty(shape, dtype=np.uint8)


_Decoded = tuple[NDArray[np.uint8], VideoMetadata, list[str]]


def _decode_video(file: Path, spec: SamplingSpec, threads: int, allocate: Allocate) -> _Decoded:
    try:
        held: list[Any] = []
        with open_video(file) as container:
            table = packets_of(file, container, held)
            goes_on = bool(held) or table.indexed
            if table.timed and goes_on:
                decoded = _decode_foretold(file, table, spec, threads, allocate, container, held)
                if decoded is not None:
                    return decoded
        held.clear()
        if table.timed and not goes_on:
            decoded = _decode_foretold(file, table, spec, threads, allocate)
            if decoded is not None:
                return decoded
        return _decode_everything(file, table, spec, threads, allocate)
    except DecodeError as error:
        text = str(error)
        raise error if text.startswith(str(file)) else DecodeError(f"{file}: {text}") from error


def _decode_foretold(
    file: Path,
    table: PacketTable,
    spec: SamplingSpec,
    threads: int,
    allocate: Allocate,
    opened: Any = None,
    held: Sequence[Any] = (),
) -> _Decoded | None:
    """The clip by the forecast of the packet table; None where the file is not as foretold."""
    frame_pts = table.frame_pts()
    if not len(frame_pts):
        return None
    plan = plan_frames(_timeline(table, table.times_of(frame_pts)), spec)
    segments = plan_segments(table, frame_pts, np.unique(plan.positions).tolist())
    with FrameCollector(plan.slots(frame_pts), spec, allocate, threads=threads) as collector:
        if not read_segments(file, table, frame_pts, segments, threads, collector, opened, held):
            return None
        return _finish(table, plan, collector, [])


def _decode_everything(
    file: Path, table: PacketTable, spec: SamplingSpec, threads: int, allocate: Allocate
) -> _Decoded:
    """Learn from a full decode which frames there are, then decode once more for those that are wanted."""
    walk = read_all(file, table, threads, None)
    if walk.damaged and threads > 1:
        # what a decoder makes of damage may depend on the timing of its threads; one thread repeats itself
        threads = 1
        walk = read_all(file, table, threads, None)
    if not walk.pts:
        check_picture_size(table.width, table.height)
        said = f": {walk.reason}" if walk.reason else ""
        raise DecodeError(
            f"{file}: none of its {len(table.pts)} packets ({table.codec}) could be decoded{said}"
        )
    timeline, ordinals = _decoded_timeline(table, walk)
    plan = plan_frames(timeline, spec)
    stand_in = _stand_ins(ordinals)
    positions = stand_in[plan.positions].astype(np.int32)
    replaced = len({int(position) for position in plan.positions} - set(positions.tolist()))
    plan = FramePlan(
        timeline=timeline,
        positions=positions,
        distinct=plan.distinct,
        window_frames=plan.window_frames,
        notes=plan.notes,
    )
    with FrameCollector(plan.slots(ordinals), spec, allocate, threads=threads) as collector:
        read_all(file, table, threads, collector)
        if not collector.complete:
            raise DecodeError(f"{file}: it gives other frames each time it is decoded; the file is damaged")
        return _finish(table, plan, collector, _damage_notes(walk, table, replaced))


def _timeline(table: PacketTable, times: NDArray[np.int64]) -> Timeline:
    """The timeline of frames that are shown one after the other, by the file's own times."""
    ticks, leaps = joined(times, table.time_base, broadcast=table.broadcast)
    return timeline_of(ticks, table.time_base, table.last_duration, table.rates, leaps=leaps)


def _decoded_timeline(table: PacketTable, walk: Walk) -> tuple[Timeline, NDArray[np.int64]]:
    """The timeline of what was decoded, and for each of its frames the ordinal in the walk (-1 for a lost
    one)."""
    sound = np.array(walk.sound, dtype=np.bool_)
    ordinals = np.where(sound, np.arange(len(walk.pts)), -1)
    decoded = _decoded_times(table, walk)
    if decoded is None:
        return timeline_by_rate(len(walk.pts), table.coded_rate), ordinals
    if walk.damaged and table.timed and (np.diff(decoded) > 0).all():
        foretold = table.frame_pts()
        # packets behind the last frame that came out are a cut end, those before it a hole that keeps its
        # place
        foretold = foretold[foretold <= decoded[-1]]
        if np.isin(decoded, foretold).all():
            found = np.searchsorted(decoded, foretold)
            there = (decoded[found] == foretold) & sound[found]
            ordinals = np.where(there, found, -1)
            return _timeline(table, foretold), ordinals
    return _timeline(table, decoded), ordinals


def _decoded_times(table: PacketTable, walk: Walk) -> NDArray[np.int64] | None:
    """int64 (N,), when the decoded frames are shown in ticks; None where the file does not say."""
    known = [place for place, time in enumerate(walk.pts) if time is not None]
    times = np.array([walk.pts[place] for place in known], dtype=np.int64)
    if not walk.damaged and not table.display_times:
        counted = table.times_of(np.zeros(len(walk.pts), dtype=np.int64))
        if counted is table.dts:
            return counted
    if 2 * len(known) <= len(walk.pts):
        return None
    # between two that are known, frames follow at equal distances
    return np.interp(np.arange(len(walk.pts)), known, times).round().astype(np.int64)


def _stand_ins(ordinals: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each position the nearest earlier one that was decoded, or the first decoded one."""
    there = np.flatnonzero(ordinals >= 0)
    nearest_before = np.searchsorted(there, np.arange(len(ordinals)), side="right") - 1
    return there[np.maximum(nearest_before, 0)]


def _damage_notes(walk: Walk, table: PacketTable, replaced: int) -> list[str]:
    notes = []
    if walk.damaged_packets:
        said = f" ({walk.reason})" if walk.reason else ""
        notes.append(f"{walk.damaged_packets} damaged packet(s) of {len(table.pts)} were skipped{said}")
    unsound = walk.sound.count(False)
    if unsound:
        notes.append(f"{unsound} frame(s) were damaged by the loss and are left out")
    if replaced:
        notes.append(
            f"{replaced} sampled frame(s) could not be decoded and were replaced by their neighbours"
        )
    if not table.complete:
        notes.append("reading stopped before the end of the file: it is cut or damaged")
    return notes


def _finish(table: PacketTable, plan: FramePlan, collector: FrameCollector, damage: list[str]) -> _Decoded:
    collector.settle()
    frames, geometry, timeline = collector.frames, collector.geometry, plan.timeline
    if frames is None or geometry is None or not collector.complete:
        raise DecodeError("no frame could be decoded")
    notes = [*damage, *plan.notes, *collector.notes]
    if table.claimed_frames and table.claimed_frames != len(timeline):
        notes.append(f"the header claims {table.claimed_frames} frames, {len(timeline)} are shown")
    if timeline.leaps:
        notes.append(f"the clock leaps {timeline.leaps} time(s); the parts are joined without a gap")
    if not timeline.constant:
        notes.append(f"variable frame rate: {float(timeline.rate):.3f} frames per second on average")
    metadata = metadata_of(plan, frames.shape[1:3], (geometry.height, geometry.width))
    return frames, metadata, notes

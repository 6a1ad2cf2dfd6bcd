"""What a process does that decodes for a `decode_pool`: one job after the other until its pool is gone.

It is forked by `decode_nursery`. It asks before it allocates frames, so that the pool can bound the bytes in
flight, and answers with the reason where a file cannot be decoded.
"""

from __future__ import annotations

import dataclasses
import mmap
import os
import queue
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vrldata.decode_process import resident_bytes
from vrldata.decoding import decode, decoder_version
from vrldata.errors import DecodeError, VRLError
from vrldata.media_file import SourceFingerprint, find_media_file, source_fingerprint
from vrldata.sampling import SamplingSpec
from vrldata.worker_channel import Channel, ChannelClosed, shared_memory

ADDRESS_SLACK_BYTES = 1 << 30
"""Address space beside the memory limit for thread stacks and allocator arenas, which reserve more than they
use."""


class _FrameMemory:
    """The frames of the job in hand: shared memory that was granted by the pool."""

    def __init__(self, channel: Channel, answers: queue.Queue[dict[str, Any]]) -> None:
        self._channel, self._answers = channel, answers
        self._map: mmap.mmap | None = None
        self.descriptor: int | None = None

    def allocate(self, shape: tuple[int, int, int, int]) -> NDArray[np.uint8]:
        """A writable array of this shape, once the pool has room for it."""
        self.release()
        size = int(np.prod(shape, dtype=np.int64))
        self._channel.send({"kind": "need", "bytes": size})
        self._answers.get()
        self.descriptor, self._map = shared_memory(size)
        return np.frombuffer(self._map, dtype=np.uint8).reshape(shape)

    def release(self) -> None:
        """Give up this process's hold; the pool keeps its own."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None
        self._map = None


def import_libraries(*, with_torch: bool) -> None:
    """Import what jobs need, before the memory limit holds; torch takes seconds: only where it is used."""
    import av
    import av.video.reformatter

    av.logging.set_level(None)
    if with_torch:
        import torch

        torch.set_num_threads(1)


def serve(channel: Channel) -> None:
    """Work for the pool at the other end; never returns."""
    answers: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_listen, args=(channel, answers), daemon=True).start()
    # what libraries write in their last moment is the pool's to read, of each worker by itself
    with tempfile.TemporaryFile() as errors:
        os.dup2(errors.fileno(), sys.stderr.fileno())
        ready = {"kind": "ready", "resident_bytes": resident_bytes(os.getpid()) or 0, "descriptor": True}
        channel.send(ready, errors.fileno())
    limits = answers.get()
    _limit_memory(limits["memory_limit_bytes"])
    while True:
        _serve_job(channel, answers, answers.get(), limits["threads"])


def _listen(channel: Channel, answers: queue.Queue[dict[str, Any]]) -> None:
    """Hand on what the pool says; end with it, in the middle of a decode if need be."""
    try:
        while True:
            answers.put(channel.receive()[0])
    except ChannelClosed:
        os._exit(0)


def _limit_memory(limit: int | None) -> None:
    if limit is None:
        return
    import resource

    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return
    most = pages * resource.getpagesize() + limit + ADDRESS_SLACK_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1]))


def _serve_job(
    channel: Channel, answers: queue.Queue[dict[str, Any]], job: dict[str, Any], threads: int
) -> None:
    memory = _FrameMemory(channel, answers)
    begun = time.monotonic()
    try:
        answer = _decode(job, memory, threads)
    except VRLError as error:
        answer = {"reason": str(error)}
    except MemoryError as error:
        answer = {"reason": f"{job['path']}: decoding ran out of memory ({error or 'MemoryError'})"}
    except (OSError, RuntimeError, ValueError, OverflowError) as error:
        # torch reports a failed allocation as a RuntimeError; whatever it is, it costs this file only
        answer = {"reason": f"{job['path']}: {type(error).__name__}: {' '.join(str(error).split())[:300]}"}
    answer["kind"] = "result"
    answer["seconds"] = time.monotonic() - begun
    descriptor = memory.descriptor if "clip" in answer else None
    answer["descriptor"] = descriptor is not None
    channel.send(answer, descriptor)
    memory.release()


def _decode(job: dict[str, Any], memory: _FrameMemory, threads: int) -> dict[str, Any]:
    path = job["path"]
    if job["source"] is None:
        source = source_fingerprint(path)
    else:
        source = SourceFingerprint(**job["source"])
        _check_unchanged(path, source)
    clip = decode(
        path,
        SamplingSpec.from_json(job["spec"]),
        video_path=job["video_path"],
        kind=job["media_kind"],
        threads=threads,
        allocate=memory.allocate,
    )
    _check_unchanged(path, source)
    metadata = dataclasses.asdict(clip.metadata)
    metadata["frame_indices"] = clip.metadata.frame_indices.tolist()
    metadata["timestamps"] = clip.metadata.timestamps.tolist()
    return {
        "clip": {
            "shape": list(clip.frames.shape),
            "metadata": metadata,
            "video_path": clip.video_path,
            "kind": clip.kind,
            "warnings": list(clip.warnings),
        },
        "source": dataclasses.asdict(source),
        "decoder": decoder_version(clip.kind),
    }


def _check_unchanged(path: str, source: SourceFingerprint) -> None:
    status = os.stat(find_media_file(path))
    if (status.st_size, status.st_mtime_ns) != (source.source_bytes, source.source_mtime_ns):
        raise DecodeError(
            f"{path}: the file changed since it was fingerprinted; build again when it is complete"
        )

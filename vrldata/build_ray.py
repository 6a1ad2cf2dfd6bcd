"""Decoding for a build on a Ray cluster: tasks decode and pack, this process commits.

Every machine of the cluster has to see the video root under the same path. A task takes a chunk of files, so
that the start of its decoder process is paid once a chunk.
"""

from __future__ import annotations

import dataclasses
import logging
import socket
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrldata.build_decode import Packed, pack
from vrldata.build_options import BuildOptions
from vrldata.build_plan import Medium
from vrldata.codec_budget import Chooser, CodecChooser, measured_ratios
from vrldata.codecs import AUTO, Codec, parse_codec
from vrldata.errors import ConfigError, missing_extra
from vrldata.frame_rows import EncodedClip

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from vrldata.media_file import SourceFingerprint

logger = logging.getLogger(__name__)

CHUNK_FILES = 32
"""Most files of one task."""

ANSWER_SECONDS = 10.0
"""Time for the head of a cluster to take a connection."""

CLIPS_AHEAD = 2
"""Clips that a task may have finished before they are taken: more would fill the object store."""

Job = tuple[Medium, "SourceFingerprint | None"]


def decode_on_ray(jobs: Sequence[Job], options: BuildOptions, chooser: CodecChooser) -> Generator[Packed]:
    """Decode `jobs` on the cluster at `options.ray_address`; results come about as they are done.

    A task that is lost with its machine is run again by Ray; what it had given already is not given twice.

    Raises:
        ConfigError: the cluster cannot be reached.
        MissingExtraError: Ray is not installed.
    """
    ray = _connected(options.ray_address or "local")
    # a task has a working folder of its own
    jobs = [(dataclasses.replace(medium, file=medium.file.absolute()), source) for medium, source in jobs]
    cpus = int(ray.cluster_resources().get("CPU", 1))
    tasks = options.workers or max(1, cpus)
    chunk = max(1, min(CHUNK_FILES, -(-len(jobs) // tasks)))
    chunks = deque(jobs[start : start + chunk] for start in range(0, len(jobs), chunk))
    decode_task = ray.remote(_decode_chunk).options(
        num_cpus=1,
        max_retries=3,
        num_returns="streaming",
        _generator_backpressure_num_objects=CLIPS_AHEAD,
    )
    shared = _shared_chooser(ray, chooser) if options.codec == AUTO else None
    running: dict[Any, deque[Job]] = {}
    try:
        while chunks or running:
            while chunks and len(running) < tasks:
                taken = list(chunks.popleft())
                running[decode_task.remote(taken, _plain(options), shared)] = deque(taken)
            ready, _ = ray.wait(list(running), num_returns=1, fetch_local=False)
            stream = ready[0]
            packed = _next(ray, stream, running[stream])
            if packed is None:
                del running[stream]
                continue
            yield packed
        if shared is not None and (shortage := ray.get(shared.shortage_text.remote())):
            logger.warning("%s", shortage)
    finally:
        for stream in running:
            ray.cancel(stream, force=True)


class _SharedChooser(CodecChooser):
    """A chooser that lives in an actor and is asked by all tasks."""

    def shortage_text(self) -> str:
        return self.shortage


def _shared_chooser(ray: Any, chooser: CodecChooser) -> Any:
    """An actor that goes on where `chooser` stands."""
    clips, num_bytes = chooser.left
    actor = ray.remote(_SharedChooser).options(num_cpus=0).remote(AUTO, max(num_bytes, 1))
    actor.expect.remote(clips)
    return actor


class _DistantChooser:
    """Asks the chooser of an actor; pixels stay in the task."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def choose(self, frames: NDArray[np.uint8]) -> Codec:
        import ray

        ratios = measured_ratios(frames) if ray.get(self._actor.wants_trial.remote()) else None
        return parse_codec(ray.get(self._actor.decide.remote(frames.nbytes, ratios)))

    def spent(self, num_bytes: int) -> None:
        self._actor.spent.remote(num_bytes)


def _next(ray: Any, stream: Any, waiting: deque[Job]) -> Packed | None:
    """The next result of a task; None when it has given all. A task that died gives its files as failed."""
    try:
        fields = ray.get(next(stream))
    except StopIteration:
        return None
    except ray.exceptions.RayError as error:
        if not waiting:
            return None
        medium, _ = waiting.popleft()
        return Packed(medium=medium, clip=None, reason=f"the Ray task was lost: {str(error).splitlines()[0]}")
    place = next(place for place, (medium, _) in enumerate(waiting) if medium.clip_id == fields["clip_id"])
    medium, _ = waiting[place]
    del waiting[place]
    clip = EncodedClip(**fields["clip"]) if fields["clip"] else None
    return Packed(medium=medium, clip=clip, reason=fields["reason"], warnings=fields["warnings"])


def _plain(options: BuildOptions) -> dict[str, Any]:
    return {
        "codec": options.codec,
        "timeout_s": options.timeout_s,
        "memory_limit_bytes": options.memory_limit_bytes,
        "bytes_in_flight": options.bytes_in_flight,
    }


def _decode_chunk(jobs: Sequence[Job], options: dict[str, Any], shared: Any) -> Iterator[dict[str, Any]]:
    """Runs on the cluster: decode files one after the other in a process that can be killed."""
    import numpy as np

    from vrldata.decode_jobs import DecodeJob
    from vrldata.decode_pool import decode_many

    codec = options.pop("codec")
    chooser: Chooser = CodecChooser(codec) if shared is None else _DistantChooser(shared)
    media = {medium.clip_id: medium for medium, _ in jobs}
    listed = [
        DecodeJob(
            path=Path(medium.file),
            video_path=medium.video_path,
            spec=medium.spec,
            kind=medium.kind,
            source=source,
        )
        for medium, source in jobs
    ]
    for result in decode_many(listed, workers=1, **options):
        medium = media[result.job.spec.clip_id(result.job.video_path)]
        packed = pack(medium, result, chooser)
        clip = None
        if packed.clip is not None:
            # an array travels through the object store without a copy on the other side
            payload = np.frombuffer(packed.clip.payload, dtype=np.uint8)
            clip = {
                field.name: getattr(packed.clip, field.name) for field in dataclasses.fields(packed.clip)
            } | {"payload": payload}
        yield {
            "clip_id": medium.clip_id,
            "clip": clip,
            "reason": packed.reason,
            "warnings": packed.warnings,
        }


def _connected(address: str) -> Any:
    try:
        import ray
    except ImportError as error:
        raise missing_extra("Ray", "ray", "Decoding on a cluster") from error
    if ray.is_initialized():
        return ray
    _check_answers(address)
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.WARNING)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise ConfigError(f"--ray {address}: no cluster there: {error}") from error
    return ray


def _check_answers(address: str) -> None:
    """Raises ConfigError where nothing listens at a `host:port`; Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise ConfigError(f"--ray {address}: no cluster there: {error}") from error

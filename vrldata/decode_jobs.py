"""What a decode pool is given and gives back: `DecodeJob` and `DecodeResult`."""

from __future__ import annotations

import math
import mmap
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from vrldata.media_file import SourceFingerprint
from vrldata.sampling import SamplingSpec
from vrldata.types import Clip, VideoMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeJob:
    """One file to decode.

    Attributes:
        path: of the file.
        video_path: name of the clip in the dataset.
        spec: what to take.
        kind: `video`, `image`, or None to decide by content.
        source: its fingerprint where that is known already: checked by size and time instead of read again.
    """

    path: str | os.PathLike[str]
    video_path: str
    spec: SamplingSpec
    kind: str | None = None
    source: SourceFingerprint | None = None

    @property
    def source_bytes(self) -> int:
        """Size of the file; 0 where it is not there."""
        if self.source is not None:
            return self.source.source_bytes
        try:
            return os.stat(self.path).st_size
        except (OSError, ValueError):
            return 0

    @property
    def needs_torch(self) -> bool:
        """Whether its resize is torch's own."""
        return self.spec.resize == "exact"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeResult:
    """What became of a job.

    Attributes: job: the job. clip: the clip, its frames a read-only map of shared memory that is freed with
    the last reference; None where the job failed. reason: why it failed, with the path; empty where it did
    not. source: fingerprint of the file; None where the job failed. decoder: library and version. seconds:
    that the worker spent on it.
    """

    job: DecodeJob
    clip: Clip | None
    reason: str = ""
    source: SourceFingerprint | None = None
    decoder: str = ""
    seconds: float = 0.0


def result_of(job: DecodeJob, message: dict[str, Any], descriptor: int | None) -> DecodeResult:
    """The result that a worker's message tells of; the descriptor of its frames is closed."""
    if "clip" not in message or descriptor is None:
        return DecodeResult(job=job, clip=None, reason=message["reason"], seconds=message["seconds"])
    told = message["clip"]
    metadata = told["metadata"]
    metadata["frame_indices"] = np.array(metadata["frame_indices"], dtype=np.int32)
    metadata["timestamps"] = np.array(metadata["timestamps"], dtype=np.float64)
    try:
        memory = mmap.mmap(descriptor, math.prod(told["shape"]), prot=mmap.PROT_READ)
    finally:
        os.close(descriptor)
    clip = Clip(
        frames=np.frombuffer(memory, dtype=np.uint8).reshape(told["shape"]),
        metadata=VideoMetadata(**metadata),
        video_path=told["video_path"],
        spec=job.spec,
        kind=told["kind"],
        warnings=tuple(told["warnings"]),
    )
    return DecodeResult(
        job=job,
        clip=clip,
        source=SourceFingerprint(**message["source"]),
        decoder=message["decoder"],
        seconds=message["seconds"],
    )

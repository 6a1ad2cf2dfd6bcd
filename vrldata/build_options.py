"""How a build works: `BuildOptions`, and when it commits.

What it builds is said in the arguments of `build.build_dataset`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from vrldata.processors import available_cpus

FIRST_BATCH_BYTES = 64 << 20
LAST_BATCH_BYTES = 16 << 20
SMALL_BATCH_BYTES = 256 << 20
SMALL_BATCH_SECONDS = 20.0
LONGEST_WAIT_SECONDS = 300.0

GROWTH = 2
"""A batch that is written while decoding goes on holds this part of what was written before, at least: the
last one, for which everything waits, is then a small part of a small build, and commits stay few in a large
one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSize:
    """When pending clips are committed: at `num_bytes`, or from `clips` on once it was worth waiting for.

    Commits cost more the more there were (every manifest lists all fragments), and a kill loses what is
    pending: small clips are therefore gathered for some seconds beyond `clips`. One batch may be pending
    while another is written.
    """

    clips: int = 32
    num_bytes: int = 1 << 29

    def reached(self, clips: int, num_bytes: int, seconds: float) -> bool:
        """Whether to commit now, even if that means to wait for the last commit."""
        if num_bytes >= self.num_bytes or seconds >= LONGEST_WAIT_SECONDS:
            return True
        return clips >= self.clips and (num_bytes >= SMALL_BATCH_BYTES or seconds >= SMALL_BATCH_SECONDS)

    def worthwhile(self, num_bytes: int, written_bytes: int, coming_bytes: int) -> bool:
        """Whether to commit now if nothing else is being written: much is pending, or most of the rest."""
        enough = max(FIRST_BATCH_BYTES, written_bytes // GROWTH)
        return num_bytes >= min(enough, max(LAST_BATCH_BYTES, coming_bytes))


MEMORY_LIMIT_BYTES = 8 << 30
"""Physical memory of one decoder process beyond what its libraries take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOptions:
    """How a build works; what it builds is the dataset's, the rows' and the spec's business.

    Attributes:
        codec: `raw`, `zstd`, `ffv1`, `jpeg`, with a level such as `jpeg:90`, or `auto` with a budget.
        budget_bytes: bytes that the payloads of the dataset may take; for `auto`.
        workers: decoder processes; None for one a CPU. 0 decodes in this process: quick to start, but a file
            that hangs or exhausts memory takes the build with it.
        timeout_s: seconds for one file.
        memory_limit_bytes: physical memory of one decoder; None for no limit.
        bytes_in_flight: frames being decoded or waiting to be packed.
        retry_failed: try again what failed before and has not changed.
        ray_address: decode on this Ray cluster (`local` starts one here); None decodes in processes here.
        batch: when results are committed.
    """

    codec: str = "raw"
    budget_bytes: int | None = None
    workers: int | None = None
    timeout_s: float = 120.0
    memory_limit_bytes: int | None = MEMORY_LIMIT_BYTES
    bytes_in_flight: int = 2 << 30
    retry_failed: bool = False
    ray_address: str | None = None
    batch: BatchSize = field(default_factory=BatchSize)

    @property
    def num_workers(self) -> int:
        """Decoder processes, or threads beside them; at least one."""
        return self.workers or available_cpus()

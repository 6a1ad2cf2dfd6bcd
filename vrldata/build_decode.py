"""What a build decodes, and how: in processes of this machine, in this process, or on a Ray cluster.

Which media are decoded is decided in `build_plan`; committing what comes out is the work of `build_writer`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from vrldata.codec_budget import Chooser, CodecChooser
from vrldata.errors import DecodeError
from vrldata.log import progress
from vrldata.media_file import source_fingerprint

if TYPE_CHECKING:
    from vrldata.build_options import BuildOptions
    from vrldata.build_plan import Medium, Plan
    from vrldata.build_writer import BuildWriter
    from vrldata.dataset import Dataset
    from vrldata.decode_jobs import DecodeJob, DecodeResult
    from vrldata.decode_pool import DecodePool
    from vrldata.decode_process import DecodeProcess
    from vrldata.frame_rows import EncodedClip

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """What became of one medium: an encoded clip, or the reason why there is none."""

    medium: Medium
    clip: EncodedClip | None
    reason: str = ""
    warnings: tuple[str, ...] = ()


@contextmanager
def open_decoders(
    options: BuildOptions,
    *,
    start: int = 0,
    with_torch: bool = False,
    started: list[DecodeProcess] | None = None,
) -> Iterator[DecodePool | None]:
    """The decoder processes of a build on this machine; None where it decodes elsewhere.

    Args:
        start: workers that are sure to have work, to start at once.
        with_torch: their jobs resize by torch.
        started: see `open_pool`.

    Raises:
        ConfigError: a limit is out of range.
    """
    from vrldata.decode_pool import DecodeLimits, open_pool

    limits = DecodeLimits(
        workers=options.num_workers,
        timeout_s=options.timeout_s,
        memory_limit_bytes=options.memory_limit_bytes,
        bytes_in_flight=options.bytes_in_flight,
    )
    if options.ray_address is not None or options.workers == 0:
        yield None
        return
    with closing(open_pool(limits, start=start, with_torch=with_torch, started=started)) as pool:
        yield pool


def jobs_of(plan: Plan) -> Iterator[DecodeJob]:
    """What the plan lists, as jobs of a decode pool."""
    from vrldata.decode_jobs import DecodeJob

    for medium, source in plan.decode:
        yield DecodeJob(
            path=medium.file, video_path=medium.video_path, spec=medium.spec, kind=medium.kind, source=source
        )


def decode_all(
    dataset: Dataset,
    plan: Plan,
    writer: BuildWriter,
    options: BuildOptions,
    chooser: CodecChooser,
    pool: DecodePool | None,
) -> None:
    """Decode, pack and hand to the writer everything that the plan lists.

    Args:
        pool: of `open_decoders`.
    """
    from vrldata.store import total_payload_bytes

    if not plan.decode:
        return
    writer.expect(len(plan.decode))
    chooser.expect(len(plan.decode), total_payload_bytes(dataset.open_table("frames")))
    if pool is not None:
        results = _decode_by(pool, plan, options, chooser)
    elif options.ray_address is None:
        results = _decode_in_this_process(plan, chooser)
    else:
        from vrldata.build_ray import decode_on_ray

        results = decode_on_ray(plan.decode, options, chooser)
    raw_bytes, failed = 0, len(plan.failed)
    with closing(results), progress("build", total=len(plan.decode), unit="clips") as bar:
        for packed in results:
            for warning in packed.warnings:
                logger.info("%s: %s", packed.medium.video_path, warning)
            if packed.clip is None:
                failed += 1
                logger.warning("%s: not decoded: %s", packed.medium.video_path, packed.reason)
                writer.add_failure(packed.medium, packed.reason)
            else:
                raw_bytes += packed.clip.raw_bytes
                writer.add_clip(packed.clip)
            bar.advance(1, GB=f"{raw_bytes / 1e9:.2f}", failed=failed)


def _decode_by(
    pool: DecodePool, plan: Plan, options: BuildOptions, chooser: CodecChooser
) -> Generator[Packed]:
    """Decode in the processes of `pool`, pack in threads; results come about as they are done."""
    media = {medium.clip_id: medium for medium, _ in plan.decode}
    results = cast("Generator[DecodeResult]", pool.decode(jobs_of(plan)))
    waiting: deque[Future[Packed]] = deque()
    with ThreadPoolExecutor(options.num_workers) as threads, closing(results):
        for result in results:
            medium = media[result.job.spec.clip_id(result.job.video_path)]
            waiting.append(threads.submit(pack, medium, result, chooser))
            while waiting and (len(waiting) > options.num_workers or waiting[0].done()):
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _decode_in_this_process(plan: Plan, chooser: CodecChooser) -> Generator[Packed]:
    """Decode one file after the other, without deadline and memory limit."""
    from vrldata.decode_jobs import DecodeJob, DecodeResult
    from vrldata.decoding import decode, decoder_version

    for medium, source in plan.decode:
        job = DecodeJob(path=medium.file, video_path=medium.video_path, spec=medium.spec, kind=medium.kind)
        try:
            source = source or source_fingerprint(medium.file)
            clip = decode(medium.file, medium.spec, video_path=medium.video_path, kind=medium.kind)
        except DecodeError as error:
            yield Packed(medium=medium, clip=None, reason=str(error))
            continue
        result = DecodeResult(job=job, clip=clip, source=source, decoder=decoder_version(medium.kind))
        yield pack(medium, result, chooser)


def pack(medium: Medium, result: DecodeResult, chooser: Chooser) -> Packed:
    """The clip of a decode as a row to be, in the codec that the budget allows."""
    from vrldata.frame_rows import encode_clip

    if result.clip is None or result.source is None:
        return Packed(medium=medium, clip=None, reason=result.reason)
    codec = chooser.choose(result.clip.frames)
    clip = encode_clip(result.clip, codec, result.source, decoder=result.decoder)
    chooser.spent(clip.num_bytes)
    return Packed(medium=medium, clip=clip, warnings=result.clip.warnings)

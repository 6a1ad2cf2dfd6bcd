"""`build_dataset`: annotations and media become rows, incrementally and in batches.

Reading annotations is the work of `annotations`, deciding what to decode of `build_plan`, decoding of
`decode_pool` or `build_ray`, committing of `build_writer`.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrldata.build_decode import decode_all, jobs_of, open_decoders
from vrldata.build_options import BuildOptions
from vrldata.build_plan import Medium, Plan, failed_clips, make_plan, media_of, stored_clips
from vrldata.codec_budget import CodecChooser
from vrldata.errors import ConfigError, StoreError, nearest
from vrldata.location import is_new
from vrldata.sampling import SamplingSpec
from vrldata.types import Trajectory

if TYPE_CHECKING:
    from vrldata.annotation_faults import Rejection
    from vrldata.annotation_objects import Sources
    from vrldata.annotations import OfflineResponse
    from vrldata.build_plan import FailedClip
    from vrldata.build_samples import SampleRows
    from vrldata.build_writer import BuildWriter
    from vrldata.dataset import Dataset
    from vrldata.decode_pool import DecodePool
    from vrldata.decode_process import DecodeProcess
    from vrldata.types import Sample

logger = logging.getLogger(__name__)

REJECTED_FILE = "rejected.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildReport:
    """What a build did.

    Attributes:
        decoded: clips decoded and committed.
        reused: clips that were there already, under their own path or with the same content under another.
        failed: media that could not be decoded, now or before.
        rejected: annotation rows that could not be used.
        skipped: annotation rows that `on_unknown_type: skip` left out: they are in no table and in no later
            denominator, and no fault of the build.
        samples: samples of the annotations, those with failed media included.
        trajectories: offline responses that were new.
        bytes: of the payloads committed.
        seconds: of wall time.
        codecs: clips by the codec that stored them.
        failures: (video_path, reason) of the failed media.
        rejections: a line for each rejected or skipped row, as in `rejected.jsonl`.
        rejected_file: where that lies; None when this build rejected or skipped nothing.
        unknown_types: rows by the spelling of a problem type that was read as `open_ended` or skipped.
        left: ids of samples that the files of this build gave before and no longer hold.
        pruned: how many of these were removed.
        updated: ids of samples that had another question, answer or media before.
        replaced: paths of clips that were made of other content before.
        affected: ids of samples of other annotations that use these clips: their frames are others now.
    """

    decoded: int
    reused: int
    failed: int
    rejected: int
    samples: int
    trajectories: int
    bytes: int
    seconds: float
    codecs: Mapping[str, int] = field(default_factory=dict)
    failures: tuple[tuple[str, str], ...] = ()
    rejections: tuple[str, ...] = ()
    rejected_file: str | None = None
    skipped: int = 0
    unknown_types: Mapping[str, int] = field(default_factory=dict)
    left: tuple[str, ...] = ()
    pruned: int = 0
    updated: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    affected: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether nothing failed and nothing was rejected."""
        return not (self.failed or self.rejected)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**dataclasses.asdict(self), "failures": [list(pair) for pair in self.failures]}


def build_dataset(
    dataset: Dataset,
    rows: Sources,
    *,
    video_root: str | Path,
    spec: SamplingSpec | None = None,
    image_max_pixels: int | None = None,
    field_map: Mapping[str, str] | None = None,
    split: str = "train",
    on_unknown_type: str = "error",
    prune: bool = False,
    decoders: list[DecodeProcess] | None = None,
    **options: Any,
) -> BuildReport:
    """Bring a dataset up to date with annotations and their media.

    What is there is kept; a killed build is continued by the same call; several builds may run on one root at
    once. A row or a file that cannot be used costs only itself and is recorded with its reason, in
    `rejected.jsonl` or the table `failures`.

    Args:
        rows: annotation files or patterns, or rows as mappings; a single file may stand alone.
        video_root: folder that media paths are relative to; nothing outside it is read.
        spec: of the videos; a sample's window takes the place of its own. Defaults to `SamplingSpec()`.
        image_max_pixels: budget of an image; see `SamplingSpec.for_image`.
        field_map: annotation field to the column that holds it, where names are unusual.
        split: of samples whose rows name none.
        on_unknown_type: of rows whose problem type is unknown; see `read_annotations`.
        prune: remove samples that these files once gave and no longer hold, or hold in a rejected row. Only
            rows with an id of their own are known to be of a file. Frames, trajectories and releases stay.
        decoders: decoder processes that were started before; see `decode_process.started_early`.
        options: fields of `BuildOptions`.

    Raises:
        AnnotationError: no annotation file can be read at all.
        ConfigError: an option is wrong. StoreError: the dataset cannot be written.
    """
    from vrldata.annotation_rows import SKIPPED
    from vrldata.annotations import read_annotations

    started = time.monotonic()
    spec = spec or SamplingSpec()
    settings = _options({"codec": spec.codec, **options})
    chooser = CodecChooser(settings.codec, settings.budget_bytes)
    root = _existing_folder(video_root)
    read = read_annotations(
        rows,
        video_root=root,
        field_map=field_map,
        default_split=split,
        on_unknown_type=on_unknown_type,
    )
    for notice in read.warnings:
        logger.warning("%s", notice.message)
    samples = read.samples
    image_spec = spec.for_image(image_max_pixels)
    media = [media_of(sample, spec, image_spec, root) for sample in samples]
    all_media = {medium.clip_id: medium for own in media for medium in own}
    new, with_torch = is_new(dataset), spec.resize == "exact"
    start = len(all_media) if new else 0
    with open_decoders(settings, start=start, with_torch=with_torch, started=decoders) as pool:
        planned = _plan(None, all_media.values(), root, settings) if new else None
        if planned and pool:
            pool.begin(jobs_of(planned[0]))
        # Arrow and Lance load while the decoders are at work
        from vrldata.build_samples import SampleRows, samples_that_left
        from vrldata.commits import delete_rows, maintain_indexes

        dataset.make_tables()
        rejected_file = _write_rejections(dataset, read.rejected, read.names)
        sample_rows = SampleRows(dataset)
        left = samples_that_left(sample_rows, {sample.sample_id for sample in samples}, read.names)
        plan, failed_before = planned or _plan(dataset, all_media.values(), root, settings)
        written = _write_frames(
            dataset, samples, sample_rows, media, plan, failed_before, settings, chooser, pool
        )
    if prune:
        delete_rows(dataset, "samples", left)
    trajectories = add_offline(dataset, read.offline, samples)
    skipped = sum(rejection.reason == SKIPPED for rejection in read.rejected)
    for table in ("samples", "frames", "trajectories"):
        maintain_indexes(dataset, table)
    writer, replaced, affected = written
    return BuildReport(
        decoded=writer.codecs.total(),
        reused=writer.num_reused,
        failed=writer.num_failed,
        rejected=len(read.rejected) - skipped,
        samples=len(samples),
        trajectories=trajectories,
        bytes=writer.written_bytes,
        seconds=time.monotonic() - started,
        codecs=dict(writer.codecs),
        failures=tuple(writer.failures),
        rejections=tuple(rejection.message for rejection in read.rejected),
        rejected_file=rejected_file,
        skipped=skipped,
        unknown_types=dict(read.unknown_types.most_common()),
        left=tuple(left),
        pruned=len(left) if prune else 0,
        updated=tuple(sample_rows.updated),
        replaced=replaced,
        affected=affected,
    )


def _write_frames(
    dataset: Dataset,
    samples: Sequence[Sample],
    sample_rows: SampleRows,
    media: Sequence[Sequence[Medium]],
    plan: Plan,
    failed_before: dict[str, FailedClip],
    options: BuildOptions,
    chooser: CodecChooser,
    pool: DecodePool | None,
) -> tuple[BuildWriter, tuple[str, ...], tuple[str, ...]]:
    """Bring `frames`, `failures` and `samples` up to date; what was done is in the writer.

    Beside it `replaced` and `affected` of the report.
    """
    from vrldata.build_samples import SampleTracker, samples_that_use
    from vrldata.build_writer import BuildWriter

    all_media = {medium.clip_id: medium for own in media for medium in own}
    built_samples = {sample.sample_id for sample in samples}
    paths = {clip_id: all_media[clip_id].video_path for clip_id in plan.replaced}
    replaced = tuple(sorted(set(paths.values())))
    affected = tuple(samples_that_use(dataset, paths, built_samples))
    if affected:
        _warn_of_replaced(replaced, affected)
    writer = BuildWriter(
        dataset,
        SampleTracker(samples, media, plan.shared),
        sample_rows,
        failed_before=failed_before,
        changed=plan.changed,
        built_samples=built_samples,
        batch=options.batch,
    )
    for clip_id, holder in plan.ready.items():
        writer.add_ready(clip_id, holder)
    for clip_id, reason in plan.failed.items():
        writer.add_failure(all_media[clip_id], reason, known=clip_id in plan.known_failures)
    try:
        decode_all(dataset, plan, writer, options, chooser, pool)
    finally:
        # also on an interrupt: what is decoded is worth a commit
        writer.flush()
    return writer, replaced, affected


def _warn_of_replaced(paths: Sequence[str], samples: Sequence[str]) -> None:
    """Say before anything is decoded whose frames are about to change: the files may be others by mistake."""
    logger.warning(
        "%d files, such as %s, have other content than the stored clips of these paths, and %d samples of "
        "other annotations, such as %s, use those clips: they get the frames of the files that are there "
        "now. Where these are other videos of the same name, take a --video-root above both folders",
        len(paths),
        paths[0],
        len(samples),
        samples[0],
    )


def _options(given: dict[str, Any]) -> BuildOptions:
    known = [item.name for item in dataclasses.fields(BuildOptions)]
    for name in given:
        if name not in known:
            raise ConfigError(
                f"build: unknown option {name!r}.{nearest(name, known)} Known: {', '.join(known)}"
            )
    options = BuildOptions(**given)
    if options.workers is not None and options.workers < 0:
        raise ConfigError(f"workers={options.workers}: expected 0 or more")
    return options


def _existing_folder(video_root: str | Path) -> Path:
    folder = Path(video_root).expanduser()
    if not folder.is_dir():
        raise ConfigError(f"video root {video_root}: no such folder")
    return folder


def _plan(
    dataset: Dataset | None, media: Iterable[Medium], root: Path, options: BuildOptions
) -> tuple[Plan, dict[str, FailedClip]]:
    """The plan against what a dataset holds; None where it is yet to be made."""
    failures = failed_clips(dataset) if dataset is not None else {}
    plan = make_plan(
        media,
        stored_clips(dataset) if dataset is not None else {},
        failures,
        video_root=root,
        retry_failed=options.retry_failed,
        threads=options.num_workers,
    )
    return plan, failures


def _write_rejections(dataset: Dataset, rejected: Sequence[Rejection], names: set[str]) -> str | None:
    """Write `rejected.jsonl` into the root, or into the working folder for a remote one; its path.

    The file tells about the last build of each source: what another one left there stays. Without rejections
    it is removed.

    Args:
        names: of the sources of this build.
    """
    from vrldata.annotation_faults import read_rejected, source_name, write_rejected
    from vrldata.annotations import ROWS

    target = (Path(dataset.root) if dataset.is_local else Path.cwd()) / REJECTED_FILE
    built = names | {source_name(one.file) for one in rejected} | {source_name(ROWS)}
    before = read_rejected(target)
    now = [one for one in before if source_name(one.file) not in built] + list(rejected)
    if now:
        # on a read-only disk a build that has nothing to do is none that fails
        if now != before:
            write_rejected(target, now)
        return str(target) if rejected else None
    try:
        if os.path.lexists(target):
            target.unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(f"{target}: cannot be removed: {error.strerror or error}") from error
    return None


def add_offline(dataset: Dataset, responses: Sequence[OfflineResponse], samples: Sequence[Sample]) -> int:
    """Store the responses that annotations carry, scored where they have no reward; how many were new."""
    if not responses:
        return 0
    from vrldata.tables import with_trajectory_ids
    from vrldata.trajectory_scores import score_trajectories

    found = [
        Trajectory(
            trajectory_id="",
            sample_id=one.sample_id,
            response=one.response,
            source="offline",
            reward=one.reward,
            log_probs=one.log_probs,
        )
        for one in responses
    ]
    found = with_trajectory_ids(found)
    stored = dataset.open_table("trajectories").to_table(
        columns=["trajectory_id"], filter="source = 'offline'"
    )
    known = set(stored.column("trajectory_id").to_pylist())
    fresh = [one for one in found if one.trajectory_id not in known]
    return dataset.add_trajectories(score_trajectories(fresh, {one.sample_id: one for one in samples}))

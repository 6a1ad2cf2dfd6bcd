"""The `.pt` caches of EasyVideoR1 as rows: tensors are read with `weights_only=True`, nothing is unpickled.

Such a file holds `frames` (T, C, H, W, whole numbers as float32), `metadata`, `sample_fps` and
`preprocess_version`. Which video it is of stands in the annotation that names it as `preprocessed_video`, and
its own name is a digest of path and sampling figures.
"""

from __future__ import annotations

import dataclasses
import hashlib
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vrldata.build_options import BatchSize
from vrldata.build_plan import Medium, failed_clips, media_of, stored_clips
from vrldata.build_samples import SampleRows, SampleTracker
from vrldata.build_writer import BuildWriter
from vrldata.codecs import parse_codec
from vrldata.commits import maintain_indexes
from vrldata.errors import AnnotationError, DecodeError, missing_extra
from vrldata.frame_rows import EncodedClip, encode_clip
from vrldata.log import progress
from vrldata.media_file import SourceFingerprint, source_fingerprint
from vrldata.sampling import SamplingSpec
from vrldata.types import Clip, Sample, VideoMetadata

if TYPE_CHECKING:
    from vrldata.dataset import Dataset

PT_FIELD = "preprocessed_video"
"""Field of an annotation row that names its file."""

DEFAULT_VERSION = "qwen3vl_patch16_v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """What an import did: clips taken over, clips there already, files that could not be used and why."""

    imported: int
    reused: int
    failed: int
    samples: int
    rejected: int
    bytes: int
    failures: tuple[tuple[str, str], ...] = ()
    rejections: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every row and file was used."""
        return not (self.failed or self.rejected)


def import_folder(
    dataset: Dataset,
    folder: str | Path,
    *,
    spec: SamplingSpec,
    annotations: Sequence[str | Path] | None = None,
    video_root: str | Path | None = None,
    check_names: bool = True,
) -> ImportReport:
    """Take over the `.pt` files of `folder` and the samples that name them. Safe to repeat.

    The source's own size is not in these files: `source_width` and `source_height` hold that of the frames.
    With their videos at hand, rows stay valid for builds with the same spec; without, nothing proves that
    they still fit, and a build that sees the video decodes it.

    Args:
        spec: what the files were made with; `spec.codec` says how they are stored.
        annotations: files whose rows have the field `preprocessed_video`; None looks in and beside `folder`.
        video_root: folder of the videos, to record what proves that they are the same.
        check_names: refuse a file whose name is not the digest of its path and of these figures.

    Raises:
        AnnotationError: no annotation names a file of the folder. StoreError: the dataset cannot be written.
    """
    from vrldata.annotations import read_annotations

    root = Path(folder).expanduser()
    if not root.is_dir():
        raise AnnotationError(f"{folder}: no such folder")
    sources = list(annotations) if annotations else _annotations_near(root)
    videos = Path(video_root).expanduser() if video_root is not None else root
    read = read_annotations(sources, video_root=videos, require_trajectories=False)
    samples = [sample for sample in read.samples if isinstance(sample.extra.get(PT_FIELD), str)]
    if not samples:
        raise AnnotationError(f"{', '.join(map(str, sources))}: no usable row has the field {PT_FIELD!r}")
    dataset.make_tables()
    bare = dataclasses.replace(spec, codec="raw")
    media = [media_of(sample, bare, bare.for_image(), videos) for sample in samples]
    writer = BuildWriter(
        dataset,
        SampleTracker(samples, media, {}),
        SampleRows(dataset),
        failed_before=failed_clips(dataset),
        changed=set(),
        built_samples={sample.sample_id for sample in samples},
        batch=BatchSize(),
    )
    stored = stored_clips(dataset)
    seen: set[str] = set()
    with progress("import", total=len(samples), unit="clips") as bar:
        for sample, own in zip(samples, media, strict=True):
            bar.advance(1, failed=writer.num_failed)
            for place, medium in enumerate(own):
                if medium.clip_id in seen:
                    continue
                seen.add(medium.clip_id)
                if medium.clip_id in stored:
                    writer.add_ready(medium.clip_id, medium.clip_id)
                    continue
                try:
                    if place or medium.kind != "video":
                        raise DecodeError(
                            "only the first video of a row is in a .pt cache; build adds the others"
                        )
                    writer.add_clip(
                        _import_one(root, sample, medium, spec, check_names, video_root is not None)
                    )
                except DecodeError as error:
                    writer.add_failure(medium, str(error))
    writer.flush()
    for table in ("samples", "frames"):
        maintain_indexes(dataset, table)
    return ImportReport(
        imported=writer.codecs.total(),
        reused=writer.num_reused,
        failed=writer.num_failed,
        samples=len(samples),
        rejected=len(read.rejected),
        bytes=writer.written_bytes,
        failures=tuple(writer.failures),
        rejections=tuple(rejection.message for rejection in read.rejected),
    )


def pt_name(video_path: str, spec: SamplingSpec, version: str = DEFAULT_VERSION) -> str:
    """Name of the file that EasyVideoR1's `preprocess_videos.py` writes for a video and these figures."""
    parts = [
        version,
        video_path,
        str(spec.min_pixels),
        str(spec.max_pixels),
        str(spec.max_frames),
        str(spec.fps),
    ]
    if spec.total_pixels is not None:
        parts.append(str(spec.total_pixels))
    return hashlib.md5("_".join(parts).encode(), usedforsecurity=False).hexdigest()[:16] + ".pt"


def _annotations_near(folder: Path) -> list[Path]:
    """Annotation files in a folder and beside it that speak of `.pt` files."""
    found = [
        file
        for place in (folder, folder.parent)
        for file in sorted(place.iterdir())
        if file.is_file() and file.suffix in (".json", ".jsonl") and _mentions_pt(file)
    ]
    if not found:
        raise AnnotationError(
            f"{folder}: no .json or .jsonl there or beside it has rows with {PT_FIELD!r}; use --annotations"
        )
    return found


def _mentions_pt(file: Path) -> bool:
    with file.open("rb") as stream:
        return PT_FIELD.encode() in stream.read(1 << 20)


def _import_one(
    folder: Path, sample: Sample, medium: Medium, spec: SamplingSpec, check_names: bool, has_videos: bool
) -> EncodedClip:
    name = str(sample.extra[PT_FIELD])
    file = folder / name
    if Path(name).name != name or name in ("", ".", ".."):
        raise DecodeError(f"{PT_FIELD} {name!r} is no plain file name in {folder}")
    if not file.is_file():
        raise DecodeError(f"{file}: no such file")
    content = _load(file)
    version = str(content.get("preprocess_version", DEFAULT_VERSION))
    if check_names and name != pt_name(medium.video_path, medium.spec, version):
        raise DecodeError(
            f"{file}: was not made from {medium.video_path!r} with fps={spec.fps:g}, "
            f"max_frames={spec.max_frames}, min_pixels={spec.min_pixels}, max_pixels={spec.max_pixels}, "
            f"total_pixels={spec.total_pixels}: give the figures of the cache, or --any-name"
        )
    frames = _uint8_frames(content.get("frames"), file)
    metadata = _metadata(content, frames, file)
    clip = Clip(frames=frames, metadata=metadata, video_path=medium.video_path, spec=medium.spec)
    source = SourceFingerprint(source_bytes=0, source_mtime_ns=0, source_digest="")
    if has_videos and medium.file.is_file():
        source = source_fingerprint(medium.file)
    return encode_clip(
        clip, parse_codec(spec.codec), source, decoder=f"EasyVideoR1 {version}", preprocess_version=version
    )


def _load(file: Path) -> Mapping[str, Any]:
    try:
        import torch
    except ImportError as error:
        raise missing_extra("torch", "build", "Reading .pt files") from error
    try:
        content = torch.load(file, map_location="cpu", weights_only=True, mmap=True)
    except (pickle.UnpicklingError, RuntimeError, OSError, ValueError, EOFError, KeyError) as error:
        raise DecodeError(f"{file}: not a plain tensor file: {str(error).splitlines()[0][:200]}") from error
    if not isinstance(content, Mapping) or "frames" not in content:
        raise DecodeError(f"{file}: expected a mapping with 'frames'")
    return content


def _uint8_frames(frames: Any, file: Path) -> NDArray[np.uint8]:
    """Frames (T, C, H, W) of whole numbers 0 to 255 as uint8 (T, H, W, 3), without loss."""
    import torch

    if isinstance(frames, list | tuple) and frames and all(isinstance(one, torch.Tensor) for one in frames):
        frames = torch.stack(list(frames))
    if not isinstance(frames, torch.Tensor) or frames.ndim != 4 or frames.shape[1] != 3 or not frames.numel():
        shape = tuple(frames.shape) if isinstance(frames, torch.Tensor) else type(frames).__name__
        raise DecodeError(f"{file}: expected frames (T, 3, H, W), found {shape}")
    pixels = np.empty((frames.shape[0], frames.shape[2], frames.shape[3], 3), dtype=np.uint8)
    for place, frame in enumerate(frames):
        values = frame.permute(1, 2, 0)
        whole = values.to(torch.uint8)
        if not torch.equal(whole.to(values.dtype), values):
            raise DecodeError(
                f"{file}: frame {place} holds values that are no whole numbers from 0 to 255; build it again"
            )
        pixels[place] = whole.numpy()
    return pixels


def _metadata(content: Mapping[str, Any], frames: NDArray[np.uint8], file: Path) -> VideoMetadata:
    given = content.get("metadata") or {}
    try:
        fps = float(given["fps"])
        indices = np.asarray([int(index) for index in given["frames_indices"]], dtype=np.int32)
        total = int(given["total_num_frames"])
        rate = float(content.get("sample_fps", 0.0)) or fps * len(frames) / max(total, 1)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise DecodeError(
            f"{file}: metadata without readable fps, frames_indices, total_num_frames: {error}"
        ) from error
    if len(indices) != len(frames) or fps <= 0 or total < 1:
        raise DecodeError(
            f"{file}: {len(frames)} frames of {total} at {fps:g} fps, but {len(indices)} frames_indices"
        )
    return VideoMetadata(
        fps=fps,
        frame_indices=indices,
        timestamps=indices / fps,
        duration=total / fps,
        total_num_frames=total,
        height=frames.shape[1],
        width=frames.shape[2],
        source_height=frames.shape[1],
        source_width=frames.shape[2],
        sampled_fps=rate,
    )

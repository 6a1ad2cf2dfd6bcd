"""WebDataset shards of an export: samples with their decoded frames in tar files.

Which samples and responses are written is decided by `export`.
"""

from __future__ import annotations

import glob
import io
import json
import logging
import re
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrldata.errors import MissingClip, StoreError
from vrldata.export import ExportOptions, Responses, annotation_row
from vrldata.log import progress
from vrldata.rows_output import whole_file
from vrldata.types import Sample

if TYPE_CHECKING:
    from vrldata.dataset import Dataset

logger = logging.getLogger(__name__)


def write_shards(
    dataset: Dataset,
    samples: list[Sample],
    responses: Mapping[str, Responses],
    stem: Path,
    options: ExportOptions,
    skipped: dict[str, str],
) -> list[str]:
    """WebDataset shards `<split>-000000.tar` …; a sample whose clips are missing is left out and told."""
    files: list[str] = []
    entries = _shard_entries(dataset, samples, responses, options, skipped)
    pending = next(entries, None)
    while pending is not None:
        path = stem.with_name(f"{stem.name}-{len(files):06d}.tar")
        with whole_file(path) as file, tarfile.open(fileobj=file, mode="w") as shard:
            while pending is not None and (file.tell() == 0 or file.tell() < options.shard_bytes):
                for name, data in pending:
                    entry = tarfile.TarInfo(name)
                    entry.size = len(data)
                    shard.addfile(entry, io.BytesIO(data))
                pending = next(entries, None)
        files.append(str(path))
    if files:
        _drop_shards(stem, len(files))
    return files


def _drop_shards(stem: Path, number: int) -> None:
    """Delete the shards of a longer export that this one has replaced, from the shard `number` on."""
    for path in stem.parent.glob(f"{glob.escape(stem.name)}-*.tar"):
        found = re.fullmatch(f"{re.escape(stem.name)}-([0-9]{{6}})", path.stem)
        if found and int(found.group(1)) >= number:
            path.unlink()


def _shard_entries(
    dataset: Dataset,
    samples: list[Sample],
    responses: Mapping[str, Responses],
    options: ExportOptions,
    skipped: dict[str, str],
) -> Iterator[list[tuple[str, bytes]]]:
    """Names and contents of the files of each sample."""
    with progress("export", total=len(samples), unit="samples") as bar:
        for index, sample in enumerate(samples):
            try:
                clips = dataset.clips_of(sample)
            except (MissingClip, StoreError) as error:
                logger.warning("%s is left out: %s", sample.sample_id, error)
                skipped[sample.sample_id] = str(error)
                bar.advance()
                continue
            key = f"{index:09d}"
            row = annotation_row(sample, responses[sample.sample_id], options)
            row["clips"] = [_clip_facts(clip) for clip in clips]
            entries = [(f"{key}.json", json.dumps(row, ensure_ascii=False).encode())]
            entries += [(f"{key}.{place}.npy", _npy(clip.frames)) for place, clip in enumerate(clips)]
            bar.advance()
            yield entries


def _clip_facts(clip: Any) -> dict[str, Any]:
    meta = clip.metadata
    return {
        "video_path": clip.video_path,
        "kind": clip.kind,
        "fps": meta.fps,
        "frame_indices": meta.frame_indices.tolist(),
        "timestamps": meta.timestamps.tolist(),
        "duration": meta.duration,
        "total_num_frames": meta.total_num_frames,
    }


def _npy(frames: Any) -> bytes:
    import numpy as np

    data = io.BytesIO()
    np.save(data, frames, allow_pickle=False)
    return data.getvalue()

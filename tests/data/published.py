"""What the tests of push and pull publish: a small dataset that grows, and whether two hold the same."""

from __future__ import annotations

import dataclasses

import numpy as np

import vrldata
from vrldata.commits import merge_rows
from vrldata.tables import sample_to_row
from vrldata.types import Clip, Sample, Trajectory

TARGET = "hf://datasets/me/clips"


def add_large_clip(dataset: vrldata.Dataset, number: int) -> None:
    """One clip whose payload has a file to itself, beside the packed small ones."""
    from vrldata.codecs import parse_codec
    from vrldata.frame_rows import encode_clip, put_clips
    from vrldata.media_file import SourceFingerprint

    [first, *_] = dataset.iter_samples(limit=1)
    small = dataset.clips_of(first)[0]
    metadata = dataclasses.replace(
        small.metadata,
        frame_indices=np.arange(16, dtype=np.int32),
        timestamps=np.arange(16) / 2,
        height=160,
        width=160,
    )
    large = Clip(
        frames=np.random.default_rng(number).integers(0, 255, (16, 160, 160, 3), dtype=np.uint8),
        metadata=metadata,
        video_path=f"videos/large-{number}.mp4",
        spec=small.spec,
    )
    source = SourceFingerprint(source_bytes=1, source_mtime_ns=1, source_digest=f"{number:064x}")
    put_clips(dataset, [encode_clip(large, parse_codec("raw"), source, decoder="none")])


def response(number: int) -> Trajectory:
    """A right response to sample `s0`."""
    return Trajectory(
        trajectory_id=f"t{number}",
        sample_id="s0",
        response=f"response {number}",
        source="rollout",
        rewards={"accuracy": 1.0},
        reward=1.0,
        correct=True,
    )


def add_sample(dataset: vrldata.Dataset, name: str) -> None:
    """One sample without media."""
    row = sample_to_row(Sample(sample_id=name, problem="new?", answer="A", problem_type="ocr"))
    merge_rows(dataset, "samples", [row])


def same_content(first: vrldata.Dataset, second: vrldata.Dataset) -> bool:
    """Whether all rows and all pixels are equal."""
    from vrldata.row_digest import row_digests

    for table in ("samples", "frames", "trajectories", "failures"):
        if row_digests(table, first.lance(table)) != row_digests(table, second.lance(table)):
            return False
    for row in first.frames.to_table(columns=["clip_id"]).to_pylist():
        clips = [one.clip_by_id(row["clip_id"]).frames for one in (first, second)]
        if not (clips[0] == clips[1]).all():
            return False
    return True

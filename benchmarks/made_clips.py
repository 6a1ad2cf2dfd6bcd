"""Clips of noise for benchmarks of reading: what is in a raw clip does not matter to its readers."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path
from typing import Any

import numpy as np

import vrldata
from vrldata.types import Clip, Sample, VideoMetadata

Shape = tuple[int, int, int, int]


def made_clip(number: int, shape: Shape) -> Clip:
    """A clip uint8 (T, H, W, 3) of noise."""
    frames = np.random.default_rng(number).integers(0, 256, shape, dtype=np.uint8)
    metadata = VideoMetadata(
        fps=30.0,
        frame_indices=np.arange(shape[0], dtype=np.int32) * 15,
        timestamps=np.arange(shape[0]) / 2,
        duration=shape[0] / 2,
        total_num_frames=shape[0] * 15,
        height=shape[1],
        width=shape[2],
        source_height=1080,
        source_width=1920,
        sampled_fps=2.0,
    )
    return Clip(frames=frames, metadata=metadata, video_path=video_path(number), spec=vrldata.SamplingSpec())


def video_path(number: int) -> str:
    """Path of clip `number`."""
    return f"v{number}.mp4"


def clip_id(number: int) -> str:
    """Key of clip `number`."""
    return vrldata.SamplingSpec().clip_id(video_path(number))


def put_noise(
    root: Path, count: int, shape: Shape, *, distinct: int = 4, questions: int = 1
) -> vrldata.Dataset:
    """A dataset of `count` raw clips and questions on each; their pixels repeat after `distinct` clips."""
    from vrldata.codecs import parse_codec
    from vrldata.commits import merge_rows
    from vrldata.frame_rows import encode_clip, put_clips
    from vrldata.media_file import SourceFingerprint
    from vrldata.tables import sample_to_row

    dataset = vrldata.create(root)
    raw = parse_codec("raw")
    made = [made_clip(number, shape) for number in range(min(distinct, count))]
    encoded: list[Any] = []
    for number in range(count):
        source = SourceFingerprint(source_bytes=1, source_mtime_ns=1, source_digest=f"{number:064x}")
        one = encode_clip(made[number % len(made)], raw, source, decoder="none")
        names = {"clip_id": clip_id(number), "video_path": video_path(number)}
        encoded.append(dataclasses.replace(one, columns={**one.columns, **names}))
        if sum(clip.num_bytes for clip in encoded) >= 1 << 30 or number == count - 1:
            put_clips(dataset, encoded)
            encoded = []
    samples = [
        Sample(
            sample_id=f"s{number}-{question}",
            problem="What is shown?",
            answer="noise",
            problem_type="open_ended",
            data_type="video",
            videos=(video_path(number),),
            clip_ids=(clip_id(number),),
        )
        for number in range(count)
        for question in range(questions)
    ]
    merge_rows(dataset, "samples", [sample_to_row(sample) for sample in samples])
    return dataset


def quiet_ray() -> None:
    """No progress bars and no lines about plans."""
    import ray.data

    ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)

"""Fixtures of the tests of vrldata: a dataset with clips that are made of numbers, without any decoding."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import vrldata
from tests.data.hub_server import HubServer
from vrldata.types import Clip, Sample, VideoMetadata


def numbered_clip(number: int, *, num_frames: int = 4, size: int = 32, kind: str = "video") -> Clip:
    """A clip whose frame t is filled with the level `number * 8 + t`."""
    spec = vrldata.SamplingSpec()
    if kind == "image":
        spec, num_frames = spec.for_image(), 1
    levels = (np.arange(num_frames) + number * 8) % 256
    frames = np.broadcast_to(levels[:, None, None, None], (num_frames, size, size, 3)).astype(np.uint8)
    metadata = VideoMetadata(
        fps=4.0,
        frame_indices=np.arange(num_frames, dtype=np.int32) * 2,
        timestamps=np.arange(num_frames) / 2,
        duration=num_frames / 2,
        total_num_frames=num_frames * 2,
        height=size,
        width=size,
        source_height=size,
        source_width=size,
        sampled_fps=2.0,
    )
    suffix = "mp4" if kind == "video" else "png"
    return Clip(
        frames=frames, metadata=metadata, video_path=f"{kind}s/{number}.{suffix}", spec=spec, kind=kind
    )


@pytest.fixture(scope="session")
def make_dataset() -> Callable[..., vrldata.Dataset]:
    """`make_dataset(root, num_samples)`: `s<n>` asks about a video, every fourth about an image too."""
    from vrldata.codecs import parse_codec
    from vrldata.commits import merge_rows
    from vrldata.frame_rows import encode_clip, put_clips
    from vrldata.media_file import SourceFingerprint
    from vrldata.tables import sample_to_row

    def fingerprint(index: int) -> SourceFingerprint:
        return SourceFingerprint(source_bytes=1, source_mtime_ns=1, source_digest=f"{index:064x}")

    def make(root: Path, num_samples: int, *, num_frames: int = 4, size: int = 32) -> vrldata.Dataset:
        dataset = vrldata.create(root)
        clips, samples = [], []
        for number in range(num_samples):
            video = numbered_clip(number, num_frames=num_frames, size=size)
            images = [numbered_clip(number, size=size, kind="image")] if number % 4 == 0 else []
            clips += [video, *images]
            samples.append(
                Sample(
                    sample_id=f"s{number}",
                    split="val" if number % 5 == 4 else "train",
                    problem=f"What is in video {number}?",
                    answer="AB"[number % 2],
                    problem_type="multiple_choice" if number % 2 else "ocr",
                    data_type="video",
                    options=("first", "second"),
                    videos=(video.video_path,),
                    images=tuple(image.video_path for image in images),
                    clip_ids=tuple(clip.clip_id for clip in (video, *images)),
                    data_source="made",
                    extra={"number": number},
                )
            )
        encoded = [
            encode_clip(clip, parse_codec("raw"), fingerprint(index), decoder="none")
            for index, clip in enumerate(clips)
        ]
        put_clips(dataset, encoded)
        merge_rows(dataset, "samples", [sample_to_row(sample) for sample in samples])
        return dataset

    return make


@pytest.fixture(scope="module")
def clips(
    tmp_path_factory: pytest.TempPathFactory, make_dataset: Callable[..., vrldata.Dataset]
) -> vrldata.Dataset:
    """20 samples with 25 clips; tests do not change it."""
    return make_dataset(tmp_path_factory.mktemp("clips") / "clips", 20)


@pytest.fixture(scope="session")
def ray_session() -> Iterator[None]:
    """One small Ray on this machine for all tests: starting one takes seconds."""
    import ray

    started = not ray.is_initialized()
    if started:
        ray.init(
            num_cpus=2,
            object_store_memory=80 << 20,
            include_dashboard=False,
            log_to_driver=False,
            configure_logging=False,
        )
    yield
    if started:
        ray.shutdown()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[HubServer]:
    """A running server whose token is in the environment, and a client that may reach it."""
    from huggingface_hub import constants

    import vrldata.hub_client

    with HubServer() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setenv("HF_TOKEN", server.token)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
        monkeypatch.setattr(vrldata.hub_client, "ATTEMPTS", 1)
        yield server

"""A tiny model of each family, made once for the session, and clips of one colour."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from vrldata.sampling import SamplingSpec
from vrldata.types import Clip, Sample, VideoMetadata

COLOURS = {"red": (220, 30, 30), "green": (30, 200, 40), "blue": (40, 50, 220), "white": (240, 240, 240)}


def _tiny(tmp_path_factory: pytest.TempPathFactory, family: str, warm_up_steps: int) -> Path:
    from vrltrain.libraries import quiet_libraries
    from vrltrain.tiny_model import make_tiny_model

    quiet_libraries()
    folder = tmp_path_factory.mktemp(family) / "tiny"
    make_tiny_model(folder, family, seed=0, warm_up_steps=warm_up_steps)
    return folder


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Qwen3-VL that knows the form of answers."""
    return _tiny(tmp_path_factory, "qwen3-vl", 60)


@pytest.fixture(scope="session")
def tiny_qwen2_5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Qwen2.5-VL with random weights."""
    return _tiny(tmp_path_factory, "qwen2.5-vl", 0)


@pytest.fixture(scope="session")
def tiny_qwen2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Qwen2-VL with random weights."""
    return _tiny(tmp_path_factory, "qwen2-vl", 0)


def make_clip(
    name: str = "clip.mp4",
    *,
    colour: str = "red",
    num_frames: int = 4,
    height: int = 64,
    width: int = 64,
    kind: str = "video",
    seed: int = 0,
) -> Clip:
    """A clip of one colour with some noise, as if two frames a second were taken from 24."""
    noise = np.random.default_rng(seed).integers(-20, 20, (num_frames, height, width, 3))
    frames = np.clip(np.array(COLOURS[colour]) + noise, 0, 255).astype(np.uint8)
    indices = np.arange(num_frames, dtype=np.int32) * 12
    metadata = VideoMetadata(
        fps=24.0,
        frame_indices=indices,
        timestamps=indices / 24.0,
        duration=num_frames / 2,
        total_num_frames=num_frames * 12,
        height=height,
        width=width,
        source_height=height,
        source_width=width,
        sampled_fps=2.0,
    )
    return Clip(frames=frames, metadata=metadata, video_path=name, spec=SamplingSpec(), kind=kind)


def make_sample(sample_id: str = "s0", *, answer: str = "A", **fields: object) -> Sample:
    """A question about a colour with four options."""
    values: dict[str, object] = {
        "problem": "What colour is the clip?",
        "answer": answer,
        "problem_type": "multiple_choice",
        "options": tuple(COLOURS),
        "data_type": "video",
        **fields,
    }
    return Sample(sample_id=sample_id, **values)  # type: ignore[arg-type]

"""Clips of one colour, questions about it, a dataset of them, and the config of a small exact run."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from vrldata.sampling import SamplingSpec
from vrldata.types import Clip, Sample, VideoMetadata

COLOURS = {"red": (220, 30, 30), "green": (30, 200, 40), "blue": (40, 50, 220), "white": (240, 240, 240)}


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


def write_colour_video(path: Path, colour: str, *, seed: int = 0, seconds: int = 2) -> None:
    """An H.264 clip of one colour with noise, 64 x 64, 8 frames a second."""
    import av

    rng = np.random.default_rng(seed)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=8)
        stream.width = stream.height = 64
        stream.pix_fmt = "yuv420p"
        for _ in range(8 * seconds):
            picture = np.array(COLOURS[colour]) + rng.integers(-15, 15, (64, 64, 3))
            frame = av.VideoFrame.from_ndarray(np.clip(picture, 0, 255).astype(np.uint8), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())


def build_colour_dataset(folder: Path, *, train: int = 16, val: int = 4) -> Path:
    """A dataset of questions whose answer is the colour of the clip; two of them are text alone."""
    import vrldata

    videos = folder / "videos"
    videos.mkdir(parents=True)
    names = list(COLOURS)
    rows: list[dict[str, object]] = []
    for number in range(train + val):
        colour = names[number % len(names)]
        write_colour_video(videos / f"{number}.mp4", colour, seed=number)
        rows.append(
            {
                "problem_id": f"c{number:02d}",
                "problem": "What colour is the clip?",
                "answer": "ABCD"[names.index(colour)],
                "problem_type": "multiple choice",
                "data_type": "video",
                "options": names,
                "videos": [f"{number}.mp4"],
                "split": "train" if number < train else "val",
                "offline_output": f"<answer>{'ABCD'[names.index(colour)]}</answer>",
            }
        )
    dataset = vrldata.create(folder / "data")
    spec = SamplingSpec(fps=2, max_frames=4, max_pixels=64 * 64)
    dataset.build(rows, video_root=videos, spec=spec)
    return folder / "data"


def run_values(dataset: Path, model: Path, run_dir: Path, **changes: object) -> dict[str, object]:
    """Values of a `RunConfig` for a small exact run on the CPU."""
    values: dict[str, object] = {
        "run_dir": str(run_dir),
        "model": {"path": str(model)},
        "data": {"train": str(dataset), "reader": "local"},
        "rollout": {"engine": "transformers", "n": 4, "max_tokens": 8, "max_model_len": 512},
        "optim": {"lr": 1e-3},
        "checkpoint": {"every": 1},
        "steps": 2,
        "prompts_per_step": 4,
    }
    for name, value in changes.items():
        section, _, key = name.partition("__")
        if key:
            values[section] = {**values.get(section, {}), key: value}  # type: ignore[dict-item]
        else:
            values[section] = value
    return values

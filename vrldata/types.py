"""The data that flows through vrl: small frozen records, no IO and no logic beyond their own fields.

Reading and writing them is the work of `store`, `decode` and `dataset`; scoring of `tasks`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

    from vrldata.sampling import SamplingSpec


def spec_text(spec: SamplingSpec) -> str:
    """A sampling spec as Python takes it: what users choose, and whatever else differs from the default."""
    named = {"fps", "max_frames", "max_pixels"}
    values = [(one.name, getattr(spec, one.name), one.default) for one in fields(spec) if one.name != "codec"]
    shown = [f"{name}={value!r}" for name, value, default in values if name in named or value != default]
    return f"SamplingSpec({', '.join(shown)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoMetadata:
    """Where the frames of a clip come from, complete enough that nobody samples or resizes again.

    Attributes:
        fps: frames per second of the source stream (not of the sample).
        frame_indices: int32 (T,), index of each frame in the source stream, counted from 0.
        timestamps: float64 (T,), seconds from the start of the stream.
        duration: seconds of the source stream.
        total_num_frames: frames in the source stream.
        height: pixels, of the stored frames.
        width: pixels, of the stored frames.
        source_height: pixels, of the upright source picture.
        source_width: pixels, of the upright source picture.
        sampled_fps: frames per second of the sample.
    """

    fps: float
    frame_indices: NDArray[np.int32]
    timestamps: NDArray[np.float64]
    duration: float
    total_num_frames: int
    height: int
    width: int
    source_height: int
    source_width: int
    sampled_fps: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """Decoded frames of one video window or image.

    Attributes:
        frames: uint8 (T, H, W, 3), RGB, read-only; a view of the stored bytes where the codec allows.
        metadata: source of the frames.
        video_path: as the annotation names it.
        spec: the sampling spec that the frames answer to.
        kind: `video` or `image` (an image is a clip of one frame).
        warnings: what the decoder had to repair, such as damaged packets that were skipped.
    """

    frames: NDArray[np.uint8]
    metadata: VideoMetadata
    video_path: str
    spec: SamplingSpec
    kind: str = "video"
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """One line without the pixels."""
        shape = " x ".join(map(str, self.frames.shape))
        of = f", of {self.metadata.duration:.2f} s" if self.kind == "video" else ""
        return f"Clip({self.video_path!r}, {shape} {self.frames.dtype}{of}, {spec_text(self.spec)})"

    @property
    def clip_id(self) -> str:
        """Hex digest of the key (video_path, spec)."""
        return self.spec.clip_id(self.video_path)

    def to_torch(self) -> torch.Tensor:
        """uint8 (T, 3, H, W), a view of `frames` without a copy. Never write to it."""
        import warnings

        import torch

        with warnings.catch_warnings():
            # torch warns that the array is read-only; that is the point of the mapping
            warnings.simplefilter("ignore", UserWarning)
            return torch.from_numpy(self.frames).permute(0, 3, 1, 2)

    def as_vllm(self) -> Any:
        """What vLLM takes as one item of `multi_modal_data`, without a copy.

        A video gives `(frames, metadata)` with sampling switched off; an image gives a PIL image (one copy).
        Send `mm_processor_kwargs={"do_sample_frames": False, "do_resize": False}` along.
        """
        if self.kind == "image":
            from PIL import Image

            return Image.fromarray(self.frames[0])
        return self.frames, {**self._metadata_fields(), "do_sample_frames": False}

    def as_hf(self) -> Any:
        """What a transformers processor takes, `(frames, metadata)`, without a copy.

        Pass them as `videos=` and `video_metadata=`, with `do_sample_frames=False, do_resize=False`.
        An image gives a PIL image (one copy).
        """
        if self.kind == "image":
            from PIL import Image

            return Image.fromarray(self.frames[0])
        return self.frames, self._metadata_fields()

    def _metadata_fields(self) -> dict[str, Any]:
        return {
            "fps": float(self.metadata.fps),
            "frames_indices": [int(index) for index in self.metadata.frame_indices],
            "total_num_frames": int(self.metadata.total_num_frames),
            "duration": float(self.metadata.duration),
            "height": int(self.metadata.height),
            "width": int(self.metadata.width),
            "video_backend": "pyav",
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One question. Fields are the columns of the `samples` table; None where the table holds null."""

    sample_id: str
    problem: str
    answer: str
    problem_type: str
    split: str = "train"
    data_type: str = "text"
    options: tuple[str, ...] = ()
    videos: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    start: float | None = None
    end: float | None = None
    clip_ids: tuple[str, ...] = ()
    pass_rate: float | None = None
    data_source: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """One stored model response. Fields are the columns of the `trajectories` table.

    Attributes:
        source: `offline`, `rollout`, `eval` or `sft`.
        rewards: each component by name.
        reward: the overall reward; None when the response was not scored.
        correct: None when nothing could be scored.
        token_ids: response tokens, EOS included; None when only the text is known.
        log_probs: natural log-probability of each token under the policy that wrote it; None when unknown.
    """

    trajectory_id: str
    sample_id: str
    response: str
    source: str
    model: str = ""
    run_id: str = ""
    step: int = 0
    policy_version: int = 0
    rewards: Mapping[str, float] = field(default_factory=dict)
    reward: float | None = None
    correct: bool | None = None
    status: str = ""
    num_tokens: int = 0
    finish_reason: str = ""
    token_ids: tuple[int, ...] | None = None
    log_probs: tuple[float, ...] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The score of one response.

    Attributes:
        accuracy: 0 to 1; None where nothing could be scored, such as an unreadable gold answer.
        format: 0, 0.5 or 1, how well the response keeps to the requested form.
        overall: weighted sum; None where accuracy is None.
        status: `ok`, or why there is no plain score (protocol dependent).
        extracted: the answer that was found, for logs.
        how: the rule that found the answer, such as `tag` or `boxed`.
        parts: further figures by name, such as `iou`.
        reason: one line where status is not `ok`, or where an unknown problem type was scored as open_ended.
        strict: accuracy under the strict reading (answer tag only), reported beside a tolerant one.
    """

    accuracy: float | None
    format: float
    overall: float | None
    status: str
    extracted: str = ""
    how: str = ""
    parts: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""
    strict: float | None = None

    @property
    def valid(self) -> bool:
        """False where the row must be masked out of its group."""
        return self.accuracy is not None

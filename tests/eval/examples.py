"""Small real objects for the tests of vrleval: clips, questions, predictions, and an engine with a script."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import numpy as np

from vrldata.errors import DecodeError
from vrldata.sampling import SamplingSpec
from vrldata.types import Clip, Sample, VideoMetadata
from vrleval.engines.types import Request, Response
from vrleval.keys import question_key
from vrleval.types import Prediction, Question

OPTIONS = ("A. red bucket", "B. green ladder", "C. blue kite", "D. grey boat")


def make_clip(
    video_path: str = "a.mp4", *, frames: int = 4, height: int = 64, width: int = 96, kind: str = "video"
) -> Clip:
    """A clip of noise at 24 frames per second, every twelfth frame taken."""
    spec = SamplingSpec(min_pixels=1024)
    generator = np.random.default_rng(len(video_path))
    if kind == "image":
        frames, spec = 1, spec.for_image()
    pixels = generator.integers(0, 255, (frames, height, width, 3), dtype=np.uint8)
    pixels.flags.writeable = False
    indices = np.arange(frames, dtype=np.int32) * 12
    return Clip(
        frames=pixels,
        metadata=VideoMetadata(
            fps=24.0,
            frame_indices=indices,
            timestamps=indices / 24.0,
            duration=frames / 2,
            total_num_frames=frames * 12,
            height=height,
            width=width,
            source_height=2 * height,
            source_width=2 * width,
            sampled_fps=2.0,
        ),
        video_path=video_path,
        spec=spec,
        kind=kind,
    )


def make_question(
    row: int,
    *,
    video: str = "a.mp4",
    benchmark: str = "demo",
    unit: str = "",
    trouble: str = "",
    **values: object,
) -> Question:
    """A multiple-choice question whose answer is B."""
    fields: dict[str, object] = {
        "sample_id": f"q{row}",
        "problem": f"What is carried in scene {row}?",
        "answer": "B",
        "problem_type": "multiple_choice",
        "options": OPTIONS,
        "videos": (video,) if video else (),
        "data_type": "video" if video else "text",
        **values,
    }
    sample = Sample(**fields)  # type: ignore[arg-type]
    return Question(
        key=question_key(benchmark, row, sample),
        benchmark=benchmark,
        sample=sample,
        unit=unit,
        problem=trouble,
    )


def make_prediction(
    name: str, score: float | None, *, status: str = "scored", **values: object
) -> Prediction:
    """A prediction with its own key and video."""
    fields: dict[str, object] = {
        "key": name,
        "benchmark": "demo",
        "sample_id": name,
        "config": "c",
        "status": status,
        "score": score,
        "strict": score,
        "video": f"{name}.mp4",
        **values,
    }
    return Prediction(**fields)  # type: ignore[arg-type]


class MemoryClips:
    """Clips made on the spot; paths that start with `broken` cannot be decoded."""

    def __init__(self) -> None:
        self.loaded: list[str] = []

    def prepare(self, questions: Sequence[Question]) -> None:
        return

    def load(self, question: Question) -> tuple[Clip, ...]:
        for path in question.sample.videos:
            if path.startswith("broken"):
                raise DecodeError(f"{path}: no video stream")
            self.loaded.append(path)
        return tuple(make_clip(path) for path in question.sample.videos)

    def most_tokens(self) -> int:
        return 64


class ScriptedEngine:
    """Answers by a function of the request; stands for an engine where its model does not matter."""

    def __init__(self, answer: Callable[[Request], Response | Exception], *, delay: float = 0.0) -> None:
        self._answer = answer
        self._delay = delay
        self.requests: list[Request] = []
        self.running = self.most_running = 0
        self.closed = False

    async def start(self) -> None:
        return

    async def ask(self, request: Request) -> Response:
        self.requests.append(request)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        await asyncio.sleep(self._delay)
        self.running -= 1
        answer = self._answer(request)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def versions(self) -> dict[str, object]:
        return {"scripted": "1"}

    async def close(self) -> None:
        self.closed = True


def says(text: str, finish_reason: str = "stop") -> Response:
    """A response with this text."""
    return Response(text=text, finish_reason=finish_reason, num_tokens=len(text.split()))

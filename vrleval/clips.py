"""Where the frames of questions come from: a dataset as it is, or a cache that is filled as needed."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from vrldata.errors import StoreError
from vrldata.sampling import DEFAULT_TOTAL_CELLS, IMAGE_MAX_CELLS, MAX_CELLS_PER_FRAME, SamplingSpec
from vrldata.types import Clip
from vrleval.types import Question

if TYPE_CHECKING:
    from vrldata.dataset import Dataset

TOKENS_PER_STEP = 16
"""Room for one timestamp and the markers around a step of frames."""


class ClipSource(Protocol):
    """Gives the clips of questions; all methods block and are called in threads."""

    def prepare(self, questions: Sequence[Question]) -> None:
        """Make what is missing, for many questions at once. Failures show when a clip is loaded."""

    def load(self, question: Question) -> tuple[Clip, ...]:
        """The clips of a question: videos, then images.

        Raises:
            DecodeError: the source cannot be decoded. StoreError: the store has no such clip.
        """

    def most_tokens(self) -> int:
        """Upper bound of the prompt tokens that the clips of one question take."""


class DatasetClips:
    """Clips that a dataset holds already; nothing is decoded."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset

    def prepare(self, questions: Sequence[Question]) -> None:
        return

    def load(self, question: Question) -> tuple[Clip, ...]:
        return tuple(self._dataset.clips_of(question.sample))

    def most_tokens(self) -> int:
        rows = self._dataset.lance("frames").to_table(columns=["num_frames", "height", "width", "spec"])
        return max((_tokens_of_row(row) for row in rows.to_pylist()), default=0)


def _tokens_of_row(row: dict[str, object]) -> int:
    spec = SamplingSpec.from_json(str(row["spec"]))
    steps = -(-int(str(row["num_frames"])) // spec.frame_multiple)
    cells = (int(str(row["height"])) // spec.size_multiple) * (int(str(row["width"])) // spec.size_multiple)
    return steps * (cells + TOKENS_PER_STEP)


class CacheClips:
    """Clips of benchmark videos in a dataset that is filled where rows are missing.

    The questions become samples of the dataset (split: the benchmark, id: the question's key), so that SQL
    and trajectories can join them.
    """

    def __init__(
        self, cache: str, video_root: Path, spec: SamplingSpec, *, workers: int | None, retry_failed: bool
    ) -> None:
        self._cache = cache
        self._video_root = video_root
        self._spec = spec
        self._workers = workers
        self._retry_failed = retry_failed
        self._dataset: Dataset | None = None

    def prepare(self, questions: Sequence[Question]) -> None:
        import vrldata

        if self._dataset is None:
            self._dataset = vrldata.create(Path(self._cache).expanduser())
        asked = [question for question in questions if question.sample.videos or question.sample.images]
        if asked:
            # the build itself finds what is there already, and which sources have changed since
            self._dataset.build(
                [_row(question) for question in asked],
                video_root=self._video_root,
                spec=self._spec,
                workers=self._workers,
                retry_failed=self._retry_failed,
            )

    def load(self, question: Question) -> tuple[Clip, ...]:
        sample = question.sample
        if self._dataset is None:
            raise StoreError("the clips of this question were not prepared")
        spec = dataclasses.replace(self._spec, start=sample.start, end=sample.end)
        clips = [self._dataset.clip(path, spec) for path in sample.videos]
        clips += [self._dataset.clip(path, self._spec.for_image()) for path in sample.images]
        return tuple(clips)

    def most_tokens(self) -> int:
        return spec_tokens(self._spec) + IMAGE_MAX_CELLS


def spec_tokens(spec: SamplingSpec) -> int:
    """Upper bound of the prompt tokens of one video under a spec, time stamps included."""
    cell = spec.size_multiple**2
    steps = spec.max_frames // spec.frame_multiple
    per_step = min(spec.max_pixels, MAX_CELLS_PER_FRAME * cell) / cell
    total = spec.total_pixels or DEFAULT_TOTAL_CELLS * cell
    floor = 1.05 * spec.min_pixels / cell
    cells = steps * min(per_step, max(total / cell / max(steps, 1), floor))
    return math.ceil(cells) + steps * TOKENS_PER_STEP


def _row(question: Question) -> dict[str, Any]:
    """The question as an annotation row of `vrldata build`."""
    sample = question.sample
    row: dict[str, Any] = {
        "problem_id": question.key,
        "problem": sample.problem,
        "answer": sample.answer,
        "problem_type": sample.problem_type,
        "data_type": sample.data_type,
        "options": list(sample.options),
        "videos": list(sample.videos),
        "images": list(sample.images),
        "split": question.benchmark,
        "data_source": question.benchmark,
        "question_id": sample.sample_id,
    }
    if sample.start is not None:
        row["start"] = sample.start
    if sample.end is not None:
        row["end"] = sample.end
    return row

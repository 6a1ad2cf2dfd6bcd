"""Where the frames of questions come from: a dataset as it is, or a cache that is filled as needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

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
    from vrldata.sampling import SamplingSpec

    spec = SamplingSpec.from_json(str(row["spec"]))
    steps = -(-int(str(row["num_frames"])) // spec.frame_multiple)
    cells = (int(str(row["height"])) // spec.size_multiple) * (int(str(row["width"])) // spec.size_multiple)
    return steps * (cells + TOKENS_PER_STEP)

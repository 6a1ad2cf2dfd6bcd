"""Samples of a build: which are complete, and which rows of `samples` have to be written."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from vrldata.commits import merge_rows, sql_text
from vrldata.sampling import normalise_video_path
from vrldata.tables import row_to_sample, sample_to_row

if TYPE_CHECKING:
    from vrldata.build_plan import Medium
    from vrldata.dataset import Dataset
    from vrldata.types import Sample

ROWS_PER_COMMIT = 50_000


class SampleTracker:
    """Waits for the media of samples and gives back the samples whose media are all settled.

    Args:
        samples: of the build, distinct by id.
        media: of each sample, videos then images.
        shared: `clip_id` of a medium to that of another one of the build with the same content.
    """

    def __init__(
        self, samples: Sequence[Sample], media: Sequence[Sequence[Medium]], shared: Mapping[str, str]
    ) -> None:
        self._samples = samples
        self._clip_ids = [tuple(medium.clip_id for medium in own) for own in media]
        self._holders: dict[str, str | None] = {}
        self._sharing: dict[str, list[str]] = {}
        for clip_id, holder in shared.items():
            self._sharing.setdefault(holder, []).append(clip_id)
        self._waiting: dict[str, list[int]] = {}
        self._missing = [len(set(own)) for own in self._clip_ids]
        self._complete = [position for position, missing in enumerate(self._missing) if not missing]
        for position, own in enumerate(self._clip_ids):
            for clip_id in set(own):
                self._waiting.setdefault(clip_id, []).append(position)

    def settle(self, clip_id: str, holder: str | None) -> list[str]:
        """The frames of a medium lie in row `holder`, or nowhere; the ids settled by it, shared ones too."""
        settled = [clip_id, *self._sharing.pop(clip_id, ())]
        for one in settled:
            self._holders[one] = holder
            for position in self._waiting.pop(one, ()):
                self._missing[position] -= 1
                if not self._missing[position]:
                    self._complete.append(position)
        return settled

    def take_complete(self) -> list[Sample]:
        """Samples that became complete since the last call, with their `clip_ids`; none where one failed."""
        complete, self._complete = self._complete, []
        taken = []
        for position in sorted(complete):
            holders = [self._holders[clip_id] for clip_id in self._clip_ids[position]]
            clip_ids = tuple(holder for holder in holders if holder is not None)
            if len(clip_ids) != len(holders):
                clip_ids = ()
            taken.append(dataclasses.replace(self._samples[position], clip_ids=clip_ids))
        return taken


class SampleRows:
    """Rows of `samples` as they were when the build began, to write only what differs.

    Attributes:
        updated: ids of rows that were there and now ask something else, or of other media.
    """

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._rows: dict[str, tuple[bytes, float | None, bytes]] = {}
        self.updated: list[str] = []
        for batch in dataset.open_table("samples").to_batches(batch_size=1024):
            for row in batch.to_pylist():
                self._rows[row["sample_id"]] = (_digest(row), row["pass_rate"], _question_digest(row))

    def __iter__(self) -> Iterator[str]:
        """Ids of all rows."""
        return iter(self._rows)

    def write(self, samples: Iterable[Sample]) -> int:
        """Commit those of `samples` that are new or differ; their number.

        A pass rate that the annotation does not give is kept: it was measured.
        """
        rows = []
        for sample in samples:
            row = sample_to_row(sample)
            old_digest, old_rate, old_question = self._rows.get(sample.sample_id, (b"", None, b""))
            if row["pass_rate"] is None:
                row["pass_rate"] = old_rate
            if _digest(row) != old_digest:
                rows.append(row)
                question = _question_digest(row)
                if old_question and question != old_question:
                    self.updated.append(sample.sample_id)
                self._rows[sample.sample_id] = (_digest(row), row["pass_rate"], question)
        for start in range(0, len(rows), ROWS_PER_COMMIT):
            merge_rows(self._dataset, "samples", rows[start : start + ROWS_PER_COMMIT], update=True)
        return len(rows)


def samples_that_left(rows: Iterable[str], built: set[str], names: set[str]) -> list[str]:
    """Ids among `rows` that begin with one of `names`, as those of a file do, and are not `built`."""
    return sorted(one for one in rows if one not in built and one.partition("/")[0] in names)


def samples_that_use(dataset: Dataset, paths: Mapping[str, str], built: set[str]) -> list[str]:
    """Ids of samples outside this build that use one of these rows of `frames` for the path of the row.

    Args:
        paths: `video_path` by `clip_id`.
    """
    if not paths:
        return []
    found = []
    columns = ["sample_id", "videos", "images", "clip_ids"]
    for batch in dataset.open_table("samples").to_batches(columns=columns):
        for row in batch.to_pylist():
            media = zip(row["clip_ids"] or (), [*row["videos"], *row["images"]], strict=False)
            uses = any(paths.get(clip_id) == normalise_video_path(path) for clip_id, path in media)
            if uses and row["sample_id"] not in built:
                found.append(row["sample_id"])
    return sorted(found)


def samples_that_share(dataset: Dataset, clip_id: str, own_path: str, built: set[str]) -> list[Sample]:
    """Samples outside this build that use the row `clip_id` for another path of theirs."""
    rows = dataset.open_table("samples").to_table(filter=f"array_has(clip_ids, {sql_text(clip_id)})")
    found = []
    for row in rows.to_pylist():
        sample = row_to_sample(row)
        media = [*sample.videos, *sample.images]
        uses = any(
            own == clip_id and path != own_path for path, own in zip(media, sample.clip_ids, strict=False)
        )
        if uses and sample.sample_id not in built:
            found.append(sample)
    return found


QUESTION_COLUMNS = ("problem", "answer", "problem_type", "options", "videos", "images", "start", "end")


def _question_digest(row: Mapping[str, Any]) -> bytes:
    """Over what a sample asks, and of what."""
    values = [row[name] if row[name] != [] else None for name in QUESTION_COLUMNS]
    text = json.dumps(values, default=str, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]


def _digest(row: Mapping[str, Any]) -> bytes:
    values = {name: value for name, value in row.items() if name != "pass_rate"}
    # the column holds float32
    rate = None if row["pass_rate"] is None else struct.pack("<f", row["pass_rate"]).hex()
    text = json.dumps([values, rate], sort_keys=True, default=str, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]

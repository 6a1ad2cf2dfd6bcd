"""Questions to ask: from a vrldata dataset, or from a benchmark's annotation files under the data root."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vrldata.errors import BenchmarkError, TaskError
from vrldata.tasks.registry import resolved_sample, unknown_text
from vrldata.uri import DatasetUri
from vrleval.clips import ClipSource, DatasetClips
from vrleval.keys import question_key
from vrleval.rows import SKIPPED
from vrleval.types import Benchmark, Question

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """One benchmark, its questions, and where their clips come from.

    Attributes:
        provenance: what the manifest records: files and digests, or dataset URI, release and digest.
        rejected: rows that are no question, each with file, row and reason.
    """

    benchmark: Benchmark
    questions: tuple[Question, ...]
    clips: ClipSource
    provenance: Mapping[str, Any] = field(default_factory=dict)
    rejected: tuple[Mapping[str, Any], ...] = ()


def load_dataset(uri: str, on_unknown_type: str = "error") -> Loaded:
    """The samples of a dataset, as its URI selects them; the benchmark is named by the dataset.

    Args:
        on_unknown_type: of samples whose problem type is unknown.

    Raises:
        UriError: no such dataset or release. BenchmarkError: the URI selects no sample, or a problem type is
            unknown and the policy is `error`.
    """
    import vrldata

    dataset = vrldata.open(uri)
    parsed = DatasetUri.parse(uri)
    name = Path(parsed.location.rstrip("/")).name or "dataset"
    questions = []
    rejected: list[Mapping[str, Any]] = []
    for row, given in enumerate(dataset.iter_samples()):
        try:
            sample = resolved_sample(given, on_unknown_type)
        except TaskError as error:
            raise BenchmarkError(
                f"{uri}: sample {given.sample_id}: {error} Or choose --on-unknown-type open_ended or skip"
            ) from error
        if sample is None:
            reason = f"{SKIPPED}: {unknown_text(given.problem_type)}"
            rejected.append({"benchmark": name, "file": uri, "row": given.sample_id, "reason": reason})
            continue
        groups = {
            "data_source": sample.data_source,
            "data_type": sample.data_type,
            **{name: str(value) for name, value in sample.extra.items() if isinstance(value, str | int)},
        }
        questions.append(
            Question(key=question_key(name, row, sample), benchmark=name, sample=sample, groups=groups)
        )
    if rejected and not questions:
        raise BenchmarkError(
            f"{uri}: --on-unknown-type skip leaves nothing: the types of all its {len(rejected)} samples are "
            f"unknown, such as: {rejected[0]['reason']}"
        )
    if not questions:
        raise BenchmarkError(f"{uri}: selects no sample; check split and filter (`vrldata info` lists them)")
    benchmark = Benchmark(
        name=name,
        title=name,
        description="a vrldata dataset",
        metric="score",
        groups=("data_source", "data_type"),
        source=str(uri),
    )
    return Loaded(
        benchmark=benchmark,
        questions=tuple(questions),
        clips=DatasetClips(dataset),
        provenance=_provenance(dataset, str(uri)),
        rejected=tuple(rejected),
    )


def _provenance(dataset: Any, uri: str) -> dict[str, Any]:
    found: dict[str, Any] = {"uri": uri, "release": dataset.release}
    if dataset.release is not None:
        rows = dataset.releases.to_table(columns=["name", "digest"]).to_pylist()
        found["digest"] = next((row["digest"] for row in rows if row["name"] == dataset.release), None)
    return found

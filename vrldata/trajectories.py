"""Storing responses, and importing them from files, scored where they carry no reward.

Reading files is the work of `trajectory_files` and `trajectory_rows`, committing of `commits`, scoring of
`trajectory_scores`; pass rates and the best responses are in `pass_rates`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrldata.annotation_faults import FileFault, Rejection, RowFault, file_rejection, row_rejection
from vrldata.errors import AnnotationError, nearest
from vrldata.location import check_whole
from vrldata.log import progress
from vrldata.trajectory_files import read_rows
from vrldata.trajectory_rows import (
    SOURCES,
    ImportDefaults,
    own_names,
    read_trajectories,
    trajectory_from_fields,
)
from vrldata.types import Sample, Trajectory

if TYPE_CHECKING:
    from vrldata.dataset import Dataset

logger = logging.getLogger(__name__)

ROWS_A_COMMIT = 20_000
REJECTED_FILE = "rejected-trajectories.jsonl"

_ScoreAll = Callable[[Sequence[Trajectory]], list[Trajectory]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """What an import did.

    Attributes:
        read: responses that could be read.
        added: of these, new to the dataset.
        scored: of the new ones, given a reward here.
        unscored: of the new ones, left without `correct` because they cannot be scored.
        given: of the new ones, with a reward of their own, which stays.
        rejected: rows that could not be used, in the order of the files.
        rejected_file: where they are listed; None when there are none.
    """

    read: int
    added: int
    scored: int
    unscored: int
    given: int = 0
    rejected: tuple[Rejection, ...] = ()
    rejected_file: str | None = None


@dataclass(slots=True)
class _Counts:
    read: int = 0
    added: int = 0
    scored: int = 0
    unscored: int = 0
    given: int = 0
    rejected: list[Rejection] = field(default_factory=list)


def add_trajectories(dataset: Dataset, trajectories: Iterable[Trajectory | Mapping[str, Any]]) -> int:
    """Store `trajectories` in one commit; how many were new. See `Dataset.add_trajectories`.

    Raises:
        AnnotationError: a mapping is no trajectory; nothing is stored then. StoreError: the dataset cannot be
            written.
    """
    from vrldata.commits import maintain_indexes, merge_rows
    from vrldata.tables import now, trajectory_to_row, with_trajectory_ids

    moment = now()
    rows = [trajectory_to_row(one, created_at=moment) for one in with_trajectory_ids(_given(trajectories))]
    if not rows:
        return 0
    inserted = merge_rows(dataset, "trajectories", rows).inserted
    maintain_indexes(dataset, "trajectories")
    return inserted


def _given(trajectories: Iterable[Trajectory | Mapping[str, Any]]) -> Iterator[Trajectory]:
    if isinstance(trajectories, Trajectory | Mapping | str):
        raise AnnotationError(f"expected a list of trajectories, got one {type(trajectories).__name__}")
    for index, one in enumerate(trajectories):
        yield one if isinstance(one, Trajectory) else trajectory_from_fields(one, f"trajectory {index}")


def import_trajectories(
    dataset: Dataset,
    files: Sequence[str | Path],
    *,
    source: str = "offline",
    model: str = "",
    run_id: str = "",
    protocol: str = "train",
    correct_from: float | None = None,
) -> ImportReport:
    """Add the responses of JSON, JSON Lines, Parquet and CSV files; those without a reward are scored.

    A reward that a row gives stays; `correct`, which pass rates count by, is scored where it can be.

    Rows name their sample by `sample_id`, or by the id that its annotation had where that is unique, and hold
    one response or a list. Importing the same file twice adds nothing.

    Args:
        source: of rows that name none; `model` and `run_id` likewise.
        protocol: rules of scoring, see `tasks.PROTOCOLS`.
        correct_from: accuracy from which a response scored here is `correct`; by default 1.0 for problem
            types whose accuracy is 0 or 1, and 0.5 for graded ones.

    Raises:
        AnnotationError: a file does not exist, or `source` or `protocol` is unknown. ConfigError:
            `correct_from` is not above 0 and up to 1. StoreError: the dataset is read-only.
    """
    from vrldata.commits import writable
    from vrldata.tasks.protocols import PROTOCOLS
    from vrldata.trajectory_scores import check_correct_from, score_trajectories

    check_whole(dataset.uri, "add-trajectories")
    check_correct_from(correct_from)
    for name, value, known in (("source", source, SOURCES), ("protocol", protocol, tuple(PROTOCOLS))):
        if value not in known:
            raise AnnotationError(
                f"{name} {value!r}: expected one of {', '.join(known)}.{nearest(value, known)}"
            )
    writable(dataset, "trajectories")
    paths = [Path(file).expanduser() for file in files]
    for path in paths:
        if not path.is_file():
            raise AnnotationError(f"{path}: no such file")
    samples = {sample.sample_id: sample for sample in dataset.iter_samples()}
    names = own_names(samples)
    defaults = ImportDefaults(source=source, model=model, run_id=run_id)
    score = partial(score_trajectories, samples=samples, protocol=protocol, correct_from=correct_from)
    counts = _Counts()
    for path in paths:
        _import_file(dataset, path, samples, names, defaults, score, counts)
    return ImportReport(
        read=counts.read,
        added=counts.added,
        scored=counts.scored,
        unscored=counts.unscored,
        given=counts.given,
        rejected=tuple(counts.rejected),
        rejected_file=_write_rejections(dataset, counts.rejected),
    )


def _import_file(
    dataset: Dataset,
    path: Path,
    samples: Mapping[str, Sample],
    names: Mapping[str, str | None],
    defaults: ImportDefaults,
    score: _ScoreAll,
    counts: _Counts,
) -> None:
    from vrldata.tables import with_trajectory_ids

    found: list[Trajectory] = []
    rejected: list[Rejection] = []
    try:
        for raw in read_rows(path):
            try:
                found += read_trajectories(raw, samples, names, defaults)
            except RowFault as fault:
                rejected.append(row_rejection(fault, str(path), raw.line, raw.row))
    except FileFault as fault:
        # what was read of a file that turns out to be broken is not trusted
        counts.rejected.append(file_rejection(fault, str(path)))
        return
    counts.rejected += rejected
    counts.read += len(found)
    # ids first, over the whole file: they count places in groups, which batches must not cut
    identified = with_trajectory_ids(found)
    with progress(f"add {path.name}", total=len(identified), unit="responses") as bar:
        for start in range(0, len(identified), ROWS_A_COMMIT):
            batch = identified[start : start + ROWS_A_COMMIT]
            _add(dataset, batch, score, counts)
            bar.advance(len(batch))


def _add(dataset: Dataset, batch: Sequence[Trajectory], score: _ScoreAll, counts: _Counts) -> None:
    fresh = _unknown(dataset, batch)
    scored = score(fresh)
    counts.added += dataset.add_trajectories(scored)
    for before, after in zip(fresh, scored, strict=True):
        counts.given += before.reward is not None
        counts.scored += before.reward is None and after.reward is not None
        counts.unscored += after.correct is None


def _unknown(dataset: Dataset, batch: Sequence[Trajectory]) -> list[Trajectory]:
    """Those of `batch` that the dataset does not hold: scoring a response again would be for nothing."""
    from vrldata.commits import sql_text

    stored: set[str] = set()
    table = dataset.open_table("trajectories")
    if table.count_rows() == 0:
        return list(batch)
    for start in range(0, len(batch), 500):
        listed = ", ".join(sql_text(one.trajectory_id) for one in batch[start : start + 500])
        rows = table.to_table(columns=["trajectory_id"], filter=f"trajectory_id IN ({listed})")
        stored.update(rows.column("trajectory_id").to_pylist())
    return [one for one in batch if one.trajectory_id not in stored]


def _write_rejections(dataset: Dataset, rejected: Sequence[Rejection]) -> str | None:
    """List rejections in the root, or in the working folder for a remote one; its path."""
    from vrldata.annotation_faults import write_rejected

    target = (Path(dataset.root) if dataset.is_local else Path.cwd()) / REJECTED_FILE
    if not rejected:
        return None
    write_rejected(target, rejected)
    return str(target)

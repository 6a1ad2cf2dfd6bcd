"""Annotation files to samples, offline responses and rejections: `read_annotations`.

A bad row costs only itself, a bad file only its rows; each is recorded with its place and its reason.
Opening formats is the work of `annotation_files`, the checks of one row of `annotation_rows`.
"""

from __future__ import annotations

import glob
import hashlib
import json
import logging
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from vrldata.annotation_faults import (
    FileFault,
    Notice,
    RawRow,
    Rejection,
    RowFault,
    file_name,
    file_rejection,
    located,
    row_rejection,
    split_name,
)
from vrldata.annotation_fields import FieldNames
from vrldata.annotation_files import is_annotation_name, read_rows
from vrldata.annotation_media import MediaRoot
from vrldata.annotation_objects import Sources, listed_sources, object_rows
from vrldata.annotation_offline import Offline, no_trajectory
from vrldata.annotation_rows import SKIPPED, RowSettings, read_sample, stored_id
from vrldata.counts import counted
from vrldata.errors import AnnotationError, TaskError
from vrldata.tasks.registry import ORIGINAL_TYPE, check_policy
from vrldata.types import Sample

logger = logging.getLogger(__name__)

ROWS = "<rows>"
"""What stands for the file where rows are given as objects."""

ROWS_A_LOG_LINE = 100_000

MAX_NOTICES_A_REASON = 20
"""Notices of one reason that a file may give; the last one says that there are more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineResponse:
    """A response that an annotation row carries.

    Attributes:
        log_probs: natural log-probability of each token under the policy that wrote it; None when unknown.
        reward: as the data gives it; None when the response is still to be scored.
    """

    sample_id: str
    response: str
    log_probs: tuple[float, ...] | None = None
    reward: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotations:
    """What the sources hold, in their order.

    Attributes:
        names: of the files that were read, with which the ids of their rows begin.
        unknown_types: rows by the spelling of a type that `on_unknown_type` read as `open_ended` or skipped.
    """

    samples: list[Sample] = field(default_factory=list)
    offline: list[OfflineResponse] = field(default_factory=list)
    rejected: list[Rejection] = field(default_factory=list)
    warnings: list[Notice] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    unknown_types: Counter[str] = field(default_factory=Counter)

    def summary(self, *, shown: int = 20) -> str:
        """Loaded and rejected counts by reason, with the first `shown` messages, a line each."""
        if not self.rejected:
            return f"{counted(len(self.samples), 'row')} loaded"
        counts = Counter(rejection.reason for rejection in self.rejected)
        reasons = ", ".join(f"{reason} {count}" for reason, count in counts.most_common())
        lines = [f"{counted(len(self.samples), 'row')} loaded, {len(self.rejected)} rejected ({reasons})"]
        lines += [rejection.message for rejection in self.rejected[:shown]]
        if len(self.rejected) > shown:
            lines.append(f"… and {len(self.rejected) - shown} more")
        return "\n".join(lines)


def read_annotations(
    sources: Sources,
    *,
    field_map: Mapping[str, str] | None = None,
    video_root: str | Path | None = None,
    dataset_name: str | None = None,
    default_split: str = "train",
    check_media: bool = False,
    require_trajectories: bool | None = None,
    on_unknown_type: str = "error",
) -> Annotations:
    """Read annotation files, folders, globs, data sets of the `datasets` library, and rows given as objects.

    Args:
        sources: paths and patterns of JSON, JSON Lines, CSV and Parquet files, each also in gzip or zstd;
            folders of them or of a saved data set; `org/name` of one on the Hub; rows as mappings. One of
            these, or any number.
        field_map: field to column, for columns that no accepted name covers.
        video_root: media paths are relative to it and must stay inside. None: relative to the annotation
            file, and inside its parent folder.
        dataset_name: makes the rows' own ids unique; by default the file's name without its endings.
        default_split: split of rows that name none.
        check_media: also reject rows whose media files do not exist, or whose time span lies past the end.
        require_trajectories: whether a row without an offline response is rejected unless it says
            `has_offline_trajectory: false`. None: only in files where at least half of the rows have one.
        on_unknown_type: a row whose problem type is unknown is rejected with the nearest name (`error`), read
            as `open_ended` with its spelling in `extra["original_problem_type"]`, or left out (`skip`) and
            recorded as `skipped_problem_type`. One that names no type at all is always rejected.

    Raises:
        AnnotationError: a source does not exist, or `field_map` names an unknown field.
    """
    try:
        check_policy("on_unknown_type", on_unknown_type)
    except TaskError as error:
        raise AnnotationError(str(error)) from error
    reader = _Reader(
        names=FieldNames(field_map),
        video_root=video_root,
        dataset_name=dataset_name,
        default_split=default_split,
        check_media=check_media,
        require_trajectories=require_trajectories,
        on_unknown_type=on_unknown_type,
    )
    listed = listed_sources(sources)
    given_rows = [source for source in listed if isinstance(source, Mapping)]
    for source in listed:
        if not isinstance(source, Mapping):
            _read_source(reader, source)
    if given_rows:
        reader.read(ROWS, "rows", Path.cwd(), object_rows(given_rows))
    return reader.found


def _read_source(reader: _Reader, source: str | Path) -> None:
    from vrldata.annotation_tables import dataset_rows, hub_name, is_saved_dataset, load_splits

    if not isinstance(source, str | os.PathLike):
        raise AnnotationError(
            f"{source!r}: expected a path of an annotation file, or a row as a mapping of field to value"
        )
    if not str(source).strip():
        raise AnnotationError(f"annotation path {str(source)!r} is empty: name a file, a folder or a pattern")
    path = Path(source).expanduser()
    if path.is_dir() and is_saved_dataset(path):
        _read_splits(reader, str(source), path.name, path, load_splits(path), dataset_rows)
    elif path.is_dir():
        try:
            files = sorted(file for file in path.rglob("*") if is_annotation_name(file) and file.is_file())
        except OSError as error:
            raise AnnotationError(f"{source}: cannot be searched: {error}") from error
        if not files:
            raise AnnotationError(f"{source}: the folder holds no .json, .jsonl, .csv or .parquet file")
        for file in files:
            _read_file(reader, file)
    elif os.path.lexists(path):
        _read_file(reader, path, str(source))
    elif glob.has_magic(str(path)):
        matches = sorted(glob.glob(str(path), recursive=True))
        if not matches:
            raise AnnotationError(f"{source}: no file matches this pattern")
        for match in matches:
            _read_source(reader, match)
    elif isinstance(source, str) and hub_name(source) and not is_annotation_name(path):
        name = (hub_name(source) or (source, None))[0]
        _read_splits(reader, source, name.split("/")[1], Path.cwd(), load_splits(source), dataset_rows)
    else:
        raise AnnotationError(f"{source}: no such file or folder")


def _read_splits(
    reader: _Reader, label: str, name: str, folder: Path, splits: Mapping[str | None, Any], rows_of: Any
) -> None:
    for split, data in splits.items():
        place = label if split is None else f"{label}[{split}]"
        rows = rows_of(data, reader.names)
        reader.read(place, name if split is None else split_name(name, split), folder, rows, split=split)


def _read_file(reader: _Reader, path: Path, label: str | None = None) -> None:
    label = label or str(path)
    if not path.is_file():
        raise AnnotationError(f"{label}: not a regular file")

    def notify(reason: str, text: str, line: int | None) -> None:
        reader.notice(label, line, None, None, reason, text)

    reader.read(label, file_name(path), path.parent, read_rows(path, notify, reader.names))


@dataclass(slots=True)
class _Pending:
    """A row that has passed its own checks."""

    line: int | None
    row: int | None
    sample: Sample
    offline: Offline
    stored_id: str


class _Reader:
    """Collects the rows of all sources; knows the ids that are taken."""

    def __init__(
        self,
        *,
        names: FieldNames,
        video_root: str | Path | None,
        dataset_name: str | None,
        default_split: str,
        check_media: bool,
        require_trajectories: bool | None,
        on_unknown_type: str,
    ) -> None:
        self.found = Annotations()
        self.names, self._video_root, self._dataset_name = names, video_root, dataset_name
        self._default_split, self._check_media = default_split, check_media
        self._require_trajectories, self._on_unknown_type = require_trajectories, on_unknown_type
        self._taken: dict[str, tuple[str, int | None, int | None]] = {}
        self._notices: Counter[tuple[str, str]] = Counter()
        self._spellings: set[tuple[str, str]] = set()

    def read(
        self, label: str, name: str, folder: Path, rows: Iterable[RawRow], *, split: str | None = None
    ) -> None:
        """Read one file's rows; on a fault of the file none of them is kept."""
        settings = RowSettings(
            # afresh: how a file spells its fields is its own matter
            names=FieldNames(self.names.mapped),
            root=MediaRoot.of(self._video_root, folder),
            default_split=split or self._default_split,
            check_media=self._check_media,
            on_unknown_type=self._on_unknown_type,
            unknown_types=set(),
        )
        num_warnings = len(self.found.warnings)
        rejected: list[Rejection] = []
        try:
            pending = list(self._passed(label, rows, settings, rejected))
        except FileFault as fault:
            self.found.rejected.append(file_rejection(fault, label))
            del self.found.warnings[num_warnings:]
            return
        pending = self._without_trajectory_gaps(label, pending, rejected)
        rejected.sort(key=lambda rejection: (rejection.line or 0, rejection.row or 0))
        self.found.rejected.extend(rejected)
        self.found.unknown_types.update(one.value for one in rejected if one.reason == SKIPPED)
        name = self._dataset_name or name
        if label != ROWS:
            self.found.names.add(name)
        for item in pending:
            self._keep(label, name, item)
            spelling = item.sample.extra.get(ORIGINAL_TYPE)
            if spelling in settings.unknown_types:
                self.found.unknown_types[spelling] += 1

    def notice(
        self,
        label: str,
        line: int | None,
        row: int | None,
        field_name: str | None,
        reason: str,
        text: str,
    ) -> None:
        """Record something worth telling, a limited number of times a file and reason."""
        if reason in ("problem_type_spelling", "unknown_problem_type"):
            # once a spelling, since a whole file tends to share it
            if (label, text) in self._spellings:
                return
            self._spellings.add((label, text))
        self._notices[label, reason] += 1
        count = self._notices[label, reason]
        if count > MAX_NOTICES_A_REASON:
            return
        if count == MAX_NOTICES_A_REASON:
            text += "; further ones of this kind in this file are not listed"
        message = located(label, line, row, field_name, text)
        self.found.warnings.append(
            Notice(file=label, line=line, row=row, field=field_name, reason=reason, message=message)
        )

    def _passed(
        self, label: str, rows: Iterable[RawRow], settings: RowSettings, rejected: list[Rejection]
    ) -> Iterator[_Pending]:
        for count, raw in enumerate(rows, 1):
            if count % ROWS_A_LOG_LINE == 0:
                logger.info("%s: %d rows read, %d rejected", label, count, len(rejected))

            def tell(reason: str, text: str, field_name: str | None, raw: RawRow = raw) -> None:
                self.notice(label, raw.line, raw.row, field_name, reason, text)

            try:
                if raw.fault is not None:
                    raise raw.fault
                sample, offline = read_sample(raw.fields, settings, tell)
            except RowFault as fault:
                rejected.append(row_rejection(fault, label, raw.line, raw.row))
                continue
            whole_id = stored_id(raw.fields, settings.names.columns(raw.fields))
            yield _Pending(line=raw.line, row=raw.row, sample=sample, offline=offline, stored_id=whole_id)

    def _without_trajectory_gaps(
        self, label: str, pending: list[_Pending], rejected: list[Rejection]
    ) -> list[_Pending]:
        if self._require_trajectories is False:
            return pending
        empty = sum(rejection.reason == "no_trajectory" for rejection in rejected)
        given = sum(item.offline.state == "given" for item in pending) + empty
        gaps = sum(item.offline.state in ("null", "missing") for item in pending)
        if not gaps or not (self._require_trajectories or (given and given >= gaps)):
            return pending
        kept = []
        for item in pending:
            if item.offline.state in ("null", "missing"):
                fault = no_trajectory(item.offline.state, item.offline.field)
                rejected.append(row_rejection(fault, label, item.line, item.row))
            else:
                kept.append(item)
        return kept

    def _keep(self, label: str, name: str, item: _Pending) -> None:
        own_id = item.sample.sample_id
        digest = None if own_id else content_digest(item.sample)
        sample_id = wanted = item.stored_id or (f"{name}/{own_id}" if digest is None else digest)
        first = self._taken.get(wanted)
        if first is not None:
            digest = digest or content_digest(item.sample)
            sample_id = f"{wanted}-{digest[:8]}" if own_id else wanted
            copy = 2
            while sample_id in self._taken:
                sample_id = f"{wanted}-{digest[:8]}-{copy}"
                copy += 1
            self._tell_duplicate(label, item, first, sample_id)
        self._taken[sample_id] = (label, item.line, item.row)
        self.found.samples.append(replace(item.sample, sample_id=sample_id))
        for response in item.offline.responses:
            self.found.offline.append(
                OfflineResponse(
                    sample_id=sample_id,
                    response=response,
                    log_probs=item.offline.log_probs,
                    reward=item.offline.reward,
                )
            )

    def _tell_duplicate(
        self, label: str, item: _Pending, first: tuple[str, int | None, int | None], sample_id: str
    ) -> None:
        file, line, row = first
        place = f"line {line}" if line is not None else f"row {row}"
        if file != label:
            place += f" of {file}"
        what = "duplicate id" if item.sample.sample_id else "duplicate question without an id"
        own = "problem_id" if item.sample.sample_id else None
        self.notice(
            label,
            item.line,
            item.row,
            own,
            "duplicate_id",
            f"{what}, first in {place}; this row is kept as {sample_id!r}",
        )


def content_digest(sample: Sample) -> str:
    """32 hex digits over what a sample asks: the same question has the same digest on any machine."""
    content = [
        sample.problem,
        sample.answer,
        sample.problem_type,
        list(sample.options),
        list(sample.videos),
        list(sample.images),
        sample.start,
        sample.end,
    ]
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:32]

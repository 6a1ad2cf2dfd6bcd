"""What a diff of two releases says to people: rows by what they are about instead of by their keys.

Finding the differences is the work of `releases`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vrldata.dataset import Dataset
    from vrldata.releases import TableDiff

SHOWN_ROWS = 10
"""Rows of each kind that are listed; `--json` gives the keys of all."""

Label = Callable[[Mapping[str, Any]], str]

_LABELS: Mapping[str, tuple[tuple[str, ...], Label]] = {
    "frames": (("video_path",), lambda row: str(row["video_path"])),
    "failures": (("video_path", "reason"), lambda row: f"{row['video_path']}: {row['reason']}"),
    "trajectories": (
        ("source", "run_id"),
        lambda row: f"{row['source']} {'of run ' + repr(row['run_id']) if row['run_id'] else 'of no run'}",
    ),
}
"""By table: the columns that tell people what a row is, and the text. Samples are known by their ids."""


def diff_text(dataset: Dataset, a: str, b: str, tables: Mapping[str, TableDiff]) -> str:
    """Counts of each table that differs; below them samples by id, frames by path, failures with their reason
    and trajectories as counts by source and run.

    Args:
        a: release, or `latest`; `b` likewise.
        tables: their differences, as `releases.diff` finds them.

    Raises:
        UriError: no such release.
    """
    lines = []
    for table, one in tables.items():
        if not one:
            continue
        counts = {"added": len(one.added), "removed": len(one.removed), "changed": len(one.changed)}
        lines.append(f"{table}: " + ", ".join(f"{count} {kind}" for kind, count in counts.items()))
        columns = {key: f" ({', '.join(names)})" for key, names in one.changed.items()}
        lines += _listed("+", _labels(dataset, table, b, one.added), table)
        lines += _listed("-", _labels(dataset, table, a, one.removed), table)
        changed = zip(_labels(dataset, table, b, [*columns]), columns.values(), strict=True)
        lines += _listed("~", [label + names for label, names in changed], table)
    return "\n".join(lines) or f"{a} and {b} hold the same rows"


def _labels(dataset: Dataset, table: str, release: str, keys: Sequence[str]) -> list[str]:
    """What the rows of `keys` are, in their order."""
    from vrldata.dataset import Dataset as Opened
    from vrldata.tables import PRIMARY_KEYS
    from vrldata.uri import LATEST, DatasetUri

    if table not in _LABELS or not keys:
        return list(keys)
    columns, label = _LABELS[table]
    key_column = PRIMARY_KEYS[table]
    opened = Opened(DatasetUri(dataset.uri.location, None if release == LATEST else release))
    wanted = set(keys)
    found: dict[str, str] = {}
    for batch in opened.lance(table).to_batches(columns=[key_column, *columns]):
        found |= {row[key_column]: label(row) for row in batch.to_pylist() if row[key_column] in wanted}
    return [found.get(key, key) for key in keys]


def _listed(mark: str, labels: Sequence[str], table: str) -> list[str]:
    if table == "trajectories":
        labels = [f"{count} {label}" for label, count in Counter(labels).most_common()]
    more = (
        [f"  {mark} … {len(labels) - SHOWN_ROWS} more; --json lists all"] if len(labels) > SHOWN_ROWS else []
    )
    return [f"  {mark} {label}" for label in labels[:SHOWN_ROWS]] + more

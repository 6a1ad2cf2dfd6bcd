"""Releases: names for one version of every table, committed by one row.

The row in `releases` is the commit. Before it, tags of a private name keep the versions from being cleaned
up; after it, tags of the release's name take their place. A process that dies in between leaves the old list
of releases or the new one, and the next `create_release` or `repair_tags` finishes the tags.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import socket
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from vrldata.errors import StoreError, UriError, nearest
from vrldata.location import check_whole
from vrldata.uri import LATEST

if TYPE_CHECKING:
    import lance

    from vrldata.dataset import Dataset

logger = logging.getLogger(__name__)

PINNED = ("trajectories", "samples", "frames", "failures")
"""Tables that a release pins, in the order in which their versions are read: what is referred to comes later,
so that a row which a running build has just written is not pinned without what it names."""

RESERVED_NAMES = (LATEST, "main", "HEAD")
"""Names that mean something else in a URI or in the git repository of a Hub dataset."""

PENDING_PREFIX = "vrl-pending-"
"""First part of the tags that protect the versions of a release which is being made. Machine and process
follow, which tell whether a release is under way or was left behind."""

LONGEST_RELEASE = timedelta(days=1)
"""Age from which a pending tag of another machine counts as left behind."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One row of the `releases` table.

    Attributes:
        versions: pinned Lance version by table.
        counts: rows by table.
        digest: content digest over the logical rows; the same rows give the same digest on any machine.
        parent: the newest release when this one was made; empty for the first.
        replaced: the row that `force` replaced, with what that one had replaced; empty otherwise.
    """

    name: str
    message: str
    created_at: datetime
    vrl_version: str
    versions: Mapping[str, int]
    counts: Mapping[str, int]
    digest: str
    parent: str = ""
    replaced: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDiff:
    """Primary keys of the rows of one table that differ; changed ones with the columns that changed."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


def check_name(name: str) -> None:
    """Raises StoreError where `name` cannot be a release: it has to be a Lance tag and a git tag as well."""
    if not _NAME.fullmatch(name) or ".." in name or name.endswith((".", ".lock")):
        raise StoreError(
            f"release name {name!r}: use up to 128 letters, digits and . _ - that start with a letter or "
            "digit, without '..' and without '.' or '.lock' at the end, such as v1 or 2026-11-ablation"
        )
    if name in RESERVED_NAMES or name.startswith(PENDING_PREFIX):
        raise StoreError(f"release name {name!r} is reserved: choose another, such as v1")


def create_release(dataset: Dataset, name: str, message: str = "", force: bool = False) -> Release:
    """Pin the newest version of every table under `name`.

    A name is used once; with `force` it moves, and the new row records what it replaced. Of two processes
    that make the same release at once one succeeds.

    Raises:
        StoreError: the name is taken or not allowed, or the dataset is read-only.
    """
    from vrldata.commits import writable

    check_name(name)
    check_whole(dataset.uri, "a release")
    writable(dataset, "releases")
    repair_tags(dataset)
    tables = {table: dataset.open_table(table) for table in PINNED}
    left_behind = _drop_left_behind(tables)
    existing = {release.name: release for release in list_releases(dataset)}
    if name in existing and not force:
        found = existing[name]
        pinned = set(found.versions.items())
        present = {(table, opened.version) for table, opened in tables.items()}
        if found.message == message and pinned == present and left_behind and left_behind <= pinned:
            # the command that made it died before it could say so, and this is its second run
            return found
        raise _taken(dataset, found)
    pending = f"{PENDING_PREFIX}{_machine()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    try:
        for table, opened in tables.items():
            _hold(dataset, table, opened, pending)
        return _commit(dataset, name, message, tables, existing)
    finally:
        for opened in tables.values():
            _drop_tag(opened, pending)


def _hold(dataset: Dataset, table: str, opened: lance.LanceDataset, pending: str) -> None:
    """Tag a version so that no cleanup takes it meanwhile. Raises StoreError where nothing can be written."""
    from vrldata.commits import write_error

    try:
        opened.tags.create(pending, opened.version)
    except (OSError, ValueError, RuntimeError) as error:
        raise write_error(dataset, table, error) from error


def _machine() -> str:
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]


def _drop_left_behind(tables: Mapping[str, lance.LanceDataset]) -> set[tuple[str, int]]:
    """Delete pending tags whose process has died; the (table, version) pairs that they held."""
    dropped: set[tuple[str, int]] = set()
    for table, opened in tables.items():
        for name, tag in opened.tags.list().items():
            if name.startswith(PENDING_PREFIX) and not _is_under_way(name, tag["created_at"]):
                _drop_tag(opened, name)
                dropped.add((table, tag["version"]))
    return dropped


def _is_under_way(pending: str, created_at: datetime) -> bool:
    machine, process, _ = pending.removeprefix(PENDING_PREFIX).split("-")
    if machine != _machine():
        return datetime.now(UTC) - created_at < LONGEST_RELEASE
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        # alive, and of another user
        return True
    return True


def _commit(
    dataset: Dataset,
    name: str,
    message: str,
    tables: Mapping[str, lance.LanceDataset],
    existing: Mapping[str, Release],
) -> Release:
    """Write the row of the release, then its tags. The versions in `tables` are safe from cleanup."""
    from vrldata import __version__
    from vrldata.commits import merge_rows
    from vrldata.row_digest import content_digest, row_digests
    from vrldata.tables import now

    digests = {table: row_digests(table, opened) for table, opened in tables.items()}
    replaced = existing.get(name)
    others = [release for release in existing.values() if release.name != name]
    release = Release(
        name=name,
        message=message,
        created_at=now(),
        vrl_version=__version__,
        versions={table: opened.version for table, opened in tables.items()},
        counts={table: len(rows) for table, rows in digests.items()},
        digest=content_digest(digests),
        parent=others[-1].name if others else "",
        replaced=_replaced_record(replaced) if replaced else {},
    )
    result = merge_rows(dataset, "releases", [_to_row(release)], update=replaced is not None)
    winner = next(found for found in list_releases(dataset) if found.name == name)
    if replaced is None and (result.inserted == 0 or winner.created_at != release.created_at):
        raise _taken(dataset, winner)
    repair_tags(dataset)
    if replaced is not None:
        listed = dataset.open_table("releases")
        _set_tag(listed, name, listed.version)
    return release


def _taken(dataset: Dataset, release: Release) -> StoreError:
    return StoreError(
        f"{dataset.root}: release {release.name!r} exists already (made {release.created_at:%Y-%m-%d %H:%M} "
        f"UTC, digest {release.digest[:12]}); releases are immutable: choose another name, "
        "or move it with --force"
    )


def _replaced_record(release: Release) -> dict[str, Any]:
    return {
        "created_at": release.created_at.isoformat(),
        "message": release.message,
        "versions": dict(release.versions),
        "digest": release.digest,
        "replaced": dict(release.replaced),
    }


def list_releases(dataset: Dataset) -> list[Release]:
    """Releases, oldest first; those of the newest state, whatever release `dataset` is opened at.

    Raises:
        StoreError: the table cannot be read.
    """
    from vrldata.dataset import newest

    rows = newest(dataset).open_table("releases").to_table().to_pylist()
    return sorted((_from_row(row) for row in rows), key=lambda release: (release.created_at, release.name))


def get_release(dataset: Dataset, name: str) -> Release:
    """The release of this name.

    Raises:
        UriError: there is none; the message names the nearest.
    """
    known = {release.name: release for release in list_releases(dataset)}
    if name not in known:
        raise UriError(
            f"{dataset.root}: no release {name!r}.{nearest(name, known)} "
            f"Releases: {', '.join(known) or 'none'}."
        )
    return known[name]


def repair_tags(dataset: Dataset) -> None:
    """Set the Lance tags of every release as its row says, where a process died before it had done so.

    Raises:
        StoreError: a pinned version is gone.
    """
    releases = list_releases(dataset)
    for table in (*PINNED, "releases"):
        opened = dataset.open_table(table)
        tags = {name: tag["version"] for name, tag in opened.tags.list().items()}
        for release in releases:
            # the list of releases has no version of its own to pin: any with the row in it will do
            version = release.versions.get(table, tags.get(release.name, opened.version))
            if tags.get(release.name) != version:
                _set_tag(opened, release.name, version)


def _set_tag(table: lance.LanceDataset, name: str, version: int) -> None:
    from vrldata.commits import lance_message

    try:
        if _tag_version(table, name) is None:
            table.tags.create(name, version)
        else:
            table.tags.update(name, version)
    except (OSError, ValueError, RuntimeError) as error:
        # another process may have set it in between
        if _tag_version(table, name) != version:
            raise StoreError(
                f"{table.uri}: version {version} of release {name!r} cannot be tagged: {lance_message(error)}"
            ) from error


def _tag_version(table: lance.LanceDataset, name: str) -> int | None:
    tag = table.tags.list().get(name)
    return tag["version"] if tag else None


def _drop_tag(table: lance.LanceDataset, name: str) -> None:
    try:
        table.tags.delete(name)
    except (OSError, ValueError, RuntimeError) as error:
        # it was never set, or the store went away; either way nothing depends on it
        logger.debug("tag %s of %s not deleted: %s", name, table.uri, error)


def diff(dataset: Dataset, a: str, b: str) -> dict[str, TableDiff]:
    """What changed from release `a` to release `b`, by table; `latest` names the newest state.

    Rows are matched by primary key and compared by their logical content: times of writing do not count.

    Raises:
        UriError: no such release.
    """
    check_whole(dataset.uri, "diff")
    before, after = (_pinned_tables(dataset, name) for name in (a, b))
    return {table: _table_diff(table, before[table], after[table]) for table in sorted(PINNED)}


def _pinned_tables(dataset: Dataset, name: str) -> dict[str, lance.LanceDataset]:
    from vrldata.dataset import Dataset as Opened
    from vrldata.uri import DatasetUri

    release = None if name == LATEST else get_release(dataset, name).name
    opened = Opened(DatasetUri(dataset.uri.location, release))
    return {table: opened.lance(table) for table in PINNED}


def _table_diff(table: str, before: lance.LanceDataset, after: lance.LanceDataset) -> TableDiff:
    from vrldata.row_digest import row_digests

    if before.version == after.version:
        return TableDiff()
    old, new = row_digests(table, before), row_digests(table, after)
    differing = [key for key in old if key in new and old[key] != new[key]]
    return TableDiff(
        added=tuple(sorted(new.keys() - old.keys())),
        removed=tuple(sorted(old.keys() - new.keys())),
        changed=_changed(table, before, after, sorted(differing)),
    )


def _changed(
    table: str, before: lance.LanceDataset, after: lance.LanceDataset, keys: list[str]
) -> dict[str, tuple[str, ...]]:
    from vrldata.row_digest import changed_columns

    old, new = _rows_by_key(table, before, keys), _rows_by_key(table, after, keys)
    return {key: tuple(changed_columns(table, old[key], new[key])) for key in keys}


def _rows_by_key(table: str, rows: lance.LanceDataset, keys: list[str]) -> dict[str, dict[str, Any]]:
    from vrldata.commits import sql_text
    from vrldata.row_digest import NOT_LOGICAL
    from vrldata.tables import PRIMARY_KEYS

    key_column = PRIMARY_KEYS[table]
    columns = [name for name in rows.schema.names if name not in NOT_LOGICAL[table]]
    found: dict[str, dict[str, Any]] = {}
    for start in range(0, len(keys), 500):
        listed = ", ".join(sql_text(key) for key in keys[start : start + 500])
        for row in rows.to_table(columns=columns, filter=f"{key_column} IN ({listed})").to_pylist():
            found[row[key_column]] = row
    return found


def _to_row(release: Release) -> dict[str, Any]:
    from vrldata.tables import to_json

    return {
        "name": release.name,
        "message": release.message,
        "created_at": release.created_at,
        "vrl_version": release.vrl_version,
        "versions": list(release.versions.items()),
        "counts": list(release.counts.items()),
        "digest": release.digest,
        "parent": release.parent,
        "replaced": to_json(release.replaced) if release.replaced else None,
    }


def _from_row(row: Mapping[str, Any]) -> Release:
    return Release(
        name=row["name"],
        message=row["message"] or "",
        created_at=row["created_at"],
        vrl_version=row["vrl_version"] or "",
        versions=dict(row["versions"] or ()),
        counts=dict(row["counts"] or ()),
        digest=row["digest"] or "",
        parent=row["parent"] or "",
        replaced=json.loads(row["replaced"] or "{}"),
    )

"""The files of a dataset that belong in a Hub repository: the newest state and every release, no more.

Data files have random names and never change; they go up first. What makes them visible (manifests, tags of
Lance, the list of releases) goes up last, in one commit. Talking to the Hub is the work of `hub_client`.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from vrldata.errors import HubError, StoreError
from vrldata.tables import PAYLOAD_COLUMN, TABLES

if TYPE_CHECKING:
    import lance

    from vrldata.dataset import Dataset
    from vrldata.releases import Release

RELEASES_FILE = "releases.json"
"""Names and digests of the releases in a repository, so that a push can compare without opening tables."""

PARQUET_ROWS = 200_000
_TOP_LEVEL = ("README.md", RELEASES_FILE, "preview.png", ".gitattributes")
_LARGEST_VERSION = 2**64 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryFile:
    """A file of a repository and where its content comes from.

    Attributes:
        path: in the repository.
        source: a local file, or the content.
        immutable: another content would have another name.
    """

    path: str
    source: Path | bytes
    immutable: bool = False

    @property
    def size(self) -> int:
        return len(self.source) if isinstance(self.source, bytes) else self.source.stat().st_size

    def digests(self) -> tuple[str, str]:
        """(sha256 as LFS names it, sha1 as git names a blob)."""
        sha256, sha1 = hashlib.sha256(), hashlib.sha1(usedforsecurity=False)
        sha1.update(b"blob %d\0" % self.size)
        for block in _blocks(self.source):
            sha256.update(block)
            sha1.update(block)
        return sha256.hexdigest(), sha1.hexdigest()


def _blocks(source: Path | bytes) -> Iterator[bytes]:
    if isinstance(source, bytes):
        yield source
        return
    with source.open("rb") as file:
        while block := file.read(1 << 22):
            yield block


def table_files(dataset: Dataset, releases: Sequence[Release], newest: str | None) -> list[RepositoryFile]:
    """The Lance files of all tables.

    Args:
        releases: those that the repository holds.
        newest: the release whose state is the newest one there; None for the present state.

    Raises:
        StoreError: a version is gone, or a file of it is missing.
    """
    files: dict[str, RepositoryFile] = {}
    for table in TABLES:
        opened = dataset.open_table(table)
        tags = {name: tag["version"] for name, tag in opened.tags.list().items()}
        pinned = {one.name: one.versions.get(table, tags.get(one.name, opened.version)) for one in releases}
        present = opened.version if newest is None else pinned[newest]
        for version in sorted({present, *pinned.values()}):
            for file in _version_files(opened, table, version):
                files[file.path] = file
        folder = f"data/{table}.lance"
        hint = json.dumps({"version": present}, separators=(",", ":")).encode()
        files[f"{folder}/_versions/latest_version_hint.json"] = RepositoryFile(
            path=f"{folder}/_versions/latest_version_hint.json", source=hint
        )
        for name in pinned:
            path = f"_refs/tags/{name}.json"
            files[f"{folder}/{path}"] = RepositoryFile(
                path=f"{folder}/{path}", source=Path(opened.uri) / path
            )
    return list(files.values())


def _version_files(table: lance.LanceDataset, name: str, version: int) -> Iterator[RepositoryFile]:
    try:
        opened = table.checkout_version(version)
        indexes = opened.list_indices()
    except (OSError, ValueError) as error:
        raise StoreError(f"{table.uri}: version {version} is gone, the release is damaged") from error
    root = Path(table.uri)

    def file(path: str, *, immutable: bool = True) -> RepositoryFile:
        if not (root / path).is_file():
            raise StoreError(f"{root / path}: a file of version {version} is missing")
        return RepositoryFile(path=f"data/{name}.lance/{path}", source=root / path, immutable=immutable)

    for fragment in opened.get_fragments():
        for data_file in fragment.data_files():
            yield file(f"data/{data_file.path}")
            stem = data_file.path.rsplit(".", 1)[0]
            for payload in sorted((root / "data" / stem).glob("*")):
                yield file(f"data/{stem}/{payload.name}")
        deletions = fragment.deletion_file()
        if deletions:
            yield file(str(PurePosixPath("_deletions") / PurePosixPath(deletions).name))
    for index in indexes:
        for part in sorted((root / "_indices" / index["uuid"]).rglob("*")):
            if part.is_file():
                yield file(part.relative_to(root).as_posix())
    for manifest in (
        f"_versions/{_LARGEST_VERSION - version:020d}.manifest",
        f"_versions/{version}.manifest",
    ):
        if (root / manifest).is_file():
            yield file(manifest, immutable=False)
            return
    raise StoreError(f"{root}: no manifest of version {version}")


def newest_manifests(paths: Iterable[str]) -> dict[str, tuple[int, str]]:
    """(version, path) of the newest manifest of each table among `paths`."""
    found: dict[str, tuple[int, str]] = {}
    for path in paths:
        matched = re.fullmatch(r"data/(\w+)\.lance/_versions/([0-9]{1,20})\.manifest", path)
        if matched:
            table, name = matched.groups()
            # names of twenty digits count down, so that the newest is listed first
            version = _LARGEST_VERSION - int(name) if len(name) == 20 else int(name)
            found[table] = max(found.get(table, (-1, "")), (version, path))
    return found


def is_data_file(path: str) -> bool:
    """Whether a path is invisible to readers until a manifest names it."""
    return bool(re.fullmatch(r"data/\w+\.lance/(data|_indices|_deletions)/.+", path))


def releases_file(releases: Sequence[Release]) -> RepositoryFile:
    """`releases.json`: name, digest, time and counts of every release."""
    listed = [
        {
            "name": one.name,
            "digest": one.digest,
            "created_at": one.created_at.isoformat(),
            "message": one.message,
            "counts": dict(sorted(one.counts.items())),
        }
        for one in releases
    ]
    text = json.dumps(listed, ensure_ascii=False, indent=1) + "\n"
    return RepositoryFile(path=RELEASES_FILE, source=text.encode())


def parquet_files(dataset: Dataset) -> list[RepositoryFile]:
    """Samples by split and trajectories as Parquet, for the viewer and `datasets`; maps as JSON text."""
    files: list[RepositoryFile] = []
    for split in _splits(dataset):
        files += _parquet("samples", dataset.lance("samples"), split)
    if dataset.lance("trajectories").count_rows():
        files += _parquet("trajectories", dataset.lance("trajectories"), None)
    return files


def _splits(dataset: Dataset) -> list[str]:
    found = dataset.lance("samples").to_table(columns=["split"]).column("split")
    return sorted({split or "train" for split in found.unique().to_pylist()})


def split_name(split: str) -> str:
    """`split` as `datasets` allows it: word characters and dots between them."""
    name = re.sub(r"\W+", "_", split, flags=re.ASCII).strip("_")
    return name or "train"


def _parquet(name: str, table: lance.LanceDataset, split: str | None) -> Iterator[RepositoryFile]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from vrldata.commits import sql_text

    wanted = None
    if split is not None:
        wanted = f"split = {sql_text(split)}" + (
            " OR split IS NULL OR split = ''" if split == "train" else ""
        )
    columns = [column for column in table.schema.names if column != PAYLOAD_COLUMN]
    rows = table.to_table(columns=columns, filter=wanted).replace_schema_metadata(None)
    rows = pa.table({field.name: _without_maps(rows.column(field.name)) for field in rows.schema})
    for index, start in enumerate(range(0, rows.num_rows, PARQUET_ROWS)):
        data = io.BytesIO()
        pq.write_table(rows.slice(start, PARQUET_ROWS), data, compression="zstd")
        path = f"parquet/{name}/{split_name(split or 'train')}-{index:05d}.parquet"
        yield RepositoryFile(path=path, source=data.getvalue())


def _without_maps(column: Any) -> Any:
    """A map column as JSON text: `datasets` has no type for maps."""
    import pyarrow as pa

    if not pa.types.is_map(column.type):
        return column
    texts = [
        None if pairs is None else json.dumps(dict(pairs), sort_keys=True) for pairs in column.to_pylist()
    ]
    return pa.array(texts, type=pa.string())


def checked_path(path: str) -> str | None:
    """`path` if it is a file of the layout, None if it is some other file that does not concern us.

    Raises:
        HubError: the path would leave the folder that it is written to.
    """
    parts = path.split("/")
    if (
        not path
        or path.startswith("/")
        or "\\" in path
        or ":" in parts[0]
        or any(part in ("", ".", "..") for part in parts)
        or not path.isprintable()
    ):
        raise HubError(
            f"the repository holds the path {path!r}, which leaves its folder: nothing was written"
        )
    if path in _TOP_LEVEL:
        return path
    tables = "|".join(TABLES)
    layout = rf"data/({tables})\.lance/(data|_versions|_indices|_deletions|_refs|_transactions)/.+|parquet/.+"
    return path if re.fullmatch(layout, path) else None


def as_mapping(entries: Sequence[Any]) -> Mapping[str, Any]:
    """Entries of a repository's tree by path; folders are left out."""
    return {entry.path: entry for entry in entries if hasattr(entry, "blob_id")}

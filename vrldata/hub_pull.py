"""Fetching a dataset from the Hugging Face Hub into a folder: `pull`.

Nothing of a repository is believed: paths must stay in the folder and belong to the layout, contents must
have the digests that the Hub names. Manifests come last, so that an interrupted pull shows the state
before it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrldata.errors import HubError
from vrldata.hub_client import call, hub_api, published_state, repository_of
from vrldata.hub_layout import checked_path, is_data_file
from vrldata.hub_record import (
    HubRecord,
    check_fast_forward,
    local_files,
    read_records,
    write_record,
)
from vrldata.log import progress
from vrldata.uri import DatasetUri

if TYPE_CHECKING:
    from huggingface_hub import HfApi

logger = logging.getLogger(__name__)

DOWNLOADS = 4
"""Files that are fetched at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PullReport:
    """What a pull did.

    Attributes:
        release: None for the newest state.
        downloaded: files that were fetched; `unchanged` were there already, `deleted` are gone upstream.
        opens_as: location of what was asked for: the folder, or `<folder>@<release>` where the newest state
            at the release's git tag is a later one.
    """

    repo_id: str
    folder: str
    release: str | None
    commit: str
    downloaded: int
    downloaded_bytes: int
    unchanged: int
    deleted: int
    opens_as: str


def pull(source: str | DatasetUri, folder: str | Path) -> PullReport:
    """Fetch `hf://datasets/<org>/<name>[@<release>]` into `folder`, or bring an earlier pull up to date.

    With a release, the files at its git tag: the newest state of the folder is that release, and it lists the
    releases up to it. A folder that was pushed to the repository takes new versions of its tables and keeps
    all that it has, its own card, preview and Parquet files included.

    Raises:
        HubError: the Hub refuses or cannot be reached, there is no such release, the repository is no dataset
            of this kind or a hostile one, or the folder holds something else or local changes.
        UriError: `source` is no Hub URI.
    """
    repo_id, release = repository_of(source)
    what = f"pull {repo_id}"
    target = Path(folder).expanduser().resolve()
    api = hub_api()
    commit, entries = published_state(api, repo_id, release, what)
    wanted = {path: entry for path, entry in entries.items() if checked_path(path) is not None}
    record = _record_of(target, repo_id)
    if record.pushed:
        # nothing that is there is replaced; Lance finds the newest version without its hint
        wanted = {path: entry for path, entry in wanted.items() if re.match(r"data/(?!.*_hint\.json$)", path)}
    missing = [path for path, entry in wanted.items() if not _is_there(target, path, entry)]
    if record.pushed:
        check_fast_forward(target, record, wanted, wanted.keys() - set(missing))
    else:
        _check_local_changes(target, record)
    manifests = {path: _digest(entry) for path, entry in wanted.items() if path.endswith(".manifest")}
    pulled = dataclasses.replace(record, commit=commit, release=release, manifests=manifests)
    write_record(target, dataclasses.replace(pulled, manifests={**record.manifests, **manifests}))
    # data first, then what makes it visible, and the list of releases last of all
    stages = [
        [path for path in missing if is_data_file(path)],
        [path for path in missing if not is_data_file(path) and not path.startswith("data/releases.lance/")],
        [path for path in missing if not is_data_file(path) and path.startswith("data/releases.lance/")],
    ]
    with progress(what, total=len(missing), unit="files") as bar:
        for stage in stages:
            with ThreadPoolExecutor(DOWNLOADS) as pool:
                for _ in pool.map(lambda path: _download(api, pulled, path, wanted[path], target), stage):
                    bar.advance()
    deleted = 0 if record.pushed else _delete_stale(target, record.manifests, wanted)
    write_record(target, pulled)
    return PullReport(
        repo_id=repo_id,
        folder=str(target),
        release=release,
        commit=commit,
        downloaded=len(missing),
        downloaded_bytes=sum(wanted[path].size for path in missing),
        unchanged=len(wanted) - len(missing),
        deleted=deleted,
        opens_as=str(target) if release is None or _is_newest(target, release) else f"{target}@{release}",
    )


def _is_newest(target: Path, release: str) -> bool:
    """Whether the newest version of every pinned table in the folder is the one of a release."""
    import lance

    from vrldata.releases import PINNED

    tables = [lance.dataset(str(target / f"data/{name}.lance")) for name in PINNED]
    tags = [table.tags.list().get(release) for table in tables]
    return all(
        tag and tag["version"] == table.latest_version for tag, table in zip(tags, tables, strict=True)
    )


def _inside(target: Path, path: str) -> Path:
    """Where a file of the repository is written.

    Raises:
        HubError: a symbolic link in the folder leads out of it.
    """
    file = target / path
    if not file.parent.resolve().is_relative_to(target) or file.is_symlink():
        raise HubError(f"{file}: a symbolic link leads out of the folder; remove it and pull again")
    return file


def _is_there(target: Path, path: str, entry: Any) -> bool:
    file = _inside(target, path)
    if not file.is_file() or file.stat().st_size != entry.size:
        return False
    # data files have random names, so that the size is enough; everything else is compared
    return is_data_file(path) or _matches(file, entry)


def _matches(file: Path, entry: Any) -> bool:
    digest = hashlib.sha256() if entry.lfs else hashlib.sha1(usedforsecurity=False)
    if not entry.lfs:
        digest.update(b"blob %d\0" % file.stat().st_size)
    with file.open("rb") as stream:
        while block := stream.read(1 << 22):
            digest.update(block)
    return digest.hexdigest() == _digest(entry)


def _digest(entry: Any) -> str:
    return str(entry.lfs.sha256 if entry.lfs else entry.blob_id)


def _download(api: HfApi, record: HubRecord, path: str, entry: Any, target: Path) -> None:
    """Fetch one file into the folder, whole and with the right content, or not at all."""
    what = f"pull {record.repo_id}: {path}"
    file = _inside(target, path)
    staging = target / ".cache" / "vrl-pull"
    fetched = Path(
        call(
            what,
            lambda: api.hf_hub_download(
                record.repo_id, path, repo_type="dataset", revision=record.commit, local_dir=str(staging)
            ),
        )
    )
    if not _matches(fetched, entry):
        fetched.unlink(missing_ok=True)
        raise HubError(f"{what}: the content does not have the digest that the Hub names; pull again")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if record.pushed:
            # fails where the file is there by now: a build may just have committed a version of this number
            file.hardlink_to(fetched)
            fetched.unlink()
        else:
            fetched.replace(file)
    except OSError as error:
        raise HubError(f"{file}: cannot be written: {error.strerror or error}") from error


def _record_of(target: Path, repo_id: str) -> HubRecord:
    """What the folder has in common with the repository; nothing for a folder without a dataset.

    Raises:
        HubError: the folder holds a dataset of another origin, or other files, or is none.
    """
    if target.exists() and not target.is_dir():
        raise HubError(f"{target}: is a file, not a folder; choose a new or an empty folder")
    records = read_records(target)
    if repo_id in records:
        return records[repo_id]
    if records:
        raise HubError(f"{target}: belongs to {', '.join(records)}, not to {repo_id}; choose another folder")
    if (target / "data").exists():
        raise HubError(
            f"{target}: holds a dataset that was neither pulled from {repo_id} nor pushed to it; choose "
            "another folder"
        )
    if target.exists() and any(one.name != ".cache" for one in target.iterdir()):
        raise HubError(f"{target}: holds other files and no dataset; choose a new or an empty folder")
    return HubRecord(repo_id=repo_id)


def _check_local_changes(target: Path, record: HubRecord) -> None:
    """Raises HubError where the folder was written to after its pull: both states cannot be had in one."""
    for path in local_files(target):
        if path not in record.manifests:
            raise HubError(
                f"{target}: was changed after it was pulled from {record.repo_id} ({path}); push it, or pull "
                "into another folder"
            )


def _delete_stale(target: Path, before: Iterable[str], wanted: Mapping[str, Any]) -> int:
    """Delete manifests and tags of earlier pulls that the repository has dropped; how many."""
    stale = [_inside(target, path) for path in before if path not in wanted]
    for tag in target.glob("data/*.lance/_refs/tags/*.json"):
        if tag.relative_to(target).as_posix() not in wanted:
            stale.append(tag)
    for file in stale:
        file.unlink(missing_ok=True)
    return len(stale)

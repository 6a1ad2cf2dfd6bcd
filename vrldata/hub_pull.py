"""Fetching a dataset from the Hugging Face Hub into a folder: `pull`.

Nothing of a repository is believed: paths must stay in the folder and belong to the layout, contents must
have the digests that the Hub names. Manifests come last, so that an interrupted pull shows the state
before it.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrldata.errors import HubError
from vrldata.hub_client import call, hub_api, published_state, repository_of
from vrldata.hub_layout import checked_path, is_data_file
from vrldata.log import progress
from vrldata.uri import DatasetUri

if TYPE_CHECKING:
    from huggingface_hub import HfApi

logger = logging.getLogger(__name__)

RECORD_FILE = ".cache/vrl-pull.json"
"""In the folder: which repository it was pulled from, at which commit, and the manifests that came along."""

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
    releases up to it.

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
    before = _read_record(target, repo_id)
    _check_local_changes(target, repo_id, before)
    missing = [path for path, entry in wanted.items() if not _is_there(target, path, entry)]
    manifests = [path for path in wanted if "/_versions/" in path]
    _write_record(target, repo_id, commit, sorted({*before, *manifests}))
    # data first, then what makes it visible, and the list of releases last of all
    stages = [
        [path for path in missing if is_data_file(path)],
        [path for path in missing if not is_data_file(path) and not path.startswith("data/releases.lance/")],
        [path for path in missing if not is_data_file(path) and path.startswith("data/releases.lance/")],
    ]
    with progress(what, total=len(missing), unit="files") as bar:
        for stage in stages:
            with ThreadPoolExecutor(DOWNLOADS) as pool:
                for _ in pool.map(
                    lambda path: _download(api, repo_id, commit, path, wanted[path], target), stage
                ):
                    bar.advance()
    deleted = _delete_stale(target, before, wanted)
    _write_record(target, repo_id, commit, sorted(manifests))
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
    return bool(digest.hexdigest() == (entry.lfs.sha256 if entry.lfs else entry.blob_id))


def _download(api: HfApi, repo_id: str, commit: str, path: str, entry: Any, target: Path) -> None:
    """Fetch one file into the folder, whole and with the right content, or not at all."""
    what = f"pull {repo_id}: {path}"
    file = _inside(target, path)
    staging = target / ".cache" / "vrl-pull"
    fetched = Path(
        call(
            what,
            lambda: api.hf_hub_download(
                repo_id, path, repo_type="dataset", revision=commit, local_dir=str(staging)
            ),
        )
    )
    if not _matches(fetched, entry):
        fetched.unlink(missing_ok=True)
        raise HubError(f"{what}: the content does not have the digest that the Hub names; pull again")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        fetched.replace(file)
    except OSError as error:
        raise HubError(f"{file}: cannot be written: {error.strerror or error}") from error


def _read_record(target: Path, repo_id: str) -> list[str]:
    """Manifests that earlier pulls of this repository wrote; empty for a folder without a dataset.

    Raises:
        HubError: the folder holds a dataset of another origin, or other files.
    """
    file = target / RECORD_FILE
    if target.exists() and not target.is_dir():
        raise HubError(f"{target}: is a file, not a folder; choose a new or an empty folder")
    if not file.is_file():
        if (target / "data").exists():
            raise HubError(
                f"{target}: holds a dataset that was not pulled from {repo_id}; choose another folder"
            )
        if target.exists() and any(one != file.parent for one in target.iterdir()):
            raise HubError(f"{target}: holds other files and no dataset; choose a new or an empty folder")
        return []
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
        origin, manifests = str(record["repo_id"]), [str(path) for path in record["manifests"]]
    except (ValueError, KeyError, TypeError) as error:
        raise HubError(f"{file}: cannot be read ({error}); pull into another folder") from error
    if origin != repo_id:
        raise HubError(f"{target}: was pulled from {origin}, not from {repo_id}; choose another folder")
    return manifests


def _write_record(target: Path, repo_id: str, commit: str, manifests: Sequence[str]) -> None:
    from vrldata.rows_output import whole_file

    with whole_file(target / RECORD_FILE) as file:
        record = {"repo_id": repo_id, "commit": commit, "manifests": list(manifests)}
        file.write(json.dumps(record, indent=1).encode())


def _check_local_changes(target: Path, repo_id: str, manifests: Sequence[str]) -> None:
    """Raises HubError where the folder was written to after its pull: both states cannot be had in one."""
    known = set(manifests)
    for file in sorted(target.glob("data/*.lance/_versions/*.manifest")):
        path = file.relative_to(target).as_posix()
        if path not in known:
            raise HubError(
                f"{target}: was changed after it was pulled from {repo_id} ({path}); push it, or pull into "
                "another folder"
            )


def _delete_stale(target: Path, before: Sequence[str], wanted: Mapping[str, Any]) -> int:
    """Delete manifests and tags of earlier pulls that the repository has dropped; how many."""
    stale = [_inside(target, path) for path in before if path not in wanted]
    for tag in target.glob("data/*.lance/_refs/tags/*.json"):
        if tag.relative_to(target).as_posix() not in wanted:
            stale.append(tag)
    for file in stale:
        file.unlink(missing_ok=True)
    return len(stale)

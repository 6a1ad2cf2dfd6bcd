"""Publishing a dataset on the Hugging Face Hub: `push`. Fetching one is the work of `hub_pull`.

Each release that is new there is published and tagged by itself, oldest first, then the newest state: the
files at the git tag of a release are that release and the ones before it. Data files go up first, in commits
of bounded size; one last commit makes a state visible, moves the card and the Parquet copies along, and drops
what is not needed any more. A reader sees the old state or the new one. A push that was cut off is repeated:
what has arrived is not sent again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrldata.errors import HubError, StoreError, UriError
from vrldata.hub_client import call, hub_api, repository_of, tree_of
from vrldata.hub_layout import (
    RepositoryFile,
    as_mapping,
    is_data_file,
    parquet_files,
    releases_file,
    table_files,
)
from vrldata.hub_record import note_push
from vrldata.hub_releases import check_lineage, published_releases, read_file, set_tag
from vrldata.location import check_whole
from vrldata.log import progress

if TYPE_CHECKING:
    from huggingface_hub import HfApi

    from vrldata.dataset import Dataset
    from vrldata.releases import Release

logger = logging.getLogger(__name__)

FILES_A_COMMIT = 100
BYTES_A_COMMIT = 4 << 30
OWN_FOLDERS = ("data/", "parquet/")
"""Folders of the repository whose files a push may delete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PushReport:
    """What a push did.

    Attributes:
        uploaded: files that were sent; `unchanged` were there already, `deleted` are needed no more.
        commit: git commit of the new state.
        tags: releases whose git tag was set; `moved_tags` are those of them that were another release before,
            `deleted_tags` those of releases that are not here.
        deleted_files: paths that neither a release nor the newest state needs; the git history keeps them.
    """

    repo_id: str
    commit: str
    uploaded: int
    uploaded_bytes: int
    unchanged: int
    deleted: int
    tags: tuple[str, ...]
    moved_tags: tuple[str, ...] = ()
    deleted_tags: tuple[str, ...] = ()
    deleted_files: tuple[str, ...] = ()


def push(
    dataset: Dataset, target: str, *, private: bool = False, release: str | None = None, force: bool = False
) -> PushReport:
    """Publish a local dataset with its releases at `hf://datasets/<org>/<name>`.

    Args:
        private: make the repository private if it has to be made; an error where a public one is there.
        release: publish the state of this release as the newest one, with the releases before it; by default
            the present state with all releases.
        force: push although the repository holds releases that this dataset does not, which are dropped, or
            other content under the name of one, whose tag moves.

    Raises:
        HubError: the Hub refuses or cannot be reached, the repository holds other releases, or it is public
            and `private` is asked for. Nothing was sent then, unless the Hub failed in between.
        StoreError: the dataset is not local, or a file of it is missing. UriError: `target` or `release`.
    """
    repo_id = _target(dataset, target)
    what = f"push to {repo_id}"
    releases, newest = _releases(dataset, release or dataset.release)
    api = hub_api()
    _make_repository(api, repo_id, private, what)
    published = published_releases(api, repo_id, releases, what)
    if not force:
        check_lineage(dataset, repo_id, published, releases)
    sent: dict[str, RepositoryFile] = {}
    dropped: set[str] = set()

    def publish(listed: Sequence[Release], state: str | None) -> tuple[str, list[RepositoryFile]]:
        files = _state_files(dataset, listed, state, api, repo_id)
        head, new, stale = _upload(api, repo_id, files, what)
        sent.update({file.path: file for file in new})
        dropped.update(stale)
        return head, files

    to_tag = [one for one in releases if not published.is_tagged(one)]
    for one in to_tag:
        head, files = publish(releases[: releases.index(one) + 1], one.name)
        set_tag(api, repo_id, head, one, moves=one.name in published.tags, what=what)
    if not to_tag or to_tag[-1] != releases[-1] or not _is_state_of(dataset, releases[-1], newest):
        head, files = publish(releases, newest)
    gone = sorted(published.tags.keys() - {one.name for one in releases})
    for name in gone:
        call(what, lambda name=name: api.delete_tag(repo_id, tag=name, repo_type="dataset"))  # type: ignore[misc]
    note_push(Path(dataset.root), repo_id, head, files)
    kept = {file.path for file in files}
    return PushReport(
        repo_id=repo_id,
        commit=head,
        uploaded=len(sent),
        uploaded_bytes=sum(file.size for file in sent.values()),
        unchanged=len(kept - sent.keys()),
        deleted=len(dropped - kept),
        tags=tuple(one.name for one in to_tag),
        moved_tags=tuple(one.name for one in to_tag if one.name in published.tags),
        deleted_tags=tuple(gone),
        deleted_files=tuple(sorted(dropped - kept)),
    )


def _target(dataset: Dataset, target: str) -> str:
    """`org/name` of a repository that a dataset can be pushed to."""
    check_whole(dataset.uri, "push")
    if not dataset.is_local:
        how = "copy it to a disk first"
        if dataset.uri.scheme == "hf":
            how = f"`vrldata pull {dataset.uri} <folder>` makes one of it, which can be"
        raise StoreError(f"{dataset.uri}: only a local dataset can be pushed; {how}")
    repo_id, release = repository_of(target)
    if release is not None:
        raise UriError(
            f"{target}: a push takes a repository without @release; to publish {release} and the releases "
            f"before it, name it in front (`vrldata push {dataset.uri.location}@{release} "
            f"hf://datasets/{repo_id}`) or with --release {release}"
        )
    return repo_id


def _make_repository(api: HfApi, repo_id: str, private: bool, what: str) -> None:
    """Make the repository if it is not there. Raises HubError where it has to be private and is not."""
    call(what, lambda: api.create_repo(repo_id, repo_type="dataset", private=private or None, exist_ok=True))
    # a repository that is there keeps its visibility, whatever was asked for
    if private and not call(what, lambda: api.repo_info(repo_id, repo_type="dataset")).private:
        raise HubError(
            f"{what}: the repository is public, and --private only makes new ones private; nothing was sent. "
            f"Make it private on its settings page ({api.endpoint}/datasets/{repo_id}/settings), or leave "
            "--private out to publish"
        )


def _state_files(
    dataset: Dataset, releases: Sequence[Release], newest: str | None, api: HfApi, repo_id: str
) -> list[RepositoryFile]:
    """All files of a repository that lists `releases` and whose newest state is `newest`."""
    state = _state(dataset, newest)
    files = [*table_files(dataset, releases, newest), *parquet_files(state), releases_file(releases)]
    return files + _card_files(state, api, repo_id, releases)


def _is_state_of(dataset: Dataset, release: Release, newest: str | None) -> bool:
    """Whether the state `newest`, None for the present one, is that of a release."""
    if newest is not None:
        return newest == release.name
    return all(dataset.open_table(table).version == pinned for table, pinned in release.versions.items())


def _releases(dataset: Dataset, name: str | None) -> tuple[list[Release], str | None]:
    """The releases to publish, oldest first, and the one whose state is the newest."""
    from vrldata.releases import get_release, list_releases, repair_tags

    repair_tags(dataset)
    known = list_releases(dataset)
    if name is None:
        return known, None
    last = get_release(dataset, name)
    return known[: known.index(last) + 1], name


def _state(dataset: Dataset, newest: str | None) -> Dataset:
    from vrldata.dataset import Dataset as Opened
    from vrldata.uri import DatasetUri

    return Opened(DatasetUri(dataset.uri.location, newest))


def _card_files(
    state: Dataset, api: HfApi, repo_id: str, releases: Sequence[Release]
) -> list[RepositoryFile]:
    from vrldata.card import card_text, preview_bytes

    theirs = read_file(api, repo_id, "README.md", "main", f"push to {repo_id}")
    picture = preview_bytes(state)
    text = card_text(
        state,
        repo_id=repo_id,
        releases=releases,
        published=None if theirs is None else theirs.decode("utf-8", "replace"),
        has_preview=picture is not None,
    )
    files = [RepositoryFile(path="README.md", source=text.encode())]
    if picture is not None:
        files.append(RepositoryFile(path="preview.png", source=picture))
    return files


def _upload(
    api: HfApi, repo_id: str, files: Sequence[RepositoryFile], what: str
) -> tuple[str, list[RepositoryFile], list[str]]:
    """Send what the repository lacks; the commit of the new state, the files sent and the paths deleted."""
    head = str(call(what, lambda: api.repo_info(repo_id, repo_type="dataset", revision="main")).sha)
    present = as_mapping(tree_of(api, repo_id, head, what))
    missing = [file for file in files if not _is_there(file, present.get(file.path))]
    kept = {file.path for file in files}
    stale = [path for path in present if path.startswith(OWN_FOLDERS) and path not in kept]
    data = [file for file in missing if is_data_file(file.path)]
    visible = [file for file in missing if not is_data_file(file.path)]
    with progress(what, total=len(missing), unit="files") as bar:
        for batch in _batches(data):
            head = _commit(api, repo_id, batch, [], f"Add {len(batch)} data files", head, what)
            bar.advance(len(batch))
        if visible or stale:
            head = _commit(api, repo_id, visible, stale, "Publish the dataset's new state", head, what)
            bar.advance(len(visible))
    return head, missing, stale


def _is_there(file: RepositoryFile, entry: Any) -> bool:
    if entry is None or entry.size != file.size:
        return False
    if file.immutable:
        return True
    sha256, sha1 = file.digests()
    return bool(entry.lfs.sha256 == sha256 if entry.lfs else entry.blob_id == sha1)


def _batches(files: Sequence[RepositoryFile]) -> Iterator[list[RepositoryFile]]:
    batch: list[RepositoryFile] = []
    num_bytes = 0
    for file in files:
        if batch and (len(batch) == FILES_A_COMMIT or num_bytes + file.size > BYTES_A_COMMIT):
            yield batch
            batch, num_bytes = [], 0
        batch.append(file)
        num_bytes += file.size
    if batch:
        yield batch


def _commit(
    api: HfApi,
    repo_id: str,
    files: Sequence[RepositoryFile],
    deleted: Sequence[str],
    message: str,
    parent: str,
    what: str,
) -> str:
    """One commit on top of `parent` and of nothing else; its id."""
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    def commit() -> str:
        # operations are used up by an attempt
        operations: list[Any] = [
            CommitOperationAdd(
                path_in_repo=file.path,
                path_or_fileobj=file.source if isinstance(file.source, bytes) else str(file.source),
            )
            for file in files
        ]
        operations += [CommitOperationDelete(path_in_repo=path) for path in deleted]
        info = api.create_commit(
            repo_id, operations, commit_message=message, repo_type="dataset", parent_commit=parent
        )
        return str(info.oid)

    return call(what, commit)

"""Publishing a dataset on the Hugging Face Hub: `push`. Fetching one is the work of `hub_pull`.

Each release that is new there is published and tagged by itself, oldest first, then the newest state: the
files at the git tag of a release are that release and the ones before it. Data files go up first, in commits
of bounded size; one last commit makes a state visible, moves the card and the Parquet copies along, and drops
what is not needed any more. A reader sees the old state or the new one. A push that was cut off is repeated:
what has arrived is not sent again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vrldata.errors import HubError, StoreError
from vrldata.hub_client import call, hub_api, repository_of, tags_of, tree_of
from vrldata.hub_layout import (
    RELEASES_FILE,
    RepositoryFile,
    as_mapping,
    is_data_file,
    parquet_files,
    releases_file,
    table_files,
)
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
        tags: releases whose git tag was set.
        deleted_files: paths that neither a release nor the newest state needs; the git history keeps them.
    """

    repo_id: str
    commit: str
    uploaded: int
    uploaded_bytes: int
    unchanged: int
    deleted: int
    tags: tuple[str, ...]
    deleted_files: tuple[str, ...] = ()


def push(
    dataset: Dataset, target: str, *, private: bool = False, release: str | None = None, force: bool = False
) -> PushReport:
    """Publish a local dataset with its releases at `hf://datasets/<org>/<name>`.

    Args:
        private: make the repository private if it has to be made; an existing one stays as it is.
        release: publish the state of this release as the newest one, with the releases before it; by default
            the present state with all releases.
        force: push although the repository holds releases that this dataset does not; they are dropped.

    Raises:
        HubError: the Hub refuses or cannot be reached, or the repository holds other releases.
        StoreError: the dataset is not local, or a file of it is missing. UriError: `target` or `release`.
    """
    repo_id, _ = repository_of(target)
    check_whole(dataset.uri, "push")
    what = f"push to {repo_id}"
    if not dataset.is_local:
        raise StoreError(f"{dataset.uri}: only a local dataset can be pushed; copy it to a disk first")
    releases, newest = _releases(dataset, release or dataset.release)
    api = hub_api()
    call(what, lambda: api.create_repo(repo_id, repo_type="dataset", private=private or None, exist_ok=True))
    tags = tags_of(api, repo_id, what)
    published = _published_releases(api, repo_id, what)
    _check_lineage(dataset, repo_id, published, tags, releases, force)
    sent: dict[str, RepositoryFile] = {}
    dropped: set[str] = set()

    def publish(listed: Sequence[Release], state: str | None) -> tuple[str, list[RepositoryFile]]:
        files = _state_files(dataset, listed, state, api, repo_id)
        head, new, stale = _upload(api, repo_id, files, what)
        sent.update({file.path: file for file in new})
        dropped.update(stale)
        return head, files

    moved = [one for one in releases if _is_to_tag(api, repo_id, one, tags, what)]
    for one in moved:
        head, files = publish(releases[: releases.index(one) + 1], one.name)
        _set_tag(api, repo_id, head, one, moves=one.name in tags, what=what)
    if not moved or moved[-1] != releases[-1] or not _is_state_of(dataset, releases[-1], newest):
        head, files = publish(releases, newest)
    for gone in sorted(tags.keys() - {one.name for one in releases}):
        call(what, lambda name=gone: api.delete_tag(repo_id, tag=name, repo_type="dataset"))  # type: ignore[misc]
    kept = {file.path for file in files}
    return PushReport(
        repo_id=repo_id,
        commit=head,
        uploaded=len(sent),
        uploaded_bytes=sum(file.size for file in sent.values()),
        unchanged=len(kept - sent.keys()),
        deleted=len(dropped - kept),
        tags=tuple(one.name for one in moved),
        deleted_files=tuple(sorted(dropped - kept)),
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


def _published_releases(api: HfApi, repo_id: str, what: str, revision: str = "main") -> dict[str, str]:
    """Digest of each release that the repository lists at a revision."""
    import json

    data = read_file(api, repo_id, RELEASES_FILE, revision, what)
    if data is None:
        return {}
    try:
        return {str(one["name"]): str(one["digest"]) for one in json.loads(data)}
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise HubError(f"{what}: {RELEASES_FILE} of the repository cannot be read: {error!r}") from error


def read_file(api: HfApi, repo_id: str, path: str, revision: str, what: str) -> bytes | None:
    """Content of a small file of a repository; None where it has no such file."""
    import tempfile
    from pathlib import Path

    from huggingface_hub.errors import EntryNotFoundError

    def read() -> bytes | None:
        with tempfile.TemporaryDirectory() as folder:
            try:
                file = api.hf_hub_download(
                    repo_id, path, repo_type="dataset", revision=revision, local_dir=folder
                )
            except EntryNotFoundError:
                return None
            return Path(file).read_bytes()

    return call(what, read)


def _check_lineage(
    dataset: Dataset,
    repo_id: str,
    published: Mapping[str, str],
    tags: Mapping[str, str],
    releases: Sequence[Release],
    force: bool,
) -> None:
    """Raises HubError where the push would lose or change a release that the repository holds."""
    from vrldata.releases import list_releases

    own = {one.name: one for one in releases}
    lost = sorted({*published, *tags} - own.keys())
    changed = [
        name
        for name, digest in published.items()
        if name in own and own[name].digest != digest and digest not in _digests_before(own[name])
    ]
    if not (lost or changed) or force:
        return
    here = {one.name for one in list_releases(dataset)}
    later = [name for name in lost if name in here]
    elsewhere = [name for name in lost if name not in later]
    parts = [f"releases that are not here: {', '.join(elsewhere)}"] if elsewhere else []
    parts += [f"releases that came after {releases[-1].name} here: {', '.join(later)}"] if later else []
    parts += [f"other content under the same names: {', '.join(changed)}"] if changed else []
    advice = "Pull it into another folder and look, or push with --force to replace it"
    if later == lost and not changed:
        advice = (
            f"`vrldata push {dataset.uri.location} hf://datasets/{repo_id}`, without a release, publishes "
            f"all; with --force {releases[-1].name} becomes the newest state and what came later is dropped"
        )
    raise HubError(f"push to {repo_id}: the repository holds {'; '.join(parts)}. {advice}")


def _digests_before(release: Release) -> set[str]:
    """Digests that the name stood for before it was moved."""
    found: set[str] = set()
    record: Any = release.replaced
    while record:
        found.add(str(record.get("digest", "")))
        record = record.get("replaced")
    return found


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


def _is_to_tag(api: HfApi, repo_id: str, release: Release, tags: Mapping[str, str], what: str) -> bool:
    """Whether a release has no git tag yet, or was moved since it got it."""
    if release.name not in tags:
        return True
    if not release.replaced:
        return False
    # only a release that was moved can differ from its tag; a push that was cut off may have left it so
    listed = _published_releases(api, repo_id, what, tags[release.name])
    return listed.get(release.name) != release.digest


def _set_tag(api: HfApi, repo_id: str, head: str, release: Release, *, moves: bool, what: str) -> None:
    """Set the git tag of a release to `head`."""
    if moves:
        call(what, lambda: api.delete_tag(repo_id, tag=release.name, repo_type="dataset"))
    call(
        what,
        lambda: api.create_tag(
            repo_id,
            tag=release.name,
            tag_message=release.message or None,
            revision=head,
            repo_type="dataset",
            exist_ok=True,
        ),
    )

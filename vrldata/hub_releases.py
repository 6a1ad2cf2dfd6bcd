"""The releases of a Hub repository: what it lists and tags, and whether a push would change one of them.

A release is its content digest. Commits and times of writing do not count: a release that is pushed again
stays where it is. Sending files is the work of `hub`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vrldata.errors import HubError
from vrldata.hub_client import call, tags_of
from vrldata.hub_layout import RELEASES_FILE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from huggingface_hub import HfApi

    from vrldata.dataset import Dataset
    from vrldata.releases import Release


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedReleases:
    """The releases that a repository holds.

    Attributes:
        listed: digest by name, as the newest state lists them.
        tags: commit by git tag.
        tagged: digest of a release in the files at its own tag; empty where they do not list it.
    """

    listed: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    tagged: Mapping[str, str] = field(default_factory=dict)

    def digests(self, name: str) -> set[str]:
        """What the repository holds under a name: more than one digest after a push that was cut off."""
        return {held[name] for held in (self.listed, self.tagged) if name in held}

    def is_tagged(self, release: Release) -> bool:
        """Whether the files at the release's tag are that release."""
        return self.tagged.get(release.name) == release.digest


def published_releases(api: HfApi, repo_id: str, releases: Sequence[Release], what: str) -> PublishedReleases:
    """What a repository holds; tags are looked into where their name is that of one of `releases`.

    Raises:
        HubError: the Hub refuses or cannot be reached, or a list of releases cannot be read.
    """
    tags = tags_of(api, repo_id, what)
    own = {one.name for one in releases}
    return PublishedReleases(
        listed=_listed(api, repo_id, "main", what),
        tags=tags,
        tagged={
            name: _listed(api, repo_id, commit, what).get(name, "")
            for name, commit in tags.items()
            if name in own
        },
    )


def _listed(api: HfApi, repo_id: str, revision: str, what: str) -> dict[str, str]:
    """Digest of each release that the repository lists at a revision."""
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


def check_lineage(
    dataset: Dataset, repo_id: str, published: PublishedReleases, releases: Sequence[Release]
) -> None:
    """Raises HubError where a push would drop or change a release that the repository holds."""
    from vrldata.releases import list_releases

    own = {one.name: one for one in releases}
    lost = sorted({*published.listed, *published.tags} - own.keys())
    changed = [one for one in releases if published.digests(one.name) - {one.digest}]
    if not (lost or changed):
        return
    here = {one.name for one in list_releases(dataset)}
    later = [name for name in lost if name in here]
    elsewhere = [name for name in lost if name not in later]
    anew = [one.name for one in changed if published.digests(one.name) <= {one.digest, *_digests_before(one)}]
    foreign = [one.name for one in changed if one.name not in anew]
    parts = [f"releases that are not here: {', '.join(elsewhere)}"] if elsewhere else []
    parts += [f"releases that came after {releases[-1].name} here: {', '.join(later)}"] if later else []
    parts += [f"other content under the same names: {', '.join(foreign)}"] if foreign else []
    parts += [f"what was released before under names made anew here: {', '.join(anew)}"] if anew else []
    advice = "Pull it into another folder and look, or push with --force to replace it"
    if later == lost and not changed:
        advice = (
            f"`vrldata push {dataset.uri.location} hf://datasets/{repo_id}`, without a release, publishes "
            f"all; with --force {releases[-1].name} becomes the newest state and what came later is dropped"
        )
    elif anew and not (lost or foreign):
        advice = (
            f"A push with --force moves the tag: hf://datasets/{repo_id}@{anew[0]} is other data from then "
            "on. Where others may read it already, leave it and release under a new name"
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


def set_tag(api: HfApi, repo_id: str, head: str, release: Release, *, moves: bool, what: str) -> None:
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

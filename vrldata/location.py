"""Reaching a dataset's tables where they lie: folders, storage options, and what a release pins.

Which table of which release is wanted is decided by `dataset`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from vrldata.errors import HubError, StoreError, UriError, nearest
from vrldata.uri import DatasetUri

if TYPE_CHECKING:
    import lance

    from vrldata.dataset import Dataset


def storage_options(uri: DatasetUri) -> dict[str, str]:
    """What Lance needs to reach a location, from the environment; credentials it reads by itself."""
    if uri.scheme == "hf":
        return {"hf_revision": uri.release} if uri.release else {}
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if uri.scheme == "s3" and endpoint:
        # a local S3 server speaks plain HTTP, which Lance refuses unless told
        return {"endpoint": endpoint, **({"allow_http": "true"} if endpoint.startswith("http://") else {})}
    return {}


def check_whole(uri: DatasetUri, what: str) -> None:
    """Raises UriError where a URI selects rows, for what is done with a dataset as a whole."""
    if uri != DatasetUri(uri.location, uri.release):
        raise UriError(f"{uri}: {what} takes the whole dataset: leave out ?filter, split and the like")


def check_location(uri: DatasetUri, root: str, samples_path: str, options: Mapping[str, str]) -> None:
    """Raises UriError where no dataset lies at `root`, or it cannot be reached, with what to do."""
    if not uri.is_local:
        _check_remote(uri, samples_path, options)
    elif not os.path.isdir(samples_path):
        if advice := _interrupted_pull(uri.location):
            raise UriError(f"{uri}: {advice}")
        there = "is a file, not the folder of a dataset" if os.path.exists(root) else "does not exist"
        what = "holds no dataset" if os.path.isdir(root) else there
        raise UriError(
            f"{uri}: {root} {what} (no data/samples.lance); make one with `vrldata build`, or check the path"
        )


def _check_remote(uri: DatasetUri, samples_path: str, options: Mapping[str, str]) -> None:
    try:
        open_table(uri, "samples", samples_path, options)
    except StoreError as error:
        if uri.scheme != "hf":
            raise UriError(f"{uri}: no dataset there: {error}") from error
        from vrldata.hub_client import check_published, scrubbed

        # Lance says neither what the Hub answered nor what to do
        try:
            check_published(uri)
        except HubError as refused:
            raise UriError(str(refused)) from None
        raise UriError(f"{uri}: cannot be opened: {scrubbed(str(error))}") from None


def open_table(uri: DatasetUri, table: str, path: str, options: Mapping[str, str]) -> lance.LanceDataset:
    """The newest version of the table at `path`.

    Raises:
        StoreError: unknown or missing table, or the location cannot be reached.
    """
    import lance

    from vrldata.commits import lance_message
    from vrldata.tables import schema

    schema(table)
    try:
        return lance.dataset(path, storage_options=dict(options) or None)
    except (OSError, ValueError, RuntimeError) as error:
        if "not found" in str(error).lower():
            if uri.is_local and (advice := _interrupted_pull(uri.location)):
                raise StoreError(f"{uri}: {advice}") from error
            raise StoreError(
                f"{uri}: table {table!r} is missing ({path}): `vrldata build` or vrldata.create makes it"
            ) from error
        raise StoreError(f"{path}: cannot be opened: {lance_message(error)}") from error


def _interrupted_pull(root: str) -> str:
    """What to do about a folder that lacks tables because a pull into it has not ended; empty for others."""
    from vrldata.hub_record import read_records

    try:
        pulls = [one for one in read_records(Path(root)).values() if not one.pushed]
    except HubError as error:
        return str(error)
    if not pulls:
        return ""
    source = DatasetUri(f"hf://datasets/{pulls[-1].repo_id}", pulls[-1].release)
    return f"the pull into it was interrupted; `vrldata pull {source} {root}` continues it"


def release_versions(releases: lance.LanceDataset, uri: DatasetUri) -> Mapping[str, int]:
    """Version of each table that the URI's release pins.

    On the Hub a git tag without a release row pins the revision alone: nothing is returned for it.

    Raises:
        UriError: the dataset has no such release.
    """
    rows = releases.to_table(columns=["name", "versions"]).to_pylist()
    found = {row["name"]: dict(row["versions"] or ()) for row in rows}
    release = uri.release or ""
    if release not in found and uri.scheme != "hf":
        known = ", ".join(found) or "none"
        raise UriError(f"{uri}: no release {release!r}.{nearest(release, found)} Releases: {known}.")
    return found.get(release, {})


def table_path(root: str, table: str) -> str:
    """Where a table of the dataset at `root` lies."""
    return f"{root}/data/{table}.lance"


def is_new(dataset: Dataset) -> bool:
    """Whether the tables are yet to be made, on this machine: then there is nothing to reuse for a build."""
    return dataset.is_local and not os.path.exists(dataset.table_path("frames"))


def has_version(table_path: str) -> bool:
    """Whether a local table was ever committed; a writer that died may leave a bare folder."""
    try:
        return any(entry.name.endswith(".manifest") for entry in os.scandir(f"{table_path}/_versions"))
    except OSError:
        return False


def make_folder(folder: Path) -> None:
    """Make a folder and its parents. Raises StoreError where that is not possible."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{folder}: cannot be made: {error.strerror or error}") from error

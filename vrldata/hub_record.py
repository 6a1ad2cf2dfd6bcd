"""What a folder has in common with repositories of the Hub: noted in it by `pull` and `push`.

A later pull tells from it what of the folder lies in the repository and what was written here since.
"""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from vrldata.errors import HubError, StoreError
from vrldata.hub_layout import RepositoryFile, newest_manifests

logger = logging.getLogger(__name__)

RECORD_FILE = ".cache/vrl-hub.json"
"""In the folder: one record a repository, the one written last at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HubRecord:
    """What a folder has in common with one repository.

    Attributes:
        commit: of the repository, whose state was pulled or pushed.
        release: which one was pulled; None for the newest state.
        manifests: digest by path of the manifests that came from the repository or went there.
        pushed: the folder was written here and pushed: a pull may add to it and do nothing else.
    """

    repo_id: str
    commit: str = ""
    release: str | None = None
    manifests: Mapping[str, str] = field(default_factory=dict)
    pushed: bool = False


def read_records(folder: Path) -> dict[str, HubRecord]:
    """Records of a folder by repository; none where it was never pulled or pushed.

    Raises:
        HubError: they cannot be read.
    """
    file = folder / RECORD_FILE
    if not file.is_file():
        return {}
    try:
        found = [
            HubRecord(**{**one, "manifests": dict(one["manifests"])}) for one in json.loads(file.read_bytes())
        ]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise HubError(f"{file}: cannot be read ({error}); pull into another folder") from error
    return {one.repo_id: one for one in found}


def write_record(folder: Path, record: HubRecord) -> None:
    """Put a record in the place of the one of its repository.

    Raises:
        StoreError: the folder cannot be written. HubError: what is there cannot be read.
    """
    from vrldata.rows_output import whole_file

    others = [one for one in read_records(folder).values() if one.repo_id != record.repo_id]
    with whole_file(folder / RECORD_FILE) as file:
        file.write(json.dumps([dataclasses.asdict(one) for one in (*others, record)], indent=1).encode())


def note_push(folder: Path, repo_id: str, commit: str, files: Collection[RepositoryFile]) -> None:
    """Note what a push has published. A folder that is as it was pulled goes on following the repository."""
    manifests = {file.path: file.digests()[0] for file in files if file.path.endswith(".manifest")}
    record = HubRecord(repo_id=repo_id, commit=commit, manifests=manifests, pushed=True)
    try:
        before = read_records(folder).get(repo_id, record)
        if before.pushed or not set(local_files(folder)) <= before.manifests.keys():
            write_record(folder, record)
    except (HubError, StoreError, OSError) as error:
        logger.warning(
            "%s: all is published, but later pulls into this folder will be refused: %s", folder, error
        )


def local_files(folder: Path, pattern: str = "*.lance/_versions/*.manifest") -> list[str]:
    """Paths of tables' files in a folder, manifests unless told, as a repository names them."""
    return sorted(file.relative_to(folder).as_posix() for file in folder.glob(f"data/{pattern}"))


def check_fast_forward(
    folder: Path, record: HubRecord, wanted: Collection[str], equal: Collection[str]
) -> None:
    """Check that a pull into a folder that was pushed would only add to it.

    Args:
        wanted: files of the repository; `equal` are those of them that are the same in the folder.

    Raises:
        HubError: a table's newest version was not pushed; or the repository lacks a release of the folder or
            has another one of its name, an older table, or another file under the name of one that is here.
    """
    here, there = newest_manifests(local_files(folder)), newest_manifests(wanted)
    unpushed = []
    for table, (_, path) in here.items():
        digests = RepositoryFile(path=path, source=folder / path).digests()
        if path not in equal and record.manifests.get(path) not in digests:
            unpushed.append(table)
    if unpushed:
        raise HubError(
            f"{folder}: holds changes of {', '.join(unpushed)} that were not pushed to {record.repo_id}; "
            "push them, or pull into another folder where the repository has gone on meanwhile"
        )
    tags = local_files(folder, "releases.lance/_refs/tags/*.json")
    other = [f"release {Path(path).stem}" for path in tags if path not in equal]
    other += [path for path in wanted if path not in equal and (folder / path).exists()]
    other += [f"table {table}" for table in here if there.get(table, (-1, ""))[0] < here[table][0]]
    if other:
        raise HubError(
            f"{folder}: was pushed to {record.repo_id}, which holds an older or another state now "
            f"({', '.join(other)}); choose another folder"
        )

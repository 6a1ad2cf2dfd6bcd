"""Calls to the Hugging Face Hub, and its errors as ours.

The token comes from HF_TOKEN or from the client's own store. It is given to the client and to nobody else: it
is cut out of every message before that becomes an error or a log line.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from vrldata.errors import HubError, UriError, nearest
from vrldata.uri import DatasetUri

if TYPE_CHECKING:
    from huggingface_hub import HfApi

logger = logging.getLogger(__name__)

ATTEMPTS = 4
"""Attempts of one call, where the Hub is overloaded or out of reach; the pause doubles from one second."""

_TOKEN = re.compile(r"\bhf_[A-Za-z0-9]{6,}\b|(?i:bearer\s+)\S+")
_XET_ROUTE = "/xet-write-token"
_SIGNATURE = re.compile(r"(?i)([?&](?:x-amz-[\w-]+|signature|token|key-pair-id|policy)=)[^&\s'\"]+")

ResultT = TypeVar("ResultT")


def repository_of(target: str | DatasetUri) -> tuple[str, str | None]:
    """(`org/name`, release) of a Hub URI.

    Raises:
        UriError: it is no Hub URI, or has a query.
    """
    uri = DatasetUri.parse(target)
    if uri.scheme != "hf":
        raise UriError(f"{target}: expected hf://datasets/<org>/<name>")
    if uri != DatasetUri(uri.location, uri.release):
        raise UriError(f"{target}: a repository is named without ?filter and the like")
    return uri.location.removeprefix("hf://datasets/"), uri.release


def hub_api() -> HfApi:
    """The client, for the endpoint that HF_ENDPOINT names now."""
    from huggingface_hub import HfApi
    from huggingface_hub.utils import disable_progress_bars

    # `vrldata.log.progress` counts files; a bar for each of them would run through it
    disable_progress_bars()
    return HfApi(endpoint=os.environ.get("HF_ENDPOINT") or None, library_name="vrl")


def call(what: str, function: Callable[[], ResultT]) -> ResultT:
    """The result of `function`, a call to the Hub; tried again where that may help.

    Args:
        what: the subject of an error message, such as `push to org/name`.

    Raises:
        HubError: the call failed for good.
    """
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    transport_error = _transport_error(HfHubHTTPError)
    for attempt in range(ATTEMPTS):
        try:
            return function()
        except HfHubHTTPError as error:
            if not _may_pass(error) or attempt == ATTEMPTS - 1:
                raise HubError(f"{what}: {_explain(error)}") from None
            logger.warning("%s: the Hub answered %s, trying again", what, error.response.status_code)
        except OfflineModeIsEnabled:
            raise HubError(f"{what}: HF_HUB_OFFLINE is set; unset it to reach the Hub") from None
        except transport_error as error:
            if attempt == ATTEMPTS - 1:
                raise HubError(f"{what}: the Hub cannot be reached: {scrubbed(str(error))}") from None
            logger.warning("%s: no connection, trying again: %s", what, scrubbed(str(error)))
        except (ValueError, OSError, RuntimeError) as error:
            # an upload that the Hub refuses arrives wrapped
            cause = error.__cause__
            why = f" {_explain(cause)}" if isinstance(cause, HfHubHTTPError) else ""
            if _XET_ROUTE in str(error):
                raise HubError(
                    f"{what}: this Hub does not store files by Xet; set HF_HUB_DISABLE_XET=1 and push again "
                    f"({scrubbed(_first_line(error))})"
                ) from None
            if not (why and _may_pass(cause)) or attempt == ATTEMPTS - 1:
                raise HubError(f"{what}: {scrubbed(_first_line(error))}{why}") from None
        time.sleep(2**attempt)
    raise AssertionError("unreachable")


def _transport_error(hub_error: type[Exception]) -> type[Exception]:
    """The class of failed connections in the HTTP library that the client is built on, whichever it is."""
    for kind in hub_error.__mro__:
        library = sys.modules[kind.__module__.partition(".")[0]]
        if hasattr(library, "TransportError"):
            found: type[Exception] = library.TransportError
            return found
    return ConnectionError


def scrubbed(text: str) -> str:
    """`text` without tokens and without signatures of download links.

    >>> scrubbed("Bearer hf_abcdefghij refused")
    '*** refused'
    """
    from huggingface_hub import get_token

    token = get_token()
    if token:
        text = text.replace(token, "***")
    return _SIGNATURE.sub(r"\1***", _TOKEN.sub("***", text))


def _may_pass(error: Any) -> bool:
    """Whether an error of the server may go away by itself: overload and outages, never refusals."""
    status = getattr(error.response, "status_code", 0)
    return status in (408, 425, 429) or status >= 500


def _explain(error: Any) -> str:
    """One line for an error of the Hub, with what to do."""
    from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

    status = getattr(error.response, "status_code", 0)
    if isinstance(error, RevisionNotFoundError):
        return "the repository has no such release"
    message = scrubbed(_first_line(getattr(error, "server_message", None) or error))
    if isinstance(error, RepositoryNotFoundError):
        return "no such dataset repository, or the token may not see it (set HF_TOKEN, or `hf auth login`)"
    if status == 401:
        return f"the token is missing or wrong (set HF_TOKEN, or `hf auth login`): {message}"
    if status == 403:
        return f"the Hub refuses this; the token needs write access to the namespace: {message}"
    if status == 409:
        return f"it exists already: {message}"
    if status == 412:
        return "somebody else pushed at the same time: pull, look, and push again"
    if status == 413:
        return f"a file is too large for the Hub: {message}"
    return f"the Hub answered {status}: {message}"


def _first_line(error: object) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def tags_of(api: HfApi, repo_id: str, what: str) -> dict[str, str]:
    """Tags of a repository with the commits that they name."""
    refs = call(what, lambda: api.list_repo_refs(repo_id, repo_type="dataset"))
    return {ref.name: ref.target_commit for ref in refs.tags}


def tree_of(api: HfApi, repo_id: str, revision: str, what: str) -> Sequence[Any]:
    """Entries of a repository at a revision, folders included."""
    return call(
        what,
        lambda: list(api.list_repo_tree(repo_id, recursive=True, revision=revision, repo_type="dataset")),
    )


def published_state(
    api: HfApi, repo_id: str, release: str | None, what: str
) -> tuple[str, Mapping[str, Any]]:
    """The commit of a release, or of the newest state, and its files by path.

    Raises:
        HubError: the Hub refuses or cannot be reached, there is no such release, or no dataset of this kind.
    """
    from vrldata.hub_layout import as_mapping

    tags = {} if release is None else tags_of(api, repo_id, what)
    revision = release if release in tags else "main"
    commit = str(call(what, lambda: api.repo_info(repo_id, repo_type="dataset", revision=revision)).sha)
    entries = as_mapping(tree_of(api, repo_id, commit, what))
    if not any(path.startswith("data/samples.lance/_versions/") for path in entries):
        raise HubError(
            f"{what}: the repository holds no vrl dataset yet (no data/samples.lance); if a push to it was "
            "cut off or failed, push again"
        )
    if release is not None and release not in tags:
        known = ", ".join(sorted(tags)) or "none"
        raise HubError(f"{what}: no release {release!r}.{nearest(release, tags)} Releases: {known}.")
    return commit, entries


def check_published(uri: DatasetUri) -> None:
    """Look why a dataset of the Hub cannot be opened.

    Raises:
        HubError: as `published_state`; nothing is raised where the repository and the release are there.
    """
    repo_id = uri.location.removeprefix("hf://datasets/")
    published_state(hub_api(), repo_id, uri.release, f"open {repo_id}")

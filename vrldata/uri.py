"""Where a dataset lies and which part of it is meant: `<location>[@<release>][?key=value&…]`.

Parsing and printing only. The single look at the world is `os.path.exists` on local paths, which decides
whether an `@` or a `?` belongs to a folder's name. Opening what a URI names is the work of `dataset`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

from vrldata.errors import UriError, nearest

SCHEMES = ("file", "s3", "gs", "az", "hf")
QUERY_KEYS = ("filter", "split", "limit", "shuffle", "columns")
LATEST = "latest"

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_RELEASE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,127}")
_HUB_LOCATION = re.compile(r"hf://datasets/[A-Za-z0-9._-]+/[A-Za-z0-9._-]+")
_HEX_PAIR = re.compile(r"%[0-9A-Fa-f]{2}")
_PRINTED_PLAIN = " '\"()[]<>=!,*/:;+-@?|^~$"
"""Characters of a query value that are printed as they are; the others of `quote`'s list are encoded."""


@dataclass(frozen=True, slots=True)
class DatasetUri:
    """A parsed dataset URI.

    Attributes:
        location: local path (`~` and `file://` resolved, otherwise as given), or `s3://…`, `gs://…`, `az://…`,
            `hf://datasets/<org>/<name>`; without a trailing slash.
        release: name of a release; None for the newest state.
        filter: SQL predicate on the table read.
        split: value of the column `split`.
        limit: most rows to read.
        shuffle: seed of the row order; None keeps the stored order.
        columns: columns to read; empty for all.
    """

    location: str
    release: str | None = None
    filter: str | None = None
    split: str | None = None
    limit: int | None = None
    shuffle: int | None = None
    columns: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str | os.PathLike[str] | DatasetUri) -> DatasetUri:
        """Read a URI.

        An `@` or `?` may be part of a local folder's name: the longest location that exists wins. Where
        nothing exists yet, the first `?` starts the query and the last `@` of the last path part the release.

        >>> DatasetUri.parse("s3://bucket/clips@v1?split=val&limit=10")
        DatasetUri(location='s3://bucket/clips', release='v1', filter=None, split='val', limit=10, \
shuffle=None, columns=())

        Raises:
            UriError: unknown scheme or key, bad value, or no location. The message shows the parse.
        """
        if isinstance(text, DatasetUri):
            return text
        given = os.fsdecode(text)
        if not given.strip():
            raise UriError(f"dataset URI {given!r} is empty: expected <location>[@<release>][?key=value&…]")
        if "\x00" in given:
            raise UriError(f"dataset URI {given!r} contains a NUL character")
        plain = given if isinstance(text, Path) else given.strip()
        location, release, query = _split(plain)
        shown = _parse_shown(location, release, query)
        return cls(
            location=_checked_location(location, plain, shown),
            release=_checked_release(release, plain, shown),
            **_query_fields(query, plain, shown),  # type: ignore[arg-type]
        )

    @property
    def scheme(self) -> str:
        """`file` for local paths, else `s3`, `gs`, `az` or `hf`."""
        found = _SCHEME.match(self.location)
        return found.group(1).lower() if found else "file"

    @property
    def is_local(self) -> bool:
        """Whether the location is a path on this machine."""
        return self.scheme == "file"

    def __str__(self) -> str:
        """A URI that `parse` reads as this one."""
        text = self.location
        if self.release is not None:
            text += f"@{self.release}"
        elif any(mark in text for mark in "@?"):
            text += f"@{LATEST}"
        pairs = [
            ("filter", self.filter),
            ("split", self.split),
            ("limit", self.limit),
            ("shuffle", self.shuffle),
            ("columns", ",".join(self.columns) or None),
        ]
        query = "&".join(f"{key}={_printed(str(value))}" for key, value in pairs if value is not None)
        return f"{text}?{query}" if query else text


def _split(text: str) -> tuple[str, str | None, str]:
    """Location, release text (None without an `@`) and query text of a URI."""
    scheme = _SCHEME.match(text)
    if scheme is None or scheme.group(1).lower() == "file":
        for end in _possible_ends(text):
            location = text[:end]
            if location and os.path.exists(_local_path(location)):
                rest, _, query = text[end:].partition("?")
                return location, rest[1:] if rest.startswith("@") else None, query
    left, _, query = text.partition("?")
    folder_end = left.rfind("/") + 1
    marker = left.rfind("@")
    # with nothing but a scheme and a bucket left of it, an @ is no release: s3://bucket@v1 has no prefix
    if marker < folder_end:
        return left, None, query
    return left[:marker], left[marker + 1 :], query


def _possible_ends(text: str) -> Iterator[int]:
    """Where the location may end, longest first: at the end, before a `?`, or before an `@`."""
    yield len(text)
    for index in range(len(text) - 1, -1, -1):
        if text[index] in "@?":
            yield index


def _local_path(location: str) -> str:
    if location[:7].lower() == "file://":
        host, slash, path = location[7:].partition("/")
        location = unquote(slash + path) if host.lower() in ("", "localhost") else ""
    return os.path.expanduser(location)


def _checked_location(location: str, given: str, shown: str) -> str:
    scheme = _SCHEME.match(location)
    if not location or (scheme and not location[scheme.end() :].strip("/") and location != "file:///"):
        raise UriError(f"dataset URI {given!r} names no location; {shown}")
    if scheme is None or scheme.group(1).lower() == "file":
        path = _local_path(location)
        if not path:
            raise UriError(f"dataset URI {given!r}: a file:// location takes three slashes: file:///folder")
        return path.rstrip("/") or "/"
    name = scheme.group(1).lower()
    if name not in SCHEMES:
        raise UriError(
            f"dataset URI {given!r}: unknown scheme {name!r}.{nearest(name, SCHEMES)}"
            f" Known: {', '.join(SCHEMES)}, or a plain path"
        )
    bare = f"{name}://{location[scheme.end() :].rstrip('/')}"
    if name == "hf" and not _HUB_LOCATION.fullmatch(bare):
        raise UriError(
            f"dataset URI {given!r}: a Hub location is hf://datasets/<org>/<name>, with @<release> behind"
            f" the name; {shown}"
        )
    return bare


def _checked_release(release: str | None, given: str, shown: str) -> str | None:
    if release is None or release == LATEST:
        return None
    if not _RELEASE.fullmatch(release):
        raise UriError(
            f"dataset URI {given!r}: {release!r} is no release name (letters, digits and . _ - +); {shown}"
        )
    return release


def _query_fields(query: str, given: str, shown: str) -> dict[str, object]:
    fields: dict[str, object] = {}
    for piece in _pieces(query):
        name, equals, value = piece.partition("=")
        key = unquote(name).strip()
        if key not in QUERY_KEYS:
            raise UriError(
                f"dataset URI {given!r}: unknown key {key!r}.{nearest(key, QUERY_KEYS)}"
                f" Known: {', '.join(QUERY_KEYS)}; {shown}"
            )
        if key in fields:
            raise UriError(f"dataset URI {given!r}: key {key!r} stands twice; {shown}")
        text = _decoded(value).strip()
        if not equals or not text:
            raise UriError(f"dataset URI {given!r}: key {key!r} has no value; {shown}")
        fields[key] = _query_value(key, text, given)
    return fields


def _query_value(key: str, text: str, given: str) -> object:
    if key in ("limit", "shuffle"):
        if not re.fullmatch(r"[0-9]{1,18}", text):
            raise UriError(f"dataset URI {given!r}: {key} takes a whole number from 0 on, found {text!r}")
        return int(text)
    if key == "columns":
        names = tuple(name.strip() for name in text.split(","))
        if not all(names):
            raise UriError(f"dataset URI {given!r}: columns takes names separated by commas, found {text!r}")
        return names
    return text


def _pieces(query: str) -> Iterator[str]:
    """The `key=value` pieces of a query; an `&` between single quotes is part of a value."""
    quoted = False
    balanced = query.count("'") % 2 == 0
    start = 0
    for index, character in enumerate(query):
        if character == "'" and balanced:
            quoted = not quoted
        elif character == "&" and not quoted:
            if query[start:index].strip():
                yield query[start:index]
            start = index + 1
    if query[start:].strip():
        yield query[start:]


def _decoded(value: str) -> str:
    """Percent-decoded text. A `%` that starts no hex pair stays, as in `LIKE 'a%'`."""
    return unquote(value) if _HEX_PAIR.search(value) else value


def _printed(value: str) -> str:
    return "".join(
        character if not character.isascii() and character.isprintable() else quote(character, _PRINTED_PLAIN)
        for character in value
    )


def _parse_shown(location: str, release: str | None, query: str) -> str:
    return f"read as location {location!r}, release {release!r}, query {query!r}"

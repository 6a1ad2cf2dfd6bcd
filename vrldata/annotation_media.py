"""Media fields of annotation rows: one path or many, relative to the video root, nothing that leaves it.

Only `existing` looks at the disk, and only when the caller asks for it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from vrldata.annotation_faults import RowFault
from vrldata.annotation_fields import is_python_text

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)(?:,[^:]*)?:")
_DRIVE = re.compile(r"[A-Za-z]:(?:[\\/]|$)")
_VARIABLE = re.compile(r"\$\{?[A-Za-z_]|%[A-Za-z_]+%")
_CONTROL = re.compile("[\x00-\x1f\x7f]")
_PLAIN = re.compile(r"(?:\./)?(\w[\w.=,()+-]*(?:/[\w=,()+-][\w.=,()+-]*)*)", re.ASCII)
"""Paths that need no look: plain characters, and no part that begins with a dot."""

# fmt: off
_PROTOCOLS = frozenset((
    "amqp", "async", "bluray", "cache", "concat", "concatf", "crypto", "data", "dash", "fd",
    "ffrtmpcrypt", "ffrtmphttp", "file", "ftp", "gopher", "gophers", "hls", "http", "httpproxy", "https",
    "icecast", "ipfs", "ipns", "libsmbclient", "md5", "mmsh", "mmst", "pipe", "prompeg", "rist", "rtmp",
    "rtmpe", "rtmps", "rtmpt", "rtmpte", "rtmpts", "rtp", "rtsp", "sctp", "sftp", "smb", "srt", "srtp",
    "subfile", "tcp", "tee", "tls", "udp", "udplite", "unix", "zmq", "lavfi", "javascript", "ssh",
))
# fmt: on
"""Names before a colon that FFmpeg (or a browser) takes for a protocol."""

# fmt: off
_MEDIA_ENDINGS = frozenset((
    ".mp4", ".mkv", ".webm", ".avi", ".mov", ".m4v", ".flv", ".wmv", ".mpg", ".mpeg", ".ts", ".3gp",
    ".gif", ".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff", ".mjpeg", ".ogv", ".h264", ".hevc",
    ".y4m", ".vob", ".mxf", ".avif",
))
# fmt: on
_PATH_KEYS = ("path", "video", "image", "video_path", "image_path", "file_name", "url")


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaRoot:
    """What media paths of a file are relative to.

    Attributes:
        root: absolute folder that no path may leave; None when the caller named none. Paths are then kept
            relative to `folder`, and may reach its neighbours but nothing above them.
        folder: absolute folder of the annotation file.
    """

    root: str | None
    folder: str

    @classmethod
    def of(cls, video_root: str | Path | None, folder: str | Path) -> MediaRoot:
        """The root for annotation files that lie in `folder`."""
        root = None if video_root is None else os.path.abspath(os.path.expanduser(video_root))
        return cls(root=root, folder=os.path.abspath(folder))

    def absolute(self, path: str) -> str:
        """Where a checked path lies."""
        return os.path.join(self.root or self.folder, path)


def media_paths(value: Any, field: str, root: MediaRoot) -> tuple[str, ...]:
    """The checked paths of a media field; empty for null and an empty list.

    Raises:
        RowFault: a null, an empty or an unsafe path, or something that is no path.
    """
    if value is None:
        return ()
    if isinstance(value, str) and value[:1] == "[":
        # a file name may begin with a bracket
        if is_python_text(value):
            text = "a Python list as text: write JSON, with double quotes, as json.dumps does"
            raise RowFault("bad_media_path", text, field=field, value=value)
        with contextlib.suppress(ValueError):
            value = json.loads(value)
    items = value if isinstance(value, list | tuple) else [value]
    return tuple(relative_path(_path_text(item, field, value), field, root) for item in items)


def _path_text(item: Any, field: str, whole: Any) -> str:
    if isinstance(item, Mapping):
        given = [item[key] for key in _PATH_KEYS if isinstance(item.get(key), str) and item[key]]
        if not given and item.get("bytes") is not None:
            raise RowFault(
                "embedded_media", "holds the media itself, not a path: save it as a file", field=field
            )
        if not given and not any(key in item for key in _PATH_KEYS):
            text = f"an object that names no path: expected a text, or one of {', '.join(_PATH_KEYS)}"
            raise RowFault("bad_media_path", text, field=field, value=whole)
        item = given[0] if given else None
    if item is None:
        raise RowFault("no_media", "a path is null", field=field, value=whole)
    if isinstance(item, list | tuple):
        raise RowFault(
            "bad_media_path",
            "a list inside the list: frames as files are not supported",
            field=field,
            value=whole,
        )
    if not isinstance(item, str):
        raise RowFault("bad_media_path", "expected a path as text", field=field, value=whole)
    return item


def relative_path(path: str, field: str, root: MediaRoot) -> str:
    """`path` relative to the root, with `/` between its parts, in Unicode form NFC, without `./`.

    Raises:
        RowFault: the path is empty, leaves the root, or is no plain path.
    """
    plain = _PLAIN.fullmatch(path)
    if plain:
        return plain.group(1)
    text, problem = _checked(path, root)
    if problem is not None:
        reason, why = problem
        raise RowFault(reason, why, field=field, value=path)
    return text


@lru_cache(maxsize=65536)
def _checked(path: str, root: MediaRoot) -> tuple[str, tuple[str, str] | None]:
    problem = _not_plain(path, root)
    if problem is not None:
        return "", problem
    normal = unicodedata.normalize("NFC", path)
    bases = [root.folder] if root.root is None else [root.root, root.folder]
    for base in bases:
        full = os.path.normpath(os.path.join(base, normal))
        if root.root is not None and _inside(full, root.root):
            return os.path.relpath(full, root.root), None
        if root.root is None and _inside(full, os.path.dirname(root.folder)) and not normal.startswith("/"):
            return os.path.relpath(full, root.folder), None
    where = root.root or os.path.dirname(root.folder)
    return "", ("outside_root", f"lies outside the video root {where}{_by_name(path)}")


def _inside(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")


def _by_name(path: str) -> str:
    ending = os.path.splitext(path)[1].lower()
    return "" if ending in _MEDIA_ENDINGS else ", and by its name is not a video or an image"


def _not_plain(path: str, root: MediaRoot) -> tuple[str, str] | None:
    """Reason code and text of what keeps `path` from being a plain relative path."""
    if not path.strip():
        return "no_media", "a path is empty"
    control = _CONTROL.search(path)
    if control:
        name = "NUL" if control.group() == "\x00" else f"U+{ord(control.group()):04X}"
        return "bad_media_path", f"a path with a control character ({name})"
    if path != path.strip():
        side = "leading" if path[0].isspace() else "trailing"
        return "bad_media_path", f"a path with a {side} space: remove it"
    if path.startswith("~"):
        return "bad_media_path", "a path that begins with ~ is not expanded: write it relative to the root"
    if _VARIABLE.search(path):
        names = _VARIABLE.search(path)
        shown = path if names is None else path[names.start() :].split("/")[0]
        return "bad_media_path", f"environment variables such as {shown} are not expanded in a path"
    if _DRIVE.match(path):
        return "bad_media_path", "a Windows path: write it relative to the root, with / between its parts"
    if "\\" in path:
        return "bad_media_path", "a backslash in a path: write / between its parts"
    return _protocol(path, root)


def _protocol(path: str, root: MediaRoot) -> tuple[str, str] | None:
    found = _SCHEME.match(path)
    if found is None:
        return None
    name = found.group(1).lower()
    is_url = path.startswith("//", found.end())
    if name == "file" and is_url:
        return (
            "bad_media_path",
            f"a file:// address instead of a path, perhaps outside the video root"
            f" {root.root or root.folder}: write it relative to the root",
        )
    if name not in _PROTOCOLS and not is_url:
        return None
    address = f"{name}://" if is_url else f"{name}:"
    return (
        "bad_media_path",
        f"the protocol {address} is not allowed in a path: download the file, name it relative to the root",
    )


def existing(path: str, field: str, root: MediaRoot) -> Path:
    """The file that a checked path names.

    Raises:
        RowFault: there is none, or something that is no file.
    """
    file = Path(root.absolute(path))
    try:
        if file.is_file():
            return file
    except OSError as error:
        # a name that is too long, or a folder that may not be entered
        text = f"cannot be looked up: {error.strerror or error}"
        raise RowFault("media_not_found", text, field=field, value=path) from error
    if os.path.lexists(file):
        kind = "a directory" if file.is_dir() else "a pipe or a device"
        if not file.exists():
            kind = "a symbolic link to nowhere"
        raise RowFault("media_not_found", f"{kind}, not a file", field=field, value=path)
    other = unicodedata.normalize("NFD", str(file))
    if other != str(file) and os.path.lexists(other):
        raise RowFault(
            "media_not_found",
            "not found in the Unicode form NFC; the disk spells the name in NFD: rename the file",
            field=field,
            value=path,
        )
    raise RowFault(
        "media_not_found", f"file not found under {root.root or root.folder}", field=field, value=path
    )


def data_type_of(given: Any, field: str | None, videos: bool, images: bool) -> str:
    """`video`, `image` or `text`: as given, else as the media say.

    Raises:
        RowFault: an unknown type, or one that contradicts the media.
    """
    inferred = "video" if videos else "image" if images else "text"
    if given is None or given == "":
        return inferred
    name = str(given).strip().casefold() if isinstance(given, str) else ""
    kind = _DATA_TYPES.get(name)
    if kind is None:
        raise RowFault(
            "unknown_data_type", f"unknown type {given!r}: expected video, image or text", field=field
        )
    if (kind == "image" and videos and not images) or (kind == "text" and (videos or images)):
        there = " and ".join(name for name, found in (("videos", videos), ("images", images)) if found)
        raise RowFault("media_mismatch", f"says {kind!r}, but the row has {there}", field=field)
    return kind


_DATA_TYPES = {
    "video": "video",
    "videos": "video",
    "image": "image",
    "images": "image",
    "multi-image": "image",
    "multi_image": "image",
    "text": "text",
    "none": "text",
}

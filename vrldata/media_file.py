"""What lies at a path before a decoder sees it: kind of file, plain faults, and the fingerprint of its
content.

Everything here reads bytes with `os` alone. A fault that can be told from the first bytes is told in plain
words, so that nobody has to read a decoder's guess about an HTML page.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
import struct
import unicodedata
from dataclasses import dataclass
from pathlib import Path

from vrldata.errors import DecodeError

HEAD_BYTES = 65536
"""Bytes from the start of a file that tell its kind."""

_MOOV_BYTES = 64 << 20
_ISO_BOXES = {
    b"ftyp",
    b"styp",
    b"moov",
    b"moof",
    b"mdat",
    b"free",
    b"skip",
    b"wide",
    b"pnot",
    b"sidx",
    b"uuid",
}
_OTHER_KINDS = {
    b"%PDF-": "a PDF document",
    b"PK\3\4": "a ZIP archive (unpack it)",
    b"Rar!\x1a\x07": "a RAR archive (unpack it)",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive (unpack it)",
    b"\x1f\x8b\x08": "a gzip archive (unpack it)",
    b"\x28\xb5\x2f\xfd": "a zstd archive (unpack it)",
    b"\xfd7zXZ\0": "an xz archive (unpack it)",
    b"BZh": "a bzip2 archive (unpack it)",
    b"\x93NUMPY": "a NumPy array",
    b"\x89HDF\r\n\x1a\n": "an HDF5 file",
    b"SQLite format 3\0": "an SQLite database",
    b"PAR1": "a Parquet table",
    b"ARROW1\0\0": "an Arrow table",
    b"\x7fELF": "a program",
}
_TEXT_LIKE = frozenset(range(0x20, 0x100)) | {9, 10, 13}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFingerprint:
    """What proves that a source is still the same.

    Attributes:
        source_bytes: size of the file.
        source_mtime_ns: time of the last change, nanoseconds since the epoch.
        source_digest: hex sha256 of the content.
    """

    source_bytes: int
    source_mtime_ns: int
    source_digest: str


def source_fingerprint(path: str | os.PathLike[str]) -> SourceFingerprint:
    """Size, time and content digest of the file at `path`, read once from start to end.

    Raises:
        DecodeError: not a readable regular file, or it changed while it was read.
    """
    file = find_media_file(path)
    with _open_regular(file) as stream:
        before = os.fstat(stream.fileno())
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
        after = os.fstat(stream.fileno())
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise DecodeError(f"{file}: the file changed while it was read; build again when it is complete")
    return SourceFingerprint(
        source_bytes=after.st_size, source_mtime_ns=after.st_mtime_ns, source_digest=digest
    )


def find_media_file(path: str | os.PathLike[str]) -> Path:
    """The existing file that `path` names, also where the disk spells it in another Unicode normal form."""
    file = Path(path)
    if not os.path.lexists(file):
        for form in ("NFC", "NFD"):
            other = Path(unicodedata.normalize(form, str(file)))  # type: ignore[arg-type]
            if os.path.lexists(other):
                return other
    return file


def read_head(file: Path) -> bytes:
    """The first bytes of a regular, readable, non-empty file that is no known kind of broken download.

    Raises:
        DecodeError: naming the file and what is there instead of a video or an image.
    """
    with _open_regular(file) as stream:
        head = stream.read(HEAD_BYTES)
        if not head:
            raise DecodeError(f"{file}: the file is empty (0 bytes): download it again")
        _refuse_other_kinds(file, head)
        _refuse_text(file, head)
        if head[4:8] in _ISO_BOXES:
            _check_boxes(file, stream)
    return head


def _open_regular(file: Path) -> io.BufferedReader:
    try:
        status = os.stat(file)
        if not stat.S_ISREG(status.st_mode):
            raise DecodeError(f"{file}: {_kind_of_node(status.st_mode)}, not a regular file")
        # a pipe that takes the place of the file after the check must not block the reader
        descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except FileNotFoundError as error:
        if os.path.islink(file):
            target = os.readlink(file)
            raise DecodeError(f"{file}: a symbolic link to {target}, which does not exist") from error
        raise DecodeError(f"{file}: no such file") from error
    except (OSError, ValueError) as error:
        raise DecodeError(f"{file}: cannot be read: {error}") from error
    stream = os.fdopen(descriptor, "rb")
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        stream.close()
        raise DecodeError(f"{file}: {_kind_of_node(mode)}, not a regular file")
    return stream


def _kind_of_node(mode: int) -> str:
    kinds = {
        stat.S_IFDIR: "a directory",
        stat.S_IFIFO: "a named pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return kinds.get(stat.S_IFMT(mode), "a special file")


def _refuse_other_kinds(file: Path, head: bytes) -> None:
    # a decoder would look for pictures inside them, and may find some
    for magic, kind in _OTHER_KINDS.items():
        if head.startswith(magic):
            raise DecodeError(f"{file}: {kind}, not a video or an image")


def _refuse_text(file: Path, head: bytes) -> None:
    if head.startswith(b"version https://git-lfs"):
        raise DecodeError(f"{file}: a Git LFS pointer, not the video itself: run `git lfs pull`")
    if b"/annex/objects/" in head[:512]:
        raise DecodeError(f"{file}: a git-annex pointer, not the video itself: run `git annex get`")
    start = head[:1024].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith((b"<!doctype html", b"<html", b"<head", b"<body")):
        raise DecodeError(f"{file}: an HTML page, not a video (a failed download): fetch it again")
    if start.startswith((b"<?xml", b"<error")) and b"<svg" not in head:
        raise DecodeError(f"{file}: an XML document, not a video (a failed download?): fetch it again")
    if _is_text(head):
        raise DecodeError(f"{file}: a text file that begins with {head[:40]!r}, not a video or an image")


def _is_text(head: bytes) -> bool:
    if not all(byte in _TEXT_LIKE for byte in head[:4096]):
        return False
    try:
        # a multi-byte character may be cut at the end of what was read
        head[: max(len(head) - 4, 1)].decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _check_boxes(file: Path, stream: io.BufferedReader) -> None:
    """Walk the top level of an ISO base media file (ISO/IEC 14496-12): is there an index, and is it in the
    clear?"""
    size = os.fstat(stream.fileno()).st_size
    offset, found = 0, set()
    while offset + 8 <= size:
        stream.seek(offset)
        header = stream.read(16)
        (length,), name = struct.unpack(">I", header[:4]), header[4:8]
        header_bytes = 8
        if length == 1 and len(header) == 16:
            (length,) = struct.unpack(">Q", header[8:16])
            header_bytes = 16
        elif length == 0:
            length = size - offset
        if length < header_bytes:
            break
        found.add(name)
        if name == b"moov":
            if offset + length > size:
                raise DecodeError(
                    f"{file}: its moov box (the index) claims {length} bytes, {size - offset} are there: "
                    "the file is cut or damaged"
                )
            _refuse_encrypted(file, stream, offset, length)
        offset += length
    # a still picture of this family (AVIF, HEIF) has its index in `meta`
    if not found & {b"moov", b"moof", b"meta"}:
        raise DecodeError(
            f"{file}: moov atom not found: the recording or the download was interrupted, "
            "or a box size is damaged"
        )


def _refuse_encrypted(file: Path, stream: io.BufferedReader, offset: int, length: int) -> None:
    stream.seek(offset)
    moov = stream.read(min(length, _MOOV_BYTES))
    if b"encv" in moov and b"sinf" in moov:
        raise DecodeError(
            f"{file}: the video is encrypted (Common Encryption): it cannot be decoded without its key"
        )

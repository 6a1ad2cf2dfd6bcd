"""The bytes of an annotation file: decompressed by what the file holds, not by its name.

Formats are told apart here by their first bytes; reading them is the work of `annotation_files`.
"""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from vrldata.annotation_faults import FileFault

BLOCK_BYTES = 1 << 20
GZIP, ZSTD, PARQUET = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PAR1"
_OTHER_CONTAINERS = {
    b"PK\x03\x04": "a zip archive: unpack it first",
    b"BZh": "compressed with bzip2: decompress it, or use gzip or zstd",
    b"\xfd7zXZ": "compressed with xz: decompress it, or use gzip or zstd",
    b"ARROW1": "an Arrow file: save it as Parquet",
    b"\x93NUMPY": "a numpy file: save the rows as JSON Lines or Parquet",
    b"\x80\x04": "a Python pickle, which is never opened: save the rows as JSON Lines or Parquet",
    b"\x80\x05": "a Python pickle, which is never opened: save the rows as JSON Lines or Parquet",
    b"SQLite format 3": "an SQLite database: export the rows as JSON Lines or Parquet",
    b"version https://git-lfs": "a Git LFS pointer, not the data: run git lfs pull",
    b"<!DOCTYPE": "an HTML page, perhaps an error page of a download: fetch the file again",
    b"<html": "an HTML page, perhaps an error page of a download: fetch the file again",
}
_COMPRESSED_ENDINGS = {".gz": GZIP, ".zst": ZSTD, ".zstd": ZSTD}


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFile:
    """An annotation file whose first decompressed bytes are known.

    Attributes:
        head: the first decompressed bytes, at least 64 KiB where the file has them.
        blocks: all decompressed bytes, `head` included.
        ending: the file name's last ending without the compression's, in lower case, such as `.jsonl`.
        notice: something to tell although the file can be read.
    """

    head: bytes
    blocks: Iterator[bytes]
    ending: str
    notice: str | None


def open_blocks(path: Path, stream: BinaryIO) -> OpenFile:
    """Look at an open file and decompress it as its first bytes ask for.

    Raises:
        FileFault: empty, an unknown container, or text that is not UTF-8.
    """
    start = stream.read(16)
    stream.seek(0)
    if not start:
        raise FileFault("empty_file", "the file is empty (0 bytes)")
    suffixes = [suffix.lower() for suffix in path.suffixes]
    claimed = _COMPRESSED_ENDINGS.get(suffixes[-1] if suffixes else "")
    ending = suffixes[-2] if claimed and len(suffixes) > 1 else suffixes[-1] if suffixes else ""
    notice = None
    if start.startswith(GZIP):
        blocks = _gunzipped(stream)
    elif start.startswith(ZSTD):
        blocks = _unzstd(stream)
    else:
        blocks = iter(lambda: stream.read(BLOCK_BYTES), b"")
        if claimed:
            notice = f"named {suffixes[-1]}, but its content is not compressed; read as it is"
    head, blocks = _with_head(blocks)
    if not head:
        raise FileFault("empty_file", "the file is empty once it is decompressed")
    _refuse_other_containers(head)
    _refuse_other_encodings(head)
    return OpenFile(head=head, blocks=blocks, ending=ending, notice=notice)


def is_csv(file: OpenFile) -> bool:
    """Whether a text file is a table of cells: its name says so, and it does not begin as JSON does."""
    text = file.head.removeprefix(codecs.BOM_UTF8)[:65536].lstrip()
    return file.ending in (".csv", ".tsv") and text[:1] not in (b"{", b"[")


def _with_head(blocks: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    taken: list[bytes] = []
    size = 0
    for block in blocks:
        taken.append(block)
        size += len(block)
        if size >= 1 << 16:
            break
    head = b"".join(taken)

    def joined() -> Iterator[bytes]:
        yield head
        yield from blocks

    return head, joined()


def _refuse_other_containers(head: bytes) -> None:
    for magic, what in _OTHER_CONTAINERS.items():
        if head.startswith(magic):
            raise FileFault("unknown_format", f"the file is {what}")


def _refuse_other_encodings(head: bytes) -> None:
    if head.startswith((b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff")):
        name = "UTF-32"
    elif head.startswith((b"\xff\xfe", b"\xfe\xff")):
        name = "UTF-16"
    elif not head.startswith(PARQUET) and b"\x00" in head[:2] and any(head[:2]):
        name = "UTF-16 without a byte order mark"
    else:
        return
    raise FileFault(
        "encoding", f"the text is in {name}: save the file with the encoding UTF-8 (without BOM)", line=1
    )


def _gunzipped(stream: BinaryIO) -> Iterator[bytes]:
    try:
        with gzip.GzipFile(fileobj=stream) as file:
            while block := file.read(BLOCK_BYTES):
                yield block
    except EOFError as error:
        raise FileFault("truncated_file", "the gzip data is truncated (incomplete): copy it again") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise FileFault("damaged_file", f"the gzip data is damaged: {error}") from error


def _unzstd(stream: BinaryIO) -> Iterator[bytes]:
    import zstandard

    try:
        decoder = zstandard.ZstdDecompressor().decompressobj()
        rest = b""
        # small pieces, since a piece of compressed zeros may grow ten thousandfold
        while piece := rest or stream.read(1 << 14):
            rest = b""
            if block := decoder.decompress(piece):
                yield block
            if decoder.eof:
                rest = decoder.unused_data or stream.read(1 << 14)
                if not rest:
                    return
                decoder = zstandard.ZstdDecompressor().decompressobj()
        raise FileFault("truncated_file", "the zstd data is truncated (incomplete): copy it again")
    except zstandard.ZstdError as error:
        raise FileFault("damaged_file", f"the zstd data is damaged: {error}") from error


class BlockReader(io.RawIOBase):
    """Blocks of bytes as a raw stream, for readers that want a file."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        while not self._rest:
            block = next(self._blocks, None)
            if block is None:
                return 0
            self._rest = block
        taken = self._rest[: len(buffer)]
        buffer[: len(taken)] = taken
        self._rest = self._rest[len(taken) :]
        return len(taken)

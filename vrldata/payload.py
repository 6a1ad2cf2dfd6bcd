"""Bytes of a row of `frames`: a map of their file, or Lance's reads of them.

Which row, and what its bytes mean, is the work of `store` and `codecs`.
"""

from __future__ import annotations

import errno
import mmap
import os
import resource
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from vrldata.codecs import Buffer
from vrldata.errors import StoreError
from vrldata.tables import PAYLOAD_COLUMN

if TYPE_CHECKING:
    import numpy as np
    from lance import LanceDataset
    from numpy.typing import NDArray

T = TypeVar("T")

DEDICATED_KIND = 2
"""Lance's descriptor kind of a payload that has a file to itself."""

EXTERNAL_KIND = 3
"""Lance's descriptor kind of a payload that lies anywhere else, at an address that the row names."""


FILLED_BYTES = 16 << 20
"""Payloads up to which a read into a buffer is quicker than a copy from a map with its page table."""


class PayloadFiles:
    """Finds the files of payloads that have one to themselves, in a table on a local disk.

    Args:
        make_room: called where no file can be opened any more: closes what can be spared.
    """

    def __init__(self, table: LanceDataset, make_room: Callable[[], None]) -> None:
        self._table, self._make_room = table, make_room
        self._folders: dict[int, str | None] = {}

    def _open(self, address: int, descriptor: dict[str, Any]) -> int | None:
        """A descriptor of the file, which the caller closes; None where it is not where Lance puts it now."""
        if descriptor["kind"] != DEDICATED_KIND:
            return None
        fragment = address >> 32
        if fragment not in self._folders:
            self._folders[fragment] = self._folder(fragment)
        folder = self._folders[fragment]
        if folder is None:
            return None
        blob_id = descriptor["blob_id"]
        # the name is internal to Lance and has changed between releases: the size tells whether it is right
        for name in (format(blob_id, "032b")[::-1], format(blob_id, "08x")):
            path = f"{folder}/{name}.blob"
            try:
                file = self._with_room(partial(os.open, path, os.O_RDONLY | os.O_CLOEXEC))
            except FileNotFoundError:
                continue
            if os.fstat(file).st_size == descriptor["size"]:
                return file
            os.close(file)
        return None

    def map(self, address: int, descriptor: dict[str, Any], *, whole: bool) -> mmap.mmap | None:
        """The file as a read-only map, with `whole` all pages at once; None where there is no such file.

        Raises:
            StoreError: the file cannot be opened, or too many are open: each map holds one.
        """
        file = self._open(address, descriptor)
        if file is None:
            return None
        size, flags = descriptor["size"], mmap.MAP_SHARED | (getattr(mmap, "MAP_POPULATE", 0) if whole else 0)
        try:
            return self._with_room(partial(mmap.mmap, file, size, flags=flags, prot=mmap.PROT_READ))
        finally:
            os.close(file)

    def fill(self, address: int, descriptor: dict[str, Any], out: NDArray[np.uint8]) -> bool:
        """Read the whole file into `out`, flat bytes of its size; False where there is no such file.

        Raises:
            StoreError: the file ends early.
        """
        file = self._open(address, descriptor)
        if file is None:
            return False
        try:
            view, offset = out.data, 0
            while view:
                count = os.preadv(file, [view], offset)
                if not count:
                    raise StoreError("the payload's file is shorter than its row says: damaged")
                view, offset = view[count:], offset + count
        finally:
            os.close(file)
        return True

    def _with_room(self, call: Callable[[], T]) -> T:
        """What `call` gives; where too many files are open, once there is room for more.

        Raises:
            StoreError: it fails all the same. FileNotFoundError.
        """
        remedies = [_raise_limit, self._make_room]
        while True:
            try:
                return call()
            except FileNotFoundError:
                raise
            except OSError as error:
                if error.errno != errno.EMFILE:
                    raise StoreError(f"payload cannot be read: {error.strerror}") from error
                if not remedies:
                    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
                    raise StoreError(
                        f"too many open files ({limit}), and each raw clip that is held is one: hold fewer "
                        "clips, or raise `ulimit -n`"
                    ) from error
            remedies.pop(0)()

    def _folder(self, fragment_id: int) -> str | None:
        """Folder beside the data file that holds the payload column of a fragment."""
        fragment = self._table.get_fragment(fragment_id)
        if fragment is None:
            return None
        field_id = self._table.lance_schema.field(PAYLOAD_COLUMN).id()
        for file in fragment.data_files():
            if field_id in file.fields:
                return f"{self._table.uri}/data/{file.path.rsplit('.', 1)[0]}"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """Bytes of one row: a map of its file, or Lance's reads of it.

    Attributes:
        size: bytes of the payload.
        view: the map, None where Lance reads.
    """

    size: int
    view: mmap.mmap | None = None
    table: LanceDataset | None = None
    address: int = 0

    def read(self, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        """One buffer for each (offset, length); views where the file is mapped.

        Raises:
            StoreError: the bytes cannot be read.
        """
        if self.view is not None:
            if list(ranges) == [(0, self.size)]:
                return [self.view]
            window = memoryview(self.view)
            return [window[offset : offset + length] for offset, length in ranges]
        assert self.table is not None
        from vrldata.commits import lance_message

        try:
            if list(ranges) == [(0, self.size)]:
                return [self.table.read_blobs(PAYLOAD_COLUMN, addresses=[self.address])[0][1]]
            parts = self.table.read_blob_ranges(
                PAYLOAD_COLUMN,
                [(self.address, offset, length) for offset, length in ranges],
                selector="addresses",
                preserve_order=True,
            )
        except (OSError, ValueError, RuntimeError) as error:
            raise StoreError(f"payload cannot be read: {lance_message(error)}") from error
        return [part for _, _, part in parts]


def _raise_limit() -> None:
    """Let this process open as many files as it may set for itself."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

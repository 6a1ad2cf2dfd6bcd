"""The decoded text of a JSON file, read piece by piece, with the line of every offset: `JsonText`.

Which rows lie in it is the work of `annotation_json_files`.
"""

from __future__ import annotations

import codecs
import re
from typing import Any

from vrldata.annotation_blocks import OpenFile
from vrldata.annotation_faults import FileFault, RowFault
from vrldata.annotation_json import JsonSyntaxError, decode_value

DROP_CHARS = 1 << 20
MAX_ROW_CHARS = 64 << 20

BLANK = re.compile(r"\s*")


class JsonText:
    """Decoded text that grows as it is needed, with the line number of its start."""

    def __init__(self, file: OpenFile) -> None:
        self._blocks = file.blocks
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self.buffer = ""
        self.complete = False
        self._counted, self._line = 0, 1
        self.more()
        self.buffer = self.buffer.removeprefix("\ufeff")
        self.newline = "\r" if "\r" in self.buffer and "\n" not in self.buffer else "\n"

    def more(self) -> bool:
        """Read a further piece, as long as what is there, at least a block; whether there was one."""
        wanted, pieces, size = len(self.buffer), [self.buffer], 0
        while not self.complete and size <= wanted:
            block = next(self._blocks, None)
            self.complete = block is None
            piece = self._decoder.decode(block or b"", final=self.complete)
            pieces.append(piece)
            size += len(piece)
        self.buffer = "".join(pieces)
        return size > 0

    def drop_before(self, offset: int) -> int:
        """Forget text before `offset` where that pays; the offset in what is left."""
        if offset < DROP_CHARS:
            return offset
        self.line_at(offset)
        self.buffer = self.buffer[offset:]
        self._counted = 0
        return 0

    def line_at(self, offset: int) -> int:
        """Line number of an offset; counted on from the last one that was asked for."""
        if offset < self._counted:
            return self._line - self.buffer.count(self.newline, offset, self._counted)
        self._line += self.buffer.count(self.newline, self._counted, offset)
        self._counted = offset
        return self._line

    def skip_blanks(self, offset: int) -> int | None:
        """The offset of the next character that is no blank; None at the end of the file."""
        while True:
            found = BLANK.match(self.buffer, offset)
            offset = found.end() if found else offset
            if offset < len(self.buffer):
                return offset
            if not self.more():
                return None

    def value(self, offset: int) -> tuple[Any, int, RowFault | None]:
        """The JSON value at `offset`; reads on while it is not complete."""
        while True:
            try:
                return decode_value(self.buffer, offset)
            except JsonSyntaxError as error:
                if len(self.buffer) - offset > MAX_ROW_CHARS:
                    raise FileFault(
                        "too_large",
                        f"a value is longer than {MAX_ROW_CHARS >> 20} MiB, or is never closed",
                        line=self.line_at(offset),
                    ) from error
                if not error.incomplete or not self.more():
                    raise

"""Which coded pictures no other picture leans on, read from their headers: H.264 and HEVC.

Such a picture can be left out without a trace in any other. The rules: in H.264 a slice with nal_ref_idc 0
is not used for reference (ITU-T H.264, 7.4.1); in HEVC a sub-layer non-reference picture is not used within
its own sub-layer (ITU-T H.265, 7.4.2.2), so that it is used nowhere where the stream has one sub-layer
only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_H264_SLICES = range(1, 6)
_H264_EXTENSIONS = (14, 20, 21)
_HEVC_SLICES = range(32)
_HEVC_UNREFERENCED = (0, 2, 4, 6, 8, 10, 12, 14)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceReader:
    """Reads the headers of the units of a packet.

    Attributes:
        codec: `h264`, `hevc`, or empty where nothing can be told.
        length_bytes: of the length before each unit; 0 where start codes separate them.
    """

    codec: str = ""
    length_bytes: int = 0

    @classmethod
    def of(cls, context: Any) -> ReferenceReader:
        """The reader for packets of this codec context."""
        extradata = bytes(context.extradata or b"")
        if context.name == "h264":
            in_units = extradata[:1] == b"\1" and len(extradata) > 6
            return cls(codec="h264", length_bytes=(extradata[4] & 3) + 1 if in_units else 0)
        # the record of an HEVC track counts its temporal layers; elsewhere they are unknown
        if (
            context.name == "hevc"
            and extradata[:1] == b"\1"
            and len(extradata) > 22
            and extradata[21] >> 3 & 7 == 1
        ):
            return cls(codec="hevc", length_bytes=(extradata[21] & 3) + 1)
        return cls()

    def is_unreferenced(self, packet: Any) -> bool:
        """Whether every slice of the packet says that no other picture uses it."""
        if not self.codec or packet.is_keyframe:
            return False
        seen = False
        for header in self._unit_headers(bytes(packet)):
            if self.codec == "h264":
                kind = header & 31
                is_slice, is_used = kind in _H264_SLICES, header >> 5 & 3 != 0 or kind in _H264_EXTENSIONS
                is_slice = is_slice or kind in _H264_EXTENSIONS
            else:
                kind = header >> 1 & 63
                is_slice, is_used = kind in _HEVC_SLICES, kind not in _HEVC_UNREFERENCED
            if is_slice:
                if is_used:
                    return False
                seen = True
        return seen

    def _unit_headers(self, data: bytes) -> Iterator[int]:
        """First byte of each unit."""
        if not self.length_bytes:
            offset = data.find(b"\0\0\1")
            while 0 <= offset < len(data) - 3:
                yield data[offset + 3]
                offset = data.find(b"\0\0\1", offset + 3)
            return
        offset = 0
        while offset + self.length_bytes < len(data):
            start = offset + self.length_bytes
            yield data[start]
            offset = start + int.from_bytes(data[offset:start], "big")

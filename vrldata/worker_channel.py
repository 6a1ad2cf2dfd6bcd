"""Messages and file descriptors between a decode pool and its worker processes: JSON over a Unix socket pair.

Pixels do not travel: a worker writes them into memory that has a descriptor, and the descriptor is passed.
Nothing is pickled.
"""

from __future__ import annotations

import json
import mmap
import os
import socket
import struct
import tempfile
from collections import deque
from typing import Any

_LENGTH = struct.Struct("!I")
_MAX_DESCRIPTORS = 8
_READ_BYTES = 1 << 16


class ChannelClosed(Exception):  # noqa: N818 - a state of the channel, not a fault
    """The process at the other end is gone."""


class Channel:
    """One end of a socket pair that carries framed JSON messages, each with at most one descriptor."""

    def __init__(self, endpoint: socket.socket) -> None:
        self.endpoint = endpoint
        self._bytes = bytearray()
        self._descriptors: deque[int] = deque()

    def send(self, message: dict[str, Any], descriptor: int | None = None) -> None:
        """Send one message.

        Raises:
            ChannelClosed: nobody is there to read it.
        """
        body = json.dumps(message).encode()
        data = _LENGTH.pack(len(body)) + body
        try:
            sent = 0
            if descriptor is not None:
                sent = socket.send_fds(self.endpoint, [data], [descriptor])
            self.endpoint.sendall(data[sent:])
        except OSError as error:
            raise ChannelClosed from error

    def read(self) -> None:
        """Take in what has arrived; blocks where nothing has.

        Raises:
            ChannelClosed: the other end is gone.
        """
        try:
            data, descriptors, _, _ = socket.recv_fds(self.endpoint, _READ_BYTES, _MAX_DESCRIPTORS)
        except OSError as error:
            raise ChannelClosed from error
        self._descriptors.extend(descriptors)
        if not data:
            raise ChannelClosed
        self._bytes += data

    def next_message(self) -> tuple[dict[str, Any], int | None] | None:
        """The next message and its descriptor, which the caller closes; None while it is incomplete."""
        if len(self._bytes) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._bytes)
        end = _LENGTH.size + length
        if len(self._bytes) < end:
            return None
        message = json.loads(self._bytes[_LENGTH.size : end])
        del self._bytes[:end]
        return message, self._descriptors.popleft() if message.get("descriptor") else None

    def receive(self) -> tuple[dict[str, Any], int | None]:
        """Wait for the next message."""
        while True:
            found = self.next_message()
            if found is not None:
                return found
            self.read()

    def close(self) -> None:
        """Close this end and what was received but not taken."""
        self.endpoint.close()
        while self._descriptors:
            os.close(self._descriptors.popleft())


def shared_memory(size: int) -> tuple[int, mmap.mmap]:
    """A descriptor of `size` bytes without a name, and a writable map of it: gone when its last holder is."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("vrl-frames", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, size)
    # all of it is going to be written: one call for its pages costs less than a fault for each
    flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
    return descriptor, mmap.mmap(descriptor, size, flags=flags)

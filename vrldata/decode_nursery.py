"""The process that decoders are forked from: it imports their libraries once and starts no thread.

Started as `python -m vrldata.decode_nursery DESCRIPTOR OPTIONS` by `decode_process`, which alone talks to it.
Decoders thus start in a hundredth of a second and share the memory of what was imported. What a decoder does
is in `decode_worker`.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import sys
import traceback
from typing import Any

from vrldata.decode_worker import import_libraries, serve
from vrldata.worker_channel import Channel, ChannelClosed


def main() -> None:
    """Serve the process whose socket is the first argument, until it is gone."""
    channel = Channel(socket.socket(fileno=int(sys.argv[1])))
    import_libraries(**json.loads(sys.argv[2]))
    # collections would copy the pages that decoders share
    gc.freeze()
    workers: dict[int, int] = {}
    try:
        channel.send({"kind": "up"})
        while True:
            message, descriptor = channel.receive()
            answer = _answer(message, descriptor, channel, workers)
            if answer is not None:
                channel.send(answer)
    except ChannelClosed:
        return


def _answer(
    message: dict[str, Any], descriptor: int | None, channel: Channel, workers: dict[int, int]
) -> dict[str, Any] | None:
    """Do what is asked for one worker; None where nobody waits for a word."""
    number = message["number"]
    if message["kind"] == "fork" and descriptor is not None:
        try:
            workers[number] = _fork(channel, descriptor)
        except OSError as error:
            sys.stderr.write(f"no process could be started: {error.strerror}\n")
            sys.stderr.flush()
        finally:
            os.close(descriptor)
    elif message["kind"] == "process_id":
        return {"process_id": workers.get(number)}
    elif message["kind"] == "end":
        return {"code": _end(workers.pop(number)) if number in workers else None}
    elif message["kind"] == "drop" and number in workers:
        _end(workers.pop(number))
    return None


def _fork(channel: Channel, descriptor: int) -> int:
    """The process id of a decoder that serves the socket `descriptor`."""
    process_id = os.fork()
    if process_id:
        return process_id
    try:
        channel.close()
        os.setsid()
        serve(Channel(socket.socket(fileno=descriptor)))
    finally:
        # whatever ended it is told, and nothing of the nursery goes on in the fork
        traceback.print_exc()
        os._exit(1)


def _end(process_id: int) -> int:
    """Kill a decoder where it still runs, and how it ended: its code, negative for a signal."""
    ended, status = os.waitpid(process_id, os.WNOHANG)
    if not ended:
        os.kill(process_id, signal.SIGKILL)
        _, status = os.waitpid(process_id, 0)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    main()

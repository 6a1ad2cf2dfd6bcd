"""Program of a scorer's child: `python -m vrldata.tasks.worker_main MODULE MEMORY_BYTES SOCKET [ARGUMENT]`.

Imports the module, says so on the socket, and then answers each message there, which brings two pipes, with
a fork of itself. A fork reads one JSON request a line from the first pipe and writes one JSON reply a line
to the second, in order; it ends when the first does. This process ends with its socket.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import resource
import signal
import socket
import sys
from types import ModuleType

_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


def main(module_name: str, memory_bytes: int, control: socket.socket, argument: str | None = None) -> None:
    """Make forks that serve `handle` of a module, until the socket closes.

    Args:
        memory_bytes: address space of each process; 0 for no limit.
        argument: for the module's `prepare`, where it has something to load first.
    """
    if memory_bytes:
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    module = importlib.import_module(module_name)
    missing = module.missing_library() if argument is None else module.prepare(argument)
    control.send(json.dumps({"missing": missing}).encode())
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended forks leave nothing to wait for
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 16, 2)
        if not message:
            return
        child = os.fork()
        if child == 0:
            control.close()
            _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # whatever it waits for when the client is gone
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            serve(module, *descriptors)
            os._exit(0)
        for descriptor in descriptors:
            os.close(descriptor)
        control.send(json.dumps({"child": child}).encode())


def serve(module: ModuleType, requests: int, replies: int) -> None:
    """Answer the requests of one pipe on another until the first ends."""
    with os.fdopen(requests, "rb") as lines, os.fdopen(replies, "wb", buffering=0) as answers:
        for line in lines:
            message = json.loads(line)
            # The client kills a late child. Should the client be gone, this timer ends it after as much CPU
            # time: its signal needs no Python to run.
            signal.setitimer(signal.ITIMER_PROF, 2 * message["limit"] + 1)
            reply = module.handle(message["request"])
            signal.setitimer(signal.ITIMER_PROF, 0)
            answers.write(json.dumps(reply).encode() + b"\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), socket.socket(fileno=int(sys.argv[3])), *sys.argv[4:])

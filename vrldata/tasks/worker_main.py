"""Program of a scorer's child process: `python -m vrldata.tasks.worker_main MODULE MEMORY_BYTES`.

Reads one JSON request a line from standard input and writes one JSON reply a line to standard output, in
order. Ends when standard input does.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import signal
import sys


def main(module_name: str, memory_bytes: int) -> None:
    """Serve `handle` of a module until standard input ends."""
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What a library prints must not end up between two replies.
    replies = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    module = importlib.import_module(module_name)
    replies.write(json.dumps({"missing": module.missing_library()}).encode() + b"\n")
    for line in sys.stdin.buffer:
        message = json.loads(line)
        # The parent kills a late child. Should the parent be gone, this timer ends it after as much CPU
        # time: its signal needs no Python to run.
        signal.setitimer(signal.ITIMER_PROF, 2 * message["limit"] + 1)
        reply = module.handle(message["request"])
        signal.setitimer(signal.ITIMER_PROF, 0)
        replies.write(json.dumps(reply).encode() + b"\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

"""Running untrusted Python against unit tests, behind Linux namespaces. Off unless a run asks for it.

The program sees no network, no process of ours, no variable of ours and no file but Python's own
installation (read-only) and an empty scratch folder; CPU time, memory, files and processes are limited.
Where the kernel does not grant such a sandbox, nothing runs and an error says so.

Answer and test share one interpreter, as in other graders: leaving early passes no test, but a program
written to forge its own verdict can, for instance by an object that equals everything. Look at what passes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from vrldata.errors import TaskError

WALL_SECONDS = 5.0
"""Limit for one unit test, start of the interpreter included."""
ROW_LIMITS = 8
"""All tests of a row together have so many times the limit of one."""
MAX_CUT_OFF = 2
"""After so many tests that were cut off, the row's other tests have failed too."""
MAX_TESTS = 64

_UNSHARE = (
    "unshare",
    "--user",
    "--map-root-user",
    "--mount",
    "--net",
    "--pid",
    "--ipc",
    "--uts",
    "--fork",
    "--kill-child",
)
_CAGE = Path(__file__).with_name("sandbox_cage.py")


def run_tests(source: str, tests: Sequence[str], *, seconds: float = WALL_SECONDS) -> list[bool]:
    """Whether `source` followed by each test runs to its end without an error, in order of `tests`.

    A test that is too slow, too large or killed has failed: that is the program's doing, and so is what it
    leaves no time for (`ROW_LIMITS`, `MAX_CUT_OFF`).

    Args:
        seconds: limit for one test.

    Raises:
        TaskError: the sandbox cannot be set up on this machine; nothing was run.
    """
    if len(tests) > MAX_TESTS:
        raise TaskError(f"unit_tests: at most {MAX_TESTS} tests a row, found {len(tests)}")
    check_sandbox()
    passed = [False] * len(tests)
    left, cut_off = ROW_LIMITS * seconds, 0
    for index, test in enumerate(tests):
        if left <= 0 or cut_off >= MAX_CUT_OFF:
            break
        start = time.monotonic()
        passed[index] = _run(f"{source}\n\n{test}\n", min(seconds, left))[0]
        taken = time.monotonic() - start
        left, cut_off = left - taken, cut_off + (taken >= seconds)
    return passed


@lru_cache(maxsize=1)
def check_sandbox() -> None:
    """Prove once a process that the sandbox runs a program and keeps it from network and files.

    Raises:
        TaskError: it does not, with the reason.
    """
    probe = (
        "import os, socket\n"
        "assert not os.path.exists('/etc/passwd') and not os.path.exists('/home')\n"
        "assert not os.path.exists('/proc')\n"
        "assert [name for _, name in socket.if_nameindex()] in ([], ['lo'])\n"
    )
    passed, reason = _run(probe, 30.0)
    if not passed:
        seen = reason or "a program inside still saw files, processes or a network of the machine"
        raise TaskError(
            f"allow_code_execution: this machine grants no sandbox for untrusted code ({seen}); "
            "allow unprivileged user namespaces, or leave the setting off"
        )


def _run(program: str, seconds: float) -> tuple[bool, str]:
    if shutil.which(_UNSHARE[0]) is None:
        return False, "the command 'unshare' (util-linux) is missing"
    with tempfile.TemporaryDirectory(prefix="vrl-sandbox-") as folder:
        # The token proves that the program ran to its end: an early exit with code 0 does not print it.
        token = os.urandom(16).hex()
        python = os.path.realpath(sys.executable)
        request = json.dumps(
            {
                "program": program,
                "token": token,
                "seconds": seconds,
                "prefixes": _prefixes(),
                "python": python,
            }
        )
        command = [*_UNSHARE, python, "-I", "-S", str(_CAGE), folder]
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PATH": os.defpath},
            cwd=folder,
            start_new_session=True,
        )
        try:
            out, err = process.communicate(request.encode(), timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return False, f"no end within {seconds:g} s"
    reason = err.decode("utf-8", "replace").strip().rpartition("\n")[2][:200]
    return out.decode("ascii", "replace").strip() == token, reason


def _prefixes() -> list[str]:
    """Folders that a bare interpreter needs: its own installation and the system's libraries."""
    wanted = {sys.base_prefix, "/usr", "/lib", "/lib64", "/bin"}
    return sorted(path for path in wanted if os.path.isdir(path))

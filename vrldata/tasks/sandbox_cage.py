"""Program inside the namespaces: builds the cage, then becomes the bare interpreter that runs the code.

`python -I -S sandbox_cage.py FOLDER`, with the request as JSON on standard input. Standard library only:
it starts without site-packages. Any failure here ends with a message and a code other than 0.
"""

import ctypes
import json
import os
import resource
import struct
import sys

_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_REMOUNT, _MS_BIND, _MS_REC, _MS_PRIVATE = (
    1,
    2,
    4,
    32,
    4096,
    16384,
    1 << 18,
)
_PR_SET_NO_NEW_PRIVS, _PR_CAPBSET_DROP, _PR_SET_SECCOMP = 38, 24, 22
_DENIED_CALLS = {
    "x86_64": (0xC000003E, 56, 435, (57, 58, 101, 248, 249, 250, 272, 298, 308, 310, 311, 321, 323, 425)),
    "aarch64": (0xC00000B7, 220, 435, (97, 117, 217, 218, 219, 241, 268, 270, 271, 280, 282, 425)),
}
"""Processor to its audit number and the numbers of clone, clone3 and all other calls that are refused.

Those are fork and vfork, ptrace, the key rings, unshare, perf events, setns, memory of other processes, bpf,
userfaultfd and io_uring.
"""

_MEMORY_BYTES = 1 << 30
_FILE_BYTES = 16 << 20
_SCRATCH_OPTIONS = b"size=64m,mode=700"

_LIBC = ctypes.CDLL(None, use_errno=True)


def mount(source: str, target: str, kind: str | None, flags: int, options: bytes | None = None) -> None:
    """mount(2); raises OSError."""
    result = _LIBC.mount(source.encode(), target.encode(), kind.encode() if kind else None, flags, options)
    if result != 0:
        raise OSError(ctypes.get_errno(), f"mount {target}: {os.strerror(ctypes.get_errno())}")


def build(root: str, prefixes: list[str]) -> None:
    """A root of read-only system folders, a few devices and an empty scratch folder; then move into it."""
    mount("none", "/", None, _MS_REC | _MS_PRIVATE)
    mount("tmpfs", root, "tmpfs", _MS_NOSUID | _MS_NODEV, b"size=1m,mode=755")
    for path in prefixes:
        if os.path.islink(path):
            os.symlink(os.readlink(path), root + path)
            continue
        if os.path.isdir(root + path):
            continue  # inside a folder that is bound already
        os.makedirs(root + path)
        mount(path, root + path, None, _MS_BIND)
        mount("none", root + path, None, _MS_BIND | _MS_REMOUNT | _MS_RDONLY | _MS_NOSUID | _MS_NODEV)
    os.makedirs(root + "/dev")
    for device in ("null", "urandom"):
        with open(f"{root}/dev/{device}", "w"):
            pass
        mount(f"/dev/{device}", f"{root}/dev/{device}", None, _MS_BIND)
    os.makedirs(root + "/scratch")
    mount("tmpfs", root + "/scratch", "tmpfs", _MS_NOSUID | _MS_NODEV, _SCRATCH_OPTIONS)
    mount("none", root, None, _MS_BIND | _MS_REMOUNT | _MS_RDONLY | _MS_NOSUID)
    os.chroot(root)
    os.chdir("/scratch")


def give_up_rights(seconds: float) -> None:
    """Limits for CPU, memory, files and processes; no capability, and no way to gain one."""
    whole = max(1, int(seconds) + 1)
    resource.setrlimit(resource.RLIMIT_CPU, (whole, whole))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE_BYTES, _FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for capability in range(64):
        _LIBC.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def forbid_calls() -> None:
    """A seccomp filter: threads may start, processes may not. RLIMIT_NPROC does not bind the superuser.

    Calls that no answer needs and that reach deep into the kernel are refused too.
    """
    numbers = _DENIED_CALLS.get(os.uname().machine)
    if numbers is None:
        raise OSError(f"no filter of system calls is known for {os.uname().machine} processors")
    architecture, clone, clone3, others = numbers
    deny, no_such_call, allow, kill = 0x00050000 | 1, 0x00050000 | 38, 0x7FFF0000, 0x80000000
    steps = [(0x20, 0, 0, 4), (0x15, 1, 0, architecture), (0x06, 0, 0, kill)]
    # the number of the call; those with bit 30 belong to a second table of calls
    steps += [(0x20, 0, 0, 0), (0x35, 0, 1, 0x40000000), (0x06, 0, 0, deny)]
    for number in others:
        steps += [(0x15, 0, 1, number), (0x06, 0, 0, deny)]
    # glibc falls back from clone3, whose flags a filter cannot see, to clone
    steps += [(0x15, 0, 1, clone3), (0x06, 0, 0, no_such_call)]
    steps += [(0x15, 0, 3, clone), (0x20, 0, 0, 16), (0x45, 1, 0, 0x00010000), (0x06, 0, 0, deny)]
    steps += [(0x06, 0, 0, allow)]
    program = b"".join(struct.pack("HBBI", *step) for step in steps)
    buffer = ctypes.create_string_buffer(program)
    header = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(buffer))
    if _LIBC.prctl(_PR_SET_SECCOMP, 2, ctypes.create_string_buffer(header), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp filter refused")


# The program's own output goes nowhere. The token goes out after its last statement, so that leaving early
# with code 0 passes no test; the file that names the token is gone before the program starts.
RUNNER = """
import os, runpy
os.unlink(__file__)
runpy.run_path("/scratch/answer.py", run_name="__main__")
os.write(3, {token!r}.encode())
"""


def main() -> None:
    """Read the request, build the cage, run the program in a child, and pass its token on."""
    request = json.load(sys.stdin)
    build(sys.argv[1], request["prefixes"])
    for name, text in (("answer.py", request["program"]), ("run.py", RUNNER.format(token=request["token"]))):
        with open(f"/scratch/{name}", "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
    token_read, token_write = os.pipe()
    child = os.fork()
    if child == 0:
        nothing = os.open("/dev/null", os.O_RDWR)
        os.dup2(token_write, 3)
        os.dup2(nothing, 0)
        os.dup2(nothing, 1)
        os.closerange(4, nothing)
        os.closerange(nothing + 1, 256)
        give_up_rights(request["seconds"])
        forbid_calls()
        # From here on nothing of ours is told: what the program writes would fill the scorer's memory.
        os.dup2(nothing, 2)
        command = [request["python"], "-I", "-S", "/scratch/run.py"]
        os.execve(command[0], command, {"HOME": "/scratch"})  # noqa: S606 - no shell is the point
    os.close(token_write)
    _, status = os.waitpid(child, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        sys.exit(1)
    sys.stdout.write(os.read(token_read, 4096).decode("ascii", "replace"))


main()

"""Releases, pushes and pulls in processes that kill themselves before one of their steps.

`KilledRuns` starts this file as a program whose forks do one run each: what takes time is importing, and the
forks share that. A step is whatever others can see: a tag, a row, a request that changes a repository, a file
that appears or goes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any


class Steps:
    """Counts steps and kills the process before number `killed_at`."""

    def __init__(self, killed_at: int) -> None:
        self.killed_at, self.seen = killed_at, 0

    def take(self) -> None:
        """The next step is about to happen."""
        self.seen += 1
        if self.seen == self.killed_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def before(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function`, each call of which is a step."""

        def call(*arguments: Any, **options: Any) -> Any:
            self.take()
            return function(*arguments, **options)

        return call


def release(steps: Steps, root: str, name: str, message: str = "", force: bool = False) -> None:
    """Make a release; a step is a change of a tag or a commit of rows."""
    import vrldata
    import vrldata.commits

    tags = type(vrldata.open(root).lance("samples").tags)
    for method in ("create", "update", "delete"):
        setattr(tags, method, steps.before(getattr(tags, method)))
    vrldata.commits.merge_rows = steps.before(vrldata.commits.merge_rows)
    vrldata.open(root).create_release(name, message, force=force)


def push(steps: Steps, root: str, target: str, force: bool = False) -> None:
    """Push; a step is a request that changes something on the Hub."""
    from huggingface_hub import get_session

    import vrldata
    import vrldata.hub

    vrldata.hub.FILES_A_COMMIT = 4
    client_class: Any = type(get_session())
    send = client_class.send

    def counted(client: Any, request: Any, **options: Any) -> Any:
        path = request.url.path
        changes = request.method in ("PUT", "DELETE") or "/commit/" in path or "/tag/" in path
        if changes or path == "/api/repos/create":
            steps.take()
        return send(client, request, **options)

    client_class.send = counted
    vrldata.open(root).push(target, force=force)


def pull(steps: Steps, source: str, folder: str) -> None:
    """Pull; a step is a file of the folder that appears, changes or goes."""
    from pathlib import Path

    import vrldata
    from vrldata import hub_pull

    hub_pull.DOWNLOADS = 1
    replace, hardlink_to, unlink = Path.replace, Path.hardlink_to, Path.unlink

    def replacing(path: Path, target: Any) -> Any:
        steps.take()
        return replace(path, target)

    def linking(path: Path, target: Any) -> None:
        steps.take()
        hardlink_to(path, target)

    def unlinking(path: Path, missing_ok: bool = False) -> None:
        if ".cache" not in path.parts:
            steps.take()
        unlink(path, missing_ok=missing_ok)

    Path.replace, Path.hardlink_to, Path.unlink = replacing, linking, unlinking  # type: ignore[method-assign]
    vrldata.pull(source, folder)


RUNS: dict[str, Callable[..., None]] = {"release": release, "push": push, "pull": pull}


class KilledRuns:
    """A warm process whose forks run one of RUNS each.

        with KilledRuns() as runs:
            runs("release", killed_at=3, root=root, name="v1")     # False: it was killed
            runs("release", killed_at=99, root=root, name="v1")    # True: it has fewer steps, and is done

    Args:
        environment: variables of the forks.
    """

    def __init__(self, **environment: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )

    def __call__(self, run: str, *, killed_at: int, **arguments: Any) -> bool:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps([run, killed_at, arguments]), file=self._process.stdin, flush=True)
        answer = json.loads(self._process.stdout.readline())
        assert answer["status"] in (0, -signal.SIGKILL), f"{run} ended with {answer}"
        assert answer["status"] or 0 < answer["steps"] < killed_at
        return answer["status"] == 0

    def __enter__(self) -> KilledRuns:
        return self

    def __exit__(self, *raised: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def _serve() -> None:
    # what the runs import, so that forks find it there
    import huggingface_hub.hf_api
    import lance
    import pyarrow.parquet

    del huggingface_hub, lance, pyarrow
    for line in sys.stdin:
        run, killed_at, arguments = json.loads(line)
        steps_of_child, steps_to_parent = os.pipe()
        child = os.fork()
        if not child:
            steps = Steps(killed_at)
            RUNS[run](steps, **arguments)
            os.write(steps_to_parent, str(steps.seen).encode())
            os._exit(0)
        os.close(steps_to_parent)
        _, status = os.waitpid(child, 0)
        with os.fdopen(steps_of_child) as seen:
            answer = {"status": os.waitstatus_to_exitcode(status), "steps": int(seen.read() or 0)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    _serve()

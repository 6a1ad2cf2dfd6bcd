"""Fixtures that every test folder shares."""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).resolve().parent.parent
CPU_SITE = PROJECT / "tests" / "cpu_site"

# Where torchvision's compiled part cannot load (a CUDA build on a machine without CUDA), every process that
# imports transformers or vllm needs the shim; it does nothing elsewhere.
sys.path.insert(0, str(CPU_SITE))
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(CPU_SITE), str(PROJECT), os.environ.get("PYTHONPATH", "")]
).rstrip(":")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torchvision_cpu_shim  # noqa: E402 - needs the path set above

torchvision_cpu_shim.install()


def shared_root() -> Path:
    """Folder with the inputs that have known answers: `VRL_SHARED`, by default `../shared`."""
    return Path(os.environ.get("VRL_SHARED", PROJECT.parent / "shared")).resolve()


def shared_missing() -> str | None:
    """Why tests over the shared inputs cannot run here; None when they can."""
    root = shared_root()
    if (root / "vectors").is_dir() or (root / "edge").is_dir():
        return None
    return f"no shared test inputs at {root}: set VRL_SHARED to their folder"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The long ones first, so that no process is left alone with them at the end."""
    items.sort(key=lambda item: [item.get_closest_marker(name) is None for name in ("engine", "slow")])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With several processes, the tests of a file share one, and so do all files that start a vLLM engine."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid.split("::")[0])

    return ByFile(config, log)


@lru_cache
def group_of(file: str) -> str:
    """`engine` for a file that starts an engine: two at a time do not fit a small machine."""
    return "engine" if "mark.engine" in (PROJECT / file).read_text(encoding="utf-8") else file


@pytest.fixture(scope="session")
def shared_folder() -> Path:
    """The folder of shared inputs; the test is skipped where it is missing."""
    reason = shared_missing()
    if reason:
        pytest.skip(reason)
    return shared_root()

"""Fixtures that every test folder shares."""

from __future__ import annotations

import os
import sys
from pathlib import Path

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


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spread over processes, the tests of a file stay together, and those with a vLLM engine in one process.

    The long ones come first, so that no process is left alone with them at the end.
    """
    for item in items:
        group = "engine" if item.get_closest_marker("engine") else item.nodeid.split("::")[0]
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: [item.get_closest_marker(name) is None for name in ("engine", "slow")])


@pytest.fixture(scope="session")
def shared_folder() -> Path:
    """The folder of shared inputs; the test is skipped where it is missing."""
    reason = shared_missing()
    if reason:
        pytest.skip(reason)
    return shared_root()

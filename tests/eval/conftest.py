"""A tiny model and a small dataset, made once for the session by the project's own commands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def run_command(package: str, *arguments: object, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run one of the three commands in a process of its own."""
    program = f"from {package}.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)], capture_output=True, text=True, check=check
    )


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random Qwen3-VL."""
    folder = tmp_path_factory.mktemp("model") / "tiny"
    run_command("vrltrain", "tiny-model", folder, "--family", "qwen3-vl", "--warm-up-steps", 0)
    return folder


@pytest.fixture(scope="session")
def demo_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Generated questions with their media."""
    folder = tmp_path_factory.mktemp("demo") / "demo"
    run_command("vrldata", "demo-data", folder, "--count", 24, "--seed", 0)
    return folder


@pytest.fixture(scope="session")
def demo_dataset(demo_folder: Path) -> str:
    """The generated questions as a dataset with a release; its URI."""
    root = demo_folder.parent / "dataset"
    sampling = ("--fps", 2, "--max-frames", 4, "--max-pixels", 12288)
    run_command(
        "vrldata", "build", demo_folder / "train.jsonl", "--video-root", demo_folder, "--out", root, *sampling
    )
    run_command("vrldata", "release", root, "v1")
    return f"{root}@v1"

"""The folder that weights travel in: replaced whole, and not left in memory by processes that were killed."""

from __future__ import annotations

import os
import subprocess
import sys

import torch
from safetensors.torch import load_file

from vrltrain.weight_sync import PREFIX, WeightFolder


def test_a_write_replaces_the_weights_and_remove_leaves_nothing() -> None:
    folder = WeightFolder(100)
    for value in (1.0, 2.0):
        path = folder.write([("w", torch.full((2, 2), value))])
    assert load_file(path / "model.safetensors")["w"].tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert [file.name for file in path.iterdir()] == ["model.safetensors"]
    folder.remove()
    assert not path.exists()


def test_the_folder_of_a_dead_process_is_removed_and_that_of_a_live_one_kept() -> None:
    live = WeightFolder(100)
    ended = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True
    )
    left = live.path.parent / f"{PREFIX}{int(ended.stdout)}-left"
    left.mkdir()
    other = WeightFolder(100)
    assert not left.exists()
    assert live.path.exists()
    assert live.path.name.startswith(f"{PREFIX}{os.getpid()}-")
    live.remove()
    other.remove()

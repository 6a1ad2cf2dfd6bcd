"""From the trainer to the engine: weights as one safetensors file that the engine's workers read.

The same path serves CPU and GPU engines; a file in shared memory costs no disk. What the engine does with it
(pause, reload, drop caches, resume) is the work of `rollout_vllm`.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder with a random name is made inside
WEIGHTS_FILE = "model.safetensors"
PREFIX = "vrl-weights-"


class WeightFolder:
    """A private folder that holds the latest weights, in shared memory where they fit."""

    def __init__(self, num_bytes: int) -> None:
        roomy = SHARED_MEMORY.is_dir() and shutil.disk_usage(SHARED_MEMORY).free > 2 * num_bytes
        parent = SHARED_MEMORY if roomy else Path(tempfile.gettempdir())
        _remove_left_behind(parent)
        self.path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=parent))

    def write(self, weights: Iterable[tuple[str, Tensor]]) -> Path:
        """Replace the file's content; returns the folder, as the engine takes it."""
        from safetensors.torch import save_file

        partial = self.path / f".{WEIGHTS_FILE}.partial"
        save_file({name: tensor.detach().cpu().contiguous() for name, tensor in weights}, partial)
        partial.replace(self.path / WEIGHTS_FILE)
        return self.path

    def remove(self) -> None:
        """Delete the folder."""
        shutil.rmtree(self.path, ignore_errors=True)


def num_weight_bytes(model_path: str | Path) -> int:
    """Size of the weight files of a model folder; 0 for a Hub id."""
    return sum(file.stat().st_size for file in Path(model_path).glob("*.safetensors"))


def _remove_left_behind(parent: Path) -> None:
    """Delete the folders of our own processes that were killed: shared memory is memory."""
    for folder in parent.glob(f"{PREFIX}*-*"):
        process = folder.name.removeprefix(PREFIX).split("-")[0]
        if not process.isdecimal() or folder.stat().st_uid != os.getuid():
            continue
        try:
            os.kill(int(process), 0)
        except ProcessLookupError:
            shutil.rmtree(folder, ignore_errors=True)

"""Samples a second of an epoch: Ray Data over a store against loops over float32 `.pt` files.

    python benchmarks/epoch.py                      # a minute, about 4 GB of disk
    python benchmarks/epoch.py --clips 8 --json epoch.json

The consumer has every pixel of every clip in memory of its own: of the store by a copy into a buffer that it
uses again, of a `.pt` file as `torch.load` gives it. Each way runs one epoch to warm up (processes start,
files come into the page cache), then epochs that count, the best of them taken. All read the same pixels:

- loop: `torch.load` in the consumer.
- loader: `torch.utils.data.DataLoader` over the `.pt` files, whose workers load for the consumer.
- ray: `Dataset.ray()` with as many CPUs as the loader has workers: keys travel, the consumer maps the frames.
- stream: a DataLoader with the same workers over `Dataset.torch()`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from machine import machine, write_figures
from made_clips import made_clip, put_noise, quiet_ray

SHAPE = (64, 384, 672, 3)
QUESTIONS = 3


class PtFiles:
    """A map-style dataset of `.pt` files."""

    def __init__(self, files: list[str]) -> None:
        self.files = files

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Any:
        import torch

        return torch.load(self.files[index], weights_only=True)["frames"]


def first(batch: list[Any]) -> Any:
    """A batch of one as its item."""
    return batch[0]


def prepare(folder: Path, clips: int) -> list[str]:
    """The same clips as a store and as `.pt` files."""
    import torch

    put_noise(folder / "store", clips, SHAPE, questions=QUESTIONS)
    files = []
    for number in range(clips):
        frames = made_clip(number % 4, SHAPE).to_torch().float()
        files.append(str(folder / f"{number}.pt"))
        torch.save({"frames": frames, "metadata": {"fps": 30.0}, "sample_fps": 2.0}, files[-1])
    # as often as there are questions on a clip
    return files * QUESTIONS


def ways(folder: Path, files: list[str], workers: int) -> dict[str, Callable[[], Callable[[int], int]]]:
    """Makers of functions by name; a function takes the number of the epoch and gives its samples."""
    import torch
    from torch.utils.data import DataLoader

    import vrldata

    dataset = vrldata.open(folder / "store")
    buffer = np.zeros(SHAPE, dtype=np.uint8)

    def copied(rows: Any) -> int:
        count = 0
        for row in rows:
            np.copyto(buffer, row["clips"][0].frames)
            count += 1
        return count

    def loop(epoch: int) -> int:
        for index in np.random.default_rng(epoch).permutation(len(files)):
            torch.load(files[index], weights_only=True)
        return len(files)

    def loader(items: Any, **options: Any) -> Any:
        return DataLoader(
            items,
            num_workers=workers,
            multiprocessing_context="spawn",
            persistent_workers=True,
            batch_size=1,
            collate_fn=first,
            **options,
        )

    def of_files() -> Callable[[int], int]:
        batches = loader(PtFiles(files), shuffle=True)
        return lambda epoch: sum(1 for _ in batches)

    def of_stream() -> Callable[[int], int]:
        batches = loader(dataset.torch(shuffle=1))
        return lambda epoch: copied(batches)

    def of_ray() -> Callable[[int], int]:
        return lambda epoch: copied(dataset.ray(shuffle=1, epoch=epoch).iter_rows())

    return {"loop": lambda: loop, "ray": of_ray, "loader": of_files, "stream": of_stream}


def measure(folder: Path, clips: int, workers: int, epochs: int) -> dict[str, Any]:
    """Samples a second by way, and ratios."""
    import ray

    files = prepare(folder, clips)
    ray.init(
        num_cpus=workers,
        object_store_memory=500 << 20,
        include_dashboard=False,
        log_to_driver=False,
    )
    quiet_ray()
    rates: dict[str, float] = {}
    try:
        for name, make in ways(folder, files, workers).items():
            way = make()
            way(0)
            seconds = []
            for epoch in range(1, epochs + 1):
                begun = time.perf_counter()
                count = way(epoch)
                seconds.append(time.perf_counter() - begun)
                assert count == len(files), f"{name} gave {count} of {len(files)} samples"
            rates[name] = len(files) / min(seconds)
            del way
    finally:
        ray.shutdown()
    return {
        "clips": clips,
        "samples": len(files),
        "clip_mb": round(np.prod(SHAPE) / 1e6, 1),
        "workers": workers,
        "samples_per_s": rates,
        "ray_over_loop": rates["ray"] / rates["loop"],
        "ray_over_loader": rates["ray"] / rates["loader"],
        "stream_over_loader": rates["stream"] / rates["loader"],
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clips", type=int, default=16, help="clips of 49.5 MB, three samples each")
    parser.add_argument("--workers", type=int, default=2, help="workers of the loaders and of Ray")
    parser.add_argument("--epochs", type=int, default=2, help="epochs that count, beside the first")
    parser.add_argument("--folder", type=Path, help="where to write; a temporary folder by default")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        found = measure(Path(folder), arguments.clips, arguments.workers, arguments.epochs)
    result = {"machine": machine(), "epoch": found}
    write_figures(result, arguments.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())

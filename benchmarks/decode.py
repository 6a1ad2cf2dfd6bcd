"""Speed of decoding one file: dense against the bare decoder, sparse against decoding all of it.

    python benchmarks/decode.py                      # both, two minutes
    python benchmarks/decode.py --only sparse --json decode.json

- dense: `decode` of a clip at 2 frames per second, against a bare loop over the decoder with the same
  threads and no pixels touched (what `ffmpeg -f null` does; measured too where the program is installed).
  Limit to reach: 1.3 times its time.
- sparse: 64 frames of a one-hour clip by way of key frames, against decoding all of it; the frames are
  compared.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import av
import numpy as np
import torch
from machine import machine, write_figures

from vrldata import coded_pictures, decoding
from vrldata.decoding import decode
from vrldata.processors import available_cpus
from vrldata.sampling import SamplingSpec
from vrldata.segment_reader import Segment

HOUR_S = 3600
GOP_SECONDS = (5,)


def cpu_seconds() -> float:
    """CPU time of this process and of the children that it has waited for."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def best_of(repeats: int, action: Callable[[], Any]) -> dict[str, float]:
    """Least seconds by the clock and by the CPUs of `repeats` runs, after one that warms caches."""
    action()
    seconds, cpu = [], []
    for _ in range(repeats):
        begun, spent = time.perf_counter(), cpu_seconds()
        action()
        seconds.append(time.perf_counter() - begun)
        cpu.append(cpu_seconds() - spent)
    return {"s": min(seconds), "cpu_s": min(cpu)}


def write_looped(path: Path, seconds: int, gop_s: int, *, width: int, height: int, fps: int = 30) -> Path:
    """Encode a part with a key frame every `gop_s` seconds, and repeat its packets up to `seconds`."""
    part, part_s = path.with_suffix(".part.mp4"), min(10, seconds)
    random = np.random.default_rng(0)
    texture = random.integers(16, 224, (height // 8, width // 8, 3), dtype=np.uint8).repeat(8, 0).repeat(8, 1)
    # grain that moves against the picture, as a sensor's noise does: without it decoding costs nothing
    grain = random.integers(0, 24, (height, width, 3), dtype=np.uint8)
    options = {"g": str(gop_s * fps), "preset": "veryfast", "crf": "26", "sc_threshold": "0"}
    with av.open(str(part), "w") as container:
        stream = container.add_stream("libx264", rate=fps, options=options)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for number in range(part_s * fps):
            moved = np.roll(texture, (number, 2 * number), axis=(0, 1))
            picture = moved + np.roll(grain, (7 * number, -5 * number), axis=(0, 1))
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode(None))
    with av.open(str(path), "w") as output:
        target = None
        for turn in range(seconds // part_s):
            with av.open(str(part)) as source:
                if target is None:
                    target = output.add_stream_from_template(source.streams.video[0])
                offset = int(turn * part_s / source.streams.video[0].time_base)
                for packet in source.demux(video=0):
                    if packet.dts is not None:
                        packet.pts, packet.dts = packet.pts + offset, packet.dts + offset
                        packet.stream = target
                        output.mux(packet)
    part.unlink()
    return path


def decode_only(path: Path, threads: int) -> int:
    """Decode every frame and drop it."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        stream.codec_context.thread_count = threads
        return sum(1 for _ in container.decode(stream))


def ffmpeg_null(path: Path, threads: int) -> None:
    """The same by the program."""
    command = ["ffmpeg", "-v", "error", "-threads", str(threads), "-i", str(path), "-an", "-f", "null", "-"]
    subprocess.run(command, check=True)


def measure_dense(folder: Path, threads: int, repeats: int) -> dict[str, Any]:
    """`decode` against the bare decoder."""
    path = write_looped(folder / "dense.mp4", 20, 8, width=1920, height=1080)
    frames = decode_only(path, threads)
    limit = best_of(repeats, lambda: decode_only(path, threads))
    ours = best_of(repeats, lambda: decode(path, SamplingSpec(), threads=threads))
    with every_picture():
        every = best_of(repeats, lambda: decode(path, SamplingSpec(), threads=threads))
    program = best_of(repeats, lambda: ffmpeg_null(path, threads)) if shutil.which("ffmpeg") else None
    path.unlink()
    return {
        "picture": "1920x1080",
        "ffmpeg_null": program,
        "frames": frames,
        "sampled": 40,
        "threads": threads,
        "decoder_alone": limit,
        "decode": ours,
        "decode_every_picture": every,
        "ratio": ours["s"] / limit["s"],
        "ratio_cpu": ours["cpu_s"] / limit["cpu_s"],
        "ratio_every_picture": every["s"] / limit["s"],
        "ratio_every_picture_cpu": every["cpu_s"] / limit["cpu_s"],
    }


@contextmanager
def every_picture() -> Iterator[None]:
    """Within: every packet is decoded, no key frame is jumped to and no picture left out."""
    plan, reader = decoding.plan_segments, coded_pictures.ReferenceReader.of

    def whole(table: Any, frame_pts: Any, positions: Any) -> list[Segment]:
        return [Segment(first=0, last=len(table.pts) - 1, until=int(frame_pts[-1]))]

    decoding.plan_segments = whole
    coded_pictures.ReferenceReader.of = lambda context: coded_pictures.ReferenceReader()
    try:
        yield
    finally:
        decoding.plan_segments, coded_pictures.ReferenceReader.of = plan, reader


def measure_sparse(folder: Path, threads: int, repeats: int) -> list[dict[str, Any]]:
    """64 frames of an hour by key frames, against all of it."""
    results = []
    spec = SamplingSpec(max_frames=64)
    for gop_s in GOP_SECONDS:
        path = write_looped(folder / f"hour_{gop_s}.mp4", HOUR_S, gop_s, width=640, height=360)
        sparse = decode(path, spec, threads=threads)
        sparse_s = best_of(repeats, lambda path=path: decode(path, spec, threads=threads))["s"]
        with every_picture():
            begun = time.perf_counter()
            full = decode(path, spec, threads=threads)
            full_s = time.perf_counter() - begun
        path.unlink()
        results.append(
            {
                "picture": "640x360",
                "seconds": HOUR_S,
                "key_frame_every_s": gop_s,
                "sampled": 64,
                "sparse_s": sparse_s,
                "full_s": full_s,
                "speedup": full_s / sparse_s,
                "same_frames": bool((sparse.frames == full.frames).all()),
            }
        )
    return results


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=["dense", "sparse"], help="one part instead of all")
    parser.add_argument("--threads", type=int, default=min(4, available_cpus()), help="decoder threads")
    parser.add_argument("--repeats", type=int, default=3, help="runs, of which the best counts")
    parser.add_argument("--folder", type=Path, help="where to write; a temporary folder by default")
    parser.add_argument("--json", type=Path, help="file for the results")
    options = parser.parse_args()
    torch.set_num_threads(1)
    results: dict[str, Any] = {"machine": machine()}
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        if options.only in (None, "dense"):
            results["dense"] = measure_dense(folder, options.threads, options.repeats)
        if options.only in (None, "sparse"):
            results["sparse"] = measure_sparse(folder, options.threads, options.repeats)
    write_figures(results, options.json)


if __name__ == "__main__":
    main()

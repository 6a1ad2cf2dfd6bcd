"""Builds: clips a second by codec, what a second build costs, and memory against the bytes that went through.

    python benchmarks/build.py                       # a few minutes
    python benchmarks/build.py --videos 200 --json build.json

The comparison with a script of `qwen-vl-utils` and `torch.save` is in `benchmarks/decode.py`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

CODECS = ("raw", "zstd", "ffv1", "jpeg")

BUILDER = """
import json, resource, sys, time
import vrldata
from vrldata.build import BatchSize

root, source, codec, workers = sys.argv[1:]
dataset = vrldata.create(root)
spec = vrldata.SamplingSpec(fps=10, max_frames=64)
begun = time.perf_counter()
report = dataset.build(
    [f"{source}/all.jsonl"], video_root=source, spec=spec, codec=codec, workers=int(workers),
    batch=BatchSize(num_bytes=64 << 20), bytes_in_flight=128 << 20,
)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({
    "seconds": time.perf_counter() - begun, "decoded": report.decoded, "reused": report.reused,
    "payload_bytes": report.bytes, "frames": dataset.info()["frames"], "peak_bytes": peak,
}))
"""


def write_videos(folder: Path, count: int, seconds: int = 8) -> None:
    """Clips of moving texture, 640 x 360, H.264, each of its own content, and questions on them."""
    import av

    rows = []
    for number in range(count):
        name = f"v{number}.mp4"
        texture = np.random.default_rng(number).integers(16, 224, (45, 80, 3), dtype=np.uint8)
        picture = texture.repeat(8, 0).repeat(8, 1)
        with av.open(str(folder / name), "w") as container:
            options = {"preset": "ultrafast", "crf": "24"}
            stream = container.add_stream("libx264", rate=Fraction(25), options=options)
            stream.width, stream.height, stream.pix_fmt = 640, 360, "yuv420p"
            for index in range(25 * seconds):
                moved = np.ascontiguousarray(np.roll(picture, (index, 2 * index), axis=(0, 1)))
                container.mux(stream.encode(av.VideoFrame.from_ndarray(moved, format="rgb24")))
            container.mux(stream.encode(None))
        rows.append(
            {"id": number, "problem": "?", "answer": "4", "problem_type": "numerical", "videos": [name]}
        )
    (folder / "all.jsonl").write_text("\n".join(map(json.dumps, rows)))


def build(root: Path, source: Path, codec: str, workers: int) -> dict[str, Any]:
    """One build in a process of its own, so that its peak memory is its own."""
    command = [sys.executable, "-c", BUILDER, str(root), str(source), codec, str(workers)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def run(folder: Path, videos: int, workers: int) -> dict[str, Any]:
    """Figures of first and second builds by codec."""
    source = folder / "videos"
    source.mkdir()
    write_videos(source, videos)
    found: dict[str, Any] = {}
    for codec in CODECS:
        first = build(folder / codec, source, codec, workers)
        second = build(folder / codec, source, codec, workers)
        assert second["decoded"] == 0
        found[codec] = {
            "clips_s": videos / first["seconds"],
            "payload_mb": first["payload_bytes"] / 1e6,
            "peak_mb": first["peak_bytes"] / 1e6,
            "rebuild_clips_s": videos / second["seconds"],
        }
    return found


def main() -> int:
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    from read import machine

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--videos", type=int, default=60, help="number of clips")
    parser.add_argument("--workers", type=int, default=2, help="decoder processes")
    parser.add_argument("--folder", type=Path, help="where to write; a temporary folder by default")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        result = {
            "machine": machine(),
            "videos": arguments.videos,
            "workers": arguments.workers,
            "build": run(Path(folder), arguments.videos, arguments.workers),
        }
    print("  ".join(f"{name} {value}" for name, value in result["machine"].items()))
    for codec, found in result["build"].items():
        print(
            f"{codec:5s} {found['clips_s']:6.2f} clips/s, {found['payload_mb']:7.1f} MB stored, peak"
            f" {found['peak_mb']:6.0f} MB, second build {found['rebuild_clips_s']:8.0f} clips/s"
        )
    print(f"{time.perf_counter() - begun:.0f} s in all")
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())

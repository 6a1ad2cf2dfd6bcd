"""What an evaluation costs beside the model: the loop, the journal, scoring and figures.

    python benchmarks/evaluation.py                       # all four, about a minute
    python benchmarks/evaluation.py --only loop --json evaluation.json

- loop: questions a second with an engine that answers after a fixed time, up to `--concurrent` at once, with
  clips that are decoded from files on the way (`vrldata.decode`), against a script that loads, asks and
  scores one question after the other. The limit is the engine's own time or decoding, whichever is longer.
- journal: lines a second, each written through to the file system, synced every second.
- scoring: multiple-choice responses a second under the protocol `eval`, in one thread.
- figures: seconds for all figures and intervals of 5,000 questions.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from vrldata import decode
from vrldata.sampling import SamplingSpec
from vrldata.types import Clip, Sample
from vrleval.aggregate import summarise
from vrleval.engines.types import Request, Response
from vrleval.journal import Journal
from vrleval.keys import question_key
from vrleval.loading import Loaded
from vrleval.runner import Limits, Runner
from vrleval.scoring import ScoringContext, score_response
from vrleval.types import Benchmark, Prediction, Question

OPTIONS = ("A. red", "B. green", "C. blue", "D. white")
CONTEXT = ScoringContext(config="benchmark", family="qwen3-vl")
SPEC = SamplingSpec(max_frames=32, max_pixels=65_536)
TEXT = "<think>The kite comes late.</think>The answer is <answer>B. green</answer>"


class FixedTimeEngine:
    """Answers every request after the same time, as many at once as are asked."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def start(self) -> None:
        return

    async def ask(self, request: Request) -> Response:
        await asyncio.sleep(self._seconds)
        return Response(text=TEXT, finish_reason="stop", num_tokens=12)

    def versions(self) -> dict[str, Any]:
        return {}

    async def close(self) -> None:
        return


class FileClips:
    """Decodes each clip when it is asked for."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def prepare(self, questions: Sequence[Question]) -> None:
        return

    def load(self, question: Question) -> tuple[Clip, ...]:
        return tuple(decode(self._root / path, SPEC) for path in question.sample.videos)

    def most_tokens(self) -> int:
        return 0


def write_video(path: Path, *, seconds: int, number: int) -> None:
    """A moving bar in H.264, 30 frames a second."""
    import av
    import numpy as np

    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=30)
        stream.width, stream.height, stream.pix_fmt = 640, 360, "yuv420p"
        for index in range(seconds * 30):
            picture = np.full((360, 640, 3), 16 * (number % 12), dtype=np.uint8)
            left = index * 5 % 600
            picture[:, left : left + 40] = 230
            for packet in stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")):
                container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)


def questions_on(videos: Sequence[str], per_video: int) -> list[Question]:
    """Multiple-choice questions, `per_video` on each video, in an order that scatters them."""
    found = []
    for index in range(len(videos) * per_video):
        sample = Sample(
            sample_id=str(index),
            problem=f"Which colour comes at {index}?",
            answer="B",
            problem_type="multiple_choice",
            options=OPTIONS,
            videos=(videos[index % len(videos)],),
            data_type="video",
        )
        found.append(Question(key=question_key("speed", index, sample), benchmark="speed", sample=sample))
    return found


def measure_loop(concurrent: int, engine_seconds: float) -> dict[str, float]:
    """Questions a second of the runner and of one question after the other."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        videos = [f"{number}.mp4" for number in range(12)]
        for number, video in enumerate(videos):
            write_video(root / video, seconds=8, number=number)
        questions, clips, engine = questions_on(videos, 5), FileClips(root), FixedTimeEngine(engine_seconds)
        begun = time.perf_counter()
        for video in videos:
            decode(root / video, SPEC)
        decoding = time.perf_counter() - begun
        loaded = Loaded(
            benchmark=Benchmark(name="speed", title="speed"), questions=tuple(questions), clips=clips
        )
        with Journal(root / "out") as journal:
            runner = Runner([loaded], {"speed": CONTEXT}, engine, journal, Limits(max_concurrent=concurrent))
            begun = time.perf_counter()
            done = asyncio.run(runner.run({}))
            together = time.perf_counter() - begun
        assert all(one.score == 1.0 for one in done.values())
        begun = time.perf_counter()
        for question in questions:
            one_clip = clips.load(question)
            response = asyncio.run(engine.ask(Request(key=question.key, prompt="", clips=one_clip)))
            score_response(question, response, one_clip, CONTEXT)
        alone = time.perf_counter() - begun
    total = len(questions)
    return {
        "questions": total,
        "runner_per_s": total / together,
        "one_by_one_per_s": total / alone,
        "times_faster": alone / together,
        "decoding_alone_s": decoding,
        "runner_s": together,
    }


def predictions_of(number: int) -> list[Prediction]:
    """Predictions as a run of a benchmark with groups leaves them, five questions a video."""
    return [
        Prediction(
            key=f"k{index}",
            benchmark="speed",
            sample_id=str(index),
            config="benchmark",
            status="scored",
            score=float(index * 7919 % 10 < 6),
            strict=float(index * 7919 % 10 < 6),
            response=TEXT,
            problem="Which colour comes?",
            problem_type="multiple_choice",
            options=OPTIONS,
            answer="B",
            video=f"{index // 5}.mp4",
            groups={"task": f"t{index % 20}", "duration": ("short", "medium", "long")[index % 3]},
        )
        for index in range(number)
    ]


def measure_journal(number: int = 5000) -> dict[str, float]:
    """Lines a second."""
    rows = predictions_of(number)
    with tempfile.TemporaryDirectory() as name, Journal(Path(name)) as journal:
        begun = time.perf_counter()
        for row in rows:
            journal.append(row)
        journal.sync()
        seconds = time.perf_counter() - begun
    return {"lines": number, "lines_per_s": number / seconds}


def measure_scoring(number: int = 2000) -> dict[str, float]:
    """Responses a second."""
    (question,) = questions_on(["a.mp4"], 1)
    response = Response(text=TEXT, finish_reason="stop", num_tokens=12)
    score_response(question, response, (), CONTEXT)
    begun = time.perf_counter()
    for _ in range(number):
        score_response(question, response, (), CONTEXT)
    return {"responses": number, "responses_per_s": number / (time.perf_counter() - begun)}


def measure_figures(number: int = 5000) -> dict[str, float]:
    """Seconds for all figures of a benchmark."""
    rows = predictions_of(number)
    benchmark = Benchmark(name="speed", title="speed", headline="macro:task", groups=("task", "duration"))
    begun = time.perf_counter()
    summarise(benchmark, rows)
    return {"questions": number, "seconds": time.perf_counter() - begun}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=["loop", "journal", "scoring", "figures"])
    parser.add_argument("--concurrent", type=int, default=16)
    parser.add_argument("--engine-seconds", type=float, default=0.2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    measures: dict[str, Callable[[], dict[str, float]]] = {
        "loop": lambda: measure_loop(options.concurrent, options.engine_seconds),
        "journal": measure_journal,
        "scoring": measure_scoring,
        "figures": measure_figures,
    }
    found: dict[str, Any] = {"cpus": os.cpu_count(), "python": platform.python_version()}
    for name, measure in measures.items():
        if options.only in (None, name):
            found[name] = measure()
            shown = ", ".join(f"{key} {value:,.4g}" for key, value in found[name].items())
            print(f"{name}: {shown}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()

"""Builds that are killed, and builds that race: nothing lost, nothing twice, nothing half."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import vrldata
from tests.data.synthetic_video import number_in, write_video
from vrldata.tables import PRIMARY_KEYS

NUM_VIDEOS = 8
SPEC = vrldata.SamplingSpec(fps=10, max_frames=8)

BUILDER = """
import sys
import vrldata
from vrldata.build_options import BatchSize

vrldata.create(sys.argv[1]).build(
    [sys.argv[2]],
    video_root=sys.argv[3],
    spec=vrldata.SamplingSpec(fps=10, max_frames=8),
    workers=int(sys.argv[4]),
    batch=BatchSize(clips=1, num_bytes=1),
)
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Videos of different lengths, a broken one, and annotations with offline responses."""
    folder = tmp_path_factory.mktemp("source")
    rows = []
    for number in range(NUM_VIDEOS):
        write_video(folder / f"v{number}.mp4", 40 + number)
        rows.append(
            {
                "id": number,
                "problem": f"How many in {number}?",
                "answer": "4",
                "problem_type": "numerical",
                "videos": [f"v{number}.mp4"],
                "offline_output": "<answer>4</answer>",
            }
        )
    (folder / "broken.mp4").write_bytes(bytes(range(1, 256)) * 20)
    rows.append({**rows[0], "id": "broken", "videos": ["broken.mp4"]})
    (folder / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder


def start(root: Path, source: Path, workers: int = 0) -> subprocess.Popen[bytes]:
    arguments = [str(root), str(source / "train.jsonl"), str(source), str(workers)]
    return subprocess.Popen(
        [sys.executable, "-c", BUILDER, *arguments], stderr=subprocess.PIPE, start_new_session=True
    )


def count(root: Path, table: str) -> int:
    try:
        return vrldata.open(root).lance(table).count_rows()
    except vrldata.VRLError:
        return 0


def check_whole(root: Path, source: Path) -> None:
    """The dataset holds everything of `source` once, and its pixels are right."""
    dataset = vrldata.open(root)
    counts = {"samples": NUM_VIDEOS + 1, "frames": NUM_VIDEOS, "failures": 1, "trajectories": NUM_VIDEOS + 1}
    for table, expected in counts.items():
        keys = dataset.lance(table).to_table(columns=[PRIMARY_KEYS[table]]).column(0).to_pylist()
        assert len(keys) == len(set(keys)) == expected, table
    report = dataset.verify(deep=True, video_root=source)
    assert report.problems == ()
    for number in range(NUM_VIDEOS):
        sample = dataset.sample(f"train/{number}")
        (clip,) = dataset.clips_of(sample)
        assert [number_in(frame) for frame in clip.frames] == clip.metadata.frame_indices.tolist()
        assert clip.metadata.total_num_frames == 40 + number
    assert dataset.sample("train/broken").clip_ids == ()


def check_partial(root: Path) -> None:
    """What a reader sees after a kill: complete rows, and no sample that names a clip which is not there."""
    dataset = vrldata.open(root)
    assert [
        problem for problem in dataset.verify(deep=True).problems if problem.table != "trajectories"
    ] == []
    for sample in dataset.iter_samples():
        if sample.clip_ids:
            assert all(np.asarray(clip.frames).any() for clip in dataset.clips_of(sample))


@pytest.mark.parametrize("clips_before_the_kill", [0, 1, 3, NUM_VIDEOS])
def test_a_killed_build_is_continued_by_the_same_command(
    tmp_path: Path, source: Path, clips_before_the_kill: int
) -> None:
    root = tmp_path / "clips"
    builder = start(root, source)
    while count(root, "frames") < clips_before_the_kill and builder.poll() is None:
        time.sleep(0.005)
    os.kill(builder.pid, signal.SIGKILL)
    builder.wait()
    stored = count(root, "frames")
    if stored or clips_before_the_kill:
        check_partial(root)
    again = start(root, source)
    assert again.wait() == 0, again.stderr.read() if again.stderr else ""
    check_whole(root, source)
    assert vrldata.open(root).lance("frames").version <= NUM_VIDEOS + 2


def test_a_build_that_is_killed_again_and_again_gets_there(tmp_path: Path, source: Path) -> None:
    root = tmp_path / "clips"
    for attempt in range(40):
        builder = start(root, source)
        # later attempts live a little longer, so that kills fall into every phase
        try:
            builder.wait(0.5 + 0.1 * attempt)
        except subprocess.TimeoutExpired:
            os.kill(builder.pid, signal.SIGKILL)
            builder.wait()
            continue
        break
    assert builder.returncode == 0
    check_whole(root, source)


def test_decoder_processes_end_with_the_build_that_was_killed(tmp_path: Path, source: Path) -> None:
    root = tmp_path / "clips"
    builder = start(root, source, workers=2)
    while count(root, "frames") < 1 and builder.poll() is None:
        time.sleep(0.01)
    children = descendants(builder.pid)
    os.kill(builder.pid, signal.SIGKILL)
    builder.wait()
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{child}").exists() for child in children) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [child for child in children if Path(f"/proc/{child}").exists()]
    assert start(root, source).wait() == 0
    check_whole(root, source)


def descendants(process_id: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{process_id}/task").glob("*/children"):
        for child in task.read_text().split():
            found += [int(child), *descendants(int(child))]
    return found


def test_four_builds_at_once_end_in_the_union(tmp_path: Path, source: Path) -> None:
    root = tmp_path / "clips"
    builders = [start(root, source) for _ in range(4)]
    outputs = [builder.communicate()[1] for builder in builders]
    assert [builder.returncode for builder in builders] == [0, 0, 0, 0], outputs
    check_whole(root, source)


def test_builds_of_different_specs_at_once_keep_both(tmp_path: Path, source: Path) -> None:
    root = tmp_path / "clips"
    other = BUILDER.replace("max_frames=8", "max_frames=4")
    arguments = [str(root), str(source / "train.jsonl"), str(source), "0"]
    builders = [start(root, source), subprocess.Popen([sys.executable, "-c", other, *arguments])]
    assert [builder.wait() for builder in builders] == [0, 0]
    dataset = vrldata.open(root)
    assert dataset.frames.count() == 2 * NUM_VIDEOS
    for number in range(NUM_VIDEOS):
        assert len(dataset.clip(f"v{number}.mp4", SPEC).frames) > 4
        assert len(dataset.clip(f"v{number}.mp4", vrldata.SamplingSpec(fps=10, max_frames=4)).frames) == 4
    assert dataset.verify(deep=True).ok

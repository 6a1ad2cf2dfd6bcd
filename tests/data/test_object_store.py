"""The same dataset on an object store: a real S3 server process on the loopback interface."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import vrldata
from tests.data.synthetic_video import write_video

pytestmark = pytest.mark.skipif(
    find_spec("moto") is None, reason="needs a local S3 server: pip install 'moto[server]'"
)
SPEC = vrldata.SamplingSpec(fps=4, max_frames=8)


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """URI of an empty bucket on a server that ends with the tests."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    endpoint = f"http://127.0.0.1:{port}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", endpoint)
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        patch.setenv("AWS_REGION", "us-east-1")
        try:
            make_bucket(endpoint, server)
            yield "s3://clips"
        finally:
            server.terminate()
            server.wait()


def make_bucket(endpoint: str, server: subprocess.Popen[bytes]) -> None:
    request = urllib.request.Request(f"{endpoint}/clips", method="PUT")
    for _ in range(600):
        try:
            urllib.request.urlopen(request).close()
            return
        except OSError:
            assert server.poll() is None, "the S3 server did not start"
            time.sleep(0.1)
    pytest.fail("the S3 server does not answer")


def test_a_dataset_on_an_object_store_does_what_one_on_disk_does(bucket: str, tmp_path: Path) -> None:
    for number in range(2):
        write_video(tmp_path / f"v{number}.mp4", 90 + number, width=640, height=448)
    rows = [
        {
            "id": number,
            "problem": "?",
            "answer": "4",
            "problem_type": "numerical",
            "videos": [f"v{number}.mp4"],
        }
        for number in range(2)
    ]
    dataset = vrldata.create(f"{bucket}/a/b")
    report = dataset.build(rows, video_root=tmp_path, spec=SPEC, workers=0)
    assert (report.decoded, report.complete) == (2, True)
    assert dataset.build(rows, video_root=tmp_path, spec=SPEC, workers=0).reused == 2

    direct = vrldata.decode(tmp_path / "v1.mp4", SPEC)
    assert np.array_equal(dataset.clip("v1.mp4", SPEC).frames, direct.frames)
    some = dataset.clip_by_id(SPEC.clip_id("v1.mp4"), indices=[5, 0])
    assert np.array_equal(some.frames, direct.frames[[5, 0]])

    dataset.create_release("v1")
    dataset.add_trajectories(
        [vrldata.Trajectory(trajectory_id="", sample_id="rows/0", response="4", source="offline")]
    )
    pinned = vrldata.open(f"{bucket}/a/b@v1?limit=1")
    assert pinned.trajectories.count() == 0
    assert [sample.sample_id for sample in pinned.iter_samples()] == ["rows/0"]
    assert dataset.sql("SELECT count(*) AS n FROM trajectories").to_pylist() == [{"n": 1}]

    dataset.compact(frames=True)
    dataset.gc(older_than=timedelta(0))
    assert dataset.verify(deep=True).ok
    assert vrldata.open(f"{bucket}/a/b@v1").verify(deep=True).ok
    assert dataset.info()["tables"]["frames"]["rows"] == 2


def test_a_subset_of_frames_costs_a_fraction_of_the_bytes(bucket: str, tmp_path: Path) -> None:
    write_video(tmp_path / "long.mp4", 128, width=640, height=448)
    row = {"problem": "?", "answer": "4", "problem_type": "numerical", "videos": ["long.mp4"]}
    spec = vrldata.SamplingSpec(fps=30, max_frames=64)
    dataset = vrldata.create(f"{bucket}/ranges")
    dataset.build([row], video_root=tmp_path, spec=spec, workers=0)
    store = dataset.frame_store()
    clip_id = spec.clip_id("long.mp4")
    payload = store.payload(store.row(clip_id))
    store.table.io_stats_incremental()
    store.get(clip_id, indices=[3, 40])
    assert store.table.io_stats_incremental().read_bytes < payload.size / 8


def test_a_place_without_a_dataset_says_so(bucket: str) -> None:
    with pytest.raises(vrldata.UriError, match="no dataset there"):
        vrldata.open(f"{bucket}/nothing")

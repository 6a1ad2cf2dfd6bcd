"""Builds that decode on a Ray cluster: the same rows as one on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import vrldata
from tests.data.synthetic_video import number_in, write_video

pytest.importorskip("ray", reason="needs the extra ray")

SPEC = vrldata.SamplingSpec(fps=4, max_frames=8)


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("videos")
    for number in range(5):
        write_video(folder / f"v{number}.mp4", 60 + number)
    (folder / "text.mp4").write_text("no video")
    return folder


def row(name: str) -> dict[str, Any]:
    return {"id": name, "problem": "?", "answer": "4", "problem_type": "numerical", "videos": [name]}


@pytest.mark.parametrize("codec", ["raw", "zstd"])
def test_a_build_on_ray_gives_the_rows_of_a_build_here(
    ray_session: None, videos: Path, tmp_path: Path, codec: str
) -> None:
    rows = [row(f"v{number}.mp4") for number in range(5)] + [row("text.mp4"), row("gone.mp4")]
    here = vrldata.create(tmp_path / "here")
    there = vrldata.create(tmp_path / "there")
    options: dict[str, Any] = {"video_root": videos, "spec": SPEC, "codec": codec}
    first = here.build(rows, workers=0, **options)
    second = there.build(rows, ray_address="local", workers=2, **options)
    assert (first.decoded, first.failed) == (second.decoded, second.failed) == (5, 2)
    assert sorted(first.failures) == sorted(second.failures)
    digests = [
        dict(zip(*(found.column(name).to_pylist() for name in ("clip_id", "sha256")), strict=True))
        for found in (here.frames.to_table(), there.frames.to_table())
    ]
    assert digests[0] == digests[1]
    clip = there.clip("v3.mp4", SPEC)
    assert [number_in(frame) for frame in clip.frames] == clip.metadata.frame_indices.tolist()
    assert there.build(rows, ray_address="local", **options).reused == 5


def test_a_relative_video_root_is_the_same_folder_for_the_tasks(
    ray_session: None, videos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(videos.parent)
    dataset = vrldata.create(tmp_path / "clips")
    report = dataset.build([row("v0.mp4")], video_root=videos.name, spec=SPEC, ray_address="local", workers=1)
    assert (report.decoded, report.failures) == (1, ())


def test_a_budget_is_kept_over_all_tasks_of_ray(
    ray_session: None, videos: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [row(f"v{number}.mp4") for number in range(5)]
    options: dict[str, Any] = {"video_root": videos, "spec": SPEC, "codec": "auto", "workers": 2}
    raw = vrldata.create(tmp_path / "raw").build(rows, **{**options, "codec": "raw", "workers": 0})
    for share, codecs in ((2.0, {"raw"}), (0.6, {"zstd", "ffv1", "raw"})):
        dataset = vrldata.create(tmp_path / f"share{share}")
        report = dataset.build(rows, budget_bytes=int(raw.bytes * share), ray_address="local", **options)
        assert report.decoded == 5
        assert report.bytes <= raw.bytes * share
        assert set(report.codecs) <= codecs
    tiny = vrldata.create(tmp_path / "tiny").build(rows, budget_bytes=1000, ray_address="local", **options)
    assert tiny.decoded == 5
    assert "the budget is too small" in caplog.text

"""A build over every awkward video file: each is stored or recorded with its reason, none stops the build."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

import vrldata
from tests.conftest import shared_missing, shared_root

EDGE = shared_root() / "edge"
if shared_missing() or not (EDGE / "expected.json").is_file():
    pytest.skip(shared_missing() or f"no edge videos at {EDGE}", allow_module_level=True)

FILES: dict[str, dict[str, Any]] = {
    entry["path"]: entry for entry in json.loads((EDGE / "expected.json").read_text())["files"]
}


def test_every_file_of_the_corpus_is_stored_or_recorded(tmp_path: Path) -> None:
    with tarfile.open(EDGE / "videos.tar") as archive:
        archive.extractall(tmp_path, filter="tar")
    rows = [
        {"id": place, "problem": "?", "answer": "4", "problem_type": "numerical", "videos": [path]}
        for place, path in enumerate(FILES)
    ]
    dataset = vrldata.create(tmp_path / "clips")
    report = dataset.build(rows, video_root=tmp_path, workers=2, timeout_s=60.0)
    failed = dict(report.failures)
    assert all(reason for reason in failed.values())
    assert len(rows) == report.samples + report.rejected
    samples = {sample.sample_id: sample for sample in dataset.iter_samples()}
    for place, (path, entry) in enumerate(FILES.items()):
        sample = samples.get(f"rows/{place}")
        if sample is None:
            assert any(f"row {place} " in message for message in report.rejections), path
            continue
        if entry["policy"] == "error":
            assert sample.clip_ids == (), path
        elif entry["policy"] in ("ok", "ok_or_warn"):
            assert len(sample.clip_ids) == 1, f"{path}: {failed.get(sample.videos[0])}"
        if sample.clip_ids:
            (clip,) = dataset.clips_of(sample)
            assert clip.frames.any() or entry["policy"] != "ok", path
        else:
            assert sample.videos[0] in failed, path
    with_clips = [sample for sample in samples.values() if sample.clip_ids]
    stored = {clip.clip_id: clip.warnings for sample in with_clips for clip in dataset.clips_of(sample)}
    assert sum(one["clips"] for one in dataset.info()["warnings"]) == sum(map(len, stored.values())) > 0
    assert dataset.verify(deep=True, video_root=tmp_path).problems == ()
    again = dataset.build(rows, video_root=tmp_path, workers=0)
    assert (again.decoded, again.failed) == (0, report.failed)

"""Caches of EasyVideoR1 become rows; what is no plain tensor file is refused."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import vrldata
from tests.data.synthetic_video import write_video
from vrldata.import_pt import ImportReport, import_folder, pt_name

SPEC = vrldata.SamplingSpec(fps=2, max_frames=8, max_pixels=65536)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A folder as `preprocess_videos.py` leaves it: one file by video, and the annotation that names them."""
    folder = tmp_path / "preprocessed"
    folder.mkdir()
    rows = []
    for number in range(2):
        name = f"v{number}.mp4"
        clip = vrldata.decode(write_video(tmp_path / name, 60 + number), SPEC)
        save(folder / pt_name(name, SPEC), clip)
        rows.append(
            {
                "problem_id": number,
                "problem": "How many?",
                "solution": "<answer>4</answer>",
                "problem_type": "numerical",
                "videos": [name],
                "preprocessed_video": pt_name(name, SPEC),
            }
        )
    write_rows(tmp_path, rows)
    return folder


def write_rows(folder: Path, rows: list[dict[str, Any]]) -> None:
    (folder / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))


def save(file: Path, clip: vrldata.Clip, **changes: Any) -> None:
    content = {
        "frames": clip.to_torch().float(),
        "metadata": {
            "fps": clip.metadata.fps,
            "frames_indices": clip.metadata.frame_indices.tolist(),
            "total_num_frames": clip.metadata.total_num_frames,
            "video_backend": "torchvision",
        },
        "sample_fps": clip.metadata.sampled_fps,
        "preprocess_version": "qwen3vl_patch16_v1",
    }
    torch.save({**content, **changes}, file)


def run(cache: Path, **options: Any) -> tuple[vrldata.Dataset, ImportReport]:
    dataset = vrldata.create(cache.parent / "clips")
    return dataset, import_folder(dataset, cache, **{"spec": SPEC, "video_root": cache.parent, **options})


def test_the_name_of_a_file_is_the_digest_of_path_and_figures() -> None:
    # md5("qwen3vl_patch16_v1_a/b.mp4_4096_65536_128_2.0")[:16]
    assert pt_name("a/b.mp4", vrldata.SamplingSpec(max_pixels=65536)) == "fd170b5579515ee6.pt"


def test_frames_samples_and_metadata_are_taken_over(cache: Path) -> None:
    dataset, report = run(cache)
    assert (report.imported, report.failed, report.samples, report.complete) == (2, 0, 2, True)
    for number in range(2):
        direct = vrldata.decode(cache.parent / f"v{number}.mp4", SPEC)
        found = dataset.clip(f"v{number}.mp4", SPEC)
        assert np.array_equal(found.frames, direct.frames)
        assert found.metadata.frame_indices.tolist() == direct.metadata.frame_indices.tolist()
        assert np.allclose(found.metadata.timestamps, direct.metadata.timestamps)
        assert found.metadata.sampled_fps == direct.metadata.sampled_fps
    versions = dataset.frames.to_table().column("preprocess_version").to_pylist()
    assert versions == ["qwen3vl_patch16_v1"] * 2
    assert dataset.sample("train/0").answer == "4"
    assert dataset.verify(deep=True, video_root=cache.parent).ok


def test_an_import_again_takes_over_nothing_and_a_build_reuses_it(cache: Path) -> None:
    dataset, _ = run(cache)
    _, again = run(cache)
    assert (again.imported, again.reused) == (0, 2)
    report = dataset.build([cache.parent / "train.jsonl"], video_root=cache.parent, spec=SPEC, workers=0)
    assert (report.decoded, report.reused) == (0, 2)


def test_without_the_videos_a_later_build_decodes_them(cache: Path) -> None:
    dataset, report = run(cache, video_root=None)
    assert report.imported == 2
    built = dataset.build([cache.parent / "train.jsonl"], video_root=cache.parent, spec=SPEC, workers=0)
    assert built.decoded == 2


def test_figures_that_do_not_fit_the_names_are_refused(cache: Path) -> None:
    other = vrldata.SamplingSpec(fps=1, max_frames=8, max_pixels=65536)
    _, report = run(cache, spec=other)
    assert (report.imported, report.failed) == (0, 2)
    assert "was not made from 'v0.mp4' with fps=1" in report.failures[0][1]
    _, report = run(cache, spec=other, check_names=False)
    assert report.imported == 2


@pytest.mark.parametrize("codec", ["zstd", "jpeg:95"])
def test_the_codec_can_be_chosen(cache: Path, codec: str) -> None:
    import dataclasses

    dataset, report = run(cache, spec=dataclasses.replace(SPEC, codec=codec))
    assert report.imported == 2
    assert set(dataset.frames.to_table().column("codec").to_pylist()) == {codec.split(":")[0]}


class Harmful:
    def __reduce__(self) -> tuple[Any, ...]:
        import os

        return os.mkdir, ("harm",)


@pytest.mark.parametrize("how", ["torch", "pickle"])
def test_a_file_that_would_run_code_is_refused(
    cache: Path, how: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    file = cache / pt_name("v0.mp4", SPEC)
    if how == "torch":
        torch.save({"frames": Harmful()}, file)
    else:
        file.write_bytes(pickle.dumps(Harmful()))
    _, report = run(cache)
    assert (report.imported, report.failed) == (1, 1)
    assert "not a plain tensor file" in report.failures[0][1]
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"frames": torch.full((4, 3, 32, 32), 0.5)}, "no whole numbers"),
        ({"frames": torch.full((4, 3, 32, 32), 300.0)}, "no whole numbers"),
        ({"frames": torch.full((4, 3, 32, 32), float("nan"))}, "no whole numbers"),
        ({"frames": torch.zeros(4, 1, 32, 32)}, r"expected frames \(T, 3, H, W\)"),
        ({"frames": "none"}, r"expected frames \(T, 3, H, W\)"),
        ({"metadata": {}}, "metadata without readable"),
        ({"metadata": {"fps": 30, "frames_indices": [1], "total_num_frames": 9}}, "1 frames_indices"),
    ],
)
def test_a_damaged_file_costs_only_itself(cache: Path, changes: dict[str, Any], message: str) -> None:
    clip = vrldata.decode(cache.parent / "v0.mp4", SPEC)
    save(cache / pt_name("v0.mp4", SPEC), clip, **changes)
    dataset, report = run(cache)
    assert (report.imported, report.failed) == (1, 1)
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(report.failures[0][1])
    assert dataset.failures.count() == 1


@pytest.mark.parametrize("name", ["../v0.pt", "/etc/passwd", "gone.pt", ".."])
def test_a_name_that_leads_elsewhere_is_refused(cache: Path, name: str) -> None:
    row = {
        "problem": "?",
        "answer": "4",
        "problem_type": "numerical",
        "videos": ["v0.mp4"],
        "preprocessed_video": name,
    }
    write_rows(cache.parent, [row])
    _, report = run(cache)
    assert (report.imported, report.failed) == (0, 1)


def test_a_folder_without_annotations_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    with pytest.raises(vrldata.AnnotationError, match="--annotations"):
        run(tmp_path / "cache")

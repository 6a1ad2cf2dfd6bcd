"""Annotations that lie on the Hub: `vrldata build org/name`, against a server on this machine."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import vrldata
from tests.data.hub_server import HubServer, Repository, StoredFile
from tests.data.synthetic_video import write_video

ROW = {"problem": "How many?", "answer": "4", "problem_type": "numerical", "videos": ["a.mp4"]}


@pytest.fixture
def videos(tmp_path: Path) -> Path:
    (tmp_path / "videos").mkdir()
    write_video(tmp_path / "videos" / "a.mp4", 40)
    return tmp_path / "videos"


def publish(hub: HubServer, name: str, files: dict[str, bytes], *, private: bool = False) -> Repository:
    repository = hub.repositories[name] = Repository(private=private)
    stored = {path: StoredFile(data, lfs=path.endswith(".parquet")) for path, data in files.items()}
    repository.commit("main", stored, "annotations")
    return repository


def lines(*rows: dict[str, Any]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def build(
    hub: HubServer, tmp_path: Path, sources: list[str], videos: Path, token: str | None = None
) -> subprocess.CompletedProcess[str]:
    """In a process of its own: `datasets` reads the endpoint when it is imported."""
    environment = {
        **os.environ,
        "HF_ENDPOINT": hub.url,
        "HF_TOKEN": token or hub.token,
        "HF_HUB_OFFLINE": "0",
        "HF_DATASETS_OFFLINE": "0",
        "HF_HUB_DISABLE_XET": "1",
        "HF_HOME": str(tmp_path / "home"),
    }
    program = "from vrldata.cli import main; main()"
    options = ["--out", str(tmp_path / "clips"), "--video-root", str(videos), "--workers", "0", "--json"]
    return subprocess.run(
        [sys.executable, "-c", program, "build", *sources, *options],
        env=environment,
        capture_output=True,
        text=True,
    )


def test_splits_of_hub_data_sets_become_samples(hub: HubServer, tmp_path: Path, videos: Path) -> None:
    """Named `org/name` or as a Hub URI, in Parquet or JSON Lines."""
    parquet = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([{**ROW, "problem_id": 8, "level": "hard"}]), parquet)
    splits = {f"data/{name}-00000-of-00001.parquet": parquet.getvalue() for name in ("train", "validation")}
    publish(hub, "me/questions", splits)
    publish(hub, "me/more", {"train.jsonl": lines({**ROW, "id": 1})})
    done = build(hub, tmp_path, ["me/questions", "hf://datasets/me/more"], videos)
    assert done.returncode == 0, done.stderr
    built = {one.sample_id: one for one in vrldata.open(tmp_path / "clips").iter_samples()}
    assert set(built) == {"questions-train/8", "questions-validation/8", "more-train/1"}
    assert built["questions-validation/8"].split == "validation"
    assert built["questions-train/8"].extra == {"level": "hard"}
    assert len(built["questions-train/8"].clip_ids) == 1


def test_a_revision_is_read_as_it_was(hub: HubServer, tmp_path: Path, videos: Path) -> None:
    repository = publish(hub, "me/questions", {"train.jsonl": lines({**ROW, "id": "old"})})
    repository.tags["v1"] = repository.branches["main"]
    repository.commit("main", {"train.jsonl": StoredFile(lines({**ROW, "id": "new"}), lfs=False)}, "more")
    done = build(hub, tmp_path, ["me/questions@v1"], videos)
    assert done.returncode == 0, done.stderr
    assert [one.sample_id for one in vrldata.open(tmp_path / "clips").iter_samples()] == [
        "questions-train/old"
    ]


def test_a_bad_row_on_the_hub_costs_only_itself(hub: HubServer, tmp_path: Path, videos: Path) -> None:
    rows = [{**ROW, "id": "good"}, {**ROW, "id": "bad", "answer": "many"}]
    publish(hub, "me/questions", {"train.jsonl": lines(*rows)})
    done = build(hub, tmp_path, ["me/questions"], videos)
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    assert (report["samples"], report["rejected"]) == (1, 1)
    assert report["rejections"][0].startswith("me/questions[train], row 1 (counted from 0), field 'answer': ")


@pytest.mark.parametrize(
    ("name", "token", "said"),
    [
        ("me/nothing", None, "me/nothing: no such file or folder, and no data set that can be loaded"),
        ("me/scripted", None, "scripts are no longer supported"),
        ("me/hidden", "hf_wrongTokenForThisHub", "no data set that can be loaded"),
    ],
)
def test_what_cannot_be_loaded_is_one_line(
    hub: HubServer, tmp_path: Path, videos: Path, name: str, token: str | None, said: str
) -> None:
    script = f"open({str(tmp_path / 'ran')!r}, 'w').close()\n".encode()
    publish(hub, "me/scripted", {"scripted.py": script, "train.jsonl": lines({**ROW, "id": 1})})
    publish(hub, "me/hidden", {"train.jsonl": lines({**ROW, "id": 1})}, private=True)
    done = build(hub, tmp_path, [name], videos, token)
    assert done.returncode == 2
    [error] = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert said in error
    assert "Traceback" not in done.stderr
    assert (token or hub.token) not in done.stderr + done.stdout
    assert not (tmp_path / "ran").exists()

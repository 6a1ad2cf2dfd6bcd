"""Ray Data over a dataset: keys travel, order is that of the seed, positions can be saved."""

from __future__ import annotations

import json
import resource
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vrldata
from vrldata.errors import ConfigError
from vrldata.readers import ray_iterator
from vrldata.readers.clips import RECENT_CLIPS, LazyClip

pytestmark = pytest.mark.usefixtures("ray_session")


def ids(rows: Any) -> list[str]:
    return [row["sample_id"] for row in rows]


def first_level(row: dict[str, Any]) -> dict[str, Any]:
    return {"sample_id": row["sample_id"], "level": int(row["clips"][0].frames[0, 0, 0, 0])}


def test_rows_come_in_the_order_of_the_seed(clips: vrldata.Dataset) -> None:
    rows = list(clips.ray(shuffle=1).iter_rows())
    assert ids(rows) == ids(clips.torch(shuffle=1))
    assert ids(clips.ray(shuffle=1, epoch=1).iter_rows()) != ids(rows)
    assert isinstance(rows[0]["clips"][0], LazyClip)
    assert all(int(row["clips"][0].frames[0, 0, 0, 0]) == int(row["sample_id"][1:]) * 8 for row in rows)


def test_frames_are_read_in_the_workers_that_use_them(clips: vrldata.Dataset) -> None:
    rows = clips.ray(shuffle=1, split="val").map(first_level).take_all()
    assert ids(rows) == ids(clips.torch(shuffle=1, split="val"))
    assert all(row["level"] == int(row["sample_id"][1:]) * 8 for row in rows)


def test_batches_hold_the_handles(clips: vrldata.Dataset) -> None:
    def mean_of_batch(batch: dict[str, Any]) -> dict[str, Any]:
        return {"mean": np.array([row[0].frames.mean() for row in batch["clips"]])}

    rows = clips.ray(limit=4).map_batches(mean_of_batch, batch_size=2).take_all()
    assert [row["mean"] for row in rows] == [1.5, 9.5, 17.5, 25.5]


def test_columns_filter_and_rows_without_frames(clips: vrldata.Dataset) -> None:
    rows = clips.ray(columns=["sample_id", "answer"], frames=False, filter="answer = 'B'", limit=2).take_all()
    assert rows == [{"sample_id": "s1", "answer": "B"}, {"sample_id": "s3", "answer": "B"}]
    assert clips.ray(filter="answer = 'none'").take_all() == []


def test_streaming_split_shares_the_rows(clips: vrldata.Dataset) -> None:
    import ray

    @ray.remote(num_cpus=0)
    def consume(shard: Any) -> list[str]:
        return [first_level(row)["sample_id"] for row in shard.iter_rows()]

    shards = clips.ray(shuffle=1).streaming_split(2, equal=True)
    first, second = ray.get([consume.remote(shard) for shard in shards])
    assert len(first) == len(second) == 10
    assert sorted(first + second) == sorted(f"s{number}" for number in range(20))


def test_iterator_goes_on_at_the_row_where_it_stopped(clips: vrldata.Dataset) -> None:
    rows = ray_iterator(clips, shuffle=1, transform=first_level)
    whole = list(rows)
    assert ids(whole) == ids(clips.torch(shuffle=1))
    stopped = iter(rows)
    seen = [next(stopped) for _ in range(7)]
    state = json.loads(json.dumps(rows.state_dict()))
    resumed = ray_iterator(clips, shuffle=1, transform=first_level)
    resumed.load_state_dict(state)
    second = ids(seen + list(resumed))
    assert state["epoch"] == 1
    assert sorted(second) == sorted(ids(whole))
    assert second != ids(whole)
    assert resumed.state_dict()["epoch"] == 2


def test_an_iterator_takes_the_rank_of_its_process(
    clips: vrldata.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "3")
    assert ids(ray_iterator(clips, frames=False)) == ids(
        ray_iterator(clips, frames=False, rank=2, world_size=3)
    )


def test_iterators_of_ranks_share_the_rows(clips: vrldata.Dataset) -> None:
    parts = [ray_iterator(clips, shuffle=1, rank=rank, world_size=3, frames=False) for rank in range(3)]
    assert [len(part) for part in parts] == [7, 7, 6]
    listed = [ids(part) for part in parts]
    assert [part[0] for part in listed] == ids(clips.torch(shuffle=1))[:3]
    with pytest.raises(ConfigError, match="rank=3"):
        ray_iterator(clips, rank=3, world_size=3)


def test_an_epoch_larger_than_the_object_store_keeps_memory_flat(
    tmp_path: Path, make_dataset: Callable[..., vrldata.Dataset]
) -> None:
    # 48 clips of 3 MB: twice the object store of the session
    dataset = make_dataset(tmp_path / "large", 48, num_frames=16, size=256)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    total = 0
    for row in dataset.ray(shuffle=1).iter_rows():
        frames = row["clips"][0].frames
        # every page is touched, and counts as long as it is mapped
        assert frames.max() >= frames[0, 0, 0, 0]
        total += frames.nbytes
    assert total == 48 * 16 * 256 * 256 * 3
    grown_bytes = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert grown_bytes < total / 3


def test_rows_that_wait_hold_no_frames(clips: vrldata.Dataset) -> None:
    rows = clips.ray(shuffle=1).take_all()
    watched = []
    for row in rows:
        frames = row["clips"][0].frames
        assert frames is row["clips"][0].frames
        watched.append(weakref.ref(frames))
        del frames
    assert sum(one() is not None for one in watched) <= RECENT_CLIPS

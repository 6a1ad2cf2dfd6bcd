"""Order, positions and clips of readers, and the torch and Hugging Face streams."""

from __future__ import annotations

import itertools
import json
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import vrldata
from vrldata.errors import ConfigError, FilterError, MissingClip, StoreError
from vrldata.readers import torch_dataset
from vrldata.readers.clips import ClipReader, LazyClip
from vrldata.readers.order import select_samples
from vrldata.types import Sample


def ids(rows: Any) -> list[str]:
    return [row["sample_id"] for row in rows]


def add_sample_without_clip(dataset: vrldata.Dataset) -> None:
    from vrldata.commits import merge_rows
    from vrldata.tables import sample_to_row

    broken = Sample(sample_id="broken", problem="?", answer="A", problem_type="ocr", videos=("gone.mp4",))
    merge_rows(dataset, "samples", [sample_to_row(broken)])


def test_order_is_a_function_of_seed_and_epoch(clips: vrldata.Dataset) -> None:
    order = select_samples(clips, shuffle=1)
    again = select_samples(clips, shuffle=1)
    other = select_samples(clips, shuffle=2)
    assert order.rows == again.rows
    assert order.rows["sample_id"] != other.rows["sample_id"]
    first, second = order.of_epoch(0), order.of_epoch(1)
    assert sorted(first) == sorted(second) == list(range(20))
    assert list(first) != list(second)
    assert list(second) == list(again.of_epoch(1))


def test_order_of_the_argument_is_that_of_the_uri(clips: vrldata.Dataset) -> None:
    by_uri = vrldata.open(f"{clips.root}?shuffle=7&limit=5&split=train")
    listed = [sample.sample_id for sample in by_uri.iter_samples()]
    assert len(listed) == 5
    assert ids(clips.torch(shuffle=7, limit=5, split="train")) == listed
    assert ids(by_uri.torch()) == listed


def test_limit_counts_after_the_shuffle_and_stays_for_later_epochs(clips: vrldata.Dataset) -> None:
    stream = clips.torch(shuffle=3, limit=6)
    first = ids(stream)
    stream.next_epoch()
    second = ids(stream)
    assert set(first) == set(second)
    assert first != second
    assert first == ids(clips.torch(shuffle=3))[:6]


def test_clips_are_handles_that_read_when_used(clips: vrldata.Dataset) -> None:
    row = next(iter(clips.torch(filter="sample_id = 's4'")))
    video, image = row["clips"]
    assert isinstance(video, LazyClip)
    assert (video.video_path, image.video_path) == ("videos/4.mp4", "images/4.png")
    assert len(pickle.dumps(video)) < 600
    assert video.frames.shape == (4, 32, 32, 3)
    assert video.frames[:, 0, 0, 0].tolist() == [32, 33, 34, 35]
    assert video.metadata.timestamps.tolist() == [0.0, 0.5, 1.0, 1.5]
    assert video.load(indices=[3]).frames[0, 0, 0, 0] == 35
    assert image.kind == "image"
    assert len(pickle.dumps(video)) < 600


def test_clip_reader_travels_as_a_uri(clips: vrldata.Dataset) -> None:
    reader = pickle.loads(pickle.dumps(ClipReader(clips.root)))
    row = clips.samples.to_table(filter="sample_id = 's3'").to_pylist()[0]
    assert reader.clips(row)[0].to_torch().shape == (4, 3, 32, 32)


def test_missing_clips_are_an_error_that_names_the_media_or_left_out(
    tmp_path: Path, make_dataset: Any
) -> None:
    dataset = make_dataset(tmp_path / "clips", 3)
    add_sample_without_clip(dataset)
    with pytest.raises(MissingClip, match="broken"):
        list(dataset.torch())
    assert ids(dataset.torch(skip_missing=True)) == ["s0", "s1", "s2"]
    assert ids(dataset.torch(frames=False)) == ["s0", "s1", "s2", "broken"]


def test_columns_and_filters(clips: vrldata.Dataset) -> None:
    rows = list(clips.torch(columns=["problem"], frames=False, filter="extra->>'number' = '2'"))
    assert rows == [{"problem": "What is in video 2?"}]
    with pytest.raises(FilterError, match="Did you mean 'problem'"):
        clips.torch(columns=["problm"])
    with pytest.raises(FilterError, match="Did you mean 'problem_type'"):
        clips.torch(filter="problem_typ = 'x'")


def test_ranks_share_the_rows(clips: vrldata.Dataset) -> None:
    whole = ids(clips.torch(shuffle=1, limit=11))
    parts = [ids(clips.torch(shuffle=1, limit=11, rank=rank, world_size=3)) for rank in range(3)]
    assert [len(part) for part in parts] == [4, 4, 3]
    assert [part[0] for part in parts] == whole[:3]
    assert sorted(itertools.chain(*parts)) == sorted(whole)
    even = [clips.torch(shuffle=1, limit=11, rank=rank, world_size=3, even=True) for rank in range(3)]
    assert [len(ids(part)) for part in even] == [len(part) for part in even] == [3, 3, 3]


@pytest.mark.parametrize(
    "options",
    [{"rank": 2, "world_size": 2}, {"rank": -1, "world_size": 2}, {"rank": 0}, {"batch_size": 0}],
)
def test_wrong_ranks_and_batches_are_named(clips: vrldata.Dataset, options: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=r"rank|batch_size"):
        clips.torch(**options)


def test_a_stream_goes_on_at_the_row_where_it_stopped(clips: vrldata.Dataset) -> None:
    stream = clips.torch(shuffle=1)
    whole = ids(stream)
    stream.next_epoch()
    rows = iter(stream)
    seen = [next(rows)["sample_id"] for _ in range(7)]
    state = json.loads(json.dumps(stream.state_dict()))
    resumed = clips.torch(shuffle=1)
    resumed.load_state_dict(state)
    second = seen + ids(resumed)
    assert sorted(second) == sorted(whole)
    assert second == [
        select_samples(clips, shuffle=1).rows["sample_id"][int(i)].as_py() for i in second_epoch(clips)
    ]


def second_epoch(dataset: vrldata.Dataset) -> Any:
    return select_samples(dataset, shuffle=1).of_epoch(1)


def test_a_position_in_other_rows_is_refused(clips: vrldata.Dataset) -> None:
    state = clips.torch(shuffle=1).state_dict()
    with pytest.raises(StoreError, match="another order"):
        clips.torch(shuffle=2).load_state_dict(state)


def number_of_first_pixel(row: dict[str, Any]) -> tuple[str, int]:
    return row["sample_id"], int(row["clips"][0].frames[0, 0, 0, 0])


def test_loader_with_spawned_workers_keeps_the_order(clips: vrldata.Dataset) -> None:
    from torch.utils.data import DataLoader

    stream = torch_dataset(clips, shuffle=1, batch_size=3)
    whole = ids(torch_dataset(clips, shuffle=1))
    loader = DataLoader(stream, batch_size=3, num_workers=2, collate_fn=list, multiprocessing_context="spawn")
    batches = iter(loader)
    seen = []
    for _ in range(3):
        batch = next(batches)
        assert all(row["clips"][0].frames[0, 0, 0, 0] == int(row["sample_id"][1:]) * 8 for row in batch)
        seen += ids(batch)
        stream.advance(len(batch))
    del batches
    assert seen == whole[:9]
    resumed = torch_dataset(clips, shuffle=1, batch_size=3)
    resumed.load_state_dict(stream.state_dict())
    assert ids(resumed) == whole[9:]


def test_workers_that_persist_go_on_with_the_next_epoch(clips: vrldata.Dataset) -> None:
    from torch.utils.data import DataLoader

    stream = torch_dataset(clips, shuffle=3, batch_size=2)
    loader = DataLoader(
        stream,
        batch_size=2,
        num_workers=2,
        collate_fn=list,
        multiprocessing_context="spawn",
        persistent_workers=True,
    )
    for epoch in range(3):
        seen = [sample_id for batch in loader for sample_id in ids(batch)]
        expected = torch_dataset(clips, shuffle=3)
        expected.set_epoch(epoch)
        assert seen == ids(expected)


def test_iterating_again_is_the_next_epoch(clips: vrldata.Dataset) -> None:
    again, told = torch_dataset(clips, shuffle=3), torch_dataset(clips, shuffle=3)
    for _ in range(3):
        assert ids(again) == ids(told)
        told.next_epoch()


def test_a_worker_without_rows_left_waits_for_the_next_epoch(
    clips: vrldata.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = torch_dataset(clips, shuffle=3)
    stream.advance(len(stream) - 1)
    worker = SimpleNamespace(id=1, num_workers=2)
    monkeypatch.setattr("vrldata.readers.torch_rows.get_worker_info", lambda: worker)
    assert list(stream) == []


def test_workers_state_holds_their_share(clips: vrldata.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    import vrldata.readers.torch_rows as torch_rows

    monkeypatch.setattr(torch_rows, "get_worker_info", lambda: SimpleNamespace(num_workers=2, id=1))
    stream = torch_dataset(clips, transform=number_of_first_pixel)
    rows = iter(stream)
    first = [next(rows)[0] for _ in range(3)]
    resumed = torch_dataset(clips, transform=number_of_first_pixel)
    resumed.load_state_dict(stream.state_dict())
    assert first + [name for name, _ in resumed] == [f"s{number}" for number in range(1, 20, 2)]


def test_hugging_face_dataset_has_the_columns(clips: vrldata.Dataset) -> None:
    found = clips.hf(split="val", columns=["sample_id", "options"])
    assert found.column_names == ["sample_id", "options"]
    assert found[0] == {"sample_id": "s4", "options": ["first", "second"]}


def test_hugging_face_rows_carry_clips_on_access(clips: vrldata.Dataset) -> None:
    found = clips.hf(columns=["problem"], frames=True, limit=4)
    assert set(found[0]) == {"problem", "clips"}
    assert [row["clips"][0].frames[0, 0, 0, 0] for row in found] == [0, 8, 16, 24]


def test_remote_clips_are_kept_within_a_budget(
    clips: vrldata.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vrldata.readers import clips as clip_readers

    monkeypatch.setenv("VRL_HOME", str(tmp_path))
    monkeypatch.setenv("VRL_CLIP_CACHE_BYTES", "40000")
    remote = vrldata.open(clips.root)
    rows = remote.samples.to_table().to_pylist()
    wanted = [clips.clip_by_id(row["clip_ids"][0]) for row in rows]
    remote.is_local = False
    for _ in range(2):
        for row, clip in zip(rows, wanted, strict=True):
            found = clip_readers.load_through_cache(remote, row["clip_ids"][0])
            assert np.array_equal(found.frames, clip.frames)
            assert found.metadata.timestamps.tolist() == clip.metadata.timestamps.tolist()
            assert not found.frames.flags.writeable
    kept = list(tmp_path.rglob("*.npy"))
    assert 1 <= len(kept) <= 3
    assert sum(path.stat().st_size for path in kept) <= 40000


def test_a_stream_has_no_rows_by_index(clips: vrldata.Dataset) -> None:
    with pytest.raises(TypeError, match=r"no row \[0\]: iterate it"):
        clips.torch()[0]


def test_batches_of_rows_hold_what_does_not_stack_as_lists(clips: vrldata.Dataset) -> None:
    from torch.utils.data import DataLoader

    loader = DataLoader(clips.torch(batch_size=2), batch_size=2, collate_fn=vrldata.collate)
    batch = next(iter(loader))
    assert batch["problem"] == ["What is in video 0?", "What is in video 1?"]
    assert batch["pass_rate"] == [None, None]
    assert [[clip.kind for clip in row] for row in batch["clips"]] == [["video", "image"], ["video"]]


def test_batches_stack_what_has_one_shape() -> None:
    import torch

    def row(index: int, width: int) -> dict[str, Any]:
        return {"frames": np.full((2, 3), index, np.uint8), "ids": torch.arange(width), "index": index}

    batch = vrldata.collate([row(0, 2), row(1, 3)])
    assert batch["frames"].tolist() == [[[0] * 3] * 2, [[1] * 3] * 2]
    assert batch["frames"].dtype == torch.uint8
    assert [ids.tolist() for ids in batch["ids"]] == [[0, 1], [0, 1, 2]]
    assert batch["index"].tolist() == [0, 1]
    assert vrldata.collate([row(0, 2), row(1, 2)])["ids"].shape == (2, 2)
    frames, names = vrldata.collate([(np.zeros(3), "a"), (np.ones(3), "b")])
    assert (frames.shape, names) == ((2, 3), ["a", "b"])
    assert vrldata.collate([1.5, 2]).tolist() == [1.5, 2.0]
    assert vrldata.collate([True, False]).dtype == torch.bool
    assert vrldata.collate([{"a": 1}, {"b": 2}]) == {"a": [1, None], "b": [None, 2]}
    assert vrldata.collate([2**70, 1]) == [2**70, 1]
    assert vrldata.collate([]) == []

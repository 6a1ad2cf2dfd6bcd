"""Position ids: worked by hand, and against the model's own where that one follows the original rule."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.train.colour_clips import make_clip, make_sample
from vrldata.errors import RolloutError
from vrldata.model_inputs import processor_media
from vrltrain.inputs import load_encoder
from vrltrain.positions import mrope_position_ids


def test_text_advances_all_axes_by_one() -> None:
    assert mrope_position_ids([0, 0, 0]).tolist() == [[0, 1, 2]] * 3


def test_a_picture_spans_its_grid_and_text_goes_on_behind_its_largest_side() -> None:
    ids = mrope_position_ids([0, 1, 1, 0], image_grid_thw=[(1, 2, 4)])
    assert ids.tolist() == [[0, 1, 1, 3], [0, 1, 1, 3], [0, 1, 2, 3]]


def test_after_a_long_video_text_goes_on_behind_its_last_moment() -> None:
    # 5 moments, 2 seconds apart, 1.5 positions a second: moments at 0, 3, 6, 9, 12 after the first token
    ids = mrope_position_ids(
        [0, 2, 2, 2, 2, 2, 0],
        video_grid_thw=[(5, 2, 2)],
        seconds_per_grid=[2.0],
        tokens_per_second=1.5,
    )
    assert ids[0].tolist() == [0, 1, 4, 7, 10, 13, 14]
    assert ids[1].tolist() == [0, 1, 1, 1, 1, 1, 14]


def test_frames_with_time_stamps_between_them_are_single_pictures() -> None:
    ids = mrope_position_ids([0, 2, 0, 2, 0], video_grid_thw=[(2, 2, 2)], split_frames=True)
    assert ids.tolist() == [[0, 1, 2, 3, 4]] * 3


def test_placeholders_that_do_not_fit_the_pictures_are_an_error() -> None:
    with pytest.raises(RolloutError, match="2 placeholder tokens at position 1"):
        mrope_position_ids([0, 1, 1], image_grid_thw=[(1, 2, 6)])
    with pytest.raises(RolloutError, match="no picture left"):
        mrope_position_ids([0, 2], video_grid_thw=[])
    with pytest.raises(RolloutError, match="fewer placeholder tokens"):
        mrope_position_ids([0], image_grid_thw=[(1, 2, 2)])


def test_qwen3_vl_gets_the_ids_that_its_own_model_computes(tiny_model: Path) -> None:
    from transformers import AutoModelForImageTextToText

    encoder = load_encoder(tiny_model)
    model = AutoModelForImageTextToText.from_pretrained(tiny_model)
    clips = [
        make_clip("long", num_frames=20, height=64, width=96),
        make_clip("short", num_frames=2),
        make_clip("picture", num_frames=1, kind="image"),
    ]
    prompt = encoder.prompt(make_sample(), clips)
    features = encoder.processor(text=[prompt.text], return_tensors="pt", **processor_media(clips))
    own, _ = model.model.get_rope_index(
        features["input_ids"],
        features["mm_token_type_ids"],
        image_grid_thw=features["image_grid_thw"],
        video_grid_thw=features["video_grid_thw"],
    )
    assert torch.equal(encoder.encode(prompt).position_ids, own[:, 0])


def test_qwen2_5_vl_differs_from_its_model_only_behind_a_long_video(tiny_qwen2_5: Path) -> None:
    from transformers import AutoModelForImageTextToText

    encoder = load_encoder(tiny_qwen2_5)
    model = AutoModelForImageTextToText.from_pretrained(tiny_qwen2_5)
    clips = [make_clip("long", num_frames=16, height=56, width=56)]
    prompt = encoder.prompt(make_sample(), clips)
    features = encoder.processor(text=[prompt.text], return_tensors="pt", **processor_media(clips))
    own, _ = model.model.get_rope_index(
        features["input_ids"],
        features["mm_token_type_ids"],
        video_grid_thw=features["video_grid_thw"],
        second_per_grid_ts=features["second_per_grid_ts"],
    )
    ours = encoder.encode(prompt).position_ids
    end = int((features["mm_token_type_ids"][0] == 2).nonzero().max()) + 1
    assert torch.equal(ours[:, :end], own[:, 0, :end])
    assert int(ours[0, end]) == int(ours[:, :end].max()) + 1

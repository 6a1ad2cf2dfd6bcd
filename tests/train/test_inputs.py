"""Model inputs: the engine and the trainer compute the same ids, grids and time stamps from the same clip."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.train.colour_clips import make_clip, make_sample
from vrldata.errors import ConfigError, RolloutError
from vrldata.model_inputs import MM_PROCESSOR_KWARGS, vllm_multi_modal_data
from vrldata.types import Clip
from vrltrain.inputs import load_encoder

CASES: dict[str, list[Clip]] = {
    "one clip": [make_clip(num_frames=4)],
    "a single frame": [make_clip(num_frames=2)],
    "a long clip": [make_clip(num_frames=24, height=64, width=128)],
    "two clips": [make_clip("a", num_frames=6), make_clip("b", num_frames=2, colour="blue")],
    "an image": [make_clip(num_frames=1, kind="image")],
    "clip and image": [make_clip(num_frames=4), make_clip(num_frames=1, kind="image", colour="green")],
    "text alone": [],
}


@pytest.fixture(scope="module")
def engine_processor(tiny_model: Path) -> object:
    """The processor that vLLM runs for every request, without an engine around it."""
    pytest.importorskip("vllm")
    from vllm.config import ModelConfig
    from vllm.multimodal import MULTIMODAL_REGISTRY

    config = ModelConfig(
        model=str(tiny_model),
        dtype="float32",
        limit_mm_per_prompt={"video": 4, "image": 4},
        max_model_len=2048,
    )
    return MULTIMODAL_REGISTRY.create_processor(config)


@pytest.mark.parametrize("case", sorted(CASES))
def test_engine_and_trainer_read_the_same_prompt(
    tiny_model: Path, engine_processor: object, case: str
) -> None:
    encoder, clips = load_encoder(tiny_model), CASES[case]
    prompt = encoder.prompt(make_sample(), clips)
    items = engine_processor.info.parse_mm_data(vllm_multi_modal_data(clips))  # type: ignore[attr-defined]
    seen = engine_processor(prompt.text, items, hf_processor_mm_kwargs=dict(MM_PROCESSOR_KWARGS))  # type: ignore[operator]
    ours = encoder.encode(prompt)
    assert seen["prompt_token_ids"] == ours.input_ids.tolist()
    for kind in ("video", "image"):
        grids = [item[f"{kind}_grid_thw"].data.tolist() for item in seen["mm_kwargs"].get(kind, [])]
        assert grids == ours.media.get(f"{kind}_grid_thw", [[]][:0]).tolist() if grids else not grids
    shown = [
        float(text) for text in re.findall(r"<(\d+\.\d) seconds>", encoder.tokenizer.decode(ours.input_ids))
    ]
    stamps = [stamp for item in seen["mm_kwargs"].get("video", []) for stamp in item["timestamps"].data]
    assert shown == [round(float(stamp), 1) for stamp in stamps]


def test_the_prompt_shows_the_times_of_the_frames(tiny_model: Path) -> None:
    encoder = load_encoder(tiny_model)
    clip = make_clip(num_frames=4)  # frames 0, 12, 24, 36 of 24 a second; two frames share one patch
    text = encoder.tokenizer.decode(encoder.encode(encoder.prompt(make_sample(), [clip])).input_ids)
    assert re.findall(r"<(\d+\.\d) seconds>", text) == ["0.2", "1.2"]


def test_no_frame_is_dropped_or_resized(tiny_model: Path) -> None:
    encoder = load_encoder(tiny_model)
    clip = make_clip(num_frames=6, height=96, width=32)
    encoded = encoder.encode(encoder.prompt(make_sample(), [clip]))
    assert encoded.media["video_grid_thw"].tolist() == [[3, 6, 2]]
    pixels = encoded.media["pixel_values_videos"]
    assert pixels.shape == (3 * 6 * 2, 3 * 2 * 16 * 16)
    corner = (clip.frames[0, 0, 0, 0] / 255 - 0.5) / 0.5
    assert float(pixels[0, 0]) == pytest.approx(corner, abs=1e-6)


def test_another_picture_changes_the_pixels_and_not_the_text(tiny_model: Path) -> None:
    encoder = load_encoder(tiny_model)
    red, blue = (
        encoder.encode(encoder.prompt(make_sample(), [make_clip(colour=colour)]))
        for colour in ("red", "blue")
    )
    assert red.input_ids.tolist() == blue.input_ids.tolist()
    assert not red.media["pixel_values_videos"].equal(blue.media["pixel_values_videos"])


def test_frames_off_the_patch_grid_are_an_error_that_names_sample_and_preset(tiny_model: Path) -> None:
    encoder = load_encoder(tiny_model)
    with pytest.raises(RolloutError, match=r"s0.*56 x 64 pixels.*multiples of 32.*--preset qwen3-vl"):
        encoder.prompt(make_sample(), [make_clip(width=56)])


def test_a_model_that_is_not_there_is_an_error_that_names_the_path(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"model\.path=.*nothing-here"):
        load_encoder(tmp_path / "nothing-here")

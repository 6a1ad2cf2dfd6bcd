"""Which frames are taken and at what size; held against qwen-vl-utils where it imports."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vrldata.errors import ConfigError, DecodeError
from vrldata.sampling import (
    PRESETS,
    SamplingSpec,
    normalise_video_path,
    num_sampled_frames,
    pad_indices,
    preset,
    resized_image_size,
    resized_size,
    sample_indices,
    sampled_fps,
)

OTHER_VALUES = {
    "fps": 1.0,
    "max_frames": 64,
    "max_pixels": 200704,
    "min_frames": 2,
    "min_pixels": 3136,
    "total_pixels": 1_000_000,
    "frame_multiple": 1,
    "size_multiple": 28,
    "start": 1.0,
    "end": 3.0,
    "resize": "exact",
}


@pytest.fixture(scope="module")
def qwen():
    return pytest.importorskip("qwen_vl_utils.vision_process", exc_type=ImportError)


@pytest.mark.parametrize("field", OTHER_VALUES)
def test_every_field_of_the_key_changes_the_clip_id(field):
    changed = dataclasses.replace(SamplingSpec(), **{field: OTHER_VALUES[field]})
    assert changed.clip_id("a.mp4") != SamplingSpec().clip_id("a.mp4")


def test_the_tested_fields_and_codec_are_all_there_are():
    assert {field.name for field in dataclasses.fields(SamplingSpec)} == {*OTHER_VALUES, "codec"}


def test_codec_is_not_part_of_the_key():
    assert SamplingSpec(codec="zstd").clip_id("a.mp4") == SamplingSpec(codec="raw").clip_id("a.mp4")
    assert SamplingSpec(codec="zstd") != SamplingSpec(codec="raw")


def test_clip_id_stays_the_same_between_releases():
    """The digest names rows of stored data: a change here orphans every dataset."""
    key = (
        '{"end":null,"fps":2.0,"frame_multiple":2,"max_frames":128,"max_pixels":262144,"min_frames":4,'
        '"min_pixels":4096,"resize":"native","size_multiple":32,"start":null,"total_pixels":null,'
        '"video_path":"a/b.mp4"}'
    )
    assert SamplingSpec().clip_id("a/b.mp4") == hashlib.sha256(key.encode()).hexdigest()


def test_whole_and_decimal_rates_are_the_same_spec():
    assert SamplingSpec(fps=2) == SamplingSpec(fps=2.0) == SamplingSpec(fps=np.float32(2))
    assert SamplingSpec(fps=2).clip_id("a") == SamplingSpec(fps=2.0).clip_id("a")
    assert SamplingSpec(max_frames=16.0).key_json() == SamplingSpec(max_frames=np.int64(16)).key_json()


def test_json_round_trip_keeps_every_field():
    spec = SamplingSpec(**OTHER_VALUES, codec="jpeg")
    assert SamplingSpec.from_json(spec.to_json()) == spec
    assert list(json.loads(spec.to_json())) == sorted(json.loads(spec.to_json()))
    assert "codec" not in json.loads(spec.key_json())


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"fps": "2"}, "fps='2'"),
        ({"fps": 0}, "fps=0"),
        ({"fps": math.nan}, "finite"),
        ({"fps": True}, "fps=True"),
        ({"max_frames": 0}, "max_frames=0"),
        ({"max_frames": 12.5}, "max_frames=12.5"),
        ({"max_frames": 1}, "frame_multiple=2"),
        ({"min_pixels": 300000}, "max_pixels=262144"),
        ({"max_pixels": 500, "min_pixels": 400}, "raise max_pixels to 1024"),
        ({"start": -1}, "start=-1"),
        ({"start": 3, "end": 3}, "end=3.0"),
        ({"total_pixels": 0}, "total_pixels=0"),
        ({"codec": ""}, "codec=''"),
        ({"resize": "exakt"}, "Did you mean 'exact'"),
    ],
)
def test_a_wrong_value_is_named(values, told):
    with pytest.raises(ConfigError, match=told.replace("(", r"\(")):
        SamplingSpec(**values)


def test_an_unknown_field_in_json_suggests_the_nearest():
    with pytest.raises(ConfigError, match="Did you mean 'max_frames'"):
        SamplingSpec.from_json('{"max_frame": 3}')
    with pytest.raises(ConfigError, match="not JSON"):
        SamplingSpec.from_json("{")
    with pytest.raises(ConfigError, match="expected a JSON object"):
        SamplingSpec.from_json("[1]")


def test_video_paths_with_one_meaning_have_one_form():
    assert normalise_video_path("./a//b/./c.mp4") == "a/b/c.mp4"
    assert normalise_video_path("cafe\u0301.mp4") == "caf\u00e9.mp4"
    assert normalise_video_path("/data/./a.mp4") == "/data/a.mp4"
    assert normalise_video_path("a/../b.mp4") == "a/../b.mp4"
    assert normalise_video_path("s3://bucket//a.mp4") == "s3://bucket//a.mp4"
    assert normalise_video_path("back\\slash.mp4") == "back\\slash.mp4"


def test_an_image_has_one_key_whatever_the_rate_of_the_videos():
    assert SamplingSpec(fps=1, start=2.0).for_image() == SamplingSpec(fps=4, max_frames=16).for_image()
    assert SamplingSpec().for_image().max_pixels == 1024 * 32 * 32
    assert preset("qwen2-vl").for_image().max_pixels == 1024 * 28 * 28
    assert SamplingSpec().for_image(50176).max_pixels == 50176


def test_presets_keep_to_the_grid_of_their_family():
    grids = {"qwen2-vl": 28, "qwen2.5-vl": 28, "qwen3-vl": 32, "qwen3.5-vl": 32}
    assert {name: spec.size_multiple for name, spec in PRESETS.items()} == grids
    assert preset("qwen3-vl") == SamplingSpec()
    with pytest.raises(ConfigError, match="Did you mean 'qwen3-vl'"):
        preset("qwen3vl")


def test_number_of_frames_is_floored_to_the_multiple():
    assert num_sampled_frames(95, Fraction(25), SamplingSpec(fps=2)) == 6
    assert num_sampled_frames(95, Fraction(25), SamplingSpec(fps=2, frame_multiple=1)) == 7


def test_exact_products_do_not_lose_frames():
    assert num_sampled_frames(120, Fraction(30), SamplingSpec(fps=2)) == 8
    assert num_sampled_frames(100, Fraction(10), SamplingSpec(fps=0.6)) == 6
    assert (
        num_sampled_frames(30_030, Fraction(30_000, 1001), SamplingSpec(fps=Fraction(2), max_frames=2048))
        == 2004
    )


def test_short_videos_give_what_they_have():
    assert num_sampled_frames(1, Fraction(25), SamplingSpec()) == 1
    assert num_sampled_frames(2, Fraction(25), SamplingSpec()) == 2
    assert num_sampled_frames(3, Fraction(25), SamplingSpec()) == 2
    assert num_sampled_frames(3, Fraction(25), SamplingSpec(frame_multiple=4)) == 3
    assert pad_indices(sample_indices(3, 3), 4).tolist() == [0, 1, 2, 2]


def test_max_frames_wins_over_min_frames():
    assert num_sampled_frames(300, Fraction(30), SamplingSpec(max_frames=2)) == 2


def test_no_frames_is_an_error():
    with pytest.raises(DecodeError, match="no frame"):
        num_sampled_frames(0, Fraction(30), SamplingSpec())
    with pytest.raises(DecodeError, match="not positive"):
        num_sampled_frames(3, Fraction(0), SamplingSpec())


def test_sampled_rate_is_the_share_of_the_source_rate():
    assert sampled_fps(8, 120, Fraction(30)) == 2.0


def test_too_long_a_picture_names_the_limit():
    with pytest.raises(DecodeError, match="absolute aspect ratio must be smaller than 200, got 256"):
        resized_size(16, 4096, 4, SamplingSpec())


def test_a_narrow_picture_keeps_one_cell():
    height, width = resized_size(
        3200, 16, 4, SamplingSpec(size_multiple=28, min_pixels=3136, max_pixels=50176)
    )
    assert (height, width) == (3164, 28)


rates = st.sampled_from([Fraction(n) for n in (5, 8, 10, 12, 15, 24, 25, 30, 50, 60, 120, 240)]) | st.builds(
    Fraction, st.sampled_from([24000, 30000, 60000]), st.just(1001)
)


@settings(max_examples=500, deadline=None)
@given(
    st.integers(2, 20_000), rates, st.sampled_from([0.5, 1, 2, 4, 8]), st.integers(2, 512), st.integers(2, 16)
)
def test_frames_agree_with_the_reference(qwen, total, rate, fps, max_frames, min_frames):
    torch = pytest.importorskip("torch")
    spec = SamplingSpec(fps=fps, max_frames=max_frames, min_frames=min_frames)
    wanted = {"fps": fps, "min_frames": min_frames, "max_frames": max_frames}
    frames = num_sampled_frames(total, rate, spec)
    exact = total / rate * Fraction(fps)
    if exact % 2 == 0:
        # the float product of the reference may fall below the whole number: both answers are its rule
        assert frames - qwen.smart_nframes(wanted, total, float(rate)) in (0, 2)
    else:
        assert frames == qwen.smart_nframes(wanted, total, float(rate))
    assert (
        sample_indices(total, frames).tolist() == torch.linspace(0, total - 1, frames).round().long().tolist()
    )


@settings(max_examples=300, deadline=None)
@given(
    st.integers(8, 4400),
    st.integers(8, 4400),
    st.integers(1, 400).map(lambda half: 2 * half),
    st.sampled_from([28, 32]),
    st.integers(1, 128),
    st.integers(1, 900),
    st.none() | st.integers(1000, 60_000),
)
def test_sizes_agree_with_the_reference(
    qwen, height, width, frames, grid, min_cells, more_cells, total_cells
):
    cell = grid * grid
    spec = SamplingSpec(
        size_multiple=grid,
        min_pixels=min_cells * cell,
        max_pixels=(min_cells + more_cells) * cell,
        total_pixels=total_cells and total_cells * cell,
    )
    # what fetch_video does between the frames and smart_resize
    total = spec.total_pixels or qwen.MODEL_SEQ_LEN * cell * 0.9
    most = max(min(qwen.VIDEO_MAX_TOKEN_NUM * cell, total / frames * 2), int(spec.min_pixels * 1.05))
    most = min(spec.max_pixels, most)
    if max(height, width) / min(height, width) > 200:
        with pytest.raises(DecodeError):
            resized_size(height, width, frames, spec)
        return
    expected = qwen.smart_resize(height, width, grid, min_pixels=spec.min_pixels, max_pixels=most)
    if min(expected) > 0:
        assert resized_size(height, width, frames, spec) == expected
    image = qwen.smart_resize(height, width, grid, min_pixels=spec.min_pixels, max_pixels=spec.max_pixels)
    if min(image) > 0:
        assert resized_image_size(height, width, spec) == image

"""Payloads of frames: what comes back, what a subset reads, and what damage looks like."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import vrldata
from vrldata.codec_budget import CodecChooser
from vrldata.codecs import CODECS, choose_codec, decode_frames, encode_frames, parse_codec

LOSSLESS = [name for name, info in CODECS.items() if info.lossless]
SHAPES = [(5, 48, 80, 3), (1, 1, 1, 3), (3, 17, 33, 3), (2, 64, 64, 3)]


class CountingReader:
    """Reads ranges of a payload in memory and counts the bytes that were asked for."""

    def __init__(self, payload: object) -> None:
        self.content = memoryview(payload).cast("B")  # type: ignore[arg-type]
        self.num_bytes = 0

    def __call__(self, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        self.num_bytes += sum(length for _, length in ranges)
        return [self.content[offset : offset + length] for offset, length in ranges]


def noise(shape: tuple[int, ...], seed: int = 0) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def smooth(shape: tuple[int, int, int, int]) -> NDArray[np.uint8]:
    time, rows, columns, _ = np.meshgrid(*(np.arange(size) for size in shape), indexing="ij")
    return ((rows + columns + 7 * time) % 256).astype(np.uint8)


def round_trip(frames: NDArray[np.uint8], codec: str, indices: list[int] | None = None) -> NDArray[np.uint8]:
    payload = encode_frames(frames, parse_codec(codec))
    reader = CountingReader(payload)
    return decode_frames(reader, parse_codec(codec).name, frames.shape, reader.content.nbytes, indices)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("codec", LOSSLESS)
def test_lossless_codecs_give_the_same_pixels(codec: str, shape: tuple[int, int, int, int]) -> None:
    for frames in (noise(shape), smooth(shape), np.zeros(shape, np.uint8), np.full(shape, 255, np.uint8)):
        assert np.array_equal(round_trip(frames, codec), frames)


def test_large_clips_are_coded_by_several_threads_with_the_same_result() -> None:
    frames = np.concatenate([noise((8, 256, 256, 3)), smooth((40, 256, 256, 3))])
    for codec in ("zstd", "jpeg"):
        whole = round_trip(frames, codec)
        assert np.array_equal(whole[10:11], round_trip(frames[10:11], codec))


def test_jpeg_is_close_and_a_higher_quality_closer() -> None:
    frames = smooth((3, 64, 96, 3)) // 2
    errors = [
        np.abs(round_trip(frames, f"jpeg:{quality}").astype(int) - frames).mean() for quality in (40, 92, 100)
    ]
    assert errors[0] > errors[1] > errors[2]
    assert errors[1] < 2


def test_jpeg_keeps_colour_at_full_resolution() -> None:
    frames = np.zeros((1, 32, 32, 3), np.uint8)
    frames[:, :, ::2, 0] = 200
    assert np.abs(round_trip(frames, "jpeg:95").astype(int) - frames).max() < 40


@pytest.mark.parametrize("codec", list(CODECS))
@pytest.mark.parametrize("indices", [[3], [0, 5, 2, 2], [5, 4, 3, 2, 1, 0], [], list(range(6))])
def test_a_subset_is_the_same_as_indexing_the_whole(codec: str, indices: list[int]) -> None:
    frames = smooth((6, 40, 56, 3))
    assert np.array_equal(round_trip(frames, codec, indices), round_trip(frames, codec)[indices])


@pytest.mark.parametrize("codec", list(CODECS))
def test_a_subset_reads_only_its_bytes(codec: str) -> None:
    frames = noise((32, 40, 56, 3))
    reader = CountingReader(encode_frames(frames, parse_codec(codec)))
    decode_frames(reader, codec, frames.shape, reader.content.nbytes, [7, 20])
    assert reader.num_bytes < reader.content.nbytes / 8


def test_raw_frames_are_a_view_of_what_was_read() -> None:
    frames = noise((2, 8, 8, 3))
    payload = encode_frames(frames, parse_codec("raw"))
    assert np.shares_memory(payload, frames)
    decoded = decode_frames(lambda _: [payload], "raw", frames.shape, frames.nbytes)
    assert np.shares_memory(decoded, frames)


@pytest.mark.parametrize("codec", list(CODECS))
def test_decoded_frames_cannot_be_written_to(codec: str) -> None:
    with pytest.raises(ValueError, match="read-only"):
        round_trip(noise((2, 16, 16, 3)), codec)[0, 0, 0, 0] = 1


@pytest.mark.parametrize("codec", list(CODECS))
def test_a_cut_payload_is_an_error(codec: str) -> None:
    frames = noise((4, 24, 24, 3))
    payload = bytes(memoryview(encode_frames(frames, parse_codec(codec))).cast("B"))
    for size in (1, 20, len(payload) // 2, len(payload) - 1):
        reader = CountingReader(payload[:size])
        with pytest.raises(vrldata.StoreError, match="damaged"):
            decode_frames(reader, codec, frames.shape, size)


@pytest.mark.parametrize("codec", [name for name in CODECS if name != "raw"])
@settings(max_examples=40, deadline=None)
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_flipped_bit_gives_an_error_or_frames_of_the_right_shape(
    codec: str, place: float, bit: int
) -> None:
    frames = smooth((3, 24, 24, 3))
    payload = bytearray(memoryview(encode_frames(frames, parse_codec(codec))).cast("B"))
    payload[int(place * len(payload))] ^= 1 << bit
    try:
        decoded = decode_frames(CountingReader(payload), codec, frames.shape, len(payload))
    except vrldata.StoreError:
        return
    assert decoded.shape == frames.shape


@pytest.mark.parametrize(
    "frames",
    [np.zeros((2, 4, 4, 3), np.float32), np.zeros((2, 4, 4), np.uint8), np.zeros((0, 4, 4, 3), np.uint8)],
)
def test_what_is_no_clip_is_refused(frames: NDArray[np.uint8]) -> None:
    with pytest.raises(vrldata.StoreError, match=r"uint8 \(T, H, W, 3\)"):
        encode_frames(frames, parse_codec("raw"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("zst", "Did you mean 'zstd'"),
        ("jpeg:0", "from 1 to 100"),
        ("jpeg:high", "whole number"),
        ("raw:3", "takes no number"),
        ("", "Known"),
    ],
)
def test_a_wrong_codec_says_what_is_right(text: str, message: str) -> None:
    with pytest.raises(vrldata.ConfigError, match=message):
        parse_codec(text)


def test_auto_takes_the_fastest_codec_that_fits() -> None:
    sizes = {"raw": 100.0, "zstd": 50.0, "ffv1": 30.0, "jpeg": 10.0}
    chosen = [choose_codec(sizes, budget) for budget in (200, 99, 49, 29, 5)]
    assert chosen == ["raw", "zstd", "ffv1", "jpeg", "jpeg"]


def test_a_budget_is_kept_over_many_clips() -> None:
    frames = smooth((8, 64, 64, 3))
    raw_total = 20 * frames.nbytes
    for share in (1.1, 0.5, 0.05):
        chooser = CodecChooser("auto", int(raw_total * share))
        chooser.expect(20)
        spent = 0
        for _ in range(20):
            size = memoryview(encode_frames(frames, chooser.choose(frames))).nbytes
            chooser.spent(size)
            spent += size
        assert spent <= raw_total * share


def test_what_lies_in_the_store_counts_against_the_budget() -> None:
    frames = noise((4, 32, 32, 3))
    chooser = CodecChooser("auto", frames.nbytes * 2)
    chooser.expect(1, stored_bytes=frames.nbytes * 2 - 100)
    assert chooser.choose(frames).name != "raw"


@pytest.mark.parametrize(("codec", "budget"), [("auto", None), ("raw", 10), ("auto", 0)])
def test_auto_and_budget_belong_together(codec: str, budget: int | None) -> None:
    with pytest.raises(vrldata.ConfigError, match="budget"):
        CodecChooser(codec, budget)

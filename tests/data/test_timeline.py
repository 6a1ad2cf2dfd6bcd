"""When frames are shown: clocks that leap, times that are missing or doubled, rates that headers give."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from vrldata.timeline import joined, timeline_of

MILLISECOND = Fraction(1, 1000)
BROADCAST = Fraction(1, 90_000)


def ticks(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def test_a_clock_that_is_set_back_goes_on_at_the_usual_distance():
    found, leaps = joined(ticks(5000, 5040, 5080, 100, 140), MILLISECOND, broadcast=False)
    assert found.tolist() == [5000, 5040, 5080, 5120, 5160]
    assert leaps == 1


def test_only_a_broadcast_is_set_ahead():
    """In a file a long gap is a picture that is shown for long."""
    times = ticks(0, 3600, 7200, 90_000_000, 90_003_600)
    assert joined(times, BROADCAST, broadcast=True)[0].tolist() == [0, 3600, 7200, 10_800, 14_400]
    assert joined(times, BROADCAST, broadcast=False)[0].tolist() == times.tolist()


def test_slides_of_a_broadcast_keep_their_times():
    slides = ticks(*range(0, 90_000 * 30 * 5, 90_000 * 30))
    assert joined(slides, BROADCAST, broadcast=True)[0].tolist() == slides.tolist()


@pytest.mark.parametrize(
    ("times", "mended"),
    [
        ((0, 40, 40, 120), (0, 40, 80, 120)),
        ((0, 0, 67, 67, 133, 133), (0, 34, 67, 100, 133, 166)),
        ((0, 40, 80, 40, 160), (0, 40, 80, 120, 160)),
        ((0, 120, 40, 80, 160), (0, 40, 80, 120, 160)),
        ((7, 7, 7), (7, 8, 9)),
    ],
)
def test_times_are_made_to_ascend(times, mended):
    found, leaps = joined(ticks(*times), MILLISECOND, broadcast=False)
    assert found.tolist() == pytest.approx(mended, abs=1)
    assert (np.diff(found) >= 0).all()
    assert leaps == 0


def test_one_picture_is_shown_as_long_as_its_packet_says():
    """The rate of a stream that is coded in fields is twice that of its frames."""
    one = timeline_of(ticks(126_000), BROADCAST, 3600, (Fraction(50), Fraction(25)))
    assert (one.rate, one.duration) == (25, Fraction(1, 25))
    assert timeline_of(ticks(0), MILLISECOND, 500, ()).rate == 2
    assert timeline_of(ticks(0), MILLISECOND, 0, (Fraction(10),)).rate == 10


def test_a_length_that_ticks_cut_is_the_plain_number_within_one_of_them():
    """60 frames in 3 s, written as 263 999 ticks and a last frame of 6000."""
    times = [round(i * 3000) for i in range(30)] + [90_000 + i * 6000 for i in range(30)]
    times[-1] -= 1
    found = timeline_of(ticks(*times), BROADCAST, 6000, ())
    assert not found.constant
    assert (found.duration, found.rate) == (3, 20)


@pytest.mark.parametrize("time_base", [Fraction(1, 15), Fraction(1001, 24_000), Fraction(1, 15_360)])
def test_a_window_from_frame_to_frame_holds_both(time_base):
    step = max(1, round(1 / (24 * time_base)))
    found = timeline_of(np.arange(200) * step, time_base, step, ())
    seconds = found.seconds().tolist()
    for first in range(0, 199, 7):
        assert found.window(seconds[first], seconds[first + 1]) == (first, first + 2)


@pytest.fixture(scope="module")
def transport_streams(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes]:
    """Two seconds each with numbers from 0, the second one an hour later on its clock."""
    pytest.importorskip("av")
    from tests.data.synthetic_video import write_video

    folder = tmp_path_factory.mktemp("ts")
    first = write_video(folder / "a.ts", 60, gop=15)
    second = folder / "b.ts"
    _shift(first, second, seconds=3600)
    return first.read_bytes(), second.read_bytes()


def _shift(source: Path, target: Path, seconds: int) -> None:
    import av

    with av.open(str(source)) as reader, av.open(str(target), "w") as writer:
        stream = reader.streams.video[0]
        copy = writer.add_stream_from_template(stream)
        for packet in reader.demux(stream):
            if packet.size:
                packet.pts += seconds * 90_000
                packet.dts += seconds * 90_000
                packet.stream = copy
                writer.mux(packet)


@pytest.mark.parametrize("order", [(0, 0), (0, 1), (1, 0)], ids=["again", "ahead", "back"])
def test_joined_transport_streams_run_on(tmp_path: Path, transport_streams, order):
    from tests.data.synthetic_video import number_in
    from vrldata.decoding import decode
    from vrldata.sampling import SamplingSpec

    file = tmp_path / "joined.ts"
    file.write_bytes(b"".join(transport_streams[number] for number in order))
    clip = decode(file, SamplingSpec(fps=2))
    assert clip.metadata.total_num_frames == 120
    assert clip.metadata.fps == 30
    assert [number_in(frame) for frame in clip.frames] == (clip.metadata.frame_indices % 60).tolist()
    assert clip.metadata.timestamps == pytest.approx(clip.metadata.frame_indices / 30, abs=1e-3)
    assert any("the clock leaps 1 time(s)" in warning for warning in clip.warnings)


def test_a_short_transport_stream_is_known_by_its_sync_bytes(tmp_path: Path):
    pytest.importorskip("av")
    from tests.data.synthetic_video import write_video
    from vrldata.decoding import decode

    file = write_video(tmp_path / "two.ts", 2, width=64, height=64, crf="40")
    assert file.stat().st_size < 3000
    assert decode(file).metadata.total_num_frames == 2


@pytest.mark.parametrize("codec", ["mpeg1video", "mpeg4"])
def test_an_avi_counts_pictures_in_the_order_of_decoding(tmp_path: Path, codec):
    pytest.importorskip("av")
    from tests.data.synthetic_video import number_in, write_video
    from vrldata.decoding import decode
    from vrldata.sampling import SamplingSpec

    file = write_video(tmp_path / "a.avi", 50, fps=25, codec=codec, gop=12, bf="2")
    clip = decode(file, SamplingSpec(fps=25))
    assert (clip.metadata.fps, clip.metadata.duration) == (25, 2)
    assert [number_in(frame) for frame in clip.frames] == list(range(50))
    assert clip.metadata.timestamps == pytest.approx(np.arange(50) / 25)

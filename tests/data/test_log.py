"""Progress of long work: what is shown, and when the time left is worth telling."""

from __future__ import annotations

import logging

import pytest

from vrldata.log import Pace, progress


def test_one_item_after_a_long_start_tells_nothing_about_the_rest() -> None:
    pace = Pace(total=48, start=0.0)
    pace.advance(1, now=14.0)
    assert pace.seconds_left(now=14.0) is None


def test_the_start_is_no_part_of_the_estimate() -> None:
    pace = Pace(total=48, start=0.0)
    for number in range(5):
        pace.advance(1, now=14.0 + 0.5 * number)
    assert pace.rate(now=16.0) == 2.0
    assert pace.seconds_left(now=16.0) == 21.5


def test_slow_items_of_a_large_total_are_estimated_after_ten_seconds() -> None:
    pace = Pace(total=1000, start=0.0)
    pace.advance(1, now=3.0)
    pace.advance(1, now=8.0)
    assert pace.seconds_left(now=8.0) is None
    pace.advance(1, now=13.0)
    assert pace.seconds_left(now=13.0) == 997 * 5.0


def test_finished_work_is_rated_as_a_whole_and_has_nothing_left() -> None:
    pace = Pace(total=4, start=0.0)
    pace.advance(2, now=7.0)
    pace.advance(2, now=8.0)
    assert pace.rate(now=8.0) == 0.5
    assert pace.seconds_left(now=8.0) is None


def test_work_of_unknown_length_has_no_estimate() -> None:
    pace = Pace(total=None, start=0.0)
    for second in range(1, 60):
        pace.advance(1, now=float(second))
    assert pace.seconds_left(now=60.0) is None


def test_lines_tell_count_rate_and_notes(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("vrldata").propagate = True
    with caplog.at_level(logging.INFO, logger="vrldata"), progress("decode", total=2, unit="clips") as bar:
        bar.advance(2, failed=1)
    assert caplog.messages[-1].startswith("decode: 2/2 clips, ")
    assert caplog.messages[-1].endswith(" clips/s, failed 1")

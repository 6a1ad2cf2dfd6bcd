"""Subtitles: those of the frames that are sent, in order, without markup."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.eval.examples import make_clip
from vrldata.errors import BenchmarkError
from vrleval.subtitles import read_subtitles, subtitle_block

SRT = """1
00:00:01,400 --> 00:00:02,000
<font color="white">Second</font> line

2
00:00:00,000 --> 00:00:00,400
First line

3
00:00:09,000 --> 00:00:10,000
Too late
"""


def test_lines_of_sampled_frames_are_kept_in_order_of_time(tmp_path: Path) -> None:
    path = tmp_path / "a.srt"
    path.write_text(SRT)
    # frames at 0, 0.5, 1.0 and 1.5 s
    assert subtitle_block(path, make_clip(frames=4)) == "Subtitles of the video:\nFirst line\nSecond line"


def test_a_clip_between_the_lines_has_none(tmp_path: Path) -> None:
    path = tmp_path / "a.srt"
    path.write_text("1\n00:01:00,000 --> 00:01:02,000\nLater\n")
    assert subtitle_block(path, make_clip()) == ""


def test_words_become_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(
        '{"text": "Look", "start_time": 0.0, "end_time": 0.2}\n'
        '{"text": "there.", "start_time": 0.3, "end_time": 0.6}\n'
        '{"text": "Now", "start_time": 0.7, "end_time": 0.9}\n'
    )
    assert [line.text for line in read_subtitles(path)] == ["Look there.", "Now"]


def test_a_broken_word_names_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "Look"}\n')
    with pytest.raises(BenchmarkError, match=r"a\.jsonl:1"):
        read_subtitles(path)

"""Contact sheets and gallery pages of real rows."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import vrldata
from tests.data.conftest import numbered_clip
from vrldata.answer_marks import AnswerMarks, answer_marks
from vrldata.commits import merge_rows
from vrldata.contact_sheet import SHEET_WIDTH, box_note
from vrldata.errors import ConfigError, MissingClip, StoreError
from vrldata.preview import preview
from vrldata.sheet_text import printable, sheet_font
from vrldata.tables import sample_to_row
from vrldata.types import Sample, Trajectory

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)> \"'&"
RIGHT_GREEN = (10, 143, 79)


@pytest.fixture(scope="module")
def dataset(
    tmp_path_factory: pytest.TempPathFactory, make_dataset: Callable[..., vrldata.Dataset]
) -> vrldata.Dataset:
    made = make_dataset(tmp_path_factory.mktemp("preview") / "clips", 3, num_frames=12, size=64)
    [first, *_] = made.iter_samples(limit=1)
    more = [
        Sample(
            sample_id="span",
            problem="When does it start?",
            answer=json.dumps({"time": [1.0, 2.0]}),
            problem_type="temporal_grounding",
            videos=first.videos,
            clip_ids=first.clip_ids[:1],
        ),
        Sample(
            sample_id="box",
            problem="Where is it?",
            answer=json.dumps({"boxes": [250, 250, 750, 750]}),
            problem_type="spatial_grounding",
            images=first.images,
            clip_ids=first.clip_ids[1:],
        ),
        Sample(sample_id="gone", problem="?", answer="A", problem_type="ocr", videos=("gone.mp4",)),
        Sample(sample_id="hostile", problem=HOSTILE, answer=HOSTILE, problem_type="ocr", split="train"),
    ]
    merge_rows(made, "samples", [sample_to_row(sample) for sample in more])
    made.add_trajectories(
        Trajectory(
            trajectory_id=f"t{number}",
            sample_id="hostile" if number == 9 else "span",
            response=HOSTILE if number == 9 else f"response {number}",
            source="rollout",
            reward=number / 10,
            correct=number > 4,
            rewards={"accuracy": number / 10},
        )
        for number in range(10)
    )
    return made


def colours(path: Path) -> set[tuple[int, ...]]:
    pixels = np.asarray(Image.open(path).convert("RGB")).reshape(-1, 3)
    return {tuple(int(value) for value in colour) for colour in np.unique(pixels, axis=0)}


def test_a_sheet_shows_frames_and_span(dataset: vrldata.Dataset, tmp_path: Path) -> None:
    report = preview(dataset, sample_id="span", png=tmp_path / "sheet.png")
    assert (report.num_samples, report.png) == (1, tmp_path / "sheet.png")
    picture = Image.open(tmp_path / "sheet.png")
    assert picture.width == SHEET_WIDTH
    found = colours(tmp_path / "sheet.png")
    # eight of twelve grey frames, evenly spaced, and the green of frames inside the span
    assert {(level,) * 3 for level in (0, 2, 3, 5, 6, 8, 9, 11)} <= found
    assert RIGHT_GREEN in found


def test_a_box_is_drawn_where_the_answer_says(dataset: vrldata.Dataset, tmp_path: Path) -> None:
    preview(dataset, sample_id="box", png=tmp_path / "sheet.png")
    pixels = np.asarray(Image.open(tmp_path / "sheet.png").convert("RGB")).astype(int)
    ys, xs = np.nonzero((pixels == (0, 210, 106)).all(axis=-1))
    picture = (pixels == 0).all(axis=-1)
    top, bottom = np.nonzero(picture.any(axis=1))[0][[0, -1]]
    left, right = np.nonzero(picture.any(axis=0))[0][[0, -1]]
    assert (xs.min() - left) / (right - left) == pytest.approx(0.25, abs=0.02)
    assert (xs.max() - left) / (right - left) == pytest.approx(0.75, abs=0.02)
    assert (ys.min() - top) / (bottom - top) == pytest.approx(0.25, abs=0.02)
    assert (ys.max() - top) / (bottom - top) == pytest.approx(0.75, abs=0.02)


def test_options_have_the_letters_of_the_answer(tmp_path: Path) -> None:
    made = vrldata.create(tmp_path / "clips")
    asked = Sample(
        sample_id="q",
        problem="Which?",
        answer="A",
        problem_type="multiple_choice",
        options=("circle", "square"),
    )
    own = dataclasses.replace(asked, sample_id="own", options=("(A) left", "(B) right"))
    merge_rows(made, "samples", [sample_to_row(asked), sample_to_row(own)])
    preview(made, html=tmp_path / "page.html", png=tmp_path / "sheet.png")
    page = (tmp_path / "page.html").read_text()
    assert re.findall(r'<div class="text">(.*?)</div>', page) == [
        "Which?",
        "A. circle",
        "B. square",
        "Which?",
        "(A) left",
        "(B) right",
    ]


def test_a_box_of_another_moment_says_so() -> None:
    clip = numbered_clip(0, num_frames=4)
    box = (0.0, 0.0, 0.5, 0.5)
    marks = AnswerMarks(timed_boxes={0.5: box, 1.2: box, 9.0: box})
    notes = [box_note(clip, index, marks) for index in range(4)]
    assert [float(time) for time in clip.metadata.timestamps] == [0.0, 0.5, 1.0, 1.5]
    assert notes == ["", "", "box of 1.2 s", ""]


def test_a_sheet_of_a_clip_alone_and_of_missing_clips(dataset: vrldata.Dataset, tmp_path: Path) -> None:
    [sample] = dataset.iter_samples(limit=1)
    preview(dataset, clip_id=sample.clip_ids[0], png=tmp_path / "clip.png")
    preview(dataset, sample_id="gone", png=tmp_path / "gone.png", html=tmp_path / "gone.html")
    assert Image.open(tmp_path / "clip.png").height > 200
    assert "gone" in (tmp_path / "gone.html").read_text()
    assert "no clips for all" in (tmp_path / "gone.html").read_text()


def test_what_does_not_exist_is_named(dataset: vrldata.Dataset, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no sample 'nope'"):
        preview(dataset, sample_id="nope", png=tmp_path / "x.png")
    with pytest.raises(MissingClip, match="no clip 'nope'"):
        preview(dataset, clip_id="nope", png=tmp_path / "x.png")
    with pytest.raises(StoreError, match="no sample to show matches"):
        preview(dataset, filter="answer = 'never'", png=tmp_path / "x.png")
    with pytest.raises(StoreError, match="--png or --html"):
        preview(dataset)
    assert list(tmp_path.iterdir()) == []


class Elements(HTMLParser):
    """Counts tags and keeps the text of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.sources: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.sources += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_gallery_is_self_contained_and_escapes_everything(dataset: vrldata.Dataset, tmp_path: Path) -> None:
    report = preview(dataset, html=tmp_path / "gallery.html")
    page = (tmp_path / "gallery.html").read_text()
    found = Elements()
    found.feed(page)
    assert report.num_samples == 7
    assert found.tags.count("article") == 7
    assert found.tags.count("script") == 1
    assert all(source.startswith("data:image/jpeg;base64,") for source in found.sources)
    assert found.text.count(HOSTILE) == 3
    assert "alert(1)</script>" not in page
    assert not re.search(r"https?://", page)


def browse(folder: Path, page: str, *options: str) -> str:
    """What headless Chromium says of a page."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        pytest.skip("Chromium is not installed (package chromium): the gallery was not opened in a browser")
    always = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}"]
    done = subprocess.run([browser, *always, *options, page], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("asked", "count"),
    [("", "7 of 7"), ("type=ocr", "4 of 7"), ("words=video+2%3F", "1 of 7"), ("verdict=mixed", "1 of 7")],
)
def test_a_browser_runs_the_filters_and_nothing_else(
    dataset: vrldata.Dataset, tmp_path: Path, asked: str, count: str
) -> None:
    preview(dataset, html=tmp_path / "gallery.html")
    page = browse(tmp_path, f"{(tmp_path / 'gallery.html').as_uri()}#{asked}", "--dump-dom")
    found = Elements()
    found.feed(page)
    assert f'<span id="count">{count}</span>' in page
    assert page.count('hidden=""') == 7 - int(count.split()[0])
    assert found.tags.count("script") == 1


def test_a_browser_paints_frames_and_the_span_of_the_answer(dataset: vrldata.Dataset, tmp_path: Path) -> None:
    preview(dataset, sample_id="span", html=tmp_path / "gallery.html")
    screenshot = tmp_path / "screenshot.png"
    options = [f"--screenshot={screenshot}", "--window-size=1000,700", "--hide-scrollbars"]
    browse(tmp_path, (tmp_path / "gallery.html").as_uri(), *options)
    assert Image.open(screenshot).size == (1000, 700)
    painted = colours(screenshot)
    assert RIGHT_GREEN in painted
    # eight frames of one grey level each, which JPEG keeps nearly
    assert len({level for level in painted if len(set(level)) == 1 and level[0] < 14}) >= 6


def test_a_gallery_shows_the_best_responses(dataset: vrldata.Dataset, tmp_path: Path) -> None:
    preview(dataset, sample_id="span", html=tmp_path / "gallery.html")
    page = (tmp_path / "gallery.html").read_text()
    assert re.findall(r"response \d", page) == ["response 8", "response 7", "response 6", "response 5"]
    assert "correct  ·  reward 0.800  ·  accuracy 0.8  ·  rollout step 0" in page
    assert "9 responses, 4 of 9 scored correct, best 4 shown" in page
    assert 'data-verdict="mixed"' in page


def test_text_in_any_script_is_drawn_or_named_by_code_point() -> None:
    font = sheet_font(20)
    pieces = "".join(piece for piece, _ in font.runs("ab 红色 \U0001f680"))
    for char in "红色\U0001f680":
        assert char in pieces or f"<{ord(char):04X}>" in pieces
    assert pieces.startswith("ab ")


def test_lines_break_between_words_or_anywhere_and_end_with_an_ellipsis() -> None:
    font = sheet_font(20)
    lines = font.lines("one two three four five six " * 8, 200)
    assert all(font.width(line) <= 200 for line in lines)
    assert set(" ".join(lines).split()) == {"one", "two", "three", "four", "five", "six"}
    assert font.lines("x" * 500, 100, most=2)[-1].endswith("…")
    assert font.lines("", 100) == [""]
    assert printable("a\x1b[31mb\tc\u202ed") == "a[31mb cd"


@pytest.mark.parametrize(
    ("problem_type", "answer", "extra", "box"),
    [
        ("spatial_grounding", [100, 200, 300, 400], {}, (0.1, 0.2, 0.3, 0.4)),
        ("spatial_grounding", [0.1, 0.2, 0.3, 0.4], {}, (0.1, 0.2, 0.3, 0.4)),
        ("spatial_grounding", [192, 108, 960, 1080], {}, (0.1, 0.1, 0.5, 1.0)),
        ("spatial_grounding", [96, 54, 192, 108], {"coord_space": "pixel"}, (0.05, 0.05, 0.1, 0.1)),
        ("spatial_grounding", "no box", {}, None),
        ("unheard of", "no box", {}, None),
    ],
)
def test_boxes_are_shares_of_the_picture(
    problem_type: str, answer: object, extra: dict[str, str], box: tuple[float, ...] | None
) -> None:
    sample = Sample(
        sample_id="a", problem="?", answer=json.dumps(answer), problem_type=problem_type, extra=extra
    )
    marks = answer_marks(sample, width=1920, height=1080)
    assert marks.boxes == (() if box is None else (pytest.approx(box),))


def test_command_says_how_many_of_the_samples_are_shown(
    dataset: vrldata.Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from vrldata.commands.preview import preview as command

    sheet, page = tmp_path / "sheet.png", tmp_path / "page.html"
    command(dataset.root, png=sheet, html=page)
    assert capsys.readouterr().out.strip() == f"6 of 7 samples in {sheet}, 7 of 7 samples in {page}"
    command(dataset.root, sample="span", png=sheet)
    assert capsys.readouterr().out.strip() == f"1 of 1 sample in {sheet}"


def test_command_takes_one_choice(dataset: vrldata.Dataset, tmp_path: Path) -> None:
    from vrldata.commands.preview import preview as command

    with pytest.raises(ConfigError, match="choose one"):
        command(dataset.root, sample="a", clip="b", png=tmp_path / "x.png")

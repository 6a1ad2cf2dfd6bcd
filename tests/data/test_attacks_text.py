"""Hostile text in questions, options, answers and file names: kept to the letter, and never run anywhere."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest

import vrldata
from tests.data.synthetic_video import write_video
from vrldata.export import export
from vrldata.preview import preview

SPEC = vrldata.SamplingSpec(fps=2, max_frames=4)

TEXTS = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "\x1b[31mred\x1b]0;title\x07",
    "a\x00b",
    "\u202etxet",
    "{{ 7 * 7 }} {% for %} ${x} %s {0}",
    "'; DROP TABLE samples; --",
    "../../etc/passwd",
    "=cmd|' /C calc'!A0",
    "\"quoted\" 'single' `tick` &lt;b&gt;",
    "line\r\nbreak\u2028and\u0085more",
    "long" * 20_000,
]

NAMES = ["<img src=x onerror=alert(1)>.mp4", "{{7*7}}'\";drop.mp4", "plain name.mp4"]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> vrldata.Dataset:
    folder = tmp_path_factory.mktemp("hostile")
    for number, name in enumerate(NAMES):
        # the muxer reads some of these names as patterns of its own
        write_video(folder / "v.mp4", 20 + number).rename(folder / name)
    rows = [
        {
            "id": number,
            "problem": text,
            "answer": "A",
            "problem_type": "multiple choice",
            "options": [text, "B"],
            "videos": [NAMES[number % len(NAMES)]],
            "data_source": text[:40],
            "note": {text[:40]: [text]},
            "offline_output": f"{text}<answer>A</answer>",
        }
        for number, text in enumerate(TEXTS)
    ]
    dataset = vrldata.create(folder / "clips")
    report = dataset.build(rows, video_root=folder, spec=SPEC, workers=0)
    assert (report.rejections, report.failures, report.decoded) == ((), (), len(NAMES))
    return dataset


def test_texts_come_out_as_they_went_in(hostile: vrldata.Dataset, tmp_path: Path) -> None:
    def texts(dataset: vrldata.Dataset) -> list[tuple[object, ...]]:
        found = sorted(dataset.iter_samples(), key=lambda sample: int(sample.sample_id.split("/")[-1]))
        return [(one.problem, one.options[0], one.extra["note"], one.data_source) for one in found]

    expected = [(text, text, {text[:40]: [text]}, text[:40]) for text in TEXTS]
    assert texts(hostile) == expected
    assert sorted(hostile.sql("SELECT problem FROM samples").column(0).to_pylist()) == sorted(TEXTS)
    export(hostile, tmp_path / "out", "jsonl")
    (file,) = (tmp_path / "out").iterdir()
    lines = file.read_text(encoding="utf-8").split("\n")
    assert [json.loads(line)["problem"] for line in lines if line] == [text for text, *_ in expected]


def test_a_gallery_runs_nothing_of_the_data(hostile: vrldata.Dataset, tmp_path: Path) -> None:
    page = tmp_path / "gallery.html"
    preview(hostile, html=page, png=tmp_path / "sheet.png")
    tags: list[tuple[str, dict[str, str | None]]] = []

    class Tags(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            tags.append((tag, dict(attrs)))

    Tags().feed(page.read_text(encoding="utf-8"))
    assert [attributes for tag, attributes in tags if tag == "script"] == [{}]
    assert not [name for _, attributes in tags for name in attributes if name.startswith("on")]
    sources = [attributes.get("src") or "" for tag, attributes in tags if tag == "img"]
    assert sources
    assert all(source.startswith("data:image/") for source in sources)
    assert "{{ 7 * 7 }}" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "path", ["../v.mp4", "/etc/passwd", "~/v.mp4", "$HOME/v.mp4", "http://x/v.mp4", "a\x00.mp4"]
)
def test_a_path_out_of_the_video_root_costs_its_row(tmp_path: Path, path: str) -> None:
    (tmp_path / "v.mp4").write_bytes(b"outside")
    root = tmp_path / "videos"
    root.mkdir()
    dataset = vrldata.create(tmp_path / "clips")
    row = {"problem": "?", "answer": "4", "problem_type": "numerical", "videos": [path]}
    report = dataset.build([row], video_root=root, spec=SPEC, workers=0)
    assert (report.samples, report.rejected) == (0, 1)
    assert "field 'videos'" in report.rejections[0]

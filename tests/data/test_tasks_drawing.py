"""SVG and HTML answers are drawn and compared by what they look like, without reaching out."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from vrldata.errors import MissingExtraError
from vrldata.tasks import ScoringSettings, score
from vrldata.tasks.killable import KillableWorker, shared_worker
from vrldata.types import Score

pytest.importorskip("plutoprint", reason="HTML is drawn by plutoprint, which has no wheel for this machine")

DRAWN = ScoringSettings(render=True)
SVG = "<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'>{}</svg>".format(
    "<rect width='5' height='9' fill='red'/>"
)
PAGE = "<body style='margin:0'><h1>Stop</h1><div style='background:#048;height:200px'></div></body>"


def drawn(problem_type: str, content: str, key: str) -> Score:
    return score(problem_type, f"<answer>{content}</answer>", key, settings=DRAWN)


@pytest.mark.parametrize(("problem_type", "key"), [("svg", SVG), ("html", PAGE)])
def test_equal_documents_look_alike(problem_type: str, key: str) -> None:
    result = drawn(problem_type, key, key)
    assert (result.accuracy, result.parts["rendered"], result.parts["structure"]) == (1.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("problem_type", "key", "plain"),
    [
        ("svg", SVG, SVG.replace("red", "white")),
        ("svg", SVG, SVG.replace("width='5'", "width='9'")),
        ("html", PAGE, "<p></p>"),
        ("html", PAGE, "<body style='background:#048'></body>"),
        ("html", PAGE, "<script>document.write('<h1>Stop</h1>')</script>"),
    ],
)
def test_picture_of_one_colour_earns_nothing(problem_type: str, key: str, plain: str) -> None:
    assert drawn(problem_type, plain, key).parts["rendered"] == 0.0


def test_looks_are_half_of_the_score() -> None:
    other_tags = (
        "<body style='margin:0'><h1>Stop</h1><section style='background:#048;height:200px'></section></body>"
    )
    result = drawn("html", other_tags, PAGE)
    assert result.parts["rendered"] == pytest.approx(1.0, abs=0.01)
    assert result.parts["structure"] < 0.8
    expected = 0.5 * result.parts["structure"] + 0.5 * result.parts["rendered"]
    assert result.accuracy == pytest.approx(expected)
    plain = score("html", f"<answer>{other_tags}</answer>", PAGE)
    assert plain.accuracy == result.parts["structure"]


def test_layout_is_that_of_a_browser() -> None:
    row = "<div style='display:flex'>{}</div>"
    box = "<div style='background:{};height:300px;flex:1'></div>"
    key = row.format(box.format("#a00") + box.format("#00a"))
    floated = "<div style='background:{};height:300px;width:50%;float:left'></div>"
    assert drawn("html", floated.format("#a00") + floated.format("#00a"), key).parts["rendered"] > 0.95
    assert drawn("html", row.format(box.format("#00a") + box.format("#a00")), key).parts["rendered"] < 0.5


@pytest.fixture
def listener() -> Iterator[tuple[int, list[bool]]]:
    """A port of this machine, and whether anyone has connected to it."""
    seen: list[bool] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.5)

        def wait() -> None:
            try:
                server.accept()[0].close()
            except TimeoutError:
                return
            seen.append(True)

        thread = threading.Thread(target=wait)
        thread.start()
        yield server.getsockname()[1], seen
        thread.join()


def test_pages_reach_neither_network_nor_files(tmp_path: Path, listener: tuple[int, list[bool]]) -> None:
    port, seen = listener
    style = tmp_path / "style.css"
    style.write_text("div { background: #048; height: 200px }")
    for source in (f"http://127.0.0.1:{port}/style.css", style.as_uri(), str(style)):
        page = (
            f"<link rel='stylesheet' href='{source}'><style>@import url('{source}');</style>"
            f"<body style='margin:0;background:url({source})'><h1>Stop</h1><div></div><img src='{source}'>"
            f"<iframe src='{source}'></iframe><object data='{source}'></object></body>"
        )
        assert drawn("html", page, PAGE).parts["rendered"] < 0.2, source
    threading.Event().wait(0.6)
    assert seen == []


def test_svg_that_refers_to_files_earns_nothing_for_its_looks() -> None:
    outside = SVG.replace("<rect", "<image href='/etc/hostname'/><rect")
    assert drawn("svg", outside, SVG).parts["rendered"] == 0.0
    assert drawn("svg", SVG, outside).status == "bad_ground_truth"


@pytest.mark.parametrize(
    "content",
    [
        "<div>" * 5000,
        "<p style='width:1e30px;height:1e30px;font-size:1e20px'>x",
        "<p>" + "a" * 60_000,
        "<p>\x00\ud800\u202e" + "e\u0301" * 2000,
        "<table>" * 200 + "<td>" * 200,
        "<![CDATA[<!--<p>",
        "<math><html>",
        "<table><tr><td>" * 80,
        "<svg><g id=a0><rect/></g>"
        + "".join(f"<g id=a{i + 1}><use href=#a{i} /><use href=#a{i} /></g>" for i in range(25))
        + "<use href=#a25 /></svg>",
    ],
)
def test_hostile_page_is_scored_within_the_limit(content: str) -> None:
    result = drawn("html", content, PAGE)
    assert result.accuracy is None or 0 <= result.accuracy <= 1


def test_missing_renderer_is_said_and_never_a_score(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "plutoprint.py").write_text("raise ImportError('absent', name='plutoprint')")
    monkeypatch.setattr(
        "vrldata.tasks.killable._ROOT", f"{tmp_path}:{Path(sys.modules['vrldata'].__path__[0]).parent}"
    )
    worker = KillableWorker("vrldata.tasks.code_features")
    monkeypatch.setattr("vrldata.tasks.code.shared_worker", lambda module: worker)
    try:
        with pytest.raises(MissingExtraError, match="plutoprint"):
            drawn("html", PAGE, PAGE)
    finally:
        worker.close()
    assert shared_worker("vrldata.tasks.code_features") is not worker

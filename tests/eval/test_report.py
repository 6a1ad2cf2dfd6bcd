"""Reports and comparisons from run folders."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.eval.examples import make_prediction
from vrldata.errors import BenchmarkError
from vrleval.compare import compare_runs, comparison_text
from vrleval.journal import Journal, write_atomically
from vrleval.report import render_report
from vrleval.results import read_run, table_text
from vrleval.types import Prediction

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"


def write_run(folder: Path, predictions: list[Prediction], *, asked: int = 0, **manifest: object) -> Path:
    with Journal(folder) as journal:
        for prediction in predictions:
            journal.append(prediction)
    keys = [prediction.key for prediction in predictions] + [f"open{index}" for index in range(asked)]
    write_atomically(folder / "questions.json", json.dumps({"demo": keys}))
    values = {
        "config_digest": "c",
        "model_name": "tiny",
        "preset": "qwen3-vl",
        "decides": {"spec": {}, "generation": {}},
        "benchmarks": {"demo": {"title": "Demo", "groups": ["task"], "protocol": "eval"}},
        **manifest,
    }
    write_atomically(folder / "manifest.json", json.dumps(values))
    return folder


def test_text_of_models_and_data_cannot_become_markup(tmp_path: Path) -> None:
    rows = [
        make_prediction(
            "q1", 0.0, response=EVIL, problem=EVIL, options=(EVIL,), groups={"task": EVIL}, answer=EVIL
        )
    ]
    html = render_report([read_run(write_run(tmp_path, rows, model_name=EVIL))])
    assert "<img src=x" not in html
    assert html.count("<script") == 2
    assert html.count("</script>") == 2
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    assert data is not None
    (sample,) = json.loads(data[1])
    assert sample["response"] == EVIL


def test_the_report_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    html = render_report([read_run(write_run(tmp_path, [make_prediction("q1", 1.0, groups={"task": "a"})]))])
    assert not re.search(r"""(?:src|href)\s*=\s*["']""", html)
    assert "http" not in re.sub(r"http-equiv", "", html)
    assert "<svg" in html
    assert "default-src 'none'" in html


def test_the_table_names_model_preset_figure_and_counts(tmp_path: Path) -> None:
    rows = [make_prediction(f"q{i}", float(i < 3)) for i in range(4)]
    rows.append(make_prediction("bad", 0.0, status="decode_failed"))
    text = table_text([read_run(write_run(tmp_path, rows))])
    header, _, line = text.splitlines()[:3]
    assert header.split()[:4] == ["model", "preset", "benchmark", "figure"]
    assert line.split()[:4] == ["tiny", "qwen3-vl", "Demo", "60.0"]
    assert "1 questions failed and count as wrong" in text


def test_an_unfinished_run_says_so(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path, [make_prediction("q1", 1.0)], asked=2))
    assert "unfinished: 1 of 3 questions" in run.results[0].warnings[0]


def test_figures_are_those_of_the_manifests_configuration(tmp_path: Path) -> None:
    rows = [make_prediction("q1", 0.0, config="old"), make_prediction("q1", 1.0, config="c")]
    assert read_run(write_run(tmp_path, rows)).results[0].headline.value == 1.0


def test_a_comparison_is_paired_and_counts_what_only_one_has(tmp_path: Path) -> None:
    a = [make_prediction(f"q{i}", float(i < 10), problem_type="ocr" if i % 2 else "math") for i in range(40)]
    b = [make_prediction(f"q{i}", float(i < 22), problem_type="ocr" if i % 2 else "math") for i in range(35)]
    found = compare_runs(
        read_run(write_run(tmp_path / "a", a)),
        read_run(write_run(tmp_path / "b", b, decides={"preset": "other"})),
    )
    overall = found["benchmarks"]["demo"]["all"]
    assert (found["num_shared"], found["num_only_a"], found["num_only_b"]) == (35, 5, 0)
    assert overall["value"] == pytest.approx(12 / 35)
    assert (overall["num_better"], overall["num_worse"]) == (12, 0)
    assert 0 < overall["low"] < 12 / 35 < overall["high"]
    assert set(found["benchmarks"]["demo"]) == {"all", "math", "ocr"}
    assert any("preset differs" in note for note in found["notes"])
    assert "+34.3" in comparison_text(found)


def test_runs_without_a_common_question_are_refused(tmp_path: Path) -> None:
    a = read_run(write_run(tmp_path / "a", [make_prediction("q1", 1.0)]))
    b = read_run(write_run(tmp_path / "b", [make_prediction("q2", 1.0)]))
    with pytest.raises(BenchmarkError, match="no scored question in common"):
        compare_runs(a, b)


def test_a_folder_without_a_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match=r"no manifest\.json"):
        read_run(tmp_path)

"""The table of the README and the picture say what the result file of the benchmarks says."""

from __future__ import annotations

import importlib.util
import json
import sys
import xml.etree.ElementTree as ElementTree
from types import ModuleType
from typing import Any

import pytest

from tests.conftest import PROJECT

RESULTS = PROJECT / "benchmarks" / "results.json"


@pytest.fixture(scope="module")
def report() -> ModuleType:
    found = importlib.util.spec_from_file_location("benchmark_report", PROJECT / "benchmarks" / "report.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module
    found.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    return json.loads(RESULTS.read_text())


def test_the_table_of_the_readme_is_that_of_the_results(report: ModuleType, results: dict[str, Any]) -> None:
    text = (PROJECT / "README.md").read_text(encoding="utf-8")
    written = text.split(report.BEGIN, 1)[1].split(report.END, 1)[0].strip()
    assert written == report.table(results)
    assert len(results["ratios"]) >= 5


def test_ratios_follow_from_what_was_measured(report: ModuleType, results: dict[str, Any]) -> None:
    assert [ratio.to_dict() for ratio in report.ratios(results["parts"])] == results["ratios"]


def test_the_picture_has_a_bar_for_every_ratio(report: ModuleType, results: dict[str, Any]) -> None:
    drawn = report.plot(results)
    assert RESULTS.with_suffix(".svg").read_text(encoding="utf-8") == drawn
    bars = ElementTree.fromstring(drawn).findall("{http://www.w3.org/2000/svg}rect")
    assert len(bars) == 1 + len(results["ratios"])


def test_a_missed_goal_is_shown_as_missed(report: ModuleType, results: dict[str, Any]) -> None:
    slow = {"part": "read", "name": "read", "value": 2.0, "goal": 5.0, "at_least": True, "holds": False}
    text = report.table({**results, "ratios": [slow]})
    assert "| read | 2 | ≥ 5 | missed |" in text
    assert "#c0392b" in report.plot({**results, "ratios": [slow]})

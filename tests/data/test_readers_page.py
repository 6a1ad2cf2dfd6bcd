"""docs/readers.md: every snippet of the page runs, and gives what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import vrldata

pytestmark = pytest.mark.slow  # processes that import torch and Ray

PROJECT = Path(__file__).resolve().parents[2]
PAGE = (PROJECT / "docs" / "readers.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
SCRIPTS = [snippet for snippet in SNIPPETS if "__main__" in snippet]


@pytest.fixture
def demo(
    tmp_path: Path, make_dataset: Callable[..., vrldata.Dataset], monkeypatch: pytest.MonkeyPatch
) -> Path:
    make_dataset(tmp_path / "clips", 20).create_release("v1")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("demo", "ray_session")
def test_snippets_of_the_page_run_one_after_the_other() -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    for snippet in SNIPPETS:
        if snippet not in SCRIPTS:
            exec(compile(snippet, "readers.md", "exec"), names)
    assert names["clip"].frames.shape == (4, 32, 32, 3)
    assert [len(problem) > 0 for problem in names["batch"]["problem"]] == [True, True]
    assert [len(part) for part in names["parts"]] == [6, 6, 6]
    assert len(set(names["first"]) | set(names["rest"])) == len(names["first"] + names["rest"]) == 20
    assert [len(shapes) for shapes in names["shapes"]] == [10, 10]
    assert names["table"].column_names == ["problem", "answer"]


def run(script: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(script)], capture_output=True, text=True, cwd=script.parent)


def test_the_script_with_workers_reads_pixels_in_them_without_a_word_of_warning(demo: Path) -> None:
    (demo / "read.py").write_text(SCRIPTS[0])
    result = run(demo / "read.py")
    assert result.stdout == "0 (4, 4, 3, 32, 32)\n1 (4, 4, 3, 32, 32)\n"
    assert result.stderr == ""


def test_ray_starts_without_notes_and_takes_handles_without_a_warning(demo: Path) -> None:
    lines = [
        "import vrldata",
        "rows = vrldata.open('clips').ray(limit=2).map(lambda row: {**row, 'seen': True})",
        "print([row['clips'] for row in rows.take(2)])",
    ]
    (demo / "read.py").write_text("\n".join(lines))
    result = run(demo / "read.py")
    assert result.stdout.count("LazyClip('videos/") == 2
    assert "Failed to convert column" not in result.stderr
    assert " INFO " not in result.stderr
    assert "fork-safe" not in result.stderr

"""What a command says where a library of an extra is not installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import vrldata

COMMANDS = [
    ("vrltrain", ["run", "recipes/demo-grpo.yaml", "model.path=some/model"], "torch", "vrl[train]"),
    ("vrltrain", ["tiny-model", "/nowhere/to/write"], "torch", "vrl[train]"),
    ("vrldata", ["demo-data", "/nowhere/to/write"], "av", "vrl[build]"),
]


@pytest.mark.parametrize(("program", "arguments", "library", "extra"), COMMANDS)
def test_a_missing_extra_is_one_line_that_names_it(
    program: str, arguments: list[str], library: str, extra: str, tmp_path: Path
) -> None:
    if "run" in arguments:
        rows = [
            {"problem": "2 + 2", "answer": "4", "problem_type": "numerical", "split": split}
            for split in ("train", "val")
        ]
        vrldata.create(tmp_path / "clips").build(rows, video_root=tmp_path, workers=0)
        arguments = [*arguments, f"data.train={tmp_path / 'clips'}", f"run_dir={tmp_path / 'run'}"]
    # None in sys.modules makes an import fail as that of a library that is not there
    code = f"import sys; sys.modules[{library!r}] = None; sys.argv = {[program, *arguments]!r}; "
    code += f"from {program}.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert [line for line in done.stderr.splitlines() if line.startswith("error: ")] == [
        done.stderr.splitlines()[-1]
    ]
    assert extra in done.stderr

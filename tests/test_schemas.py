"""The JSON Schemas in `schemas/` are those of the code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent


def test_the_schemas_are_current(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "scripts/write_schemas.py", str(tmp_path)], check=True, cwd=PROJECT)
    written = {file.name: file.read_text() for file in tmp_path.iterdir()}
    kept = {file.name: file.read_text() for file in (PROJECT / "schemas").iterdir()}
    assert kept == written, "run: python scripts/write_schemas.py"

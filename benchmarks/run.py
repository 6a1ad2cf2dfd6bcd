"""All benchmarks of the store: `results.json`, `results.svg`, and the table in the project's README.

    python benchmarks/run.py                        # all parts: 6 minutes, and 4 for the memory of 20 GB
    python benchmarks/run.py --skip memory          # all but this part, which stays as it was
    python benchmarks/run.py --only read build      # these parts; the others stay as they were
    python benchmarks/run.py --only                 # measure nothing, write picture and table again

Each part runs in a process of its own. Needs the extras build, ray, demo and test, 20 GB of disk and Linux.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from report import plot, put_table, ratios, table

FOLDER = Path(__file__).resolve().parent
PARTS: dict[str, list[str]] = {
    "read": ["read.py", "--only", "read"],
    "disk": ["read.py", "--only", "codecs"],
    "build": ["build.py", "--rounds", "3"],
    "decode": ["decode.py"],
    "epoch": ["epoch.py"],
    "memory": ["memory.py"],
}
"""Script and arguments by part."""


def environment() -> dict[str, str]:
    """One thread a library, and torchvision's operators where its wheel does not fit torch (see tests)."""
    path = [str(FOLDER.parent), str(FOLDER.parent / "tests" / "cpu_site"), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, path))}


def run_part(name: str, folder: Path | None) -> dict[str, Any]:
    """What the script of a part measured."""
    script, *arguments = PARTS[name]
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory(dir=folder) as place:
        output = Path(place) / "result.json"
        command = [sys.executable, str(FOLDER / script), *arguments, "--json", str(output)]
        command += ["--folder", place]
        done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{script} failed:\n{done.stderr[-4000:]}")
        found: dict[str, Any] = json.loads(output.read_text())
    print(f"{name}: {time.perf_counter() - begun:.0f} s", flush=True)
    return {"measured_at": datetime.now(UTC).isoformat(timespec="minutes"), **found}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="*", choices=list(PARTS), help="these parts instead of all")
    parser.add_argument("--skip", nargs="*", choices=list(PARTS), default=[], help="all but these parts")
    parser.add_argument("--folder", type=Path, help="where to write data; a temporary folder by default")
    parser.add_argument("--results", type=Path, default=FOLDER / "results.json", help="file of the results")
    parser.add_argument(
        "--readme", type=Path, default=FOLDER.parent / "README.md", help="file that holds the table"
    )
    arguments = parser.parse_args()
    old = json.loads(arguments.results.read_text()) if arguments.results.exists() else {"parts": {}}
    parts: dict[str, Any] = old["parts"]
    chosen = PARTS if arguments.only is None else arguments.only
    for name in chosen:
        if name not in arguments.skip:
            parts[name] = run_part(name, arguments.folder)
    ordered = {name: parts[name] for name in PARTS if name in parts}
    results = {"ratios": [ratio.to_dict() for ratio in ratios(ordered)], "parts": ordered}
    arguments.results.write_text(json.dumps(results, indent=1) + "\n")
    arguments.results.with_suffix(".svg").write_text(plot(results), encoding="utf-8")
    text = table(results)
    put_table(arguments.readme, text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The import direction of the packages, and how fast the light ones start."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent
ALLOWED = {"vrldata": {"vrldata"}, "vrltrain": {"vrldata", "vrltrain"}, "vrleval": {"vrldata", "vrleval"}}
HEAVY = (
    "torch",
    "ray",
    "vllm",
    "lance",
    "transformers",
    "datasets",
    "pyarrow",
    "duckdb",
    "av",
    "pandas",
    "sympy",
)


def imported_modules(file: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module)
    return names


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_packages_import_only_downwards(package: str) -> None:
    for file in sorted((PROJECT / package).rglob("*.py")):
        ours = {name.split(".")[0] for name in imported_modules(file)} & set(ALLOWED)
        assert ours <= ALLOWED[package], f"{file}: imports {ours - ALLOWED[package]}"


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_every_module_says_what_it_is_for(package: str) -> None:
    for file in sorted((PROJECT / package).rglob("*.py")):
        assert ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))), f"{file}: no module docstring"


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_importing_a_package_or_its_command_line_loads_nothing_heavy(package: str) -> None:
    program = (
        f"import sys, {package}, {package}.cli; print(' '.join(m for m in {HEAVY!r} if m in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=PROJECT, check=True
    )
    assert done.stdout.split() == []

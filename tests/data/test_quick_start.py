"""What the command sets in its process before it works, and that nothing is lost by it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import vrldata
from vrldata.cli import _makes_a_dataset


def python(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_lance_loads_without_pandas() -> None:
    program = "from vrldata.quick_start import load_quickly; load_quickly(); import lance, sys; "
    assert python(program + "print('pandas' in sys.modules)") == "False"


def test_pandas_works_afterwards_as_always() -> None:
    pytest.importorskip("pandas")
    program = """
from vrldata.quick_start import load_quickly
load_quickly()
import lance
import pyarrow as pa
frame = pa.table({"a": [1, None]}).to_pandas()
import pandas as pd
print(int(frame["a"].isna().sum()), pa.array(pd.Series([1.0, float("nan")])).null_count)
"""
    assert python(program) == "1 1"


def test_memory_settings_are_taken_by_this_system() -> None:
    program = "from vrldata.quick_start import keep_freed_memory; keep_freed_memory(); print('ok')"
    assert python(program) == "ok"


def test_importing_vrldata_sets_nothing_in_a_users_process() -> None:
    program = """
import gc, sys
before = gc.get_threshold(), list(sys.meta_path)
import vrldata, vrldata.cli
print((gc.get_threshold(), list(sys.meta_path)) == before)
"""
    assert python(program) == "True"


def test_a_build_plans_before_arrow_and_lance_are_loaded() -> None:
    program = "import sys, vrldata.build, vrldata.annotations, vrldata.decode_pool; "
    assert python(program + "print({'pyarrow', 'lance', 'pandas'} & set(sys.modules))") == "set()"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["build", "a.jsonl", "--out", "new"], True),
        (["-q", "build", "a.jsonl", "--out=new", "--workers", "2"], True),
        (["build", "a.jsonl", "--out", "old"], False),
        (["build", "a.jsonl", "--out", "s3://bucket/new"], False),
        (["build", "a.jsonl", "--out", "new", "--ray", "local"], False),
        (["build", "a.jsonl", "--out", "new", "--workers=0"], False),
        (["build", "a.jsonl", "--out"], False),
        (["build", "--out", "new", "--help"], False),
        (["info", "new"], False),
    ],
)
def test_decoders_get_ready_only_for_a_dataset_that_is_not_there(tmp_path, monkeypatch, arguments, expected):
    monkeypatch.chdir(tmp_path)
    vrldata.create("old")
    assert _makes_a_dataset(arguments) is expected


@pytest.mark.parametrize("arguments", [["none.jsonl", "--video-root", "."], ["none.jsonl"], []])
def test_a_build_that_cannot_begin_leaves_no_process(tmp_path, arguments):
    program = "from vrldata.cli import main; main()"
    command = [sys.executable, "-c", program, "build", *arguments, "--out", "new"]
    mark = {**os.environ, "VRL_TEST_MARK": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=mark, capture_output=True, text=True)
    assert done.returncode == 2
    assert not (tmp_path / "new").exists()
    assert not [one for one in Path("/proc").glob("[0-9]*/environ") if str(tmp_path) in _environment(one)]


def _environment(file):
    try:
        return file.read_bytes().decode(errors="replace")
    except OSError:
        return ""

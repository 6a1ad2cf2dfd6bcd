"""What the command sets in its process before it works, and that nothing is lost by it."""

from __future__ import annotations

import subprocess
import sys

import pytest


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

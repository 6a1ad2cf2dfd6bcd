"""Untrusted Python runs only when allowed, in a cage that it cannot leave or cheat."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from vrldata.errors import TaskError
from vrldata.tasks import ScoringSettings, check_answer, score
from vrldata.tasks.sandbox import check_sandbox, run_tests

SOURCE = "def f(x):\n    return x + 1\n"
TESTS = {"unit_tests": ["assert f(1) == 2", "assert f(-1) == 0"]}


@pytest.fixture(scope="module")
def sandbox() -> None:
    try:
        check_sandbox()
    except TaskError as error:
        pytest.skip(f"no sandbox on this machine: {error}")


def test_code_does_not_run_unless_allowed(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="vrldata"):
        result = score("code", f"<answer>{SOURCE}</answer>", "def g(): pass", extra=TESTS)
    assert result.accuracy is not None
    assert result.accuracy < 1.0
    assert "allow_code_execution is off" in caplog.text
    assert "allow_code_execution is off" in (check_answer("code", "", extra=TESTS) or "")


@pytest.mark.usefixtures("sandbox")
def test_accuracy_is_the_share_of_passed_tests() -> None:
    settings = ScoringSettings(allow_code_execution=True)
    extra = {"unit_tests": ["assert f(1) == 2", "assert f(1) == 3"]}
    result = score("code", f"<answer>{SOURCE}</answer>", SOURCE, extra=extra, settings=settings)
    assert result.accuracy == 0.5


@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize(
    "attempt",
    [
        "import os; os._exit(0)",
        "raise SystemExit(0)",
        "while True: pass",
        "x = 'a' * (1 << 31)",
        "import socket; socket.create_connection(('127.0.0.1', 80), 2)",
        "open('/usr/vrl-was-here', 'w')",
        "import os; os.fork()",
        "import subprocess; subprocess.run(['/bin/true'])",
        "import os; os.environ['PATH']",
        "open('/proc/self/environ').read()",
        "open('/scratch/big', 'wb').write(bytes(32 << 20))",
        "import ctypes; assert ctypes.CDLL(None).mount(b'none', b'/usr', b'tmpfs', 0, None) == 0",
    ],
)
def test_attempt_fails_its_test(attempt: str) -> None:
    assert run_tests(attempt, ["assert True"], seconds=3.0) == [False]


@pytest.mark.usefixtures("sandbox")
def test_scratch_folder_is_there_and_empty_each_time() -> None:
    source = "import os\nassert sorted(os.listdir('.')) == ['answer.py']\nopen('kept', 'w').write('x')"
    assert run_tests(source, ["assert True", "assert True"]) == [True, True]


def test_machine_without_a_sandbox_refuses_loudly(monkeypatch: pytest.MonkeyPatch) -> None:
    check_sandbox.cache_clear()
    monkeypatch.setattr("shutil.which", lambda name: None)
    try:
        with pytest.raises(TaskError, match="grants no sandbox"):
            run_tests(SOURCE, ["assert True"])
    finally:
        check_sandbox.cache_clear()


def test_too_many_tests_are_refused() -> None:
    many: list[Any] = ["assert True"] * 65
    with pytest.raises(TaskError, match="at most 64"):
        run_tests(SOURCE, many)

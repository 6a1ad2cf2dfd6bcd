"""Untrusted Python runs only when allowed, in a cage that it cannot leave or cheat."""

from __future__ import annotations

import logging
import resource
from typing import Any

import pytest

from vrldata.errors import TaskError
from vrldata.tasks import ScoringSettings, check_answer, code, score, score_batch
from vrldata.tasks.sandbox import check_sandbox, run_tests

SOURCE = "def f(x):\n    return x + 1\n"
TESTS = {"unit_tests": ["assert f(1) == 2", "assert f(-1) == 0"]}


@pytest.fixture(scope="module")
def sandbox() -> None:
    try:
        check_sandbox()
    except TaskError as error:
        pytest.skip(f"no sandbox on this machine: {error}")


def test_code_does_not_run_unless_allowed() -> None:
    result = score("code", f"<answer>{SOURCE}</answer>", "def g(): pass", extra=TESTS)
    assert result.accuracy is not None
    assert result.accuracy < 1.0
    assert "allow_code_execution is off" in (check_answer("code", "", extra=TESTS) or "")


def test_tests_that_are_not_run_are_told_once_with_the_setting_of_each_program(
    caplog: pytest.LogCaptureFixture,
) -> None:
    code._tell_tests_unrun.cache_clear()
    with caplog.at_level(logging.WARNING, logger="vrldata"):
        for _ in range(3):
            score("code", f"<answer>{SOURCE}</answer>", SOURCE, extra=TESTS)
    (warning,) = caplog.messages
    assert "vrleval run --allow-code-execution" in warning
    assert "vrltrain: algorithm.reward.scoring.allow_code_execution" in warning


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
        "import os; os.symlink('/etc/passwd', 'x'); open('x').read()",
        "import os; os.mkdir('d'); os.chroot('d')",
        "import os; os.kill(-1, 9)",
        "import ctypes; assert ctypes.CDLL(None).ptrace(16, 1, 0, 0) == 0",
        "import ctypes; assert ctypes.CDLL(None).unshare(0x10000000) == 0",
        "import ctypes; assert ctypes.CDLL(None).syscall(425, 8, ctypes.create_string_buffer(256)) >= 0",
        "import os; os.setuid(65534)",
        "import socket; socket.gethostbyname('localhost')",
        "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('8.8.8.8', 53))",
        "import mmap; kept = [mmap.mmap(-1, 1 << 30) for _ in range(8)]",
        "for number in range(100): open(f'file{number}', 'wb').write(bytes(8 << 20))",
        "import ctypes; ctypes.string_at(0)",
        "import atexit, os; atexit.register(os._exit, 0); raise SystemExit",
        "import os; [os.listdir(path) for path in ('/work', '/tmp', '/var', '/etc')]",
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


@pytest.mark.usefixtures("sandbox")
def test_endless_loop_is_wrong_rather_than_masked_in_a_batch() -> None:
    tests = ["assert f(1) == 2"] * 12
    settings = ScoringSettings(allow_code_execution=True, code_seconds=1.0)
    rows = [
        {
            "problem_type": "code",
            "response": f"<answer>{source}</answer>",
            "answer": SOURCE,
            "unit_tests": tests,
        }
        for source in ("def f(x):\n    while True: pass\n", SOURCE)
    ]
    results = score_batch(rows, workers=1, soft_seconds=1.5, hard_seconds=3.0, settings=settings)
    assert [(result.accuracy, result.status) for result in results] == [(0.0, "ok"), (1.0, "ok")]


def test_machine_without_a_sandbox_stops_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    check_sandbox.cache_clear()
    monkeypatch.setattr("shutil.which", lambda name: None)
    row = {"problem_type": "code", "response": "<answer>x = 1</answer>", "answer": SOURCE, **TESTS}
    try:
        with pytest.raises(TaskError, match="grants no sandbox"):
            score_batch([row], settings=ScoringSettings(allow_code_execution=True))
    finally:
        check_sandbox.cache_clear()


@pytest.mark.parametrize("tests", [5, {"a": 1}, [1], ["assert True"] * 65])
def test_unit_tests_that_are_none_mask_the_row(tests: Any) -> None:
    result = score("code", f"<answer>{SOURCE}</answer>", SOURCE, extra={"unit_tests": tests})
    assert (result.accuracy, result.status) == (None, "bad_ground_truth")
    assert "unit_tests" in (check_answer("code", SOURCE, extra={"unit_tests": tests}) or "")


def test_too_many_tests_are_refused() -> None:
    many: list[Any] = ["assert True"] * 65
    with pytest.raises(TaskError, match="at most 64"):
        run_tests(SOURCE, many)


@pytest.mark.usefixtures("sandbox")
def test_what_a_program_writes_does_not_reach_the_scorer() -> None:
    flood = "import sys\nfor stream in (sys.stdout, sys.stderr):\n    stream.write('x' * (64 << 20))\n"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert run_tests(flood + SOURCE, ["assert f(1) == 2"]) == [True]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 << 10  # KiB

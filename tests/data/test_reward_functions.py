"""A user's reward function: how it is named, what it is given, what it may return, what its faults cost."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vrldata.errors import ConfigError, TaskError
from vrldata.named_functions import load_function
from vrldata.tasks import RewardFunction
from vrldata.types import Score

PROJECT = Path(__file__).resolve().parents[2]
ROW: dict[str, Any] = {
    "problem": "2 + 2?",
    "problem_type": "numerical",
    "data_type": "text",
    "response": "<answer>4</answer>",
    "response_length": 7,
    "finish_reason": "stop",
    "ground_truth": "4",
    "sample_id": "a",
    "level": 3,
}


@pytest.fixture(scope="module")
def own_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file of functions."""
    file = tmp_path_factory.mktemp("own") / "own.py"
    file.write_text(
        textwrap.dedent(
            """
            import os
            import signal
            import time

            import numpy

            from vrldata import score
            from vrldata.types import Score

            NOT_A_FUNCTION = 3

            def length(record, target=4):
                return 1.0 - abs(record["response_length"] - target) / 10

            def shares(records):
                total = sum(record["response_length"] for record in records)
                return [record["response_length"] / total for record in records]

            def easyr1(reward_inputs):
                parts = {"overall": 0.7, "accuracy": 1.0, "format": 0.5, "brevity": -0.25}
                return [parts for _ in reward_inputs]

            def told(record, **options):
                return {"overall": 0.0, "extracted": repr(sorted(record))}

            def by_response(record):
                text = record["response"]
                if text == "raise":
                    raise KeyError("solution")
                if text == "die":
                    os.kill(os.getpid(), signal.SIGKILL)
                if text == "sleep":
                    time.sleep(60)
                return {
                    "number": 0.5,
                    "whole": 2,
                    "negative": -1.5,
                    "numpy": numpy.float32(0.25),
                    "true": True,
                    "none": None,
                    "nan": float("nan"),
                    "infinite": {"overall": float("inf")},
                    "text": "0.5",
                    "no key": {"acuracy": 1.0},
                    "parts": {"accuracy": 0.5, "format": 1.0, "brevity": 0.3},
                    "part text": {"overall": 1.0, "note": "good"},
                    "too right": {"overall": 1.0, "accuracy": 1.5},
                    "score": Score(accuracy=0.25, format=1.0, overall=0.4, status="ok", extracted="x"),
                    "unscored": Score(
                        accuracy=None, format=0.0, overall=None, status="judge_error", reason="late"
                    ),
                }[text]

            def built_in(record):
                return score(**record)

            def short(records):
                return [1.0]

            def none_at_all(records):
                return None

            def broken_batch(records):
                raise ValueError("no key")

            def hanging_batch(records):
                time.sleep(60 if records[0]["response"] == "sleep" else 0)
                return [1.0 for _ in records]

            def slow_at_first(record, calls=[]):
                calls.append(1)
                time.sleep(1.0 if len(calls) == 1 else 0.0)
                return 1.0

            def says_its_process(record):
                with open("written", "w") as file:
                    file.write(str(os.getpid()))
                os.rename("written", "process")
                time.sleep(600)

            def always_fails(record):
                return record["gold"]

            def counts(record, calls=[]):
                calls.append(1)
                return float(len(calls))

            def needs(record, target):
                return target

            def verl_style(data_source, solution_str, ground_truth, extra_info=None):
                return 1.0

            async def asynchronous(record):
                return 1.0

            def environment(record):
                return {"overall": 0.0, "extracted": os.environ["OWN_VARIABLE"] + os.getcwd()}
            """
        )
    )
    return file.parent


@pytest.fixture
def own_file(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of functions in the working folder."""
    monkeypatch.chdir(own_folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return own_folder / "own.py"


RETURNED = {
    "number": (0.5, 0.5),
    "whole": (2.0, 1.0),
    "negative": (-1.5, 0.0),
    "numpy": (0.25, 0.25),
    "true": (1.0, 1.0),
    "parts": (0.9 * 0.5 + 0.1, 0.5),
    "score": (0.4, 0.25),
}
"""Response to the reward and the accuracy that `by_response` gives for it."""

UNSCORED = {
    "none": ("not_scored", "None"),
    "unscored": ("judge_error", "late"),
    "nan": ("reward_error", "nan"),
    "infinite": ("reward_error", "inf as 'overall'"),
    "raise": ("reward_error", r"own\.py:\d+: KeyError: 'solution'"),
    "text": ("reward_error", "str '0.5'"),
    "no key": ("reward_error", "Did you mean 'accuracy'"),
    "part text": ("reward_error", "'note'"),
    "too right": ("reward_error", "accuracy 1.5"),
    "sleep": ("timeout", "no result within 1 s"),
    "die": ("timeout", "died"),
}
"""Response to the status and the reason of its score."""


@pytest.fixture(scope="module")
def returned(own_folder: Path) -> dict[str, Score]:
    """Scores by response, all from one call of one process."""
    reward = RewardFunction(f"{own_folder}/own.py:by_response", workers=1, seconds=1.0)
    responses = [*UNSCORED, *RETURNED]
    return dict(zip(responses, reward.score_batch(rows(*responses)), strict=True))


def rows(*responses: str) -> list[dict[str, Any]]:
    return [{**ROW, "response": response} for response in responses]


def scored(function: str, *responses: str, **options: Any) -> list[Any]:
    reward = RewardFunction(f"own.py:{function}", workers=1, **options)
    try:
        return reward.score_batch(rows(*responses))
    finally:
        reward.close()


@pytest.mark.parametrize("response", RETURNED)
def test_what_a_function_returns_is_its_reward(response: str, returned: dict[str, Score]) -> None:
    overall, accuracy = RETURNED[response]
    assert returned[response].overall == pytest.approx(overall)
    assert returned[response].accuracy == pytest.approx(accuracy)


@pytest.mark.parametrize("response", UNSCORED)
def test_a_row_that_cannot_be_scored_has_no_reward_and_says_why(
    response: str, returned: dict[str, Score]
) -> None:
    score, (status, reason) = returned[response], UNSCORED[response]
    assert (score.accuracy, score.overall, score.status) == (None, None, status)
    assert re.search(reason, score.reason), score.reason


def test_a_batch_function_sees_all_rows_at_once(own_file: Path) -> None:
    reward = RewardFunction("own.py:shares")
    found = reward.score_batch([{**ROW, "response_length": length} for length in (1, 2, 5)])
    assert [score.overall for score in found] == [0.125, 0.25, 0.625]
    assert reward.batch


def test_parts_are_kept_by_name(own_file: Path) -> None:
    (score,) = scored("easyr1", "x")
    assert (score.overall, score.accuracy, score.format) == (0.7, 1.0, 0.5)
    assert score.parts == {"brevity": -0.25}


def test_a_function_is_given_the_whole_record(own_file: Path) -> None:
    (score,) = scored("told", "x")
    fields = (
        "problem problem_type data_type response response_length finish_reason ground_truth answer options"
    )
    fields += " duration width height coord_space sample_id group_id source extra"
    assert {name for name in fields.split() if repr(name) not in score.extracted} == set()


def test_options_are_keyword_arguments(own_file: Path) -> None:
    assert scored("length", "x")[0].overall == pytest.approx(0.7)
    assert scored("length", "x", options={"target": 7})[0].overall == 1.0


def test_a_function_may_call_the_built_in_scorer(own_file: Path) -> None:
    right, wrong = scored("built_in", "<answer>4</answer>", "<answer>5</answer>")
    assert (right.accuracy, wrong.accuracy) == (1.0, 0.0)


def test_a_function_has_the_environment_and_the_working_folder_of_its_user(
    own_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OWN_VARIABLE", "key in ")
    assert scored("environment", "x")[0].extracted == f"key in {own_file.parent}"


def test_rows_keep_their_order_over_several_processes(own_file: Path) -> None:
    reward = RewardFunction("own.py:length", {"target": 0}, workers=2)
    found = reward.score_batch([{**ROW, "response_length": length} for length in range(40)])
    assert [score.overall for score in found] == [pytest.approx(1 - length / 10) for length in range(40)]


def test_a_module_on_the_path_is_named_with_a_dot_or_a_colon(
    own_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = own_file.parent / "ownpackage"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "rewards.py").write_text("def half(record):\n    return 0.5\n")
    monkeypatch.syspath_prepend(str(own_file.parent))
    for name in ("ownpackage.rewards.half", "ownpackage.rewards:half"):
        assert RewardFunction(name).score_batch([ROW])[0].overall == 0.5


def test_modules_beside_the_file_can_be_imported(own_file: Path) -> None:
    (own_file.parent / "beside_own.py").write_text("VALUE = 0.25\n")
    (own_file.parent / "other.py").write_text(
        "from beside_own import VALUE\n\n\ndef f(record):\n    return VALUE\n"
    )
    assert RewardFunction("other.py:f").score_batch([ROW])[0].overall == 0.25


def test_a_batch_of_the_wrong_length_is_an_error_that_names_it(own_file: Path) -> None:
    with pytest.raises(TaskError, match=r"own\.py:short.*returned 1 values for 2 records"):
        scored("short", "a", "b")
    with pytest.raises(TaskError, match=r"own\.py:none_at_all.*returned NoneType None for 2 records"):
        scored("none_at_all", "a", "b")


def test_a_batch_function_that_fails_leaves_its_rows_unscored(own_file: Path) -> None:
    for score in scored("broken_batch", "a", "b"):
        assert (score.accuracy, score.status) == (None, "reward_error")
        assert "ValueError: no key" in score.reason


def test_a_batch_has_the_time_of_all_its_rows(own_file: Path) -> None:
    reward = RewardFunction("own.py:hanging_batch", seconds=0.3)
    assert [score.overall for score in reward.score_batch(rows("a", "b"))] == [1.0, 1.0]
    for score in reward.score_batch(rows("sleep", "b")):
        assert (score.accuracy, score.status) == (None, "timeout")
        assert "0.6 s" in score.reason


def test_a_process_has_time_to_load_libraries_in_its_first_call(own_file: Path) -> None:
    reward = RewardFunction("own.py:slow_at_first", seconds=0.5, workers=1)
    assert [score.overall for score in reward.score_batch(rows("a", "b"))] == [1.0, 1.0]


def test_a_hanging_call_ends_with_the_program_that_waits_for_it(own_file: Path) -> None:
    program = (
        "import sys; from vrldata.tasks import RewardFunction; "
        "RewardFunction('own.py:says_its_process').score_batch([{'problem_type': 'ocr', 'response': 'x'}])"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(PROJECT)}
    ) as own:
        place = own_file.parent / "process"
        wait_until(place.exists)
        own.kill()
    wait_until(lambda: not Path(f"/proc/{place.read_text()}").exists())


def wait_until(happened: Callable[[], bool]) -> None:
    for _ in range(600):
        if happened():
            return
        time.sleep(0.1)
    raise AssertionError("it did not happen")


def test_the_check_passes_over_a_row_that_fails_and_tells_it(own_file: Path) -> None:
    reward = RewardFunction("own.py:by_response", workers=1)
    assert "KeyError" in (reward.check(rows("number", "raise")) or "")
    assert reward.check(rows("number", "none")) is None


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("always_fails", r"fails on each of 2 rows of the data: .*own\.py:\d+: KeyError: 'gold'"),
        ("short", "returned 1 values for 2 records"),
    ],
)
def test_the_check_finds_a_function_that_cannot_serve(own_file: Path, function: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        RewardFunction(f"own.py:{function}", workers=1).check(rows("x", "y"))


def test_the_check_finds_a_wrong_value(own_file: Path) -> None:
    with pytest.raises(ConfigError, match=r"own\.py:by_response.*returned str '0.5'; expected a number"):
        RewardFunction("own.py:by_response", workers=1).check(rows("number", "text"))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("owm.py:length", {}, r"owm\.py: no such file; relative paths begin at .* Did you mean 'own\.py'\?"),
        ("own.py:lenght", {}, r"no function 'lenght'. Did you mean 'length'\?"),
        ("own.py", {}, r"names no function; write own\.py:FUNCTION"),
        ("length", {}, r"expected file\.py:function"),
        ("own.py:NOT_A_FUNCTION", {}, "is no function but int"),
        ("own.py:Score", {}, "is a class; name a function"),
        ("own.py:asynchronous", {}, "is async"),
        ("own.py:verl_style", {}, r"verl_style\(data_source, .*name the first parameter `record`"),
        ("own.py:length", {"traget": 3}, r"reward function_options do not fit .*Did you mean 'target'\?"),
        ("own.py:needs", {}, "missing a required argument: 'target'"),
        ("own.py:length", {"target": {1, 2}}, "options are JSON values"),
        ("no_such_package.rewards.length", {}, "No module named 'no_such_package'"),
    ],
)
def test_a_function_that_cannot_be_called_is_told_on_one_line(
    own_file: Path, name: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        RewardFunction(name, options)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_file_that_is_named_like_a_module_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lonely.py").write_text("def f(record):\n    return 1.0\n")
    with pytest.raises(ConfigError, match=r"module 'lonely' cannot be imported: .*write lonely\.py:f"):
        RewardFunction("lonely.f")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def f(record:\n", r"broken\.py:1: SyntaxError"),
        ("import math\nX = math.sqrt(-1)\n", r"broken\.py:2: ValueError"),
        ("import no_such_library\n", r"broken\.py:1: ModuleNotFoundError: No module named 'no_such_library'"),
    ],
)
def test_a_file_that_does_not_load_is_told_with_its_line(own_file: Path, text: str, message: str) -> None:
    (own_file.parent / "broken.py").write_text(text)
    with pytest.raises(ConfigError, match=message):
        RewardFunction("broken.py:f")


def test_a_file_is_loaded_under_a_name_of_its_own(own_file: Path) -> None:
    (own_file.parent / "random.py").write_text("def f(record):\n    return 1.0\n")
    assert load_function("random.py:f", purpose="reward").__module__ != "random"
    assert sys.modules["random"] is random

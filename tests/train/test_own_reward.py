"""Problem types and a reward function of the user's own in training: checked first, then used."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import vrldata
from tests.train.colour_clips import make_sample, run_values
from vrldata.config import load_config, validate_config
from vrldata.errors import ConfigError, TaskError
from vrldata.tasks import RewardFunction
from vrldata.types import Sample
from vrltrain.configs import DataConfig, RolloutsConfig, RunConfig, SftConfig
from vrltrain.data_checks import check_data, known_samples
from vrltrain.files import read_lines
from vrltrain.inputs import Prompt
from vrltrain.loop import train
from vrltrain.plan import plan_run
from vrltrain.prompts import PromptStream
from vrltrain.rewards import RewardConfig
from vrltrain.sample_responses import sample_responses
from vrltrain.scoring import score_rollouts
from vrltrain.sft import fine_tune
from vrltrain.types import Rollout

PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture
def riddles(own_dataset: Path) -> Path:
    """A dataset in which three training questions and one of validation have a type that nobody knows."""
    table = vrldata.open(own_dataset).open_table("samples")
    table.update({"problem_type": "'Riddle'"}, where="sample_id IN ('rows/c01', 'rows/c02', 'rows/c17')")
    table.update({"problem_type": "'multiple chioce'"}, where="sample_id = 'rows/c03'")
    return own_dataset


@pytest.fixture
def own_file(tmp_path: Path) -> Path:
    """A file of reward functions."""
    file = tmp_path / "own.py"
    file.write_text(
        "def length(record, target=4):\n"
        "    return {'overall': 2.0 - abs(record['response_length'] - target), 'closeness': 0.5}\n"
        "def number(record):\n"
        "    return len(record['response']) / 10\n"
        "def accuracy(record):\n"
        "    return {'accuracy': 0.5, 'format': 1.0}\n"
        "def sometimes(record):\n"
        "    if record['response'] == 'raise':\n"
        "        raise ValueError('cannot be read')\n"
        "    return None if record['response'] == 'none' else 1.0\n"
        "def groups(records):\n"
        "    return [float(record['group_id']) for record in records]\n"
        "def source(record):\n"
        "    assert record['extra'] == {'level': 3}, record['extra']\n"
        "    assert record['options'] == ['red', 'green', 'blue', 'white']\n"
        "    assert record['answer'] == record['ground_truth'] == 'A'\n"
        "    return {'offline': 1.0, 'online': 0.0}[record['source']]\n"
        "def fails(record):\n"
        "    return record['gold']\n"
        "def text(record):\n"
        "    return 'good'\n"
        "def one(records):\n"
        "    return [1.0]\n"
        "def solution(solution_str):\n"
        "    return 1.0\n"
    )
    return file


def data(dataset: Path, **values: Any) -> DataConfig:
    return DataConfig(train=str(dataset), reader="local", **values)


def rewards(config: RewardConfig, *responses: str, groups: int = 1, **sample: Any) -> list[Any]:
    prompts = [Prompt(sample=make_sample(f"s{number}", **sample), text="?") for number in range(groups)]
    rollouts = [
        Rollout(token_ids=(1, 2, 3), log_probs=None, finish_reason="stop", policy_version=0, text=text)
        for text in responses
    ]
    scored = score_rollouts(
        prompts, [rollouts] * groups, family="qwen3-vl", reward=config, max_response_length=8
    )
    return [pair for group in scored for pair in group]


def test_an_unknown_type_ends_a_run_before_a_model_is_loaded(riddles: Path, tmp_path: Path) -> None:
    config = validate_config(RunConfig, run_values(riddles, Path("no/model"), tmp_path / "run"), source="t")
    with pytest.raises(
        ConfigError, match=r"3 of 16 questions .*'Riddle' 2, 'multiple chioce' 1.*on_unknown_type"
    ):
        train(config)
    assert not (tmp_path / "run").exists()


def test_types_of_all_questions_are_counted_in_the_log(
    riddles: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="vrltrain"):
        check_data(data(riddles, on_unknown_type="open_ended", val=str(riddles)))
    assert "multiple_choice 13, open_ended 3" in caplog.text
    assert "1 of 4 questions read as open_ended, of unknown problem_type: 'Riddle' 1" in caplog.text


def test_the_split_of_a_uri_is_the_one_that_is_checked(riddles: Path) -> None:
    with pytest.raises(ConfigError, match="1 of 4 questions"):
        check_data(DataConfig(train=f"{riddles}?split=val"))
    check_data(DataConfig(train=f"{riddles}?filter=problem_type = 'multiple_choice'"))


def test_a_skip_that_leaves_nothing_is_an_error(riddles: Path) -> None:
    with pytest.raises(ConfigError, match="leaves nothing: all 2 questions"):
        check_data(
            DataConfig(train=f"{riddles}?filter=problem_type = 'Riddle'", on_unknown_type="skip"),
            split="train",
        )


def test_a_stream_leaves_skipped_questions_out(riddles: Path) -> None:
    stream = PromptStream(vrldata.open(riddles), data(riddles, on_unknown_type="skip", shuffle=False), seed=0)
    names = [sample.sample_id for sample, _ in stream.take(26)]
    assert names[:13] == names[13:]
    assert not {"rows/c01", "rows/c02", "rows/c03"} & set(names)


def test_a_stream_goes_on_behind_a_skipped_question(riddles: Path) -> None:
    config = data(riddles, on_unknown_type="skip", shuffle=False)
    whole = PromptStream(vrldata.open(riddles), config, seed=0)
    first = PromptStream(vrldata.open(riddles), config, seed=0)
    second = PromptStream(vrldata.open(riddles), config, seed=0)
    expected = [sample.sample_id for sample, _ in whole.take(20)]
    found = [sample.sample_id for sample, _ in first.take(7)]
    second.load_state_dict(first.state_dict())
    assert found + [sample.sample_id for sample, _ in second.take(13)] == expected


def test_a_stream_reads_unknown_types_as_open_questions(riddles: Path) -> None:
    stream = PromptStream(
        vrldata.open(riddles), data(riddles, on_unknown_type="open_ended", shuffle=False), seed=0
    )
    found = {sample.sample_id: sample for sample, _ in stream.take(16)}
    assert found["rows/c01"].problem_type == "open_ended"
    assert found["rows/c01"].extra["original_problem_type"] == "Riddle"


def test_known_samples_refuse_an_unknown_type_by_default() -> None:
    with pytest.raises(TaskError, match="riddle"):
        known_samples([Sample(sample_id="a", problem="?", answer="x", problem_type="riddle")], "error")


@pytest.mark.parametrize("policy", ["open_ended", "skip"])
def test_runs_train_validate_and_plan_under_each_policy(
    policy: str, riddles: Path, tiny_model: Path, tmp_path: Path
) -> None:
    values = run_values(
        riddles, tiny_model, tmp_path / "run", steps=1, data__on_unknown_type=policy, data__val=str(riddles)
    )
    config = validate_config(RunConfig, values, source="test")
    left_out = 3 if policy == "skip" else 0
    assert plan_run(config)["data"]["samples"] == 16 - left_out
    assert train(config).failed_samples == 0
    rows = read_lines(tmp_path / "run" / "metrics.jsonl")
    assert rows[0]["validation/skipped"] == (1 if left_out else 0)
    assert rows[0]["validation/samples"] + rows[0]["validation/skipped"] == 4


def test_rollouts_and_warm_up_leave_skipped_questions_out(
    riddles: Path, tiny_model: Path, tmp_path: Path
) -> None:
    values = run_values(riddles, tiny_model, tmp_path, data__on_unknown_type="skip")
    shared = {name: values[name] for name in ("model", "data", "rollout")}
    result = sample_responses(validate_config(RolloutsConfig, shared, source="test"))
    assert (result.samples, result.failed) == (16, 0)  # 13 of 16 for training, 3 of 4 for validation
    shared = {"run_dir": str(tmp_path / "sft"), "steps": 1, "model": values["model"], "data": values["data"]}
    warm_up = fine_tune(validate_config(SftConfig, shared, source="test"))
    assert (warm_up.rows, warm_up.left_out) == (16, {"sample not selected": 4})


def test_a_number_is_the_reward_and_clipped_the_accuracy(own_file: Path) -> None:
    (score, reward), (_, long) = rewards(RewardConfig(function=f"{own_file}:number"), "12345", "x" * 30)
    assert (reward.overall, reward.components["accuracy"], score.status) == (0.5, 0.5, "ok")
    assert (long.overall, long.components["accuracy"]) == (3.0, 1.0)


def test_penalties_of_the_config_are_added_to_a_reward_that_is_given(own_file: Path) -> None:
    weights = {"weights": {"overlong": 1.0}, "overlong_buffer": 8}
    config = RewardConfig(function=f"{own_file}:length", function_options={"target": 3}, **weights)
    ((_, reward),) = rewards(config, "abc")
    assert reward.components["overlong"] == -3 / 8
    assert reward.overall == 2.0 - 3 / 8
    assert reward.components["closeness"] == 0.5


def test_accuracy_and_format_are_weighted_as_the_config_says(own_file: Path) -> None:
    by_type = {"ocr": {"accuracy": 0.2, "format": 0.8}}
    config = RewardConfig(function=f"{own_file}:accuracy", weights_by_type=by_type)
    ((score, reward),) = rewards(config, "x")
    assert reward.overall == score.overall == pytest.approx(0.9 * 0.5 + 0.1)
    ((_, reward),) = rewards(config, "x", problem_type="ocr")
    assert reward.overall == pytest.approx(0.2 * 0.5 + 0.8)


def test_a_row_without_reward_is_masked_and_its_reason_logged(
    own_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = RewardConfig(function=f"{own_file}:sometimes")
    with caplog.at_level(logging.WARNING):
        found = rewards(config, "fine", "raise", "none")
    assert [reward.overall for _, reward in found] == [1.0, None, None]
    assert [reward.valid for _, reward in found] == [True, False, False]
    assert "2 of 3 responses have no reward" in caplog.text
    assert "own.py:9: ValueError: cannot be read" in caplog.text


def test_a_batch_function_sees_the_groups(own_file: Path) -> None:
    found = rewards(RewardConfig(function=f"{own_file}:groups"), "a", "b", groups=3)
    assert [reward.overall for _, reward in found] == [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]


def test_a_function_is_given_what_the_data_says(own_file: Path) -> None:
    ((_, reward),) = rewards(RewardConfig(function=f"{own_file}:source"), "a", extra={"level": 3})
    assert reward.overall == 0.0


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        ("own.py:lenght", {}, "Did you mean 'length'"),
        ("no_file.py:length", {}, "no such file"),
        ("own.py:length", {"traget": 3}, r"algorithm\.reward\.function_options do not fit .*'target'"),
        ("own.py:fails", {}, r"fails on each of 2 rows of the data: .*own\.py:\d+: KeyError: 'gold'"),
        ("own.py:text", {}, r"returned str 'good'; expected a number"),
        ("own.py:one", {}, "returned 1 values for 2 records"),
        ("own.py:solution", {}, "name the first parameter `record`"),
    ],
)
def test_a_function_that_cannot_serve_ends_a_run_before_a_model_is_loaded(
    function: str, options: dict[str, Any], message: str, own_file: Path, colour_dataset: Path, tmp_path: Path
) -> None:
    reward = {"function": f"{tmp_path}/{function}", "function_options": options}
    values = run_values(colour_dataset, Path("no/model"), tmp_path / "run", algorithm={"reward": reward})
    with pytest.raises(ConfigError, match=message) as caught:
        train(validate_config(RunConfig, values, source="test"))
    assert "algorithm.reward.function" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"function_options": {"target": 3}}, "need function, such as"),
        ({"function": "length"}, r"function: 'length': expected file\.py:function"),
        ({"function": "own.py"}, "names no function"),
    ],
)
def test_a_config_that_names_no_function_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        validate_config(RewardConfig, values, source="test")


def test_null_drops_the_options_of_a_file() -> None:
    overrides = ["algorithm.reward.function_options=null"]
    config = load_config(RunConfig, PROJECT / "recipes" / "own-reward.yaml", overrides)
    assert config.algorithm.reward.function_options == {}


def test_a_run_trains_on_a_function_and_stores_its_parts(
    own_file: Path, own_dataset: Path, tiny_model: Path, tmp_path: Path
) -> None:
    reward = {"function": f"{own_file}:length", "function_options": {"target": 3}}
    values = run_values(own_dataset, tiny_model, tmp_path / "run", steps=1, algorithm={"reward": reward})
    assert train(validate_config(RunConfig, values, source="test")).failed_samples == 0
    (row,) = read_lines(tmp_path / "run" / "metrics.jsonl")
    assert row["reward/closeness_mean"] == 0.5
    stored = list(vrldata.open(own_dataset).iter_trajectories(filter="source = 'rollout'"))
    assert len(stored) == 16
    for one in stored:
        assert one.reward == 2.0 - abs(one.num_tokens - 3)
        assert one.rewards["closeness"] == 0.5


def test_the_command_line_says_what_is_wrong_and_exits_with_2(own_file: Path, colour_dataset: Path) -> None:
    overrides = [
        f"data.train={colour_dataset}",
        "model.path=no/model",
        "algorithm.reward.function_options={}",
    ]
    overrides += [f"algorithm.reward.function={own_file}:lenght"]
    command = [sys.executable, "-m", "vrltrain.cli", "run", "recipes/own-reward.yaml", *overrides]
    done = subprocess.run(command, capture_output=True, text=True, cwd=PROJECT, check=False)
    assert done.returncode == 2
    lines = done.stderr.strip().splitlines()
    assert lines[-1].startswith("error: algorithm.reward.function: ")
    assert "Did you mean 'length'" in lines[-1]
    assert "Traceback" not in done.stderr


def test_the_recipe_trains_with_the_function_beside_it(
    colour_dataset: Path, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(PROJECT)
    overrides = [f"data.train={colour_dataset}", f"model.path={tiny_model}", f"run_dir={tmp_path / 'run'}"]
    overrides += ["steps=1", "prompts_per_step=2", "rollout.n=2", "rollout.max_tokens=8", "trajectories=null"]
    config = load_config(RunConfig, PROJECT / "recipes" / "own-reward.yaml", overrides)
    assert train(config).failed_samples == 0
    (row,) = read_lines(tmp_path / "run" / "metrics.jsonl")
    assert row["reward/valid_share"] == 1.0
    assert "reward/brevity_mean" in row


def test_the_example_of_the_documentation_runs(tmp_path: Path) -> None:
    page = (PROJECT / "docs" / "algorithms.md").read_text()
    (tmp_path / "my_rewards.py").write_text(page.partition("```python\n")[2].partition("```")[0])
    records = [
        {"problem_type": "ocr", "response": "x", "response_length": length, "finish_reason": reason}
        for length, reason in ((300, "stop"), (150, "stop"), (512, "length"), (None, "stop"))
    ]
    length = RewardFunction(f"{tmp_path}/my_rewards.py:length_reward", {"target": 300})
    assert [score.overall for score in length.score_batch(records)] == [1.0, 0.5, 0.0, None]
    shares = RewardFunction(f"{tmp_path}/my_rewards.py:shares")
    assert [score.overall for score in shares.score_batch(records[:2])] == [1.0, 0.5]


def test_the_functions_of_the_recipe_reward_short_right_answers() -> None:
    def record(response: str, length: int, group: str = "0") -> dict[str, Any]:
        values = {"problem_type": "numerical", "answer": "4", "group_id": group}
        return {**values, "response": f"<answer>{response}</answer>", "response_length": length}

    brevity = RewardFunction(f"{PROJECT}/recipes/own_reward.py:brevity", {"target": 10}, workers=1)
    found = brevity.score_batch([record("4", 10), record("4", 15), record("4", 30), record("5", 5)])
    assert [score.overall for score in found] == pytest.approx([1.2, 1.1, 1.0, 0.0])
    shortest = RewardFunction(f"{PROJECT}/recipes/own_reward.py:shortest_of_group")
    found = shortest.score_batch([record("4", 10), record("4", 5), record("5", 1), record("4", 9, "1")])
    assert [score.overall for score in found] == pytest.approx([1.0, 1.2, 0.0, 1.2])
    assert json.dumps([score.accuracy for score in found]) == "[1.0, 1.0, 0.0, 1.0]"

"""From score to reward: weights, length, repetition, rows that could not be scored."""

from __future__ import annotations

from dataclasses import fields

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.train.colour_clips import make_sample
from vrldata.config import validate_config
from vrldata.errors import ConfigError
from vrldata.tasks import ScoringSettings
from vrldata.types import Score
from vrltrain.configs_scoring import ScoringConfig
from vrltrain.inputs import Prompt
from vrltrain.rewards import (
    Reward,
    RewardConfig,
    drop_truncated,
    group_accuracy,
    outcome_to_tokens,
    overlong_penalty,
    repetition_penalty,
    reward_metrics,
    shape_reward,
)
from vrltrain.scoring import score_rollouts
from vrltrain.types import Rollout


def score(accuracy: float | None = 1.0, form: float = 1.0) -> Score:
    return Score(accuracy=accuracy, format=form, overall=None, status="ok", parts={"iou": 0.7})


def test_default_weights_are_nine_to_one_and_components_are_kept() -> None:
    reward = shape_reward(score(1.0, 0.5), RewardConfig(), response_length=10, max_response_length=100)
    assert reward.overall == pytest.approx(0.95)
    assert dict(reward.components) == {
        "accuracy": 1.0,
        "format": 0.5,
        "overlong": 0.0,
        "repetition": 0.0,
        "iou": 0.7,
    }


def test_response_that_could_not_be_scored_has_no_reward() -> None:
    reward = shape_reward(score(None), RewardConfig(), response_length=10, max_response_length=100)
    assert reward.overall is None
    assert not reward.valid
    assert "accuracy" not in reward.components


def test_weights_of_length_and_repetition_are_added() -> None:
    config = validate_config(
        RewardConfig, {"weights": {"overlong": 0.5, "repetition": 0.25}, "repetition_ngram": 1}, source="test"
    )
    reward = shape_reward(
        score(), config, response_length=100, max_response_length=100, token_ids=[7, 7, 7, 7]
    )
    assert reward.overall == pytest.approx(1.0 - 0.5 - 0.25 * 0.75)


def test_single_types_may_have_their_own_weights() -> None:
    config = validate_config(
        RewardConfig,
        {"weights_by_type": {"temporal grounding": {"accuracy": 0.5, "format": 0.5}}},
        source="test",
    )
    lengths = {"response_length": 1, "max_response_length": 100}
    own = shape_reward(score(0.0), config, problem_type="temporal_grounding", **lengths)
    other = shape_reward(score(0.0), config, problem_type="multiple_choice", **lengths)
    assert (own.overall, other.overall) == (0.5, 0.1)


@given(length=st.integers(0, 200), buffer=st.integers(1, 100))
def test_overlong_penalty_falls_from_zero_to_minus_one(length: int, buffer: int) -> None:
    penalty = overlong_penalty(length, 100, buffer)
    assert -1.0 <= penalty <= 0.0
    assert (penalty == 0.0) == (length <= 100 - buffer)
    assert (penalty == -1.0) == (length >= 100)
    assert overlong_penalty(length + 1, 100, buffer) <= penalty


def test_overlong_buffer_is_a_quarter_of_the_limit_by_default() -> None:
    assert overlong_penalty(75, 100) == 0.0
    assert overlong_penalty(80, 100) == pytest.approx(-0.2)
    assert overlong_penalty(9, 10) == pytest.approx(-0.6)  # a quarter of ten tokens, not two of them


@given(tokens=st.lists(st.integers(0, 3), max_size=40), ngram=st.integers(1, 5))
def test_repetition_penalty_is_the_share_of_repeated_ngrams(tokens: list[int], ngram: int) -> None:
    grams = [tuple(tokens[i : i + ngram]) for i in range(len(tokens) - ngram + 1)]
    repeated = sum(gram in grams[:i] for i, gram in enumerate(grams))
    expected = -repeated / len(grams) if len(grams) > 1 else 0.0
    assert repetition_penalty(tokens, ngram) == pytest.approx(expected)


def test_reward_lies_on_the_last_masked_token_and_missing_ones_are_not_valid() -> None:
    mask = torch.tensor([[1, 1, 0], [1, 0, 1], [1, 1, 1], [0, 0, 0]])
    rewards, valid = outcome_to_tokens([0.9, 1.0, None, 1.0], mask)
    assert rewards.tolist() == [[0, pytest.approx(0.9), 0], [0, 0, 1.0], [0, 0, 0], [0, 0, 0]]
    assert valid.tolist() == [True, True, False, False]


def test_truncated_rows_leave_the_loss() -> None:
    mask = torch.ones(2, 2)
    assert drop_truncated(mask, ["stop", "length"]).tolist() == [[1, 1], [0, 0]]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"weights": {"accuracy": 0.9, "format": 0.2}}, "must add up to 1"),
        ({"weights": {"acuracy": 0.9}}, "Did you mean 'accuracy'?"),
        ({"weights_by_type": {"temporal groundin": {}}}, "temporal groundin"),
        ({"weights": {"overlong": -1}}, "greater than or equal to 0"),
        ({"scoring": {"reasoning_tag": "plan"}}, "Did you mean 'reasoning_tags'?"),
        ({"scoring": {"reasoning_tags": ["<plan>"]}}, "no name of a tag around reasoning"),
        ({"scoring": {"iou_shape": "power:x"}}, "positive number"),
        ({"scoring": {"strict_tail": True}, "function": "mine.py:f"}, "leave out scoring"),
    ],
)
def test_wrong_reward_config_is_one_clear_line(values: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        validate_config(RewardConfig, values, source="reward.yaml")
    assert message in str(error.value)
    assert str(error.value).startswith("reward.yaml: ")


def reward_of(text: str, answer: str, config: RewardConfig) -> tuple[float | None, float]:
    prompt = Prompt(sample=make_sample(answer=answer), text="?")
    rollout = Rollout(token_ids=(1, 2), log_probs=None, finish_reason="stop", policy_version=0, text=text)
    scored = score_rollouts([prompt], [[rollout]], family="qwen3-vl", reward=config, max_response_length=100)
    score, reward = scored[0][0]
    return score.accuracy, reward.components["format"]


def test_scorers_go_by_the_choices_of_the_run() -> None:
    config = RewardConfig(scoring=ScoringConfig(reasoning_tags=("plan",), strict_tail=True))
    planned = "<plan>first <answer>A</answer></plan><answer>B</answer>"
    assert reward_of(planned, "B", RewardConfig()) == (0.0, 0.0)
    assert reward_of(planned, "B", config) == (1.0, 1.0)
    assert reward_of(planned + " That is all.", "B", config) == (0.0, 0.0)


def test_every_choice_of_the_scorers_but_weights_and_data_is_one_of_the_run() -> None:
    elsewhere = {"weights", "on_unknown_type"}
    assert set(ScoringConfig.model_fields) == {item.name for item in fields(ScoringSettings)} - elsewhere
    assert ScoringConfig().settings() == ScoringSettings()


def test_metrics_count_unscored_rows_only_in_the_valid_share() -> None:
    rewards = [
        Reward(overall=1.0, components={"accuracy": 1.0}),
        Reward(overall=0.5, components={"accuracy": 0.5}),
        Reward(overall=None, components={"format": 0.0}),
        Reward(overall=0.1, components={"accuracy": 0.0}),
    ]
    metrics = reward_metrics(rewards, uid=list("ppqq"), problem_types=["ocr", "ocr", "ocr", "math"])
    assert metrics["reward/valid_share"] == 0.75
    assert metrics["reward/accuracy_mean"] == 0.5
    assert (metrics["reward/overall_min"], metrics["reward/overall_max"]) == (0.1, 1.0)
    assert (metrics["reward_by_type/ocr"], metrics["reward_by_type/math"]) == (0.75, 0.1)
    assert metrics["reward/zero_std_group_share"] == 0.5
    assert "reward/format_mean" not in metrics


def test_metrics_of_each_type_show_where_answers_cannot_be_read() -> None:
    rewards = [
        Reward(overall=1.0, components={"accuracy": 1.0, "format": 1.0}),
        Reward(overall=0.0, components={"accuracy": 0.0, "format": 0.0}),
        Reward(overall=0.1, components={"accuracy": 0.0, "format": 1.0}),
        Reward(overall=0.1, components={"accuracy": 0.0, "format": 1.0}),
    ]
    metrics = reward_metrics(
        rewards,
        uid=list("ppqq"),
        problem_types=["ocr", "ocr", "math", "math"],
        statuses=["ok", "no_answer", "ok", "ok"],
    )
    assert metrics["reward/unread_share"] == 0.25
    assert metrics["reward_by_type/ocr/unread_share"] == 0.5
    assert (metrics["reward_by_type/ocr/accuracy_mean"], metrics["reward_by_type/ocr/accuracy_std"]) == (
        0.5,
        0.5,
    )
    assert metrics["reward_by_type/math/zero_std_group_share"] == 1.0
    assert metrics["reward_by_type/math/format_mean"] == 1.0


def test_group_accuracy_gives_mean_and_pass_at_n() -> None:
    figures = group_accuracy([1.0, 0.0, 0.0, 0.6, None], uid=list("ppqqr"), thresholds=[1.0] * 5)
    assert figures == {"accuracy/mean_at_n": pytest.approx(0.4), "accuracy/pass_at_n": 0.5}
    assert group_accuracy([None], uid=["p"], thresholds=[1.0]) == {}

"""Mixed groups: usable trajectories, gates, which row gives way, advantages, replay."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import torch

from vrldata.errors import ConfigError
from vrltrain.configs_algorithm import MixConfig
from vrltrain.mixing import (
    GroupPlan,
    OfflineRejection,
    OfflineRow,
    ReplayBuffer,
    choose_offline,
    gate_opens,
    mix_metrics,
    mix_probability,
    mixed_policy_group,
    plan_group,
    prepare_offline,
    rows_to_replace,
)
from vrltrain.response_mask import mask_from_eos, mask_from_lengths, mask_from_turns, pad_rows
from vrltrain.rewards import Reward
from vrltrain.types import Rollout

EOS = 2


def prepare(token_ids: list[int], **options: Any) -> OfflineRow | OfflineRejection:
    defaults = {
        "eos": [EOS],
        "max_response_length": 6,
        "reward": 1.0,
        "accuracy": 1.0,
        "problem_type": "multiple_choice",
    }
    return prepare_offline("t1", token_ids, **{**defaults, **options})


def test_text_without_an_end_gets_one_and_its_log_prob_is_unknown() -> None:
    row = prepare([5, 6, 7], log_probs=[-0.1, -0.2, -0.3])
    assert isinstance(row, OfflineRow)
    assert row.token_ids == (5, 6, 7, EOS)
    assert row.response_mask == (1, 1, 1, 1)
    assert row.log_probs is not None
    assert row.log_probs[:3] == (-0.1, -0.2, -0.3)
    assert math.isnan(row.log_probs[3])


def test_text_with_its_end_is_left_as_it_is() -> None:
    row = prepare([5, EOS], log_probs=[-0.1, -0.2])
    assert isinstance(row, OfflineRow)
    assert (row.token_ids, row.log_probs) == ((5, EOS), (-0.1, -0.2))


def test_only_assistant_turns_and_the_end_are_trained_on() -> None:
    row = prepare([5, 6, 7, 8], turns=[("assistant", 1), ("tool", 2), ("assistant", 1)])
    assert isinstance(row, OfflineRow)
    assert row.response_mask == (1, 0, 0, 1, 1)


@pytest.mark.parametrize(
    ("token_ids", "options", "reason"),
    [
        ([], {}, "empty"),
        ([5] * 6, {}, "too_long"),
        ([5], {"finish_reason": "length"}, "truncated"),
        ([5], {"accuracy": None}, "unscored"),
        ([5], {"reward": None}, "unscored"),
        ([5], {"accuracy": 0.9}, "low_accuracy"),
        ([5], {"accuracy": 0.4, "problem_type": "temporal_grounding"}, "low_accuracy"),
        ([5], {"accuracy": 0.6, "min_offline_accuracy": 0.7}, "low_accuracy"),
        ([5], {"log_probs": [-0.1, -0.2]}, "log_probs_length"),
        ([5], {"turns": [("assistant", 3)]}, "turns_length"),
    ],
)
def test_unusable_trajectory_is_returned_with_its_reason(
    token_ids: list[int], options: dict[str, Any], reason: str
) -> None:
    rejection = prepare(token_ids, **options)
    assert isinstance(rejection, OfflineRejection)
    assert rejection.reason == reason


def test_length_limit_counts_the_end() -> None:
    assert isinstance(prepare([5] * 5), OfflineRow)
    assert isinstance(prepare([5] * 5 + [EOS]), OfflineRow)
    assert isinstance(prepare([5] * 6), OfflineRejection)


def test_graded_types_accept_half_by_default() -> None:
    assert isinstance(prepare([5], accuracy=0.5, problem_type="temporal_grounding"), OfflineRow)


def plan(num_usable: int = 3, step: int = 0, sample_id: str = "s", **config: Any) -> GroupPlan:
    return plan_group(MixConfig(**config), sample_id=sample_id, n=4, num_usable=num_usable, step=step, seed=0)


def test_off_is_the_plain_algorithm() -> None:
    assert plan(when="never") == GroupPlan(num_online=4, num_offline=0, gated=False)


def test_always_samples_one_row_less() -> None:
    assert plan(when="always") == GroupPlan(num_online=3, num_offline=1, gated=False)
    assert plan(when="always", num_offline=2) == GroupPlan(num_online=2, num_offline=2, gated=False)


def test_group_without_a_usable_trajectory_is_an_ordinary_one() -> None:
    assert plan(num_usable=0, when="always") == GroupPlan(num_online=4, num_offline=0, gated=False)


def test_group_keeps_at_least_one_rollout() -> None:
    assert plan(num_usable=9, when="always", num_offline=9).num_online == 1


@pytest.mark.parametrize("when", ["below", "no_success"])
def test_gated_groups_sample_all_rows_first(when: str) -> None:
    assert plan(when=when) == GroupPlan(num_online=4, num_offline=1, gated=True)


def test_probability_mixes_that_share_of_groups_and_repeats_itself() -> None:
    def mixed(step: int) -> list[bool]:
        plans = [plan(when="probability", probability=0.3, step=step, sample_id=f"s{i}") for i in range(2000)]
        return [found.num_offline == 1 for found in plans]

    first = mixed(0)
    assert sum(first) / len(first) == pytest.approx(0.3, abs=0.03)
    assert first == mixed(0)
    assert first != mixed(1)


def test_schedule_moves_linearly_and_stays_at_its_end() -> None:
    config = MixConfig(when="schedule", probability=1.0, probability_end=0.2, schedule_steps=10)
    assert [mix_probability(config, step) for step in (0, 5, 10, 50)] == pytest.approx([1.0, 0.6, 0.2, 0.2])


def test_gate_below_compares_the_mean_of_scored_rows() -> None:
    config = MixConfig(when="below", threshold=0.5)
    assert gate_opens(config, [1.0, 0.0, 0.0, None], "multiple_choice")
    assert not gate_opens(config, [1.0, 0.0, None, None], "multiple_choice")
    assert not gate_opens(config, [None, None], "multiple_choice")


def test_gate_no_success_wants_a_group_without_a_right_answer() -> None:
    config = MixConfig(when="no_success")
    assert gate_opens(config, [0.0, 0.9], "multiple_choice")
    assert not gate_opens(config, [0.0, 0.9], "temporal_grounding")
    assert not gate_opens(config, [0.0, 1.0], "multiple_choice")


def test_worst_row_gives_way_ties_from_the_last_unscored_first() -> None:
    assert rows_to_replace([0.1, 0.1, 1.0], 1) == [1]
    assert rows_to_replace([0.1, None, 0.0], 1) == [1]
    assert rows_to_replace([0.5, 0.1, 0.1, 1.0], 2) == [1, 2]


def test_stored_row_follows_fewer_rollouts_and_takes_the_place_of_the_worst_of_all() -> None:
    joined = mixed_policy_group(online_rewards=[0.1, 0.2, 0.3], offline_reward=1.0, n=4)
    assert joined.rewards == (0.1, 0.2, 0.3, 1.0)
    assert (joined.offline_row, joined.replaced) == ((0, 0, 0, 1), ())
    replaced = mixed_policy_group(online_rewards=[0.1, 0.0, 0.3, 0.2], offline_reward=1.0, n=4)
    assert replaced.rewards == (0.1, 1.0, 0.3, 0.2)
    assert (replaced.offline_row, replaced.replaced) == ((0, 1, 0, 0), (1,))


def test_statistics_are_those_of_all_rows_unless_asked_otherwise() -> None:
    rewards = {"online_rewards": [0.0, 1.0], "offline_reward": 2.0, "n": 3, "estimator": "dr_grpo"}
    assert mixed_policy_group(**rewards).advantages == pytest.approx([-1.0, 0.0, 1.0])
    apart = mixed_policy_group(**rewards, offline_in_baseline=False)
    assert apart.advantages == pytest.approx([-0.5, 0.5, 1.5])


def test_all_wrong_rollouts_keep_zero_advantage_where_the_stored_row_is_not_in_the_baseline() -> None:
    group = mixed_policy_group(
        online_rewards=[0.1, 0.1, 0.1], offline_reward=1.0, n=4, offline_in_baseline=False
    )
    assert group.advantages == pytest.approx([0.0, 0.0, 0.0, 0.9])


def test_rollout_that_could_not_be_scored_has_no_part_in_a_mixed_group() -> None:
    group = mixed_policy_group(online_rewards=[0.0, None], offline_reward=1.0, n=3, estimator="dr_grpo")
    assert group.advantages == pytest.approx([-0.5, 0.0, 0.5])


def test_group_of_the_wrong_size_is_an_error() -> None:
    with pytest.raises(
        ConfigError, match="a group of 5 rows cannot be made of 2 rollouts and 1 trajectories"
    ):
        mixed_policy_group(online_rewards=[0.0, 1.0], offline_reward=1.0, n=5)


def offline(name: str, reward: float, tokens: tuple[int, ...] = (5, EOS)) -> OfflineRow:
    return OfflineRow(
        trajectory_id=name,
        token_ids=tokens,
        response_mask=(1,) * len(tokens),
        log_probs=(-0.5,) * len(tokens),
        reward=reward,
        accuracy=reward,
    )


def test_choice_of_trajectories_varies_with_the_step_and_repeats_itself() -> None:
    candidates = [offline(f"t{i}", 1.0) for i in range(5)]
    draws = [
        [row.trajectory_id for row in choose_offline(candidates, 2, sample_id="s", step=step, seed=0)]
        for step in (0, 0, 1, 2, 3)
    ]
    assert draws[0] == draws[1]
    assert len({tuple(draw) for draw in draws}) > 1
    assert all(len(set(draw)) == 2 for draw in draws)


def test_replay_keeps_the_best_of_each_sample_through_a_checkpoint() -> None:
    buffer = ReplayBuffer(capacity=2)
    assert buffer.add("s", offline("a", 0.5, (1, EOS)))
    assert buffer.add("s", offline("b", 1.0, (2, EOS)))
    assert not buffer.add("s", offline("c", 0.1, (3, EOS)))
    assert buffer.add("s", offline("d", 0.5, (4, EOS)))
    assert [row.trajectory_id for row in buffer.get("s")] == ["b", "d"]
    restored = ReplayBuffer(capacity=2)
    restored.load_state_dict(json.loads(json.dumps(buffer.state_dict())))
    assert restored.rows == buffer.rows
    assert restored.get("unknown") == []


def test_same_tokens_are_replayed_once() -> None:
    buffer = ReplayBuffer(capacity=3)
    buffer.add("s", offline("a", 1.0))
    buffer.add("s", offline("b", 1.0))
    assert [row.trajectory_id for row in buffer.get("s")] == ["b"]


def test_mask_from_eos_keeps_the_first_end_and_drops_padding_of_an_aborted_row() -> None:
    ids = torch.tensor([[5, EOS, 0, 0], [5, 6, 0, 0], [0, 0, 0, 0], [5, 0, 6, 7]])
    mask = mask_from_eos(ids, eos=[EOS], pad=0)
    assert mask.tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1]]


def test_mask_from_lengths_does_not_search_for_an_end() -> None:
    ids = torch.tensor([[5, EOS, 6, 0], [5, 6, EOS, 9]])
    found, mask = mask_from_lengths(ids, [3, 3], eos=[EOS], pad=EOS, append_eos=True)
    assert found.tolist() == [[5, EOS, 6, EOS], [5, 6, EOS, EOS]]
    assert mask.tolist() == [[1, 1, 1, 1], [1, 1, 1, 0]]


def test_row_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(ConfigError, match="row 0: 3 tokens with the end do not fit into a response of 2"):
        mask_from_lengths(torch.tensor([[5, 6]]), [2], eos=[EOS], pad=0, append_eos=True)


def test_turn_mask_and_padding() -> None:
    assert mask_from_turns([("assistant", 1), ("user", 2)]) == [1, 0, 0]
    assert pad_rows([[1.0], []], 2, -1.0, torch.float64).tolist() == [[1.0, -1.0], [-1.0, -1.0]]


def test_metrics_tell_what_was_used() -> None:
    def row(source: str, accuracy: float, tokens: int) -> tuple[Rollout, Reward]:
        rollout = Rollout(
            token_ids=(5,) * tokens,
            log_probs=None,
            finish_reason="stop",
            policy_version=0,
            text="",
            source=source,
        )
        return rollout, Reward(overall=accuracy / 2, components={"accuracy": accuracy})

    online = [row("rollout", 0.0, 9)] * 3
    assert mix_metrics(online) == {"mix/offline_row_share": 0.0}
    assert mix_metrics([*online, row("offline", 1.0, 4)]) == {
        "mix/offline_row_share": 0.25,
        "mix/tokens_mean": 4.0,
        "mix/reward_mean": 0.5,
        "mix/accuracy_mean": 1.0,
    }

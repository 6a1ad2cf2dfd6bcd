"""Reward functions of one's own, for `recipes/own-reward.yaml`: one of a row, one of a whole batch."""

from __future__ import annotations

from typing import Any

import vrldata


def brevity(record: dict[str, Any], target: int = 16, weight: float = 0.2) -> dict[str, float] | None:
    """The built-in accuracy, and up to `weight` more for a right answer of at most `target` tokens."""
    accuracy = vrldata.score(**record).accuracy
    if accuracy is None:  # the answer key cannot be read: no reward, not 0
        return None
    over = max(0, record["response_length"] - target) / target
    bonus = weight * accuracy * max(0.0, 1.0 - over)
    return {"overall": accuracy + bonus, "accuracy": accuracy, "brevity": bonus}


def shortest_of_group(records: list[dict[str, Any]], bonus: float = 0.2) -> list[dict[str, float] | None]:
    """The built-in accuracy, and `bonus` more for the shortest right response to each question."""
    scores = vrldata.score_batch(records)
    shortest: dict[str, int] = {}
    for record, score in zip(records, scores, strict=True):
        if score.accuracy == 1.0:
            length, group = record["response_length"], record["group_id"]
            shortest[group] = min(length, shortest.get(group, length))
    rewards: list[dict[str, float] | None] = []
    for record, score in zip(records, scores, strict=True):
        if score.accuracy is None:
            rewards.append(None)
            continue
        best = score.accuracy == 1.0 and record["response_length"] == shortest[record["group_id"]]
        rewards.append({"overall": score.accuracy + bonus * best, "accuracy": score.accuracy})
    return rewards

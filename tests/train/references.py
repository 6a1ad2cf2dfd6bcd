"""Slow obvious versions of every estimator and loss: loops over Python floats, no tensors.

Rows are lists over tokens; `mask[i][t]` is 1 where a token counts. The tests compare the package with these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

Rows = list[list[float]]


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def std(values: Sequence[float], *, unbiased: bool = True) -> float:
    centre = mean(values)
    return math.sqrt(sum((value - centre) ** 2 for value in values) / (len(values) - int(unbiased)))


def outcome(rewards: Rows, mask: Rows) -> list[float]:
    return [
        sum(r for r, m in zip(row, marks, strict=True) if m) for row, marks in zip(rewards, mask, strict=True)
    ]


def spread(row_values: Sequence[float], mask: Rows) -> Rows:
    return [[value if m else 0.0 for m in marks] for value, marks in zip(row_values, mask, strict=True)]


def by_group(
    rewards: Rows,
    mask: Rows,
    uid: Sequence[str],
    valid: Sequence[bool],
    advantage: Callable[[float, list[float], list[float]], float],
) -> Rows:
    """advantage(own reward, rewards of the group, all rewards); 0 for invalid rows and silent groups."""
    total = outcome(rewards, mask)
    rows = [valid[i] and any(mask[i]) for i in range(len(total))]
    everything = [total[i] for i in range(len(total)) if rows[i]]
    values = []
    for i, reward in enumerate(total):
        group = [total[j] for j in range(len(total)) if rows[j] and uid[j] == uid[i]]
        silent = not rows[i] or len(group) < 2 or max(group) == min(group)
        values.append(0.0 if silent else advantage(reward, group, everything))
    return spread(values, mask)


def grpo(rewards: Rows, mask: Rows, uid: Sequence[str], valid: Sequence[bool], kind: str = "group") -> Rows:
    def advantage(reward: float, group: list[float], everything: list[float]) -> float:
        if kind == "none":
            scale = 1.0
        elif kind == "batch":
            scale = std(everything) + 1e-6
        else:
            scale = std(group, unbiased=kind == "group") + 1e-6
        return (reward - mean(group)) / scale

    return by_group(rewards, mask, uid, valid, advantage)


def rloo(rewards: Rows, mask: Rows, uid: Sequence[str], valid: Sequence[bool]) -> Rows:
    def advantage(reward: float, group: list[float], everything: list[float]) -> float:
        return reward - (sum(group) - reward) / (len(group) - 1)

    return by_group(rewards, mask, uid, valid, advantage)


def grpo_passk(rewards: Rows, mask: Rows, uid: Sequence[str], valid: Sequence[bool]) -> Rows:
    def advantage(reward: float, group: list[float], everything: list[float]) -> float:
        first, second = sorted(group, reverse=True)[:2]
        return (first - second) / (std(group) + 1e-6) if reward == first else 0.0

    return by_group(rewards, mask, uid, valid, advantage)


def opo(rewards: Rows, mask: Rows, uid: Sequence[str], valid: Sequence[bool]) -> Rows:
    total = outcome(rewards, mask)
    rows = [valid[i] and any(mask[i]) for i in range(len(total))]
    values = []
    for i, reward in enumerate(total):
        group = [j for j in range(len(total)) if rows[j] and uid[j] == uid[i]]
        rewards_of = [total[j] for j in group]
        if not rows[i] or len(group) < 2 or max(rewards_of) == min(rewards_of):
            values.append(0.0)
            continue
        lengths = [sum(mask[j]) for j in group]
        baseline = sum(n * r for n, r in zip(lengths, rewards_of, strict=True)) / sum(lengths)
        values.append(reward - baseline)
    return spread(values, mask)


def whiten(values: Rows, mask: Rows, eps: float = 1e-8) -> Rows:
    kept = [v for row, marks in zip(values, mask, strict=True) for v, m in zip(row, marks, strict=True) if m]
    if len(kept) < 2 or max(kept) == min(kept):
        return [[0.0 for _ in row] for row in values]
    centre, variance = mean(kept), std(kept) ** 2
    return [
        [(v - centre) / math.sqrt(variance + eps) if m else 0.0 for v, m in zip(row, marks, strict=True)]
        for row, marks in zip(values, mask, strict=True)
    ]


def effective(mask: Rows, valid: Sequence[bool]) -> Rows:
    return [[m if ok else 0.0 for m in marks] for marks, ok in zip(mask, valid, strict=True)]


def returns(rewards: Rows, mask: Rows, gamma: float) -> Rows:
    result = []
    for row, marks in zip(rewards, mask, strict=True):
        running, line = 0.0, [0.0] * len(row)
        for t in reversed(range(len(row))):
            if marks[t]:
                running = row[t] + gamma * running
                line[t] = running
        result.append(line)
    return result


def reinforce_plus_plus(rewards: Rows, mask: Rows, valid: Sequence[bool], gamma: float) -> tuple[Rows, Rows]:
    inside = effective(mask, valid)
    goal = returns(rewards, inside, gamma)
    return whiten(goal, inside), goal


def reinforce_plus_plus_baseline(
    rewards: Rows, mask: Rows, uid: Sequence[str], valid: Sequence[bool]
) -> Rows:
    return whiten(grpo(rewards, mask, uid, valid, "none"), effective(mask, valid))


def remax(rewards: Rows, mask: Rows, valid: Sequence[bool], baselines: Sequence[float]) -> Rows:
    total = outcome(rewards, mask)
    return spread([r - b if ok else 0.0 for r, b, ok in zip(total, baselines, valid, strict=True)], mask)


def gae(
    rewards: Rows, mask: Rows, valid: Sequence[bool], values: Rows, gamma: float, lam: float
) -> tuple[Rows, Rows]:
    inside = effective(mask, valid)
    advantages, goals = [], []
    for row, marks, baseline in zip(rewards, inside, values, strict=True):
        line, goal = [0.0] * len(row), [0.0] * len(row)
        tokens = [t for t in range(len(row)) if marks[t]]
        following, running = 0.0, 0.0
        for t in reversed(tokens):
            running = row[t] + gamma * following - baseline[t] + gamma * lam * running
            following = baseline[t]
            line[t], goal[t] = running, running + baseline[t]
        advantages.append(line)
        goals.append(goal)
    return whiten(advantages, inside), goals


def gdpo(
    components: Sequence[Sequence[float]],
    weights: Sequence[float],
    mask: Rows,
    uid: Sequence[str],
    valid: Sequence[bool],
    batch_norm: str,
) -> Rows:
    rows = [ok and any(marks) for ok, marks in zip(valid, mask, strict=True)]
    combined = [0.0] * len(mask)
    for component, weight in zip(components, weights, strict=True):
        for i in range(len(mask)):
            group = [component[j] for j in range(len(mask)) if rows[j] and uid[j] == uid[i]]
            if rows[i] and len(group) > 1 and max(group) > min(group):
                combined[i] += weight * (component[i] - mean(group)) / (std(group) + 1e-6)
    kept = [value for value, ok in zip(combined, rows, strict=True) if ok]
    if len(kept) < 2 or max(kept) == min(kept):
        return spread([0.0] * len(mask), mask)
    if batch_norm == "token":
        return whiten(spread(combined, mask), effective(mask, rows))
    centre, scale = mean(kept), std(kept) + 1e-4
    return spread([(v - centre) / scale if ok else 0.0 for v, ok in zip(combined, rows, strict=True)], mask)


def aggregate(values: Rows, mask: Rows, mode: str, max_response_length: int) -> float:
    rows = [
        [v for v, m in zip(row, marks, strict=True) if m]
        for row, marks in zip(values, mask, strict=True)
        if any(marks)
    ]
    if not rows:
        return 0.0
    if mode == "token":
        return mean([v for row in rows for v in row])
    if mode == "seq":
        return mean([mean(row) for row in rows])
    if mode == "seq_sum":
        return mean([sum(row) for row in rows])
    return sum(sum(row) for row in rows) / (len(rows) * max_response_length)


def ppo_token(new: float, old: float, advantage: float, low: float, high: float, dual: float | None) -> float:
    ratio = math.exp(min(max(new - old, -20.0), 20.0))
    clipped = min(max(ratio, 1 - low), 1 + high)
    loss = max(-advantage * ratio, -advantage * clipped)
    if dual and advantage < 0:
        loss = min(loss, -advantage * dual)
    return loss


def value_losses(new: Rows, returns: Rows, old: Rows, mask: Rows, clip: float) -> Rows:
    result: Rows = []
    for n_row, g_row, o_row, marks in zip(new, returns, old, mask, strict=True):
        line = []
        for n, g, o, m in zip(n_row, g_row, o_row, marks, strict=True):
            clipped = min(max(n, o - clip), o + clip)
            line.append(0.5 * max((n - g) ** 2, (clipped - g) ** 2) if m else 0.0)
        result.append(line)
    return result


def explained_variance(values: Rows, returns: Rows, mask: Rows) -> float:
    kept = [
        (v, g)
        for v_row, g_row, marks in zip(values, returns, mask, strict=True)
        for v, g, m in zip(v_row, g_row, marks, strict=True)
        if m
    ]
    return 1 - std([g - v for v, g in kept]) ** 2 / std([g for _, g in kept]) ** 2


def sequence_ratio(new: Sequence[float], old: Sequence[float], marks: Sequence[float]) -> float:
    return math.exp(mean([n - o for n, o, m in zip(new, old, marks, strict=True) if m]))


def token_losses(loss: str, new: Rows, old: Rows, advantages: Rows, mask: Rows) -> Rows:
    """Per-token losses with the options of `OPTIONS`."""
    low, high, dual = OPTIONS["clip_low"], OPTIONS["clip_high"], OPTIONS["clip_dual"]
    result: Rows = []
    for n_row, o_row, a_row, marks in zip(new, old, advantages, mask, strict=True):
        line = []
        for n, o, a, m in zip(n_row, o_row, a_row, marks, strict=True):
            if not m:
                line.append(0.0)
                continue
            ratio = math.exp(n - o)
            if loss == "ppo":
                line.append(ppo_token(n, o, a, low, high, dual))
            elif loss == "gspo":
                s = sequence_ratio(n_row, o_row, marks)
                line.append(max(-a * s, -a * min(max(s, 1 - low), 1 + high)))
            elif loss == "cispo":
                line.append(-min(max(ratio, 1 - low), 1 + high) * a * n)
            elif loss == "sapo":
                tau = 1.0 if a > 0 else 1.05
                line.append(-a * 4 / tau / (1 + math.exp(-tau * (ratio - 1))))
            else:
                line.append(-a * n)
        result.append(line)
    return result


OPTIONS = {"clip_low": 0.2, "clip_high": 0.28, "clip_dual": 3.0}


def ema_grpo(
    steps: Sequence[Rows], mask: Rows, uid: Sequence[str], valid: Sequence[bool], task: Sequence[str]
) -> list[Rows]:
    """Advantages of one batch after another, with decay 0.99, least standard deviation 1e-3 and guard 5."""
    first: dict[str, float] = {}
    second: dict[str, float] = {}
    rows = [ok and any(marks) for ok, marks in zip(valid, mask, strict=True)]
    results = []
    for rewards in steps:
        total = outcome(rewards, mask)
        for name in set(task):
            kept = [r for r, t, ok in zip(total, task, rows, strict=True) if ok and t == name]
            if kept:
                moments = mean(kept), mean([r * r for r in kept])
                old = first.get(name, moments[0]), second.get(name, moments[1])
                first[name] = 0.99 * old[0] + 0.01 * moments[0]
                second[name] = 0.99 * old[1] + 0.01 * moments[1]
        values = [0.0] * len(total)
        for name in set(uid):
            members = [i for i in range(len(total)) if rows[i] and uid[i] == name]
            group = [total[i] for i in members]
            if len(group) < 2 or max(group) == min(group):
                continue
            for i in members:
                sigma = math.sqrt(max(second[task[i]] - first[task[i]] ** 2, 0.0))
                values[i] = (total[i] - mean(group)) / (max(sigma, 1e-3) + 1e-6)
            if any(abs(values[i]) > 5 for i in members):
                for i in members:
                    values[i] = (total[i] - mean(group)) / (std(group, unbiased=False) + 1e-6)
        results.append(spread(values, mask))
    return results

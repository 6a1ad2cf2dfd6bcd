"""Advantage estimators by name, and one function that runs any of them.

Pure functions on tensors: no model, no engine, no Ray. Argument names are the same everywhere:
`token_level_rewards` (B, T), `response_mask` (B, T), `uid` (B,), `valid` (B,).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from vrldata.errors import ConfigError, nearest
from vrldata.named_functions import load_function
from vrltrain.algorithms.ema_grpo import EmaTaskStats, ema_grpo
from vrltrain.algorithms.gae import gae
from vrltrain.algorithms.gdpo import gdpo
from vrltrain.algorithms.groups import AdvantageResult, Uid, group_index, valid_rows
from vrltrain.algorithms.grpo import dr_grpo, grpo, grpo_passk
from vrltrain.algorithms.reinforce_plus_plus import reinforce_plus_plus, reinforce_plus_plus_baseline
from vrltrain.algorithms.remax import remax
from vrltrain.algorithms.rloo import opo, rloo

__all__ = ["ADVANTAGE_ESTIMATORS", "AdvantageResult", "EmaTaskStats", "compute_advantages"]

ADVANTAGE_ESTIMATORS: dict[str, Callable[..., AdvantageResult]] = {
    "grpo": grpo,
    "dr_grpo": dr_grpo,
    "grpo_passk": grpo_passk,
    "rloo": rloo,
    "opo": opo,
    "reinforce_plus_plus": reinforce_plus_plus,
    "reinforce_plus_plus_baseline": reinforce_plus_plus_baseline,
    "remax": remax,
    "gae": gae,
    "gdpo": gdpo,
    "ema_grpo": ema_grpo,
}


def compute_advantages(
    estimator: str,
    *,
    response_mask: Tensor,
    token_level_rewards: Tensor | None = None,
    uid: Uid | None = None,
    valid: Tensor | Sequence[bool] | None = None,
    **inputs: Any,
) -> AdvantageResult:
    """Advantages of a whole batch by a named estimator, with metrics.

    Args:
        estimator: a key of `ADVANTAGE_ESTIMATORS`, or `module:function` of your own with the same arguments.
        response_mask: (B, T), 1 on the tokens that the policy wrote, EOS included.
        token_level_rewards: (B, T), the outcome reward on the last masked token.
        uid: (B,), names the prompt of a row.
        valid: bool (B,). A row that could not be scored gets 0 and enters no statistic. Give the loss
            `response_mask * valid[:, None]`, so that it leaves the averages as well.
        inputs: what the estimator takes besides, such as `values`, `reward_baselines`, `task`, `eps`.

    Raises:
        ConfigError: the estimator is unknown, or an input is missing, unknown or of the wrong shape.
    """
    function = _estimator(estimator)
    rows = valid_rows(response_mask, valid)
    arguments: dict[str, Any] = {"response_mask": response_mask, "valid": rows, **inputs}
    if token_level_rewards is not None:
        _check_shape("token_level_rewards", token_level_rewards, response_mask.shape)
        arguments["token_level_rewards"] = token_level_rewards
    if uid is not None:
        if len(uid) != response_mask.shape[0]:
            raise ConfigError(f"uid names {len(uid)} rows, but response_mask has {response_mask.shape[0]}")
        arguments["uid"] = uid
    _check_arguments(estimator, function, arguments)
    with torch.no_grad():
        result = function(**arguments)
    metrics = {**_metrics(result.advantages, response_mask, rows, uid), **result.metrics}
    return AdvantageResult(advantages=result.advantages, returns=result.returns, metrics=metrics)


def _estimator(name: str) -> Callable[..., AdvantageResult]:
    if ":" in name:
        return load_function(name, purpose="advantage estimator")
    if name not in ADVANTAGE_ESTIMATORS:
        known = ", ".join(sorted(ADVANTAGE_ESTIMATORS))
        raise ConfigError(
            f"unknown advantage estimator {name!r}.{nearest(name, ADVANTAGE_ESTIMATORS)} Known: {known}"
        )
    return ADVANTAGE_ESTIMATORS[name]


def _check_shape(name: str, tensor: Tensor, shape: torch.Size) -> None:
    if tensor.shape != shape:
        raise ConfigError(f"{name} has shape {tuple(tensor.shape)}, but response_mask has {tuple(shape)}")


def _check_arguments(estimator: str, function: Callable[..., Any], arguments: dict[str, Any]) -> None:
    parameters = inspect.signature(function).parameters
    open_ended = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values())
    for name in arguments:
        if name not in parameters and not open_ended:
            raise ConfigError(
                f"advantage estimator {estimator!r} has no option {name!r}.{nearest(name, parameters)}"
            )
    for name, parameter in parameters.items():
        required = parameter.default is inspect.Parameter.empty and parameter.kind is parameter.KEYWORD_ONLY
        if required and name not in arguments:
            raise ConfigError(f"advantage estimator {estimator!r} needs the input {name!r}")


def _metrics(advantages: Tensor, response_mask: Tensor, rows: Tensor, uid: Uid | None) -> dict[str, float]:
    """Minimum, maximum and mean over masked tokens of valid rows; shares of valid rows and silent groups."""
    inside = (response_mask != 0) & rows.unsqueeze(-1)
    metrics = {"advantage/valid_row_share": float(rows.double().mean()) if rows.numel() else 0.0}
    if bool(inside.any()):
        kept = advantages[inside]
        metrics["advantage/min"] = float(kept.min())
        metrics["advantage/max"] = float(kept.max())
        metrics["advantage/mean"] = float(kept.double().mean())
    if uid is not None and len(uid):
        index = group_index(uid)
        signal = ((advantages != 0) & inside).any(-1).to("cpu")
        groups = int(index.max()) + 1
        loud = torch.zeros(groups, dtype=torch.bool)
        loud[index[signal]] = True
        metrics["advantage/zero_group_share"] = float((~loud).double().mean())
    return metrics

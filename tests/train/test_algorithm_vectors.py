"""Every oracle of the shared vectors: `kind` names the function, `inputs` and `params` are fed by name."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.conftest import shared_missing, shared_root
from vrltrain.aggregation import GlobalCounts, aggregate
from vrltrain.algorithms import ADVANTAGE_ESTIMATORS, EmaTaskStats, compute_advantages
from vrltrain.corrections import mismatch_metrics, rejection_mask, rollout_weights
from vrltrain.filters import keep_groups
from vrltrain.kl import KLController, kl_divergence
from vrltrain.losses import log_probs_and_entropy, mixed_policy_loss, policy_loss, value_loss
from vrltrain.masked import masked_mean, masked_var, masked_whiten
from vrltrain.mixing import mixed_policy_group
from vrltrain.response_mask import mask_from_eos, mask_from_lengths

VECTORS = "vectors/algorithms.json"
Outcome = dict[str, Any]


def load_oracles() -> list[Any]:
    reason = shared_missing()
    if reason:
        return [pytest.param(None, marks=pytest.mark.skip(reason=reason))]
    oracles = json.loads((shared_root() / VECTORS).read_text())["oracles"]
    return [
        pytest.param(oracle, id=f"{oracle['id']}-{oracle['kind']}-{oracle['name']}") for oracle in oracles
    ]


def tensors(oracle: dict[str, Any]) -> dict[str, Any]:
    """Inputs as tensors of the oracle's dtype; names of groups and tasks stay lists."""
    dtype = getattr(torch, oracle["dtype"])
    converted: dict[str, Any] = {}
    for name, value in oracle["inputs"].items():
        converted[name] = torch.tensor(value, dtype=dtype) if is_rectangle(value) else value
    return converted


def is_rectangle(value: Any) -> bool:
    """True for nested lists of numbers with one length at each depth."""
    if not isinstance(value, list) or not value:
        return False
    if all(isinstance(item, int | float) for item in value):
        return True
    return all(is_rectangle(item) for item in value) and len({len(item) for item in value}) == 1


def call(function: Callable[..., Any], **arguments: Any) -> Any:
    """Call with every argument by name; one that the function does not know is a failure."""
    unknown = set(arguments) - set(inspect.signature(function).parameters)
    assert not unknown, f"{function.__name__} does not know {sorted(unknown)}"
    return function(**arguments)


def run_advantage(inputs: dict[str, Any], params: dict[str, Any]) -> Outcome:
    params = dict(params)
    estimator = params.pop("estimator")
    if estimator == "gdpo":
        known = inspect.signature(ADVANTAGE_ESTIMATORS["gdpo"]).parameters
        # The epsilon of the normalisation over rows goes by several names.
        params = {
            name if name in known or "eps" not in name else "batch_eps": value
            for name, value in params.items()
        }
    steps = sorted(name for name in inputs if name.startswith("token_level_rewards_step"))
    if not steps:
        if estimator == "ema_grpo":
            inputs = {**inputs, "state": EmaTaskStats()}
        result = compute_advantages(estimator, **inputs, **params)
        return {"advantages": result.advantages, "returns": result.returns}
    state, outcome = EmaTaskStats(), {}
    shared = {name: value for name, value in inputs.items() if name not in steps}
    for step in steps:
        result = compute_advantages(
            estimator, token_level_rewards=inputs[step], state=state, **shared, **params
        )
        outcome[step.replace("token_level_rewards", "advantages")] = result.advantages
    return outcome


def run_policy_loss(inputs: dict[str, Any], params: dict[str, Any]) -> Outcome:
    function = mixed_policy_loss if "offline_row" in inputs else policy_loss
    log_probs = inputs["log_probs"].requires_grad_()
    result = call(function, **inputs, **params)
    (gradient,) = torch.autograd.grad(result.loss, log_probs)
    metrics = result.metrics
    either = metrics.get("clipfrac_high", 0.0) + metrics.get("clipfrac_low", 0.0)
    return {
        "loss": result.loss,
        "grad_log_probs": gradient,
        "metric_clipfrac_high_or_low": either,
        **{f"metric_{name}": value for name, value in metrics.items()},
    }


def run_aggregation(inputs: dict[str, Any], params: dict[str, Any]) -> Outcome:
    return {"loss": call(aggregate, **inputs, **average(params))}


def average(params: dict[str, Any]) -> dict[str, Any]:
    """The constant of `seq_sum_norm` has different names; it is the one parameter beside the mode."""
    others = {name: value for name, value in params.items() if name != "mode"}
    if params.get("mode") == "seq_sum_norm" and len(others) == 1:
        return {"mode": params["mode"], "max_response_length": next(iter(others.values()))}
    return params


def run_aggregation_micro(inputs: dict[str, Any], params: dict[str, Any]) -> Outcome:
    values, mask = inputs["values"], inputs["mask"]
    counts = GlobalCounts.of(mask)
    parts = []
    for rows in inputs["micro_batches"]:
        index = torch.as_tensor(rows).long()
        parts.append(
            call(aggregate, values=values[index], mask=mask[index], counts=counts, **average(params))
        )
    return {"loss": torch.stack(parts).sum()}


def run_value_loss(inputs: dict[str, Any], params: dict[str, Any]) -> Outcome:
    result = call(value_loss, **inputs, **params)
    return {"loss": result.loss, "clipfrac": result.metrics["value_clipfrac"]}


def run_kl(inputs: dict[str, Any], params: dict[str, Any]) -> Outcome:
    leaf = inputs["logits" if "logits" in inputs else "log_probs"].requires_grad_()
    kl = call(kl_divergence, **inputs, **params)
    (gradient,) = torch.autograd.grad(kl.sum(), leaf)
    return {"kl": kl, "grad_of_sum": gradient}


def run_kl_controller(inputs: dict[str, Any], params: dict[str, Any]) -> Outcome:
    controller = call(KLController, **params)
    steps = zip(inputs["current_kl"].tolist(), inputs["n_steps"].tolist(), strict=True)
    return {"kl_coef": [controller.update(kl, int(n)) for kl, n in steps]}


def run_rollout_is(inputs: dict[str, Any], params: dict[str, Any]) -> Outcome:
    return {"weights": call(rollout_weights, **inputs, **params)}


def run_rollout_rs(inputs: dict[str, Any], params: dict[str, Any]) -> Outcome:
    result = call(rejection_mask, **inputs, **params)
    level = "token" if result.statistic.dim() == 2 else "sequence"
    return {"mask": result.mask, f"{level}_statistic": result.statistic}


def run_rollout_metrics(inputs: dict[str, Any], params: dict[str, Any]) -> Outcome:
    return call(mismatch_metrics, **inputs, **params)


def run_utility(inputs: dict[str, Any], params: dict[str, Any]) -> Outcome:
    if "logits" in inputs:
        labels = inputs["labels"].long()
        log_probs, entropy = call(log_probs_and_entropy, logits=inputs["logits"], labels=labels, **params)
        return {"log_probs": log_probs, "entropy": entropy}
    if "response_ids" in inputs:
        inputs = {**inputs, "response_ids": inputs["response_ids"].long()}
        if "lengths" in inputs:
            ids, mask = call(mask_from_lengths, **inputs, **params)
            return {"response_ids": ids, "mask": mask}
        return {"mask": call(mask_from_eos, **inputs, **params)}
    values, mask = inputs["values"], inputs["mask"]
    unbiased = params.get("unbiased", True)
    return {
        "mean": masked_mean(values, mask),
        "var": masked_var(values, mask, unbiased=unbiased),
        "whitened": call(masked_whiten, **inputs, **params),
    }


def run_filter(inputs: dict[str, Any], params: dict[str, Any]) -> Outcome:
    return {"keep": call(keep_groups, **inputs, **params)}


def run_mixed_policy_group(inputs: dict[str, Any], params: dict[str, Any]) -> Outcome:
    rewards = inputs["online_rewards"]
    group = mixed_policy_group(
        **{**inputs, "online_rewards": rewards.tolist() if isinstance(rewards, Tensor) else rewards}, **params
    )
    return {"advantages": group.advantages, "rewards": group.rewards, "offline_row": group.offline_row}


KINDS: dict[str, Callable[[dict[str, Any], dict[str, Any]], Outcome]] = {
    "advantage": run_advantage,
    "policy_loss": run_policy_loss,
    "mixed_policy_loss": run_policy_loss,
    "aggregation": run_aggregation,
    "aggregation_micro": run_aggregation_micro,
    "value_loss": run_value_loss,
    "kl": run_kl,
    "kl_controller": run_kl_controller,
    "rollout_is": run_rollout_is,
    "rollout_rs": run_rollout_rs,
    "rollout_metrics": run_rollout_metrics,
    "utility": run_utility,
    "filter": run_filter,
    "mixed_policy_group": run_mixed_policy_group,
}


@pytest.mark.parametrize("oracle", load_oracles())
def test_oracle(oracle: dict[str, Any]) -> None:
    assert oracle["kind"] in KINDS, f"no function for the kind {oracle['kind']!r}"
    outcome = KINDS[oracle["kind"]](tensors(oracle), oracle["params"])
    for name, expected in oracle["expected"].items():
        assert name in outcome, f"{oracle['kind']} gives no {name!r}"
        assert_close(outcome[name], expected, rtol=oracle["rtol"], atol=oracle["atol"])


def assert_close(actual: Any, expected: Any, *, rtol: float, atol: float) -> None:
    if isinstance(expected, list) and any(isinstance(item, str) for item in expected):
        assert actual == expected
        return
    value = actual.detach() if isinstance(actual, Tensor) else torch.as_tensor(actual)
    torch.testing.assert_close(
        value.double(), torch.tensor(expected, dtype=torch.float64), rtol=rtol, atol=atol, check_dtype=False
    )

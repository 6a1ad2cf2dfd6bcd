"""AdamW, the course of its learning rate, and its state as plain tensors for a checkpoint."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from vrltrain.configs import OptimConfig

if TYPE_CHECKING:
    from vrltrain.distributed import Ranks


def make_optimizer(policy: nn.Module, config: OptimConfig) -> torch.optim.AdamW:
    """AdamW over the trainable weights; norms and biases are not decayed."""
    weights = [weight for weight in policy.parameters() if weight.requires_grad]
    groups = [
        {"params": [weight for weight in weights if weight.ndim > 1], "weight_decay": config.weight_decay},
        {"params": [weight for weight in weights if weight.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=config.lr,
        betas=config.betas,
        eps=config.eps,
        foreach=False,
    )


def learning_rate(config: OptimConfig, step: int, total_steps: int) -> float:
    """The rate of optimizer step `step`, counted from 0, of `total_steps`.

    >>> config = OptimConfig(lr=1.0, schedule="linear", warmup_steps=2)
    >>> [learning_rate(config, step, 6) for step in range(6)]
    [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]
    """
    if step < config.warmup_steps:
        return config.lr * (step + 1) / config.warmup_steps
    progress = min(max(step - config.warmup_steps, 0) / max(total_steps - config.warmup_steps, 1), 1.0)
    share = 1.0
    if config.schedule == "linear":
        share = 1.0 - progress
    elif config.schedule == "cosine":
        share = 0.5 * (1.0 + math.cos(math.pi * progress))
    return config.lr * (config.min_lr_ratio + (1.0 - config.min_lr_ratio) * share)


def optimizer_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    *,
    lr: float,
    max_grad_norm: float,
    prefix: str = "update",
) -> dict[str, float]:
    """Clip the gradients, step, and clear them. A gradient that is not finite is dropped and counted.

    Args:
        prefix: of the names of the figures.
    """
    parts = part_grad_norms(model)
    grad_norm = _whole(torch.nn.utils.clip_grad_norm_(model.parameters(), max_grad_norm))
    for group in optimizer.param_groups:
        group["lr"] = lr
    finite = math.isfinite(grad_norm)
    if finite:
        optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return {
        f"{prefix}/grad_norm": grad_norm,
        f"{prefix}/lr": lr,
        f"{prefix}/skipped_steps": float(not finite),
        **{f"{prefix}/grad_norm_{part}": norm for part, norm in parts.items()},
    }


def part_grad_norms(model: nn.Module) -> dict[str, float]:
    """Norm of the gradients of the vision tower, of the projector behind it, and of the language model.

    Parts without a gradient are left out; every rank takes part.
    """
    gradients: dict[str, list[Tensor]] = {}
    for name, weight in model.named_parameters():
        if weight.grad is not None:
            part = "language" if ".visual." not in name else "projector" if "merger" in name else "vision"
            gradients.setdefault(part, []).append(weight.grad)
    return {part: _whole(torch.nn.utils.get_total_norm(found)) for part, found in gradients.items()}


def _whole(norm: Tensor) -> float:
    return float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm)


def optimizer_tensors(
    policy: nn.Module, optimizer: torch.optim.Optimizer, ranks: Ranks
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """(tensors by `<moment>|<weight>`, groups as plain values), whole, on rank 0."""
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_optimizer_state_dict

    several = ranks.world_size > 1
    options = StateDictOptions(full_state_dict=several, cpu_offload=several)
    state = get_optimizer_state_dict(policy, optimizer, options=options)
    tensors = {
        f"{moment}|{weight}": value
        for weight, moments in state.get("state", {}).items()  # empty on ranks other than 0
        for moment, value in moments.items()
    }
    groups = json.loads(json.dumps(state.get("param_groups", [])))
    return tensors, {"param_groups": groups}


def load_optimizer_tensors(
    policy: nn.Module,
    optimizer: torch.optim.Optimizer,
    tensors: Mapping[str, Tensor],
    groups: Mapping[str, Any],
    ranks: Ranks,
) -> None:
    """Take back what `optimizer_tensors` gave, on any number of ranks; values count on rank 0."""
    from torch.distributed.checkpoint.state_dict import StateDictOptions, set_optimizer_state_dict

    state: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        moment, _, weight = name.partition("|")
        state.setdefault(weight, {})[moment] = tensor
    several = ranks.world_size > 1
    restored = [
        {**group, "betas": tuple(group["betas"])} if "betas" in group else dict(group)
        for group in groups.get("param_groups", [])
    ]
    set_optimizer_state_dict(
        policy,
        optimizer,
        {"state": state, "param_groups": restored},
        options=StateDictOptions(full_state_dict=several, broadcast_from_rank0=several),
    )

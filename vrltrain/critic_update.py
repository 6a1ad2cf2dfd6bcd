"""How the critic learns: values before the update, returns as targets, and optimizer steps of its own.

The loss is `losses.value_loss`, averaged over the tokens of a mini-batch, on the micro-batches of the policy.
Letters in shapes: B rows of the whole step, T tokens of the longest response.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from vrltrain.aggregation import GlobalCounts
from vrltrain.batch import TrainBatch
from vrltrain.losses import value_loss
from vrltrain.masked import masked_mean, masked_var
from vrltrain.optimizer import learning_rate, optimizer_step
from vrltrain.step_rows import StepRows

if TYPE_CHECKING:
    from vrltrain.critic import Critic


@dataclass(slots=True, kw_only=True)
class CriticLearner:
    """The critic in training: part of a checkpoint.

    Attributes:
        optimizer_steps: taken so far.
        num_batches: rollout batches that it has learned from, those of its warm-up included.
    """

    critic: Critic
    optimizer: torch.optim.Optimizer
    optimizer_steps: int = 0
    num_batches: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueTargets:
    """What the critic is trained towards; tensors are (B, T) on the CPU.

    Attributes:
        mask: int64, tokens of scored rollouts; stored trajectories have none, another policy wrote them.
        values: of the critic before the update.
        returns: discounted rewards as GAE estimates them: advantage plus value, before whitening.
    """

    mask: Tensor
    values: Tensor
    returns: Tensor

    @staticmethod
    def of(batch: TrainBatch, values: Tensor, returns: Tensor) -> ValueTargets:
        """Targets of a step's batch."""
        online = (batch.offline_row == 0).unsqueeze(-1).long()
        return ValueTargets(mask=batch.loss_mask * online, values=values, returns=returns)

    def metrics(self) -> dict[str, float]:
        """How good the values were: means, and the explained variance 1 - Var(G - V) / Var(G).

        1 is perfect, 0 no better than a constant; NaN where all returns are equal.
        """
        spread = float(masked_var(self.returns.double(), self.mask))
        missed = float(masked_var((self.returns - self.values).double(), self.mask))
        return {
            "critic/explained_variance": 1 - missed / spread if spread > 0 else float("nan"),
            "critic/returns_mean": float(masked_mean(self.returns.double(), self.mask)),
            "critic/values_mean": float(masked_mean(self.values.double(), self.mask)),
        }


@torch.no_grad()
def all_values(critic: Critic, rows: StepRows) -> Tensor:
    """float32 (B, T): the value before every response token, on the CPU, the same on every rank."""
    result = torch.zeros_like(rows.batch.token_level_rewards)
    for part, inputs, run_vision in rows.all_rows():
        values = critic(inputs, run_vision=run_vision)
        if part:
            result[part, : values.shape[1]] = values.cpu()
    return rows.ranks.sum(result)


def critic_update(learner: CriticLearner, rows: StepRows, targets: ValueTargets) -> dict[str, float]:
    """The optimizer steps of one batch; returns their mean figures, the same on every rank."""
    metrics = targets.metrics()
    passes = rows.passes()
    for chosen in passes:
        for name, value in _one_step(learner, rows, chosen, targets).items():
            metrics[name] = metrics.get(name, 0.0) + value / len(passes)
    learner.num_batches += 1
    return metrics


def _one_step(
    learner: CriticLearner, rows: StepRows, chosen: Sequence[int], targets: ValueTargets
) -> dict[str, float]:
    """One optimizer step on `chosen` rows: gradients summed over micro-batches and ranks."""
    config, ranks = rows.config, rows.ranks
    counts = GlobalCounts.of(targets.mask[list(chosen)])
    figures: dict[str, float] = {}
    for part, inputs, run_vision in rows.micro_batches(chosen):
        vpreds = learner.critic(inputs, run_vision=run_vision)
        if not part:  # another rank has one micro-batch more: take part in its collectives with nothing
            (vpreds.sum() * 0.0).backward()
            continue
        mask, values, returns = (
            tensor[part, : vpreds.shape[1]].to(vpreds.device)
            for tensor in (targets.mask, targets.values, targets.returns)
        )
        result = value_loss(
            vpreds=vpreds,
            returns=returns,
            values=values,
            response_mask=mask,
            cliprange_value=config.algorithm.cliprange_value,
            counts=counts,
        )
        (result.loss * ranks.world_size).backward()  # sharded gradients are averaged over the ranks
        for name, value in (("loss", "value_loss"), ("clipfrac", "value_clipfrac")):
            figures[f"critic/{name}"] = figures.get(f"critic/{name}", 0.0) + result.metrics[value]
    optim = config.critic.optim
    rate = learning_rate(
        optim,
        learner.optimizer_steps,
        config.steps * config.update.mini_batches * config.update.epochs,
    )
    stepped = optimizer_step(
        learner.critic, learner.optimizer, lr=rate, max_grad_norm=optim.max_grad_norm, prefix="critic"
    )
    learner.optimizer_steps += 1
    return {**ranks.sum_figures(figures), **stepped}

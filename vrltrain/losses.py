"""The policy loss of a micro-batch, the loss of mixed groups, the value loss, and log-probabilities from
logits.

`policy_loss` runs a per-token loss of `token_losses` by name: it weights, mixes in offline rows and
averages by the counts of the global mini-batch. KL terms live in `kl`, importance weights against the
engine in `corrections`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from vrldata.errors import ConfigError, nearest
from vrltrain.aggregation import GlobalCounts, aggregate, token_average
from vrltrain.masked import keep_masked
from vrltrain.token_losses import POLICY_LOSSES, PolicyLossBatch, loss_function, luffy_token_loss

__all__ = [
    "OFFLINE_LOSSES",
    "POLICY_LOSSES",
    "GlobalCounts",
    "LossResult",
    "PolicyLossBatch",
    "aggregate",
    "log_probs_and_entropy",
    "mixed_policy_loss",
    "policy_loss",
    "value_loss",
]

OFFLINE_LOSSES = ("luffy", "sft", "onpolicy")


@dataclass(frozen=True, slots=True, kw_only=True)
class LossResult:
    """A scalar loss and its metrics.

    Attributes:
        loss: scalar tensor with gradient; the losses of micro-batches and ranks add up.
        metrics: contributions to figures of the global mini-batch: add them up as well.
    """

    loss: Tensor
    metrics: dict[str, float] = field(default_factory=dict)


def policy_loss(
    loss: str,
    *,
    log_probs: Tensor,
    old_log_probs: Tensor,
    advantages: Tensor,
    response_mask: Tensor,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    clip_dual: float | None = 3.0,
    tau_pos: float = 1.0,
    tau_neg: float = 1.05,
    avg: str = "token",
    counts: GlobalCounts | None = None,
    max_response_length: int | None = None,
    rollout_weights: Tensor | None = None,
    offline_row: Tensor | None = None,
    offline_loss: str = "luffy",
    offline_old_prob: float = 1.0,
    offline_clip: float | None = None,
    behaviour_log_probs: Tensor | None = None,
    gamma: float = 0.1,
) -> LossResult:
    """The loss of one micro-batch under a named policy loss.

    Args:
        loss: a key of `POLICY_LOSSES`, or `module:function` of your own: `f(PolicyLossBatch) -> TokenLoss`.
        log_probs, old_log_probs, advantages, response_mask, clip_*, tau_*: see `PolicyLossBatch`.
        avg, counts, max_response_length: see `aggregation.aggregate`; give `counts` of the global mini-batch.
        rollout_weights: (B, T) importance weights against the engine (`corrections`), used as constants.
            Rows of stored trajectories never get them.
        offline_row: (B,), not 0 for rows that are stored trajectories. They enter by `offline_loss`:
            `luffy`, `sft` (-ln pi, whatever the advantage) or `onpolicy` (like any other row).
        offline_old_prob, offline_clip, behaviour_log_probs, gamma: of `luffy`, see `luffy_token_loss`.

    Raises:
        ConfigError: the loss, the average or the offline loss is unknown.
    """
    total = counts or GlobalCounts.of(response_mask, offline_row)
    batch = PolicyLossBatch(
        log_probs=keep_masked(log_probs, response_mask),
        old_log_probs=keep_masked(old_log_probs, response_mask).detach(),
        advantages=keep_masked(advantages, response_mask).detach(),
        response_mask=response_mask,
        clip_low=clip_low,
        clip_high=clip_high,
        clip_dual=clip_dual,
        tau_pos=tau_pos,
        tau_neg=tau_neg,
    )
    unweighted, flags = loss_function(loss)(batch)
    token_loss = unweighted
    if rollout_weights is not None:
        token_loss = unweighted * keep_masked(rollout_weights, response_mask).detach()
    online_mask = response_mask
    metrics: dict[str, float] = {}
    if offline_row is not None:
        offline = (offline_row != 0).unsqueeze(-1)
        offline_mask = response_mask * offline.to(response_mask.dtype)
        online_mask = response_mask * (~offline).to(response_mask.dtype)
        if offline_loss == "onpolicy":
            replaced = unweighted
        else:
            replaced = _offline_token_loss(
                offline_loss, batch, behaviour_log_probs, offline_old_prob, offline_clip, gamma
            )
        token_loss = torch.where(offline, replaced, token_loss)
        metrics.update(_offline_metrics(batch, token_loss, offline_mask, total))
    online_tokens = total.num_tokens - total.num_offline_tokens
    metrics["ppo_kl"] = token_average(-batch.log_ratio, online_mask, online_tokens)
    for name, flag in flags.items():
        metrics[name] = token_average(flag, online_mask, online_tokens)
    scalar = aggregate(
        token_loss, response_mask, mode=avg, counts=total, max_response_length=max_response_length
    )
    metrics["pg_loss"] = float(scalar.detach())
    return LossResult(loss=scalar, metrics=metrics)


def mixed_policy_loss(
    *,
    log_probs: Tensor,
    old_log_probs: Tensor,
    advantages: Tensor,
    response_mask: Tensor,
    offline_row: Tensor,
    loss: str = "ppo",
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    clip_dual: float | None = None,
    gamma: float = 0.1,
    offline_loss: str = "luffy",
    offline_clip: float | None = None,
    offline_old_prob: float = 1.0,
    behaviour_log_probs: Tensor | None = None,
    avg: str = "token",
    counts: GlobalCounts | None = None,
    max_response_length: int | None = None,
) -> LossResult:
    """`policy_loss` for a batch with rows of stored trajectories, LUFFY's policy shaping by default.

    Yan et al., "Learning to Reason under Off-Policy Guidance" (2025), equation 6. Online and offline rows
    share one denominator. No dual clip unless asked for, as in the paper.
    """
    return policy_loss(
        loss,
        log_probs=log_probs,
        old_log_probs=old_log_probs,
        advantages=advantages,
        response_mask=response_mask,
        clip_low=clip_low,
        clip_high=clip_high,
        clip_dual=clip_dual,
        avg=avg,
        counts=counts,
        max_response_length=max_response_length,
        offline_row=offline_row,
        offline_loss=offline_loss,
        offline_old_prob=offline_old_prob,
        offline_clip=offline_clip,
        behaviour_log_probs=behaviour_log_probs,
        gamma=gamma,
    )


def value_loss(
    *,
    vpreds: Tensor,
    returns: Tensor,
    values: Tensor,
    response_mask: Tensor,
    cliprange_value: float = 0.5,
    avg: str = "token",
    counts: GlobalCounts | None = None,
    max_response_length: int | None = None,
) -> LossResult:
    """0.5 max((v - G)^2, (clip(v, v_old +- cliprange_value) - G)^2), as in the PPO implementation of OpenAI.

    Args:
        vpreds: (B, T) the critic's values, with gradient.
        returns: (B, T) targets.
        values: (B, T) the critic's values before the update.
    """
    total = counts or GlobalCounts.of(response_mask)
    predicted = keep_masked(vpreds, response_mask)
    target = keep_masked(returns, response_mask)
    old = keep_masked(values, response_mask)
    clipped = torch.clamp(predicted, min=old - cliprange_value, max=old + cliprange_value)
    plain_square, clipped_square = (predicted - target) ** 2, (clipped - target) ** 2
    scalar = aggregate(
        0.5 * torch.maximum(plain_square, clipped_square),
        response_mask,
        mode=avg,
        counts=total,
        max_response_length=max_response_length,
    )
    return LossResult(
        loss=scalar,
        metrics={
            "value_loss": float(scalar.detach()),
            "value_clipfrac": token_average(clipped_square > plain_square, response_mask, total.num_tokens),
            "value_mean": token_average(predicted, response_mask, total.num_tokens),
        },
    )


def log_probs_and_entropy(
    logits: Tensor, labels: Tensor, *, temperature: float = 1.0
) -> tuple[Tensor, Tensor]:
    """ln p of each label and the entropy -sum p ln p of each position, both (B, T), at the sampling
    temperature.

    Args:
        logits: (B, T, V); 16-bit logits are computed in float32.
        labels: int64 (B, T).
        temperature: positive; the logits are divided by it, as the engine does before it samples.
    """
    wide = logits if logits.dtype == torch.float64 else logits.float()
    rows = torch.log_softmax(wide / temperature, dim=-1)
    picked = rows.gather(-1, labels.unsqueeze(-1)).squeeze(-1)
    # A forbidden token has ln p = -inf and p = 0; its term is 0, not NaN, and so is its gradient.
    finite = rows.masked_fill(torch.isneginf(rows), 0.0)
    return picked, -(rows.exp() * finite).sum(-1)


def _offline_token_loss(
    offline_loss: str,
    batch: PolicyLossBatch,
    behaviour_log_probs: Tensor | None,
    offline_old_prob: float,
    offline_clip: float | None,
    gamma: float,
) -> Tensor:
    if offline_loss == "luffy":
        return luffy_token_loss(
            batch,
            behaviour_log_probs=behaviour_log_probs,
            offline_old_prob=offline_old_prob,
            offline_clip=offline_clip,
            gamma=gamma,
        )
    if offline_loss == "sft":
        return -batch.log_probs
    known = ", ".join(OFFLINE_LOSSES)
    raise ConfigError(
        f"unknown offline loss {offline_loss!r}.{nearest(offline_loss, OFFLINE_LOSSES)} Known: {known}"
    )


def _offline_metrics(
    batch: PolicyLossBatch, token_loss: Tensor, offline_mask: Tensor, total: GlobalCounts
) -> dict[str, float]:
    tokens = total.num_offline_tokens
    return {
        "offline_token_share": token_average(torch.ones_like(token_loss), offline_mask, total.num_tokens),
        "offline_prob": token_average(batch.log_probs.exp(), offline_mask, tokens),
        "offline_advantage": token_average(batch.advantages, offline_mask, tokens),
        "offline_loss": token_average(token_loss, offline_mask, tokens),
    }

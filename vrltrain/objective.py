"""The loss of one micro-batch: policy loss, entropy bonus and KL term, with figures that add up.

Letters in shapes: B rows of the whole step, T tokens of the longest response, b rows and t tokens of the
micro-batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from vrltrain.aggregation import GlobalCounts, aggregate, token_average
from vrltrain.configs import RunConfig
from vrltrain.kl import kl_divergence, mean_kl, with_k2_gradient
from vrltrain.losses import LossResult, policy_loss


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """What the rows of a step are trained towards; tensors are (B, T) on the CPU.

    Attributes:
        mask: int64, the tokens that count.
        advantages: one number a token.
        old_log_probs: before the update; None where the update is on-policy and they are current.
        ref_log_probs: of the reference model; None without one, and where the KL is over the vocabulary.
        weights: importance weights against the engine; None for none.
        behaviour_log_probs: of the policy that wrote the row; NaN where unknown.
        offline_row: int64 (B,), 1 for stored trajectories.
    """

    mask: Tensor
    advantages: Tensor
    old_log_probs: Tensor | None
    ref_log_probs: Tensor | None
    weights: Tensor | None
    behaviour_log_probs: Tensor
    offline_row: Tensor

    def counts(self, rows: Sequence[int]) -> GlobalCounts:
        """What the averages of a mini-batch of these rows divide by."""
        chosen = list(rows)
        return GlobalCounts.of(self.mask[chosen], self.offline_row[chosen])


def micro_batch_loss(
    config: RunConfig,
    targets: Targets,
    rows: Sequence[int],
    *,
    log_probs: Tensor,
    entropy: Tensor,
    counts: GlobalCounts,
    kl_coef: float,
    full_kl: Tensor | None = None,
) -> LossResult:
    """The part of the loss, and of its figures, that these rows contribute.

    Args:
        rows: row numbers in the step, (b,).
        log_probs, entropy: float32 (b, t) of the policy, with gradient.
        counts: of the whole mini-batch.
        kl_coef: coefficient of the KL term now.
        full_kl: float32 (b, t), with gradient: of `kl_kind: full`.
    """
    algorithm, device, chosen = config.algorithm, log_probs.device, list(rows)

    def cut(tensor: Tensor) -> Tensor:
        return tensor[chosen, : log_probs.shape[1]].to(device)

    mask = cut(targets.mask)

    def average(values: Tensor) -> Tensor:
        length = config.rollout.max_tokens
        return aggregate(values, mask, mode=algorithm.loss_avg, counts=counts, max_response_length=length)

    result = _policy_part(config, targets, chosen, log_probs, counts, cut)
    loss = result.loss
    figures = {f"update/{name}": value for name, value in result.metrics.items()}
    figures["update/entropy"] = token_average(entropy, mask, counts.num_tokens)
    if algorithm.entropy_coef:
        loss = loss - algorithm.entropy_coef * average(entropy)
    reference = None if targets.ref_log_probs is None else cut(targets.ref_log_probs)
    kl = full_kl
    if kl is None and reference is not None and algorithm.kl_in == "loss":
        kl = kl_divergence(log_probs, reference, kind=algorithm.kl_kind, gradient=algorithm.kl_grad)
    elif kl is not None and reference is not None:
        kl = with_k2_gradient(kl, log_probs - reference)
    if kl is not None:
        loss = loss + kl_coef * average(kl)
        some_token = float((mask != 0).any(-1).sum())
        figures["kl/mean"] = mean_kl(kl, mask) * some_token / max(counts.num_rows, 1.0)
    figures["update/loss"] = float(loss.detach())
    return LossResult(loss=loss, metrics=figures)


def _policy_part(
    config: RunConfig,
    targets: Targets,
    rows: list[int],
    log_probs: Tensor,
    counts: GlobalCounts,
    cut: Callable[[Tensor], Tensor],
) -> LossResult:
    """The policy loss with the options of the config; `cut` takes the micro-batch out of a (B, T) tensor."""
    algorithm, mix = config.algorithm, config.algorithm.mix
    return policy_loss(
        algorithm.loss_type,
        log_probs=log_probs,
        old_log_probs=log_probs.detach() if targets.old_log_probs is None else cut(targets.old_log_probs),
        advantages=cut(targets.advantages).float(),
        response_mask=cut(targets.mask),
        clip_low=algorithm.clip_ratio_low,
        clip_high=algorithm.clip_ratio_high,
        clip_dual=algorithm.clip_ratio_dual,
        tau_pos=algorithm.tau_pos,
        tau_neg=algorithm.tau_neg,
        avg=algorithm.loss_avg,
        counts=counts,
        max_response_length=config.rollout.max_tokens,
        rollout_weights=None if targets.weights is None else cut(targets.weights),
        offline_row=targets.offline_row[rows].to(log_probs.device) if mix.on else None,
        offline_loss=mix.offline_loss,
        offline_old_prob=mix.offline_old_prob,
        offline_clip=mix.offline_clip,
        behaviour_log_probs=cut(targets.behaviour_log_probs) if mix.on else None,
        gamma=mix.gamma,
    )

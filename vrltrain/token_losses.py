"""Per-token policy losses by name: PPO and DAPO, GSPO, CISPO, SAPO, REINFORCE, and LUFFY's shaping of
offline rows.

Each is a function of a `PolicyLossBatch`; weighting and averaging live in `losses`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from vrldata.errors import ConfigError, nearest
from vrldata.named_functions import load_function
from vrltrain.masked import keep_masked, masked_mean

MAX_LOG_RATIO = 20.0
"""Bound of every log-ratio before exp: e^20 is large and finite in float32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyLossBatch:
    """What a policy loss sees; tensors are (B, T).

    Attributes:
        log_probs: ln p of each token under the policy in training, with gradient.
        old_log_probs: ln p before the update (the centre of clipping), without gradient.
        advantages: without gradient.
        response_mask: 1 where a token counts.
        clip_low, clip_high: the ratio is clipped to [1 - clip_low, 1 + clip_high].
        clip_dual: for A < 0 the loss is at most -A * clip_dual; 0 or None switches it off.
        tau_pos, tau_neg: temperatures of SAPO for A > 0 and otherwise.
    """

    log_probs: Tensor
    old_log_probs: Tensor
    advantages: Tensor
    response_mask: Tensor
    clip_low: float = 0.2
    clip_high: float = 0.2
    clip_dual: float | None = 3.0
    tau_pos: float = 1.0
    tau_neg: float = 1.05

    @property
    def log_ratio(self) -> Tensor:
        """ln(pi / pi_old), bounded to +-20, 0 outside the mask."""
        difference = keep_masked(self.log_probs - self.old_log_probs, self.response_mask)
        return difference.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)


TokenLoss = tuple[Tensor, dict[str, Tensor]]
"""Per-token loss (B, T) and per-token metrics by name, each (B, T), averaged over the masked tokens."""


def ppo(batch: PolicyLossBatch) -> TokenLoss:
    """max(-A r, -A clip(r)); for A < 0 at most -A c.

    Schulman et al., "PPO" (2017), equation 7; asymmetric bounds: Yu et al., "DAPO" (2025); the dual clip:
    Ye et al., "Mastering Complex Control in MOBA Games" (2020), equation 5.
    """
    ratio = batch.log_ratio.exp()
    plain = -batch.advantages * ratio
    clipped = -batch.advantages * ratio.clamp(1 - batch.clip_low, 1 + batch.clip_high)
    loss = torch.maximum(plain, clipped)
    active = clipped > plain
    metrics = {
        "clipfrac_high": active & (batch.advantages > 0),
        "clipfrac_low": active & (batch.advantages < 0),
    }
    if batch.clip_dual:
        bound = -batch.advantages * batch.clip_dual
        dual = (batch.advantages < 0) & (loss > bound)
        loss = torch.where(dual, bound, loss)
        metrics["clipfrac_dual"] = dual
    return loss, metrics


def gspo(batch: PolicyLossBatch) -> TokenLoss:
    """PPO's clipping of the sequence ratio s_i = exp(mean_t(l - l_old)), gradient through each token.

    Zheng et al., "GSPO" (2025), equations 6 and 13 to 15: the token form uses stopgrad(s_i) * r /
    stopgrad(r), which equals the sequence form where a row has one advantage. Average by `seq`. No dual
    clip, as in the paper.
    """
    log_sequence = masked_mean(batch.log_ratio, batch.response_mask, dim=-1).detach().unsqueeze(-1)
    ratio = log_sequence.exp() * (batch.log_probs - batch.log_probs.detach()).exp()
    plain = -batch.advantages * ratio
    clipped = -batch.advantages * ratio.clamp(1 - batch.clip_low, 1 + batch.clip_high)
    active = clipped > plain
    return torch.maximum(plain, clipped), {
        "clipfrac_high": active & (batch.advantages > 0),
        "clipfrac_low": active & (batch.advantages < 0),
    }


def cispo(batch: PolicyLossBatch) -> TokenLoss:
    """-stopgrad(clip(r)) A ln pi: every token keeps a gradient, its weight is clipped.

    MiniMax, "MiniMax-M1" (2025), equation 4; the paper sets no lower bound (clip_low = 1).
    """
    ratio = batch.log_ratio.exp().detach()
    weight = ratio.clamp(1 - batch.clip_low, 1 + batch.clip_high)
    metrics = {"clipfrac_high": ratio > 1 + batch.clip_high, "clipfrac_low": ratio < 1 - batch.clip_low}
    return -weight * batch.advantages * batch.log_probs, metrics


def sapo(batch: PolicyLossBatch) -> TokenLoss:
    """-A (4 / tau) sigmoid(tau (r - 1)): a soft gate in place of the clip. Average by `seq`.

    Gao et al., "Soft Adaptive Policy Optimization" (2025): tau is larger for A <= 0, whose gradients
    disturb more.
    """
    ratio = batch.log_ratio.exp()
    tau = torch.full_like(ratio, batch.tau_neg).masked_fill(batch.advantages > 0, batch.tau_pos)
    return -batch.advantages * (4 / tau) * torch.sigmoid(tau * (ratio - 1)), {}


def reinforce(batch: PolicyLossBatch) -> TokenLoss:
    """-A ln pi: Williams' REINFORCE (1992). `policy_loss` multiplies it by the rollout weights, if any."""
    return -batch.advantages * batch.log_probs, {}


POLICY_LOSSES: dict[str, Callable[[PolicyLossBatch], TokenLoss]] = {
    "ppo": ppo,
    "gspo": gspo,
    "cispo": cispo,
    "sapo": sapo,
    "reinforce": reinforce,
}


def luffy_token_loss(
    batch: PolicyLossBatch,
    *,
    behaviour_log_probs: Tensor | None = None,
    offline_old_prob: float = 1.0,
    offline_clip: float | None = None,
    gamma: float = 0.1,
) -> Tensor:
    """-A f(x) with f(x) = x / (x + gamma) and x = pi / behaviour probability; (B, T).

    The gradient of f with respect to ln pi is gamma x / (x + gamma)^2: small for tokens that the policy
    already gives, and not vanishing for unlikely ones as that of x itself.

    Args:
        behaviour_log_probs: (B, T) ln p of the tokens under the policy that wrote them; NaN where unknown.
        offline_old_prob: behaviour probability where it is unknown.
        offline_clip: upper bound of x; None for no clip.
        gamma: positive.
    """
    assumed = torch.full_like(batch.log_probs, offline_old_prob).log()
    behaviour = assumed
    if behaviour_log_probs is not None:
        known = behaviour_log_probs.to(batch.log_probs)
        behaviour = torch.where(torch.isnan(known), assumed, known.nan_to_num())
    log_x = keep_masked(batch.log_probs - behaviour, batch.response_mask)
    x = log_x.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()
    if offline_clip is not None:
        x = x.clamp(max=offline_clip)
    return -batch.advantages * x / (x + gamma)


def loss_function(name: str) -> Callable[[PolicyLossBatch], TokenLoss]:
    """The per-token loss called `name`, or the function that `module:function` names."""
    if ":" in name:
        return load_function(name, purpose="policy loss")
    if name not in POLICY_LOSSES:
        known = ", ".join(POLICY_LOSSES)
        raise ConfigError(f"unknown policy loss {name!r}.{nearest(name, POLICY_LOSSES)} Known: {known}")
    return POLICY_LOSSES[name]

"""KL between the policy and its reference: estimators, coefficient controllers, KL inside the reward.

With d = ln pi - ln pi_ref of the sampled token. Estimators k1, k2, k3: Schulman, "Approximating KL
Divergence" (2020). As a *loss* their gradients differ from their values: on-policy only k2's gradient is
unbiased for the reverse KL, which `gradient="k2"` uses whatever the value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from vrldata.errors import ConfigError, nearest
from vrltrain.masked import keep_masked, masked_mean

KL_KINDS = ("kl", "abs", "mse", "low_var_kl", "full")
"""kl: d (k1); abs: |d|; mse: d^2 / 2 (k2); low_var_kl: exp(-d) + d - 1 (k3); full: over the vocabulary."""

KL_ALIASES = {"k1": "kl", "k2": "mse", "k3": "low_var_kl"}


def kl_divergence(
    log_probs: Tensor | None = None,
    ref_log_probs: Tensor | None = None,
    *,
    kind: str = "low_var_kl",
    gradient: str | None = None,
    logits: Tensor | None = None,
    ref_logits: Tensor | None = None,
    temperature: float = 1.0,
) -> Tensor:
    """KL of every token, (B, T).

    Args:
        log_probs: (B, T) of the policy, with gradient where the KL is a loss; not needed by `full`.
        ref_log_probs: (B, T) of the reference.
        kind: one of `KL_KINDS`, or k1, k2, k3. low_var_kl bounds d to +-20 and its result to +-10.
        gradient: None for the gradient of the kind; `k2` keeps the value and takes the gradient of d^2 / 2.
        logits, ref_logits: (B, T, V), needed by `full`.
        temperature: of sampling; divides the logits of `full`.

    Raises:
        ConfigError: `kind` or `gradient` is unknown, or `full` is asked without logits.
    """
    kind = KL_ALIASES.get(kind, kind)
    if kind not in KL_KINDS:
        known = (*KL_KINDS, *KL_ALIASES)
        raise ConfigError(f"unknown KL kind {kind!r}.{nearest(kind, known)} Known: {', '.join(KL_KINDS)}")
    if gradient not in (None, "same", "k2"):
        raise ConfigError(f"kl gradient {gradient!r}: expected k2, or none for the gradient of the kind")
    if kind == "full":
        if logits is None or ref_logits is None:
            raise ConfigError(
                "kl_kind 'full' needs the logits of the policy and of the reference; "
                "this caller has only the log-probabilities of sampled tokens: use kl_kind 'low_var_kl'"
            )
        value = full_kl(logits, ref_logits, temperature=temperature)
        if gradient != "k2":
            return value
    if log_probs is None or ref_log_probs is None:
        raise ConfigError(f"kl_kind {kind!r} needs log_probs and ref_log_probs of the sampled tokens")
    difference = log_probs - ref_log_probs
    if kind != "full":
        value = _sampled_kl(difference, kind)
    return value if gradient != "k2" else with_k2_gradient(value, difference)


def with_k2_gradient(value: Tensor, difference: Tensor) -> Tensor:
    """`value` with the gradient of d^2 / 2 of the sampled token, d = `difference`; both (B, T)."""
    surrogate = 0.5 * difference**2
    return value.detach() + surrogate - surrogate.detach()


def _sampled_kl(difference: Tensor, kind: str) -> Tensor:
    if kind == "kl":
        return difference
    if kind == "abs":
        return difference.abs()
    if kind == "mse":
        return 0.5 * difference**2
    negative = (-difference).clamp(-20.0, 20.0)
    return (negative.exp() - negative - 1).clamp(-10.0, 10.0)


def full_kl(
    logits: Tensor, ref_logits: Tensor, *, temperature: float = 1.0, chunk_tokens: int = 1024
) -> Tensor:
    """sum_v p_v (ln p_v - ln q_v) of every position; (B, T) from logits (B, T, V).

    Computed `chunk_tokens` positions at a time and recomputed in the backward pass, so that only one chunk of
    probabilities is held.
    """
    rows, ref_rows = logits.flatten(0, -2), ref_logits.flatten(0, -2).detach()
    parts = []
    for start in range(0, rows.shape[0], chunk_tokens):
        chunk = rows[start : start + chunk_tokens], ref_rows[start : start + chunk_tokens]
        if torch.is_grad_enabled() and logits.requires_grad:
            parts.append(checkpoint(vocabulary_kl, *chunk, temperature, use_reentrant=False))
        else:
            parts.append(vocabulary_kl(*chunk, temperature))
    return torch.cat(parts).reshape(logits.shape[:-1])


def vocabulary_kl(logits: Tensor, ref_logits: Tensor, temperature: float = 1.0) -> Tensor:
    """sum_v p_v (ln p_v - ln q_v), all at once: what `full_kl` and the policy do for one chunk.

    Args:
        logits, ref_logits: (…, V); 16-bit logits are computed in float32.
    """
    wide = logits if logits.dtype == torch.float64 else logits.float()
    log_p = torch.log_softmax(wide / temperature, dim=-1)
    log_q = torch.log_softmax(ref_logits.to(wide.dtype) / temperature, dim=-1)
    # A token that the policy cannot give adds 0, also where the reference forbids it too (-inf minus -inf).
    possible = ~torch.isneginf(log_p)
    difference = torch.where(possible, log_p - log_q, torch.zeros_like(log_p))
    return (log_p.exp() * difference).sum(-1)


def mean_kl(kl: Tensor, response_mask: Tensor) -> float:
    """Mean over rows (with tokens) of the row's mean over masked tokens: what the controller is told."""
    some_token = (response_mask != 0).any(-1)
    means = masked_mean(kl.detach().double(), response_mask, dim=-1)[some_token]
    return float(means.mean()) if means.numel() else 0.0


def kl_in_reward(
    token_level_rewards: Tensor,
    *,
    log_probs: Tensor,
    ref_log_probs: Tensor,
    response_mask: Tensor,
    kl_coef: float,
    kind: str = "low_var_kl",
    exempt_row: Tensor | None = None,
) -> tuple[Tensor, float]:
    """r_t - kl_coef * KL_t on every masked token, and the mean KL for the controller.

    Args:
        token_level_rewards: (B, T).
        log_probs: (B, T) of the policy that wrote the rows, before the update.
        exempt_row: (B,), not 0 for rows whose reward is left as it is (stored trajectories of another
            policy).
    """
    with torch.no_grad():
        kl = keep_masked(kl_divergence(log_probs, ref_log_probs, kind=kind), response_mask)
        mask = response_mask
        if exempt_row is not None:
            mask = response_mask * (exempt_row == 0).unsqueeze(-1).to(response_mask.dtype)
        penalised = keep_masked(token_level_rewards, response_mask) - kl_coef * keep_masked(kl, mask)
        return penalised, mean_kl(kl, mask)


@dataclass(slots=True, kw_only=True)
class KLController:
    """The one coefficient of the KL term, whether it sits in the reward or in the loss. Part of a checkpoint.

    adaptive: kl_coef <- kl_coef (1 + clip(KL / target - 1, +-0.2) n / horizon), once a step, n = rows of
        the batch
    (Ziegler et al., "Fine-Tuning Language Models from Human Preferences", 2019). fixed: constant.

    Attributes:
        type: `fixed` or `adaptive`.
        init: the coefficient at the start.
        target: KL per token that the adaptive rule steers to; positive.
        horizon: rows over which the coefficient may move by a fifth; positive.
        kl_coef: the coefficient now.
    """

    type: str = "fixed"
    init: float = 0.0
    target: float = 0.1
    horizon: float = 10000.0
    kl_coef: float = -1.0

    def __post_init__(self) -> None:
        if self.type not in ("fixed", "adaptive"):
            hint = nearest(self.type, ("fixed", "adaptive"))
            raise ConfigError(f"KL controller {self.type!r}: expected fixed or adaptive.{hint}")
        if self.type == "adaptive" and (self.target <= 0 or self.horizon <= 0):
            raise ConfigError(
                f"adaptive KL controller: target {self.target} and horizon {self.horizon} must be positive"
            )
        if self.kl_coef < 0:
            self.kl_coef = self.init

    def update(self, current_kl: float, n_steps: int) -> float:
        """Take the mean KL of a step over `n_steps` rows; returns the coefficient for the next step.

        A KL that is not finite leaves the coefficient as it is.
        """
        if self.type == "adaptive" and current_kl == current_kl and abs(current_kl) != float("inf"):
            error = min(max(current_kl / self.target - 1, -0.2), 0.2)
            self.kl_coef *= 1 + error * n_steps / self.horizon
        return self.kl_coef

    def state_dict(self) -> dict[str, float]:
        """What a checkpoint keeps: the coefficient. The rule comes from the config."""
        return {"kl_coef": self.kl_coef}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        self.kl_coef = float(state["kl_coef"])

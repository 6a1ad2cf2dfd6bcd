"""Published algorithms by name, as overrides of `AlgorithmConfig`'s defaults.

Each follows the settings of its paper where the paper gives them. Use one with `algorithm: {preset:
dapo}`; keys beside `preset` override it.
"""

from __future__ import annotations

from typing import Any

PRESETS: dict[str, dict[str, Any]] = {
    # Shao et al., "DeepSeekMath" (2024): row means, KL to the reference in the loss.
    "grpo": {
        "adv_estimator": "grpo",
        "loss_avg": "seq",
        "kl_in": "loss",
        "kl_kind": "low_var_kl",
        "kl_coef": 0.001,
    },
    # Liu et al., "Understanding R1-Zero-Like Training" (2025): no std, constant length, no KL.
    "dr_grpo": {"adv_estimator": "dr_grpo", "loss_avg": "seq_sum_norm"},
    # Yu et al., "DAPO" (2025): higher upper clip, token average, dynamic sampling, overlong shaping, no KL.
    # The paper's length penalty spans half of its reward range (-1 to 1); here that is 0.5 of 0 to 1.
    "dapo": {
        "adv_estimator": "grpo",
        "loss_avg": "token",
        "clip_ratio_low": 0.2,
        "clip_ratio_high": 0.28,
        "filter": {"enabled": True},
        "reward": {"weights": {"overlong": 0.5}},
    },
    # Ahmadian et al., "Back to Basics" (2024): leave-one-out baseline, KL in the reward, policy gradient.
    "rloo": {
        "adv_estimator": "rloo",
        "loss_type": "reinforce",
        "loss_avg": "seq_sum_norm",
        "kl_in": "reward",
        "kl_kind": "kl",
        "kl_coef": 0.001,
    },
    # Schulman et al., "Proximal Policy Optimization" (2017), with the critic, KL in the reward and lambda of
    # RLHF: Stiennon et al., "Learning to summarize from human feedback" (2020).
    "ppo": {
        "adv_estimator": "gae",
        "advantage": {"gamma": 1.0, "lam": 0.95, "whiten": True},
        "loss_type": "ppo",
        "loss_avg": "token",
        "clip_ratio_dual": None,
        "kl_in": "reward",
        "kl_kind": "kl",
        "kl_coef": 0.001,
    },
    # Hu et al., "REINFORCE++" (2025): whitening over the batch, token KL (k1) in the reward, PPO clip.
    "reinforce_plus_plus": {
        "adv_estimator": "reinforce_plus_plus",
        "kl_in": "reward",
        "kl_kind": "kl",
        "kl_coef": 0.001,
    },
    # The same paper's form for several responses a prompt: group mean as baseline, k2 KL in the loss.
    "reinforce_plus_plus_baseline": {
        "adv_estimator": "reinforce_plus_plus_baseline",
        "kl_in": "loss",
        "kl_kind": "mse",
        "kl_coef": 0.001,
    },
    # Tang et al., "Optimizing Language Models for Inference Time Objectives" (2025): pass@k, where the best
    # response of a group alone counts, by its lead over the second.
    "grpo_passk": {"adv_estimator": "grpo_passk", "loss_avg": "token"},
    # Li et al., "ReMax" (2023): greedy baseline, plain policy gradient, KL in the reward.
    "remax": {
        "adv_estimator": "remax",
        "loss_type": "reinforce",
        "loss_avg": "seq_sum_norm",
        "kl_in": "reward",
        "kl_kind": "kl",
        "kl_coef": 0.001,
    },
    # Zheng et al., "Group Sequence Policy Optimization" (2025): sequence ratio with its narrow clip.
    "gspo": {
        "adv_estimator": "grpo",
        "loss_type": "gspo",
        "loss_avg": "seq",
        "clip_ratio_low": 3e-4,
        "clip_ratio_high": 4e-4,
        "clip_ratio_dual": None,
    },
    # MiniMax, "MiniMax-M1" (2025): clipped importance weight, no lower bound, token average, no KL.
    "cispo": {
        "adv_estimator": "grpo",
        "loss_type": "cispo",
        "loss_avg": "token",
        "clip_ratio_low": 1.0,
        "clip_ratio_high": 0.28,
    },
    # Gao et al., "Soft Adaptive Policy Optimization" (2025): soft gate in place of the clip.
    "sapo": {
        "adv_estimator": "grpo",
        "loss_type": "sapo",
        "loss_avg": "seq",
        "tau_pos": 1.0,
        "tau_neg": 1.05,
    },
    # Liu et al., "GDPO" (2026): each reward component normalised on its own.
    "gdpo": {
        "adv_estimator": "gdpo",
        "advantage": {"keys": ["accuracy", "format"], "batch_norm": "sequence"},
    },
    # Hao et al., "On-Policy RL with Optimal Reward Baseline" (2025): exactly on-policy, no KL, no bonus.
    "opo": {"adv_estimator": "opo", "loss_type": "reinforce", "loss_avg": "seq_sum_norm"},
    # Feng et al., "OneThinker" (2025): one moving standard deviation for each task.
    "ema_grpo": {
        "adv_estimator": "ema_grpo",
        "advantage": {"decay": 0.99, "min_std": 1e-3, "guard": 5.0},
    },
    # Yan et al., "Learning to Reason under Off-Policy Guidance" (2025): a stored trajectory in each group.
    "luffy_mix": {
        "adv_estimator": "dr_grpo",
        "loss_avg": "seq_sum_norm",
        "clip_ratio_dual": None,
        "entropy_coef": 0.01,
        "mix": {"when": "always", "offline_loss": "luffy", "gamma": 0.1},
    },
}
"""Name -> overrides; nested mappings are merged key by key."""

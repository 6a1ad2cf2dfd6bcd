"""The `algorithm:` part of a training config: estimator, loss, KL, corrections, filter, mixing, reward. No
torch.

Every contradiction is an error before anything heavy starts.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from vrldata.config import BaseConfig
from vrldata.errors import nearest
from vrltrain.rewards import RewardConfig

ESTIMATOR_NAMES = (
    "grpo",
    "dr_grpo",
    "grpo_passk",
    "rloo",
    "opo",
    "reinforce_plus_plus",
    "reinforce_plus_plus_baseline",
    "remax",
    "gae",
    "gdpo",
    "ema_grpo",
)
"""Keys of `vrltrain.algorithms.ADVANTAGE_ESTIMATORS`, known without importing torch."""

LOSS_NAMES = ("ppo", "gspo", "cispo", "sapo", "reinforce")
"""Keys of `vrltrain.losses.POLICY_LOSSES`."""

BASELINE_ESTIMATORS = ("grpo", "dr_grpo")
"""Estimators that can keep a row out of the group statistics."""

REJECTION_NAMES = (
    "token",
    "token_k1",
    "token_k2",
    "token_k3",
    "seq_max",
    "seq_max_k2",
    "seq_max_k3",
    "seq_mean_k1",
    "seq_mean_k2",
    "seq_mean_k3",
    "seq_sum_k1",
    "geometric",
)
"""Modes and aliases of `vrltrain.corrections.rejection_mask`."""

GSPO_MAX_CLIP = 0.05


class AdvantageConfig(BaseConfig):
    """Options of the advantage estimators; each names those that read it."""

    std: Literal["group", "population", "batch", "none"] = "group"
    """grpo: what the centred reward is divided by; `none` switches the division off."""
    eps: float = Field(default=1e-6, gt=0)
    """grpo, grpo_passk, gdpo, ema_grpo: added to the standard deviation."""
    gamma: float = Field(default=1.0, ge=0, le=1)
    """reinforce_plus_plus, gae: discount of later rewards; 1 for none."""
    lam: float = Field(default=1.0, ge=0, le=1)
    """gae: lambda; 1 gives Monte Carlo returns minus the value."""
    whiten: bool = True
    """gae: whiten the advantages over the tokens of the batch."""
    keys: tuple[str, ...] = ("accuracy", "format")
    """gdpo: reward components that are normalised each on its own."""
    weights: tuple[float, ...] | None = None
    """gdpo: weight of each key; null gives 1 to each."""
    batch_norm: Literal["sequence", "token", "none"] = "sequence"
    """gdpo: normalisation over the batch after the sum; `none` switches it off."""
    decay: float = Field(default=0.99, ge=0, lt=1)
    """ema_grpo: share of the moving averages that a step keeps."""
    min_std: float = Field(default=1e-3, gt=0)
    """ema_grpo: least standard deviation of a task."""
    guard: float = Field(default=5.0, gt=0)
    """ema_grpo: largest |advantage| before a group falls back to its own standard deviation."""

    @model_validator(mode="after")
    def _one_weight_a_key(self) -> AdvantageConfig:
        if self.weights is not None and len(self.weights) != len(self.keys):
            raise ValueError(f"{len(self.keys)} keys but {len(self.weights)} weights: give one for each key")
        return self


class KLControllerConfig(BaseConfig):
    """How the coefficient of the KL term moves."""

    type: Literal["fixed", "adaptive"] = "fixed"
    """`fixed` keeps `kl_coef`; `adaptive` steers the KL per token to `target`."""
    target: float = Field(default=0.1, gt=0)
    """Wanted KL per token of the adaptive rule."""
    horizon: float = Field(default=10000.0, gt=0)
    """Rows over which the adaptive rule may change the coefficient by a fifth."""


class CorrectionConfig(BaseConfig):
    """Correction for the gap between the engine's and the trainer's log-probabilities."""

    level: Literal["none", "token", "sequence"] = "none"
    """Truncated importance weights for each token or row; `none` switches them off."""
    cap: float = Field(default=2.0, gt=0)
    """Upper bound of an importance weight."""
    batch_normalise: bool = False
    """Scale the weights to mean 1 over the batch."""
    reject: str | None = None
    """Statistic by which tokens or rows are masked out (`corrections.REJECTION_MODES`); null: none are."""
    reject_low: float | None = None
    """Lower bound of the statistic; null leaves it open."""
    reject_high: float | None = None
    """Upper bound of the statistic; null leaves it open."""

    @property
    def on(self) -> bool:
        """True when the engine's log-probabilities enter the loss."""
        return self.level != "none" or self.reject is not None

    @model_validator(mode="after")
    def _bounds_fit(self) -> CorrectionConfig:
        if self.reject is None and (self.reject_low is not None or self.reject_high is not None):
            raise ValueError("reject_low and reject_high need reject, such as reject: seq_mean_k3")
        if self.reject is not None and self.reject not in REJECTION_NAMES:
            hint = nearest(self.reject, REJECTION_NAMES)
            raise ValueError(f"unknown reject {self.reject!r}.{hint} Known: {', '.join(REJECTION_NAMES)}")
        if self.reject is not None and self.reject[-2:] in ("k2", "k3") and self.reject_high is None:
            raise ValueError(f"reject: {self.reject} needs reject_high")
        low, high = self.reject_low, self.reject_high
        if low is not None and high is not None and low >= high:
            raise ValueError(f"reject_low ({low}) must be below reject_high ({high})")
        return self


class FilterConfig(BaseConfig):
    """Dynamic sampling: generate again until enough groups carry signal."""

    enabled: bool = False
    """Drop groups without signal and refill the batch."""
    rule: Literal["std", "range"] = "std"
    """`std`: rows differ; `range`: the mean lies between `low` and `high`."""
    key: str = "accuracy"
    """Reward component that the rule reads, or `overall`."""
    min_std: float = Field(default=1e-6, ge=0)
    """std: least difference between the best and the worst row."""
    low: float = 0.01
    """range: the mean must be above."""
    high: float = 0.99
    """range: the mean must be below."""
    max_tries: int = Field(default=20, ge=1)
    """Generations for one step before it goes on with what it has."""

    @model_validator(mode="after")
    def _range_is_open(self) -> FilterConfig:
        if self.low >= self.high:
            raise ValueError(f"low ({self.low}) must be below high ({self.high})")
        return self


class MixConfig(BaseConfig):
    """Stored trajectories in the groups of rollouts."""

    when: Literal["never", "always", "below", "no_success", "probability", "schedule"] = "never"
    """`never` is the plain algorithm. `below` and `no_success` look at the group's rollouts first."""
    source: Literal["own", "sql", "replay"] = "own"
    """Trajectories of the sample itself, of a selection by `sql`, or the run's own best rollouts."""
    sql: str | None = None
    """Selection for `source: sql`: a query over `trajectories` that gives trajectory_id."""
    num_offline: int = Field(default=1, ge=1)
    """Stored trajectories in one group."""
    threshold: float = Field(default=0.5, gt=0, le=1)
    """below: mean accuracy of the rollouts under which a trajectory joins."""
    probability: float = Field(default=1.0, ge=0, le=1)
    """probability, schedule: share of groups that are mixed, at the start."""
    probability_end: float = Field(default=0.0, ge=0, le=1)
    """schedule: share of groups that are mixed, at the end."""
    schedule_steps: int = Field(default=100, ge=1)
    """schedule: steps over which the share moves linearly."""
    min_offline_accuracy: float | None = Field(default=None, ge=0, le=1)
    """Least accuracy of a trajectory; null takes 1.0 for 0/1 problem types and 0.5 for graded ones."""
    offline_in_baseline: bool = True
    """Count trajectories in the group's mean and standard deviation, as LUFFY does."""
    offline_loss: Literal["luffy", "sft", "onpolicy"] = "luffy"
    """How their tokens enter the loss: shaped, as plain -ln p, or as if the policy had written them."""
    gamma: float = Field(default=0.1, gt=0)
    """luffy: x / (x + gamma) with x the token's probability ratio."""
    offline_clip: float | None = Field(default=None, gt=0)
    """luffy: upper bound of x; null for none."""
    offline_old_prob: float = Field(default=1.0, gt=0, le=1)
    """luffy: behaviour probability of tokens whose log-probs were not stored."""
    replay_capacity: int = Field(default=1, ge=1)
    """replay: rollouts kept for each sample."""

    @property
    def on(self) -> bool:
        """True when groups may be mixed."""
        return self.when != "never"

    @model_validator(mode="after")
    def _source_fits(self) -> MixConfig:
        if self.source == "sql" and self.sql is None:
            raise ValueError(
                "source: sql needs sql, such as SELECT trajectory_id FROM trajectories WHERE correct"
            )
        if self.source != "sql" and self.sql is not None:
            raise ValueError(f"sql is given, but source is {self.source}: set source: sql or leave sql out")
        return self


class AlgorithmConfig(BaseConfig):
    """What is optimised, and how."""

    preset: str | None = None
    """Named algorithm of `vrltrain.presets` to start from; other keys override it."""
    adv_estimator: str = "grpo"
    """Advantage estimator, or `module:function` or `file.py:function` of your own."""
    advantage: AdvantageConfig = AdvantageConfig()
    """Options of the estimator."""
    loss_type: str = "ppo"
    """Policy loss, or `module:function` or `file.py:function` of your own."""
    loss_avg: Literal["token", "seq", "seq_sum", "seq_sum_norm"] = "token"
    """Average over tokens, rows, row sums, or row sums over the longest allowed response."""
    clip_ratio_low: float = Field(default=0.2, ge=0, le=1)
    """The ratio is clipped below 1 minus this."""
    clip_ratio_high: float = Field(default=0.2, ge=0)
    """The ratio is clipped above 1 plus this."""
    clip_ratio_dual: float | None = Field(default=3.0)
    """ppo: bound of the loss of rows with negative advantage; null or 0 switches it off."""
    force_wide_clip: bool = False
    """gspo: allow clip ratios above 0.05, which practically never clip."""
    tau_pos: float = Field(default=1.0, gt=0)
    """sapo: gate temperature for positive advantages."""
    tau_neg: float = Field(default=1.05, gt=0)
    """sapo: gate temperature for the others."""
    kl_in: Literal["none", "reward", "loss"] = "none"
    """Where the KL to the reference model enters; `none` needs no reference model."""
    kl_kind: Literal["kl", "abs", "mse", "low_var_kl", "full", "k1", "k2", "k3"] = "low_var_kl"
    """Estimator of the KL; `full` sums over the vocabulary, works with kl_in: loss, and is slower."""
    kl_coef: float = Field(default=0.0, ge=0)
    """Coefficient of the KL term at the start."""
    kl_grad: Literal["same", "k2"] = "same"
    """loss: gradient of the kind itself, or that of k2, which is unbiased on-policy."""
    kl_controller: KLControllerConfig = KLControllerConfig()
    """How the coefficient moves."""
    ref_update_steps: int | None = Field(default=None, ge=1)
    """Copy the policy into the reference every so many steps; null keeps the reference frozen."""
    entropy_coef: float = 0.0
    """Coefficient of the entropy bonus; 0 switches it off."""
    cliprange_value: float = Field(default=0.5, gt=0)
    """gae: clip range of the value loss."""
    max_staleness: int = Field(default=0, ge=0)
    """Updates that a rollout may be older than the policy that trains on it. 0: rollouts and updates take
    turns. From 1 on the next batch is written during the update, and groups that are older are dropped.
    """
    correction: CorrectionConfig = CorrectionConfig()
    """Correction for the gap between engine and trainer."""
    filter: FilterConfig = FilterConfig()
    """Dynamic sampling."""
    mix: MixConfig = MixConfig()
    """Stored trajectories in the groups."""
    reward: RewardConfig = RewardConfig()
    """From score to reward."""

    @property
    def needs_reference(self) -> bool:
        """True when log-probabilities of a reference model are needed."""
        return self.kl_in != "none"

    @property
    def needs_ref_log_probs(self) -> bool:
        """True when those of the sampled tokens are needed; the full KL compares whole distributions."""
        return self.needs_reference and (self.kl_kind != "full" or self.kl_grad == "k2")

    @property
    def needs_critic(self) -> bool:
        """True when a value model is trained."""
        return self.adv_estimator == "gae"

    @property
    def needs_greedy_rollout(self) -> bool:
        """True when one greedy response of each prompt is generated as a baseline."""
        return self.adv_estimator == "remax"

    @model_validator(mode="before")
    @classmethod
    def _start_from_preset(cls, values: Any) -> Any:
        if not isinstance(values, dict) or values.get("preset") is None:
            return values
        from vrltrain.presets import PRESETS

        name = values["preset"]
        if name not in PRESETS:
            known = ", ".join(sorted(PRESETS))
            raise ValueError(f"unknown preset {name!r}.{nearest(str(name), PRESETS)} Known: {known}")
        return merge(PRESETS[name], values)

    @field_validator("adv_estimator")
    @classmethod
    def _estimator_is_known(cls, name: str) -> str:
        return _known(name, ESTIMATOR_NAMES, "advantage estimator")

    @field_validator("loss_type")
    @classmethod
    def _loss_is_known(cls, name: str) -> str:
        return _known(name, LOSS_NAMES, "policy loss")

    @model_validator(mode="after")
    def _kl_is_consistent(self) -> AlgorithmConfig:
        if self.kl_in == "none" and self.kl_coef > 0:
            raise ValueError(
                f"kl_coef is {self.kl_coef} but kl_in is none: set kl_in: loss or reward, or kl_coef: 0"
            )
        if self.kl_in != "none" and self.kl_coef == 0:
            raise ValueError(
                f"kl_in is {self.kl_in} but kl_coef is 0: set kl_coef, such as 0.001, or kl_in: none"
            )
        if self.kl_in == "none" and self.kl_controller.type == "adaptive":
            raise ValueError("kl_controller is adaptive but kl_in is none: nothing would use the coefficient")
        if self.kl_in == "reward" and self.kl_grad != "same":
            raise ValueError("kl_grad: k2 is about the loss; with kl_in: reward the KL has no gradient")
        if self.kl_in == "reward" and self.kl_kind == "full":
            raise ValueError("kl_kind: full needs logits, which are kept only for kl_in: loss")
        if self.ref_update_steps is not None and self.kl_in == "none":
            raise ValueError("ref_update_steps is set but kl_in is none: there is no reference to update")
        return self

    @model_validator(mode="after")
    def _loss_is_consistent(self) -> AlgorithmConfig:
        if self.loss_type == "gspo":
            if self.loss_avg != "seq":
                raise ValueError(
                    f"loss_type: gspo is averaged by sequence: set loss_avg: seq, not {self.loss_avg}"
                )
            widest = max(self.clip_ratio_low, self.clip_ratio_high)
            if widest > GSPO_MAX_CLIP and not self.force_wide_clip:
                raise ValueError(
                    f"loss_type: gspo with a clip ratio of {widest}: sequence ratios stay near 1, it never "
                    "clips; set clip_ratio_low: 3e-4 and clip_ratio_high: 4e-4, or force_wide_clip: true"
                )
        if self.loss_type == "sapo" and self.loss_avg != "seq":
            raise ValueError(
                f"loss_type: sapo is averaged by sequence: set loss_avg: seq, not {self.loss_avg}"
            )
        if self.clip_ratio_dual and self.clip_ratio_dual <= 1:
            raise ValueError(f"clip_ratio_dual is {self.clip_ratio_dual}: it must be above 1, or null")
        return self

    @model_validator(mode="after")
    def _parts_are_consistent(self) -> AlgorithmConfig:
        if self.max_staleness > 0 and self.correction.level == "none":
            raise ValueError(
                f"max_staleness is {self.max_staleness}: it needs correction.level: token or sequence"
            )
        if self.mix.on and self.adv_estimator in ("gae", "remax") and self.mix.offline_loss != "sft":
            raise ValueError(
                f"mix with adv_estimator: {self.adv_estimator} has no baseline for stored trajectories: "
                "use a group estimator such as grpo, or mix.offline_loss: sft"
            )
        if self.mix.on and not self.mix.offline_in_baseline and self.adv_estimator not in BASELINE_ESTIMATORS:
            raise ValueError(
                f"mix.offline_in_baseline: false works with {' and '.join(BASELINE_ESTIMATORS)}, "
                f"not with {self.adv_estimator}"
            )
        return self


def merge(base: dict[str, Any], overrides: dict[str, Any]) -> dict[str, Any]:
    """`base` with `overrides` on top, nested mappings key by key; neither is changed.

    >>> merge({"a": 1, "b": {"c": 2}}, {"b": {"d": 3}})
    {'a': 1, 'b': {'c': 2, 'd': 3}}
    """
    merged = dict(base)
    for key, value in overrides.items():
        old = merged.get(key)
        merged[key] = merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def _known(name: str, known: tuple[str, ...], what: str) -> str:
    if ":" not in name and name not in known:
        listed = ", ".join(known)
        raise ValueError(
            f"unknown {what} {name!r}.{nearest(name, known)} Known: {listed}, or module:function, or "
            "file.py:function"
        )
    return name

"""The configuration of each command: one tree of typed models, checked before anything heavy starts.

What is optimised lies in `configs_algorithm`. Every field has a sentence; a contradiction is an error.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from vrldata.config import BaseConfig
from vrltrain.configs_algorithm import AlgorithmConfig


class ModelConfig(BaseConfig):
    """The model in training."""

    path: str
    """Folder or Hub id of a Qwen-VL model in the format of transformers."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Precision of the computation; weights and optimizer stay in float32."""
    attn_implementation: str = "sdpa"
    """Attention of transformers: sdpa, eager or flash_attention_2."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass: less memory, a third more time."""
    freeze_vision: bool = False
    """Leave the vision tower as it is."""


class CurriculumConfig(BaseConfig):
    """Questions by `pass_rate`, from easy to hard (`vrltrain run`)."""

    by: Literal["none", "order", "weights"] = "none"
    """`order`: each epoch from easy to hard; `weights`: questions drawn around a pass rate that falls."""
    buckets: int = Field(default=5, ge=1)
    """order: classes of pass rate, each in random order."""
    num_samples: int = Field(default=10000, ge=1)
    """weights: questions over which the pass rate moves from `start` to `end`."""
    start: float = Field(default=0.8, ge=0, le=1)
    """weights: pass rate of the questions drawn most often at first."""
    end: float = Field(default=0.3, ge=0, le=1)
    """weights: the same at the end, and from then on."""
    width: float = Field(default=0.25, gt=0)
    """weights: distance from it, as a standard deviation."""
    floor: float = Field(default=0.05, gt=0, le=1)
    """weights: least weight of a question; the most likely ones have 1."""


class DataConfig(BaseConfig):
    """Where questions come from."""

    train: str
    """URI of the training questions, such as /data/clips@v1?filter=pass_rate > 0."""
    val: str | None = None
    """URI of the validation questions; null switches validation off."""
    shuffle: bool = True
    """New order each epoch, from the seed; false keeps the stored order."""
    curriculum: CurriculumConfig = CurriculumConfig()
    """Order by pass rate in place of `shuffle`; `reader` plays no part then."""
    template: str | None = None
    """Prompt template file (.jinja) in place of those of the problem types."""
    on_unknown_type: Literal["error", "open_ended", "skip"] = "error"
    """Questions of unknown problem type: `error` refuses the run, `open_ended` scores them as open questions,
    `skip` leaves them out of training and validation, counted in the log."""
    max_prompt_tokens: int | None = Field(default=None, ge=1)
    """Longest prompt, visual tokens included; longer samples are left out and counted. Null for no limit."""
    reader: Literal["ray", "local"] = "ray"
    """Who streams the samples: Ray Data, ahead and in processes of its own, or this process itself."""
    clip_cache_mb: int = Field(default=1024, ge=0)
    """Processed pixels that each process keeps between the passes of a step; 0 makes them again."""


class RolloutConfig(BaseConfig):
    """How responses are generated."""

    engine: str = "vllm"
    """`vllm` (asynchronous, own process) or `transformers` (this process, exact and repeatable)."""
    n: int = Field(default=8, ge=1)
    """Responses to each prompt: the size of a group."""
    temperature: float = Field(default=1.0, gt=0)
    """Divides the logits, in the engine and in the trainer."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Nucleus; below 1 needs algorithm.correction."""
    top_k: int = Field(default=0, ge=0)
    """Most likely tokens; 0 for all, otherwise needs algorithm.correction."""
    max_tokens: int = Field(default=512, ge=1)
    """Longest response, its end included."""
    dtype: Literal["float32", "bfloat16", "float16", "auto"] = "auto"
    """Precision of the engine; auto takes that of the model in training."""
    max_model_len: int = Field(default=8192, ge=16)
    """Longest prompt and response together."""
    max_num_seqs: int = Field(default=64, ge=1)
    """Responses that are written at the same time."""
    max_num_batched_tokens: int | None = Field(default=None, ge=1)
    """vllm: tokens of one engine step; null leaves it to vLLM."""
    max_videos: int = Field(default=4, ge=0)
    """vllm: most videos in one prompt."""
    max_images: int = Field(default=8, ge=0)
    """vllm: most images in one prompt."""
    tensor_parallel_size: int = Field(default=1, ge=1)
    """vllm: GPUs of one engine."""
    gpu_memory_utilization: float = Field(default=0.5, gt=0, le=1)
    """vllm: share of the GPU's memory; the trainer needs the rest."""
    enforce_eager: bool = False
    """vllm: no CUDA graphs; always so without a GPU."""
    request_timeout_s: float = Field(default=600.0, gt=0)
    """vllm: seconds after which a request counts as failed."""
    engine_args: dict[str, Any] = Field(default_factory=dict)
    """vllm: further arguments of AsyncEngineArgs, by name."""


class OptimConfig(BaseConfig):
    """AdamW and its learning rate."""

    lr: float = Field(default=1e-6, gt=0)
    """Highest learning rate."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """Course after the warm-up; linear and cosine end at `min_lr_ratio`."""
    warmup_steps: int = Field(default=0, ge=0)
    """Steps over which the rate rises from 0."""
    min_lr_ratio: float = Field(default=0.0, ge=0, le=1)
    """Share of `lr` at the last step of linear and cosine."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Decoupled decay of matrices; norms and biases have none."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Decay rates of the moments."""
    eps: float = Field(default=1e-8, gt=0)
    """Added to the root of the second moment."""
    max_grad_norm: float = Field(default=1.0, gt=0)
    """Gradients are scaled down to this norm."""


class UpdateConfig(BaseConfig):
    """How a batch of rollouts becomes optimizer steps."""

    mini_batches: int = Field(default=1, ge=1)
    """Optimizer steps for one pass over the batch. With 1, and one epoch, training is on-policy."""
    epochs: int = Field(default=1, ge=1)
    """Passes over the batch."""
    max_tokens_per_micro_batch: int = Field(default=16384, ge=1)
    """Hard bound of rows times longest row, visual tokens included, of what is computed at once."""

    @property
    def on_policy(self) -> bool:
        """True when one optimizer step is taken for each batch: the old policy is then the current one."""
        return self.mini_batches == 1 and self.epochs == 1


class CriticConfig(BaseConfig):
    """The value model of `algorithm.adv_estimator: gae`; it takes precision and attention from `model`."""

    path: str | None = None
    """Model that the critic starts from; null takes `model.path`. Its head starts at the value 0."""
    optim: OptimConfig = OptimConfig(lr=1e-5)
    """Its optimizer."""
    warmup_steps: int = Field(default=0, ge=0)
    """First rollout batches, on which the critic alone learns."""


class ValidationConfig(BaseConfig):
    """Validation on `data.val`."""

    every: int = Field(default=0, ge=0)
    """Steps between two validations; 0 for none in between."""
    before: bool = True
    """Validate before the first step."""
    after: bool = True
    """Validate after the last step."""
    n: int = Field(default=1, ge=1)
    """Responses to each question."""
    temperature: float = Field(default=0.0, ge=0)
    """0 is greedy."""
    limit: int | None = Field(default=None, ge=1)
    """Most questions; null for all."""
    batch_size: int = Field(default=64, ge=1)
    """Questions in flight at a time."""


class CheckpointConfig(BaseConfig):
    """What survives a crash."""

    every: int = Field(default=10, ge=1)
    """Steps between two checkpoints; the last step always has one."""
    keep: int = Field(default=2, ge=1)
    """Newest checkpoints that are kept."""


class RunConfig(BaseConfig):
    """Of `vrltrain run`."""

    run_dir: str = "runs/run"
    """Folder of the run; running again with the same one continues."""
    model: ModelConfig
    """The model."""
    data: DataConfig
    """The questions."""
    rollout: RolloutConfig = RolloutConfig()
    """The responses."""
    algorithm: AlgorithmConfig = AlgorithmConfig()
    """What is optimised."""
    optim: OptimConfig = OptimConfig()
    """The optimizer."""
    update: UpdateConfig = UpdateConfig()
    """From rollouts to optimizer steps."""
    critic: CriticConfig = CriticConfig()
    """The value model, where the advantages need one."""
    validation: ValidationConfig = ValidationConfig()
    """Validation."""
    checkpoint: CheckpointConfig = CheckpointConfig()
    """Checkpoints."""
    steps: int = Field(default=100, ge=1)
    """Rollout batches to train on."""
    prompts_per_step: int = Field(default=16, ge=1)
    """Groups of one batch."""
    seed: int = Field(default=0, ge=0)
    """Of everything that is random."""
    trajectories: str | None = "auto"
    """Dataset that rollouts are stored in: auto takes that of data.train, or one in the run folder where it
    cannot be written; null stores none."""
    max_failed_share: float = Field(default=0.5, gt=0, le=1)
    """The run stops when more than this share of a step's samples fail."""
    num_examples: int = Field(default=8, ge=0)
    """Responses of each step that the report may show."""

    @model_validator(mode="after")
    def _parts_fit(self) -> RunConfig:
        rollout, algorithm = self.rollout, self.algorithm
        if (rollout.top_p < 1 or rollout.top_k > 0) and not algorithm.correction.on:
            raise ValueError(
                "rollout.top_p < 1 or rollout.top_k > 0 samples from another distribution than the one in "
                "training: set them to 1 and 0, or switch on algorithm.correction.level: token"
            )
        if rollout.max_tokens >= rollout.max_model_len:
            raise ValueError(
                f"rollout.max_tokens ({rollout.max_tokens}) must be below rollout.max_model_len "
                f"({rollout.max_model_len}), which the prompt shares"
            )
        if not algorithm.needs_critic and self.critic != CriticConfig():
            raise ValueError(
                f"critic is set, but algorithm.adv_estimator: {algorithm.adv_estimator} has no critic: set "
                "adv_estimator: gae, or leave critic out"
            )
        if self.critic.warmup_steps >= self.steps:
            raise ValueError(
                f"critic.warmup_steps ({self.critic.warmup_steps}) must be below steps ({self.steps}): the "
                "policy would never learn"
            )
        if self.update.mini_batches > self.prompts_per_step * rollout.n:
            raise ValueError(
                f"update.mini_batches ({self.update.mini_batches}) exceeds the rows of a step "
                f"({self.prompts_per_step * rollout.n})"
            )
        return self


class SftConfig(BaseConfig):
    """Of `vrltrain sft`."""

    run_dir: str = "runs/sft"
    """Folder of the run; running again with the same one continues."""
    model: ModelConfig
    """The model."""
    data: DataConfig
    """The questions."""
    filter: str = "source = 'offline'"
    """Which trajectories are learned: an SQL predicate on the table of trajectories."""
    optim: OptimConfig = OptimConfig(lr=1e-5)
    """The optimizer."""
    checkpoint: CheckpointConfig = CheckpointConfig()
    """Checkpoints."""
    steps: int = Field(default=100, ge=1)
    """Optimizer steps."""
    rows_per_step: int = Field(default=32, ge=1)
    """Trajectories of one step."""
    max_tokens_per_micro_batch: int = Field(default=16384, ge=1)
    """Hard bound of rows times longest row of what is computed at once."""
    max_response_tokens: int = Field(default=4096, ge=1)
    """Longer trajectories are left out and counted."""
    loss_avg: Literal["token", "seq"] = "token"
    """Average over all tokens, or over rows first."""
    seed: int = Field(default=0, ge=0)
    """Of the order of rows."""


class RolloutsConfig(BaseConfig):
    """Of `vrltrain rollouts`."""

    model: ModelConfig
    """The model."""
    data: DataConfig
    """The questions (data.train)."""
    rollout: RolloutConfig = RolloutConfig()
    """The responses; n of them a question."""
    algorithm: AlgorithmConfig = AlgorithmConfig()
    """Its `reward` part scores the responses."""
    trajectories: str | None = "auto"
    """Dataset that they are stored in; auto takes that of data.train."""
    run_id: str = "rollouts"
    """Name under which they are stored; the same name goes on where it stopped."""
    batch_size: int = Field(default=64, ge=1)
    """Questions in flight at a time."""
    limit: int | None = Field(default=None, ge=1)
    """Most questions; null for all."""
    seed: int = Field(default=0, ge=0)
    """Of sampling."""

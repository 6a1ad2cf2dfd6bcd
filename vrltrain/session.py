"""Everything that a run holds while it trains, and how it starts, resumes and saves. The loop is `loop`."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch

import vrldata
from vrldata.errors import ConfigError, RolloutError, VRLError
from vrltrain.ahead import RolloutsAhead
from vrltrain.algorithms import EmaTaskStats
from vrltrain.checkpoint import (
    check_same_config,
    checkpoint_folder,
    checkpoint_steps,
    load_state,
    load_tensors,
    load_trajectories,
    save_checkpoint,
)
from vrltrain.collect import Collector
from vrltrain.configs import RunConfig
from vrltrain.critic import load_critic
from vrltrain.critic_update import CriticLearner
from vrltrain.data_checks import check_data
from vrltrain.distributed import Ranks, full_state_dict, load_full_state_dict, shard
from vrltrain.group_records import group_from_json, group_to_json
from vrltrain.inputs import EncodedPrompt, PromptEncoder, check_model_path, load_encoder
from vrltrain.kl import KLController
from vrltrain.offline import OfflinePool
from vrltrain.optimizer import load_optimizer_tensors, make_optimizer, optimizer_tensors
from vrltrain.policy import DTYPES, Policy, load_policy
from vrltrain.prompts import PromptCache, PromptStream
from vrltrain.rollout import RolloutEngine, make_engine
from vrltrain.run_folder import RunFolder, shared_run_folder, write_manifest
from vrltrain.trajectory_store import TrajectoryStore, open_trajectory_store
from vrltrain.update import Learner

if TYPE_CHECKING:
    from vrldata.dataset import Dataset
    from vrldata.types import Trajectory
    from vrltrain.types import RolloutGroup, Timings

logger = logging.getLogger(__name__)
T = TypeVar("T")

FREE_KEYS = (
    "run_dir",
    "steps",
    "checkpoint",
    "validation",
    "num_examples",
    "max_failed_share",
    "data.reader",
    "data.clip_cache_mb",
    "data.val",
    "algorithm.reward.function_workers",
)
"""Keys that may differ when a run goes on: they do not change what is learned."""


@dataclass(slots=True, kw_only=True)
class Session:
    """A run in progress. `engine`, `collector`, `ahead` and `store` exist on rank 0 alone."""

    config: RunConfig
    ranks: Ranks
    folder: RunFolder
    encoder: PromptEncoder
    val: Dataset | None
    learner: Learner
    cache: PromptCache
    engine: RolloutEngine = field(default=None)  # type: ignore[assignment]
    collector: Collector = field(default=None)  # type: ignore[assignment]
    ahead: RolloutsAhead = field(default=None)  # type: ignore[assignment]
    store: TrajectoryStore = field(default=None)  # type: ignore[assignment]
    step: int = 0
    unsaved: list[Trajectory] = field(default_factory=list)

    def on_main(self, work: Callable[[], T]) -> T:
        """The result of `work`, done by rank 0; where it fails, every rank raises."""
        if self.ranks.world_size == 1:
            return work()
        outcome: tuple[str, Any] = ("", None)
        if self.ranks.is_main:
            try:
                outcome = ("", work())
            except VRLError as error:
                outcome = (str(error), None)
        failure, value = self.ranks.broadcast(outcome)
        if failure:
            raise RolloutError(failure)
        return value  # type: ignore[no-any-return]

    def encode_of(self, groups: Sequence[RolloutGroup]) -> Callable[[int], EncodedPrompt]:
        """Group number -> prompt as tensors, made on the rank that asks."""
        return lambda number: self.cache.get(groups[number].sample)

    def validates_at(self, step: int) -> bool:
        """True when the questions of `data.val` are answered after this step."""
        options = self.config.validation
        if self.val is None:
            return False
        if step == 0:
            return options.before
        return (options.every > 0 and step % options.every == 0) or (
            options.after and step == self.config.steps
        )

    def saves_at(self, step: int) -> bool:
        """True when a checkpoint follows this step."""
        return step % self.config.checkpoint.every == 0 or step == self.config.steps

    def start_ahead(self, step: int) -> None:
        """Have the batch of `step` collected during the update before it, where staleness allows that."""
        if self.ranks.is_main and self.config.algorithm.max_staleness > 0 and step <= self.config.steps:
            self.ahead.start(step, version=step - 1)

    def wait_ahead(self, timings: Timings) -> None:
        """Wait for that batch: only then may the engine take new weights."""
        if self.ranks.is_main and self.config.algorithm.max_staleness > 0:
            start = time.perf_counter()
            self.ahead.wait()
            timings.add("rollout_wait", time.perf_counter() - start)

    def refresh_reference(self, weights: dict[str, torch.Tensor]) -> None:
        """Make the reference model a copy of the policy."""
        if self.learner.reference is not None:
            load_full_state_dict(self.learner.reference, weights, self.ranks)

    def save(self) -> None:
        """Write a checkpoint, then store the rollouts that belong to it.

        In this order, and idempotent, so that a crash in between neither loses nor doubles a rollout; those
        of steps that a crash undid are never stored.
        """
        learner, config = self.learner, self.config
        weights = full_state_dict(learner.policy, self.ranks)
        tensors, groups = optimizer_tensors(learner.policy, learner.optimizer, self.ranks)
        others: dict[str, dict[str, torch.Tensor]] = {}
        if learner.reference is not None and config.algorithm.ref_update_steps is not None:
            others["reference"] = full_state_dict(learner.reference, self.ranks)
        critic_groups: dict[str, Any] = {}
        if learner.critic is not None:
            critic, its_optimizer = learner.critic.critic, learner.critic.optimizer
            others["critic"] = full_state_dict(critic, self.ranks)
            others["critic_optimizer"], critic_groups = optimizer_tensors(critic, its_optimizer, self.ranks)

        def write() -> None:
            save_checkpoint(
                self.folder.path,
                self.step,
                encoder=self.encoder,
                model_config=learner.policy.model.config,
                weights=weights,
                optimizer=tensors,
                trajectories=self.unsaved,
                state=self._state(groups, critic_groups),
                keep=config.checkpoint.keep,
                others=others,
            )
            self.store.add(self.unsaved)

        self.on_main(write)
        self.unsaved = []

    def _state(self, optimizer_groups: dict[str, Any], critic_groups: dict[str, Any]) -> dict[str, Any]:
        critic = self.learner.critic
        return {
            "step": self.step,
            "run_id": self.folder.run_id,
            "optimizer_steps": self.learner.optimizer_steps,
            "optimizer": optimizer_groups,
            "cursor": self.collector.stream.state_dict(),
            "pending": [group_to_json(group) for group in self.collector.dynamic.pending],
            "ahead": self.ahead.state_dict(),
            "policy_version": self.engine.policy_version,
            "replay": self.collector.offline.replay.state_dict(),
            "kl_controller": self.learner.kl_controller.state_dict(),
            "ema": self.learner.ema.state_dict(),
            "critic": None
            if critic is None
            else {
                "optimizer": critic_groups,
                "optimizer_steps": critic.optimizer_steps,
                "num_batches": critic.num_batches,
            },
            "rng": torch.get_rng_state().tolist(),
            "config": self.config.model_dump(mode="json"),
        }

    def restore(self, checkpoint: Path) -> None:
        """Take over what `save` wrote, apart from the weights, which were loaded with the model."""
        state = load_state(checkpoint)
        learner = self.learner
        self.step = int(state["step"])
        learner.optimizer_steps = int(state["optimizer_steps"])
        learner.kl_controller.load_state_dict(state["kl_controller"])
        learner.ema.load_state_dict(state["ema"])
        torch.set_rng_state(torch.tensor(state["rng"], dtype=torch.uint8))
        load_optimizer_tensors(
            learner.policy,
            learner.optimizer,
            load_tensors(checkpoint, "optimizer"),
            state["optimizer"],
            self.ranks,
        )
        if learner.reference is not None and (checkpoint / "reference.safetensors").is_file():
            load_full_state_dict(learner.reference, load_tensors(checkpoint, "reference"), self.ranks)
        if learner.critic is not None:
            self._restore_critic(learner.critic, checkpoint, state["critic"])
        if self.ranks.is_main:
            self.collector.stream.load_state_dict(state["cursor"])
            self.collector.dynamic.pending = [group_from_json(values) for values in state["pending"]]
            self.collector.offline.replay.load_state_dict(state["replay"])
            self.engine.policy_version = int(state.get("policy_version", self.step))
            self.ahead.load_state_dict(state.get("ahead"))
            self.store.add(load_trajectories(checkpoint))

    def _restore_critic(self, learner: CriticLearner, checkpoint: Path, state: Mapping[str, Any]) -> None:
        load_full_state_dict(learner.critic, load_tensors(checkpoint, "critic"), self.ranks)
        load_optimizer_tensors(
            learner.critic,
            learner.optimizer,
            load_tensors(checkpoint, "critic_optimizer"),
            state["optimizer"],
            self.ranks,
        )
        learner.optimizer_steps = int(state["optimizer_steps"])
        learner.num_batches = int(state["num_batches"])


@contextmanager
def open_session(config: RunConfig, ranks: Ranks, *, resume: bool, command: str) -> Iterator[Session]:
    """Start a run, or take it up where its last checkpoint ends, and close the engine in the end.

    Raises:
        ConfigError: the folder belongs to another config, or `resume` finds no checkpoint; there is no such
            model; or the data or the reward function cannot be used (`data_checks`).
    """
    torch.manual_seed(config.seed)
    counts = check_data(config.data, config.algorithm.reward)
    if not checkpoint_steps(Path(config.run_dir)):
        check_model_path(config.model.path)
    with shared_run_folder(config.run_dir, ranks) as folder:
        steps = checkpoint_steps(folder.path)
        if resume and not steps:
            raise ConfigError(
                f"--resume: {folder.path} has no checkpoint; leave --resume out to start the run"
            )
        checkpoint = checkpoint_folder(folder.path, steps[-1]) if steps else None
        if checkpoint is not None:
            check_same_config(load_state(checkpoint)["config"], config, free=FREE_KEYS)
        train = vrldata.open(config.data.train)
        val = vrldata.open(config.data.val) if config.data.val and "val" in counts else None
        model_path = str(checkpoint / "model") if checkpoint else config.model.path
        if ranks.is_main:
            logger.info("loading model %s", model_path)
        encoder = load_encoder(model_path)
        session = Session(
            config=config,
            ranks=ranks,
            folder=folder,
            encoder=encoder,
            val=val,
            learner=_learner(config, ranks, encoder, model_path),
            cache=_cache(config, train, encoder, model_path),
        )
        try:
            if ranks.is_main:
                _prepare_main(session, train, model_path, command)
            if checkpoint is not None:
                session.restore(checkpoint)
                logger.info("going on after step %d", session.step)
            if ranks.is_main:
                folder.rewind(session.step)
            yield session
        finally:
            if session.engine is not None:
                session.engine.close()
            if session.ahead is not None:
                session.ahead.close()


def _prepare_main(session: Session, train: Dataset, model_path: str, command: str) -> None:
    config, encoder = session.config, session.encoder
    datasets = {"train": train} if session.val is None else {"train": train, "val": session.val}
    write_manifest(session.folder, config, datasets, command=command, world_size=session.ranks.world_size)
    session.store = open_trajectory_store(config.trajectories, train, session.folder.path)
    stream = PromptStream(train, config.data, seed=config.seed)
    offline = OfflinePool(
        config.algorithm.mix,
        train,
        encoder,
        reward=config.algorithm.reward,
        max_response_length=config.rollout.max_tokens,
    )
    rollout = config.rollout
    if rollout.dtype == "auto":
        rollout = rollout.model_copy(update={"dtype": config.model.dtype})
    done = checkpoint_steps(session.folder.path)
    # an engine that starts again must not repeat the noise of the steps before
    session.engine = make_engine(rollout, encoder, model_path, seed=config.seed + (done[-1] if done else 0))
    session.collector = Collector(config, encoder, session.engine, stream, offline)
    session.ahead = RolloutsAhead(session.collector.collect)


def _cache(config: RunConfig, train: Dataset, encoder: PromptEncoder, model_path: str) -> PromptCache:
    if config.algorithm.max_staleness > 0:
        # a tokenizer serves one thread at a time, and the next batch is read meanwhile
        train, encoder = vrldata.open(config.data.train), load_encoder(model_path)
    return PromptCache(train, encoder, config.data)


def _learner(config: RunConfig, ranks: Ranks, encoder: PromptEncoder, model_path: str) -> Learner:
    policy = _policy(config, ranks, encoder, model_path)
    reference = None
    if config.algorithm.needs_reference:
        reference = _policy(config, ranks, encoder, config.model.path).eval()
        reference.requires_grad_(False)
    controller = config.algorithm.kl_controller
    return Learner(
        config=config,
        ranks=ranks,
        policy=policy,
        reference=reference,
        optimizer=make_optimizer(policy, config.optim),
        kl_controller=KLController(
            type=controller.type,
            init=config.algorithm.kl_coef,
            target=controller.target,
            horizon=controller.horizon,
        ),
        ema=EmaTaskStats(),
        pad_token_id=encoder.pad_token_id,
        critic=_critic(config, ranks) if config.algorithm.needs_critic else None,
    )


def _policy(config: RunConfig, ranks: Ranks, encoder: PromptEncoder, model_path: str) -> Policy:
    policy = load_policy(model_path, encoder.media_token_ids, **_model_options(config, ranks))
    shard(policy, ranks, dtype=DTYPES[config.model.dtype])
    return policy


def _critic(config: RunConfig, ranks: Ranks) -> CriticLearner:
    critic = load_critic(config.critic.path or config.model.path, **_model_options(config, ranks))
    shard(critic, ranks, dtype=DTYPES[config.model.dtype])
    return CriticLearner(critic=critic, optimizer=make_optimizer(critic, config.critic.optim))


def _model_options(config: RunConfig, ranks: Ranks) -> dict[str, Any]:
    dtype = DTYPES[config.model.dtype]
    half = dtype != torch.float32
    return {
        "device": ranks.device,
        "attn_implementation": config.model.attn_implementation,
        "gradient_checkpointing": config.model.gradient_checkpointing,
        "freeze_vision": config.model.freeze_vision,
        "autocast": dtype if half and ranks.world_size == 1 else None,
    }

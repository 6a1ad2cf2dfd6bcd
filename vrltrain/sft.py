"""Supervised warm-up: a policy learns stored trajectories token by token, before reinforcement learning.

Loss: -ln p of every response token, averaged over the tokens of the step, or over rows first.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

import vrldata
from vrldata.errors import ConfigError, VRLError
from vrldata.log import progress
from vrltrain.aggregation import GlobalCounts, aggregate
from vrltrain.batching import empty_batch, model_batch, plan_micro_batches
from vrltrain.checkpoint import (
    check_same_config,
    checkpoint_folder,
    checkpoint_steps,
    load_state,
    load_tensors,
    save_checkpoint,
)
from vrltrain.configs import SftConfig
from vrltrain.data_checks import check_data, known_samples
from vrltrain.distributed import Ranks, full_state_dict, process_group, shard
from vrltrain.inputs import PromptEncoder, load_encoder
from vrltrain.optimizer import (
    learning_rate,
    load_optimizer_tensors,
    make_optimizer,
    optimizer_step,
    optimizer_tensors,
)
from vrltrain.policy import DTYPES, Policy, load_policy
from vrltrain.prompts import PromptCache
from vrltrain.report import write_report
from vrltrain.response_mask import pad_rows
from vrltrain.run_folder import RunFolder, shared_run_folder, write_manifest

if TYPE_CHECKING:
    from vrldata.dataset import Dataset
    from vrldata.types import Sample

logger = logging.getLogger(__name__)

FREE_KEYS = ("run_dir", "steps", "checkpoint", "data.reader", "data.clip_cache_mb")


@dataclass(frozen=True, slots=True, kw_only=True)
class SftRow:
    """One trajectory to learn; `token_ids` end with the end-of-sequence token."""

    sample: Sample
    token_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SftResult:
    """What a run left behind; `left_out` counts trajectories by reason."""

    run_dir: Path
    steps: int
    rows: int
    left_out: dict[str, int]
    metrics: dict[str, float]


def fine_tune(config: SftConfig, *, resume: bool = False, command: str = "vrltrain sft") -> SftResult:
    """Train on the trajectories that `filter` selects; goes on where the run folder's last checkpoint ends.

    Raises:
        ConfigError: nothing usable is selected, or the folder belongs to another config.
    """
    check_data(config.data, split=None)
    with process_group() as ranks, shared_run_folder(config.run_dir, ranks) as folder:
        steps = checkpoint_steps(folder.path)
        if resume and not steps:
            raise ConfigError(f"--resume: {config.run_dir} has no checkpoint; leave --resume out to start")
        checkpoint = checkpoint_folder(folder.path, steps[-1]) if steps else None
        dataset = vrldata.open(config.data.train)
        if ranks.is_main:
            logger.info("loading model %s", checkpoint or config.model.path)
        encoder = load_encoder(checkpoint / "model" if checkpoint else config.model.path)
        policy = _policy(config, encoder, ranks, checkpoint)
        optimizer = make_optimizer(policy, config.optim)
        first = 0
        if checkpoint is not None:
            state = load_state(checkpoint)
            check_same_config(state["config"], config, free=FREE_KEYS)
            tensors = load_tensors(checkpoint, "optimizer")
            load_optimizer_tensors(policy, optimizer, tensors, state["optimizer"], ranks)
            first = int(state["step"])
        cache = PromptCache(dataset, encoder, config.data)
        rows, left_out = usable_rows(config, dataset, encoder, cache)
        if ranks.is_main:
            write_manifest(folder, config, {"train": dataset}, command=command, world_size=ranks.world_size)
            folder.rewind(first)
        figures: dict[str, float] = {}
        with progress("sft", total=config.steps - first, unit="steps") as bar:
            for step in range(first + 1, config.steps + 1):
                started = time.perf_counter()
                chosen = [rows[index] for index in step_rows(len(rows), step, config)]
                figures = _step(config, ranks, policy, optimizer, encoder, cache, chosen, step)
                figures["time/step_s"] = time.perf_counter() - started
                if ranks.is_main:
                    folder.log(step, figures)
                if step % config.checkpoint.every == 0 or step == config.steps:
                    _save(config, ranks, folder, policy, optimizer, encoder, step)
                bar.advance(loss=f"{figures['update/loss']:.3f}")
        return SftResult(
            run_dir=folder.path, steps=config.steps, rows=len(rows), left_out=dict(left_out), metrics=figures
        )


def usable_rows(
    config: SftConfig, dataset: Dataset, encoder: PromptEncoder, cache: PromptCache
) -> tuple[list[SftRow], Counter[str]]:
    """(trajectories to learn, how many were left out by reason)."""
    known = known_samples(dataset.iter_samples(), config.data.on_unknown_type)
    samples = {sample.sample_id: sample for sample in known}
    rows: list[SftRow] = []
    left_out: Counter[str] = Counter()
    bad: set[str] = set()
    for trajectory in dataset.iter_trajectories(filter=config.filter):
        sample = samples.get(trajectory.sample_id)
        if sample is None:
            left_out["sample not selected"] += 1
            continue
        ids = [int(token) for token in encoder.tokenizer(trajectory.response)["input_ids"]]
        ids.append(encoder.eos_token_ids[0])
        if len(ids) > config.max_response_tokens:
            left_out["longer than max_response_tokens"] += 1
        elif set(ids) & set(encoder.media_token_ids):
            left_out["contains media tokens"] += 1
        elif sample.sample_id in bad or not _readable(sample, cache):
            bad.add(sample.sample_id)
            left_out["prompt or clip not usable"] += 1
        else:
            rows.append(SftRow(sample=sample, token_ids=tuple(ids)))
    if not rows:
        raise ConfigError(
            f"{dataset.uri}: no trajectory to learn under filter {config.filter!r} "
            f"(left out: {dict(left_out) or 'none found'}); see `vrldata query`"
        )
    return rows, left_out


def step_rows(num_rows: int, step: int, config: SftConfig) -> list[int]:
    """Row numbers of a step, counted from 1: epoch after epoch, each in an order of its own."""
    places = range((step - 1) * config.rows_per_step, step * config.rows_per_step)
    orders = {
        epoch: np.random.default_rng([config.seed, epoch]).permutation(num_rows)
        for epoch in {place // num_rows for place in places}
    }
    return [int(orders[place // num_rows][place % num_rows]) for place in places]


def _step(
    config: SftConfig,
    ranks: Ranks,
    policy: Policy,
    optimizer: torch.optim.Optimizer,
    encoder: PromptEncoder,
    cache: PromptCache,
    rows: Sequence[SftRow],
    step: int,
) -> dict[str, float]:
    width = max(len(row.token_ids) for row in rows)
    mask = pad_rows([[1] * len(row.token_ids) for row in rows], width, 0, torch.int64)
    counts = GlobalCounts.of(mask)
    lengths = [len(cache.get(row.sample).input_ids) + len(row.token_ids) for row in rows]
    plan = plan_micro_batches(
        [[number] for number in range(len(rows))],
        lengths,
        max_tokens=config.max_tokens_per_micro_batch,
        num_ranks=ranks.world_size,
    )
    total = 0.0
    for parts in plan:
        mine = parts[ranks.rank]
        has_media = any(rows[row].sample.clip_ids for part in parts for row in part)
        inputs = empty_batch(encoder.pad_token_id)
        if mine:
            inputs = model_batch(
                [cache.get(rows[row].sample) for row in mine],
                [rows[row].token_ids for row in mine],
                pad_token_id=encoder.pad_token_id,
            )
        log_probs, _ = policy(inputs.to(ranks.device), run_vision=ranks.world_size > 1 and has_media)
        loss = log_probs.sum() * 0.0
        if mine:
            part_mask = mask[mine, : log_probs.shape[1]].to(ranks.device)
            loss = aggregate(-log_probs, part_mask, mode=config.loss_avg, counts=counts)
        (loss * ranks.world_size).backward()
        total += float(loss.detach())
    rate = learning_rate(config.optim, step - 1, config.steps)
    stepped = optimizer_step(policy, optimizer, lr=rate, max_grad_norm=config.optim.max_grad_norm)
    summed = ranks.sum_figures({"update/loss": total})
    return {**summed, **stepped, "response/length_mean": counts.num_tokens / max(counts.num_rows, 1.0)}


def _save(
    config: SftConfig,
    ranks: Ranks,
    folder: RunFolder,
    policy: Policy,
    optimizer: torch.optim.Optimizer,
    encoder: PromptEncoder,
    step: int,
) -> None:
    weights = full_state_dict(policy, ranks)
    tensors, groups = optimizer_tensors(policy, optimizer, ranks)
    if ranks.is_main:
        save_checkpoint(
            folder.path,
            step,
            encoder=encoder,
            model_config=policy.model.config,
            weights=weights,
            optimizer=tensors,
            trajectories=[],
            state={"step": step, "optimizer": groups, "config": config.model_dump(mode="json")},
            keep=config.checkpoint.keep,
        )
        write_report(folder.path)
    ranks.barrier()


def _policy(config: SftConfig, encoder: PromptEncoder, ranks: Ranks, checkpoint: Path | None) -> Policy:
    dtype = DTYPES[config.model.dtype]
    policy = load_policy(
        checkpoint / "model" if checkpoint else config.model.path,
        encoder.media_token_ids,
        device=ranks.device,
        attn_implementation=config.model.attn_implementation,
        gradient_checkpointing=config.model.gradient_checkpointing,
        freeze_vision=config.model.freeze_vision,
        autocast=dtype if dtype != torch.float32 and ranks.world_size == 1 else None,
    )
    shard(policy, ranks, dtype=dtype)
    return policy


def _readable(sample: Any, cache: PromptCache) -> bool:
    try:
        cache.get(sample)
    except VRLError as error:
        logger.warning("sample %s left out: %s", sample.sample_id, error)
        return False
    return True

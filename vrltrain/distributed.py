"""One process or several: the process group, the few collectives of the loop, and FSDP2 sharding.

With one process everything here is the identity. Start several with `torchrun`; gloo serves CPUs, nccl GPUs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

T = TypeVar("T")

COLLECTIVE_TIMEOUT = timedelta(minutes=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """This process among its peers.

    Attributes:
        rank: from 0; rank 0 draws prompts, owns the engine and writes files.
        world_size: number of processes.
        device: of the model.
    """

    rank: int
    world_size: int
    device: torch.device

    @property
    def is_main(self) -> bool:
        """True on rank 0."""
        return self.rank == 0

    def broadcast(self, value: T | None) -> T:
        """Rank 0's picklable `value`, on every rank."""
        if self.world_size == 1:
            return value  # type: ignore[return-value]
        box: list[Any] = [value]
        dist.broadcast_object_list(box, src=0)
        return box[0]  # type: ignore[no-any-return]

    def sum(self, tensor: Tensor) -> Tensor:
        """Sum over the ranks, in place."""
        if self.world_size > 1:
            moved = tensor.to(self.device)
            dist.all_reduce(moved)
            tensor.copy_(moved)
        return tensor

    def sum_figures(self, figures: Mapping[str, float]) -> dict[str, float]:
        """Sum by name over the ranks; a rank that lacks a name counts as 0."""
        if self.world_size == 1:
            return dict(figures)
        gathered: list[dict[str, float]] = [{} for _ in range(self.world_size)]
        dist.all_gather_object(gathered, dict(figures))
        names = dict.fromkeys(name for part in gathered for name in part)
        return {name: sum(part.get(name, 0.0) for part in gathered) for name in names}

    def barrier(self) -> None:
        """Wait for all ranks."""
        if self.world_size > 1:
            dist.barrier()


@contextmanager
def process_group() -> Iterator[Ranks]:
    """Join the processes that `torchrun` started, or stand alone."""
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    rank = int(os.environ.get("RANK", "0"))
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    if world_size > 1:
        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        dist.init_process_group(backend, timeout=COLLECTIVE_TIMEOUT)
    try:
        yield Ranks(rank=rank, world_size=world_size, device=device)
    finally:
        if world_size > 1:
            dist.destroy_process_group()


def shard(policy: nn.Module, ranks: Ranks, *, dtype: torch.dtype) -> nn.Module:
    """Shard a policy or a critic over the ranks: each decoder layer, each vision block, the rest as one unit.

    Weights and gradient sums stay float32; the computation runs in `dtype`.
    """
    if ranks.world_size == 1:
        return policy
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method

    mesh = init_device_mesh(ranks.device.type, (ranks.world_size,))
    precision = MixedPrecisionPolicy()
    if dtype != torch.float32:
        precision = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32)
    backbone = policy.model.model  # type: ignore[union-attr]
    for unit in (*backbone.language_model.layers, *backbone.visual.blocks):  # type: ignore[union-attr, misc]
        fully_shard(unit, mesh=mesh, mp_policy=precision)
    fully_shard(policy, mesh=mesh, mp_policy=precision)
    if hasattr(policy, "response_states"):  # weights are gathered for this method as for the forward pass
        register_fsdp_forward_method(policy, "response_states")
    return policy


def full_state_dict(policy: nn.Module, ranks: Ranks) -> dict[str, Tensor]:
    """Whole weights by their names in the model's checkpoint; empty on ranks other than 0.

    On one process these are views of the live weights.
    """
    if ranks.world_size == 1:
        state = policy.state_dict()
    else:
        from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

        state = get_model_state_dict(policy, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    tied = bool(policy.model.config.tie_word_embeddings)  # type: ignore[union-attr]
    named = {name.removeprefix("model."): tensor for name, tensor in state.items()}
    if tied:
        named.pop("lm_head.weight", None)
    return named


def load_full_state_dict(policy: nn.Module, weights: Mapping[str, Tensor], ranks: Ranks) -> None:
    """Take whole weights, given on rank 0, into the (sharded) policy."""
    from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict

    named = {f"model.{name}": tensor for name, tensor in weights.items()}
    several = ranks.world_size > 1
    if several:
        from torch.distributed.fsdp import FSDPModule

        # after a forward pass without a backward pass the root's weights still are whole on every rank
        for module in policy.modules():
            if isinstance(module, FSDPModule):
                module.reshard()
    set_model_state_dict(
        policy,
        named,
        options=StateDictOptions(full_state_dict=several, broadcast_from_rank0=several, strict=False),
    )

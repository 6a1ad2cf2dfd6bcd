"""Run by `test_distributed` in one or two processes: one plain SGD step for each case, written to files."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import save_file

from tests.train.colour_clips import make_clip, make_sample, run_values
from vrldata.config import validate_config
from vrldata.types import Clip, Score
from vrltrain.algorithms import EmaTaskStats
from vrltrain.batch import train_batch
from vrltrain.configs import RunConfig
from vrltrain.critic import load_critic
from vrltrain.critic_update import CriticLearner
from vrltrain.distributed import Ranks, full_state_dict, process_group, shard
from vrltrain.inputs import EncodedPrompt, load_encoder
from vrltrain.kl import KLController
from vrltrain.policy import load_policy
from vrltrain.rewards import Reward
from vrltrain.types import Rollout, RolloutGroup, Timings
from vrltrain.update import Learner, update

MEDIA: dict[str, list[list[Clip]]] = {
    # groups of one step, each with its clips; a rank gets whole groups
    "videos": [[make_clip("a", num_frames=6)], [make_clip("b")], [make_clip("c", num_frames=2)]],
    "mixed": [
        [make_clip("a", num_frames=8), make_clip("i", num_frames=1, kind="image")],
        [],
        [],
        [make_clip("j", num_frames=1, kind="image")],
        [],
    ],
    "one rank has text alone": [[make_clip("a", num_frames=12)], []],
    "text": [[], [], []],
    "one group": [[make_clip("a")]],
}

ALGORITHMS: dict[str, dict[str, object]] = {
    "grpo": {"kl_in": "loss", "kl_coef": 0.1},
    "ppo": {"adv_estimator": "gae", "kl_in": "loss", "kl_coef": 0.1, "kl_kind": "full"},
}


def groups_of(case: str) -> list[RolloutGroup]:
    """Groups of different length whose rewards differ."""
    generator = torch.Generator().manual_seed(7)
    groups = []
    for number, clips in enumerate(MEDIA[case]):
        sizes = [3 + (number + row) % 5 for row in range(3)]
        rollouts = tuple(
            Rollout(
                token_ids=tuple(torch.randint(10, 300, (size,), generator=generator).tolist()),
                log_probs=tuple([-1.0] * size),
                finish_reason="stop",
                policy_version=0,
                text="",
                index=row,
            )
            for row, size in enumerate(sizes)
        )
        media = {
            "videos": tuple(clip.video_path for clip in clips if clip.kind == "video"),
            "images": tuple(clip.video_path for clip in clips if clip.kind == "image"),
        }
        groups.append(
            RolloutGroup(
                uid=str(number),
                sample=make_sample(f"s{number}", **media),
                rollouts=rollouts,
                scores=tuple(Score(accuracy=1.0, format=1.0, overall=1.0, status="ok") for _ in rollouts),
                rewards=tuple(Reward(overall=float(row % 2)) for row in range(3)),
                prompt_tokens=60 + 10 * len(clips),
            )
        )
    return groups


def main(model: str, out: str) -> None:
    """One update of `model` on the groups of each case; rank 0 writes to the folder `out`."""
    with process_group() as ranks:
        for case in sorted(MEDIA):
            one_update(ranks, model, case, Path(out), "grpo")
        for case in ("mixed", "one rank has text alone"):
            one_update(ranks, model, case, Path(out), "ppo")


def learner_of(ranks: Ranks, model: str | Path, algorithm: str) -> Learner:
    """A policy in training by plain SGD with a reference that differs, and the critic that `ppo` needs."""
    media_token_ids = load_encoder(model).media_token_ids
    values = run_values(
        Path("none"),
        Path(model),
        Path("none"),
        optim={"lr": 1.0, "max_grad_norm": 1e9},
        update={"max_tokens_per_micro_batch": 250},
        algorithm=ALGORITHMS[algorithm],
        **({"critic": {"optim": {"lr": 1.0, "max_grad_norm": 1e9}}} if algorithm == "ppo" else {}),
    )
    policy = load_policy(model, media_token_ids)
    reference = load_policy(model, media_token_ids)
    with torch.no_grad():
        for weight in reference.parameters():
            weight.mul_(0.9)
    shard(policy, ranks, dtype=torch.float32)
    shard(reference, ranks, dtype=torch.float32)
    critic = None
    if algorithm == "ppo":
        value_model = load_critic(model)
        with torch.no_grad():
            value_model.model.value_head.weight.fill_(0.05)
        shard(value_model, ranks, dtype=torch.float32)
        critic = CriticLearner(
            critic=value_model, optimizer=torch.optim.SGD(value_model.parameters(), lr=1.0)
        )
    return Learner(
        config=validate_config(RunConfig, values, source="test"),
        ranks=ranks,
        policy=policy,
        reference=reference.requires_grad_(False),
        optimizer=torch.optim.SGD(policy.parameters(), lr=1.0),
        kl_controller=KLController(init=0.1),
        ema=EmaTaskStats(),
        pad_token_id=0,
        critic=critic,
    )


def encode_of(model: str | Path, case: str) -> Callable[[int], EncodedPrompt]:
    """Group number -> its prompt as tensors."""
    encoder, groups = load_encoder(model), groups_of(case)

    @functools.cache
    def encode(number: int) -> EncodedPrompt:
        return encoder.encode(encoder.prompt(groups[number].sample, MEDIA[case][number]))

    return encode


def one_update(ranks: Ranks, model: str, case: str, out: Path, algorithm: str) -> None:
    """Weights and figures after one step that moves each weight by its gradient."""
    learner, groups = learner_of(ranks, model, algorithm), groups_of(case)
    figures = update(learner, train_batch(groups), groups, encode_of(model, case), Timings())
    trained = {"policy": learner.policy}
    if learner.critic is not None:
        trained["critic"] = learner.critic.critic
    weights = {name: full_state_dict(module, ranks) for name, module in trained.items()}
    if ranks.is_main:
        out.mkdir(exist_ok=True)
        for name, tensors in weights.items():
            save_file(
                {key: tensor.detach().clone() for key, tensor in tensors.items()},
                out / f"{case} {algorithm} {name}.safetensors",
            )
        (out / f"{case} {algorithm}.json").write_text(json.dumps(figures))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""What the learning benchmarks compare: arms of an experiment, each a few overrides of `base.yaml`."""

from __future__ import annotations

from dataclasses import dataclass

SEEDS = (2, 3, 4)
"""Of a claim. Settings were chosen by seeds 0 and 1, so these stay out."""
VIDEO = "?filter=data_type = 'video'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One curve: the same settings for every seed.

    Attributes:
        model: dataset whose trajectories taught the starting model its form of answers.
        data: dataset in training.
        query: of the URI of the training questions.
        overrides: of `base.yaml`.
        seeds: of the run; data, rollouts and order of updates follow from it.
        decode: frames come from the files during training, not from the store.
    """

    model: str = "uniform"
    data: str = "true"
    query: str = ""
    overrides: tuple[str, ...] = ()
    seeds: tuple[int, ...] = SEEDS
    decode: bool = False


def _kl(where: str, coefficient: float = 0.1) -> tuple[str, ...]:
    return (f"algorithm.kl_in={where}", f"algorithm.kl_coef={coefficient}")


_SPARSE = ("algorithm.preset=luffy_mix", "steps=150")
_LONG = ("algorithm.preset=grpo", "algorithm.kl_coef=0.1", "rollout.max_tokens=24")
_BUFFER = "algorithm.reward.overlong_buffer=16"
_SAME = ("algorithm.preset=grpo", "algorithm.kl_coef=0.1", "steps=12", "validation.every=4")

EXPERIMENTS: dict[str, dict[str, Arm]] = {
    # The KL to the starting model keeps all letters alive until clips are told apart.
    "algorithms": {
        "grpo": Arm(overrides=("algorithm.preset=grpo", *_kl("loss"), "steps=120")),
        "dapo": Arm(
            overrides=("algorithm.preset=dapo", *_kl("loss"), "algorithm.filter.max_tries=3", "steps=120")
        ),
        "rloo": Arm(overrides=("algorithm.preset=rloo", *_kl("reward"), "steps=120")),
        "reinforce_plus_plus": Arm(
            overrides=("algorithm.preset=reinforce_plus_plus", *_kl("reward"), "steps=120")
        ),
        # with one optimizer step a batch its gradient is that of GRPO: two steps let its clip act
        "gspo": Arm(
            overrides=("algorithm.preset=gspo", *_kl("loss"), "update.mini_batches=2", "steps=120"),
        ),
    },
    # The starting model answers with letters that are no option: hardly any rollout earns a reward.
    "sparse": {
        "online": Arm(model="foreign", overrides=(*_SPARSE, "algorithm.mix.when=never")),
        "mixed": Arm(model="foreign", overrides=_SPARSE),
    },
    # Eight video questions a step in both arms; eight image questions beside them in one.
    "joint": {
        "video": Arm(
            data="joint", query=VIDEO,
            overrides=("algorithm.preset=grpo", *_kl("loss"), "prompts_per_step=8", "steps=120"),
        ),
        "video and image": Arm(
            data="joint", overrides=("algorithm.preset=grpo", *_kl("loss"), "steps=120")
        ),
    },
    "cache": {
        "store": Arm(overrides=_SAME, seeds=(0,)),
        "decode": Arm(overrides=_SAME, seeds=(0,), decode=True),
    },
    # The starting model answers well, after words that say nothing.
    "overlong": {
        "no penalty": Arm(model="long", overrides=_LONG),
        "overlong": Arm(
            model="long",
            overrides=(*_LONG, "algorithm.reward.weights.overlong=0.5", _BUFFER),
        ),
    },
    "kl": {
        "kl_coef 0.000001": Arm(overrides=("algorithm.preset=grpo", "algorithm.kl_coef=1e-6")),
        "kl_coef 0.5": Arm(overrides=("algorithm.preset=grpo", "algorithm.kl_coef=0.5")),
    },
}  # fmt: skip
"""Experiment -> arm -> settings."""

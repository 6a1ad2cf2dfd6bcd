"""The interface of rollout engines, and the choice of one. The engines have modules of their own.

    engine.generate(prompts, n, sampling) -> one RolloutResult a prompt, in order
    engine.load_weights(state_dict, version)

A request that fails gives a result with an error; it does not stop the others.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from vrldata.errors import ConfigError, nearest
from vrltrain.types import RolloutResult, SamplingParams

if TYPE_CHECKING:
    from torch import Tensor

    from vrltrain.configs import RolloutConfig
    from vrltrain.inputs import Prompt, PromptEncoder

logger = logging.getLogger(__name__)

ENGINES: dict[str, str] = {
    "vllm": "vrltrain.rollout_vllm:VllmEngine",
    "transformers": "vrltrain.rollout_transformers:TransformersEngine",
}
"""Engine name -> class, imported when chosen."""


class RolloutEngine(Protocol):
    """Writes responses with a policy of its own, which follows the trainer's by `load_weights`."""

    policy_version: int

    def generate(
        self, prompts: Sequence[Prompt], n: Sequence[int], sampling: SamplingParams
    ) -> list[RolloutResult]:
        """`n[i]` responses to `prompts[i]`; results in the order of the prompts."""

    def load_weights(self, weights: Iterable[tuple[str, Tensor]], version: int) -> None:
        """Replace all weights, by their names in the checkpoint, and drop what is cached from old ones."""

    def close(self) -> None:
        """Free the engine's memory and processes."""


def make_engine(
    config: RolloutConfig, encoder: PromptEncoder, model_path: str | Path, *, seed: int = 0
) -> RolloutEngine:
    """Start the engine that the config names, with the weights of `model_path`.

    Raises:
        ConfigError: the engine is unknown.
        MissingExtraError: its library is not installed.
        RolloutError: it does not start.
    """
    if config.engine not in ENGINES:
        raise ConfigError(
            f"rollout.engine={config.engine!r} is unknown.{nearest(config.engine, ENGINES)} "
            f"Known: {', '.join(ENGINES)}"
        )
    logger.info("starting the engine %s", config.engine)
    module, _, name = ENGINES[config.engine].partition(":")
    engine: RolloutEngine = getattr(importlib.import_module(module), name)(
        config, encoder, str(model_path), seed
    )
    return engine

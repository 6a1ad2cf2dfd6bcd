"""The value model of PPO: a Qwen-VL backbone of its own with one number a token in place of the vocabulary.

How it learns is `critic_update`; advantages from its values are `algorithms.gae`.
Letters in shapes: B rows, R response tokens, H hidden size.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from vrltrain.policy import ModelBatch, load_model, response_states


class Critic(nn.Module):
    """V of the prompt and the response tokens so far, before each response token.

    The head starts at 0, so that the first advantages are the rewards that follow a token, as without a
    critic.
    """

    def __init__(self, model: nn.Module, *, autocast: torch.dtype | None = None) -> None:
        super().__init__()
        head = nn.Linear(model.lm_head.in_features, 1, device=model.lm_head.weight.device)  # type: ignore[arg-type, union-attr]
        nn.init.zeros_(head.weight)
        nn.init.zeros_(head.bias)
        del model.lm_head
        model.value_head = head
        self.model = model
        self.autocast = autocast

    def forward(self, batch: ModelBatch, *, run_vision: bool = False) -> Tensor:
        """float32 (B, R): the value before each response token, which does not see that token.

        Args:
            run_vision: see `policy.response_states`.
        """
        device = batch.input_ids.device.type
        with torch.autocast(device, dtype=self.autocast, enabled=self.autocast is not None):
            hidden_BRH = response_states(self.model, batch, run_vision=run_vision)
        head = self.model.value_head
        # in float32 whatever the backbone runs in: 8 bits would round values to steps of a hundredth
        with torch.autocast(device, enabled=False):
            return functional.linear(hidden_BRH.float(), head.weight.float(), head.bias.float()).squeeze(-1)


def load_critic(model_path: str | Path, *, autocast: torch.dtype | None = None, **options: Any) -> Critic:
    """A critic on the weights of a folder or Hub id; `options` are those of `policy.load_model`.

    Raises:
        ConfigError: no model can be loaded from there.
    """
    return Critic(load_model(model_path, setting="critic.path", **options), autocast=autocast)

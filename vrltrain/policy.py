"""The model in training: log-probabilities and entropies of response tokens, and loading it from a folder.

Losses live in `losses`, the optimizer in `optimizer`, sharding over ranks in `sharding`.
Letters in shapes: B rows, L tokens of the longest row, R response tokens, H hidden size, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from vrldata.errors import ConfigError
from vrltrain.inputs import CHUNK_TOKENS, LOGIT_BIAS
from vrltrain.kl import vocabulary_kl
from vrltrain.losses import log_probs_and_entropy
from vrltrain.vision import blank_picture, picture_features

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelBatch:
    """Right-padded rows, prompt and response in one sequence.

    Attributes:
        input_ids: int64 (B, L).
        attention_mask: int64 (B, L).
        position_ids: int64 (3, B, L).
        media: pixels and grids of the distinct prompts, concatenated.
        picture_order: kind (`video`, `image`) -> numbers of the pictures in the order of the rows.
        response_ids: int64 (B, R), the labels.
        predicted_from: int64 (B, R), the position in L whose hidden state predicts each response token.
        temperature: of sampling.
    """

    input_ids: Tensor
    attention_mask: Tensor
    position_ids: Tensor
    media: dict[str, Tensor] = field(default_factory=dict)
    picture_order: dict[str, list[int]] = field(default_factory=dict)
    response_ids: Tensor
    predicted_from: Tensor
    temperature: float = 1.0

    def to(self, device: torch.device | str) -> ModelBatch:
        """The same batch on `device`."""
        return ModelBatch(
            input_ids=self.input_ids.to(device),
            attention_mask=self.attention_mask.to(device),
            position_ids=self.position_ids.to(device),
            media={name: tensor.to(device) for name, tensor in self.media.items()},
            picture_order=self.picture_order,
            response_ids=self.response_ids.to(device),
            predicted_from=self.predicted_from.to(device),
            temperature=self.temperature,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceStates:
    """What gives the reference model's logits of a micro-batch, chunk by chunk.

    Attributes:
        hidden: (B, R, H), the states that predict the response tokens.
        head: (V, H), whole on every rank.
    """

    hidden: Tensor
    head: Tensor


class Policy(nn.Module):
    """A vision-language model whose forward pass gives what policy losses need.

    The distribution is that of the engine: logits plus the bias against media tokens, divided by the
    temperature, without truncation.
    """

    def __init__(
        self, model: nn.Module, media_token_ids: Sequence[int], *, autocast: torch.dtype | None = None
    ) -> None:
        super().__init__()
        self.model = model
        self.media_token_ids = tuple(media_token_ids)
        self.autocast = autocast

    def forward(
        self, batch: ModelBatch, *, run_vision: bool = False, reference: ReferenceStates | None = None
    ) -> tuple[Tensor, ...]:
        """(log_probs, entropy) of the response tokens, both float32 (B, R); with `reference` also the KL to
        it over the whole vocabulary, float32 (B, R).

        Args:
            batch: on the model's device.
            run_vision: see `response_states`.
            reference: of the same batch.
        """
        shape, device = batch.response_ids.shape, batch.input_ids.device.type
        with torch.autocast(device, dtype=self.autocast, enabled=self.autocast is not None):
            flat = response_states(self.model, batch, run_vision=run_vision).flatten(0, 1)
            labels = batch.response_ids.flatten()
            other = None if reference is None else reference.hidden.flatten(0, 1)
            parts = []
            for start in range(0, max(len(flat), 1), CHUNK_TOKENS):
                chunk = slice(start, start + CHUNK_TOKENS)
                compared = () if other is None or reference is None else (other[chunk], reference.head)
                parts.append(self._score(flat[chunk], labels[chunk], batch.temperature, *compared))
        return tuple(torch.cat(values).reshape(shape).clone() for values in zip(*parts, strict=True))

    def response_states(self, batch: ModelBatch, *, run_vision: bool = False) -> Tensor:
        """(B, R, H): the states that predict the response tokens, without their logits."""
        device = batch.input_ids.device.type
        with torch.autocast(device, dtype=self.autocast, enabled=self.autocast is not None):
            return response_states(self.model, batch, run_vision=run_vision)

    def _score(self, hidden: Tensor, *inputs: Any) -> tuple[Tensor, ...]:
        if torch.is_grad_enabled() and len(hidden) == CHUNK_TOKENS:
            # full chunks are recomputed in the backward pass: their logits are the peak of memory
            result = checkpoint(self._score_chunk, hidden, *inputs, use_reentrant=False)
            return result  # type: ignore[no-any-return]
        return self._score_chunk(hidden, *inputs)

    def _score_chunk(
        self,
        hidden: Tensor,
        labels: Tensor,
        temperature: float,
        ref_hidden: Tensor | None = None,
        ref_head: Tensor | None = None,
    ) -> tuple[Tensor, ...]:
        logits = biased_logits(self.model.lm_head(hidden), self.media_token_ids)
        log_probs, entropy = log_probs_and_entropy(logits, labels, temperature=temperature)
        if ref_hidden is None or ref_head is None:
            return log_probs, entropy
        ref_logits = functional.linear(ref_hidden, ref_head.to(ref_hidden.dtype))
        other = biased_logits(ref_logits, self.media_token_ids)
        return log_probs, entropy, vocabulary_kl(logits, other, temperature=temperature)


def response_states(model: Any, batch: ModelBatch, *, run_vision: bool = False) -> Tensor:
    """(B, R, H): the states of the model that predict the response tokens.

    Args:
        model: of transformers, with its backbone as `model.model`.
        run_vision: send one blank picture through the vision tower when the batch has no media, so that
            every rank runs the same modules (their weights are gathered together).
    """
    backbone = model.model
    inputs: dict[str, Any] = {"input_ids": batch.input_ids}
    if batch.media:
        inputs["mm_encoder_outputs"] = picture_features(backbone, batch.media, batch.picture_order)
    elif run_vision:
        embeds = backbone.get_input_embeddings()(batch.input_ids)
        inputs = {"inputs_embeds": embeds + blank_picture(model).to(embeds.dtype)}
    hidden_BLH = backbone(
        **inputs, attention_mask=batch.attention_mask, position_ids=batch.position_ids, use_cache=False
    )[0]
    index = batch.predicted_from.unsqueeze(-1).expand(-1, -1, hidden_BLH.shape[-1])
    return hidden_BLH.gather(1, index)  # type: ignore[no-any-return]


def reference_head(reference: Policy) -> Tensor:
    """(V, H): the whole output matrix of a (sharded) model; every rank takes part."""
    weight = reference.model.lm_head.weight  # type: ignore[union-attr]
    return weight.full_tensor() if hasattr(weight, "full_tensor") else weight  # type: ignore[operator, return-value]


def biased_logits(logits: Tensor, media_token_ids: Sequence[int]) -> Tensor:
    """`logits` (…, V) with the bias against media tokens, float32 or wider."""
    wide = logits if logits.dtype == torch.float64 else logits.float()
    bias = torch.zeros(wide.shape[-1], dtype=wide.dtype, device=wide.device)
    bias[list(media_token_ids)] = LOGIT_BIAS
    return wide + bias


def load_policy(
    model_path: str | Path,
    media_token_ids: Sequence[int],
    *,
    autocast: torch.dtype | None = None,
    **options: Any,
) -> Policy:
    """The policy on the weights of a folder or Hub id; `options` are those of `load_model`.

    Raises:
        ConfigError: no model can be loaded from there.
    """
    return Policy(load_model(model_path, **options), media_token_ids, autocast=autocast)


def load_model(
    model_path: str | Path,
    *,
    dtype: str = "float32",
    device: torch.device | str = "cpu",
    attn_implementation: str = "sdpa",
    gradient_checkpointing: bool = False,
    freeze_vision: bool = False,
    setting: str = "model.path",
) -> Any:
    """The model of transformers in a folder or Hub id, ready to train, with float32 weights unless `dtype`
    says otherwise.

    Args:
        setting: key of the config that names the folder, for the error.

    Raises:
        ConfigError: no model can be loaded from there.
    """
    from transformers import AutoModelForImageTextToText

    try:
        model = AutoModelForImageTextToText.from_pretrained(
            str(model_path), dtype=DTYPES[dtype], attn_implementation=attn_implementation
        )
    except (OSError, ValueError, ImportError) as error:
        first = str(error).strip().splitlines()[0]
        raise ConfigError(
            f"{setting}={str(model_path)!r}: no model can be loaded from there: {first}"
        ) from error
    model.to(device)
    model.train()
    if gradient_checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    if freeze_vision:
        model.model.visual.requires_grad_(False)
    return model

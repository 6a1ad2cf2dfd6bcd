"""Rollouts by transformers, in the trainer's process: exact, repeatable, and slow beyond small models.

A decode loop of its own rather than `generate`, for the position ids of `positions`, for one random stream a
response, and for log-probabilities of the untruncated distribution.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from vrldata.errors import RolloutError
from vrltrain.batching import join_media
from vrltrain.inputs import EncodedPrompt, Prompt, PromptEncoder
from vrltrain.policy import biased_logits, load_policy
from vrltrain.types import Rollout, RolloutResult, SamplingParams

if TYPE_CHECKING:
    from vrltrain.configs import RolloutConfig


class TransformersEngine:
    """A `RolloutEngine` on a copy of the model in this process."""

    def __init__(self, config: RolloutConfig, encoder: PromptEncoder, model_path: str, seed: int) -> None:
        self.policy_version = 0
        self._closed = False
        self._config = config
        self._encoder = encoder
        del seed  # every call brings its own, so that a resumed run draws what an uninterrupted one draws
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._model = load_policy(
            model_path, encoder.media_token_ids, dtype=config.dtype, device=self._device
        ).model.eval()

    def generate(
        self, prompts: Sequence[Prompt], n: Sequence[int], sampling: SamplingParams
    ) -> list[RolloutResult]:
        """See `RolloutEngine`; prompts are decoded together, `max_num_seqs` responses at a time."""
        results: dict[int, RolloutResult] = {}
        turns = _turns([prompt.sample.sample_id for prompt in prompts])
        ready: list[tuple[int, EncodedPrompt]] = []
        for number, prompt in enumerate(prompts):
            if n[number] < 1:
                results[number] = RolloutResult(sample_id=prompt.sample.sample_id)
                continue
            try:
                encoded = self._encoder.encode(prompt)
                self._check_length(prompt, encoded, sampling)
            except RolloutError as error:
                results[number] = RolloutResult(sample_id=prompt.sample.sample_id, error=str(error))
                continue
            ready.append((number, encoded))
        for chunk in _chunks(ready, [n[number] for number, _ in ready], self._config.max_num_seqs):
            rows = [(number, index) for number, _ in chunk for index in range(n[number])]
            seeds = [
                _row_seed(sampling.seed, prompts[number].sample.sample_id, turns[number], i)
                for number, i in rows
            ]
            counts = [n[number] for number, _ in chunk]
            decoded = self._decode([encoded for _, encoded in chunk], counts, seeds, sampling)
            for number, encoded in chunk:
                written = [row for (owner, _), row in zip(rows, decoded, strict=True) if owner == number]
                results[number] = self._result(prompts[number], encoded, written)
        return [results[number] for number in range(len(prompts))]

    def load_weights(self, weights: Iterable[tuple[str, Tensor]], version: int) -> None:
        """See `RolloutEngine`; nothing is cached between calls."""
        own = self._model.state_dict()
        with torch.no_grad():
            for name, tensor in weights:
                if name not in own:
                    raise RolloutError(f"weight {name!r} of the trainer does not exist in the engine's model")
                own[name].copy_(tensor)
        self.policy_version = version

    def close(self) -> None:
        """See `RolloutEngine`; responses that another thread is writing are cut off."""
        self._closed = True

    def _check_length(self, prompt: Prompt, encoded: EncodedPrompt, sampling: SamplingParams) -> None:
        total = len(encoded.input_ids) + sampling.max_tokens
        if total > self._config.max_model_len:
            raise RolloutError(
                f"sample {prompt.sample.sample_id}: {len(encoded.input_ids)} prompt tokens and up to "
                f"{sampling.max_tokens} of the response exceed rollout.max_model_len="
                f"{self._config.max_model_len}"
            )

    def _result(self, prompt: Prompt, encoded: EncodedPrompt, rows: Sequence[_Decoded]) -> RolloutResult:
        return RolloutResult(
            sample_id=prompt.sample.sample_id,
            prompt_token_ids=tuple(encoded.input_ids.tolist()),
            rollouts=tuple(
                Rollout(
                    token_ids=tuple(row.token_ids),
                    log_probs=tuple(row.log_probs),
                    finish_reason=row.finish_reason,
                    policy_version=self.policy_version,
                    text=self._encoder.decode(row.token_ids),
                    index=index,
                )
                for index, row in enumerate(rows)
            ),
        )

    @torch.inference_mode()
    def _decode(
        self,
        prompts: Sequence[EncodedPrompt],
        n: Sequence[int],
        seeds: Sequence[int],
        sampling: SamplingParams,
    ) -> list[_Decoded]:
        """One row for each response: prompts left-padded, read once, their cache repeated n times."""
        device = self._device
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        mask, outputs = self._prefill(prompts)
        repeats = torch.tensor(list(n), device=device)
        cache = outputs.past_key_values
        order = torch.arange(len(prompts), device=device).repeat_interleave(repeats)
        cache.reorder_cache(order)
        mask, logits = mask[order], outputs.logits[order, -1]
        last = torch.tensor([int(prompt.position_ids.max()) for prompt in prompts], device=device)[order]
        rows = [_Decoded() for _ in generators]
        for _ in range(sampling.max_tokens):
            if self._closed:
                raise RolloutError("the engine was closed while it wrote responses")
            tokens, log_probs = self._sample(logits, generators, sampling)
            for row, token, log_prob in zip(rows, tokens.tolist(), log_probs.tolist(), strict=True):
                row.append(token, log_prob, self._encoder.eos_token_ids)
            if all(row.finish_reason == "stop" for row in rows):
                break
            last = last + 1
            mask = torch.cat([mask, mask.new_ones(len(rows), 1)], dim=1)
            logits = self._model(
                input_ids=tokens.to(device).unsqueeze(1),
                attention_mask=mask,
                position_ids=last.view(1, -1, 1).expand(3, -1, 1),
                past_key_values=cache,
                use_cache=True,
            ).logits[:, -1]
        return rows

    def _prefill(self, prompts: Sequence[EncodedPrompt]) -> tuple[Tensor, Any]:
        longest = max(len(prompt.input_ids) for prompt in prompts)
        shape = (len(prompts), longest)
        input_ids = torch.full(shape, self._encoder.pad_token_id, dtype=torch.int64)
        mask = torch.zeros(shape, dtype=torch.int64)
        positions = torch.zeros((3, *shape), dtype=torch.int64)
        for row, prompt in enumerate(prompts):
            start = longest - len(prompt.input_ids)
            input_ids[row, start:] = prompt.input_ids
            positions[:, row, start:] = prompt.position_ids
            mask[row, start:] = 1
        media = {
            name: tensor.to(self._device) for name, tensor in join_media([p.media for p in prompts]).items()
        }
        mask = mask.to(self._device)
        outputs = self._model(
            input_ids=input_ids.to(self._device),
            attention_mask=mask,
            position_ids=positions.to(self._device),
            use_cache=True,
            logits_to_keep=1,
            **media,
        )
        return mask, outputs

    def _sample(
        self, logits: Tensor, generators: Sequence[torch.Generator], sampling: SamplingParams
    ) -> tuple[Tensor, Tensor]:
        """(token, ln p) of each row, both (B,) on the CPU."""
        biased = biased_logits(logits, self._encoder.media_token_ids).cpu()
        greedy = sampling.temperature == 0
        full = torch.log_softmax(biased / (1.0 if greedy else sampling.temperature), dim=-1)
        if greedy:
            tokens = full.argmax(-1)
        else:
            kept = truncate(full, top_p=sampling.top_p, top_k=sampling.top_k).exp()
            tokens = torch.cat(
                [torch.multinomial(row, 1, generator=own) for row, own in zip(kept, generators, strict=True)]
            )
        return tokens, full.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)


def truncate(log_probs: Tensor, *, top_p: float = 1.0, top_k: int = 0) -> Tensor:
    """`log_probs` (B, V), -inf outside the top_k tokens and the smallest set of probability top_p."""
    kept = log_probs
    if 0 < top_k < log_probs.shape[-1]:
        least = kept.topk(top_k, dim=-1).values[..., -1:]
        kept = kept.masked_fill(kept < least, float("-inf"))
    if top_p < 1.0:
        ordered, index = kept.sort(dim=-1, descending=True)
        probabilities = ordered.softmax(-1)
        outside = probabilities.cumsum(-1) - probabilities >= top_p
        kept = kept.masked_fill(torch.zeros_like(outside).scatter(-1, index, outside), float("-inf"))
    return kept


class _Decoded:
    """One response while it is written; tokens after its end are dropped."""

    __slots__ = ("finish_reason", "log_probs", "token_ids")

    def __init__(self) -> None:
        self.token_ids: list[int] = []
        self.log_probs: list[float] = []
        self.finish_reason = "length"

    def append(self, token: int, log_prob: float, eos: Sequence[int]) -> None:
        if self.finish_reason == "stop":
            return
        self.token_ids.append(token)
        self.log_probs.append(log_prob)
        if token in eos:
            self.finish_reason = "stop"


def _turns(sample_ids: Sequence[str]) -> list[int]:
    """How often each sample came up before in this call: its second group must not repeat the first.

    >>> _turns(["a", "b", "a"])
    [0, 0, 1]
    """
    seen: Counter[str] = Counter()
    turns = []
    for sample_id in sample_ids:
        turns.append(seen[sample_id])
        seen[sample_id] += 1
    return turns


def _row_seed(seed: int, sample_id: str, turn: int, index: int) -> int:
    """A seed for one response, the same whatever else is generated beside it."""
    text = f"{seed}\x00{sample_id}\x00{turn}\x00{index}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=7).digest(), "big")


def _chunks(
    items: Sequence[tuple[int, EncodedPrompt]], sizes: Sequence[int], limit: int
) -> list[list[tuple[int, EncodedPrompt]]]:
    """Consecutive items whose sizes add up to at most `limit`; one item alone may exceed it."""
    chunks: list[list[tuple[int, EncodedPrompt]]] = []
    total = 0
    for item, size in zip(items, sizes, strict=True):
        if not chunks or total + size > limit:
            chunks.append([])
            total = 0
        chunks[-1].append(item)
        total += size
    return chunks

"""The transformers engine: greedy as `generate`, exact log-probs, repeatable sampling, failures alone."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from tests.train.colour_clips import make_clip, make_sample
from vrldata.errors import ConfigError, RolloutError
from vrldata.model_inputs import processor_media
from vrltrain.batching import model_batch
from vrltrain.configs import RolloutConfig
from vrltrain.inputs import Prompt, PromptEncoder, load_encoder
from vrltrain.policy import Policy, load_policy
from vrltrain.rollout import RolloutEngine, make_engine
from vrltrain.rollout_transformers import truncate
from vrltrain.types import SamplingParams

CONFIG = RolloutConfig(
    engine="transformers", max_model_len=512, max_num_seqs=12, max_tokens=16, dtype="float32"
)


@pytest.fixture(scope="module")
def encoder(tiny_model: Path) -> PromptEncoder:
    return load_encoder(tiny_model)


@pytest.fixture(scope="module")
def engine(tiny_model: Path, encoder: PromptEncoder) -> Iterator[RolloutEngine]:
    engine = make_engine(CONFIG, encoder, tiny_model)
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def policy(tiny_model: Path, encoder: PromptEncoder) -> Policy:
    return load_policy(tiny_model, encoder.media_token_ids)


def prompts_of(encoder: PromptEncoder) -> list[Prompt]:
    media = [
        [make_clip(num_frames=4)],
        [make_clip("a", num_frames=6, colour="blue"), make_clip("b", num_frames=2, colour="green")],
        [make_clip(num_frames=1, kind="image")],
        [],
    ]
    return [encoder.prompt(make_sample(f"s{number}"), clips) for number, clips in enumerate(media)]


def greedy_by_generate(policy: Policy, encoder: PromptEncoder, prompt: Prompt, max_tokens: int) -> list[int]:
    """Greedy tokens of transformers' own generation, end token included."""
    features = encoder.processor(text=[prompt.text], return_tensors="pt", **processor_media(prompt.clips))
    with torch.no_grad():
        out = policy.model.generate(
            **features,
            max_new_tokens=max_tokens,
            do_sample=False,
            suppress_tokens=list(encoder.media_token_ids),
        )
    return [int(token) for token in out[0, features["input_ids"].shape[1] :]]


def test_greedy_tokens_are_those_of_generate(
    engine: RolloutEngine, encoder: PromptEncoder, policy: Policy
) -> None:
    prompts = prompts_of(encoder)
    results = engine.generate(prompts, [1] * 4, SamplingParams(temperature=0.0, max_tokens=16))
    for prompt, result in zip(prompts, results, strict=True):
        assert list(result.rollouts[0].token_ids) == greedy_by_generate(policy, encoder, prompt, 16)


def test_log_probs_are_the_policys_at_the_sampling_temperature(
    engine: RolloutEngine, encoder: PromptEncoder, policy: Policy
) -> None:
    prompts = prompts_of(encoder)
    results = engine.generate(prompts, [3] * 4, SamplingParams(temperature=0.7, top_k=20, max_tokens=16))
    for prompt, result in zip(prompts, results, strict=True):
        rows = [rollout.token_ids for rollout in result.rollouts]
        batch = model_batch([encoder.encode(prompt)] * 3, rows, pad_token_id=0, temperature=0.7)
        log_probs = policy(batch)[0].detach()
        for row, rollout in enumerate(result.rollouts):
            assert log_probs[row, : len(rollout.token_ids)].tolist() == pytest.approx(
                rollout.log_probs, abs=1e-4
            )


def test_the_same_seed_draws_the_same_responses_whatever_stands_beside_them(
    engine: RolloutEngine, encoder: PromptEncoder
) -> None:
    prompts = prompts_of(encoder)
    together = engine.generate(prompts, [4] * 4, SamplingParams(max_tokens=8, seed=5))
    alone = engine.generate(prompts[1:2], [4], SamplingParams(max_tokens=8, seed=5))
    other = engine.generate(prompts[1:2], [4], SamplingParams(max_tokens=8, seed=6))
    tokens = [
        [rollout.token_ids for rollout in result.rollouts] for result in (together[1], alone[0], other[0])
    ]
    assert tokens[0] == tokens[1]
    assert tokens[0] != tokens[2]


def test_the_same_question_twice_gets_two_different_groups(
    engine: RolloutEngine, encoder: PromptEncoder
) -> None:
    prompt = prompts_of(encoder)[0]
    first, second = engine.generate([prompt, prompt], [6, 6], SamplingParams(max_tokens=8))
    assert [r.token_ids for r in first.rollouts] != [r.token_ids for r in second.rollouts]


def test_a_response_ends_with_its_end_token_or_at_the_limit(
    engine: RolloutEngine, encoder: PromptEncoder
) -> None:
    results = engine.generate(prompts_of(encoder), [8] * 4, SamplingParams(max_tokens=4))
    for rollout in (rollout for result in results for rollout in result.rollouts):
        assert len(rollout.token_ids) <= 4
        ended = rollout.token_ids[-1] in encoder.eos_token_ids
        assert rollout.finish_reason == ("stop" if ended else "length")
        assert not set(rollout.token_ids) & set(encoder.media_token_ids)


def test_a_prompt_that_is_too_long_fails_alone(tiny_model: Path, encoder: PromptEncoder) -> None:
    engine = make_engine(CONFIG.model_copy(update={"max_model_len": 120}), encoder, tiny_model)
    short, long = prompts_of(encoder)[3], encoder.prompt(make_sample("long"), [make_clip(num_frames=16)])
    results = engine.generate([long, short], [2, 2], SamplingParams(max_tokens=16))
    assert "max_model_len=120" in results[0].error
    assert results[0].rollouts == ()
    assert len(results[1].rollouts) == 2


def test_after_a_sync_greedy_tokens_are_those_of_the_trainers_model(
    tiny_model: Path, encoder: PromptEncoder
) -> None:
    engine = make_engine(CONFIG, encoder, tiny_model)
    trainer = load_policy(tiny_model, encoder.media_token_ids)
    prompts = prompts_of(encoder)
    greedy = SamplingParams(temperature=0.0, max_tokens=16)
    before = engine.generate(prompts, [1] * 4, greedy)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in trainer.parameters():
            weight.add_(torch.randn(weight.shape, generator=generator) * 0.08)
    engine.load_weights(trainer.model.state_dict().items(), 3)
    after = engine.generate(prompts, [1] * 4, greedy)
    for prompt, result in zip(prompts, after, strict=True):
        assert list(result.rollouts[0].token_ids) == greedy_by_generate(trainer, encoder, prompt, 16)
        assert result.rollouts[0].policy_version == 3
    assert [r.rollouts[0].token_ids for r in before] != [r.rollouts[0].token_ids for r in after]


def test_truncation_keeps_the_most_likely_tokens() -> None:
    log_probs = torch.log(torch.tensor([[0.5, 0.3, 0.15, 0.05]]))
    assert torch.isfinite(truncate(log_probs, top_k=2)).tolist() == [[True, True, False, False]]
    assert torch.isfinite(truncate(log_probs, top_p=0.6)).tolist() == [[True, True, False, False]]
    assert torch.isfinite(truncate(log_probs, top_p=0.4)).tolist() == [[True, False, False, False]]


def test_an_unknown_engine_is_an_error_that_lists_the_known(tiny_model: Path, encoder: PromptEncoder) -> None:
    with pytest.raises(ConfigError, match=r"rollout.engine='vlm'.*Did you mean 'vllm'.*transformers"):
        make_engine(CONFIG.model_copy(update={"engine": "vlm"}), encoder, tiny_model)


def test_a_closed_engine_stops_what_another_thread_waits_for(
    tiny_model: Path, encoder: PromptEncoder
) -> None:
    config = RolloutConfig(engine="transformers", max_model_len=100_000, max_tokens=90_000, dtype="float32")
    engine = make_engine(config, encoder, tiny_model)
    prompts = prompts_of(encoder)[:1]
    endless = SamplingParams(max_tokens=90_000, temperature=100.0)
    with ThreadPoolExecutor(max_workers=1) as threads:
        written = threads.submit(engine.generate, prompts, [64], endless)
        engine.close()
        with pytest.raises(RolloutError, match="was closed"):
            written.result(timeout=60)

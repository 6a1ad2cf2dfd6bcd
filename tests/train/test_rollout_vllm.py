"""The vLLM engine against the trainer's model: tokens, log-probs, weight sync, and failures alone."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.train.colour_clips import make_clip, make_sample
from tests.train.test_rollout import greedy_by_generate, prompts_of
from vrldata.model_inputs import normalises_alike
from vrltrain.batching import model_batch
from vrltrain.configs import RolloutConfig
from vrltrain.inputs import PromptEncoder, load_encoder
from vrltrain.policy import Policy, load_policy
from vrltrain.rollout import RolloutEngine, make_engine
from vrltrain.types import RolloutResult, SamplingParams

pytest.importorskip("vllm")
pytestmark = pytest.mark.engine

CONFIG = RolloutConfig(
    engine="vllm",
    max_model_len=512,
    max_num_seqs=32,
    max_num_batched_tokens=128,
    max_tokens=16,
    dtype="float32",
)


@pytest.fixture(scope="module")
def encoder(tiny_model: Path) -> PromptEncoder:
    return load_encoder(tiny_model)


@pytest.fixture(scope="module")
def engine(tiny_model: Path, encoder: PromptEncoder) -> Iterator[RolloutEngine]:
    engine = make_engine(CONFIG, encoder, tiny_model)
    yield engine
    engine.close()


def largest_difference(
    policy: Policy, encoder: PromptEncoder, prompt: object, result: RolloutResult
) -> float:
    """Largest gap between the engine's and the policy's log-probs of the tokens that the engine wrote."""
    rows = [rollout.token_ids for rollout in result.rollouts]
    encoded = encoder.encode(prompt)  # type: ignore[arg-type]
    assert list(result.prompt_token_ids) == encoded.input_ids.tolist()
    log_probs = policy(model_batch([encoded] * len(rows), rows, pad_token_id=0, temperature=0.7))[0].detach()
    gaps = [
        (log_probs[row, : len(rollout.token_ids)] - torch.tensor(rollout.log_probs)).abs().max()
        for row, rollout in enumerate(result.rollouts)
    ]
    return float(torch.stack(gaps).max())


def test_engine_and_trainer_agree_before_and_after_a_weight_sync(
    engine: RolloutEngine, tiny_model: Path, encoder: PromptEncoder
) -> None:
    trainer = load_policy(tiny_model, encoder.media_token_ids)
    prompts = prompts_of(encoder)
    greedy, sampled = (
        SamplingParams(temperature=0.0, max_tokens=16),
        SamplingParams(temperature=0.7, max_tokens=16),
    )
    generator = torch.Generator().manual_seed(1)
    for version in range(3):
        for prompt, result in zip(prompts, engine.generate(prompts, [1] * 4, greedy), strict=True):
            assert list(result.rollouts[0].token_ids) == greedy_by_generate(trainer, encoder, prompt, 16)
            assert result.rollouts[0].policy_version == version
        for prompt, result in zip(prompts, engine.generate(prompts, [4] * 4, sampled), strict=True):
            assert largest_difference(trainer, encoder, prompt, result) < 1e-4
        with torch.no_grad():
            for weight in trainer.parameters():
                weight.add_(torch.randn(weight.shape, generator=generator) * 0.05)
        engine.load_weights(trainer.model.state_dict().items(), version + 1)


def test_a_prompt_that_is_too_long_fails_alone(engine: RolloutEngine, encoder: PromptEncoder) -> None:
    long = encoder.prompt(make_sample("long"), [make_clip(num_frames=120, height=64, width=64)])
    short = prompts_of(encoder)[3]
    results = engine.generate([long, short], [2, 2], SamplingParams(max_tokens=8))
    assert results[0].error
    assert results[0].rollouts == ()
    assert len(results[1].rollouts) == 2


@pytest.mark.slow
@pytest.mark.parametrize("family", ["tiny_qwen2_5", "tiny_qwen2"])
def test_older_families_agree_on_clips_of_many_moments(family: str, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(family)
    encoder = load_encoder(folder)
    policy = load_policy(folder, encoder.media_token_ids)
    clips = [
        make_clip("long", num_frames=24, height=56, width=84),
        make_clip("b", num_frames=4, height=56, width=56),
    ]
    prompts = [encoder.prompt(make_sample("video"), clips), encoder.prompt(make_sample("text"))]
    engine = make_engine(CONFIG, encoder, folder)
    try:
        results = engine.generate(prompts, [4, 4], SamplingParams(temperature=0.7, max_tokens=16))
    finally:
        engine.close()
    for prompt, result in zip(prompts, results, strict=True):
        assert largest_difference(policy, encoder, prompt, result) < 1e-4


@pytest.mark.slow
def test_videos_are_normalised_by_the_video_processor_where_the_two_differ(
    tiny_model: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(tiny_model, tmp_path / "model"))
    for file in folder.glob("*processor_config.json"):
        values = json.loads(file.read_text())
        for part in (values, values.get("video_processor", {})):
            if "Video" in str(part.get("video_processor_type", "")):
                part |= {"image_mean": [0.1, 0.3, 0.7], "image_std": [0.2, 0.4, 0.3]}
        file.write_text(json.dumps(values))
    encoder = load_encoder(folder)
    assert not normalises_alike(encoder.processor)
    policy = load_policy(folder, encoder.media_token_ids)
    clips = [make_clip("v", num_frames=6), make_clip("i", num_frames=1, kind="image")]
    prompt = encoder.prompt(make_sample(), clips)
    engine = make_engine(CONFIG, encoder, folder)
    try:
        (result,) = engine.generate([prompt], [4], SamplingParams(temperature=0.7, max_tokens=16))
    finally:
        engine.close()
    assert largest_difference(policy, encoder, prompt, result) < 1e-4


@pytest.mark.slow
def test_an_engine_that_was_killed_starts_again_with_the_latest_weights(
    tiny_model: Path, encoder: PromptEncoder
) -> None:
    engine = make_engine(CONFIG, encoder, tiny_model)
    trainer = load_policy(tiny_model, encoder.media_token_ids)
    prompts = prompts_of(encoder)
    try:
        with torch.no_grad():
            for weight in trainer.parameters():
                weight.mul_(1.1)
        engine.load_weights(trainer.model.state_dict().items(), 1)
        for child in multiprocessing.active_children():
            assert child.pid is not None
            os.kill(child.pid, signal.SIGKILL)
        results = engine.generate(prompts, [1] * 4, SamplingParams(temperature=0.0, max_tokens=16))
        for prompt, result in zip(prompts, results, strict=True):
            assert list(result.rollouts[0].token_ids) == greedy_by_generate(trainer, encoder, prompt, 16)
    finally:
        engine.close()

"""Log-probabilities: against transformers' own logits, alone and in batches, with and without pictures."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.train.colour_clips import make_clip, make_sample
from vrldata.model_inputs import processor_media
from vrltrain.batching import empty_batch, micro_batches, model_batch, plan_micro_batches
from vrltrain.inputs import EncodedPrompt, PromptEncoder, load_encoder
from vrltrain.policy import Policy, ReferenceStates, biased_logits, load_policy, reference_head

RESPONSES = [[10, 20, 30, 40], [11], [7, 8, 9]]


@pytest.fixture(scope="module")
def encoder(tiny_model: Path) -> PromptEncoder:
    return load_encoder(tiny_model)


@pytest.fixture(scope="module")
def policy(tiny_model: Path, encoder: PromptEncoder) -> Policy:
    return load_policy(tiny_model, encoder.media_token_ids)


@pytest.fixture(scope="module")
def prompts(encoder: PromptEncoder) -> list[EncodedPrompt]:
    media = [
        [make_clip(num_frames=6)],
        [],
        [make_clip(num_frames=1, kind="image"), make_clip("b", num_frames=2)],
    ]
    return [encoder.encode(encoder.prompt(make_sample(), clips)) for clips in media]


def test_log_probs_are_those_of_the_models_own_logits(
    tiny_model: Path, encoder: PromptEncoder, policy: Policy
) -> None:
    clips = [make_clip(num_frames=4)]
    prompt = encoder.prompt(make_sample(), clips)
    features = encoder.processor(text=[prompt.text], return_tensors="pt", **processor_media(clips))
    response = torch.tensor([[10, 20, 30]])
    inputs = dict(features)
    inputs["input_ids"] = torch.cat([features["input_ids"], response], dim=1)
    inputs["mm_token_type_ids"] = torch.cat([features["mm_token_type_ids"], torch.zeros(1, 3).int()], dim=1)
    inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
    logits = policy.model(**inputs).logits[0, -4:-1]
    logits[:, list(encoder.media_token_ids)] -= 100
    expected = torch.log_softmax(logits / 0.7, dim=-1)
    batch = model_batch([encoder.encode(prompt)], [[10, 20, 30]], pad_token_id=0, temperature=0.7)
    log_probs, entropy = policy(batch)
    assert torch.allclose(log_probs[0], expected[torch.arange(3), response[0]], atol=1e-5)
    assert torch.allclose(entropy[0], -(expected.exp() * expected).sum(-1), atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_full_kl_is_that_of_the_two_whole_distributions(
    tiny_model: Path,
    encoder: PromptEncoder,
    policy: Policy,
    prompts: list[EncodedPrompt],
    monkeypatch: pytest.MonkeyPatch,
    dtype: torch.dtype,
) -> None:
    reference = load_policy(tiny_model, encoder.media_token_ids).requires_grad_(False)
    with torch.no_grad():
        for weight in reference.parameters():
            weight.mul_(0.9)
    batch = model_batch(prompts, RESPONSES, pad_token_id=0, temperature=0.7)
    states = [model.response_states(batch) for model in (policy, reference)]
    heads = [reference_head(model) for model in (policy, reference)]
    of_policy, of_reference = (
        torch.distributions.Categorical(logits=biased_logits(hidden @ head.T, encoder.media_token_ids) / 0.7)
        for hidden, head in zip(states, heads, strict=True)
    )
    expected = torch.distributions.kl_divergence(of_policy, of_reference)
    given = ReferenceStates(hidden=states[1].to(dtype), head=heads[1])
    tolerance = 1e-5 if dtype == torch.float32 else 0.05
    for chunk_tokens in (1024, 5, 4):  # the last one divides the 12 positions: all are recomputed
        monkeypatch.setattr("vrltrain.policy.CHUNK_TOKENS", chunk_tokens)
        kl = policy(batch, reference=given)[2]
        assert torch.allclose(kl, expected, atol=tolerance, rtol=tolerance)
        found, wanted = (
            torch.autograd.grad(value.sum(), policy.model.lm_head.weight, retain_graph=True)[0]
            for value in (kl, expected)
        )
        assert torch.allclose(found, wanted, atol=tolerance * 10)


def test_full_kl_to_itself_is_zero(policy: Policy, prompts: list[EncodedPrompt]) -> None:
    batch = model_batch(prompts, RESPONSES, pad_token_id=0)
    with torch.no_grad():
        states = ReferenceStates(hidden=policy.response_states(batch), head=reference_head(policy))
        log_probs, entropy, kl = policy(batch, reference=states)
        plain = policy(batch)
    assert torch.allclose(kl, torch.zeros_like(kl), atol=1e-6)
    assert torch.equal(log_probs, plain[0])
    assert torch.equal(entropy, plain[1])


def test_a_row_has_the_same_log_probs_alone_and_in_a_batch(
    policy: Policy, encoder: PromptEncoder, prompts: list[EncodedPrompt]
) -> None:
    together, _ = policy(model_batch(prompts, RESPONSES, pad_token_id=encoder.pad_token_id))
    for row, (prompt, response) in enumerate(zip(prompts, RESPONSES, strict=True)):
        alone, _ = policy(model_batch([prompt], [response], pad_token_id=encoder.pad_token_id))
        assert torch.allclose(together[row, : len(response)], alone[0], atol=1e-5)


def test_another_video_changes_the_log_probs(policy: Policy, encoder: PromptEncoder) -> None:
    rows = [
        encoder.encode(encoder.prompt(make_sample(), [make_clip(colour=colour)]))
        for colour in ("red", "white")
    ]
    log_probs, _ = policy(model_batch(rows, [[10, 20]] * 2, pad_token_id=0))
    assert float((log_probs[0] - log_probs[1]).detach().abs().max()) > 1e-3


def test_media_tokens_have_no_probability(
    policy: Policy, encoder: PromptEncoder, prompts: list[EncodedPrompt]
) -> None:
    marks = [encoder.config.vision_start_token_id, encoder.config.vision_end_token_id]
    batch = model_batch(prompts[:1], [marks], pad_token_id=0)
    assert float(policy(batch)[0].detach().max()) < -80


def test_a_blank_picture_changes_nothing_but_reaches_every_vision_weight(
    policy: Policy, encoder: PromptEncoder, prompts: list[EncodedPrompt]
) -> None:
    batch = model_batch(prompts[1:2], [[10, 20]], pad_token_id=0)
    plain, _ = policy(batch)
    blank, _ = policy(batch, run_vision=True)
    assert torch.equal(plain, blank)
    policy.zero_grad()
    blank.sum().backward()
    assert all(weight.grad is not None for weight in policy.model.model.visual.parameters())
    assert all(float(weight.grad.abs().max()) == 0 for weight in policy.model.model.visual.parameters())


def test_an_empty_batch_runs(policy: Policy) -> None:
    log_probs, _ = policy(empty_batch(0), run_vision=True)
    assert log_probs.shape == (1, 1)


def test_micro_batches_keep_the_token_limit() -> None:
    lengths = [60, 60, 60, 20, 70, 5, 5, 5, 200]
    parts = micro_batches(lengths, 140)
    assert sorted(row for part in parts for row in part) == list(range(9))
    for part in parts:
        assert len(part) == 1 or len(part) * max(lengths[row] for row in part) <= 140


def test_every_rank_has_as_many_micro_batches_and_groups_stay_together() -> None:
    groups = [[0, 1], [2, 3], [4, 5]]
    plan = plan_micro_batches(groups, [10, 10, 50, 50, 5, 5], max_tokens=60, num_ranks=2)
    ranks = [[row for parts in plan for row in parts[rank]] for rank in range(2)]
    assert all(len(parts) == 2 for parts in plan)
    assert sorted(ranks[0] + ranks[1]) == [0, 1, 2, 3, 4, 5]
    for group in groups:
        assert any(set(group) <= set(rank) for rank in ranks)

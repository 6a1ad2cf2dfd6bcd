"""The critic: what its values see, its steps against finite differences, and its figures."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.train import references
from tests.train.colour_clips import run_values
from tests.train.one_update import MEDIA, groups_of
from vrldata.config import validate_config
from vrldata.errors import ConfigError
from vrltrain.batch import train_batch
from vrltrain.batching import model_batch
from vrltrain.configs import RunConfig
from vrltrain.critic import Critic, load_critic
from vrltrain.critic_update import CriticLearner, ValueTargets, all_values, critic_update
from vrltrain.distributed import Ranks
from vrltrain.inputs import PromptEncoder, load_encoder
from vrltrain.step_rows import StepRows

CPU = Ranks(rank=0, world_size=1, device=torch.device("cpu"))
CASE = "mixed"


@pytest.fixture(scope="module")
def encoder(tiny_model: Path) -> PromptEncoder:
    return load_encoder(tiny_model)


@pytest.fixture(scope="module")
def trained_head(tiny_model: Path) -> Critic:
    """A critic whose head is no longer 0."""
    critic = load_critic(tiny_model)
    torch.manual_seed(0)
    torch.nn.init.normal_(critic.model.value_head.weight, std=0.2)
    return critic


def step_rows(encoder: PromptEncoder, model: Path, *, max_tokens: int = 250, **changes: object) -> StepRows:
    groups = groups_of(CASE)
    prompts = [
        encoder.encode(encoder.prompt(group.sample, clips))
        for group, clips in zip(groups, MEDIA[CASE], strict=True)
    ]
    values = run_values(
        Path("none"),
        model,
        Path("none"),
        algorithm={"adv_estimator": "gae"},
        update={"max_tokens_per_micro_batch": max_tokens},
        **changes,
    )
    return StepRows(
        config=validate_config(RunConfig, values, source="test"),
        ranks=CPU,
        batch=train_batch(groups),
        encode=prompts.__getitem__,
        pad_token_id=encoder.pad_token_id,
    )


def targets_of(rows: StepRows, values: Tensor) -> ValueTargets:
    generator = torch.Generator().manual_seed(3)
    return ValueTargets.of(rows.batch, values, torch.rand(values.shape, generator=generator))


def test_a_new_critic_values_everything_at_zero(tiny_model: Path, encoder: PromptEncoder) -> None:
    rows = step_rows(encoder, tiny_model)
    values = all_values(load_critic(tiny_model), rows)
    assert values.shape == rows.batch.response_mask.shape
    assert not bool(values.any())


def test_a_value_sees_the_tokens_before_it_and_no_later_ones(
    encoder: PromptEncoder, trained_head: Critic
) -> None:
    prompt = encoder.encode(encoder.prompt(groups_of(CASE)[0].sample, MEDIA[CASE][0]))
    rows = [[10, 20, 30, 40], [10, 20, 99, 40]]
    values = trained_head(model_batch([prompt, prompt], rows, pad_token_id=0)).detach()
    torch.testing.assert_close(values[0, :3], values[1, :3])
    assert abs(float(values[0, 3] - values[1, 3])) > 1e-4


def test_a_row_has_the_same_values_alone_and_in_a_batch(
    tiny_model: Path, encoder: PromptEncoder, trained_head: Critic
) -> None:
    together = all_values(trained_head, step_rows(encoder, tiny_model, max_tokens=100_000))
    alone = all_values(trained_head, step_rows(encoder, tiny_model, max_tokens=1))
    inside = step_rows(encoder, tiny_model).batch.response_mask != 0
    torch.testing.assert_close(together[inside], alone[inside], atol=1e-5, rtol=1e-4)


def test_the_step_follows_finite_differences_of_the_loss(
    tiny_model: Path, encoder: PromptEncoder, trained_head: Critic
) -> None:
    rows = step_rows(encoder, tiny_model, critic={"optim": {"lr": 1.0, "max_grad_norm": 1e9}})
    critic = copy.deepcopy(trained_head)
    before = {name: weight.detach().clone() for name, weight in critic.named_parameters()}
    targets = targets_of(rows, all_values(critic, rows))
    learner = CriticLearner(critic=critic, optimizer=torch.optim.SGD(critic.parameters(), lr=1.0))
    figures = critic_update(learner, rows, targets)
    gradient = {name: before[name] - weight.detach() for name, weight in critic.named_parameters()}

    def loss_at(distance: float) -> float:
        with torch.no_grad():
            for name, weight in critic.named_parameters():
                weight.copy_(before[name] + distance * gradient[name])
        values, mask = all_values(critic, rows).tolist(), targets.mask.tolist()
        tokens = references.value_losses(values, targets.returns.tolist(), targets.values.tolist(), mask, 0.5)
        return references.aggregate(tokens, mask, "token", 1)

    size = sum(float((part.double() ** 2).sum()) for part in gradient.values())
    slope = (loss_at(1e-3) - loss_at(-1e-3)) / 2e-3
    assert slope == pytest.approx(size, rel=1e-2)
    assert figures["critic/loss"] == pytest.approx(loss_at(0.0), rel=1e-5)
    assert figures["critic/grad_norm"] == pytest.approx(size**0.5, rel=1e-4)
    assert float(gradient["model.model.visual.patch_embed.proj.weight"].abs().max()) > 0


def test_the_gradient_does_not_depend_on_the_size_of_micro_batches(
    tiny_model: Path, encoder: PromptEncoder, trained_head: Critic
) -> None:
    norms = []
    for limit in (100_000, 200, 1):
        rows = step_rows(encoder, tiny_model, max_tokens=limit)
        critic = copy.deepcopy(trained_head)
        learner = CriticLearner(critic=critic, optimizer=torch.optim.SGD(critic.parameters(), lr=0.0))
        figures = critic_update(learner, rows, targets_of(rows, all_values(critic, rows)))
        norms.append(figures["critic/grad_norm"])
    assert norms == pytest.approx([norms[0]] * 3, rel=1e-4)


def test_many_steps_teach_the_critic_the_returns(tiny_model: Path, encoder: PromptEncoder) -> None:
    rows = step_rows(encoder, tiny_model, critic={"optim": {"lr": 5e-3}}, algorithm__cliprange_value=5.0)
    critic = load_critic(tiny_model)
    learner = CriticLearner(critic=critic, optimizer=torch.optim.AdamW(critic.parameters()))
    explained = []
    for _ in range(25):
        values = all_values(critic, rows)
        figures = critic_update(learner, rows, targets_of(rows, values))
        explained.append(figures["critic/explained_variance"])
    assert learner.num_batches == learner.optimizer_steps == 25
    assert explained[0] == pytest.approx(0.0)
    assert explained[-1] > 0.6


def test_explained_variance_equals_a_plain_loop_and_ignores_masked_tokens() -> None:
    generator = torch.Generator().manual_seed(1)
    values, returns = torch.rand(2, 3, 4, generator=generator).double()
    mask = torch.tensor([[1, 1, 1, 0], [1, 0, 0, 0], [1, 1, 0, 0]])
    expected = references.explained_variance(values.tolist(), returns.tolist(), mask.tolist())
    dirty = ValueTargets(
        mask=mask,
        values=values.masked_fill(mask == 0, float("nan")),
        returns=returns.masked_fill(mask == 0, float("nan")),
    )
    assert dirty.metrics()["critic/explained_variance"] == pytest.approx(expected)


def test_stored_trajectories_and_unscored_rows_are_no_targets(
    tiny_model: Path, encoder: PromptEncoder
) -> None:
    batch = step_rows(encoder, tiny_model).batch
    batch.offline_row[0] = 1
    batch.valid[1] = False
    zeros = torch.zeros_like(batch.token_level_rewards)
    mask = ValueTargets.of(batch, zeros, zeros).mask
    assert not bool(mask[:2].any())
    assert torch.equal(mask[2:], batch.response_mask[2:])


def test_a_folder_without_a_model_is_an_error_that_names_the_key(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"critic\.path="):
        load_critic(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"critic": {"warmup_steps": 1}}, "has no critic"),
        ({"algorithm": {"preset": "ppo"}, "critic": {"warmup_steps": 2}}, "must be below steps"),
    ],
)
def test_a_critic_that_contradicts_the_config_is_an_error(changes: dict[str, object], message: str) -> None:
    values = run_values(Path("d"), Path("m"), Path("r"), **changes)
    with pytest.raises(ConfigError, match=message):
        validate_config(RunConfig, values, source="run.yaml")

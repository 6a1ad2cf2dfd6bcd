"""The curriculum by pass rate: orders, weights, and the reader that a run draws its questions from."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import vrldata
from vrldata.commits import merge_rows
from vrldata.errors import ConfigError, StoreError
from vrldata.tables import sample_to_row
from vrldata.types import Sample
from vrltrain.configs import CurriculumConfig, DataConfig
from vrltrain.curriculum import CurriculumReader, curriculum_order, curriculum_weights
from vrltrain.prompts import PromptStream

RATES = [0.9, 0.1, 0.5, 1.0, 0.0, 0.3, 0.7, None]


@pytest.fixture(scope="module")
def rated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight questions of text alone with pass rates, and one of another split."""
    root = tmp_path_factory.mktemp("rated") / "data"
    samples = [
        Sample(
            sample_id=f"s{number}",
            problem="?",
            answer="A",
            problem_type="multiple_choice",
            options=("a", "b"),
            data_type="text",
            pass_rate=rate,
            split="train",
        )
        for number, rate in enumerate(RATES)
    ]
    merge_rows(vrldata.create(root), "samples", [sample_to_row(sample) for sample in samples])
    return root


def reader(root: Path, **options: object) -> CurriculumReader:
    return CurriculumReader(
        vrldata.open(root),
        CurriculumConfig(**options),
        seed=0,
        split="train",  # type: ignore[arg-type]
    )


@given(rates=st.lists(st.none() | st.floats(0, 1), max_size=30), seed=st.integers(0, 100))
def test_order_goes_from_easy_to_hard_and_loses_nobody(rates: list[float | None], seed: int) -> None:
    order = curriculum_order(rates, seed=seed)
    assert sorted(order) == list(range(len(rates)))
    assert order == curriculum_order(rates, seed=seed)
    buckets = [min(int(rates[row] * 5), 4) for row in order if rates[row] is not None]  # type: ignore[operator]
    assert buckets == sorted(buckets, reverse=True)


def test_weights_move_from_easy_to_hard() -> None:
    early, late = (curriculum_weights([0.9, 0.2, None], progress) for progress in (0.0, 1.0))
    assert early[0] > early[1]
    assert late[0] < late[1]
    assert early[2] == pytest.approx((early[0] + early[1]) / 2)
    assert min(curriculum_weights([0.0], 0.0, width=0.01)) == 0.05


def test_each_epoch_gives_every_question_from_easy_to_hard(rated: Path) -> None:
    rows = reader(rated, by="order", buckets=4)
    epochs = []
    for _ in range(2):
        epochs.append([row["sample_id"] for row in rows])
        rows.next_epoch()
    for epoch in epochs:
        assert sorted(epoch) == sorted(f"s{number}" for number in range(8))
        known = [RATES[int(name[1:])] for name in epoch if name != "s7"]
        classes = [min(int(rate * 4), 3) for rate in known]  # type: ignore[operator]
        assert classes == sorted(classes, reverse=True)
    assert epochs[0] != epochs[1]


def test_draws_begin_with_easy_questions_and_end_with_hard_ones(rated: Path) -> None:
    rows = reader(rated, by="weights", num_samples=640, start=1.0, end=0.0, width=0.1, floor=0.01)
    drawn: list[float] = []
    while len(drawn) < 800:
        drawn += [row["pass_rate"] for row in rows if row["pass_rate"] is not None]
        rows.next_epoch()
    assert sum(drawn[:60]) / 60 > 0.7
    assert sum(drawn[-100:]) / 100 < 0.3


@pytest.mark.parametrize("by", ["order", "weights"])
def test_a_position_that_was_saved_goes_on_as_if_nothing_had_happened(rated: Path, by: str) -> None:
    config = DataConfig(train=str(rated), curriculum=CurriculumConfig(by=by))  # type: ignore[arg-type]
    whole = PromptStream(vrldata.open(rated), config, seed=3)
    expected = [sample.sample_id for sample, _ in whole.take(21)]
    first = PromptStream(vrldata.open(rated), config, seed=3)
    found = [sample.sample_id for sample, _ in first.take(5)]
    later = PromptStream(vrldata.open(rated), config, seed=3)
    later.load_state_dict(first.state_dict())
    found += [sample.sample_id for sample, _ in later.take(16)]
    assert found == expected


def test_a_position_over_other_samples_is_an_error(rated: Path) -> None:
    state = reader(rated, by="order").state_dict()
    with pytest.raises(StoreError, match="another order"):
        reader(Path(f"{rated}?filter=pass_rate > 0.4"), by="order").load_state_dict(state)


def test_a_dataset_without_pass_rates_is_an_error_that_says_how_to_get_them(colour_dataset: Path) -> None:
    with pytest.raises(ConfigError, match=r"no sample of .* has a pass_rate; run `vrltrain rollouts`"):
        reader(colour_dataset, by="order")

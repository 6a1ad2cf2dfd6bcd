"""Tiny models: what is made is deterministic, complete and able to write answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from vrldata.errors import ConfigError
from vrltrain.inputs import load_encoder
from vrltrain.tiny_model import make_tiny_model


def test_the_same_seed_gives_the_same_files_and_another_seed_other_weights(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        make_tiny_model(tmp_path / name, seed=seed, warm_up_steps=2)
    a, b, c = (tmp_path / name for name in "abc")
    for file in ("model.safetensors", "tokenizer.json", "config.json"):
        assert (a / file).read_bytes() == (b / file).read_bytes()
    assert (a / "tokenizer.json").read_bytes() == (c / "tokenizer.json").read_bytes()
    assert (a / "model.safetensors").read_bytes() != (c / "model.safetensors").read_bytes()


@pytest.mark.parametrize("family", ["qwen3-vl", "qwen2.5-vl", "qwen2-vl"])
def test_every_family_loads_as_any_other_model(tmp_path: Path, family: str) -> None:
    from transformers import AutoModelForImageTextToText

    made = make_tiny_model(tmp_path / "tiny", family, warm_up_steps=0)
    encoder = load_encoder(tmp_path / "tiny")
    model = AutoModelForImageTextToText.from_pretrained(tmp_path / "tiny")
    assert encoder.family == family
    assert model.config.text_config.vocab_size == len(encoder.tokenizer) == made["vocabulary"]


def test_an_answer_takes_few_tokens_and_decodes_to_itself(tiny_model: Path) -> None:
    tokenizer = load_encoder(tiny_model).tokenizer
    assert tokenizer.tokenize("<answer>B</answer>") == ["<answer>", "B", "</answer>"]
    text = '<answer>{"time": [1.5, 12.0]}</answer> naïve 日本'
    assert tokenizer.decode(tokenizer(text)["input_ids"], skip_special_tokens=True) == text


def test_an_unknown_family_is_an_error_that_suggests_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"qwen3vl.*Did you mean 'qwen3-vl'"):
        make_tiny_model(tmp_path / "x", "qwen3vl")


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match="holds no model"):
        make_tiny_model(tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"

"""What decides a response, which part of a benchmark is drawn, and what a model's folder tells."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.eval.examples import make_question
from vrldata.errors import ConfigError
from vrleval.clips import spec_tokens
from vrleval.configs import RunConfig, config_digest, generation, preset_name, sampling_spec
from vrleval.engines import make_engine
from vrleval.engines.types import EngineSettings
from vrleval.keys import draw, question_key
from vrleval.model import ModelFacts, folder_digest, guess_family, read_model_facts, short_name
from vrleval.planner import plan
from vrleval.presets import PRESETS, find_preset

FACTS = ModelFacts(name="tiny", family="qwen3-vl", digest="d")


def config(**values: object) -> RunConfig:
    return RunConfig(model="tiny", data=("clips@v1",), **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "values",
    [
        {"temperature": 0.5},
        {"max_tokens": 7},
        {"seed": 1},
        {"preset": "quick-32f"},
        {"max_frames": 8},
        {"engine": "transformers"},
        {"subtitles": True},
        {"think": True},
        {"protocol": "train"},
        {"reasoning_tags": ("plan",)},
        {"compat": ("random",)},
        {"allow_code_execution": True},
        {"dtype": "float16"},
    ],
)
def test_what_changes_a_response_or_its_score_changes_the_digest(values: dict[str, object]) -> None:
    assert config_digest(config(**values), FACTS) != config_digest(config(), FACTS)


@pytest.mark.parametrize(
    "values", [{"out": "b"}, {"cache": "c"}, {"max_concurrent": 2}, {"max_samples": 5}, {"trajectories": "t"}]
)
def test_what_only_changes_the_way_there_does_not(values: dict[str, object]) -> None:
    assert config_digest(config(**values), FACTS) == config_digest(config(), FACTS)


def test_another_model_under_the_same_path_is_another_configuration() -> None:
    other = ModelFacts(name="tiny", family="qwen3-vl", digest="e")
    assert config_digest(config(), other) != config_digest(config(), FACTS)


def test_options_override_the_preset_and_its_name_says_so() -> None:
    run = config(preset="qwen3vl-repo-512f", max_frames=64, temperature=0.0)
    assert (sampling_spec(run, FACTS).max_frames, sampling_spec(run, FACTS).max_pixels) == (64, 401_408)
    assert (generation(run, FACTS).temperature, generation(run, FACTS).top_k) == (0.0, 20)
    assert preset_name(run, FACTS) == "qwen3vl-repo-512f+"
    assert preset_name(config(), FACTS) == "qwen3-vl"


def test_what_is_no_name_of_a_tag_is_refused() -> None:
    with pytest.raises(ValidationError, match="no name of a tag around reasoning"):
        config(reasoning_tags=("<plan>",))


def test_nothing_to_evaluate_is_refused() -> None:
    with pytest.raises(ValidationError, match="nothing to evaluate"):
        RunConfig(model="tiny")
    with pytest.raises(ValidationError, match="needs --data-root"):
        RunConfig(model="tiny", benchmarks=("videomme",))


@pytest.mark.parametrize("name", list(PRESETS))
def test_every_preset_is_sound_and_says_where_it_comes_from(name: str) -> None:
    preset = find_preset(name)
    assert preset.source
    assert spec_tokens(preset.spec) > 0


def test_a_preset_whose_floor_overruns_its_budget_is_known_by_its_tokens() -> None:
    cells = 32_768  # what the source states
    assert spec_tokens(PRESETS["easyvideor1-1024f"].spec) > 2 * cells


def test_an_unknown_engine_suggests_the_nearest() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'vllm'"):
        make_engine("vlm", EngineSettings(model="m"))


def test_a_drawn_part_is_random_nested_and_keeps_units_whole() -> None:
    questions = [make_question(row, unit=f"u{row // 4}") for row in range(400)]
    small, large = draw(questions, 40, 0), draw(questions, 80, 0)
    assert len(small) == 40
    assert {one.key for one in small} < {one.key for one in large}
    assert {one.unit for one in small} != {f"u{index}" for index in range(10)}
    assert all(sum(one.unit == unit for one in small) == 4 for unit in {one.unit for one in small})
    assert [one.key for one in draw(questions, 40, 1)] != [one.key for one in small]
    assert draw(questions, None, 0) == questions


def test_the_key_of_a_question_is_its_content() -> None:
    question = make_question(3)
    assert question_key("demo", 3, question.sample) == question.key
    assert question_key("demo", 4, question.sample) != question.key
    assert question_key("other", 3, question.sample) != question.key
    assert make_question(3, options=("A. x", "B. y")).key != question.key


def test_questions_are_planned_by_clip_and_window() -> None:
    questions = [
        make_question(0, video="a.mp4"),
        make_question(1, video="b.mp4"),
        make_question(2, video="a.mp4"),
        make_question(3, video="a.mp4", start=1.0, end=2.0),
    ]
    rows = [[one.sample.sample_id for one in batch.questions] for batch in plan(questions, "demo")]
    assert rows == [["q0", "q2"], ["q1"], ["q3"]]


def write_model(folder: Path, weights: bytes) -> Path:
    folder.mkdir(parents=True)
    values = {"model_type": "qwen2_5_vl", "text_config": {"max_position_embeddings": 4096}}
    (folder / "config.json").write_text(json.dumps(values))
    (folder / "model.safetensors").write_bytes(weights)
    return folder


def test_a_folder_tells_family_and_context_and_is_known_by_content(tmp_path: Path) -> None:
    first = write_model(tmp_path / "step_100" / "huggingface", bytes(3_000_000))
    second = write_model(tmp_path / "step_200" / "huggingface", bytes(2_999_999) + b"x")
    copy = write_model(tmp_path / "copy", bytes(3_000_000))
    facts = read_model_facts(str(first))
    assert (facts.family, facts.max_position_embeddings) == ("qwen2.5-vl", 4096)
    assert facts.name == "step_100-huggingface"
    assert folder_digest(first) == folder_digest(copy) != folder_digest(second)


def test_names_tell_the_family_where_no_folder_does() -> None:
    assert guess_family("Qwen/Qwen3-VL-8B-Instruct") == "qwen3-vl"
    assert guess_family("some/other-model") == "qwen3-vl"
    assert short_name("./runs/a/") == "a"

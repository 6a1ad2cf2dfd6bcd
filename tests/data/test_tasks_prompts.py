"""Prompts: one template a type, deterministic, in the coordinates of the model family."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from vrldata.errors import TaskError
from vrldata.tasks import PROBLEM_TYPES, render_prompt
from vrldata.types import Sample

GOLDEN = Path(__file__).parent.parent / "golden" / "prompts.json"
"""Prompt by type and family. `VRL_UPDATE_GOLDEN=1` in the environment writes it anew."""


def sample(problem_type: str = "multiple_choice", **fields: Any) -> Sample:
    given: dict[str, Any] = {"sample_id": "1", "problem": "Which tool is used last?", "answer": "B"}
    if problem_type == "multiple_choice":
        given["options"] = ("A. saw", "B. drill", "C. file")
    return Sample(problem_type=problem_type, data_type="video", **{**given, **fields})


def rendered() -> dict[str, str]:
    return {
        f"{problem_type} {family}": render_prompt(
            sample(problem_type), family=family, frame_width=448, frame_height=252
        )
        for problem_type in PROBLEM_TYPES
        for family in ("qwen3-vl", "qwen2.5-vl")
    }


def test_prompts_are_those_on_record() -> None:
    import os

    if os.environ.get("VRL_UPDATE_GOLDEN"):
        GOLDEN.write_text(json.dumps(rendered(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    assert rendered() == json.loads(GOLDEN.read_text(encoding="utf-8"))


def test_rows_real_letters_are_listed() -> None:
    text = render_prompt(sample(options=("E. saw", "G. drill")))
    assert "E. saw\nG. drill" in text
    assert "(E or G)" in text


def test_options_that_the_question_holds_are_not_repeated() -> None:
    text = render_prompt(sample(problem="Which?\nA. saw\nB. drill\nC. file"))
    assert text.count("drill") == 1


def test_key_with_several_letters_asks_for_all() -> None:
    assert "separated by commas" in render_prompt(sample(answer='["A", "C"]'))
    assert "separated by commas" not in render_prompt(sample(answer="A"))


def test_media_placeholders_and_control_tokens_are_left_out() -> None:
    text = render_prompt(sample(problem="<video>\n<image>Which <|video_pad|>tool?<|im_end|>"))
    assert text.startswith("Which tool?")


def test_own_template_by_text_file_or_column(tmp_path: Path) -> None:
    file = tmp_path / "mine.jinja"
    file.write_text("File: {{ problem }}")
    own = sample(extra={"prompt_template": "Column: {{ problem }}"})
    assert render_prompt(own) == "Column: Which tool is used last?"
    assert render_prompt(own, template=file) == "File: Which tool is used last?"
    assert render_prompt(own, template="Text: {{ letter_list }}") == "Text: A, B or C"


@pytest.mark.parametrize(
    "template",
    [
        "{{ problem.__class__.__mro__ }}",
        "{{ unknown }}",
        "{% for",
        "{{ 1 / 0 }}",
        "{% for i in range(10000000) %}x{% endfor %}",
        "absent.jinja",
    ],
)
def test_template_that_fails_or_reaches_out_is_an_error(template: str) -> None:
    with pytest.raises(TaskError, match="prompt template"):
        render_prompt(sample(), template=template)


def test_column_is_never_a_path(tmp_path: Path) -> None:
    file = tmp_path / "secret.jinja"
    file.write_text("secret")
    assert "secret\n" not in render_prompt(sample(extra={"prompt_template": str(file)}))


def test_unknown_family_names_the_nearest() -> None:
    with pytest.raises(TaskError, match="Did you mean 'qwen3-vl'"):
        render_prompt(sample(), family="qwen3vl")

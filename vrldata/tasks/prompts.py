"""The text of a question as the model sees it: one Jinja template a task, rendered in a sandbox.

The text holds no media placeholders: the chat template of the model adds those. Rendering is
deterministic: the same sample and arguments give the same text.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrldata.errors import TaskError, nearest
from vrldata.tasks.choices import letter_options
from vrldata.tasks.reading import Record, UnreadableGoldError
from vrldata.tasks.registry import canonical_type
from vrldata.tasks.text import comparable
from vrldata.types import Sample

if TYPE_CHECKING:
    from jinja2 import Template

TEMPLATES = Path(__file__).parent / "templates"
TEMPLATE_COLUMN = "prompt_template"
"""Field of a sample's `extra` that may hold the sample's own template."""

COORDINATES: dict[str, str] = {
    "qwen2-vl": "norm1000",
    "qwen2.5-vl": "pixel",
    "qwen3-vl": "norm1000",
    "qwen3.5-vl": "norm1000",
}
"""Model family to the coordinate space that it speaks; the scorer's `coord_space`."""

_PLACEHOLDER = re.compile(
    r"<(?:video|image)>\n?|<\|(?:video_pad|image_pad|vision_start|vision_end|vision_pad)\|>|<\|im_(?:start|end)\|>"
)


def coordinate_space(family: str) -> str:
    """The coordinate space that a model family answers in.

    Raises:
        TaskError: the family is unknown.
    """
    if family not in COORDINATES:
        hint = nearest(family, COORDINATES)
        raise TaskError(f"unknown model family {family!r}.{hint} Known families: {', '.join(COORDINATES)}.")
    return COORDINATES[family]


def render_prompt(
    sample: Sample,
    *,
    family: str = "qwen3-vl",
    template: str | Path | None = None,
    frame_width: int | None = None,
    frame_height: int | None = None,
) -> str:
    """The prompt text of a sample.

    Args:
        sample: the question.
        family: model family, which decides in what coordinates boxes are asked for.
        template: a template file (a path, or a text that ends in `.jinja`) or a template's text; by default
            the sample's `extra["prompt_template"]`, else the template of its type.
        frame_width: pixels of the frames that the model sees; stated where it answers in pixels.
        frame_height: pixels, likewise.

    Raises:
        TaskError: unknown family or type, a missing template file, or a template that does not render.
    """
    problem_type = canonical_type(sample.problem_type)
    variables: dict[str, Any] = {
        "problem": without_placeholders(sample.problem),
        "problem_type": problem_type,
        "data_type": sample.data_type,
        "medium": {"video": "video", "image": "image"}.get(sample.data_type, "text"),
        "family": family,
        "coordinates": coordinate_space(family),
        "frame_width": frame_width,
        "frame_height": frame_height,
        "extra": sample.extra,
        **_option_variables(sample, problem_type),
    }
    from jinja2 import TemplateError

    source, name = _template_source(sample, template, problem_type)
    try:
        text = _compiled(source).render(variables)
    except (TemplateError, TypeError, ValueError, ArithmeticError, RecursionError, MemoryError) as error:
        raise TaskError(f"prompt template {name}: {error}") from error
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def without_placeholders(problem: str) -> str:
    """`problem` without media placeholders and chat control tokens."""
    return _PLACEHOLDER.sub("", problem).strip()


def _option_variables(sample: Sample, problem_type: str) -> dict[str, Any]:
    options = [{"letter": letter, "text": text} for letter, text in letter_options(sample.options)]
    letters = [option["letter"] for option in options]
    problem = comparable(sample.problem)
    # Some data sets repeat the options inside the question; they are listed once.
    listed = bool(options) and all(comparable(option["text"]) in problem for option in options)
    return {
        "options": [] if listed else options,
        "letters": letters,
        "letter_list": _enumerated(letters),
        "several": problem_type == "multiple_choice" and _num_key_letters(sample) > 1,
    }


def _enumerated(letters: list[str]) -> str:
    if len(letters) < 2:
        return "".join(letters)
    return f"{', '.join(letters[:-1])} or {letters[-1]}"


def _num_key_letters(sample: Sample) -> int:
    from vrldata.tasks.choices import read_gold

    key: Any = sample.answer
    if key.startswith("["):
        import json

        try:
            key = json.loads(key)
        except ValueError:
            return 1
    record = Record(
        problem_type="multiple_choice", response="", ground_truth=key, options=tuple(sample.options)
    )
    try:
        return len(read_gold(record))
    except UnreadableGoldError:
        return 1


def _template_source(sample: Sample, template: str | Path | None, problem_type: str) -> tuple[str, str]:
    if template is None:
        template = sample.extra.get(TEMPLATE_COLUMN)
        if isinstance(template, str) and template:
            # A column comes from data: always a text, never a path to read.
            return template, f"of sample {sample.sample_id}"
        template = TEMPLATES / f"{problem_type}.jinja"
    if isinstance(template, Path) or (
        template.endswith((".jinja", ".jinja2", ".j2")) and "\n" not in template
    ):
        return _read_template(str(template)), str(template)
    return template, "given as text"


@lru_cache(maxsize=256)
def _read_template(path: str) -> str:
    try:
        return Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TaskError(f"prompt template {path}: {error}") from error


@lru_cache(maxsize=256)
def _compiled(source: str) -> Template:
    from jinja2 import FileSystemLoader, StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
    return environment.from_string(source)

"""The configuration of one evaluation, and the digest of what in it decides a response."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from vrldata.config import BaseConfig
from vrldata.errors import TaskError
from vrldata.named_functions import is_file_name, split_name
from vrldata.sampling import SamplingSpec
from vrldata.tasks.reading import REASONING_TAGS, ScoringSettings
from vrleval.engines.types import Generation
from vrleval.model import ModelFacts
from vrleval.presets import find_preset


class RunConfig(BaseConfig):
    """All that `vrleval run` takes. What is None comes from the preset, and that from the model family."""

    model: str
    """Folder or Hub name of the model; the model name of a server."""
    benchmarks: tuple[str, ...] = ()
    """Benchmarks to run, by the names that `vrleval list` prints."""
    data_root: str | None = None
    """Folder with the benchmarks' annotations and videos."""
    data: tuple[str, ...] = ()
    """Dataset URIs that are evaluated as they are, such as `clips@v1?split=val`."""
    out: str = "eval"
    """Folder of the results."""
    preset: str | None = None
    """Named sampling of frames and tokens; None takes the model family's."""
    fps: float | None = None
    """Frames per second; overrides the preset."""
    max_frames: int | None = None
    """Most frames of a video; overrides the preset."""
    max_pixels: int | None = None
    """Most pixels of a frame; overrides the preset."""
    min_pixels: int | None = None
    """Fewest pixels of a frame; overrides the preset."""
    total_pixels: int | None = None
    """Pixels shared by the frames of a video; overrides the preset."""
    engine: str = "vllm"
    """`vllm`, `openai` or `transformers`."""
    base_url: str = ""
    """Server of the engine `openai`."""
    api_key_env: str = "OPENAI_API_KEY"
    """Environment variable with the server's key."""
    cache: str | None = None
    """Dataset that holds the frames; filled where rows are missing. None: under `VRL_HOME`."""
    family: str | None = None
    """Model family; None reads it from the model."""
    think: bool | None = None
    """Ask chat templates for a reasoning block; None leaves the template's default."""
    subtitles: bool = False
    """Put the subtitles of the sampled frames before the question, where a benchmark has them."""
    protocol: str | None = None
    """Scoring rules; None takes those of the benchmark."""
    metric: str | None = None
    """A function of your own in place of the scoring rules: `file.py:function` or `package.module.function`;
    its first parameter is `record`, and what it returns lies between 0 and 1."""
    metric_options: dict[str, Any] = Field(default_factory=dict)
    """Its further keyword arguments."""
    metric_seconds: float = Field(default=10.0, gt=0)
    """Limit for one response."""
    on_unknown_type: Literal["error", "open_ended", "skip"] = "error"
    """Questions of unknown problem type: refused (rows of benchmarks are rejected), asked and scored as
    open-ended ones, or left out of the data and counted."""
    reasoning_tags: tuple[str, ...] = REASONING_TAGS
    """Names of the tags around reasoning, such as think; what they hold never counts as an answer."""
    allow_code_execution: bool = False
    """Run Python answers against the row's unit tests, in the sandbox; off, they are scored by similarity."""
    compat: tuple[str, ...] = ()
    """Rules of other toolkits, for comparisons only: names of `compat.COMPAT`."""
    max_samples: int | None = Field(default=None, ge=1)
    """A random part of every benchmark, drawn by `seed`; None for all."""
    seed: int = 0
    """Of the drawn part, of sampling, and of the intervals."""
    temperature: float | None = Field(default=None, ge=0)
    """0 is greedy."""
    top_p: float | None = Field(default=None, gt=0, le=1)
    """Nucleus; 1 switches it off."""
    top_k: int | None = Field(default=None, ge=0)
    """0 switches it off."""
    presence_penalty: float | None = None
    """0 switches it off."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Longest response in tokens."""
    max_model_len: int | None = Field(default=None, ge=1)
    """Tokens of prompt and response; None computes it from the frames."""
    dtype: str = "auto"
    """Weights' type: `auto`, `bfloat16`, `float16` or `float32`."""
    tensor_parallel_size: int = Field(default=1, ge=1)
    """GPUs that share one copy of the model."""
    gpu_memory_utilization: float = Field(default=0.9, gt=0, le=1)
    """Share of each GPU's memory that vLLM takes."""
    max_concurrent: int = Field(default=32, ge=1)
    """Most requests in the engine at a time."""
    max_bytes_in_flight: int = Field(default=8 << 30, ge=1)
    """Most bytes of frames held at a time."""
    workers: int | None = Field(default=None, ge=1)
    """Processes that decode; None for one a core."""
    request_timeout: float = Field(default=600.0, gt=0)
    """Seconds for one request."""
    retry_failed: bool = False
    """Ask questions again that failed in an earlier run of the same folder."""
    min_coverage: float = Field(default=0.0, ge=0, le=1)
    """Exit with 1 also where less than this share of a complete benchmark was asked and did not fail."""
    trajectories: str | None = None
    """Dataset that the responses are written to as trajectories; None writes none."""
    judge_model: str = ""
    """Model that judges open answers; empty leaves them to `vrleval judge`."""
    judge_url: str = ""
    """OpenAI-compatible server of the judge."""

    @model_validator(mode="after")
    def _check(self) -> RunConfig:
        if not self.benchmarks and not self.data:
            raise ValueError("nothing to evaluate: give --benchmarks NAMES or --data URI")
        if self.benchmarks and self.data_root is None:
            raise ValueError("--benchmarks needs --data-root, the folder with annotations and videos")
        if bool(self.judge_model) != bool(self.judge_url):
            raise ValueError("a judge needs both --judge-model and --judge-url")
        if self.metric is None and self.metric_options:
            raise ValueError("--metric-option needs --metric, such as --metric my_metrics.py:relaxed")
        if self.metric is not None and (self.protocol or self.compat or self.judge_model):
            raise ValueError(
                "--metric takes the place of all scoring rules: leave out --protocol, --compat and the judge"
            )
        try:
            ScoringSettings(reasoning_tags=self.reasoning_tags)
        except TaskError as error:
            raise ValueError(str(error)) from error
        return self


def preset_name(config: RunConfig, facts: ModelFacts) -> str:
    """The preset that a run goes by; with `+` where single values are overridden."""
    name = config.preset or facts.family
    return f"{name}+" if _spec_overrides(config) else name


def sampling_spec(config: RunConfig, facts: ModelFacts) -> SamplingSpec:
    """How videos of benchmarks become frames.

    Raises:
        ConfigError: an unknown preset, or a value that makes no sense.
    """
    spec = find_preset(config.preset or facts.family).spec
    return dataclasses.replace(spec, **_spec_overrides(config))


def _spec_overrides(config: RunConfig) -> dict[str, Any]:
    names = ("fps", "max_frames", "max_pixels", "min_pixels", "total_pixels")
    return {name: getattr(config, name) for name in names if getattr(config, name) is not None}


def generation(config: RunConfig, facts: ModelFacts) -> Generation:
    """How responses are drawn: the preset's values, overridden by those of the run."""
    preset = find_preset(config.preset or facts.family)
    names = ("temperature", "top_p", "top_k", "presence_penalty", "max_tokens")
    values = {
        name: getattr(preset, name) if getattr(config, name) is None else getattr(config, name)
        for name in names
    }
    return Generation(**values, seed=config.seed, think=config.think)


def deciding_values(config: RunConfig, facts: ModelFacts) -> dict[str, Any]:
    """What decides a response or its score; two runs that agree here may share their predictions."""
    values = {
        "model": facts.digest,
        "family": facts.family,
        "engine": config.engine,
        "server": config.base_url,
        "dtype": config.dtype,
        "preset": preset_name(config, facts),
        "spec": json.loads(sampling_spec(config, facts).to_json()),
        "generation": dataclasses.asdict(generation(config, facts)),
        "subtitles": config.subtitles,
        "protocol": config.protocol,
        "compat": sorted(config.compat),
    }
    # only where they are set: runs of before keep their digest
    if config.metric is not None:
        code = _digest_of_code(config.metric)
        values["metric"] = {"function": config.metric, "code": code, "options": config.metric_options}
    if config.on_unknown_type != "error":
        values["on_unknown_type"] = config.on_unknown_type
    if config.reasoning_tags != REASONING_TAGS:
        values["reasoning_tags"] = sorted(config.reasoning_tags)
    if config.allow_code_execution:
        values["allow_code_execution"] = True
    return values


SCORING_KEYS = (
    "protocol",
    "compat",
    "metric",
    "on_unknown_type",
    "reasoning_tags",
    "allow_code_execution",
)
"""Deciding values that change a score and no response."""


def asking_values(deciding: Mapping[str, Any]) -> dict[str, Any]:
    """Of `deciding_values` what decides a response, by the names of the options, as JSON values.

    A preset counts by its name alone: which of its values are overridden shows in the values. Where a served
    model is reached does not count: it moves with the job that serves it.
    """
    values = {
        name: value for name, value in deciding.items() if name not in SCORING_KEYS and name != "server"
    }
    values["preset"] = str(values.get("preset", "")).removesuffix("+")
    spec, drawing = values.pop("spec", {}), values.pop("generation", {})
    return dict(json.loads(json.dumps({**values, **spec, **drawing})))


def asking_digest(deciding: Mapping[str, Any]) -> str:
    """First 16 hex digits of the digest of `asking_values`: equal for runs that may share their responses."""
    return hashlib.sha256(json.dumps(asking_values(deciding), sort_keys=True).encode()).hexdigest()[:16]


def _digest_of_code(metric: str) -> str | None:
    """Hex sha256 of the file of a metric: other code gives other scores. None for a module's function."""
    place, _ = split_name(metric, purpose="--metric")
    path = Path(place).expanduser()
    return hashlib.sha256(path.read_bytes()).hexdigest() if is_file_name(place) and path.is_file() else None


def config_digest(config: RunConfig, facts: ModelFacts) -> str:
    """First 16 hex digits of the digest of `deciding_values`."""
    text = json.dumps(deciding_values(config, facts), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]

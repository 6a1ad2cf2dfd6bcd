"""`vrleval run` from Python: load, ask, score, write the figures. The loop itself is `runner`."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vrldata.errors import BenchmarkError, ConfigError, nearest
from vrldata.tasks import PROTOCOLS, RewardFunction
from vrldata.tasks.sandbox import check_sandbox
from vrleval.aggregate import summarise
from vrleval.compat import check_compat
from vrleval.configs import (
    RunConfig,
    asking_digest,
    config_digest,
    deciding_values,
    generation,
    sampling_spec,
)
from vrleval.engines import make_engine
from vrleval.engines.types import Engine, EngineSettings
from vrleval.journal import Journal, read_journal
from vrleval.keys import draw
from vrleval.loading import Loaded, load_dataset
from vrleval.manifest import (
    has_manifest,
    read_manifest,
    refuse_other_asking,
    refuse_other_run,
    write_manifest,
)
from vrleval.metrics import load_metric, try_metric, with_metric
from vrleval.model import ModelFacts, local_folder, read_model_facts, short_name
from vrleval.presets import PRESETS
from vrleval.rescoring import rescore
from vrleval.results import RunResult, read_run, with_type_notes, write_results
from vrleval.runner import Limits, Runner
from vrleval.scoring import ScoringContext
from vrleval.types import FAILED, BenchmarkResult, Prediction

logger = logging.getLogger(__name__)

TOKENS_OF_TEXT = 4096
"""Room for question, options and subtitles in the context that is computed for a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    config: RunConfig
    facts: ModelFacts
    digest: str
    loaded: tuple[Loaded, ...]


def evaluate(config: RunConfig, *, engine: Engine | None = None) -> RunResult:
    """Evaluate a model; continues where an earlier run of the same folder and configuration ended.

    Where the scoring rules alone have changed since, its responses are scored again and not asked for again.

    Args:
        config: the run.
        engine: an engine of your own, not yet started; by default the one that `config.engine` names.

    Raises:
        ConfigError: a wrong option, or the folder's responses were asked for otherwise.
        BenchmarkError: a benchmark without files. RolloutError: the engine.
    """
    folder = Path(config.out).expanduser()
    facts = _checked(config, folder)
    metric = load_metric(config)
    job = _load(config, facts)
    if metric is not None:
        try_metric(metric, [question for item in job.loaded for question in item.questions])
    started = time.time()
    chosen = engine or make_engine(config.engine, _engine_settings(job))
    contexts = {item.benchmark.name: _context(job, item, metric) for item in job.loaded}
    with Journal(folder) as journal:
        # the manifest follows: until all is scored again the folder reads as the run that it was
        done = rescore(folder, job.loaded, contexts, journal, config=job.digest)
        before = read_manifest(folder).get("engine") if has_manifest(folder) else None
        write_manifest(folder, config, job.facts, job.digest, job.loaded)
        runner = Runner(
            job.loaded,
            contexts,
            chosen,
            journal,
            Limits(max_concurrent=config.max_concurrent, max_bytes_in_flight=config.max_bytes_in_flight),
            subtitles=config.subtitles,
        )
        predictions = asyncio.run(_run(runner, chosen, done, config.retry_failed))
        if config.judge_model:
            predictions = _judged(predictions, config, journal)
        write_manifest(
            folder,
            config,
            job.facts,
            job.digest,
            job.loaded,
            # where nothing was asked the responses are those of the engine before
            engine=chosen.versions() if runner.num_asked or not before else before,
            seconds=time.time() - started,
        )
    result = collect(folder, job.loaded, predictions, config)
    write_results(result)
    if config.trajectories:
        from vrleval.trajectories import write_trajectories

        write_trajectories(config.trajectories, result, job.facts.name, job.digest)
    return result


def _checked(config: RunConfig, folder: Path) -> ModelFacts:
    """Facts of the model, once options and folder are found to fit. Raises as `evaluate` does."""
    check_compat(config.compat)
    if config.protocol and config.protocol not in PROTOCOLS:
        hint = nearest(config.protocol, PROTOCOLS)
        raise ConfigError(f"--protocol {config.protocol}: unknown; known: {', '.join(PROTOCOLS)}.{hint}")
    refuse_other_run(folder, config)
    facts = read_model_facts(config.model, config.family)
    refuse_other_asking(folder, config, facts)
    if config.allow_code_execution:
        check_sandbox()
    return facts


def _judged(
    predictions: Mapping[str, Prediction], config: RunConfig, journal: Journal
) -> dict[str, Prediction]:
    from vrldata.tasks.judge import JudgeSettings
    from vrleval.judge import judge_predictions

    settings = JudgeSettings(
        model=config.judge_model, base_url=config.judge_url, api_key_variable=config.api_key_env
    )
    return judge_predictions(predictions, settings, journal)


async def _run(
    runner: Runner, engine: Engine, done: dict[str, Prediction], retry_failed: bool
) -> dict[str, Prediction]:
    try:
        return await runner.run(done, retry=FAILED if retry_failed else frozenset())
    finally:
        await engine.close()


def collect(
    folder: Path, loaded: Sequence[Loaded], predictions: Mapping[str, Prediction], config: RunConfig
) -> RunResult:
    """Figures of every benchmark over exactly the questions of this run."""
    results = []
    used: list[Prediction] = []
    manifest = read_manifest(folder)
    for item in loaded:
        own = [predictions[question.key] for question in item.questions if question.key in predictions]
        used += own
        result = with_type_notes(summarise(item.benchmark, own), own, manifest)
        results.append(with_token_check(result, config))
    return RunResult(
        folder=folder,
        manifest=manifest,
        results=tuple(results),
        predictions=tuple(used),
        rejected=tuple(row for item in loaded for row in item.rejected),
        min_coverage=config.min_coverage,
    )


def with_token_check(result: BenchmarkResult, config: RunConfig) -> BenchmarkResult:
    """The result with its realised tokens logged, and a warning where they overrun the preset's budget."""
    tokens = result.visual_tokens
    if not tokens:
        return result
    logger.info(
        "%s: tokens of the frames per prompt: %.0f to %.0f, median %.0f",
        result.title,
        tokens["min"],
        tokens["max"],
        tokens["median"],
    )
    preset = PRESETS.get(config.preset or "")
    budget = preset.video_tokens if preset else 0
    if not budget or tokens["max"] <= budget:
        return result
    note = f"up to {tokens['max']:.0f} tokens per prompt, the preset's source states {budget}"
    return dataclasses.replace(result, warnings=(*result.warnings, note))


def _load(config: RunConfig, facts: ModelFacts) -> _Job:
    spec = sampling_spec(config, facts)
    loaded = [load_dataset(uri, config.on_unknown_type) for uri in config.data]
    if config.engine != "openai" and "/" not in config.model and local_folder(config.model) is None:
        raise ConfigError(
            f"--model {config.model}: no such folder; a model on the Hub is named as organisation/model"
        )
    if config.benchmarks:
        from vrleval.annotations import load_benchmarks

        loaded += load_benchmarks(config, spec)
    names = [item.benchmark.name for item in loaded]
    for name in names:
        if names.count(name) > 1:
            raise BenchmarkError(f"two benchmarks are named {name!r}; evaluate them in runs of their own")
    if config.metric is not None:
        loaded = [dataclasses.replace(item, benchmark=with_metric(item.benchmark)) for item in loaded]
    drawn = tuple(
        dataclasses.replace(item, questions=tuple(draw(item.questions, config.max_samples, config.seed)))
        for item in loaded
    )
    return _Job(
        config=config,
        facts=facts,
        digest=config_digest(config, facts),
        loaded=drawn,
    )


def _context(job: _Job, item: Loaded, metric: RewardFunction | None) -> ScoringContext:
    return ScoringContext(
        config=job.digest,
        asked=asking_digest(deciding_values(job.config, job.facts)),
        family=job.facts.family,
        protocol=job.config.protocol or item.benchmark.protocol,
        box_frame=item.benchmark.box_frame,
        compat=job.config.compat,
        seed=job.config.seed,
        metric=metric,
        reasoning_tags=job.config.reasoning_tags,
        allow_code_execution=job.config.allow_code_execution,
    )


def _engine_settings(job: _Job) -> EngineSettings:
    config = job.config
    samples = [question.sample for item in job.loaded for question in item.questions]
    drawing = generation(config, job.facts)
    return EngineSettings(
        model=config.model,
        generation=drawing,
        dtype=config.dtype,
        max_model_len=config.max_model_len or _context_length(job, drawing.max_tokens),
        tensor_parallel_size=config.tensor_parallel_size,
        gpu_memory_utilization=config.gpu_memory_utilization,
        max_num_seqs=config.max_concurrent,
        max_clips=(
            max((len(sample.videos) for sample in samples), default=0),
            max((len(sample.images) for sample in samples), default=0),
        ),
        timeout_s=config.request_timeout,
        base_url=config.base_url,
        api_key_env=config.api_key_env,
    )


def _context_length(job: _Job, max_tokens: int) -> int | None:
    """Room for the largest prompt that the sampling allows, within what the model was made for."""
    if not job.facts.max_position_embeddings:
        return None
    wanted = max(item.clips.most_tokens() for item in job.loaded) + TOKENS_OF_TEXT + max_tokens
    if wanted > job.facts.max_position_embeddings:
        logger.warning(
            "the largest prompts may need %d tokens, the model takes %d: longer ones fail and count as wrong"
            " (a preset with fewer frames or pixels avoids that)",
            wanted,
            job.facts.max_position_embeddings,
        )
    return min(wanted, job.facts.max_position_embeddings)


def judge_run(folder: Path, *, model: str, base_url: str, api_key_env: str = "OPENAI_API_KEY") -> RunResult:
    """Have the open answers of a finished run judged, and write its figures again.

    Raises:
        BenchmarkError: no run lies there. ConfigError: another process writes to it.
    """
    from vrldata.tasks.judge import JudgeSettings
    from vrleval.judge import judge_predictions

    digest = read_manifest(folder).get("config_digest")
    with Journal(folder) as journal:
        settings = JudgeSettings(model=model, base_url=base_url, api_key_variable=api_key_env)
        judge_predictions(read_journal(folder, digest), settings, journal)
    result = read_run(folder)
    write_results(result)
    return result


def exit_values(result: RunResult) -> dict[str, Any]:
    """What the command prints."""
    return {**result.to_json(), "report": str(result.folder / "report.html")}


def default_folder(model: str) -> str:
    """Folder of the results where none is given."""
    return f"eval-{short_name(model)}"

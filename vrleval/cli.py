"""The command line `vrleval`: options in, one call, results out. The work is imported when a command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from vrldata.command_line import JsonOption, new_app, print_result
from vrldata.command_line import run as run_program

app = new_app("Evaluate video models: asynchronous engines, resumable runs, figures with intervals.")


def _names(values: list[str] | None) -> tuple[str, ...]:
    """Names from an option that may be repeated and may hold several, separated by commas."""
    return tuple(name.strip() for value in values or [] for name in value.split(",") if name.strip())


def _values(pairs: list[str]) -> dict[str, Any]:
    """`NAME=VALUE` texts as a mapping; a value that is JSON is read as that. Raises ConfigError."""
    import json

    from vrldata.errors import ConfigError

    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise ConfigError(f"--metric-option {pair!r}: expected NAME=VALUE, such as tolerance=0.1")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


@app.command("run")
def run_command(
    model: Annotated[str, typer.Option(help="Folder or Hub name; the model's name on a server.")],
    benchmarks: Annotated[
        list[str] | None, typer.Option(help="Names from `vrleval list`, separated by commas.")
    ] = None,
    data_root: Annotated[str | None, typer.Option(help="Folder with annotations and videos.")] = None,
    data: Annotated[
        list[str] | None, typer.Option(help="Dataset URI to evaluate as it is, such as clips@v1?split=val.")
    ] = None,
    out: Annotated[str | None, typer.Option(help="Folder of the results; default: by model.")] = None,
    preset: Annotated[str | None, typer.Option(help="Named sampling of frames, see `vrleval list`.")] = None,
    fps: Annotated[float | None, typer.Option(help="Overrides the preset.")] = None,
    max_frames: Annotated[int | None, typer.Option(help="Overrides the preset.")] = None,
    max_pixels: Annotated[int | None, typer.Option(help="Overrides the preset.")] = None,
    min_pixels: Annotated[int | None, typer.Option(help="Overrides the preset.")] = None,
    total_pixels: Annotated[int | None, typer.Option(help="Overrides the preset.")] = None,
    engine: Annotated[str, typer.Option(help="vllm, openai or transformers.")] = "vllm",
    base_url: Annotated[str, typer.Option(help="Server of the engine openai.")] = "",
    api_key_env: Annotated[str, typer.Option(help="Variable with the server's key.")] = "OPENAI_API_KEY",
    cache: Annotated[str | None, typer.Option(help="Dataset of frames, filled as needed.")] = None,
    family: Annotated[str | None, typer.Option(help="Model family, where the model does not tell.")] = None,
    think: Annotated[bool | None, typer.Option(help="Reasoning block of the chat template.")] = None,
    subtitles: Annotated[bool, typer.Option(help="Subtitles of the sampled frames in the prompt.")] = False,
    protocol: Annotated[str | None, typer.Option(help="Scoring rules; default: the benchmark's.")] = None,
    metric: Annotated[
        str | None,
        typer.Option(help="Your own function in their place: file.py:function, one record to 0..1."),
    ] = None,
    metric_option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Argument of the metric; repeatable.")
    ] = None,
    metric_seconds: Annotated[float, typer.Option(help="Limit of the metric for one response.")] = 10.0,
    on_unknown_type: Annotated[
        str, typer.Option(help="Questions of unknown problem type: error, open_ended or skip.")
    ] = "error",
    reasoning_tags: Annotated[
        list[str] | None, typer.Option(help="Tags around reasoning, by name; default: think and its like.")
    ] = None,
    allow_code_execution: Annotated[
        bool, typer.Option("--allow-code-execution", help="Run code answers' unit tests, in the sandbox.")
    ] = False,
    compat: Annotated[
        list[str] | None, typer.Option(help="Other rules, for comparisons: random, ovo, vsibench-official …")
    ] = None,
    max_samples: Annotated[int | None, typer.Option(help="A random part of each benchmark.")] = None,
    seed: Annotated[int, typer.Option(help="Of the random part and of sampling.")] = 0,
    temperature: Annotated[float | None, typer.Option(help="0 is greedy.")] = None,
    top_p: Annotated[float | None, typer.Option(help="1 switches it off.")] = None,
    top_k: Annotated[int | None, typer.Option(help="0 switches it off.")] = None,
    presence_penalty: Annotated[float | None, typer.Option(help="0 switches it off.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Longest response.")] = None,
    max_model_len: Annotated[int | None, typer.Option(help="Tokens of prompt and response.")] = None,
    dtype: Annotated[str, typer.Option(help="auto, bfloat16, float16 or float32.")] = "auto",
    tensor_parallel_size: Annotated[int, typer.Option(help="GPUs of one model copy.")] = 1,
    gpu_memory_utilization: Annotated[float, typer.Option(help="Share of GPU memory for vLLM.")] = 0.9,
    max_concurrent: Annotated[int, typer.Option(help="Most requests at a time.")] = 32,
    max_bytes_in_flight: Annotated[int, typer.Option(help="Most bytes of frames at a time.")] = 8 << 30,
    workers: Annotated[int | None, typer.Option(help="Processes that decode.")] = None,
    request_timeout: Annotated[float, typer.Option(help="Seconds for one request.")] = 600.0,
    retry_failed: Annotated[bool, typer.Option(help="Ask again what failed in an earlier run.")] = False,
    min_coverage: Annotated[float, typer.Option(help="Exit with 1 below this share of a benchmark.")] = 0.0,
    trajectories: Annotated[str | None, typer.Option(help="Dataset that responses are written to.")] = None,
    judge_model: Annotated[str, typer.Option(help="Model that judges open answers.")] = "",
    judge_url: Annotated[str, typer.Option(help="Server of the judge.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Evaluate a model; run the same command again to continue.

    Example: vrleval run --model Qwen/Qwen3-VL-8B-Instruct --benchmarks videomme,mvbench --data-root ~/eval
    """
    options: dict[str, Any] = {
        name: value
        for name, value in locals().items()
        if name not in ("as_json", "out", "metric_option") and value is not None
    }
    options.update(benchmarks=_names(benchmarks), data=tuple(data or ()), compat=_names(compat))
    if reasoning_tags is not None:
        options["reasoning_tags"] = _names(reasoning_tags)
    options["metric_options"] = _values(metric_option or [])
    from vrldata.config import validate_config
    from vrleval.configs import RunConfig
    from vrleval.evaluate import default_folder, evaluate, exit_values
    from vrleval.results import table_text

    options["out"] = out or default_folder(model)
    config = validate_config(RunConfig, options, source="vrleval run")
    result = evaluate(config)
    print_result(
        exit_values(result),
        as_json=as_json,
        text=lambda values: f"{table_text([result])}\n\nreport: {values['report']}",
    )
    raise typer.Exit(result.exit_code)


@app.command("list")
def list_command(as_json: JsonOption = False) -> None:
    """Benchmarks with their fields, metrics and sizes, and the presets of frames.

    Example: vrleval list
    """
    from vrleval.catalogue import catalogue, catalogue_text

    print_result(catalogue(), as_json=as_json, text=catalogue_text)


@app.command("doctor")
def doctor_command(
    data_root: Annotated[str, typer.Option(help="Folder with annotations and videos.")],
    benchmarks: Annotated[
        list[str] | None, typer.Option(help="Names, separated by commas; all if absent.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Say what is missing on disk: annotations, videos, labels, readable answers.

    Example: vrleval doctor --data-root ~/eval --benchmarks videomme,mvbench
    """
    from vrleval.doctor import examination_text, examine, exit_code

    names = _names(benchmarks)
    found = examine(data_root, names)
    print_result(found, as_json=as_json, text=examination_text)
    raise typer.Exit(exit_code(found, names))


@app.command("judge")
def judge_command(
    run: Annotated[Path, typer.Argument(help="Folder of a run.")],
    model: Annotated[str, typer.Option(help="Model that judges, as its server names it.")],
    base_url: Annotated[str, typer.Option(help="OpenAI-compatible server, such as http://host:8000/v1.")],
    api_key_env: Annotated[str, typer.Option(help="Variable with the server's key.")] = "OPENAI_API_KEY",
    as_json: JsonOption = False,
) -> None:
    """Have the open answers of a run judged; answers that wait are asked again by the same command.

    Example: vrleval judge eval-model --model Qwen/Qwen3-32B --base-url http://localhost:8000/v1
    """
    from vrleval.evaluate import exit_values, judge_run
    from vrleval.results import table_text

    result = judge_run(run, model=model, base_url=base_url, api_key_env=api_key_env)
    print_result(exit_values(result), as_json=as_json, text=lambda values: table_text([result]))
    waiting = any(result.statuses.get("needs_judge") for result in result.results)
    raise typer.Exit(1 if waiting else result.exit_code)


@app.command("report")
def report_command(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs.")],
    html: Annotated[Path | None, typer.Option(help="File to write; default: report.html of the run.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Figures of one or several runs as a table, and as one HTML file.

    Example: vrleval report eval-a eval-b --html both.html
    """
    from vrleval.report import write_report
    from vrleval.results import read_run, table_text

    read = [read_run(folder) for folder in runs]
    target = html or (runs[0] / "report.html" if len(runs) == 1 else Path("report.html"))
    write_report(read, target)
    print_result(
        {"runs": [result.to_json() for result in read], "report": str(target)},
        as_json=as_json,
        text=lambda values: f"{table_text(read)}\n\nreport: {values['report']}",
    )


@app.command("compare")
def compare_command(
    a: Annotated[Path, typer.Argument(help="Folder of the first run.")],
    b: Annotated[Path, typer.Argument(help="Folder of the second run.")],
    as_json: JsonOption = False,
) -> None:
    """Paired differences of two runs on the questions that both have, with 95 % intervals.

    Example: vrleval compare eval-before eval-after
    """
    from vrleval.compare import compare_runs, comparison_text
    from vrleval.results import read_run

    print_result(compare_runs(read_run(a), read_run(b)), as_json=as_json, text=comparison_text)


def main() -> None:
    """Run the program."""
    run_program(app)

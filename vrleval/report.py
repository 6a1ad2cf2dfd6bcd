"""`report.html`: figures, plots and a browser of samples in one file that loads nothing from elsewhere.

All text of data sets and models is escaped; the samples travel as JSON that a script writes as plain text.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrleval.journal import write_atomically
from vrleval.plots import bar_chart, histogram, status_bar
from vrleval.results import RunResult, interval_text, percent
from vrleval.types import BenchmarkResult, Figure, Prediction

if TYPE_CHECKING:
    from jinja2 import Template

TEMPLATE = Path(__file__).parent / "templates" / "report.html.jinja"
MAX_SAMPLES_PER_BENCHMARK = 1500
"""More would make the file unwieldy; failures and wrong answers are kept first."""
MAX_RESPONSE_CHARS = 4000


def write_report(runs: Sequence[RunResult], path: Path) -> None:
    """Write the report of one or several runs, replacing an older one at once."""
    write_atomically(path, render_report(runs))


def render_report(runs: Sequence[RunResult]) -> str:
    """The report as HTML text."""
    sections = [_section(run, result) for run in runs for result in run.results]
    headlines = [
        dataclasses.replace(result.headline, name=f"{result.title} · {run.manifest.get('model_name', '')}")
        for run in runs
        for result in run.results
    ]
    samples = [sample for run in runs for result in run.results for sample in _samples(run, result)]
    return _template().render(
        runs=[_run_facts(run) for run in runs],
        sections=sections,
        overview=bar_chart(headlines, title="Headline figures with 95 % intervals"),
        samples=_script_json(samples),
        num_samples=len(samples),
    )


@cache
def _template() -> Template:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8"))


def _run_facts(run: RunResult) -> dict[str, Any]:
    manifest = run.manifest
    decides = manifest.get("decides", {})
    return {
        "model": manifest.get("model_name", ""),
        "path": manifest.get("model", ""),
        "preset": manifest.get("preset", ""),
        "spec": json.dumps(decides.get("spec", {}), sort_keys=True),
        "generation": json.dumps(decides.get("generation", {}), sort_keys=True),
        "digest": manifest.get("config_digest", ""),
        "folder": str(run.folder),
        "versions": ", ".join(f"{name} {version}" for name, version in manifest.get("versions", {}).items()),
        "written_at": manifest.get("written_at", ""),
        "engine": manifest.get("decides", {}).get("engine", ""),
        "data": [
            {"name": name, **{key: str(value) for key, value in entry.items()}}
            for name, entry in manifest.get("benchmarks", {}).items()
        ],
        "rejected": [{key: str(value) for key, value in row.items()} for row in run.rejected[:200]],
        "num_rejected": len(run.rejected),
    }


def _section(run: RunResult, result: BenchmarkResult) -> dict[str, Any]:
    own = [prediction for prediction in run.predictions if prediction.benchmark == result.benchmark]
    tokens = [float(prediction.num_visual_tokens) for prediction in own if prediction.num_visual_tokens]
    return {
        "title": result.title,
        "model": run.manifest.get("model_name", ""),
        "headline": _row(result.headline),
        "num_questions": result.num_questions,
        "coverage": percent(result.coverage),
        "warnings": result.warnings,
        "figures": [_row(figure) for figure in result.figures],
        "statuses": status_bar(result.statuses, title="Share of questions by status"),
        "groups": [
            {
                "name": name,
                "rows": [_row(figure) for figure in figures],
                "plot": bar_chart(figures, title=f"By {name}"),
            }
            for name, figures in result.groups.items()
        ],
        "answer_tokens": histogram(
            [float(prediction.num_tokens) for prediction in own if prediction.num_tokens],
            title="Tokens per response",
            unit="tokens",
        ),
        "visual_tokens": histogram(tokens, title="Tokens of the frames per prompt", unit="tokens"),
    }


def _row(figure: Figure) -> dict[str, Any]:
    return {
        "name": figure.name,
        "value": percent(figure.value),
        "interval": interval_text(figure),
        "n": figure.num_units,
    }


def _samples(run: RunResult, result: BenchmarkResult) -> list[dict[str, Any]]:
    own = [prediction for prediction in run.predictions if prediction.benchmark == result.benchmark]
    if len(own) > MAX_SAMPLES_PER_BENCHMARK:
        own = sorted(own, key=lambda one: (one.score is None, one.score or 0.0))[:MAX_SAMPLES_PER_BENCHMARK]
    model = str(run.manifest.get("model_name", ""))
    return [_sample(model, prediction) for prediction in own]


def _sample(model: str, prediction: Prediction) -> dict[str, Any]:
    return {
        "model": model,
        "benchmark": prediction.benchmark,
        "id": prediction.sample_id,
        "type": prediction.problem_type,
        "status": prediction.status,
        "score": prediction.score,
        "video": prediction.video,
        "problem": prediction.problem,
        "options": list(prediction.options),
        "answer": prediction.answer,
        "extracted": prediction.extracted,
        "reason": prediction.reason,
        "response": prediction.response[:MAX_RESPONSE_CHARS],
    }


def _script_json(value: Any) -> Any:
    """JSON that cannot end the script element that holds it."""
    from markupsafe import Markup

    text = json.dumps(value, ensure_ascii=False)
    for character, escape in (("&", "\\u0026"), ("<", "\\u003c"), (">", "\\u003e")):
        text = text.replace(character, escape)
    for code in (0x2028, 0x2029):
        text = text.replace(chr(code), f"\\u{code:04x}")
    return Markup(text)  # noqa: S704 - every character that HTML could read is escaped above

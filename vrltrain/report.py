"""`report.html` of a run: curves, timings and some responses in one file without anything from outside."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vrltrain.files import read_lines, write_text

CURVES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Reward", ("reward/overall_mean", "reward/accuracy_mean", "reward/format_mean")),
    ("Validation", ("validation/reward/overall_mean", "validation/accuracy_of_all")),
    ("Loss", ("update/loss", "update/pg_loss")),
    ("Gradient norm", ("update/grad_norm",)),
    ("KL", ("kl/mean", "update/ppo_kl")),
    ("Critic", ("critic/loss", "critic/explained_variance")),
    ("Entropy", ("update/entropy",)),
    ("Response length, tokens", ("response/length_mean", "response/length_max")),
    ("Engine and trainer apart (k3)", ("mismatch/k3_kl",)),
    ("Groups without signal", ("reward/zero_std_group_share",)),
)
COLOURS = ("#1f77b4", "#d1495b", "#3a7d44", "#8d6a9f")
WIDTH, HEIGHT, MARGIN = 420, 180, 34
NUM_EXAMPLES = 40

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222 }
body { margin: 2rem auto; max-width: 1000px; padding: 0 1rem }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin-top: 2rem }
.curves { display: grid; grid-template-columns: repeat(auto-fill, minmax(420px, 1fr)); gap: 1rem }
figure { margin: 0 } figcaption { font-weight: 600; font-size: .9rem }
svg { width: 100%; height: auto; background: #fafafa; border: 1px solid #e5e5e5 }
text { font-size: 10px; fill: #666 } .key { font-size: .8rem; color: #555 }
table { border-collapse: collapse; width: 100%; font-size: .85rem }
td, th { border-bottom: 1px solid #e5e5e5; padding: .3rem .5rem; text-align: left; vertical-align: top }
td.number { text-align: right; font-variant-numeric: tabular-nums }
pre { white-space: pre-wrap; word-break: break-word; margin: 0; font-size: .8rem }
"""


def write_report(run_dir: Path) -> Path:
    """Write the report of a run folder from its logs; returns its path."""
    metrics = read_lines(run_dir / "metrics.jsonl")
    examples = read_lines(run_dir / "examples.jsonl")
    manifest = json.loads((run_dir / "manifest.json").read_text(encoding="utf-8"))
    body = [
        f"<h1>{html.escape(str(manifest.get('run_id', run_dir.name)))}</h1>",
        _facts(manifest, metrics),
        "<h2>Curves</h2>",
        f'<div class="curves">{"".join(_figures(metrics))}</div>',
        "<h2>Time by phase</h2>",
        _timings(metrics),
        "<h2>Responses</h2>",
        _examples(examples),
    ]
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{html.escape(str(manifest.get('run_id', 'run')))}</title><style>{STYLE}</style></head>"
        f"<body>{''.join(body)}</body></html>\n"
    )
    path = run_dir / "report.html"
    write_text(path, page)
    return path


def _facts(manifest: Mapping[str, Any], metrics: Sequence[Mapping[str, Any]]) -> str:
    train = manifest.get("datasets", {}).get("train", {})
    facts = {
        "Dataset": train.get("uri", ""),
        "Release digest": train.get("digest", ""),
        "Commit": manifest.get("git_commit") or "",
        "Seed": manifest.get("seed"),
        "Steps": max((row["step"] for row in metrics), default=0),
        "Started": ", ".join(manifest.get("started_at", [])),
    }
    rows = "".join(
        f"<tr><th>{name}</th><td>{html.escape(str(value))}</td></tr>"
        for name, value in facts.items()
        if value not in ("", None)
    )
    return f"<table>{rows}</table>"


def _figures(metrics: Sequence[Mapping[str, Any]]) -> list[str]:
    figures = []
    for title, names in CURVES:
        lines = {}
        for name in names:
            points = [(row["step"], row[name]) for row in metrics if isinstance(row.get(name), int | float)]
            if points:
                lines[name] = points
        if lines:
            figures.append(_curve(title, lines))
    return figures


def _curve(title: str, lines: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """One figure: a polyline for each name, with the range of both axes written out."""
    steps = [step for points in lines.values() for step, _ in points]
    values = [value for points in lines.values() for _, value in points]
    left, right, low, high = min(steps), max(steps), min(values), max(values)
    across = (WIDTH - 2 * MARGIN) / max(right - left, 1)
    up = (HEIGHT - 2 * MARGIN) / ((high - low) or 1.0)
    parts, keys = [], []
    for colour, (name, points) in zip(COLOURS, lines.items(), strict=False):
        places = [
            (MARGIN + (step - left) * across, HEIGHT - MARGIN - (value - low) * up) for step, value in points
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2" fill="{colour}"/>' for x, y in places]
        keys.append(f'<span style="color:{colour}">&#9644;</span> {html.escape(name)}')
    axes = (
        f'<text x="4" y="{MARGIN - 6}">{high:.4g}</text>'
        f'<text x="4" y="{HEIGHT - MARGIN + 4}">{low:.4g}</text>'
        f'<text x="{MARGIN}" y="{HEIGHT - 8}">step {left:g}</text>'
        f'<text x="{WIDTH - MARGIN}" y="{HEIGHT - 8}" text-anchor="end">step {right:g}</text>'
    )
    return (
        f"<figure><figcaption>{html.escape(title)}</figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{axes}{"".join(parts)}</svg>'
        f'<div class="key">{" &nbsp; ".join(keys)}</div></figure>'
    )


def _timings(metrics: Sequence[Mapping[str, Any]]) -> str:
    totals: dict[str, float] = {}
    for row in metrics:
        for name, value in row.items():
            if name.startswith("time/") and isinstance(value, int | float):
                totals[name] = totals.get(name, 0.0) + value
    whole = totals.get("time/step_s", 0.0) or 1.0
    rows = "".join(
        f"<tr><td>{html.escape(name.removeprefix('time/').removesuffix('_s'))}</td>"
        f'<td class="number">{value:.2f} s</td><td class="number">{100 * value / whole:.1f} %</td></tr>'
        for name, value in sorted(totals.items(), key=lambda item: -item[1])
    )
    return f"<table><tr><th>phase</th><th>total</th><th>of all steps</th></tr>{rows}</table>"


def _examples(examples: Sequence[Mapping[str, Any]]) -> str:
    rows = []
    for row in list(examples)[-NUM_EXAMPLES:][::-1]:
        reward = row.get("reward")
        shown = "" if reward is None else f"{reward:.3f}"
        cells = (
            f'<td class="number">{row["step"]}</td><td>{html.escape(str(row.get("kind", "")))}</td>'
            f"<td>{html.escape(str(row.get('problem_type', '')))}<br>"
            f"{html.escape(str(row.get('sample_id', '')))}</td>"
            f"<td><pre>{html.escape(str(row.get('problem', '')))}</pre></td>"
            f"<td><pre>{html.escape(str(row.get('answer', '')))}</pre></td>"
            f"<td><pre>{html.escape(str(row.get('response', '')))}</pre></td>"
            f'<td class="number">{shown}</td>'
        )
        rows.append(f"<tr>{cells}</tr>")
    head = "".join(
        f"<th>{name}</th>" for name in ("step", "kind", "sample", "question", "answer", "response", "reward")
    )
    return f"<table><tr>{head}</tr>{''.join(rows)}</table>"

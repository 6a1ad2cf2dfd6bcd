"""Curves of the learning benchmarks as SVG, one picture a figure: thin lines are seeds, thick ones means."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

WIDTH, HEIGHT, LEFT, TOP, PLOT_WIDTH, PLOT_HEIGHT = 560, 340, 54, 34, 330, 250
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e")
SHOWN = {"overlong": ("length", "held_out"), "kl": ("kl", "held_out"), "cache": ("loss",)}
LABELS = {
    "held_out": "held-out accuracy",
    "length": "response length in tokens",
    "kl": "KL to the starting model",
    "loss": "loss",
}

Curve = list[list[float]]


def write_plots(results: dict[str, Any], folder: Path) -> None:
    """`<experiment>-<figure>.svg` for every experiment with a run."""
    curves: dict[tuple[str, str], dict[str, list[Curve]]] = defaultdict(lambda: defaultdict(list))
    for run in results["runs"].values():
        for figure in SHOWN.get(run["experiment"], ("held_out",)):
            curves[run["experiment"], figure][run["arm"]].append(run["curves"][figure])
    for (experiment, figure), arms in sorted(curves.items()):
        text = _picture(f"{experiment}: {LABELS[figure]}", arms, accuracy=figure == "held_out")
        (folder / f"{experiment}-{figure}.svg").write_text(text, encoding="utf-8")


def _picture(title: str, arms: dict[str, list[Curve]], *, accuracy: bool) -> str:
    points = [point for curves in arms.values() for curve in curves for point in curve]
    last = max(step for step, _ in points) or 1
    low, high = (0.0, 1.0) if accuracy else (min(0.0, *(y for _, y in points)), max(y for _, y in points))
    span = (high - low) or 1.0

    def place(step: float, value: float) -> str:
        x, y = LEFT + PLOT_WIDTH * step / last, TOP + PLOT_HEIGHT * (1 - (value - low) / span)
        return f"{x:.1f},{y:.1f}"

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="20" font-size="14">{title}</text>',
    ]
    for part in range(6):
        value, y = low + span * part / 5, TOP + PLOT_HEIGHT * (1 - part / 5)
        parts.append(f'<path d="M{LEFT} {y:.1f}h{PLOT_WIDTH}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.3g}</text>')
        x = LEFT + PLOT_WIDTH * part / 5
        parts.append(
            f'<text x="{x:.1f}" y="{TOP + PLOT_HEIGHT + 18}" text-anchor="middle">{last * part / 5:g}</text>'
        )
    parts.append(f'<text x="{LEFT + PLOT_WIDTH / 2}" y="{HEIGHT - 14}" text-anchor="middle">update</text>')
    for number, (arm, curves) in enumerate(sorted(arms.items())):
        colour = COLOURS[number % len(COLOURS)]
        for curve, width in [*((one, 0.7) for one in curves), (_mean(curves), 2.5)]:
            line = " ".join(place(step, value) for step, value in curve)
            parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="{width}"/>')
        y = TOP + 14 + 20 * number
        x = LEFT + PLOT_WIDTH + 14
        parts.append(f'<path d="M{x} {y - 4}h18" stroke="{colour}" stroke-width="2.5"/>')
        parts.append(f'<text x="{x + 24}" y="{y}">{arm} ({len(curves)})</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _mean(curves: list[Curve]) -> Curve:
    """At the steps that all curves have."""
    values = [{point[0]: point[1] for point in curve} for curve in curves]
    steps = sorted(set.intersection(*(set(one) for one in values)))
    return [[step, sum(one[step] for one in values) / len(values)] for step in steps]

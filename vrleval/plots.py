"""Plots as inline SVG: bars with intervals, bars of shares, histograms. Text is escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from vrleval.types import STATUSES, Figure

WIDTH = 720
LABEL_WIDTH = 220
ROW_HEIGHT = 22
VALUE_WIDTH = 120

COLOURS: Mapping[str, str] = {
    "scored": "#3b7dd8",
    "unparsed": "#d98c2b",
    "ambiguous": "#e3b23c",
    "empty": "#9aa0a6",
    "truncated": "#b565a7",
    "decode_failed": "#c0392b",
    "engine_failed": "#8e2b1f",
    "bad_answer": "#6e4b3a",
    "needs_judge": "#5fa777",
    "needs_simulator": "#2f7f6f",
}


def bar_chart(figures: Sequence[Figure], *, title: str) -> str:
    """Horizontal bars from 0 to 100 with the 95 % interval as a whisker; empty without figures."""
    known = [figure for figure in figures if figure.value is not None]
    if not known:
        return ""
    scale = (WIDTH - LABEL_WIDTH - VALUE_WIDTH) / 100
    rows = []
    for index, figure in enumerate(known):
        value = 100 * (figure.value or 0.0)
        y = 8 + index * ROW_HEIGHT
        middle = y + ROW_HEIGHT / 2 - 3
        baseline, shown = middle + 4, f"{value:.1f} (n={figure.num_units})"
        rows.append(
            f'<text x="{LABEL_WIDTH - 8}" y="{baseline:.1f}" text-anchor="end">'
            f"{escape(_short(figure.name))}</text>"
            f'<rect x="{LABEL_WIDTH}" y="{y}" width="{max(value, 0) * scale:.1f}" height="{ROW_HEIGHT - 8}" '
            f'class="bar"><title>{escape(figure.name)}: {shown}</title></rect>'
            f'<text x="{WIDTH - VALUE_WIDTH + 8}" y="{baseline:.1f}">{shown}</text>'
        )
        if figure.low is not None and figure.high is not None:
            low, high = LABEL_WIDTH + 100 * figure.low * scale, LABEL_WIDTH + 100 * figure.high * scale
            rows.append(
                f'<line x1="{low:.1f}" y1="{middle:.1f}" x2="{high:.1f}" y2="{middle:.1f}" class="whisker"/>'
            )
    height = 16 + len(known) * ROW_HEIGHT
    return _svg(height, title, _grid(scale, height) + "".join(rows))


def _grid(scale: float, height: int) -> str:
    lines = []
    for tick in range(0, 101, 25):
        x = LABEL_WIDTH + tick * scale
        lines.append(f'<line x1="{x:.1f}" y1="4" x2="{x:.1f}" y2="{height - 6}" class="grid"/>')
    return "".join(lines)


def status_bar(statuses: Mapping[str, int], *, title: str) -> str:
    """One bar of the shares of the statuses, with a legend of counts."""
    total = sum(statuses.values())
    if not total:
        return ""
    x, parts, legend = 0.0, [], []
    for name in [*STATUSES, *(name for name in statuses if name not in STATUSES)]:
        count = statuses.get(name, 0)
        if not count:
            continue
        width = WIDTH * count / total
        colour = COLOURS.get(name, "#555555")
        parts.append(
            f'<rect x="{x:.1f}" y="4" width="{width:.1f}" height="18" fill="{colour}">'
            f"<title>{escape(name)}: {count} ({100 * count / total:.1f} %)</title></rect>"
        )
        legend.append(
            f'<span><i style="background:{colour}"></i>'
            f"{escape(name)} {count} ({100 * count / total:.1f} %)</span>"
        )
        x += width
    return _svg(26, title, "".join(parts)) + f'<p class="legend">{"".join(legend)}</p>'


def histogram(values: Sequence[float], *, title: str, unit: str, num_bins: int = 24) -> str:
    """Counts of values in bins of equal width; empty without values."""
    if not values:
        return ""
    low, high = min(values), max(values)
    span = (high - low) or 1.0
    counts = [0] * num_bins
    for value in values:
        counts[min(num_bins - 1, int((value - low) / span * num_bins))] += 1
    width, height, most = WIDTH / num_bins, 120, max(counts)
    bars = "".join(
        f'<rect x="{index * width:.1f}" y="{height - 100 * count / most:.1f}" width="{width - 1:.1f}" '
        f'height="{100 * count / most:.1f}" class="bar"><title>{count}</title></rect>'
        for index, count in enumerate(counts)
    )
    ends = (
        f'<text x="0" y="{height + 14}">{low:,.0f} {escape(unit)}</text>'
        f'<text x="{WIDTH}" y="{height + 14}" text-anchor="end">{high:,.0f} {escape(unit)}</text>'
    )
    return _svg(height + 18, title, bars + ends)


def _svg(height: float, title: str, body: str) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" role="img" aria-label="{escape(title)}">'
        f"{body}</svg>"
    )


def _short(name: str, limit: int = 34) -> str:
    return name if len(name) <= limit else f"{name[: limit - 1]}…"

"""`results.json` as the tables of `README.md`: python benchmarks/learning/table.py"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results.json"


def tables(results: dict[str, Any]) -> str:
    """One Markdown table an experiment, a row an arm, a value a seed."""
    arms: dict[str, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for run in results["runs"].values():
        arms[run["experiment"]][run["arm"]].append(run)
    lines: list[str] = []
    for experiment, rows in sorted(arms.items()):
        lines += [f"### {experiment}", "", "| arm | seeds | held-out accuracy at the start | at the end |"]
        lines[-1] += " best | response length | KL | minutes | CPU seconds |"
        lines.append("|---|---|---|---|---|---|---|---|---|")
        for arm, runs in sorted(rows.items()):
            runs.sort(key=lambda run: int(run["seed"]))
            cells = [
                arm,
                ", ".join(str(run["seed"]) for run in runs),
                _values(run["held_out_start"] for run in runs),
                _values(run["held_out_end"] for run in runs),
                _values(max(value for _, value in run["curves"]["held_out"]) for run in runs),
                _values(run["curves"]["length"][-1][1] for run in runs),
                _values(run["curves"]["kl"][-1][1] if run["curves"]["kl"] else None for run in runs),
                ", ".join(f"{run['seconds'] / 60:.1f}" for run in runs),
                ", ".join(f"{run['cpu_seconds']:.0f}" for run in runs),
            ]
            lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


def _values(values: Any) -> str:
    return ", ".join("-" if value is None else f"{value:.3f}" for value in values)


if __name__ == "__main__":
    print(tables(json.loads(RESULTS.read_text(encoding="utf-8"))))

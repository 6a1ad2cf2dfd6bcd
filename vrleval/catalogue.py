"""What `vrleval list` shows: the benchmarks of the table and the presets."""

from __future__ import annotations

import dataclasses
from typing import Any

from vrleval.benchmarks.table import benchmarks
from vrleval.presets import PRESETS


def catalogue() -> dict[str, Any]:
    """Benchmarks and presets as plain values."""
    return {
        "benchmarks": {name: _plain(benchmark) for name, benchmark in benchmarks().items()},
        "presets": {
            name: {
                "frames": preset.spec.max_frames,
                "fps": preset.spec.fps,
                "max_pixels": preset.spec.max_pixels,
                "total_pixels": preset.spec.total_pixels,
                "video_tokens": preset.video_tokens,
                "temperature": preset.temperature,
                "max_tokens": preset.max_tokens,
                "source": preset.source,
            }
            for name, preset in PRESETS.items()
        },
    }


def _plain(benchmark: Any) -> dict[str, Any]:
    return {
        field.name: dict(value) if hasattr(value := getattr(benchmark, field.name), "items") else value
        for field in dataclasses.fields(benchmark)
    }


def catalogue_text(values: dict[str, Any]) -> str:
    """The catalogue for the terminal."""
    lines = [f"{'benchmark':<19}{'rows':>6}  {'metric':<9}{'headline':<18}{'judge':<7}groups"]
    for name, entry in values["benchmarks"].items():
        judge = "yes" if entry["judge"] else ""
        lines.append(
            f"{name:<19}{entry['num_questions']:>6}  {entry['metric']:<9}{entry['headline']:<18}{judge:<7}"
            f"{', '.join(entry['groups'])}"
        )
    lines += ["", f"{'preset':<22}{'frames':>7}{'fps':>5}{'tokens':>9}  source"]
    for name, entry in values["presets"].items():
        tokens = entry["video_tokens"] or "-"
        lines.append(f"{name:<22}{entry['frames']:>7}{entry['fps']:>5g}{tokens:>9}  {entry['source']}")
    lines.append("The families qwen2-vl, qwen2.5-vl, qwen3-vl and qwen3.5-vl are presets too.")
    return "\n".join(lines)

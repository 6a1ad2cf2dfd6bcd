"""Results of the benchmarks as ratios with their goals, as a table and as a picture.

Reads what `run.py` gathered; measures nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

BEGIN = "<!-- benchmarks: written by benchmarks/run.py -->"
END = "<!-- benchmarks: end -->"

WIDTH, LABEL, LEFT, ROW, TOP = 860, 10, 480, 22, 58
BEST = 16.0
"""Factor over the goal at which bars end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """One figure with its goal.

    Attributes:
        part: benchmark that it comes from.
        name: what is compared.
        value: times faster, smaller or slower.
        goal: what it should reach.
        at_least: whether more is better.
    """

    part: str
    name: str
    value: float
    goal: float
    at_least: bool = True

    @property
    def holds(self) -> bool:
        return self.value >= self.goal if self.at_least else self.value <= self.goal

    @property
    def margin(self) -> float:
        """Value over goal, or goal over value where less is better: 1 just holds."""
        return self.value / self.goal if self.at_least else self.goal / self.value

    @property
    def goal_text(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.goal:g}"

    def to_dict(self) -> dict[str, Any]:
        found = {"part": self.part, "name": self.name, "value": round(self.value, 3), "goal": self.goal}
        return {**found, "at_least": self.at_least, "holds": self.holds}


def ratios(parts: dict[str, Any]) -> list[Ratio]:
    """All figures with a goal, of the parts that were measured."""
    makers = {
        "read": _read,
        "disk": _disk,
        "build": _build,
        "decode": _decode,
        "epoch": _epoch,
        "memory": _memory,
    }
    return [ratio for part, make in makers.items() if part in parts for ratio in make(parts[part])]


def _read(found: dict[str, Any]) -> Iterator[Ratio]:
    shown = {"large": "198 MB clip", "usual": "12 MB clip", "small": "5.5 MB clip"}
    goals = {"default": 10.0, "tuned": 5.0}
    for size, by_allocator in found["read"].items():
        for allocator, values in by_allocator.items():
            name = f"random read of a {shown[size]}, every pixel touched: faster than torch.load of the .pt"
            yield Ratio(
                part="read",
                name=f"{name} ({allocator} allocator)",
                value=values["pt_over_store"],
                goal=goals[allocator],
            )
            yield Ratio(
                part="read",
                name=f"the same, the first time that this process reads the clip ({allocator} allocator)",
                value=values["pt_over_store_first"],
                goal=goals[allocator],
            )
        yield Ratio(
            part="read",
            name=f"that first read over that of a plain uint8 file ({shown[size]})",
            value=max(values["store_over_file"] for values in by_allocator.values()),
            goal=1.3,
            at_least=False,
        )


def _disk(found: dict[str, Any]) -> Iterator[Ratio]:
    codecs = {name.split(":")[0]: values["smaller_than_pt"] for name, values in found["codecs"].items()}
    lossless = [values for values in found["codecs"].values() if values["lossless"]]
    best = max(values["smaller_than_pt"] for values in lossless)
    wanted = {
        "raw": (codecs["raw"], 4.0),
        "zstd": (codecs["zstd"], 5.0),
        "best lossless": (best, 10.0),
        "jpeg": (codecs["jpeg"], 28.0),
    }
    for name, (value, goal) in wanted.items():
        # the .pt holds metadata beside four bytes a value: four times to the third digit is four times
        yield Ratio(
            part="disk",
            name=f"disk, real clips, {name}: smaller than the float32 .pt",
            value=round(value, 2),
            goal=goal,
        )


def _build(found: dict[str, Any]) -> Iterator[Ratio]:
    shown = {"real": "real clips of 4 to 10 s", "made": "720p clips of 20 s"}
    for kind, values in found["script"].items():
        for reader, value in values["speedup"].items():
            yield Ratio(
                part="build",
                name=f"build, {shown[kind]}: faster than qwen-vl-utils ({reader}) + torch.save",
                value=value,
                goal=3.0,
            )


def _decode(found: dict[str, Any]) -> Iterator[Ratio]:
    if "dense" in found:
        yield Ratio(
            part="decode",
            name="dense decode, 1080p: time over that of the bare decoder",
            value=found["dense"]["ratio"],
            goal=1.3,
            at_least=False,
        )
    for one in found.get("sparse", []):
        yield Ratio(
            part="decode",
            name=f"64 frames of an hour, a key frame every {one['key_frame_every_s']} s: over full decode",
            value=one["speedup"] if one["same_frames"] else 0.0,
            goal=5.0,
        )


def _epoch(found: dict[str, Any]) -> Iterator[Ratio]:
    epoch = found["epoch"]
    for other, shown in (("loop", "a torch.load loop"), ("loader", "a DataLoader over .pt files")):
        yield Ratio(
            part="epoch",
            name=f"epoch by Ray Data, samples a second: over {shown}",
            value=epoch[f"ray_over_{other}"],
            goal=5.0,
        )


def _memory(found: dict[str, Any]) -> Iterator[Ratio]:
    memory = found["memory"]
    first, last = (f"{memory['sizes'][place]['frames_gb']:.0f} GB" for place in (0, -1))
    yield Ratio(
        part="memory",
        name=f"peak memory of an epoch by Ray Data: {last} of frames over {first}",
        value=memory["growth"],
        goal=1.1,
        at_least=False,
    )


def table(results: dict[str, Any]) -> str:
    """The figures as a Markdown table, with a line about the machine."""
    lines = ["| figure | measured | goal | |", "|---|---:|---:|---|"]
    for one in results["ratios"]:
        ratio = Ratio(**{name: one[name] for name in ("part", "name", "value", "goal", "at_least")})
        mark = "✓" if ratio.holds else "missed"
        lines.append(f"| {ratio.name} | {ratio.value:.3g} | {ratio.goal_text} | {mark} |")
    machine = next(iter(results["parts"].values()))["machine"]
    versions = ", ".join(f"{name} {machine[name]}" for name in ("torch", "pylance", "av", "ray"))
    hardware = f"{machine['cpus']} CPUs ({machine['processor']}), {machine['memory_gb']:.0f} GB"
    lines += ["", f"{hardware}; {versions}."]
    return "\n".join(lines)


def put_table(file: Path, text: str) -> None:
    """Replace what lies between the markers of a Markdown file."""
    content = file.read_text(encoding="utf-8")
    if BEGIN not in content or END not in content:
        raise SystemExit(f"{file}: no lines {BEGIN!r} and {END!r} to put the table between")
    before, rest = content.split(BEGIN, 1)
    file.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.split(END, 1)[1]}", encoding="utf-8")


def plot(results: dict[str, Any]) -> str:
    """An SVG picture: a bar a figure, from the goal to the right where it holds, to the left where not."""
    found = [
        Ratio(**{name: one[name] for name in ("part", "name", "value", "goal", "at_least")})
        for one in results["ratios"]
    ]
    height = TOP + ROW * len(found) + 16
    middle, right = LEFT + 60, WIDTH - 70
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{LABEL}" y="20" font-size="14">Measured over the goal (line), each step twice</text>',
    ]
    step = (right - middle) / _doublings(BEST)
    for power in range(-1, int(_doublings(BEST)) + 1):
        x = middle + power * step
        colour = "#333" if power == 0 else "#ddd"
        parts.append(f'<path d="M{x:.1f} {TOP - 8}v{ROW * len(found) + 8}" stroke="{colour}"/>')
        parts.append(f'<text x="{x:.1f}" y="{TOP - 14}" text-anchor="middle">{2.0**power:g}×</text>')
    for number, ratio in enumerate(found):
        y = TOP + ROW * number
        length = max(-1.0, min(_doublings(ratio.margin), _doublings(BEST))) * step
        x, colour = min(middle, middle + length), "#2a7f3f" if ratio.holds else "#c0392b"
        parts.append(
            f'<rect x="{x:.1f}" y="{y}" width="{max(abs(length), 1):.1f}" height="{ROW - 8}" '
            f'fill="{colour}"/>'
        )
        parts.append(f'<text x="{LABEL}" y="{y + 11}">{escape(ratio.name)}</text>')
        parts.append(f'<text x="{right + 6}" y="{y + 11}">{ratio.value:.3g} ({ratio.goal_text})</text>')
    return "\n".join([*parts, "</svg>", ""])


def _doublings(value: float) -> float:
    return math.log2(max(value, 1e-6))

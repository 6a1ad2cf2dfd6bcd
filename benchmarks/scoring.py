"""Throughput of the scorer, and its patience with garbage.

    python benchmarks/scoring.py                 # scores a second a core, by problem type
    python benchmarks/scoring.py --fuzz 100000   # random responses a type: none slow, memory flat

The first prints one line a type. The second calls the real scorers, and exits with 1 when one raises, takes
longer than the limit, leaves 0..1, or when resident memory (with all child processes) grows. A line says
how many responses got as far as a child process, a drawing or the sandbox: most random ones are turned away
before. Types with drawing and with unit tests stand under names of their own (`--types svg_code+drawn`).
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

from vrldata.tasks import PROBLEM_TYPES, ScoringSettings, score, score_batch
from vrldata.tasks.killable import KillableWorker

_LAYOUT = argparse.RawDescriptionHelpFormatter

OPTIONS = ["A. the blue car", "B. the red car", "C. a bicycle", "D. Both A and B"]
BOXES = {str(second): [second, 10, second + 20, 60] for second in range(1, 33)}
POINTS = [[10, 10], [50, 50], [90, 90]]

ROWS: dict[str, dict[str, Any]] = {
    "multiple_choice": {"answer": "B", "options": OPTIONS, "content": "B. the red car"},
    "numerical": {"answer": "1234", "content": "about 1,234 apples"},
    "regression": {"answer": 40, "content": "42.5 metres"},
    "boolean": {"answer": "yes", "content": "Yes, it does."},
    "temporal_grounding": {"answer": {"time": [3, 8]}, "content": '{"time": [2.5, 8]}', "duration": 60.0},
    "spatial_temporal_grounding": {
        "answer": {"time": [1, 32], "boxes": BOXES},
        "content": '{"time": [3, 8], "boxes": {"3": [0, 0, 10, 10], "4": [4, 10, 24, 60]}}',
    },
    "spatial_grounding": {"answer": {"boxes": [0, 0, 10, 10]}, "content": '{"boxes": [5, 5, 15, 15]}'},
    "tracking": {"answer": {"boxes": BOXES}, "content": '{"boxes": {"4": [4, 10, 24, 60]}}'},
    "segmentation": {
        "answer": {"boxes": [0, 0, 100, 100], "positive_points": POINTS, "negative_points": POINTS},
        "content": f'{{"boxes": [0, 0, 90, 90], "positive_points": {POINTS}, "negative_points": {POINTS}}}',
    },
    "open_ended": {
        "answer": "a man in a red coat runs across the wet street",
        "content": "a woman in a red coat walks over the street while it rains",
    },
    "math": {"answer": r"x^2+2x+1", "content": r"(x+1)^2"},
    "ocr": {"answer": "THE QUICK BROWN FOX", "content": "the quick brown dog"},
    "svg_code": {
        "answer": '<svg width="10"><rect width="5" height="5"/></svg>',
        "content": '<svg width="10"><rect height="5" width="5"/></svg>',
    },
    "html_code": {"answer": "<h1>Title</h1><p>text</p>", "content": "<h1>Title</h1><p>other</p>"},
    "code": {"answer": "def f(x):\n    return x + 1\n", "content": "def f(y):\n    return 1 + y\n"},
    "preference": {"answer": "Response 2", "content": "Response 2 is better than Response 1"},
}

FRAGMENTS = [
    *(
        "<think>",
        "</think>",
        "<answer>",
        "</answer>",
        "<ANSWER>",
        "</thought>",
        "\\boxed{",
        "}",
        "{",
        "[",
        "]",
        "(",
        ")",
    ),
    *(
        "A",
        "B",
        "C.",
        "(D)",
        " or ",
        ", ",
        "\n",
        " ",
        "**",
        "`",
        "```json\n",
        "```",
        '"',
        "'",
        "$",
        "\\",
        "%",
        "/",
        ":",
    ),
    *(
        "1",
        "2,345",
        "-3.5",
        "1e5",
        "1e999",
        "9**9**9",
        "99999999!",
        "1/0",
        "0",
        "NaN",
        "Infinity",
        "3:45",
        "½",
        "−5",
    ),
    *(
        "two hundred",
        "twenty-one",
        "三",
        "是",
        "不是",
        "答案是",
        "Ｂ",
        "yes",
        "no",
        "true",
        "not",
        "tie",
        "Response 1",
    ),
    *(
        '{"time": [3, 8]}',
        '{"boxes": [0, 0, 10, 10]}',
        '"time":',
        '{"a":' * 40,
        "[" * 200,
        '{"boxes": {"1": [0,0,1,1]}}',
    ),
    *(
        "the answer is ",
        "Therefore, ",
        "from 3 to 8 seconds",
        "start 3 end 8",
        "I think",
        "A man",
        "the red car",
    ),
    *(
        "<svg>",
        "<svg width='1'>",
        "</svg>",
        "<p>",
        "<!--",
        "<![CDATA[",
        "<!DOCTYPE x [<!ENTITY a 'b'>]>",
        "&a;",
        "<" * 50,
    ),
    *(
        "def f(x):\n  return x",
        "import os",
        "lambda: " * 30,
        "(" * 90,
        "\x00",
        "\ud800",
        "\u202e",
        "é",
        "👩‍👩‍👧",
        "\r",
    ),
    *(
        " " * 2000,
        "\n" * 2000,
        "a" * 2000,
        "1" * 2000,
        "\\frac{" * 20,
        "^{" * 20,
        "\\sqrt{2}",
        "x^2+1",
        "\\text{odd}",
    ),
]


VARIANTS: dict[str, tuple[str, ScoringSettings, dict[str, Any]]] = {
    **{name: (name, ScoringSettings(), {}) for name in PROBLEM_TYPES},
    "svg_code+drawn": ("svg_code", ScoringSettings(render=True), {}),
    "html_code+drawn": ("html_code", ScoringSettings(render=True), {}),
    # One test with one second: an endless loop is the answer's own fault and is cut off by this limit.
    "code+tests": (
        "code",
        ScoringSettings(allow_code_execution=True, code_seconds=1.0),
        {"extra": {"unit_tests": ["assert f(1) == 2"]}},
    ),
}
"""Name on the command line to problem type, settings and further fields of its rows."""

Case = tuple[str, dict[str, Any]]
"""A response, and the arguments of `score` that go with it."""


def response_of(content: str) -> str:
    """A well-formed response with reasoning of a usual length before the answer."""
    return f"<think>{'The frames show a street with several cars. ' * 20}</think><answer>{content}</answer>"


def random_response(generator: random.Random, content: str) -> str:
    """Fragments in random order, or the damaged content of a right answer; most inside a complete tag."""
    if generator.random() < 0.3:
        text = damaged(generator, content)
    else:
        text = "".join(generator.choices(FRAGMENTS, k=generator.randint(0, 12)))
    return f"<answer>{text}</answer>" if generator.random() < 0.6 else text


def damaged(generator: random.Random, content: str) -> str:
    """`content` with one to four pieces cut out, doubled, swapped in or replaced by a fragment."""
    for _ in range(generator.randint(1, 4)):
        start, end = sorted(generator.randint(0, len(content)) for _ in range(2))
        piece = generator.choice(["", content[start:end] * 2, generator.choice(FRAGMENTS)])
        content = content[:start] + piece + content[end if generator.random() < 0.5 else start :]
    return content[:20_000]


def arguments_of(name: str, protocol: str) -> dict[str, Any]:
    """Arguments of `score` for the row of a variant, all but the response."""
    problem_type, settings, fields = VARIANTS[name]
    row = {field: value for field, value in ROWS[problem_type].items() if field != "content"}
    return {"problem_type": problem_type, "protocol": protocol, "settings": settings, **row, **fields}


def cases_of(name: str, protocol: str) -> list[Case]:
    """What is measured: the type's one row; of multiple choice, 64 questions with 8 different responses."""
    problem_type = VARIANTS[name][0]
    if problem_type != "multiple_choice":
        return [(response_of(ROWS[problem_type]["content"]), arguments_of(name, protocol))]
    cases = []
    for number in range(64):
        options = [f"{letter}. the {number} {text}" for letter, text in zip("ABCD", COLOURS, strict=True)]
        row = {**arguments_of(name, protocol), "answer": "ABCD"[number % 4], "options": options}
        for form in ("B", "b", "(B)", "**C**", "B. the {} red car", "the {} bicycle", "I think A", "A or B"):
            cases.append((response_of(form.format(number)), row))
    return cases


COLOURS = ("blue car", "red car", "bicycle", "bus")


def measure(name: str, protocol: str, seconds: float) -> tuple[float, float]:
    """Scores a second of CPU time, child processes included, and of time that has passed."""
    cases = cases_of(name, protocol)
    for response, arguments in cases:
        score(response=response, **arguments)
    count, start, used = 0, time.perf_counter(), family("cpu")
    while time.perf_counter() - start < seconds:
        for response, arguments in cases:
            score(response=response, **arguments)
        count += len(cases)
    passed = time.perf_counter() - start
    return count / max(family("cpu") - used, 0.01), count / passed


def measure_batch(rows: int) -> float:
    """Multiple-choice scores a second through `score_batch`, in this process."""
    batch = [
        {"response": response, **{name: row[name] for name in ("problem_type", "answer", "options")}}
        for response, row in cases_of("multiple_choice", "train")
    ]
    start = time.perf_counter()
    for _ in range(rows // 250):
        score_batch(batch[:250])
    return rows // 250 * 250 / (time.perf_counter() - start)


class _Calls:
    """Counts the requests to child processes while it is entered."""

    def __init__(self) -> None:
        self.count = 0
        self._call = KillableWorker.call

    def __enter__(self) -> _Calls:
        def call(worker: KillableWorker, request: dict[str, Any], *, seconds: float) -> dict[str, Any]:
            self.count += 1
            return self._call(worker, request, seconds=seconds)

        KillableWorker.call = call  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        KillableWorker.call = self._call  # type: ignore[method-assign]


def fuzz(name: str, protocol: str, count: int, limit_s: float, seed: int) -> list[str]:
    """What went wrong over `count` random responses: raised, too slow, out of bounds, memory that grows."""
    generator, faults = random.Random(f"{seed} {name}"), []
    arguments, content = arguments_of(name, protocol), ROWS[VARIANTS[name][0]]["content"]
    score(response=response_of(content), **arguments)  # child processes are there
    slowest, statuses, parts, memory = 0.0, Counter[str](), Counter[str](), []
    begin = time.perf_counter()
    with _Calls() as calls:
        for index in range(count):
            response = random_response(generator, content)
            start = time.perf_counter()
            try:
                result = score(response=response, **arguments)
            except Exception as error:  # noqa: BLE001 - any at all is a finding
                faults.append(f"{type(error).__name__}: {error}: {response[:200]!r}")
                continue
            taken = time.perf_counter() - start
            slowest = max(slowest, taken)
            statuses[result.status] += 1
            parts.update(part for part in ("rendered", "tests_passed") if part in result.parts)
            if taken > limit_s:
                faults.append(f"{taken:.1f} s: {result.status} {response[:200]!r}")
            if result.accuracy is not None and not 0 <= result.accuracy <= 1:
                faults.append(f"accuracy {result.accuracy}: {response[:200]!r}")
            if index % max(1, count // 50) == 0:
                memory.append(family("memory"))
    fifth = len(memory) // 5
    early, late = median(memory[fifth : 2 * fifth + 1]), median(memory[-fifth - 1 :])
    if count >= 20_000 and late - early > MAX_GROWTH_MIB:
        faults.append(f"memory grew from {early:.0f} to {late:.0f} MiB")
    figures = f"slowest {slowest * 1e3:6.1f} ms, {early:.0f} -> {late:.0f} MiB, {calls.count} child calls"
    more = "".join(f", {number} {part}" for part, number in parts.items())
    write(f"{name:28s} {protocol:6s} {count} responses, {len(faults)} faults, {figures}{more}")
    seconds = time.perf_counter() - begin
    write(f"{'':36s}{seconds:.0f} s; " + ", ".join(f"{kind} {n}" for kind, n in statuses.most_common()))
    return faults


MAX_GROWTH_MIB = 24.0
"""Between the second fifth of a run and its last: what an allocator may keep, and no more."""


def family(figure: str) -> float:
    """Resident memory in MiB (`memory`) or CPU seconds (`cpu`) of this process and all processes below it."""
    parents: dict[int, int] = {}
    figures: dict[int, float] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        process = int(entry.name)
        parents[process] = int(fields[1])
        ticks = sum(int(value) for value in fields[11:15])  # those of ended children that were waited for too
        figures[process] = int(fields[21]) * 4096 / (1 << 20) if figure == "memory" else ticks / _TICKS
    mine = {os.getpid()}
    while more := {child for child, parent in parents.items() if parent in mine} - mine:
        mine |= more
    return sum(figures.get(process, 0.0) for process in mine)


_TICKS = os.sysconf("SC_CLK_TCK")


def write(line: str) -> None:
    """One line of the result."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    """Run what the command line asks for; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_LAYOUT)
    parser.add_argument("--seconds", type=float, default=1.0, help="measured time for each type")
    parser.add_argument("--types", nargs="*", default=list(VARIANTS), choices=list(VARIANTS), metavar="TYPE")
    parser.add_argument("--protocols", nargs="*", default=["train", "eval"])
    parser.add_argument("--fuzz", type=int, default=0, help="random responses a type")
    parser.add_argument("--limit", type=float, default=2.0, help="seconds that one random response may take")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    faults: list[str] = []
    pairs = [(name, protocol) for name in arguments.types for protocol in arguments.protocols]
    if arguments.fuzz:
        for name, protocol in pairs:
            faults += fuzz(name, protocol, arguments.fuzz, arguments.limit, arguments.seed)
        for fault in faults[:50]:
            write(fault)
        return 1 if faults else 0
    for name, protocol in pairs:
        of_cpu, of_clock = measure(name, protocol, arguments.seconds)
        write(f"{name:28s} {protocol:6s} {of_cpu:10.0f} scores a CPU second, {of_clock:8.0f} a second")
    write(f"{'multiple_choice, score_batch':35s} {measure_batch(20_000):10.0f} scores/s")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Throughput of the scorer, and its patience with garbage.

    python benchmarks/scoring.py                       # scores a second a core, by problem type
    python benchmarks/scoring.py --fuzz 100000   # random responses a type: none slow, memory flat

The first prints one line a type; the second exits with 1 when a response takes longer than the limit, an
accuracy leaves 0..1, or memory grows.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import time
from typing import Any

from vrldata.tasks import PROBLEM_TYPES, score, score_batch

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


def response_of(content: str) -> str:
    """A well-formed response with reasoning of a usual length before the answer."""
    return f"<think>{'The frames show a street with several cars. ' * 20}</think><answer>{content}</answer>"


def random_response(generator: random.Random) -> str:
    """Fragments in random order, half of them inside a complete answer tag."""
    text = "".join(generator.choices(FRAGMENTS, k=generator.randint(0, 12)))
    return f"<answer>{text}</answer>" if generator.random() < 0.5 else text


def row_of(problem_type: str) -> dict[str, Any]:
    """Record fields of a type's row but the response."""
    row = dict(ROWS[problem_type])
    row.pop("content")
    return row


def measure(problem_type: str, protocol: str, seconds: float) -> float:
    """Scores a second of one process."""
    row, response = row_of(problem_type), response_of(ROWS[problem_type]["content"])
    score(problem_type, response, row["answer"], protocol=protocol, **_fields(row))
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        for _ in range(20):
            score(problem_type, response, row["answer"], protocol=protocol, **_fields(row))
        count += 20
    return count / (time.perf_counter() - start)


def _fields(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "answer"}


def measure_batch(rows: int) -> float:
    """Multiple-choice scores a second through `score_batch`, in this process."""
    row = {"problem_type": "multiple choice", "response": response_of("B"), **row_of("multiple_choice")}
    start = time.perf_counter()
    for _ in range(rows // 250):
        score_batch([row] * 250)
    return rows / (time.perf_counter() - start)


def fuzz(problem_type: str, protocol: str, count: int, limit_s: float, seed: int) -> list[str]:
    """What went wrong over `count` random responses: too slow, out of bounds, memory that grows."""
    generator, row, faults = random.Random(f"{seed} {problem_type}"), row_of(problem_type), []
    slowest, before = 0.0, 0
    for index in range(count):
        response = random_response(generator)
        start = time.perf_counter()
        result = score(problem_type, response, row["answer"], protocol=protocol, **_fields(row))
        taken = time.perf_counter() - start
        slowest = max(slowest, taken)
        if taken > limit_s:
            faults.append(f"{taken:.1f} s: {result.status} {response[:200]!r}")
        if result.accuracy is not None and not 0 <= result.accuracy <= 1:
            faults.append(f"accuracy {result.accuracy}: {response[:200]!r}")
        if index == count // 2:
            before = _peak_kib()
    grown = _peak_kib() - before
    if count >= 20_000 and grown > 64 << 10:
        faults.append(f"memory grew by {grown >> 10} MiB over the second half")
    result = f"{count} responses, slowest {slowest * 1e3:7.1f} ms, {len(faults)} faults"
    write(f"{problem_type:28s} {protocol:6s} {result}")
    return faults


def _peak_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def write(line: str) -> None:
    """One line of the result."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    """Run what the command line asks for; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_LAYOUT)
    parser.add_argument("--seconds", type=float, default=1.0, help="measured time for each type")
    parser.add_argument("--types", nargs="*", default=list(PROBLEM_TYPES))
    parser.add_argument("--protocols", nargs="*", default=["train", "eval"])
    parser.add_argument("--fuzz", type=int, default=0, help="random responses a type")
    parser.add_argument("--limit", type=float, default=2.0, help="seconds that one random response may take")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    faults: list[str] = []
    pairs = [(kind, protocol) for kind in arguments.types for protocol in arguments.protocols]
    if arguments.fuzz:
        for kind, protocol in pairs:
            faults += fuzz(kind, protocol, arguments.fuzz, arguments.limit, arguments.seed)
        for fault in faults[:50]:
            write(fault)
        return 1 if faults else 0
    for kind, protocol in pairs:
        write(f"{kind:28s} {protocol:6s} {measure(kind, protocol, arguments.seconds):10.0f} scores/s/core")
    write(f"{'multiple_choice, score_batch':35s} {measure_batch(20_000):10.0f} scores/s")
    return 0


if __name__ == "__main__":
    sys.exit(main())

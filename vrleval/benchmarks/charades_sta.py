"""Charades-STA: the moment of a sentence. Repairs the answers of EasyVideoR1's file.

There every answer is a JSON object inside a think tag with a leaked placeholder behind it. The object is the
answer. Predictions get no such kindness: what stands in a reasoning block is no answer.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vrleval.rows import Row

_TIME = re.compile(r'"time"\s*:\s*\[\s*(-?[\d.]+)\s*,\s*(-?[\d.]+)\s*\]')


def prepare(rows: list[Row]) -> list[Row]:
    """Rows with an answer `{"time": [start, end]}` in seconds."""
    for row in rows:
        row.setdefault("problem_type", "temporal grounding")
        row["options"] = []
        stamp = row.get("timestamp")
        match = _TIME.search(str(row.get("answer", "")))
        if isinstance(stamp, list) and len(stamp) == 2:
            row["answer"] = json.dumps({"time": [float(stamp[0]), float(stamp[1])]})
        elif match:
            row["answer"] = json.dumps({"time": [float(match[1]), float(match[2])]})
    return rows

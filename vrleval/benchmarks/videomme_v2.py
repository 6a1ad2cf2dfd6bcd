"""Video-MME-v2: four questions on a video are scored together, by relevance or by a chain of reasoning."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vrldata.errors import BenchmarkError
from vrleval.aggregate import counted
from vrleval.intervals import Unit
from vrleval.types import Prediction

if TYPE_CHECKING:
    from vrleval.aggregate import Rule
    from vrleval.rows import Row

GROUP_SIZE = 4
QUADRATIC = (0.0, 6.25, 25.0, 56.25, 100.0)
"""Percent for 0 to 4 right answers: (k / 4)^2."""


@dataclass(frozen=True, slots=True)
class Chain:
    """Credit of a chain of reasoning.

    Attributes:
        credits: percent by length of the unbroken prefix.
        pair: positions (from 0) of two steps that may be taken in either order; None in a plain chain.
    """

    credits: tuple[float, ...]
    pair: tuple[int, int] | None = None


CHAINS: dict[str, Chain] = {
    "[1,2,3,4]": Chain(QUADRATIC),
    "[1,[2,3],4]": Chain((0.0, 100 / 12, 400 / 12, 700 / 12, 100.0), (1, 2)),
    "[[1,2],3,4]": Chain((0.0, 10.0, 20.0, 50.0, 100.0), (0, 1)),
}


def group_score(group_type: str, structure: str, correct: Sequence[float]) -> float:
    """Percent that a group earns.

    Relevance: (right / 4)^2. Logic: the length of the unbroken prefix of right answers, one more where the
    prefix stops just before a parallel pair whose second step is right.

    Args:
        group_type: `relevance` or `logic`.
        structure: of a logic group, such as `[1,[2,3],4]`.
        correct: 4 values, in the order of the questions; missing members are wrong.

    Raises:
        BenchmarkError: unknown type or structure.
    """
    right = [value >= 1.0 for value in correct][:GROUP_SIZE]
    right += [False] * (GROUP_SIZE - len(right))
    if group_type == "relevance":
        return QUADRATIC[sum(right)]
    if group_type != "logic":
        raise BenchmarkError(f"Video-MME-v2 group_type {group_type!r}: expected 'relevance' or 'logic'")
    chain = CHAINS.get(_canonical(structure))
    if chain is None:
        raise BenchmarkError(
            f"Video-MME-v2 group_structure {structure!r}: unknown; known: {', '.join(CHAINS)}"
        )
    length = right.index(False) if False in right else GROUP_SIZE
    if chain.pair is not None and length == chain.pair[0] and right[chain.pair[1]]:
        length += 1
    return chain.credits[length]


def _canonical(structure: str) -> str:
    try:
        return json.dumps(json.loads(structure), separators=(",", ":"))
    except ValueError:
        return "".join(structure.split())


def prepare(rows: list[Row]) -> list[Row]:
    """Rows with the video's four questions as the unit that is scored."""
    for row in rows:
        row["unit"] = str(row.get("video_id") or str(row.get("id", "")).rpartition("-")[0])
    return rows


def groups_of_type(name: str) -> Rule:
    """The rule over the groups of one type."""

    def rule(predictions: Sequence[Prediction]) -> list[Unit]:
        return groups_of_four([one for one in predictions if one.groups.get("group_type") == name])

    return rule


def by_field(predictions: Sequence[Prediction], field: str) -> dict[str, list[Unit]]:
    """Scores of the groups by the value of a field, which is that of a group's last question."""
    members: dict[str, list[Prediction]] = {}
    for one in counted(predictions):
        members.setdefault(one.unit or one.key, []).append(one)
    found: dict[str, list[Unit]] = {}
    for group in members.values():
        value = max(group, key=lambda one: _position(one.sample_id)).groups.get(field)
        if value:
            found.setdefault(value, []).extend(groups_of_four(group))
    return found


def groups_of_four(predictions: Sequence[Prediction]) -> list[Unit]:
    """One unit a group: its score as a share."""
    groups: dict[str, dict[str, Prediction]] = {}
    for prediction in counted(predictions):
        groups.setdefault(prediction.unit or prediction.key, {})[prediction.sample_id] = prediction
    units = []
    for name, members in groups.items():
        ordered = [members[key] for key in sorted(members, key=_position)]
        first = ordered[0]
        correct = [0.0] * GROUP_SIZE
        for index, member in enumerate(ordered):
            position = _position(member.sample_id)[0]
            correct[position - 1 if 1 <= position <= GROUP_SIZE else min(index, 3)] = member.score or 0.0
        score = group_score(
            first.groups.get("group_type", "relevance"), first.groups.get("group_structure", ""), correct
        )
        units.append(Unit(score / 100, first.video or name))
    return units


def _position(sample_id: str) -> tuple[int, str]:
    """Place in the group, from the suffix of an id such as `001-3`; 0 without one."""
    suffix = sample_id.rpartition("-")[2]
    return (int(suffix) if suffix.isdigit() else 0, sample_id)

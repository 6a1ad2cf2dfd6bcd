"""Counts as messages and results print them: the noun in the number that belongs to it."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """`number` with its noun.

    Args:
        noun: for one; further words of it stand in front, as in `offline trajectory`.
        plural: for any other number; by default with an `s`, or `ies` for a `y`.

    >>> counted(1, "sample"), counted(0, "sample"), counted(2, "offline trajectory")
    ('1 sample', '0 samples', '2 offline trajectories')
    """
    if number == 1:
        return f"{number} {noun}"
    if plural is None:
        ends_in_y = noun.endswith("y") and not noun.endswith(("ay", "ey", "oy", "uy"))
        plural = f"{noun[:-1]}ies" if ends_in_y else f"{noun}s"
    return f"{number} {plural}"

"""Offline responses of annotation rows: a text, a list of texts or chat messages, and their scores."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vrldata.annotation_faults import RowFault
from vrldata.annotation_fields import Columns, not_nan, pick, reported_name

LOG_PROB_ROUNDING = 0.01
"""How far rounding may take the log-probability of a certain token above 0."""

_TRUE, _FALSE = frozenset({"true", "1", "yes"}), frozenset({"false", "0", "no"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Offline:
    """Responses that a row carries.

    Attributes:
        state: `given`; `null` or `missing` where the row holds none; `waived` where it says that it has none.
        field: the key that holds them, or would.
        log_probs: natural log-probability of each token, of a single response.
    """

    state: str
    field: str
    responses: tuple[str, ...] = ()
    log_probs: tuple[float, ...] | None = None
    reward: float | None = None


def read_offline(row: Mapping[str, Any], columns: Columns) -> Offline:
    """The offline responses of a row.

    Raises:
        RowFault: an empty response, or none although the row says that it has one.
    """
    flag_field, flag = pick(row, columns, "has_offline")
    wanted = _flag(flag_field, not_nan(flag))
    field, value = pick(row, columns, "offline")
    value = not_nan(value)
    name = field or reported_name("offline")
    if wanted is False:
        return Offline(state="waived", field=name)
    if field is None or value is None:
        state = "missing" if field is None else "null"
        if wanted:
            raise no_trajectory(state, name)
        return Offline(state=state, field=name)
    responses = _responses(value, name)
    log_probs = _log_probs(row, columns)
    reward = _number(row, columns, "offline_reward")
    for key, found in (("offline_log_probs", log_probs), ("offline_reward", reward)):
        if found is not None and len(responses) > 1:
            raise RowFault(
                "one_value_of_many",
                f"belongs to one response, but the row holds {len(responses)}: give each its own row",
                field=pick(row, columns, key)[0],
            )
    return Offline(state="given", field=name, responses=responses, log_probs=log_probs, reward=reward)


def no_trajectory(state: str, field: str) -> RowFault:
    """The fault of a row that should carry a trajectory and does not."""
    said = "missing" if state == "missing" else "null: the trajectory is missing"
    return RowFault(
        "no_trajectory",
        f"{said}, but the other rows have one; has_offline_trajectory: false says that a row has none",
        field=field,
    )


def _flag(field: str | None, value: Any) -> bool | None:
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return value
    name = str(value).strip().casefold()
    if name in _TRUE or name in _FALSE:
        return name in _TRUE
    raise RowFault("bad_field", "expected true or false", field=field, value=value)


def _responses(value: Any, field: str) -> tuple[str, ...]:
    """Texts of the responses: one text, a list of them, or a list of chat messages."""
    items = value if isinstance(value, list | tuple) else [value]
    texts = []
    for item in items:
        if isinstance(item, Mapping):
            if item.get("role", "assistant") != "assistant":
                continue
            item = item.get("content")
        if item is not None and not isinstance(item, str):
            raise RowFault("bad_trajectory", "expected a response as text", field=field, value=value)
        texts.append(item or "")
    if not texts or not all(text.strip() for text in texts):
        raise RowFault(
            "no_trajectory", "empty: a response without text cannot be learnt from", field=field, value=value
        )
    return tuple(texts)


def check_log_probs(log_probs: Sequence[float], field: str | None) -> None:
    """Refuse log-probabilities above 0, which are no logarithms of probabilities.

    Raises:
        RowFault: one lies above 0 by more than rounding explains.
    """
    if max(log_probs, default=0.0) > LOG_PROB_ROUNDING:
        raise RowFault(
            "bad_field",
            "log-probabilities above 0: expected natural logarithms, not probabilities",
            field=field,
            value=list(log_probs),
        )


def _number(row: Mapping[str, Any], columns: Columns, name: str) -> float | None:
    field, value = pick(row, columns, name)
    value = not_nan(value)
    if value is None or value == "":
        return None
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            value = None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise RowFault("bad_field", "expected a finite number", field=field, value=row[field or name])
    return float(value)


def _log_probs(row: Mapping[str, Any], columns: Columns) -> tuple[float, ...] | None:
    field, value = pick(row, columns, "offline_log_probs")
    if value is None or value == [] or value == "":
        return None
    if not isinstance(value, list | tuple) or not all(
        isinstance(item, int | float) and not isinstance(item, bool) and math.isfinite(item) for item in value
    ):
        raise RowFault("bad_field", "expected a list of finite numbers", field=field, value=value)
    check_log_probs(value, field)
    return tuple(float(item) for item in value)

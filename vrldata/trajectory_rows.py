"""Rows of responses as trajectories: names of fields, values, and what can be wrong with them.

Opening files is the work of `trajectory_files`, what becomes of the trajectories that of `trajectories`.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
import reprlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from vrldata.annotation_answers import plain_number
from vrldata.annotation_faults import RawRow, RowFault
from vrldata.annotation_json import MAX_NESTING, TOO_DEEP, check_characters, nesting
from vrldata.annotation_offline import check_log_probs
from vrldata.annotation_rows import jsonable
from vrldata.errors import AnnotationError, nearest
from vrldata.types import Sample, Trajectory

SOURCES = ("offline", "rollout", "eval", "sft")

ALIASES: Mapping[str, tuple[str, ...]] = {
    "trajectory_id": ("trajectory_id",),
    "sample_id": ("sample_id", "problem_id", "question_id", "id"),
    "response": (
        "response",
        "responses",
        "output",
        "outputs",
        "completion",
        "completions",
        "prediction",
        "offline_output",
    ),
    "source": ("source",),
    "model": ("model", "model_name"),
    "run_id": ("run_id", "run"),
    "step": ("step", "global_step"),
    "policy_version": ("policy_version",),
    "rewards": ("rewards",),
    "reward": ("reward", "score", "scores", "offline_reward"),
    "correct": ("correct",),
    "status": ("status",),
    "num_tokens": ("num_tokens",),
    "finish_reason": ("finish_reason",),
    "token_ids": ("token_ids", "response_ids"),
    "log_probs": ("log_probs", "logprobs"),
    "extra": ("extra",),
}
"""Field to its accepted names, the preferred one first. Everything else goes into `extra`."""

_KNOWN = {alias for aliases in ALIASES.values() for alias in aliases}

NOT_TAKEN = ("created_at",)
"""Columns of the table that an import sets anew."""

_LARGEST = {"num_tokens": 2**31, "step": 2**63, "policy_version": 2**63, "token_ids": 2**31}
_LARGEST_FLOAT32 = 3.4e38


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportDefaults:
    """Values of columns that the files do not name."""

    source: str = "offline"
    model: str = ""
    run_id: str = ""


def read_trajectories(
    raw: RawRow,
    samples: Mapping[str, Sample],
    names: Mapping[str, str | None],
    defaults: ImportDefaults,
) -> Iterator[Trajectory]:
    """The responses of one row.

    Args:
        names: an annotation's own id to the `sample_id` that it became; None where several samples had it.

    Raises:
        RowFault: the row cannot be used.
    """
    if raw.fault is not None:
        raise raw.fault
    keys, values = _fields(raw.fields)
    for name in ("sample_id", "response"):
        if values.get(name) is None:
            raise _missing(name, keys, raw.fields)
    sample_id = _sample_id(keys, values, samples, names)
    responses = _responses(keys, values)
    if len(responses) > 1:
        for name in ("trajectory_id", "token_ids", "log_probs", "reward", "correct", "rewards"):
            if values.get(name) is not None:
                raise RowFault(
                    "one_value_of_many",
                    f"belongs to one response, but the row holds {len(responses)}: give each its own row",
                    field=keys[name],
                )
    extra = _extra(keys, values, raw.fields)
    base = {"model": defaults.model, "run_id": defaults.run_id, "source": defaults.source}
    values = {**values, **{name: values.get(name) or value for name, value in base.items()}}
    for response in responses:
        yield _trajectory(keys, {**values, "sample_id": sample_id, "response": response}, extra)


def trajectory_from_fields(given: object, place: str) -> Trajectory:
    """The trajectory of a mapping with the fields of `Trajectory`, such as a row of the table.

    `source` is `offline` where it is not given; a `created_at` is left out.

    Args:
        place: what messages call it.

    Raises:
        AnnotationError: it is no mapping, a field is unknown or missing, or a value does not fit.
    """
    names = [one.name for one in dataclasses.fields(Trajectory)]
    if not isinstance(given, Mapping):
        raise AnnotationError(
            f"{place}: expected a Trajectory or a mapping of its fields, got {type(given).__name__}"
        )
    for name in given:
        if name not in names and name not in NOT_TAKEN:
            raise AnnotationError(
                f"{place}: no field {name!r} in a trajectory.{nearest(str(name), names)}"
                f" Fields: {', '.join(names)}; what is none of them goes into extra"
            )
    for name in ("sample_id", "response"):
        if not isinstance(given.get(name), str):
            raise AnnotationError(f"{place}: {name} is missing or no text")
    keys = {name: name for name in given}
    values = {name: _plain(value) for name, value in given.items() if value is not None}
    try:
        return _trajectory(keys, values, _extra(keys, values, values))
    except RowFault as fault:
        shown = "" if fault.value is None else f", got {reprlib.repr(fault.value)}"
        raise AnnotationError(f"{place}: {fault.field}: {fault.text}{shown}") from fault


def _plain(value: Any) -> Any:
    """Tuples, arrays and tensors as lists."""
    return list(value) if isinstance(value, tuple) else getattr(value, "tolist", lambda: value)()


def _trajectory(keys: Mapping[str, str], values: Mapping[str, Any], extra: Mapping[str, Any]) -> Trajectory:
    reward = _number(keys, values, "reward")
    token_ids = _numbers(keys, values, "token_ids", whole=True)
    log_probs = _numbers(keys, values, "log_probs", whole=False)
    _check_tokens(keys, token_ids, log_probs)
    return Trajectory(
        trajectory_id=_text(keys, values, "trajectory_id"),
        sample_id=_text(keys, values, "sample_id"),
        response=_text(keys, values, "response"),
        source=_source(keys, values, "offline"),
        model=_text(keys, values, "model"),
        run_id=_text(keys, values, "run_id"),
        step=_whole(keys, values, "step"),
        policy_version=_whole(keys, values, "policy_version"),
        rewards=_rewards(keys, values),
        reward=reward,
        correct=_correct(keys, values, reward),
        status=_text(keys, values, "status"),
        num_tokens=_whole(keys, values, "num_tokens"),
        finish_reason=_text(keys, values, "finish_reason"),
        token_ids=token_ids,
        log_probs=log_probs,
        extra=extra,
    )


def _check_tokens(
    keys: Mapping[str, str], token_ids: tuple[int, ...] | None, log_probs: tuple[float, ...] | None
) -> None:
    """Raises RowFault for values that cannot belong to the tokens of one response."""
    if min(token_ids or (), default=0) < 0:
        raise RowFault("bad_field", "a negative token id", field=keys["token_ids"], value=token_ids)
    check_log_probs(log_probs or (), keys.get("log_probs"))
    if token_ids is not None and log_probs is not None and len(token_ids) != len(log_probs):
        raise RowFault(
            "bad_field",
            f"{len(log_probs)} log-probabilities for {len(token_ids)} token ids",
            field=keys["log_probs"],
        )


def _source(keys: Mapping[str, str], values: Mapping[str, Any], default: str) -> str:
    source = _text(keys, values, "source") or default
    if source not in SOURCES:
        raise RowFault(
            "bad_field", f"expected one of {', '.join(SOURCES)}", field=keys["source"], value=source
        )
    return source


def _extra(keys: Mapping[str, str], values: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """Every field that is no column of ours, after those of a column `extra` as `vrldata query` writes it."""
    given = values.get("extra")
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            given = {"extra": given}
    if given is not None and not isinstance(given, Mapping):
        given = {"extra": given}
    known = {*keys.values(), *NOT_TAKEN}
    extra = {**(given or {}), **{key: value for key, value in row.items() if key not in known}}
    try:
        extra = {str(key): jsonable(value) for key, value in extra.items()}
        levels = nesting(extra)
    except RecursionError:
        levels = sys.getrecursionlimit()
    if levels > MAX_NESTING:
        raise RowFault("nested_too_deep", TOO_DEEP, field="extra")
    check_characters(json.dumps(extra, ensure_ascii=False), "extra")
    return extra


def _fields(row: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    """The key that holds each field, and its value; of several names that hold something the first counts."""
    by_name = {str(key).strip().casefold(): str(key) for key in reversed(list(row))}
    keys: dict[str, str] = {}
    values: dict[str, Any] = {}
    for name, aliases in ALIASES.items():
        present = [by_name[alias] for alias in aliases if alias in by_name]
        filled = [key for key in present if row[key] not in (None, "", [])]
        if present:
            keys[name] = (filled or present)[0]
            values[name] = row[keys[name]] if filled else None
    return keys, values


def _missing(name: str, keys: Mapping[str, str], row: Mapping[str, Any]) -> RowFault:
    """That a row has no value of a field that it needs, with what it has instead."""
    if name in keys:
        return RowFault("missing_field", "empty: a row needs it", field=keys[name])
    names = [str(key) for key in row]
    text = f"missing{missing_hint(name, names)}; fields present: {', '.join(names) or 'none'}"
    return RowFault("missing_field", text[:500], field=name)


def missing_hint(name: str, present: Iterable[str]) -> str:
    """What may have been meant instead of a missing field; empty when nothing is near.

    >>> missing_hint("response", ["note", "reponse"])
    "; there is 'reponse': did you mean 'response'?"
    """
    for key in present:
        near = difflib.get_close_matches(key.casefold(), ALIASES[name], n=1)
        if near and key.casefold() not in _KNOWN:
            return f"; there is {key!r}: did you mean {near[0]!r}?"
    return ""


def _sample_id(
    keys: Mapping[str, str],
    values: Mapping[str, Any],
    samples: Mapping[str, Sample],
    names: Mapping[str, str | None],
) -> str:
    given = values["sample_id"]
    name = plain_number(given)
    if name in samples:
        return name
    found = names.get(name, "")
    if found is None:
        raise RowFault(
            "ambiguous_sample",
            "several samples of the dataset had this id: give the sample_id of the table samples",
            field=keys["sample_id"],
            value=given,
        )
    if not found:
        raise RowFault(
            "unknown_sample",
            "the dataset has no such sample: build it first",
            field=keys["sample_id"],
            value=given,
        )
    return found


def own_names(samples: Mapping[str, Sample]) -> dict[str, str | None]:
    """The part of each sample_id behind the name of its annotation file; None where samples share it."""
    names: dict[str, str | None] = {}
    for sample_id in samples:
        own = sample_id.partition("/")[2]
        if own:
            names[own] = None if own in names else sample_id
    return names


def _responses(keys: Mapping[str, str], values: Mapping[str, Any]) -> list[str]:
    given = values["response"]
    responses = given if isinstance(given, list) else [given]
    for response in responses:
        if not isinstance(response, str) or not response.strip():
            raise RowFault(
                "bad_field", "expected a text or a list of texts", field=keys["response"], value=response
            )
        check_characters(response, keys["response"])
    return responses


def _text(keys: Mapping[str, str], values: Mapping[str, Any], name: str) -> str:
    value = values.get(name)
    if value is None:
        return ""
    if isinstance(value, (list, dict)):
        raise RowFault("bad_field", "expected a text", field=keys[name], value=value)
    check_characters(str(value), keys.get(name, name))
    return str(value)


def _number(keys: Mapping[str, str], values: Mapping[str, Any], name: str) -> float | None:
    value = values.get(name)
    if value is None:
        return None
    try:
        number = float(value) if not isinstance(value, (list, dict)) else math.nan
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not abs(number) < _LARGEST_FLOAT32:
        raise RowFault("bad_field", "expected a finite number", field=keys[name], value=value)
    return number


def _whole(keys: Mapping[str, str], values: Mapping[str, Any], name: str) -> int:
    number = _number(keys, values, name)
    if number is None:
        return 0
    if not number.is_integer() or abs(number) >= _LARGEST[name]:
        raise RowFault("bad_field", "expected a whole number", field=keys[name], value=values[name])
    if name == "num_tokens" and number < 0:
        raise RowFault("bad_field", "expected a number from 0 on", field=keys[name], value=values[name])
    return int(number)


def _rewards(keys: Mapping[str, str], values: Mapping[str, Any]) -> dict[str, float]:
    given = values.get("rewards")
    if given is None:
        return {}
    # a map column of Parquet arrives as pairs
    pairs = given.items() if isinstance(given, Mapping) else given
    try:
        found = {str(name): float(value) for name, value in pairs}
    except (TypeError, ValueError, OverflowError):
        found = {"": math.nan}
    if not all(abs(value) < _LARGEST_FLOAT32 for value in found.values()):
        raise RowFault("bad_field", "expected an object of numbers", field=keys["rewards"], value=given)
    return found


def _correct(keys: Mapping[str, str], values: Mapping[str, Any], reward: float | None) -> bool | None:
    given = values.get("correct")
    if given is None:
        return None
    text = str(given).strip().casefold()
    if text not in ("true", "false", "1", "0", "1.0", "0.0"):
        raise RowFault("bad_field", "expected true or false", field=keys["correct"], value=given)
    return text in ("true", "1", "1.0")


def _numbers(
    keys: Mapping[str, str], values: Mapping[str, Any], name: str, *, whole: bool
) -> tuple[Any, ...] | None:
    given = values.get(name)
    if given is None:
        return None
    if not isinstance(given, list) or not all(_is_number(item, whole=whole) for item in given):
        raise RowFault("bad_field", "expected a list of numbers", field=keys[name], value=given)
    return tuple(given)


def _is_number(item: Any, *, whole: bool) -> bool:
    if isinstance(item, bool) or not isinstance(item, int if whole else (int, float)):
        return False
    return abs(item) < (_LARGEST["token_ids"] if whole else _LARGEST_FLOAT32)

"""What a worker process does for a user's reward function: load it, call it, read what it returns.

Runs in a child process (`killable`); `reward_functions` asks. The code is the user's own and named in their
own config, so that it has their environment, working folder and network, unlike the built-in scorers.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import signal
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from vrldata.errors import ConfigError, VRLError, nearest
from vrldata.named_functions import described, is_file_name, load_function, split_name
from vrldata.tasks.scoring import MAX_SHOWN_CHARS, unscored
from vrldata.types import Score

logger = logging.getLogger(__name__)

EXPECTED = "a number, a dict with 'overall' or 'accuracy', a vrldata.types.Score, or None for no score"


class WrongValueError(VRLError):
    """A function returned something that is no reward."""


@dataclass(slots=True)
class _Loaded:
    function: Any = None
    options: Mapping[str, Any] | None = None
    batch: bool = False
    file: str | None = None


_LOADED = _Loaded()


def prepare(argument: str) -> str | None:
    """Load the function that the JSON text `argument` names; why it cannot be, or None."""
    request = json.loads(argument)
    try:
        _LOADED.function = load_function(request["name"], purpose=request["purpose"])
        place, _ = split_name(request["name"], purpose=request["purpose"])
    except ConfigError as error:
        return str(error)
    _LOADED.options, _LOADED.batch = request["options"], request["batch"]
    _LOADED.file = place if is_file_name(place) else getattr(_LOADED.function, "__module__", None)
    return None


def handle(request: dict[str, Any]) -> dict[str, Any]:
    """What the function makes of the records.

    The reply has `rows`, one for each record (see `row_of`); or `fault`, an exception of a batch function; or
    `wrong`, what a batch function returned instead of one value a record.
    """
    # threads of the user's libraries spend more CPU time than passes by the clock
    signal.setitimer(signal.ITIMER_PROF, (2 * request["seconds"] + 1) * (os.cpu_count() or 1))
    records, options = request["records"], _LOADED.options or {}
    if not _LOADED.batch:
        return {"rows": [_called(record, options) for record in records]}
    try:
        values = _LOADED.function(records, **options)
    except (Exception, SystemExit) as error:
        logger.debug("reward function", exc_info=True)
        return {"fault": described(error, _LOADED.file)}
    if hasattr(values, "tolist"):
        values = values.tolist()
    if not isinstance(values, list | tuple):
        return {"wrong": f"returned {_shown(values)} for {len(records)} records; expected a list"}
    if len(values) != len(records):
        return {"wrong": f"returned {len(values)} values for {len(records)} records; expected one each"}
    return {"rows": [row_of(value) for value in values]}


def _called(record: dict[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    try:
        value = _LOADED.function(record, **options)
    except (Exception, SystemExit) as error:
        logger.debug("reward function", exc_info=True)
        reason = described(error, _LOADED.file)
        return _row(unscored("reward_error", reason))
    return row_of(value)


def row_of(value: Any) -> dict[str, Any]:
    """`score`: the fields of a `Score`; `given`: whether its `overall` is the function's; `wrong`: no reward.

    A number is the reward, and clipped to 0..1 the accuracy. A dict has `overall` (the reward), or `accuracy`
    and `format` that the run's weights make a reward of; its other numbers are parts. None is no score; NaN,
    infinity and anything else is a fault of the function, never a 0.
    """
    try:
        if value is None:
            return _row(unscored("not_scored", "the reward function returned None"))
        if isinstance(value, Score):
            return _row(_checked(value), given=value.overall is not None)
        if isinstance(value, Mapping):
            return _of_parts(value)
        overall = _number(value, "")
    except WrongValueError as error:
        return _row(unscored("reward_error", str(error)), wrong=True)
    except ArithmeticError as error:
        return _row(unscored("reward_error", str(error)))
    return _row(_score(overall, accuracy=min(1.0, max(0.0, overall))), given=True)


def _of_parts(values: Mapping[Any, Any]) -> dict[str, Any]:
    for name in values:
        if not isinstance(name, str):
            raise WrongValueError(f"returned a dict with the key {name!r}; keys are names")
    extracted = values.get("extracted", "")
    parts = {
        name: _number(value, name)
        for name, value in values.items()
        if name != "extracted" and value is not None
    }
    if "overall" in values and values["overall"] is None:
        return _row(unscored("not_scored", "the reward function returned None as 'overall'"))
    if "overall" not in parts and "accuracy" not in parts:
        if "accuracy" in values:
            return _row(unscored("not_scored", "the reward function returned None as 'accuracy'"))
        hint = next((found for name in parts if (found := nearest(name, ["overall", "accuracy"]))), "")
        raise WrongValueError(
            f"returned a dict with {', '.join(values) or 'nothing'}; it needs 'overall' or 'accuracy'.{hint}"
        )
    for name in ("accuracy", "format"):
        if not 0.0 <= parts.get(name, 0.0) <= 1.0:
            raise WrongValueError(f"returned {name} {parts[name]:g}; it lies between 0 and 1")
    overall = parts.pop("overall", None)
    accuracy = parts.pop("accuracy", min(1.0, max(0.0, overall or 0.0)))
    score = _score(overall, accuracy=accuracy, form=parts.pop("format", 0.0), parts=parts)
    return _row(replace(score, extracted=str(extracted)[:MAX_SHOWN_CHARS]), given=overall is not None)


def _checked(score: Score) -> Score:
    """A `Score` that the function made, its numbers looked at."""
    numbers = {"accuracy": score.accuracy, "format": score.format, "overall": score.overall, **score.parts}
    checked = {name: _number(value, name) for name, value in numbers.items() if value is not None}
    if not 0.0 <= checked.get("accuracy", 0.0) <= 1.0:
        raise WrongValueError(f"returned accuracy {checked['accuracy']:g}; it lies between 0 and 1")
    if score.accuracy is None:
        return replace(score, overall=None)
    parts = {name: checked[name] for name in score.parts if name in checked}
    overall = checked.get("overall")
    return replace(
        score, accuracy=checked["accuracy"], format=checked["format"], overall=overall, parts=parts
    )


def _score(
    overall: float | None, *, accuracy: float, form: float = 0.0, parts: Mapping[str, float] | None = None
) -> Score:
    return Score(
        accuracy=accuracy,
        format=form,
        overall=overall,
        status="ok",
        how="function",
        parts=parts or {},
        strict=accuracy,
    )


def _number(value: Any, name: str) -> float:
    """A finite number; numbers of numpy and torch too.

    Raises:
        WrongValueError: no number. ArithmeticError: NaN or infinity.
    """
    if not isinstance(value, int | float) and hasattr(value, "item") and getattr(value, "size", 1) != 0:
        with contextlib.suppress(TypeError, ValueError, RuntimeError):  # of several numbers: told below
            value = value.item()
    if not isinstance(value, int | float):
        where = f"{_shown(value)} as {name!r}" if name else _shown(value)
        raise WrongValueError(f"returned {where}; expected {'a number' if name else EXPECTED}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ArithmeticError(f"the reward function returned {number}" + (f" as {name!r}" if name else ""))
    return number


def _shown(value: Any) -> str:
    text = " ".join(repr(value).split())
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:59] + '…'}"


def _row(score: Score, *, given: bool = False, wrong: bool = False) -> dict[str, Any]:
    return {
        "score": {**asdict(score), "parts": dict(score.parts)},
        "given": given,
        "wrong": wrong,
    }

"""`RewardFunction`: a function of the user's own in place of the built-in scorers.

Calls happen in worker processes with a deadline; what the function may return is the work of `reward_worker`,
finding it of `named_functions`. How a reward goes on from here is the business of the caller.
"""

from __future__ import annotations

import atexit
import inspect
import json
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from vrldata.errors import ConfigError, MissingExtraError, TaskError, nearest
from vrldata.named_functions import absolute_name, load_function
from vrldata.processors import available_cpus
from vrldata.tasks.batch import MAX_WORKERS, record_from_mapping
from vrldata.tasks.killable import KillableWorker
from vrldata.tasks.reading import Record, ScorerTimeoutError, ScoringSettings, Weights
from vrldata.tasks.scoring import unscored
from vrldata.types import Score

SECONDS = 10.0
FIRST_CALL_SECONDS = 30.0
"""On top of the limit for the first call of a process, which may load libraries."""

ROW_PARAMETERS = ("record", "reward_input")
"""Names of a first parameter that takes one record."""
BATCH_PARAMETERS = ("records", "reward_inputs")
"""Names of a first parameter that takes all records of a batch."""

FAULTS = frozenset({"reward_error", "timeout"})
"""Statuses of rows that a function failed on: it raised, was late, or returned NaN or no reward."""

_ANY_TYPE = ScoringSettings(on_unknown_type="skip")
"""The function decides what it can score: a type that we do not know keeps its spelling."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a function made of one record.

    Attributes:
        given: the score's `overall` is what the function returned; otherwise weights make one of its accuracy
            and format.
        wrong: it returned something that is no reward.
    """

    score: Score
    given: bool = False
    wrong: bool = False


class RewardFunction:
    """A user's function, checked, with the worker processes that call it.

    Its first parameter says what it takes: `record` (or `reward_input`) one row, `records` (or
    `reward_inputs`) the whole batch as a list, to be answered by a list of the same length. Options are
    further keyword arguments.

    >>> length = RewardFunction("my_rewards.py:length", {"target": 200})  # doctest: +SKIP
    >>> length.score_batch([{"problem_type": "math", "response": "…", "answer": "4"}])  # doctest: +SKIP

    Attributes:
        name: as given, a file's path made absolute.
        batch: whether it takes the whole batch.
    """

    def __init__(
        self,
        name: str,
        options: Mapping[str, Any] | None = None,
        *,
        seconds: float = SECONDS,
        workers: int | None = None,
        purpose: str = "reward function",
    ) -> None:
        """
        Args:
            name: `file.py:function`, `package.module:function` or `package.module.function`.
            options: keyword arguments of every call, JSON values.
            seconds: limit for one record; a batch has it for each of its records. A call that is late is
                killed with its process.
            workers: processes that call a function of one record; by default min(8, CPUs of this process).
            purpose: names the setting in messages.

        Raises:
            ConfigError: it cannot be loaded, its signature is not of this form, or the options do not fit it.
        """
        self.name = absolute_name(name, purpose=purpose)
        self.options = dict(options or {})
        options_name = f"{purpose}-option" if purpose.startswith("--") else f"{purpose}_options"
        self._purpose = f"{purpose}: {name!r}"
        self._seconds = seconds
        self._workers = workers or min(MAX_WORKERS, available_cpus())
        self.batch = takes_batch(
            load_function(name, purpose=purpose),
            self.options,
            purpose=self._purpose,
            field=options_name,
        )
        try:
            self._argument = json.dumps(
                {"name": self.name, "purpose": purpose, "options": self.options, "batch": self.batch}
            )
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{options_name}: {error}; options are JSON values") from error
        self._idle: list[KillableWorker] = []
        self._slots = threading.BoundedSemaphore(1 if self.batch else self._workers)
        _LIVING.add(self)

    def outcomes(self, records: Sequence[Mapping[str, Any]]) -> list[Outcome]:
        """What the function makes of each record, in order.

        A row that raises, is late or returns no reward has a score without accuracy and says why; so has each
        row of a batch function that raises or is late.

        Args:
            records: as `score_batch` takes them.

        Raises:
            TaskError: a batch function returned another number of values; or a record lacks a field.
        """
        made = [input_record(record_from_mapping(record, _ANY_TYPE)) for record in records]
        if not made:
            return []
        if self.batch or len(made) == 1:
            return self._ask(made)
        with ThreadPoolExecutor(min(self._workers, len(made)), "vrl-reward-function") as threads:
            try:
                futures = [threads.submit(self._ask, [record]) for record in made]
                return [future.result()[0] for future in futures]
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                raise

    def score_batch(
        self, records: Sequence[Mapping[str, Any]], *, weights: Weights | None = None
    ) -> list[Score]:
        """The score of each record, in order, `overall` weighted where the function gives none.

        Raises:
            TaskError: as in `outcomes`.
        """
        weights = weights or Weights()
        return [_weighted(outcome, weights) for outcome in self.outcomes(records)]

    def check(self, records: Sequence[Mapping[str, Any]]) -> str | None:
        """Call the function on some records before anything depends on it; why a call failed, or None.

        Raises:
            ConfigError: it returned something that is no reward, or every call failed.
        """
        try:
            outcomes = self.outcomes(records)
        except TaskError as error:
            raise ConfigError(str(error)) from error
        for outcome in outcomes:
            if outcome.wrong:
                raise ConfigError(f"{self._purpose}: {outcome.score.reason}")
        failed = [outcome.score for outcome in outcomes if outcome.score.status in FAULTS]
        if failed and len(failed) == len(outcomes):
            raise ConfigError(
                f"{self._purpose}: fails on each of {len(outcomes)} rows of the data: {failed[0].reason}"
            )
        return failed[0].reason if failed else None

    def close(self) -> None:
        """End the worker processes; a later call starts new ones."""
        while self._idle:
            self._idle.pop().close()

    def _ask(self, records: list[dict[str, Any]]) -> list[Outcome]:
        with self._slots:  # also where several threads ask for a row each; batches go to one process
            return self._asked(records)

    def _asked(self, records: list[dict[str, Any]]) -> list[Outcome]:
        try:
            worker = self._idle.pop()
        except IndexError:
            worker = KillableWorker("vrldata.tasks.reward_worker", argument=self._argument)
        seconds = self._seconds * len(records)
        try:
            if worker.ensure_started():
                seconds += FIRST_CALL_SECONDS
            reply = worker.call({"records": records, "seconds": seconds}, seconds=seconds)
        except ScorerTimeoutError as error:
            late = unscored("timeout", str(error))
            return [Outcome(score=late)] * len(records)
        except MissingExtraError as error:
            raise ConfigError(str(error)) from error
        finally:
            self._idle.append(worker)
        if "wrong" in reply:
            raise TaskError(f"{self._purpose}: {reply['wrong']}")
        if "fault" in reply:
            failed = unscored("reward_error", f"the whole batch failed: {reply['fault']}")
            return [Outcome(score=failed)] * len(records)
        return [Outcome(**{**row, "score": Score(**row["score"])}) for row in reply["rows"]]


def input_record(record: Record) -> dict[str, Any]:
    """What a user's function is given of a record: JSON values, `answer` beside `ground_truth`."""
    fields = {
        name: getattr(record, name)
        for name in Record.__dataclass_fields__
        if name not in ("settings", "tolerant")
    }
    fields |= {"options": list(record.options), "extra": dict(record.extra), "answer": record.ground_truth}
    return fields


def takes_batch(
    function: Callable[..., Any], options: Mapping[str, Any], *, purpose: str, field: str
) -> bool:
    """Whether a function takes the whole batch rather than one record, by the name of its first parameter.

    Args:
        field: the setting that holds the options, for messages.

    Raises:
        ConfigError: the first parameter has another name, or the options do not fit the others.
    """
    if inspect.isclass(function):
        raise ConfigError(f"{purpose}: is a class; name a function")
    if inspect.iscoroutinefunction(function):
        raise ConfigError(f"{purpose}: is async; write a plain function, it has processes of its own")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{purpose}: has no signature that Python can read: {error}") from error
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [name for name, parameter in signature.parameters.items() if parameter.kind in positional]
    first = names[0] if names else ""
    if first not in (*ROW_PARAMETERS, *BATCH_PARAMETERS):
        raise ConfigError(
            f"{purpose}: its signature is {function.__name__}{signature}: name the first parameter `record` "
            "(called with one row) or `records` (called with the list of all rows)"
        )
    try:
        signature.bind(None, **options)
    except TypeError as error:
        known = [name for name in signature.parameters if name != first]
        wrong = next((name for name in options if name not in signature.parameters), "")
        raise ConfigError(
            f"{purpose}: {field} do not fit {function.__name__}{signature}: {error}."
            f"{nearest(wrong, known) if wrong else ''}"
        ) from error
    return first in BATCH_PARAMETERS


def _weighted(outcome: Outcome, weights: Weights) -> Score:
    score = outcome.score
    if outcome.given or score.accuracy is None:
        return score
    return replace(score, overall=weights.accuracy * score.accuracy + weights.format * score.format)


_LIVING: weakref.WeakSet[RewardFunction] = weakref.WeakSet()


@atexit.register
def close_workers() -> None:
    """End the worker processes of every function."""
    for function in list(_LIVING):
        function.close()

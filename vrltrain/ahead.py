"""Rollouts one step ahead: the next batch is collected in a thread while the trainer updates on this one.

Lives on rank 0. The engine keeps the weights that it has until the batch is there, so that a batch has one
version, one update behind the policy that will train on it. What was collected ahead is part of a checkpoint.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

from vrltrain.collect import Collected
from vrltrain.group_records import group_from_json, group_to_json
from vrltrain.types import Failure, Timings

Collect = Callable[[int, int, Timings], Collected]
"""(step, version of the policy that will train on it, timings) -> its batch."""


class RolloutsAhead:
    """The batch of each step, collected when it is asked for or ahead of that."""

    def __init__(self, collect: Collect) -> None:
        self._collect = collect
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="rollouts")
        self._ahead: tuple[int, Timings, Future[Collected]] | None = None

    def start(self, step: int, version: int) -> None:
        """Begin to collect the batch of `step`, on which the policy after update `version` will train."""
        timings = Timings()
        self._ahead = (step, timings, self._threads.submit(self._collect, step, version, timings))

    def wait(self) -> None:
        """Return when nothing is being collected; an error comes with `take`."""
        if self._ahead is not None:
            wait([self._ahead[2]])

    def take(self, step: int, version: int, timings: Timings) -> Collected:
        """The batch of `step`, the one collected ahead if there is one.

        Raises:
            RolloutError: too many samples failed.
        """
        if self._ahead is None or self._ahead[0] != step:
            return self._collect(step, version, timings)
        _, of_thread, future = self._ahead
        self._ahead = None
        for phase, seconds in of_thread.seconds.items():
            timings.add(phase, seconds)
        return future.result()

    def state_dict(self) -> dict[str, Any] | None:
        """What was collected ahead, as values that JSON can hold; None where nothing was."""
        if self._ahead is None or self._ahead[2].exception() is not None:
            return None
        step, _, future = self._ahead
        collected = future.result()
        groups = {group.uid: group for group in (*collected.generated, *collected.groups)}
        return {
            "step": step,
            "records": {uid: group_to_json(group) for uid, group in groups.items()},
            "groups": [group.uid for group in collected.groups],
            "generated": [group.uid for group in collected.generated],
            "failures": [dataclasses.asdict(failure) for failure in collected.failures],
            "metrics": collected.metrics,
        }

    def load_state_dict(self, state: Mapping[str, Any] | None) -> None:
        """Take back what `state_dict` gave."""
        if state is None:
            return
        groups = {uid: group_from_json(values) for uid, values in state["records"].items()}
        future: Future[Collected] = Future()
        future.set_result(
            Collected(
                groups=[groups[uid] for uid in state["groups"]],
                generated=[groups[uid] for uid in state["generated"]],
                failures=[Failure(**values) for values in state["failures"]],
                metrics=dict(state["metrics"]),
            )
        )
        self._ahead = (int(state["step"]), Timings(), future)

    def close(self) -> None:
        """Wait for what is running; call it after the engine was closed."""
        self._threads.shutdown(wait=True, cancel_futures=True)

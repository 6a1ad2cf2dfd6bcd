"""Pass rates of samples over the responses of a run, and the best responses as an offline source.

    pass rate = correct responses / scored responses

A response is correct as the column `correct` says: from an accuracy of 1.0 for problem types whose accuracy
is 0 or 1, of 0.5 for graded ones, or as the import said. Another threshold counts by the accuracy anew. A
response that was scored as wrong, for whatever reason, counts as wrong. Only responses whose `correct` is
null, because their answer key cannot be read, are left out; they are counted and reported.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from vrldata.counts import counted
from vrldata.errors import FilterError, nearest

if TYPE_CHECKING:
    from vrldata.dataset import Dataset

logger = logging.getLogger(__name__)

LEARNING_FRONTIER = "pass_rate > 0 AND pass_rate < 1"
"""Samples that a policy solves sometimes: where group-relative advantages are not all zero."""


SHOWN_RUNS = 20


def pass_rates(
    dataset: Dataset, runs: Sequence[str], *, min_responses: int = 1, correct_from: float | None = None
) -> pa.Table:
    """Pass rate by sample: sample_id, pass_rate (float32), num_responses, num_correct, num_unscored.

    Args:
        runs: ids of the runs whose responses count together; the beginning of an id will do where one run
            alone begins so.
        min_responses: samples with fewer scored responses are left out.
        correct_from: accuracy from which a response counts as correct, in place of the column `correct`;
            responses without an accuracy count by `correct` all the same.

    Raises:
        FilterError: no response belongs to these runs; the message lists the runs that there are.
        ConfigError: `correct_from` is not above 0 and up to 1. UriError: the dataset's URI selects rows.
    """
    from vrldata.commits import sql_text
    from vrldata.location import check_whole
    from vrldata.trajectory_scores import check_correct_from

    check_whole(dataset.uri, "a pass rate")
    check_correct_from(correct_from)
    listed = ", ".join(sql_text(run) for run in _run_ids(dataset, runs))
    where = f"FROM trajectories WHERE run_id IN ({listed})"
    right = "correct"
    if correct_from is not None:
        right = f"coalesce(rewards['accuracy'] >= {float(correct_from)!r}::FLOAT, correct)"
        _tell_without_accuracy(dataset, where)
    found = dataset.sql(
        f"SELECT sample_id, (count(*) FILTER ({right}) / nullif(count({right}), 0))::FLOAT AS pass_rate, "
        f"count({right}) AS num_responses, count(*) FILTER ({right}) AS num_correct, "
        f"count(*) - count({right}) AS num_unscored "
        f"{where} GROUP BY sample_id ORDER BY sample_id"
    )
    enough = pa.compute.greater_equal(found.column("num_responses"), min_responses)
    return found.filter(enough)


def _tell_without_accuracy(dataset: Dataset, where: str) -> None:
    """Warn of responses that a threshold of accuracy does not reach."""
    found = dataset.sql(f"SELECT count(correct) AS n {where} AND rewards['accuracy'] IS NULL")
    if number := found.column("n")[0].as_py():
        counts = counted(number, "response")
        logger.warning("correct_from: %s without an accuracy, which `correct` counts by instead", counts)


def _run_ids(dataset: Dataset, runs: Sequence[str]) -> list[str]:
    """The ids of `runs`, completed where one run alone begins so.

    Raises:
        FilterError: no run, or several, begin like one of them.
    """
    table = dataset.sql("SELECT run_id, count(*) AS n FROM trajectories GROUP BY run_id ORDER BY run_id")
    counts = {row["run_id"] or "": row["n"] for row in table.to_pylist()}
    ids = [run for run in counts if run]
    found: list[str] = []
    for run in runs:
        alike = [run] if run in counts else [one for one in ids if run and one.startswith(run)]
        if len(alike) != 1:
            raise FilterError(f"{dataset.uri}: {_no_single_run(run, alike, counts)}")
        if alike != [run]:
            logger.warning("no run is called %r: counted is %r, the only one that begins so", run, alike[0])
        found += alike
    return found


def _no_single_run(run: str, alike: Sequence[str], counts: Mapping[str, int]) -> str:
    """Why `run` names no single one of the runs, given with their numbers of trajectories."""
    ids = [one for one in counts if one]
    listed = [repr(one) for one in ids[:SHOWN_RUNS]]
    listed += [f"and {len(ids) - SHOWN_RUNS} more"] if len(ids) > SHOWN_RUNS else []
    runs = f"Runs: {', '.join(listed) or 'none'}."
    if "" in counts:
        stray = counted(counts[""], "trajectory")
        runs += f" {stray} {'belongs' if counts[''] == 1 else 'belong'} to no run (--run '' counts them)."
    if alike:
        return f"{len(alike)} runs begin with {run!r}. {runs}"
    # a slip in the beginning of a long id is far from the whole id
    beginnings = {one[: len(run)] for one in ids if len(run) > 2}
    return f"no trajectory of run {run!r}.{nearest(run, [*ids, *beginnings])} {runs}"


def write_pass_rates(dataset: Dataset, rates: pa.Table) -> int:
    """Set `pass_rate` of the samples in `rates` and of no others; how many rows were set.

    Raises:
        StoreError: the dataset is read-only.
    """
    from vrldata.commits import committed, maintain_indexes, writable

    known = rates.filter(pa.compute.is_valid(rates.column("pass_rate"))).select(["sample_id", "pass_rate"])
    if known.num_rows == 0:
        return 0
    # only this column is written: a build that changes other columns of the same rows at once is not undone
    schema = pa.schema(
        [pa.field("sample_id", pa.string(), nullable=False), pa.field("pass_rate", pa.float32())]
    )

    def attempt() -> int:
        target = writable(dataset, "samples")
        counts = target.merge_insert("sample_id").when_matched_update_all().execute(known.cast(schema))
        return int(counts["num_updated_rows"])

    updated = committed(dataset, "samples", attempt)
    # rows that were written are rows that no index covers
    maintain_indexes(dataset, "samples")
    return updated


def best_of_filter(best: int = 1, min_reward: float = 0.0) -> str:
    """The predicate on trajectories that keeps the `best` best-rewarded ones of each sample; of those with
    the same response only one.

    It works wherever predicates do: `iter_trajectories(filter=…)`, a URI's `filter=`, `vrldata export`.

    >>> best_of_filter(1, 0.9)
    'trajectory_id IN (SELECT trajectory_id FROM best_of(1, 0.9))'

    Raises:
        FilterError: `best` is not positive, or `min_reward` is no number.
    """
    if best < 1:
        raise FilterError(f"best={best}: expected 1 or more responses a sample")
    if math.isnan(min_reward):
        raise FilterError(f"min_reward={min_reward}: expected a number")
    return f"trajectory_id IN (SELECT trajectory_id FROM best_of({int(best)}, {float(min_reward)!r}))"  # noqa: S608 - two numbers

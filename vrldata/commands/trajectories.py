"""`vrldata add-trajectories` and `pass-rate`."""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from vrldata.command_line import PARTLY_FAILED, JsonOption, print_result
from vrldata.counts import counted

UriArgument = Annotated[str, typer.Argument(help="Dataset URI.")]
SHOWN_REJECTIONS = 10


def add_trajectories(
    uri: UriArgument,
    files: Annotated[list[Path], typer.Argument(help="JSON, JSON Lines, Parquet or CSV files.")],
    source: Annotated[
        str, typer.Option(help="offline, rollout, eval or sft; of rows without one.")
    ] = "offline",
    model: Annotated[str, typer.Option(help="Model of rows that name none.")] = "",
    run: Annotated[str, typer.Option(help="Run of rows that name none.")] = "",
    protocol: Annotated[str, typer.Option(help="Scoring rules for rows without a reward.")] = "train",
    correct_from: Annotated[
        float | None,
        typer.Option(
            help="Accuracy from which a response is correct. "
            "[1.0; 0.5 for graded types: grounding, tracking, segmentation, open-ended and the like]"
        ),
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Import responses; those without a reward are scored. The same file twice adds nothing.

    vrldata add-trajectories clips responses.jsonl --run qwen-7b --model Qwen2.5-VL-7B

    Python: vrldata.trajectories.import_trajectories(vrldata.open(uri), files)
    """
    import vrldata
    from vrldata.trajectories import import_trajectories

    report = import_trajectories(
        vrldata.open(uri),
        files,
        source=source,
        model=model,
        run_id=run,
        protocol=protocol,
        correct_from=correct_from,
    )
    print_result(dataclasses.asdict(report), as_json=json_output, text=_import_text)
    if report.rejected:
        raise typer.Exit(PARTLY_FAILED)


def pass_rate(
    uri: UriArgument,
    run: Annotated[
        list[str],
        typer.Option(
            help="Run whose responses count, or the beginning of its id where no other begins so; "
            "several count together."
        ),
    ],
    min_responses: Annotated[int, typer.Option(min=1, help="Leave out samples with fewer.")] = 1,
    write: Annotated[bool, typer.Option("--write", help="Set the column pass_rate of samples.")] = False,
    correct_from: Annotated[
        float | None,
        typer.Option(help="Accuracy from which a response counts as correct. [as the column `correct` says]"),
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Share of correct responses by sample. Written, the filter pass_rate > 0 AND pass_rate < 1 selects
    the learning frontier.

    vrldata pass-rate clips --run probe-8 --write

    Python: vrldata.pass_rates.pass_rates(vrldata.open(uri), ["probe-8"])
    """
    import vrldata
    from vrldata.pass_rates import pass_rates, write_pass_rates
    from vrldata.rows_output import rows_of

    dataset = vrldata.open(uri)
    rates = pass_rates(dataset, run, min_responses=min_responses, correct_from=correct_from)
    rows = list(rows_of(rates))
    known = [row["pass_rate"] for row in rows if row["pass_rate"] is not None]
    result = {
        "num_samples": len(rows),
        "num_responses": sum(row["num_responses"] for row in rows),
        "num_unscored": sum(row["num_unscored"] for row in rows),
        "mean_pass_rate": sum(known) / len(known) if known else None,
        "never": sum(rate == 0 for rate in known),
        "sometimes": sum(0 < rate < 1 for rate in known),
        "always": sum(rate == 1 for rate in known),
        "written": write_pass_rates(dataset, rates) if write else 0,
        "samples": rows,
    }
    print_result(result, as_json=json_output, text=partial(_rates_text, asked=min_responses, write=write))


def _import_text(result: dict[str, Any]) -> str:
    given = f"{result['given']} with their own reward, " if result["given"] else ""
    lines = [
        f"{counted(result['read'], 'response')} read, {result['added']} new ({result['scored']} scored here, "
        f"{given}{result['unscored']} cannot be scored), {counted(len(result['rejected']), 'row')} rejected"
    ]
    lines += [rejection["message"] for rejection in result["rejected"][:SHOWN_REJECTIONS]]
    if result["rejected_file"]:
        lines.append(f"all rejected rows: {result['rejected_file']}")
    return "\n".join(lines)


def _rates_text(result: dict[str, Any], *, asked: int, write: bool) -> str:
    if not result["samples"]:
        unwritten = "; no pass_rate was written" if write else ""
        return f"no sample has {counted(asked, 'scored response')} or more{unwritten}"
    mean = "none" if result["mean_pass_rate"] is None else f"{result['mean_pass_rate']:.3f}"
    unscored = f", {result['num_unscored']} unscored" if result["num_unscored"] else ""
    lines = [
        f"{counted(result['num_samples'], 'sample')}, {counted(result['num_responses'], 'response')}"
        f"{unscored}, mean pass rate {mean}",
        f"solved never {result['never']}, sometimes {result['sometimes']} (the learning frontier), "
        f"always {result['always']}",
    ]
    if write:
        lines.append(f"pass_rate of {counted(result['written'], 'sample')} written")
    return "\n".join(lines)

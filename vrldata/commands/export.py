"""`vrldata export`: samples and responses in the layouts of other tools."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer

from vrldata.command_line import PARTLY_FAILED, JsonOption, print_result
from vrldata.counts import counted


def export(
    uri: Annotated[str, typer.Argument(help="Dataset URI.")],
    output_format: Annotated[str, typer.Option("--format", help="jsonl, parquet, verl, trl or webdataset.")],
    out: Annotated[
        Path,
        typer.Option(help="Folder to write, a file for each split; for this export alone."),
    ],
    split: Annotated[str | None, typer.Option(help="Only this split.")] = None,
    filter: Annotated[str | None, typer.Option(help="SQL predicate on samples.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Most samples.")] = None,
    best: Annotated[
        int,
        typer.Option(
            min=0, help="Best distinct responses of each sample to add; trl leaves out samples without."
        ),
    ] = 0,
    min_reward: Annotated[float, typer.Option(help="Reward from which a response is one of them.")] = 0.0,
    video_root: Annotated[str | None, typer.Option(help="Folder to put before media paths.")] = None,
    family: Annotated[str, typer.Option(help="Model family of the prompts (verl, trl).")] = "qwen3-vl",
    json_output: JsonOption = False,
) -> None:
    """Write samples as JSON Lines, Parquet, or in the layout of verl, TRL or WebDataset.

    vrldata export clips@v1 --format verl --out verl-data --video-root /data/videos

    vrldata export clips --format trl --out sft --best 1 --min-reward 0.9

    Python: vrldata.export.export(vrldata.open(uri), out, "verl")
    """
    import vrldata
    from vrldata.export import ExportOptions
    from vrldata.export import export as write_export

    report = write_export(
        vrldata.open(uri),
        out,
        output_format,
        split=split,
        filter=filter,
        limit=limit,
        best=best,
        min_reward=min_reward,
        options=ExportOptions(video_root=video_root, family=family),
    )
    print_result(dataclasses.asdict(report), as_json=json_output, text=_text)
    if report.skipped:
        raise typer.Exit(PARTLY_FAILED)


def _text(result: dict[str, Any]) -> str:
    samples = counted(result["num_samples"], "sample")
    with_response = result["num_with_response"]
    if with_response is not None and with_response == result["num_samples"]:
        samples = f"{with_response} of {counted(result['num_selected'], 'sample')} with a response"
    elif with_response is not None:
        samples += f", {with_response} of them with a response,"
    lines = [f"{samples} in {', '.join(result['files'])}"]
    lines += [f"left out: {reason}" for reason in result["skipped"][:20]]
    if len(result["skipped"]) > 20:
        lines.append(f"… and {len(result['skipped']) - 20} more left out")
    return "\n".join(lines)

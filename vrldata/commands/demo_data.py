"""`vrldata demo-data`: generated questions with known answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vrldata.command_line import JsonOption, print_result
from vrldata.counts import counted


def demo_data(
    out: Annotated[Path, typer.Argument(help="Folder to write to; made when missing.")],
    count: Annotated[int, typer.Option(help="Number of questions, dealt out over the tasks.")] = 48,
    seed: Annotated[int, typer.Option(help="Another seed gives other questions.")] = 0,
    task: Annotated[
        list[str] | None, typer.Option("--task", help="Only this task, such as colour; may be repeated.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write generated video and image questions whose answers are known.

    Example: vrldata demo-data demo --count 96 --seed 1
    """
    from vrldata.demo_data import write_demo_data

    report = write_demo_data(out, count=count, seed=seed, tasks=task or ())
    result = {
        "out": str(report.out),
        "train": report.train,
        "val": report.val,
        "videos": report.videos,
        "images": report.images,
        "trajectories": report.trajectories,
        "changed": report.changed,
        "tasks": dict(report.tasks),
    }
    print_result(
        result,
        as_json=as_json,
        text=lambda found: (
            f"{found['out']}: {found['train']} training and {found['val']} validation questions,"
            f" {counted(found['videos'], 'video')}, {counted(found['images'], 'image')},"
            f" {counted(found['trajectories'], 'offline trajectory')}"
            f" ({counted(found['changed'], 'file')} changed)"
        ),
    )

"""`vrldata preview`: a contact sheet and a gallery page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from vrldata.command_line import JsonOption, print_result
from vrldata.counts import counted
from vrldata.errors import ConfigError


def preview(
    uri: Annotated[str, typer.Argument(help="Dataset URI.")],
    sample: Annotated[str | None, typer.Option(help="Show this sample_id.")] = None,
    clip: Annotated[str | None, typer.Option(help="Show this clip_id.")] = None,
    filter: Annotated[str | None, typer.Option(help="SQL predicate on samples.")] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Most samples; 6 on a sheet, 200 on a page.")
    ] = None,
    num_frames: Annotated[int, typer.Option("--frames", min=1, max=64, help="Frames of a video.")] = 8,
    html: Annotated[Path | None, typer.Option(help="Self-contained page to write.")] = None,
    png: Annotated[Path | None, typer.Option(help="Picture to write; preview.png without --html.")] = None,
    json_output: JsonOption = False,
) -> None:
    """Contact sheet with frames and timestamps, question, answer with its boxes and spans, and responses.

    vrldata preview clips --sample demo-12 --png sheet.png

    vrldata preview clips@v1 --filter "problem_type = 'tracking'" --html gallery.html

    Python: vrldata.preview.preview(vrldata.open(uri), png="sheet.png")
    """
    import vrldata
    from vrldata.preview import preview as write_preview

    if sum(choice is not None for choice in (sample, clip, filter)) > 1:
        raise ConfigError("choose one of --sample, --clip and --filter")
    if png is None and html is None:
        png = Path("preview.png")
    report = write_preview(
        vrldata.open(uri),
        sample_id=sample,
        clip_id=clip,
        filter=filter,
        limit=limit,
        png=png,
        html=html,
        num_frames=num_frames,
    )
    result = {
        "num_samples": report.num_samples,
        "num_selected": report.num_selected,
        "files": list(report.shown),
        "shown": dict(report.shown),
    }
    print_result(result, as_json=json_output, text=_text)


def _text(result: dict[str, Any]) -> str:
    total = result["num_selected"]
    return ", ".join(
        f"{count} of {counted(total, 'sample')} in {file}" for file, count in result["shown"].items()
    )

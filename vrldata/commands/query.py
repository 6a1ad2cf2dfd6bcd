"""`vrldata query`: SQL over a dataset, printed or written to a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from vrldata.command_line import JsonOption, print_result
from vrldata.errors import ConfigError, nearest

_ENDINGS = {".csv": "csv", ".jsonl": "jsonl", ".parquet": "parquet", ".arrow": "arrow", ".txt": "table"}


def query(
    uri: Annotated[str, typer.Argument(help="Dataset URI.")],
    sql: Annotated[str, typer.Argument(help="One SELECT statement.")],
    output_format: Annotated[
        str | None,
        typer.Option("--format", help="table, csv, jsonl, parquet or arrow; by default as --out ends."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help=f"File to write instead of standard output; ends in {', '.join(_ENDINGS)}."),
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """SQL over samples, frames (without pixels), trajectories, failures and releases.

    vrldata query clips "SELECT problem_type, count(*) FROM samples GROUP BY 1"

    vrldata query clips@v1 "SELECT response FROM trajectories WHERE match(response, 'turns left')"

    Tables and their columns: docs/tables.md, or "DESCRIBE samples". Python: vrldata.open(uri).sql(statement)
    """
    import vrldata
    from vrldata.counts import counted
    from vrldata.location import check_whole
    from vrldata.rows_output import BINARY_FORMATS, FORMATS, rows_of, whole_file, write_rows

    chosen = output_format or (_format_of(out) if out else "table")
    if chosen not in FORMATS:
        raise ConfigError(f"--format {chosen!r}: choose {', '.join(FORMATS)}.{nearest(chosen, FORMATS)}")
    if chosen in BINARY_FORMATS and out is None and not json_output and sys.stdout.isatty():
        raise ConfigError(f"--format {chosen} is no text: add --out FILE or a pipe")
    dataset = vrldata.open(uri)
    check_whole(dataset.uri, "a statement")
    rows = dataset.sql(sql)
    if out is not None:
        with whole_file(out) as file:
            write_rows(rows, file, chosen)
    if json_output:
        result = {"columns": rows.schema.names, "num_rows": rows.num_rows}
        result |= {"out": str(out)} if out else {"rows": list(rows_of(rows))}
        print_result(result, as_json=True, text=str)
    elif out is not None:
        typer.echo(f"{counted(rows.num_rows, 'row')} in {out}")
    else:
        write_rows(rows, sys.stdout.buffer, chosen)
        sys.stdout.flush()


def _format_of(out: Path) -> str:
    """The format that a file's name asks for. Raises ConfigError where its ending is of none."""
    ending = out.suffix.lower()
    if ending not in _ENDINGS:
        raise ConfigError(
            f"--out {out}: its ending names no format.{nearest(ending, _ENDINGS)}"
            f" Endings: {', '.join(_ENDINGS)}; any other needs --format"
        )
    return _ENDINGS[ending]

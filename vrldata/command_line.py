"""What the three commands share: running a typer app with the exit codes of the contract, and output.

Exit codes: 0 done, 1 partly failed, 2 wrong usage or input, 130 interrupted.
Results go to standard output, logs and errors to standard error.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vrldata.errors import VRLError
from vrldata.log import setup_logging

if TYPE_CHECKING:
    from collections.abc import Callable

PARTLY_FAILED = 1

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
VerboseOption = Annotated[int, typer.Option("--verbose", "-v", count=True, help="More log lines.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Warnings and errors only.")]
LogJsonOption = Annotated[bool, typer.Option("--log-json", help="Log lines as JSON.")]


def new_app(help_text: str) -> typer.Typer:
    """A typer app with the options that every command line of the project has."""
    app = typer.Typer(
        help=help_text,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        add_completion=False,
    )

    @app.callback()
    def common(
        verbose: VerboseOption = 0, quiet: QuietOption = False, log_json: LogJsonOption = False
    ) -> None:
        setup_logging(-1 if quiet else verbose, log_json=log_json)

    return app


def run(app: typer.Typer) -> None:
    """Run `app` as the program: an error meant for the user becomes one line and an exit code."""
    try:
        app()
    except VRLError as error:
        for line in str(error).splitlines() or [type(error).__name__]:
            typer.echo(f"error: {line}", err=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        typer.echo("interrupted; run the same command again to continue", err=True)
        sys.exit(130)
    except BrokenPipeError:
        # the reader of our output has left, such as `head`; point stdout elsewhere so that exit stays silent
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


def print_result(result: dict[str, Any], *, as_json: bool, text: Callable[[dict[str, Any]], str]) -> None:
    """Write a command's result to standard output: JSON, or the text that `text` makes of it."""
    if as_json:
        typer.echo(json.dumps(result, ensure_ascii=False, default=str))
    else:
        typer.echo(text(result))

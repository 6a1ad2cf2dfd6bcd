"""What the three commands share: running a typer app with the exit codes of the contract, and output.

Exit codes: 0 done, 1 partly failed, 2 wrong usage or input, 130 interrupted.
Results go to standard output, logs and errors to standard error.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from vrldata.errors import ConfigError, MissingExtraError, VRLError, missing_extra, nearest
from vrldata.log import setup_logging

if TYPE_CHECKING:
    from collections.abc import Callable

PARTLY_FAILED = 1

EXTRA_OF = {
    "av": "build",
    "datasets": "hf",
    "httpx": "eval",
    "math_verify": "tasks",
    "rapidfuzz": "tasks",
    "ray": "ray",
    "safetensors": "train",
    "snowballstemmer": "tasks",
    "torch": "train",
    "transformers": "train",
    "vllm": "vllm",
}
"""Library to the extra of the project that installs it."""
INTERRUPTED = 130

_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that would steer a terminal or cannot be written: names and texts come from data."""

_COMMON_OPTIONS = frozenset({"-v", "-vv", "--verbose", "-q", "--quiet", "--log-json"})

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
VerboseOption = Annotated[int, typer.Option("--verbose", "-v", count=True, help="More log lines.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Warnings and errors only.")]
LogJsonOption = Annotated[bool, typer.Option("--log-json", help="Log lines as JSON.")]


def _print_version(asked: bool) -> None:
    if asked:
        from vrldata import __version__

        typer.echo(f"vrl {__version__}")
        raise typer.Exit


VersionOption = Annotated[
    bool,
    typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave."),
]


class CommandGroup(TyperGroup):
    """Commands that take the options of the program before or after their name: `vrldata info clips -q`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Move the program's own options to the front."""
        end = args.index("--") if "--" in args else len(args)
        own = [arg for arg in args[:end] if arg in _COMMON_OPTIONS]
        others = [arg for arg in args[:end] if arg not in _COMMON_OPTIONS]
        return super().parse_args(ctx, [*own, *others, *args[end:]])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command named by the first argument. Raises ConfigError with the nearest name."""
        if not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            known = self.list_commands(ctx)
            raise ConfigError(
                f"no command {args[0]!r}.{nearest(args[0], known)} Commands: {', '.join(known)}"
            )
        return super().resolve_command(ctx, args)


def new_app(help_text: str) -> typer.Typer:
    """A typer app with the options that every command line of the project has."""
    app = typer.Typer(
        cls=CommandGroup,
        help=help_text,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        add_completion=False,
    )

    @app.callback()
    def common(
        verbose: VerboseOption = 0,
        quiet: QuietOption = False,
        log_json: LogJsonOption = False,
        version: VersionOption = False,
    ) -> None:
        setup_logging(-1 if quiet else verbose, log_json=log_json)

    return app


def run(app: typer.Typer) -> None:
    """Run `app` as the program: an error meant for the user becomes one line and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # a character that the terminal's encoding lacks is no reason to fail
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except VRLError as error:
        for line in str(error).splitlines() or [type(error).__name__]:
            typer.echo(f"error: {shown(line)}", err=True)
        sys.exit(error.exit_code)
    except ModuleNotFoundError as error:
        library = (error.name or "").split(".")[0]
        if library not in EXTRA_OF:
            raise
        typer.echo(f"error: {missing_extra(library, EXTRA_OF[library], 'this command')}", err=True)
        sys.exit(MissingExtraError.exit_code)
    except KeyboardInterrupt:
        _tell_interrupted()
        sys.exit(INTERRUPTED)
    except SystemExit as ending:
        # typer turns an interrupt into this exit without a word
        if ending.code == INTERRUPTED:
            _tell_interrupted()
        raise
    except BrokenPipeError:
        # the reader of our output has left, such as `head`; point stdout elsewhere so that exit stays silent
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        if error.filename is None:
            raise
        # a file that the user named, or one beside it: no place, no permission, a folder
        typer.echo(f"error: {shown(str(error.filename))}: {error.strerror}", err=True)
        sys.exit(VRLError.exit_code)


def print_result(result: dict[str, Any], *, as_json: bool, text: Callable[[dict[str, Any]], str]) -> None:
    """Write a command's result to standard output: JSON, or the text that `text` makes of it."""
    if as_json:
        utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
        printed = json.dumps(_finite(result), ensure_ascii=not utf8, default=str)
        typer.echo(re.sub("[\ud800-\udfff]", lambda half: f"\\u{ord(half.group()):04x}", printed))
    else:
        typer.echo(shown(text(result)))


def shown(text: str) -> str:
    """`text` with the characters that would steer a terminal as escapes; line breaks and tabs stay.

    >>> shown("red \\x1b[31m")
    'red \\\\x1b[31m'
    """
    return _UNSAFE.sub(lambda found: found.group().encode("unicode_escape", "replace").decode(), text)


def _finite(value: Any) -> Any:
    """`value` with null for the numbers that JSON lacks."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def _tell_interrupted() -> None:
    typer.echo("interrupted; run the same command again to continue", err=True)

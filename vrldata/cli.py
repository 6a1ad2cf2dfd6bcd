"""`vrldata`: the command line. Commands live in modules of `vrldata.commands`, imported when they run."""

from __future__ import annotations

import importlib
import os
import re
import sys
from itertools import pairwise
from typing import Any

import typer

from vrldata.command_line import CommandGroup, new_app, run
from vrldata.quick_start import load_quickly

COMMANDS: dict[str, tuple[str, str]] = {
    "build": ("build", "build"),
    "info": ("build", "info"),
    "query": ("query", "query"),
    "preview": ("preview", "preview"),
    "release": ("release", "release"),
    "releases": ("release", "releases"),
    "diff": ("release", "diff"),
    "push": ("hub", "push"),
    "pull": ("hub", "pull"),
    "card": ("hub", "card"),
    "add-trajectories": ("trajectories", "add_trajectories"),
    "pass-rate": ("trajectories", "pass_rate"),
    "import-pt": ("maintain", "import_pt"),
    "export": ("export", "export"),
    "verify": ("maintain", "verify"),
    "compact": ("maintain", "compact"),
    "gc": ("maintain", "gc"),
    "demo-data": ("demo_data", "demo_data"),
}
"""Command to its module in `vrldata.commands` and the function there, in the order of the help text."""

_COMMENT = re.compile(r"--[^=\s]*\s")


class LazyCommands(CommandGroup):
    """The commands of `COMMANDS`; a module is imported when one of its commands is asked for."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take a statement that begins with a comment (`-- by type`) for a statement, not for an option."""
        if "query" in args:
            args = [f" {arg}" if _COMMENT.match(arg) else arg for arg in args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:
        """Names in the order of the help text."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command, or None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        module, function = COMMANDS[cmd_name]
        single = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        single.command(cmd_name)(getattr(importlib.import_module(f"vrldata.commands.{module}"), function))
        return typer.main.get_command(single)


app = new_app("Datasets of decoded video in Lance: build, query, release, publish, maintain.")
app.info.cls = LazyCommands


def main() -> None:
    """Entry point of the console script."""
    load_quickly()
    if _makes_a_dataset(sys.argv[1:]):
        from vrldata.decode_process import start_nursery

        # while the libraries of the command line load here, those of decoders load there
        start_nursery()
    run(app)


def _makes_a_dataset(arguments: list[str]) -> bool:
    """Whether decoders are all but sure to be needed: the command builds a dataset that is not there yet."""
    if "build" not in arguments or "--help" in arguments or "--ray" in arguments:
        return False
    out = _value_of("--out", arguments)
    if not out or "://" in out or _value_of("--workers", arguments) == "0":
        return False
    from vrldata.location import table_path

    return not os.path.exists(table_path(out, "frames"))


def _value_of(option: str, arguments: list[str]) -> str:
    """What follows an option, behind `=` or a space; empty where it is not given."""
    for argument, following in pairwise([*arguments, ""]):
        if argument == option:
            return following
        if argument.startswith(f"{option}="):
            return argument.partition("=")[2]
    return ""

"""The `vrltrain` program. Each command has a module of its own in `commands`; heavy imports wait."""

from __future__ import annotations

import atexit
import os
import sys

from vrldata.command_line import new_app, run
from vrltrain.commands.export import export
from vrltrain.commands.rollouts import rollouts
from vrltrain.commands.run import run as train
from vrltrain.commands.sft import sft
from vrltrain.commands.tiny_model import tiny_model

app = new_app("Train Qwen-VL models on video with reinforcement learning.")
app.command("run")(train)
app.command("sft")(sft)
app.command("rollouts")(rollouts)
app.command("export")(export)
app.command("tiny-model")(tiny_model)


def main() -> None:
    """Run the command line."""
    try:
        run(app)
    except SystemExit as ending:
        if int(os.environ.get("WORLD_SIZE") or 1) > 1:
            _leave(ending.code)
        raise


def _leave(code: str | int | None) -> None:
    """End one of several ranks without the interpreter's teardown.

    Threads of the collectives' libraries that still hold Python objects at that point abort the process
    ("terminate called without an active exception"), so that a rank whose work is done would count as failed.
    """
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    main()

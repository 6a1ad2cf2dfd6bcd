"""The `vrltrain` program. Each command has a module of its own in `commands`; heavy imports wait."""

from __future__ import annotations

from vrldata.command_line import new_app, run
from vrltrain.commands.run import run as run_command
from vrltrain.commands.tiny_model import tiny_model

app = new_app("Train Qwen-VL models on video with reinforcement learning.")
app.command("run")(run_command)
app.command("tiny-model")(tiny_model)


def main() -> None:
    """Run the command line."""
    run(app)


if __name__ == "__main__":
    main()

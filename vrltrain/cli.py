"""The `vrltrain` program. Each command has a module of its own in `commands`; heavy imports wait."""

from __future__ import annotations

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
    run(app)


if __name__ == "__main__":
    main()

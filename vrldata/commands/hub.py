"""`vrldata push`, `pull` and `card`: a dataset on the Hugging Face Hub."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from vrldata.command_line import JsonOption, print_result
from vrldata.counts import counted

UriArgument = Annotated[str, typer.Argument(help="Dataset URI.")]


def push(
    uri: UriArgument,
    target: Annotated[str, typer.Argument(help="hf://datasets/<org>/<name>.")],
    private: Annotated[
        bool,
        typer.Option(
            "--private",
            help="Make the new repository private. One that is there stays as it is: where it is public, "
            "nothing is sent.",
        ),
    ] = False,
    release: Annotated[str | None, typer.Option(help="Publish this release as the newest state.")] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Drop releases that are only on the Hub, move tags of those made anew."),
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """Publish a dataset with its releases as git tags. Only what changed goes up; run again to continue.

    vrldata push clips hf://datasets/me/clips --private

    The token comes from HF_TOKEN or `hf auth login`. Python: vrldata.open(uri).push(target)
    """
    import vrldata

    report = vrldata.open(uri).push(target, private=private, release=release, force=force)
    print_result(dataclasses.asdict(report), as_json=json_output, text=_push_text)


def pull(
    uri: Annotated[str, typer.Argument(help="hf://datasets/<org>/<name>[@release].")],
    folder: Annotated[Path, typer.Argument(help="Folder to make or to bring up to date.")],
    json_output: JsonOption = False,
) -> None:
    """Fetch a dataset from the Hub. Only what changed comes down; run again to continue.

    vrldata pull hf://datasets/me/clips clips

    vrldata pull hf://datasets/me/clips@v1 clips     # that release as the newest state, and those before it

    Python: vrldata.pull(uri, folder)
    """
    import vrldata

    report = vrldata.pull(uri, folder)
    print_result(dataclasses.asdict(report), as_json=json_output, text=_pull_text)


def card(
    uri: UriArgument,
    out: Annotated[Path | None, typer.Option(help="File to write; README.md in the root by default.")] = None,
    json_output: JsonOption = False,
) -> None:
    """Write the dataset card from the data. Your licence, citation and text in it are kept.

    vrldata card clips

    Python: vrldata.card.write_card(vrldata.open(uri))
    """
    import vrldata
    from vrldata.card import write_card

    path = write_card(vrldata.open(uri), out)
    print_result({"file": str(path)}, as_json=json_output, text=lambda result: result["file"])


def _push_text(result: dict[str, Any]) -> str:
    from vrldata.summary import size_text

    tags = f", tags {', '.join(result['tags'])}" if result["tags"] else ""
    lines = [
        f"hf://datasets/{result['repo_id']}: {counted(result['uploaded'], 'file')} sent "
        f"({size_text(result['uploaded_bytes'])}), {result['unchanged']} unchanged, "
        f"{result['deleted']} deleted{tags}"
    ]
    if result["moved_tags"]:
        lines.append(f"tags that were another release before: {', '.join(result['moved_tags'])}")
    if result["deleted_tags"]:
        lines.append(f"tags deleted, as their releases are not here: {', '.join(result['deleted_tags'])}")
    if result["deleted_files"]:
        # data/samples.lance, parquet/samples and the like
        folders = Counter("/".join(path.split("/")[:2]) for path in result["deleted_files"])
        listed = ", ".join(f"{count} of {folder}" for folder, count in folders.items())
        lines.append(
            f"deleted, as neither a release nor the newest state needs them: {listed} "
            "(the repository's git history keeps them)"
        )
    return "\n".join(lines)


def _pull_text(result: dict[str, Any]) -> str:
    from vrldata.summary import size_text

    release = f"@{result['release']}" if result["release"] else ""
    return (
        f"hf://datasets/{result['repo_id']}{release} in {result['folder']}: "
        f"{counted(result['downloaded'], 'file')} fetched ({size_text(result['downloaded_bytes'])}), "
        f"{result['unchanged']} unchanged; open it as {result['opens_as']}"
    )

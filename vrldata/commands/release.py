"""`vrldata release`, `releases` and `diff`: named versions of a dataset."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vrldata.command_line import JsonOption, print_result
from vrldata.errors import ConfigError

if TYPE_CHECKING:
    from vrldata.releases import Release

UriArgument = Annotated[str, typer.Argument(help="Dataset URI.")]


def release(
    uri: UriArgument,
    name: Annotated[str, typer.Argument(help="Name, such as v1 or 2026-11-ablation.")],
    message: Annotated[str, typer.Option("--message", "-m", help="What is in it.")] = "",
    force: Annotated[bool, typer.Option("--force", help="Move a name that exists; it is recorded.")] = False,
    json_output: JsonOption = False,
) -> None:
    """Pin the present version of every table under a name.

    vrldata release clips v1 -m "first 1000 questions"

    Python: vrldata.open(uri).create_release(name, message)
    """
    import vrldata

    made = vrldata.open(uri).create_release(name, message, force=force)
    print_result(_plain(made), as_json=json_output, text=_release_text)


def releases(uri: UriArgument, json_output: JsonOption = False) -> None:
    """List the releases of a dataset, oldest first.

    vrldata releases clips

    Python: vrldata.open(uri).list_releases()
    """
    import vrldata
    from vrldata.location import check_whole

    dataset = vrldata.open(uri)
    check_whole(dataset.uri, "a list of releases")
    found = [_plain(one) for one in dataset.list_releases()]
    print_result(
        {"releases": found},
        as_json=json_output,
        text=lambda result: "\n".join(map(_release_text, result["releases"])) or "no releases",
    )


def diff(
    uri: UriArgument,
    a: Annotated[str, typer.Argument(help="Release, or latest.")],
    b: Annotated[str | None, typer.Argument(help="Release, or latest.", metavar="B")] = None,
    json_output: JsonOption = False,
) -> None:
    """Rows added, removed and changed from one release to another, by table.

    vrldata diff clips v1 latest

    Python: vrldata.open(uri).diff(a, b)
    """
    import vrldata
    from vrldata.diff_text import diff_text

    if b is None:
        raise ConfigError(_diff_form(uri, a))
    dataset = vrldata.open(uri)
    first, second = a.removeprefix("@"), b.removeprefix("@")
    found = dataset.diff(first, second)
    print_result(
        {"a": a, "b": b, "tables": {table: dataclasses.asdict(one) for table, one in found.items()}},
        as_json=json_output,
        text=lambda _: diff_text(dataset, first, second, found),
    )


def _diff_form(uri: str, a: str) -> str:
    """How to write a diff that was given two arguments, such as two URIs, instead of three."""
    location, _, first = uri.rpartition("@")
    second = a.rpartition("@")[2]
    example = (
        f"vrldata diff {location} {first} {second}" if location else f"vrldata diff {uri} {second} latest"
    )
    return f"diff compares two releases of one dataset, named after its URI: {example}"


def _plain(one: Release) -> dict[str, Any]:
    return {**dataclasses.asdict(one), "created_at": one.created_at.isoformat()}


def _release_text(one: dict[str, Any]) -> str:
    counts = ", ".join(f"{count} {table}" for table, count in sorted(one["counts"].items()) if count)
    message = f"  {one['message']}" if one["message"] else ""
    return f"{one['name']}  {one['created_at'][:16]}  {one['digest'][:12]}  {counts or 'empty'}{message}"

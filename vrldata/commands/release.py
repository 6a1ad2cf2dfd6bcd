"""`vrldata release`, `releases` and `diff`: named versions of a dataset."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vrldata.command_line import JsonOption, print_result

if TYPE_CHECKING:
    from vrldata.releases import Release

UriArgument = Annotated[str, typer.Argument(help="Dataset URI.")]
SHOWN_ROWS = 10
"""Rows of each kind that the text of a diff lists; `--json` gives all."""


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

    found = [_plain(one) for one in vrldata.open(uri).list_releases()]
    print_result(
        {"releases": found},
        as_json=json_output,
        text=lambda result: "\n".join(map(_release_text, result["releases"])) or "no releases",
    )


def diff(
    uri: UriArgument,
    a: Annotated[str, typer.Argument(help="Release, or latest.")],
    b: Annotated[str, typer.Argument(help="Release, or latest.")],
    json_output: JsonOption = False,
) -> None:
    """Rows added, removed and changed from one release to another, by table.

    vrldata diff clips v1 latest

    Python: vrldata.open(uri).diff(a, b)
    """
    import vrldata

    tables = {
        table: dataclasses.asdict(one)
        for table, one in vrldata.open(uri).diff(a.removeprefix("@"), b.removeprefix("@")).items()
    }
    print_result({"a": a, "b": b, "tables": tables}, as_json=json_output, text=_diff_text)


def _plain(one: Release) -> dict[str, Any]:
    return {**dataclasses.asdict(one), "created_at": one.created_at.isoformat()}


def _release_text(one: dict[str, Any]) -> str:
    counts = ", ".join(f"{count} {table}" for table, count in sorted(one["counts"].items()) if count)
    message = f"  {one['message']}" if one["message"] else ""
    return f"{one['name']}  {one['created_at'][:16]}  {one['digest'][:12]}  {counts or 'empty'}{message}"


def _diff_text(result: dict[str, Any]) -> str:
    lines = []
    for table, one in result["tables"].items():
        counts = {kind: len(one[kind]) for kind in ("added", "removed", "changed")}
        if not any(counts.values()):
            continue
        lines.append(f"{table}: " + ", ".join(f"{count} {kind}" for kind, count in counts.items()))
        lines += _listed("+", one["added"]) + _listed("-", one["removed"])
        lines += _listed("~", [f"{key} ({', '.join(names)})" for key, names in one["changed"].items()])
    return "\n".join(lines) or f"{result['a']} and {result['b']} hold the same rows"


def _listed(mark: str, rows: list[str]) -> list[str]:
    more = [f"  {mark} … {len(rows) - SHOWN_ROWS} more"] if len(rows) > SHOWN_ROWS else []
    return [f"  {mark} {row}" for row in rows[:SHOWN_ROWS]] + more

"""`vrldata verify`, `compact`, `gc` and `import-pt`."""

from __future__ import annotations

import dataclasses
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vrldata.command_line import PARTLY_FAILED, JsonOption, print_result
from vrldata.counts import counted

if TYPE_CHECKING:
    from datetime import timedelta

UriArgument = Annotated[str, typer.Argument(help="Dataset URI.")]
SHOWN_PROBLEMS = 50
"""Problems that the text lists; `--json` gives all."""
SHOWN_FAILURES = 5
"""Files without clips that the text names."""


def verify(
    uri: UriArgument,
    deep: Annotated[bool, typer.Option("--deep", help="Read and decode every payload.")] = False,
    video_root: Annotated[Path | None, typer.Option(help="Compare with the sources, too.")] = None,
    drop_damaged: Annotated[
        bool, typer.Option("--drop-damaged", help="Delete damaged clips; build makes them again.")
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """Check every row: keys, references, payloads and, with --video-root, sources.

    vrldata verify clips --deep --video-root videos

    Python: vrldata.open(uri).verify(deep=True)
    """
    import vrldata

    report = vrldata.open(uri).verify(deep, video_root=video_root, drop_damaged=drop_damaged)
    result = {"uri": uri, "ok": report.ok, **dataclasses.asdict(report)}
    print_result(result, as_json=json_output, text=_verify_text)
    if not report.ok:
        raise typer.Exit(PARTLY_FAILED)


def compact(
    uri: UriArgument,
    frames: Annotated[bool, typer.Option("--frames", help="Also write all payloads again.")] = False,
    json_output: JsonOption = False,
) -> None:
    """Merge the small files of many commits and index large tables.

    The old files stay, so that the folder grows at first. `vrldata gc` deletes them once they are a day
    old, or now with --older-than 0s where no other process reads the dataset. What a release pins stays.

    vrldata compact clips

    Python: vrldata.open(uri).compact()
    """
    import vrldata

    result = dataclasses.asdict(vrldata.open(uri).compact(frames=frames))
    print_result(result, as_json=json_output, text=_compact_text)


def gc(
    uri: UriArgument,
    older_than: Annotated[str, typer.Option(help="Age of versions to drop, such as 12h or 7d.")] = "1d",
    abandoned: Annotated[
        bool,
        typer.Option(
            "--abandoned",
            help="Also delete files of killed writers. Only while nothing writes to the dataset.",
        ),
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """Drop versions that no release pins, the files that only they use, and failures that hold no more.

    Younger versions stay for processes that read them, so that nothing is freed right after a build or
    `compact` but with --older-than 0s.

    vrldata gc clips --older-than 12h

    Python: vrldata.open(uri).gc()
    """
    import vrldata

    report = vrldata.open(uri).gc(older_than=parse_age(older_than), abandoned=abandoned)
    text = partial(_gc_text, older_than=older_than)
    print_result(dataclasses.asdict(report), as_json=json_output, text=text)


def import_pt(
    folder: Annotated[Path, typer.Argument(help="Folder with the .pt files.")],
    out: Annotated[str, typer.Option(help="Root of the dataset; made when missing.")],
    annotations: Annotated[
        list[str] | None,
        typer.Option(help="Files whose rows name them as `preprocessed_video`; by default those nearby."),
    ] = None,
    video_root: Annotated[
        Path | None, typer.Option(help="Where the videos lie, for their fingerprints.")
    ] = None,
    fps: Annotated[float, typer.Option(help="--video_fps of the cache.")] = 2.0,
    max_frames: Annotated[int, typer.Option(help="--video_max_frames of the cache.")] = 128,
    min_pixels: Annotated[int, typer.Option(help="--video_min_pixels of the cache.")] = 4 * 32 * 32,
    max_pixels: Annotated[int, typer.Option(help="--video_max_pixels of the cache.")] = 64 * 32 * 32,
    total_pixels: Annotated[int | None, typer.Option(help="--video_total_pixels of the cache.")] = None,
    codec: Annotated[str, typer.Option(help="raw, zstd, ffv1 or jpeg, each with :level.")] = "raw",
    any_name: Annotated[
        bool, typer.Option("--any-name", help="Take files whose name does not follow from these figures.")
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """Take over the .pt caches of EasyVideoR1 without decoding again. Files are read as tensors only.

    vrldata import-pt preprocessed --annotations train_preprocessed.jsonl --out clips --max-pixels 131072

    Python: vrldata.import_pt.import_folder(dataset, folder, annotations=…, spec=…)
    """
    from vrldata.dataset import Dataset
    from vrldata.import_pt import import_folder
    from vrldata.sampling import SamplingSpec
    from vrldata.uri import DatasetUri

    spec = SamplingSpec(
        fps=fps,
        max_frames=max_frames,
        min_pixels=min_pixels,
        max_pixels=max_pixels,
        total_pixels=total_pixels,
        codec=codec,
    )
    report = import_folder(
        Dataset(DatasetUri.parse(out)),
        folder,
        annotations=annotations,
        spec=spec,
        video_root=video_root,
        check_names=not any_name,
    )
    print_result({"out": out, **dataclasses.asdict(report)}, as_json=json_output, text=_import_text)
    if not report.complete:
        raise typer.Exit(PARTLY_FAILED)


def parse_age(text: str) -> timedelta:
    """A time span from text such as `90s`, `30m`, `12h`, `7d`.

    Raises:
        ConfigError: not such a text.
    """
    from datetime import timedelta

    from vrldata.errors import ConfigError

    found = re.fullmatch(r"\s*([0-9]{1,6}(?:\.[0-9]+)?)\s*([smhd])\s*", text)
    if not found:
        raise ConfigError(f"{text!r} is no age: write it as 90s, 30m, 12h or 7d")
    unit = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}[found.group(2)]
    return timedelta(**{unit: float(found.group(1))})


def _verify_text(result: dict[str, Any]) -> str:
    from vrldata.summary import size_text

    rows = ", ".join(f"{name} {count}" for name, count in result["rows"].items())
    read = f", {size_text(result['payload_bytes'])} of payloads read" if result["payload_bytes"] else ""
    lines = [f"{result['uri']}: {'ok' if result['ok'] else 'problems found'}; rows: {rows}{read}"]
    problems = [f"{one['table']} {one['key'][:16]}: {one['text']}" for one in result["problems"]]
    lines += problems[:SHOWN_PROBLEMS]
    if len(problems) > SHOWN_PROBLEMS:
        lines.append(f"and {len(problems) - SHOWN_PROBLEMS} more; --json lists all")
    if result["samples_without_clips"]:
        lines.append(_without_clips(result))
    if result["trajectories_without_samples"]:
        number = result["trajectories_without_samples"]
        lines.append(f"note: {counted(number, 'trajectory')} of samples that are not in the table, kept")
    if result["sources_missing"]:
        number, clips = result["sources_missing"], result["rows"]["frames"]
        lines.append(f"note: the sources of {number} of {counted(clips, 'clip')} are not under --video-root")
    if result["dropped"]:
        lines.append(f"{counted(len(result['dropped']), 'damaged clip')} dropped: build again")
    return "\n".join(lines)


def _without_clips(result: dict[str, Any]) -> str:
    # one file may have failed under several specs
    failures = list(dict.fromkeys(f"{path}: {reason}" for path, reason in result["failures"]))
    start = f"note: {counted(result['samples_without_clips'], 'sample')} without clips"
    if not failures:
        return f"{start} (no failure of their files is listed: run `vrldata build` over them)"
    more = f"; and {len(failures) - SHOWN_FAILURES} more" if len(failures) > SHOWN_FAILURES else ""
    listed = "; ".join(failures[:SHOWN_FAILURES])
    return f"{start} (failures: {listed}{more}; `vrldata build … --retry-failed` tries them again)"


def _compact_text(result: dict[str, Any]) -> str:
    lines = [
        f"{table}: {counted(before, 'file')} to {result['files_after'][table]}"
        + (f", indexed {', '.join(result['indexed'][table])}" if result["indexed"][table] else "")
        for table, before in result["files_before"].items()
        if before != result["files_after"][table] or result["indexed"][table]
    ]
    if not lines:
        return "nothing to compact"
    return "\n".join(
        [*lines, "`vrldata gc` frees the old files once they are a day old (--older-than 0s: now)"]
    )


def _gc_text(result: dict[str, Any], *, older_than: str) -> str:
    from vrldata.summary import size_text

    lines = [
        f"{table}: {counted(count, 'version')} dropped, {size_text(result['bytes'][table])} freed"
        for table, count in result["versions"].items()
        if count or result["bytes"][table]
    ]
    if result["past_failures"]:
        rows = counted(result["past_failures"], "row")
        lines.append(f"failures: {rows} of files that no sample names dropped")
    if lines:
        return "\n".join(lines)
    if not result["younger_versions"]:
        return "nothing to free"
    younger = counted(result["younger_versions"], "version")
    return (
        f"nothing to free yet: {younger} of less than {older_than} stay for processes that read them;"
        " --older-than 0s drops them at once"
    )


def _import_text(result: dict[str, Any]) -> str:
    lines = [
        f"{result['out']}: {counted(result['imported'], 'clip')} imported, {result['reused']} there already, "
        f"{result['failed']} failed, {counted(result['samples'], 'sample')}, "
        f"{counted(result['rejected'], 'row')} rejected"
    ]
    lines += [f"failed: {path}: {reason}" for path, reason in result["failures"]]
    lines += [f"rejected: {message}" for message in result["rejections"]]
    return "\n".join(lines)

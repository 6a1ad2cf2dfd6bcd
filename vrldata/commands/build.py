"""`vrldata build` and `vrldata info`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vrldata.command_line import PARTLY_FAILED, JsonOption, print_result
from vrldata.counts import counted
from vrldata.processors import available_cpus
from vrldata.quick_start import keep_freed_memory

if TYPE_CHECKING:
    from vrldata.dataset import Dataset
    from vrldata.sampling import SamplingSpec

SHOWN_IDS = 5
SHOWN_REASONS = 20
"""Failures and rejections that the text lists; `--json` gives all."""

EARLY_DECODERS = 2
"""Started while it is unknown how many files there are."""

_UNITS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}


def build(
    annotations: Annotated[list[str], typer.Argument(help="Annotation files, folders or patterns.")],
    out: Annotated[str, typer.Option(help="Root of the dataset; made when missing.")],
    video_root: Annotated[Path, typer.Option(help="Folder that media paths are relative to.")],
    fps: Annotated[float | None, typer.Option(help="Frames per second of video. [2.0]")] = None,
    max_frames: Annotated[int | None, typer.Option(help="Most frames of a clip. [128]")] = None,
    max_pixels: Annotated[int | None, typer.Option(help="Most pixels of a frame. [262144]")] = None,
    preset: Annotated[str | None, typer.Option(help="Model family, such as qwen3-vl.")] = None,
    image_max_pixels: Annotated[int | None, typer.Option(help="Most pixels of an image.")] = None,
    codec: Annotated[
        str | None,
        typer.Option(help="raw, zstd, ffv1, jpeg, each with :level, or auto. [raw; auto with --budget]"),
    ] = None,
    budget: Annotated[str | None, typer.Option(help="Bytes for all frames, such as 2TB.")] = None,
    workers: Annotated[
        int | None, typer.Option(help="Decoder processes; one a CPU by default, 0 decodes in this one.")
    ] = None,
    ray: Annotated[
        str | None, typer.Option("--ray", metavar="ADDRESS", help="Decode on this Ray cluster, or 'local'.")
    ] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Try failed files again.")] = False,
    timeout: Annotated[float, typer.Option(help="Seconds for one file.")] = 120.0,
    field_map: Annotated[
        list[str] | None, typer.Option("--map", metavar="FIELD=COLUMN", help="Column of a field; repeatable.")
    ] = None,
    split: Annotated[str, typer.Option(help="Split of rows that name none.")] = "train",
    on_unknown_type: Annotated[
        str, typer.Option(help="Rows of unknown problem type: error (rejected), open_ended or skip.")
    ] = "error",
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove samples that these files held before and no longer hold.")
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """Turn annotations and their media into a dataset, or bring one up to date.

    vrldata build train.jsonl --out clips --video-root videos --preset qwen3-vl --max-frames 64

    Python: vrldata.create(root).build(rows, video_root=…, spec=…)
    """
    from vrldata.dataset import Dataset
    from vrldata.decode_process import started_early
    from vrldata.uri import DatasetUri

    keep_freed_memory()
    dataset = Dataset(DatasetUri.parse(out))
    with started_early(_early_decoders(dataset, workers, ray)) as decoders:
        spec = spec_of(preset, fps=fps, max_frames=max_frames, max_pixels=max_pixels)
        # the tables are made once the annotations could be read
        report = dataset.build(
            annotations,
            video_root=video_root,
            spec=spec,
            image_max_pixels=image_max_pixels,
            codec=codec or ("auto" if budget else "raw"),
            budget_bytes=parse_bytes(budget) if budget else None,
            workers=workers,
            ray_address=ray,
            retry_failed=retry_failed,
            timeout_s=timeout,
            field_map=parse_map(field_map or []),
            split=split,
            on_unknown_type=on_unknown_type,
            prune=prune,
            decoders=decoders,
        )
    print_result({"out": out, **report.to_dict()}, as_json=json_output, text=_report_text)
    if not report.complete:
        raise typer.Exit(PARTLY_FAILED)


def _early_decoders(dataset: Dataset, workers: int | None, ray: str | None) -> int:
    """Decoders to start before anything else: a new dataset is sure to need them."""
    from vrldata.location import is_new

    if ray is not None or not is_new(dataset):
        return 0
    return min(EARLY_DECODERS, available_cpus() if workers is None else max(workers, 0))


def info(
    uri: Annotated[str, typer.Argument(help="Dataset URI.")],
    json_output: JsonOption = False,
) -> None:
    """Show what a dataset holds: tables, sizes, releases, specs, problem types, failures.

    vrldata info clips@v1

    Python: vrldata.open(uri).info()
    """
    import vrldata
    from vrldata.summary import summary_text

    print_result(vrldata.open(uri).info(), as_json=json_output, text=summary_text)


def spec_of(preset_name: str | None, **given: Any) -> SamplingSpec:
    """A sampling spec: the preset's, or the default, with the values that were given."""
    import dataclasses

    from vrldata.sampling import SamplingSpec, preset

    base = preset(preset_name) if preset_name else SamplingSpec()
    return dataclasses.replace(base, **{name: value for name, value in given.items() if value is not None})


def parse_bytes(text: str) -> int:
    """A number of bytes from text such as `2TB`, `500 GiB` or `1.5e9`.

    >>> parse_bytes("2TB"), parse_bytes("1.5 GiB")
    (2000000000000, 1610612736)

    Raises:
        ConfigError: not such a text.
    """
    from vrldata.errors import ConfigError

    found = re.fullmatch(r"\s*([0-9.]+(?:e[0-9]+)?)\s*([KMGTP]?)(i?)B?\s*", text, re.IGNORECASE)
    try:
        number = float(found.group(1)) if found else -1.0
    except ValueError:
        number = -1.0
    if not found or not 0 < number < 2**80:
        raise ConfigError(f"{text!r} is no number of bytes: write it as 2TB, 500GiB or 1000000")
    base = 1024 if found.group(3) else 1000
    return int(number * base ** _UNITS[found.group(2).upper()])


def parse_map(pairs: list[str]) -> dict[str, str]:
    """`field=column` texts as a mapping. Raises ConfigError."""
    from vrldata.errors import ConfigError

    found = {}
    for pair in pairs:
        name, equals, column = pair.partition("=")
        if not (name and equals and column):
            raise ConfigError(f"--map {pair!r}: expected field=column, such as problem=question_text")
        found[name] = column
    return found


def _named(sample_ids: Sequence[str]) -> str:
    """The first of some ids."""
    return ", ".join(sample_ids[:SHOWN_IDS]) + (", …" if len(sample_ids) > SHOWN_IDS else "")


def _report_text(result: dict[str, Any]) -> str:
    from vrldata.summary import size_text

    rejected = f" ({result['rejected_file']})" if result["rejected_file"] else ""
    skipped = f", {counted(result['skipped'], 'row')} skipped" if result["skipped"] else ""
    reused = " (stored before, or equal to another file)" if result["reused"] else ""
    lines = [
        f"{result['out']}: {counted(result['samples'], 'sample')}, "
        f"{counted(result['decoded'], 'clip')} decoded, "
        f"{result['reused']} reused{reused}, {result['failed']} failed, "
        f"{counted(result['rejected'], 'row')} rejected{skipped}{rejected}, "
        f"{counted(result['trajectories'], 'trajectory')}, "
        f"{size_text(result['bytes'])} in {result['seconds']:.1f} s"
    ]
    if result["unknown_types"]:
        counts = ", ".join(f"{name!r} {count}" for name, count in result["unknown_types"].items())
        became = "skipped" if result["skipped"] else "read as open_ended"
        lines.append(f"unknown problem types {became}: {counts}")
    if result["left"]:
        done = "removed" if result["pruned"] else "they stay without --prune"
        left = counted(len(result["left"]), "sample")
        lines.append(f"{left} no longer in these files, {done}: {_named(result['left'])}")
    if result["updated"]:
        updated = counted(len(result["updated"]), "sample")
        lines.append(f"{updated} replaced that had other content before: {_named(result['updated'])}")
    problems = [f"failed: {path}: {reason}" for path, reason in result["failures"]]
    problems += [f"rejected: {message}" for message in result["rejections"]]
    lines += problems[:SHOWN_REASONS]
    if len(problems) > SHOWN_REASONS:
        lines.append(f"and {len(problems) - SHOWN_REASONS} more; --json lists all")
    return "\n".join(lines)

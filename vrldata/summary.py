"""What a dataset holds, in figures: `Dataset.info` and `vrldata info`."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrldata.counts import counted
from vrldata.errors import StoreError
from vrldata.failures import current_and_past_failures
from vrldata.location import check_whole
from vrldata.tables import TABLES

if TYPE_CHECKING:
    from vrldata.dataset import Dataset

LISTED_FAILURES = 100

_FIGURES = re.compile(r"\d+(?:\.\d+)?")


def summarise(dataset: Dataset) -> dict[str, Any]:
    """Tables with rows and sizes, releases, specs, codecs, problem types, splits and failures that hold.

    Sizes are bytes of files on disk, old versions included; None for remote datasets, where that is a listing
    of every file.

    Raises:
        UriError: the dataset's URI selects rows.
    """
    check_whole(dataset.uri, "info")
    columns = ["video_path", "spec", "codec", "kind", "num_frames", "warnings"]
    table = dataset.lance("frames")
    frames = table.to_table(columns=[name for name in columns if name in table.schema.names])
    samples = dataset.lance("samples").to_table(columns=["problem_type", "split", "data_type", "clip_ids"])
    failures, past = current_and_past_failures(dataset)
    return {
        "uri": str(dataset.uri),
        "root": dataset.root,
        "release": dataset.release,
        "tables": {name: _table(dataset, name) for name in TABLES},
        "payload_bytes": _payload_bytes(dataset),
        "releases": dataset.releases.to_table(columns=["name"]).column("name").to_pylist(),
        "specs": dict(Counter(_shown_spec(text) for text in frames.column("spec").to_pylist()).most_common()),
        "codecs": _counts(frames, "codec"),
        "kinds": _counts(frames, "kind"),
        "frames": sum(frames.column("num_frames").to_pylist()),
        "problem_types": _counts(samples, "problem_type"),
        "splits": _counts(samples, "split"),
        "data_types": _counts(samples, "data_type"),
        "warnings": _warnings(frames),
        "num_failures": len(failures),
        "failures": [
            {"video_path": one.video_path, "reason": one.reason, "attempts": one.attempts}
            for one in failures[:LISTED_FAILURES]
        ],
        "num_past_failures": len(past),
        "rejections": _rejections(dataset),
    }


def _rejections(dataset: Dataset) -> dict[str, int]:
    """Files in the folder that list rows which the last build or import could not use, with their number.

    They belong to the newest state, not to a release.
    """
    from vrldata import build, trajectories

    if not dataset.is_local or dataset.release is not None:
        return {}
    files = [Path(dataset.root) / name for name in (build.REJECTED_FILE, trajectories.REJECTED_FILE)]
    return {str(file): len(file.read_bytes().splitlines()) for file in files if file.is_file()}


def summary_text(found: dict[str, Any]) -> str:
    """The figures of `summarise` as lines."""
    release = f" at {found['release']}" if found["release"] else ""
    lines = [f"{found['root']}{release}"]
    for name, table in found["tables"].items():
        size = "" if table["bytes"] is None else f", {size_text(table['bytes'])} on disk"
        rows = counted(table["rows"], "row")
        lines.append(f"  {name:13s} {rows:>{14 - (table['rows'] == 1)}s}, version {table['version']}{size}")
    lines.append(f"  pixels: {counted(found['frames'], 'frame')}, {size_text(found['payload_bytes'])}")
    lines.append(f"  releases: {', '.join(found['releases']) or 'none'}")
    for title in ("codecs", "kinds", "splits", "data_types", "problem_types"):
        counts = ", ".join(f"{name} {count}" for name, count in found[title].items())
        lines.append(f"  {title.replace('_', ' ')}: {counts or 'none'}")
    lines += [f"  spec {spec}: {counted(count, 'clip')}" for spec, count in found["specs"].items()]
    for row in found["warnings"]:
        clips = "1 clip" if row["clips"] == 1 else f"{row['clips']} clips, such as"
        lines.append(f"  warning in {clips} {row['video_path']}: {row['warning']}")
    # one file may have failed under several specs
    lines += dict.fromkeys(f"  failed: {row['video_path']}: {row['reason']}" for row in found["failures"])
    more = found["num_failures"] - len(found["failures"])
    if more > 0:
        lines.append(f"  and {more} more in the table failures")
    if found["num_failures"]:
        lines.append("  `vrldata build … --retry-failed` tries failed files again")
    lines += [
        f"  rejected: {counted(rows, 'row')}, with file, line and reason in {file}"
        for file, rows in found["rejections"].items()
    ]
    if found["num_past_failures"]:
        lines.append(f"  {counted(found['num_past_failures'], 'row')} of failures of no sample any more")
    return "\n".join(lines)


def _table(dataset: Dataset, name: str) -> dict[str, Any]:
    try:
        table = dataset.lance(name)
    except StoreError:
        return {"rows": 0, "version": 0, "bytes": None}
    size = folder_bytes(Path(dataset.table_path(name))) if dataset.is_local else None
    return {"rows": table.count_rows(), "version": table.version, "bytes": size}


def folder_bytes(folder: Path) -> int:
    """Bytes of all files under a folder."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(parent, name)).st_size
            except FileNotFoundError:
                continue  # a writer or a cleanup was faster
    return total


def _payload_bytes(dataset: Dataset) -> int:
    from vrldata.store import total_payload_bytes

    return total_payload_bytes(dataset.lance("frames"))


def _counts(table: Any, column: str) -> dict[str, int]:
    return dict(Counter(table.column(column).to_pylist()).most_common())


def _warnings(frames: Any) -> list[dict[str, Any]]:
    """What decoders had to repair or guess: warnings that differ in their figures only count as one.

    Each with its number of clips, its first clip and the wording there, the most frequent first.
    """
    if "warnings" not in frames.column_names:
        return []
    rows: dict[str, dict[str, Any]] = {}
    paths, listed = (frames.column(name).to_pylist() for name in ("video_path", "warnings"))
    for path, own in zip(paths, listed, strict=True):
        for warning in own or ():
            kind = _FIGURES.sub("#", warning)
            row = rows.setdefault(kind, {"warning": warning, "video_path": path, "clips": 0})
            row["clips"] += 1
    return sorted(rows.values(), key=lambda row: -row["clips"])


def _shown_spec(text: str) -> str:
    """A spec in short: fields that differ from the defaults, and the three of the key always."""
    import dataclasses

    from vrldata.sampling import SamplingSpec

    default = dataclasses.asdict(SamplingSpec())
    try:
        values = {"fps": None, "max_frames": None, "max_pixels": None, **json.loads(text)}
    except (ValueError, TypeError):
        # `verify` lists such rows
        return f"unreadable: {text!r:.60}"
    always = ("fps", "max_frames", "max_pixels")
    return " ".join(
        f"{name}={value}"
        for name, value in values.items()
        if name in always or (name not in ("codec", "start", "end") and value != default.get(name))
    )


def size_text(num_bytes: float) -> str:
    """Bytes with the unit that suits them.

    >>> size_text(812), size_text(5_230_000)
    ('812 B', '5.23 MB')
    """
    size = float(num_bytes)
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} B" if unit == "B" else f"{size:.2f} {unit}"
        size /= 1000
    return f"{size:.2f} TB"

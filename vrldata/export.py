"""Leaving with the data: samples, their clips and best responses in the layouts of other tools.

    jsonl, parquet   the annotation schema that `vrldata build` reads, unknown fields included
    verl             Parquet rows of verl's RL datasets: prompt, images, videos, reward_model, extra_info
    trl              Parquet rows of TRL: a conversational prompt with the columns that reward functions take;
                     with responses a completion, for supervised training; samples without one are left out
    webdataset       tar shards with <key>.json and the decoded frames as <key>.<n>.npy, uint8 (T, H, W, 3)

Media paths are written relative as they are stored, or under `video_root`. A folder holds one export: one
with files of the same kind that would not be replaced is refused, so that nothing is mixed or lost.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrldata.errors import ConfigError, StoreError, nearest
from vrldata.types import Sample, Trajectory

if TYPE_CHECKING:
    import pyarrow as pa

    from vrldata.dataset import Dataset

SUPERVISED = ("trl",)
"""Formats whose rows with responses are for supervised training: a sample without one has no row there."""
FORMATS = ("jsonl", "parquet", "verl", "trl", "webdataset")
ENDINGS: Mapping[str, str] = {"jsonl": ".jsonl", "webdataset": ".tar"}
"""Endings of the files of a split; Parquet for the others."""
DEFAULT_SHARD_BYTES = 1 << 30
SHARD_NUMBER = "-[0-9]{6}"
"""Pattern of what follows the split in the name of a shard."""
SHOWN_FILES = 5
"""Files that a message lists."""

Responses = list[Trajectory] | None
"""The best responses of a sample, best first; None where none are asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """What is exported beside the samples.

    Attributes:
        video_root: folder that media paths are joined to; None leaves them relative.
        family: model family whose prompt templates verl and TRL rows are rendered with.
        shard_bytes: size from which a WebDataset shard is closed.
    """

    video_root: str | None = None
    family: str = "qwen3-vl"
    shard_bytes: int = DEFAULT_SHARD_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportReport:
    """What was written.

    Attributes:
        files: in the order of the splits.
        num_samples: samples over all files.
        num_selected: samples that split, filter and limit select.
        num_with_response: samples over all files that have a response; None where none were asked for.
        skipped: samples that could not be exported, each with its reason.
    """

    files: tuple[str, ...]
    num_samples: int
    num_selected: int
    num_with_response: int | None = None
    skipped: tuple[str, ...] = ()


def export(
    dataset: Dataset,
    out: str | Path,
    output_format: str,
    *,
    split: str | None = None,
    filter: str | None = None,
    limit: int | None = None,
    best: int = 0,
    min_reward: float = 0.0,
    options: ExportOptions | None = None,
) -> ExportReport:
    """Write the selected samples into the folder `out`, a file for each split (shards for WebDataset).

    Args:
        best: also the best-rewarded responses of each sample, at most this many and each text once; 0 for
            none. TRL rows are then of the samples with one alone.
        min_reward: reward from which a response is one of the best.

    Raises:
        ConfigError: unknown format. FilterError: the predicate is wrong. StoreError: `out` cannot be written
            or holds another export, or nothing is selected.
    """
    from vrldata.export_shards import write_shards

    if output_format not in FORMATS:
        raise ConfigError(
            f"format {output_format!r}: choose {', '.join(FORMATS)}.{nearest(output_format, FORMATS)}"
        )
    options = options or ExportOptions()
    samples = list(dataset.iter_samples(split=split, filter=filter, limit=limit))
    if not samples:
        raise StoreError(f"{dataset.uri}: no sample to export" + (f" matches {filter!r}" if filter else ""))
    num_selected = len(samples)
    chosen = _best_responses(dataset, best, min_reward) if best else {}
    if best and output_format in SUPERVISED:
        samples = [one for one in samples if one.sample_id in chosen]
        if not samples:
            raise StoreError(
                f"{dataset.uri}: none of {num_selected} samples has a response with a reward of "
                f"{min_reward:g} or more, so that there is nothing to write as {output_format}"
            )
    responses = {one.sample_id: chosen.get(one.sample_id, []) if best else None for one in samples}
    folder = Path(out).expanduser()
    splits = dict.fromkeys(sample.split or "train" for sample in samples)
    _check_folder(folder, [_file_name(name) for name in splits], output_format)
    files: list[str] = []
    skipped: dict[str, str] = {}
    for name in splits:
        members = [sample for sample in samples if (sample.split or "train") == name]
        if output_format == "webdataset":
            files += write_shards(dataset, members, responses, folder / _file_name(name), options, skipped)
            continue
        make = _ROWS[output_format]
        rows = [row for sample in members for row in make(sample, responses[sample.sample_id], options)]
        path = folder / f"{_file_name(name)}{ENDINGS.get(output_format, '.parquet')}"
        _write_rows(rows, path, output_format)
        files.append(str(path))
    return ExportReport(
        files=tuple(files),
        num_samples=len(samples) - len(skipped),
        num_selected=num_selected,
        num_with_response=sum(bool(responses[name]) for name in responses.keys() - skipped) if best else None,
        skipped=tuple(f"{name}: {reason}" for name, reason in skipped.items()),
    )


def _best_responses(dataset: Dataset, best: int, min_reward: float) -> dict[str, list[Trajectory]]:
    from vrldata.pass_rates import best_of_filter

    found: dict[str, list[Trajectory]] = {}
    for one in dataset.iter_trajectories(filter=best_of_filter(best, min_reward)):
        found.setdefault(one.sample_id, []).append(one)
    for listed in found.values():
        listed.sort(key=lambda one: (-(one.reward or 0.0), one.trajectory_id))
    return found


def annotation_row(sample: Sample, responses: Responses, options: ExportOptions) -> dict[str, Any]:
    """The row of the annotation schema that `vrldata build` reads as this sample."""
    row: dict[str, Any] = {
        # the whole id keeps the ids of a rebuilt dataset; the own one is for other tools
        "sample_id": sample.sample_id,
        "problem_id": sample.sample_id.partition("/")[2] or sample.sample_id,
        "problem": sample.problem,
        "answer": sample.answer,
        "problem_type": sample.problem_type,
        "data_type": sample.data_type,
        "options": list(sample.options),
        "videos": _paths(sample.videos, options),
        "images": _paths(sample.images, options),
        "start": sample.start,
        "end": sample.end,
        "pass_rate": sample.pass_rate,
        "data_source": sample.data_source,
        "split": sample.split,
    }
    row = {name: value for name, value in row.items() if value not in (None, [], "")}
    if responses is not None:
        row["has_offline_trajectory"] = bool(responses)
    if responses:
        row["offline_output"] = [one.response for one in responses]
    # our own columns win over a field of the same name in `extra`
    return {**{name: value for name, value in sample.extra.items() if name not in row}, **row}


def _annotation_rows(
    sample: Sample, responses: Responses, options: ExportOptions
) -> Iterator[dict[str, Any]]:
    yield annotation_row(sample, responses, options)


def _verl_rows(sample: Sample, responses: Responses, options: ExportOptions) -> Iterator[dict[str, Any]]:
    yield {
        "data_source": sample.data_source or sample.problem_type,
        "prompt": [{"role": "user", "content": _with_placeholders(sample, options)}],
        "images": [{"image": path} for path in _paths(sample.images, options)],
        "videos": [{"video": path} for path in _paths(sample.videos, options)],
        "ability": sample.problem_type,
        "reward_model": {"style": "rule", "ground_truth": sample.answer},
        "extra_info": {
            "index": sample.sample_id,
            "split": sample.split,
            "problem": sample.problem,
            "problem_type": sample.problem_type,
            "options": list(sample.options),
            "start": sample.start,
            "end": sample.end,
            "responses": [one.response for one in responses or ()],
            "extra": json.dumps(dict(sample.extra), ensure_ascii=False, sort_keys=True),
        },
    }


def _trl_rows(sample: Sample, responses: Responses, options: ExportOptions) -> Iterator[dict[str, Any]]:
    content = [
        *({"type": "video", "text": None} for _ in sample.videos),
        *({"type": "image", "text": None} for _ in sample.images),
        {"type": "text", "text": _prompt_text(sample, options)},
    ]
    row = {
        "prompt": [{"role": "user", "content": content}],
        "images": _paths(sample.images, options),
        "videos": _paths(sample.videos, options),
        "solution": sample.answer,
        "sample_id": sample.sample_id,
        "problem_type": sample.problem_type,
        "options": list(sample.options),
    }
    if not responses:
        yield row
    for one in responses or ():
        text = [{"type": "text", "text": one.response}]
        yield {**row, "completion": [{"role": "assistant", "content": text}], "reward": one.reward}


_ROWS: Mapping[str, Callable[[Sample, Responses, ExportOptions], Iterator[dict[str, Any]]]] = {
    "jsonl": _annotation_rows,
    "parquet": _annotation_rows,
    "verl": _verl_rows,
    "trl": _trl_rows,
}


def _paths(stored: tuple[str, ...], options: ExportOptions) -> list[str]:
    if options.video_root is None:
        return list(stored)
    return [str(Path(options.video_root) / path) for path in stored]


def _prompt_text(sample: Sample, options: ExportOptions) -> str:
    from vrldata.model_inputs import chat_messages
    from vrldata.tasks import render_prompt

    # without clips the placeholders of media are taken out of the text
    [message] = chat_messages(render_prompt(sample, family=options.family), [])
    return str(message["content"][0]["text"])


def _with_placeholders(sample: Sample, options: ExportOptions) -> str:
    """The prompt with one placeholder a medium in front, as verl counts them."""
    marks = "<video>" * len(sample.videos) + "<image>" * len(sample.images)
    return marks + _prompt_text(sample, options)


def _file_name(split: str) -> str:
    """`split` as a file name: a split is text of the data, and must not leave the folder."""
    name = "".join(char if char.isalnum() or char in "-_." else "_" for char in split).lstrip(".")
    return name[:100] or "split"


def _check_folder(folder: Path, stems: list[str], output_format: str) -> None:
    """Raises StoreError where `folder` holds files of this format that an export of these splits leaves."""
    ending = ENDINGS.get(output_format, ".parquet")
    number = SHARD_NUMBER if output_format == "webdataset" else ""
    own = re.compile(f"(?:{'|'.join(map(re.escape, stems))}){number}{re.escape(ending)}")
    present = sorted(path.name for path in folder.glob(f"[!.]*{ending}")) if folder.is_dir() else []
    others = [name for name in present if not own.fullmatch(name)]
    if others:
        more = f" and {len(others) - SHOWN_FILES} more" if len(others) > SHOWN_FILES else ""
        raise StoreError(
            f"{folder}: holds {', '.join(others[:SHOWN_FILES])}{more}, which this export would not replace:"
            " choose another folder, or delete what is not needed"
        )


def _write_rows(rows: list[dict[str, Any]], path: Path, output_format: str) -> None:
    from vrldata.rows_output import whole_file

    with whole_file(path) as file:
        if output_format == "jsonl":
            for row in rows:
                file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
        else:
            import pyarrow.parquet as pq

            pq.write_table(_table(rows, output_format), file, compression="zstd")


def _table(rows: list[dict[str, Any]], output_format: str) -> pa.Table:
    """Rows as a table; fields of `extra` whose values do not share one Arrow type become JSON text."""
    import pyarrow as pa

    types = _types().get(output_format, {})
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {}
    for name in names:
        values = [row.get(name) for row in rows]
        try:
            columns[name] = pa.array(values, type=types.get(name))
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            columns[name] = pa.array(
                [None if value is None else json.dumps(value, ensure_ascii=False) for value in values],
                type=pa.string(),
            )
    return pa.table(columns)


def _types() -> dict[str, dict[str, Any]]:
    """Types of columns whose values may all be empty, which would leave them without one."""
    import pyarrow as pa

    texts = pa.list_(pa.string())
    return {
        "parquet": {"options": texts, "videos": texts, "images": texts},
        "verl": {
            "images": pa.list_(pa.struct([("image", pa.string())])),
            "videos": pa.list_(pa.struct([("video", pa.string())])),
        },
        "trl": {"images": texts, "videos": texts, "options": texts},
    }

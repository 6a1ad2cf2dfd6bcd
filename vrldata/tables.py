"""The five tables of a dataset: their Arrow schemas, keys and indexes, and records as rows.

Opening tables is the work of `dataset`, writing them of `commits`; pixels are packed by `codecs` and `store`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pyarrow as pa

from vrldata.errors import StoreError, nearest
from vrldata.types import Sample, Trajectory

TABLES = ("samples", "frames", "trajectories", "failures", "releases")
"""Names of the tables, in the order in which they are written and released."""

PRIMARY_KEYS: Mapping[str, str] = {
    "samples": "sample_id",
    "frames": "clip_id",
    "trajectories": "trajectory_id",
    "failures": "clip_id",
    "releases": "name",
}

PAYLOAD_COLUMN = "frames"
"""Column of the `frames` table that holds the pixels."""

DEDICATED_BYTES = 1 << 20
"""Payloads from this size lie in a file of their own, which readers map without a copy."""

STORAGE_VERSION = "2.2"
"""Lance file version: the first with blob columns of the kind used here."""

TIMESTAMP = pa.timestamp("us", tz="UTC")

_KEY_METADATA = {"lance-schema:unenforced-primary-key": "true"}


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSpec:
    """One scalar index: column, Lance index type, and further arguments."""

    column: str
    index_type: str
    options: Mapping[str, Any]


_TEXT_OPTIONS: Mapping[str, Any] = {"with_position": True, "base_tokenizer": "icu/split"}
"""Of full-text indexes: phrases can be searched, and words of scripts without spaces are found."""

INDEXES: Mapping[str, tuple[IndexSpec, ...]] = {
    "samples": (
        IndexSpec(column="sample_id", index_type="BTREE", options={}),
        IndexSpec(column="problem_type", index_type="BITMAP", options={}),
        IndexSpec(column="split", index_type="BITMAP", options={}),
        IndexSpec(column="problem", index_type="INVERTED", options=_TEXT_OPTIONS),
    ),
    "frames": (IndexSpec(column="clip_id", index_type="BTREE", options={}),),
    "trajectories": (
        IndexSpec(column="trajectory_id", index_type="BTREE", options={}),
        IndexSpec(column="sample_id", index_type="BTREE", options={}),
        IndexSpec(column="reward", index_type="BTREE", options={}),
        IndexSpec(column="run_id", index_type="BITMAP", options={}),
        IndexSpec(column="step", index_type="BTREE", options={}),
        IndexSpec(column="source", index_type="BITMAP", options={}),
        IndexSpec(column="response", index_type="INVERTED", options=_TEXT_OPTIONS),
    ),
    "failures": (),
    "releases": (),
}
"""Indexes by table. JSON columns have none: Lance cannot index them beside stable row ids."""


def _key(name: str) -> pa.Field:
    return pa.field(name, pa.string(), nullable=False, metadata=_KEY_METADATA)


def _strings(*names: str) -> list[pa.Field]:
    return [pa.field(name, pa.string()) for name in names]


@cache
def schema(table: str) -> pa.Schema:
    """Arrow schema of a table. Columns `spec`, `extra` and `replaced` hold JSON text.

    Raises:
        StoreError: no such table; the message suggests the nearest name.
    """
    makers = {
        "samples": _samples,
        "frames": _frames,
        "trajectories": _trajectories,
        "failures": _failures,
        "releases": _releases,
    }
    if table not in makers:
        raise StoreError(f"no table {table!r}.{nearest(table, TABLES)} Tables: {', '.join(TABLES)}.")
    return pa.schema(makers[table]())


def _samples() -> list[pa.Field]:
    return [
        _key("sample_id"),
        *_strings("split", "problem", "answer", "problem_type", "data_type"),
        pa.field("options", pa.list_(pa.string())),
        pa.field("videos", pa.list_(pa.string())),
        pa.field("images", pa.list_(pa.string())),
        pa.field("start", pa.float64()),
        pa.field("end", pa.float64()),
        pa.field("clip_ids", pa.list_(pa.string())),
        pa.field("pass_rate", pa.float32()),
        *_strings("data_source", "extra"),
    ]


def _frames() -> list[pa.Field]:
    import lance

    return [
        _key("clip_id"),
        pa.field("video_path", pa.string()),
        pa.field("fps", pa.float64()),
        pa.field("max_frames", pa.int32()),
        pa.field("max_pixels", pa.int64()),
        *_strings("spec", "kind"),
        pa.field("num_frames", pa.int32()),
        pa.field("height", pa.int32()),
        pa.field("width", pa.int32()),
        pa.field("codec", pa.string()),
        lance.blob_field(PAYLOAD_COLUMN, dedicated_size_threshold=DEDICATED_BYTES),
        pa.field("frame_indices", pa.list_(pa.int32())),
        pa.field("timestamps", pa.list_(pa.float64())),
        pa.field("source_fps", pa.float64()),
        pa.field("source_num_frames", pa.int64()),
        pa.field("source_duration", pa.float64()),
        pa.field("source_width", pa.int32()),
        pa.field("source_height", pa.int32()),
        pa.field("source_bytes", pa.int64()),
        pa.field("source_mtime_ns", pa.int64()),
        pa.field("source_digest", pa.string()),
        pa.field("sampled_fps", pa.float64()),
        *_strings("preprocess_version", "sha256", "decoder"),
        pa.field("created_at", TIMESTAMP),
        # what the decoder had to repair or guess; null where there is nothing to say
        pa.field("warnings", pa.list_(pa.string())),
    ]


def _trajectories() -> list[pa.Field]:
    return [
        _key("trajectory_id"),
        *_strings("sample_id", "response", "source", "model", "run_id"),
        pa.field("step", pa.int64()),
        pa.field("policy_version", pa.int64()),
        pa.field("rewards", pa.map_(pa.string(), pa.float32())),
        pa.field("reward", pa.float32()),
        pa.field("correct", pa.bool_()),
        pa.field("status", pa.string()),
        pa.field("num_tokens", pa.int32()),
        pa.field("finish_reason", pa.string()),
        pa.field("token_ids", pa.list_(pa.int32())),
        pa.field("log_probs", pa.list_(pa.float32())),
        pa.field("created_at", TIMESTAMP),
        pa.field("extra", pa.string()),
    ]


def _failures() -> list[pa.Field]:
    return [
        _key("clip_id"),
        *_strings("video_path", "spec", "kind", "reason"),
        pa.field("source_bytes", pa.int64()),
        pa.field("source_mtime_ns", pa.int64()),
        pa.field("source_digest", pa.string()),
        pa.field("attempts", pa.int32()),
        pa.field("created_at", TIMESTAMP),
    ]


def _releases() -> list[pa.Field]:
    return [
        _key("name"),
        pa.field("message", pa.string()),
        pa.field("created_at", TIMESTAMP),
        pa.field("vrl_version", pa.string()),
        pa.field("versions", pa.map_(pa.string(), pa.int64())),
        pa.field("counts", pa.map_(pa.string(), pa.int64())),
        *_strings("digest", "parent", "replaced"),
    ]


def rows_to_table(table: str, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Rows as an Arrow table with the schema of `table`; absent columns become null.

    Raises:
        StoreError: a value does not fit its column; names the column.
    """
    arrays = []
    for field in schema(table):
        values = [row.get(field.name) for row in rows]
        try:
            arrays.append(pa.array(values, type=field.type))
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeError) as error:
            raise StoreError(f"table {table!r}, column {field.name!r}: {error}") from error
    return pa.Table.from_arrays(arrays, schema=schema(table))


def now() -> datetime:
    """The present moment in UTC, the value of `created_at` columns."""
    return datetime.now(UTC)


def to_json(values: Mapping[str, Any]) -> str:
    """JSON text of a JSON column: sorted keys, no spaces, so that equal content is equal text."""
    return json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)


def sample_to_row(sample: Sample) -> dict[str, Any]:
    """The row of a sample in the `samples` table."""
    return {
        "sample_id": sample.sample_id,
        "split": sample.split,
        "problem": sample.problem,
        "answer": sample.answer,
        "problem_type": sample.problem_type,
        "data_type": sample.data_type,
        "options": list(sample.options),
        "videos": list(sample.videos),
        "images": list(sample.images),
        "start": sample.start,
        "end": sample.end,
        "clip_ids": list(sample.clip_ids),
        "pass_rate": sample.pass_rate,
        "data_source": sample.data_source,
        "extra": to_json(sample.extra),
    }


def row_to_sample(row: Mapping[str, Any]) -> Sample:
    """The sample of a row of the `samples` table."""
    return Sample(
        sample_id=row["sample_id"],
        split=row["split"] or "",
        problem=row["problem"] or "",
        answer=row["answer"] or "",
        problem_type=row["problem_type"] or "",
        data_type=row["data_type"] or "text",
        options=tuple(row["options"] or ()),
        videos=tuple(row["videos"] or ()),
        images=tuple(row["images"] or ()),
        start=row["start"],
        end=row["end"],
        clip_ids=tuple(row["clip_ids"] or ()),
        pass_rate=row["pass_rate"],
        data_source=row["data_source"] or "",
        extra=json.loads(row["extra"] or "{}"),
    )


def trajectory_to_row(trajectory: Trajectory, *, created_at: datetime | None = None) -> dict[str, Any]:
    """The row of a trajectory in the `trajectories` table; `created_at` defaults to the present moment."""
    return {
        "trajectory_id": trajectory.trajectory_id,
        "sample_id": trajectory.sample_id,
        "response": trajectory.response,
        "source": trajectory.source,
        "model": trajectory.model,
        "run_id": trajectory.run_id,
        "step": trajectory.step,
        "policy_version": trajectory.policy_version,
        "rewards": list(trajectory.rewards.items()),
        "reward": trajectory.reward,
        "correct": trajectory.correct,
        "status": trajectory.status,
        "num_tokens": trajectory.num_tokens,
        "finish_reason": trajectory.finish_reason,
        "token_ids": None if trajectory.token_ids is None else list(trajectory.token_ids),
        "log_probs": None if trajectory.log_probs is None else list(trajectory.log_probs),
        "created_at": created_at or now(),
        "extra": to_json(trajectory.extra),
    }


def row_to_trajectory(row: Mapping[str, Any]) -> Trajectory:
    """The trajectory of a row of the `trajectories` table."""
    token_ids, log_probs = row["token_ids"], row["log_probs"]
    return Trajectory(
        trajectory_id=row["trajectory_id"],
        sample_id=row["sample_id"] or "",
        response=row["response"] or "",
        source=row["source"] or "",
        model=row["model"] or "",
        run_id=row["run_id"] or "",
        step=row["step"] or 0,
        policy_version=row["policy_version"] or 0,
        rewards=dict(row["rewards"] or ()),
        reward=row["reward"],
        correct=row["correct"],
        status=row["status"] or "",
        num_tokens=row["num_tokens"] or 0,
        finish_reason=row["finish_reason"] or "",
        token_ids=None if token_ids is None else tuple(token_ids),
        log_probs=None if log_probs is None else tuple(log_probs),
        extra=json.loads(row["extra"] or "{}"),
    )


def trajectory_id(
    *, sample_id: str, source: str, response: str, run_id: str = "", step: int = 0, index: int = 0
) -> str:
    """Hex sha256 of what tells one response from another; `index` is its place in its group.

    >>> len(trajectory_id(sample_id="a", source="offline", response="B"))
    64
    """
    parts = [sample_id, source, run_id, step, index, response]
    return hashlib.sha256(json.dumps(parts, ensure_ascii=False).encode("utf-8", "surrogatepass")).hexdigest()


def with_trajectory_ids(trajectories: Iterable[Trajectory]) -> list[Trajectory]:
    """The trajectories, those without an id given one by their place in their group, the first of an id kept.

    A group is what shares `sample_id`, `source`, `run_id` and `step`; the order given is the order in it.
    """
    import dataclasses

    places: dict[tuple[str, str, str, int], int] = {}
    kept: dict[str, Trajectory] = {}
    for trajectory in trajectories:
        group = (trajectory.sample_id, trajectory.source, trajectory.run_id, trajectory.step)
        index = places.get(group, 0)
        places[group] = index + 1
        if not trajectory.trajectory_id:
            given = trajectory_id(
                sample_id=trajectory.sample_id,
                source=trajectory.source,
                run_id=trajectory.run_id,
                step=trajectory.step,
                index=index,
                response=trajectory.response,
            )
            trajectory = dataclasses.replace(trajectory, trajectory_id=given)
        kept.setdefault(trajectory.trajectory_id, trajectory)
    return list(kept.values())

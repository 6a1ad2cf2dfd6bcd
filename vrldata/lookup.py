"""Which row of `frames` holds a video: by its own key, or by its content under another path.

The same content under two paths is stored once; the `samples` table knows under which row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vrldata.commits import sql_text
from vrldata.errors import MissingClip, nearest
from vrldata.sampling import SamplingSpec, normalise_video_path
from vrldata.types import spec_text

if TYPE_CHECKING:
    from vrldata.dataset import Dataset
    from vrldata.types import Sample


SHOWN_SPECS = 5
"""Stored specs that a message lists."""
SHOWN_IDS = 3
"""Samples that a message suggests."""


def resolve_clip_id(dataset: Dataset, video_path: str, spec: SamplingSpec) -> str:
    """`clip_id` of the row that holds the frames of `video_path` under `spec`.

    Raises:
        MissingClip: there is none; the message says what there is for this path.
    """
    path = normalise_video_path(video_path)
    own = spec.clip_id(path)
    store = dataset.frame_store()
    if own in store:
        return own
    found = store.aliases.get(own) or _by_content(dataset, path, spec)
    if found is None:
        raise MissingClip(_why_missing(dataset, path, spec, own))
    store.aliases[own] = found
    return found


def missing_media(dataset: Dataset, sample: Sample) -> str:
    """Why a sample has no clips, in one line: the failures of its media."""
    media = [normalise_video_path(path) for path in (*sample.videos, *sample.images)]
    why = _failures(dataset, media) or "run `vrldata build` over it"
    return f"{dataset.uri}: sample {sample.sample_id!r} has {len(media)} media but no clips for all: {why}"


def _failures(dataset: Dataset, media: Sequence[str]) -> str:
    """Why media could not be decoded, in the decoder's words, each reason once; empty where none failed."""
    listed = ", ".join(map(sql_text, media))
    rows = dataset.lance("failures").to_table(filter=f"video_path IN ({listed})", columns=["reason"])
    return "; ".join(dict.fromkeys(rows.column("reason").to_pylist()))


def nearest_sample(dataset: Dataset, sample_id: str) -> str:
    """A hint for an id that no sample has: the ids that end so behind their file's name, or the nearest."""
    known = dataset.lance("samples").to_table(columns=["sample_id"]).column(0).to_pylist()
    whole = [one for one in known if one.endswith(f"/{sample_id}")]
    if len(whole) > 1:
        more = f" and {len(whole) - SHOWN_IDS} more" if len(whole) > SHOWN_IDS else ""
        return f" Did you mean one of {', '.join(map(repr, whole[:SHOWN_IDS]))}{more}?"
    return nearest(sample_id, whole or known, cutoff=0.0 if whole else 0.6)


def _by_content(dataset: Dataset, path: str, spec: SamplingSpec) -> str | None:
    """Row of another path with the same content and spec, found through the samples that name `path`."""
    quoted = sql_text(path)
    samples = dataset.lance("samples").to_table(
        filter=f"array_has(videos, {quoted}) OR array_has(images, {quoted})",
        columns=["videos", "images", "clip_ids"],
    )
    store, wanted = dataset.frame_store(), spec.key_json()
    for row in samples.to_pylist():
        media = [*(row["videos"] or ()), *(row["images"] or ())]
        for name, clip_id in zip(media, row["clip_ids"] or (), strict=False):
            if name != path or clip_id not in store:
                continue
            digest = store.row(clip_id)["source_digest"]
            if not digest:
                continue
            same = dataset.lance("frames").to_table(
                filter=f"source_digest = {sql_text(digest)}", columns=["clip_id", "spec"]
            )
            for candidate in same.to_pylist():
                if SamplingSpec.from_json(candidate["spec"]).key_json() == wanted:
                    return str(candidate["clip_id"])
    return None


def _why_missing(dataset: Dataset, path: str, spec: SamplingSpec, clip_id: str) -> str:
    start = f"{dataset.uri}: no frames of {path!r} for this sampling spec"
    failed = dataset.lance("failures").to_table(filter=f"clip_id = {sql_text(clip_id)}", columns=["reason"])
    if failed.num_rows:
        return f"{start}: it could not be decoded: {failed.column('reason')[0].as_py()}"
    others = _stored_specs(dataset, path)
    if not others:
        why = _failures(dataset, [path]) or "run `vrldata build` over it, or check the path"
        return f"{start}, and none for any other: {why}"
    return f"{start}, {spec_text(spec)}; stored are: {_listed(others)}"


def only_spec(dataset: Dataset, video_path: str) -> SamplingSpec:
    """The sampling spec of `video_path` where frames of it are stored under one alone.

    Raises:
        MissingClip: there are none, or several; the message lists them.
    """
    path = normalise_video_path(video_path)
    specs = _stored_specs(dataset, path)
    if not specs:
        why = _failures(dataset, [path]) or "run `vrldata build` over it, or check the path"
        raise MissingClip(f"{dataset.uri}: no frames of {path!r}: {why}")
    if len(specs) > 1:
        raise MissingClip(
            f"{dataset.uri}: frames of {path!r} are stored under {len(specs)} sampling specs, name one: "
            f"{_listed(specs)}"
        )
    return specs[0]


def _listed(specs: Sequence[SamplingSpec]) -> str:
    more = f" | and {len(specs) - SHOWN_SPECS} more" if len(specs) > SHOWN_SPECS else ""
    return " | ".join(map(spec_text, specs[:SHOWN_SPECS])) + more


def _stored_specs(dataset: Dataset, path: str) -> list[SamplingSpec]:
    """The sampling specs under which frames of `path` are stored, by this path or by that of a copy."""
    quoted = sql_text(path)
    samples = dataset.lance("samples").to_table(
        filter=f"array_has(videos, {quoted}) OR array_has(images, {quoted})",
        columns=["videos", "images", "clip_ids"],
    )
    clip_ids = {
        clip_id
        for row in samples.to_pylist()
        for name, clip_id in zip(
            [*(row["videos"] or ()), *(row["images"] or ())], row["clip_ids"] or (), strict=False
        )
        if name == path
    }
    wanted = f"video_path = {quoted}"
    if clip_ids:
        wanted += f" OR clip_id IN ({', '.join(map(sql_text, sorted(clip_ids)))})"
    rows = dataset.lance("frames").to_table(filter=wanted, columns=["spec"])
    specs = [SamplingSpec.from_json(text) for text in rows.column("spec").to_pylist()]
    return list({spec.key_json(): spec for spec in specs}.values())

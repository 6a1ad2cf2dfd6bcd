"""Previews of a dataset: which samples are shown with which frames, and the PNG and HTML files of them.

Drawing is the work of `contact_sheet`; the page lies in `templates/gallery.html.jinja`.
"""

from __future__ import annotations

import base64
import dataclasses
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrldata.counts import counted
from vrldata.errors import MissingClip, StoreError
from vrldata.types import Clip, Sample, Trajectory

if TYPE_CHECKING:
    from vrldata.contact_sheet import SheetItem
    from vrldata.dataset import Dataset

FRAMES_SHOWN = 8
TRAJECTORIES_SHOWN = 4
SAMPLES_ON_A_SHEET = 6
SAMPLES_IN_A_GALLERY = 200
GALLERY_FRAME_WIDTH = 320
MOST_PNG_HEIGHT = 60_000
"""Pixels; beyond it many programs cannot show a picture."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PreviewReport:
    """Files written, and what they show.

    Attributes:
        num_samples: shown in the page, or in the picture where there is no page.
        num_selected: samples that the URI and the filter select; 1 for one clip or sample.
        shown: samples by file.
    """

    num_samples: int
    num_selected: int = 0
    shown: Mapping[str, int] = dataclasses.field(default_factory=dict)
    png: Path | None = None
    html: Path | None = None


def preview(
    dataset: Dataset,
    *,
    sample_id: str | None = None,
    clip_id: str | None = None,
    filter: str | None = None,
    limit: int | None = None,
    png: str | Path | None = None,
    html: str | Path | None = None,
    num_frames: int = FRAMES_SHOWN,
) -> PreviewReport:
    """Write a contact sheet and/or a gallery page of one sample, one clip, or the samples of a filter.

    Args:
        limit: most samples; by default 6 on a sheet and 200 in a gallery.
        num_frames: frames of a video that are shown, evenly spaced and at the moments that the answer names.

    Raises:
        FilterError: the predicate is wrong. MissingClip, StoreError: no such clip or sample, nothing to show.
    """
    if png is None and html is None:
        raise StoreError("preview: name a file to write, with png= or html= (--png or --html)")
    shown: dict[str, int] = {}
    paths: dict[str, Path] = {}
    for kind, target, most in (("png", png, SAMPLES_ON_A_SHEET), ("html", html, SAMPLES_IN_A_GALLERY)):
        if target is None:
            continue
        items = sheet_items(
            dataset,
            sample_id=sample_id,
            clip_id=clip_id,
            filter=filter,
            limit=most if limit is None else limit,
            num_frames=num_frames,
        )
        path = paths[kind] = Path(target).expanduser()
        if kind == "png":
            _write_png(items, path)
        else:
            _write_html(items, path, title=str(dataset.uri))
        shown[str(path)] = len(items)
    one = sample_id is not None or clip_id is not None
    return PreviewReport(
        num_samples=len(items),
        num_selected=1 if one else _num_selected(dataset, filter),
        shown=shown,
        **paths,
    )


def _num_selected(dataset: Dataset, filter: str | None) -> int:
    from vrldata.selection import select

    return select(dataset, "samples", filter=filter, columns=["sample_id"]).num_rows


def sheet_items(
    dataset: Dataset,
    *,
    sample_id: str | None = None,
    clip_id: str | None = None,
    filter: str | None = None,
    limit: int = SAMPLES_ON_A_SHEET,
    num_frames: int = FRAMES_SHOWN,
) -> list[SheetItem]:
    """What a sheet or a page shows; arguments as in `preview`."""
    from vrldata.contact_sheet import SheetItem

    if clip_id is not None:
        clip = dataset.clip_by_id(clip_id, indices=_shown(dataset, clip_id, num_frames, ()))
        return [SheetItem(sample=None, clips=[clip])]
    if sample_id is not None:
        samples = [dataset.sample(sample_id)]
    else:
        samples = list(dataset.iter_samples(filter=filter, limit=limit))
    if not samples:
        raise StoreError(f"{dataset.uri}: no sample to show" + (f" matches {filter!r}" if filter else ""))
    sample_ids = [sample.sample_id for sample in samples]
    trajectories, outcomes = _trajectories(dataset, sample_ids), _outcomes(dataset, sample_ids)
    return [
        dataclasses.replace(
            _item(dataset, sample, num_frames),
            trajectories=trajectories.get(sample.sample_id, []),
            **outcomes.get(sample.sample_id, {}),
        )
        for sample in samples
    ]


def _item(dataset: Dataset, sample: Sample, num_frames: int) -> SheetItem:
    from vrldata.contact_sheet import SheetItem

    try:
        return SheetItem(sample=sample, clips=_clips(dataset, sample, num_frames))
    except (MissingClip, StoreError) as error:
        return SheetItem(sample=sample, clips=(), trouble=str(error))


def _clips(dataset: Dataset, sample: Sample, num_frames: int) -> list[Clip]:
    from vrldata.answer_marks import answer_marks
    from vrldata.lookup import missing_media

    media = [*sample.videos, *sample.images]
    if len(media) != len(sample.clip_ids):
        raise MissingClip(missing_media(dataset, sample))
    # only moments are asked for here, which do not depend on the size of the picture
    times = answer_marks(sample, width=1, height=1).times
    return [
        dataclasses.replace(
            dataset.clip_by_id(clip_id, indices=_shown(dataset, clip_id, num_frames, times)), video_path=path
        )
        for clip_id, path in zip(sample.clip_ids, media, strict=True)
    ]


def _shown(dataset: Dataset, clip_id: str, num_frames: int, times: Sequence[float]) -> list[int]:
    """Positions in the stored clip: the frames nearest to `times`, filled up with evenly spaced ones."""
    row = dataset.frame_store().row(clip_id)
    total = row["num_frames"]
    wanted = min(max(num_frames, 1), total)
    stamps = [float(stamp) for stamp in row["timestamps"]]
    nearest = {min(range(total), key=lambda place: abs(stamps[place] - time)) for time in times}
    if len(nearest) > wanted:
        listed = sorted(nearest)
        nearest = {listed[round(step * (len(listed) - 1) / max(wanted - 1, 1))] for step in range(wanted)}
    even = [round(step * (total - 1) / max(wanted - 1, 1)) for step in range(wanted)]
    for place in even:
        if len(nearest) < wanted:
            nearest.add(place)
    return sorted(nearest)


def _trajectories(dataset: Dataset, sample_ids: Sequence[str]) -> dict[str, list[Trajectory]]:
    """The best-rewarded trajectories of each sample, best first; those without a reward last."""
    from vrldata.commits import sql_text
    from vrldata.tables import row_to_trajectory

    listed = ", ".join(sql_text(sample_id) for sample_id in sample_ids)
    rows = dataset.sql(
        "SELECT * EXCLUDE (place) FROM (SELECT *, row_number() OVER (PARTITION BY sample_id "  # noqa: S608
        f"ORDER BY reward DESC NULLS LAST, trajectory_id) AS place FROM trajectories "
        f"WHERE sample_id IN ({listed})) WHERE place <= {TRAJECTORIES_SHOWN} ORDER BY sample_id, place"
    )
    found: dict[str, list[Trajectory]] = {}
    for row in rows.to_pylist():
        found.setdefault(row["sample_id"], []).append(row_to_trajectory(row))
    return found


def _outcomes(dataset: Dataset, sample_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Numbers of responses, scored and correct ones of each sample."""
    from vrldata.commits import sql_text

    listed = ", ".join(sql_text(sample_id) for sample_id in sample_ids)
    rows = dataset.sql(
        "SELECT sample_id, count(*) AS num_responses, count(correct) AS num_scored, "  # noqa: S608
        "count(*) FILTER (correct) AS num_correct FROM trajectories "
        f"WHERE sample_id IN ({listed}) GROUP BY sample_id"
    )
    return {row.pop("sample_id"): row for row in rows.to_pylist()}


def _write_png(items: Sequence[SheetItem], path: Path) -> None:
    from vrldata.contact_sheet import contact_sheet
    from vrldata.rows_output import whole_file

    picture = contact_sheet(items)
    if picture.height > MOST_PNG_HEIGHT:
        raise StoreError(
            f"{path}: a picture of {counted(len(items), 'sample')} would be {picture.height} pixels high; "
            "lower --limit"
        )
    with whole_file(path) as file:
        picture.save(file, format="PNG", optimize=True)


def _write_html(items: Sequence[SheetItem], path: Path, *, title: str) -> None:
    import jinja2

    from vrldata.rows_output import whole_file

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("vrldata", "templates"), autoescape=True, undefined=jinja2.StrictUndefined
    )
    page = environment.get_template("gallery.html.jinja").render(
        title=title, cards=[_card(item) for item in items]
    )
    with whole_file(path) as file:
        file.write(page.encode("utf-8", "replace"))


def _card(item: SheetItem) -> dict[str, Any]:
    """One sample as the template takes it."""
    from vrldata.contact_sheet import marks_of, responses_facts, shown_options, trajectory_facts

    marks = marks_of(item)
    return {
        "sample": item.sample,
        "options": shown_options(item.sample.options) if item.sample else [],
        "trouble": item.trouble,
        "spans": marks.spans,
        "clips": [_clip_card(clip, marks) for clip in item.clips],
        "trajectories": [
            {"facts": trajectory_facts(one), "response": one.response, "correct": one.correct}
            for one in item.trajectories
        ],
        "verdict": item.verdict,
        "responses": responses_facts(item),
    }


def _clip_card(clip: Clip, marks: Any) -> dict[str, Any]:
    from vrldata.contact_sheet import box_note, marked_frame

    stamps = [float(stamp) for stamp in clip.metadata.timestamps]
    width = min(GALLERY_FRAME_WIDTH, max(clip.metadata.width, GALLERY_FRAME_WIDTH // 2))
    size = (width, max(1, round(clip.metadata.height * width / clip.metadata.width)))
    return {
        "clip": clip,
        "frames": [
            {
                "picture": _data_url(marked_frame(clip, index, marks, size)),
                "time": stamps[index],
                "note": box_note(clip, index, marks),
                "index": int(clip.metadata.frame_indices[index]),
                "inside": any(start <= stamps[index] <= end for start, end in marks.spans),
            }
            for index in range(len(clip.frames))
        ],
    }


def _data_url(picture: Any) -> str:
    data = io.BytesIO()
    picture.save(data, format="JPEG", quality=85)
    return "data:image/jpeg;base64," + base64.b64encode(data.getvalue()).decode()

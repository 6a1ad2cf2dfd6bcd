"""One annotation row to one `Sample`, with the offline response that it may carry.

Field by field; a fault names the field as the row spells it. Ids, duplicates and what depends on the other
rows of a file are the work of `annotations`.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from vrldata.annotation_answers import (
    clock,
    last_second,
    option_letters_notice,
    plain_number,
    read_answer,
    read_options,
)
from vrldata.annotation_faults import RowFault
from vrldata.annotation_fields import (
    Columns,
    FieldNames,
    is_nan,
    missing_name,
    missing_text,
    not_nan,
    pick,
)
from vrldata.annotation_media import MediaRoot, data_type_of, existing, media_paths
from vrldata.annotation_offline import Offline, read_offline
from vrldata.errors import TaskError
from vrldata.tasks.registry import ORIGINAL_TYPE, is_known, normalise_type, resolved_type, unknown_text
from vrldata.types import Sample

LONG_PROBLEM_CHARS = 65_536
MAX_ID_CHARS = 1024

SKIPPED = "skipped_problem_type"
"""Reason of a rejection that the user asked for, by `on_unknown_type: skip`."""

_CONTENT_DIGEST = re.compile(r"[0-9a-f]{32}(-[0-9a-f]{8}(-\d+)?)?")
_IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff", ".gif", ".avif")

Tell = Callable[[str, str, str | None], None]
"""Takes the reason, the text and the field of something worth telling about a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSettings:
    """What all rows of a file share."""

    names: FieldNames
    root: MediaRoot
    default_split: str
    check_media: bool
    on_unknown_type: str
    unknown_types: set[str]
    """Spellings that were read as `open_ended` so far."""


def read_sample(row: Mapping[str, Any], settings: RowSettings, tell: Tell) -> tuple[Sample, Offline]:
    """The sample of a row, with the row's own id (empty without one), and its offline responses.

    Raises:
        RowFault: the row cannot be used.
    """
    columns = settings.names.columns(row)
    problem = _problem(row, columns)
    problem_type, spelling, original = _problem_type(row, columns, settings, tell)
    videos, images, data_type = _media(row, columns, settings)
    options_field, options_value = pick(row, columns, "options")
    options = read_options(not_nan(options_value), options_field, required=problem_type == "multiple_choice")
    answer_field, answer_value = pick(row, columns, "answer")
    if answer_field is None:
        raise _missing("answer", row, columns)
    answer = read_answer(answer_value, answer_field, problem_type, spelling, options)
    if problem_type == "multiple_choice" and (text := option_letters_notice(options)):
        tell("option_letters", text, options_field)
    _check_placeholders(problem, videos, images, tell)
    start, end = _window(row, columns)
    sample = Sample(
        sample_id=_own_id(row, columns),
        problem=problem,
        answer=answer,
        problem_type=problem_type,
        split=_text(row, columns, "split") or settings.default_split,
        data_type=data_type,
        options=options,
        videos=videos,
        images=images,
        start=start,
        end=end,
        pass_rate=_pass_rate(row, columns),
        data_source=_text(row, columns, "data_source"),
        extra={**_extra(row, columns), **original},
    )
    if settings.check_media:
        _check_media(sample, row, columns, settings, answer_field)
    return sample, read_offline(row, columns)


def _missing(field: str, row: Mapping[str, Any], columns: Columns) -> RowFault:
    if field == "problem" and ("messages" in row or "conversations" in row):
        text = "missing: the row is in the messages format, which is not supported; write problem and answer"
    else:
        text = missing_text(field, columns, row, what="fields")
    return RowFault("missing_field", text[:500], field=missing_name(field, columns), named=field)


def _problem(row: Mapping[str, Any], columns: Columns) -> str:
    field, value = pick(row, columns, "problem")
    if field is None:
        raise _missing("problem", row, columns)
    if value is None or is_nan(value):
        raise RowFault("missing_field", "null: the question is missing", field=field)
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = plain_number(value)
    if not isinstance(value, str):
        raise RowFault("bad_problem", "expected the question as one text", field=field, value=value)
    if not value.strip():
        raise RowFault("missing_field", "empty: the question is missing", field=field)
    return value


def _problem_type(
    row: Mapping[str, Any], columns: Columns, settings: RowSettings, tell: Tell
) -> tuple[str, str, dict[str, str]]:
    """(canonical type, its spelling, what `extra` keeps of an unknown one)."""
    name, value = pick(row, columns, "problem_type")
    if name is None:
        raise _missing("problem_type", row, columns)
    if not isinstance(value, str) or not value.strip():
        state = "null: " if value is None or is_nan(value) else "empty: " if isinstance(value, str) else ""
        text = f"{state}expected the name of a problem type"
        raise RowFault("unknown_problem_type", text, field=name, value=value)
    try:
        canonical = resolved_type(value, settings.on_unknown_type)
    except TaskError as error:
        text = f"{error} Or choose on_unknown_type: open_ended or skip"
        raise RowFault("unknown_problem_type", text, field=name, show=False, value=value) from error
    if canonical is None:
        text = f"{unknown_text(value)} The row is left out, as on_unknown_type: skip says"
        raise RowFault(SKIPPED, text, field=name, show=False, value=value)
    if not is_known(value):
        tell("unknown_problem_type", f"{unknown_text(value)} Read as {canonical}", name)
        settings.unknown_types.add(value)
        return canonical, normalise_type(canonical), {ORIGINAL_TYPE: value}
    # case, hyphens, underscores and accepted names are a matter of taste; stray blanks are told
    if value != value.strip():
        tell("problem_type_spelling", f"{value!r} is read as {canonical}", name)
    return canonical, normalise_type(value), {}


def _media(
    row: Mapping[str, Any], columns: Columns, settings: RowSettings
) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    video_field, video_value = pick(row, columns, "videos")
    image_field, image_value = pick(row, columns, "images")
    type_field, type_value = pick(row, columns, "data_type")
    type_value = not_nan(type_value)
    videos = media_paths(not_nan(video_value), video_field or "videos", settings.root)
    images = media_paths(not_nan(image_value), image_field or "images", settings.root)
    if videos and not images and video_field is not None and video_field.casefold() == "path":
        # `path` holds either kind: the data type decides, else the file's ending
        named = str(type_value or "").strip().casefold()
        if named.startswith("image") or (not named and videos[0].lower().endswith(_IMAGE_ENDINGS)):
            videos, images = (), videos
    data_type = data_type_of(type_value, type_field, bool(videos), bool(images))
    if data_type == "video" and not videos:
        raise _no_media("videos", row, columns, video_value)
    if data_type == "image" and not images:
        raise _no_media("images", row, columns, image_value)
    return videos, images, data_type


def _no_media(field: str, row: Mapping[str, Any], columns: Columns, value: Any) -> RowFault:
    kind, key = field[:-1], pick(row, columns, field)[0]
    if key is None:
        fault = _missing(field, row, columns)
        return RowFault("no_media", f"{fault.text} (data_type is {kind!r})", field=field)
    state = "null" if value is None or is_nan(value) else "empty"
    return RowFault("no_media", f"{state}, but data_type is {kind!r}", field=key)


def _check_media(
    sample: Sample, row: Mapping[str, Any], columns: Columns, settings: RowSettings, answer_field: str
) -> None:
    for field, paths in (("videos", sample.videos), ("images", sample.images)):
        name = pick(row, columns, field)[0] or pick(row, columns, "videos")[0] or field
        files = [existing(path, name, settings.root) for path in paths]
        if field == "videos" and files and sample.problem_type == "temporal_grounding":
            _check_duration(sample, files[0], answer_field)


def _check_duration(sample: Sample, file: Path, answer_field: str) -> None:
    from vrldata.errors import DecodeError
    from vrldata.video_stream import open_video

    try:
        with open_video(file) as container:
            seconds = float(container.duration or 0) / 1e6
    except DecodeError:
        return  # whoever decodes the file reports it
    last = last_second(sample.answer)
    # headers round: a second more is no fault
    if seconds > 0 and last is not None and last > seconds + 1:
        raise RowFault(
            "bad_answer",
            f"{last:g} s lies past the end of the video, whose duration is {seconds:.2f} s",
            field=answer_field,
            value=sample.answer,
        )


def _check_placeholders(problem: str, videos: tuple[str, ...], images: tuple[str, ...], tell: Tell) -> None:
    if len(problem) > LONG_PROBLEM_CHARS:
        tell(
            "long_problem",
            f"the question has {len(problem):,} characters, more than most models read",
            "problem",
        )
    if "<" not in problem:
        return
    for mark, paths, name in (("<video>", videos, "videos"), ("<image>", images, "images")):
        found = problem.count(mark)
        if found and found != len(paths):
            tell("placeholders", f"{found} {mark} marks in the question, but {len(paths)} {name}", "problem")


def _window(row: Mapping[str, Any], columns: Columns) -> tuple[float | None, float | None]:
    times: list[float | None] = []
    for name in ("start", "end"):
        field, value = pick(row, columns, name)
        value = not_nan(value)
        if value is None or value == "":
            times.append(None)
            continue
        try:
            seconds = clock(value)
        except ValueError:
            seconds = -1.0
        if seconds < 0:
            raise RowFault("bad_window", "expected seconds from 0 on, or mm:ss", field=field, value=value)
        times.append(seconds)
    start, end = times
    if end is not None and end <= (start or 0.0):
        raise RowFault(
            "bad_window",
            f"the end ({end:g} s) does not lie behind the start ({start or 0:g} s)",
            field=pick(row, columns, "end")[0],
        )
    return start, end


def _pass_rate(row: Mapping[str, Any], columns: Columns) -> float | None:
    field, value = pick(row, columns, "pass_rate")
    value = not_nan(value)
    if value is None or value == "":
        return None
    try:
        rate = float(value) if not isinstance(value, bool) else -1.0
    except (TypeError, ValueError):
        rate = -1.0
    if not 0.0 <= rate <= 1.0:
        raise RowFault("bad_pass_rate", "expected a number from 0 to 1", field=field, value=value)
    return rate


def _own_id(row: Mapping[str, Any], columns: Columns) -> str:
    field, value = pick(row, columns, "sample_id")
    value = not_nan(value)
    if value is None or value == "":
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        raise RowFault("bad_id", "expected a text or a number", field=field, value=value)
    text = value.strip() if isinstance(value, str) else plain_number(value)
    if len(text) > MAX_ID_CHARS or not text.isprintable():
        raise RowFault(
            "bad_id", f"expected at most {MAX_ID_CHARS} printable characters", field=field, value=value
        )
    return text


def stored_id(row: Mapping[str, Any], columns: Columns) -> str:
    """The whole `sample_id` of a row that `vrldata export` wrote; empty for rows from elsewhere.

    An export gives the id of the dataset beside the row's own: `sample_id: train/7` and `problem_id: 7`, or
    the same digest twice where the row had none. A data set from elsewhere may have a `sample_id` that means
    something else.
    """
    keys = columns.names["sample_id"]
    own_key = pick(row, columns, "sample_id")[0]
    key = next((key for key in keys if key.strip().casefold() == "sample_id"), None)
    if key is None or key == own_key or not isinstance(row[key], str):
        return ""
    own, whole = _own_id(row, columns), row[key].strip()
    if len(whole) > MAX_ID_CHARS or not whole.isprintable() or not own:
        return ""
    is_stored = whole.endswith(f"/{own}") if whole != own else _CONTENT_DIGEST.fullmatch(whole) is not None
    return whole if is_stored else ""


def _text(row: Mapping[str, Any], columns: Columns, name: str) -> str:
    field, value = pick(row, columns, name)
    value = not_nan(value)
    if value is None:
        return ""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, int | float) and not isinstance(value, bool):
        return plain_number(value)
    raise RowFault("bad_field", "expected a text", field=field, value=value)


def _extra(row: Mapping[str, Any], columns: Columns) -> dict[str, Any]:
    """Every field that is no column of ours, and the spare ones of those that are named twice."""
    extra = {str(key): jsonable(row[key]) for key in columns.unknown}
    for field, keys in columns.names.items():
        if len(keys) > 1:
            used = pick(row, columns, field)[0]
            extra.update({key: jsonable(row[key]) for key in keys if key != used and row[key] is not None})
    if "sample_id" in extra and stored_id(row, columns):
        del extra["sample_id"]
    return extra


def jsonable(value: Any) -> Any:
    """`value` as JSON can hold it: times and decimals as text, bytes as base64 text, NaN as null."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    return str(value)

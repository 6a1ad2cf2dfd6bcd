"""The dataset card: README.md with YAML front matter, written from the data.

What is generated lies between two marks and in a few keys of the front matter; everything else belongs to the
user (licence, citation, text) and is kept, whether it was edited here or on the Hub.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrldata.errors import StoreError
from vrldata.location import check_whole

if TYPE_CHECKING:
    from vrldata.dataset import Dataset
    from vrldata.releases import Release

BEGIN, END = "<!-- vrl: generated from here", "<!-- vrl: generated to here -->"
OWN_TAGS = ("vrl", "lance", "video", "reinforcement-learning")
TASKS = ("visual-question-answering", "video-text-to-text")
SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
SHEET_SAMPLES = 4

_FRONT_MATTER = re.compile(r"\A---\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|\Z)", re.DOTALL)
_GENERATED = re.compile(
    re.escape(BEGIN) + r"(?: \(([0-9a-f]*)\))? -->.*?" + re.escape(END) + r"\n?", re.DOTALL
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserPart:
    """What of a card belongs to the user.

    Attributes:
        fields: front matter without the generated keys.
        before: text in front of the generated part, `after` behind it.
        written: digest of the user's part when the card was last written; empty for a foreign card.
    """

    fields: Mapping[str, Any] = field(default_factory=dict)
    before: str = ""
    after: str = ""
    written: str = ""

    @property
    def digest(self) -> str:
        """12 hex digits over the user's part."""
        text = repr((sorted(self.fields.items(), key=str), self.before.strip(), self.after.strip()))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]

    @property
    def edited(self) -> bool:
        """Whether the user changed it since the card was written."""
        return self.digest != self.written


def write_card(dataset: Dataset, path: str | Path | None = None) -> Path:
    """Write README.md into the root of a local dataset, or to `path`; its path.

    Raises:
        StoreError: the dataset is remote and no path is given, or the file cannot be written.
    """
    from vrldata.releases import list_releases
    from vrldata.rows_output import whole_file

    check_whole(dataset.uri, "a card")
    if path is None and not dataset.is_local:
        raise StoreError(f"{dataset.uri}: is not local; name a file with --out")
    target = Path(path).expanduser() if path is not None else Path(dataset.root) / "README.md"
    text = card_text(
        dataset, repo_id=None, releases=list_releases(dataset), published=None, has_preview=False
    )
    with whole_file(target) as file:
        file.write(text.encode())
    return target


def card_text(
    dataset: Dataset,
    *,
    repo_id: str | None,
    releases: Sequence[Release],
    published: str | None,
    has_preview: bool,
) -> str:
    """The card of a dataset.

    Args:
        repo_id: `org/name` on the Hub; None for a card on disk.
        published: the card that the Hub shows now. The user's part is taken from it, unless README.md in the
            dataset's root was edited since it was written.
    """
    import yaml

    user = _user_part(dataset, published)
    generated = _generated_fields(dataset, repo_id, user.fields)
    fields = _in_order({**user.fields, **generated})
    written = UserPart(
        fields={name: value for name, value in fields.items() if name not in _GENERATED_KEYS},
        before=user.before,
        after=user.after,
    )
    matter = yaml.safe_dump(fields, sort_keys=False, allow_unicode=True, width=100)
    body = _body(dataset, repo_id, releases, has_preview)
    before = user.before.strip() or f"# {(repo_id or Path(dataset.root).name).rpartition('/')[2]}"
    after = f"\n{user.after.strip()}\n" if user.after.strip() else ""
    mark = UserPart(fields=written.fields, before=before, after=after).digest
    return f"---\n{matter}---\n\n{before}\n\n{BEGIN} ({mark}) -->\n{body}{END}\n{after}"


def _user_part(dataset: Dataset, published: str | None) -> UserPart:
    local = Path(dataset.root) / "README.md" if dataset.is_local else None
    mine = read_card(local.read_text("utf-8", "replace")) if local is not None and local.is_file() else None
    theirs = read_card(published) if published is not None else None
    if mine is None or (theirs is not None and not mine.edited):
        return theirs or UserPart()
    return mine


def read_card(text: str) -> UserPart:
    """The user's part of a card; of a card that is not ours, all of it but the keys that are generated."""
    import yaml

    fields: dict[str, Any] = {}
    matter = _FRONT_MATTER.match(text)
    if matter:
        try:
            found = yaml.safe_load(matter.group(1))
        except yaml.YAMLError as error:
            line = str(error).splitlines()[0]
            raise StoreError(
                f"README.md: the front matter between the --- lines is no YAML: {line}"
            ) from error
        fields = dict(found) if isinstance(found, Mapping) else {}
        text = text[matter.end() :]
    generated = _GENERATED.search(text)
    before, after, written = text, "", ""
    if generated:
        before, after = text[: generated.start()], text[generated.end() :]
        written = generated.group(1) or ""
    return UserPart(
        fields={name: value for name, value in fields.items() if name not in _GENERATED_KEYS},
        before=before.strip(),
        after=after.strip(),
        written=written,
    )


_GENERATED_KEYS = ("configs", "size_categories")
_FIRST_KEYS = ("license", "pretty_name", "language", "task_categories", "tags", *_GENERATED_KEYS)


def _in_order(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Front matter in one order, so that equal content is equal text."""
    first = {name: fields[name] for name in _FIRST_KEYS if name in fields}
    return {**first, **{name: fields[name] for name in fields if name not in first}}


def _generated_fields(dataset: Dataset, repo_id: str | None, user: Mapping[str, Any]) -> dict[str, Any]:
    """Keys that are always ours, and defaults of keys that the user has not set."""
    num_samples = dataset.lance("samples").count_rows()
    size = next((name for limit, name in SIZES if num_samples < limit), "1M<n<10M")
    given = user.get("tags") or []
    tags = [*(given if isinstance(given, list) else [given])]
    tags += [tag for tag in OWN_TAGS if tag not in tags]
    fields: dict[str, Any] = {"tags": tags, "size_categories": [size], "configs": _configs(dataset)}
    if "pretty_name" not in user:
        fields["pretty_name"] = (repo_id or Path(dataset.root).name).rpartition("/")[2]
    if "task_categories" not in user:
        fields["task_categories"] = list(TASKS)
    return fields


def _configs(dataset: Dataset) -> list[dict[str, Any]]:
    """What `datasets.load_dataset` and the Hub's viewer read: the Parquet copies."""
    from vrldata.hub_layout import split_name

    splits = sorted(
        {
            split_name(split or "train")
            for split in dataset.lance("samples").to_table(columns=["split"]).column("split").to_pylist()
        }
    )
    configs = []
    if splits:
        files = [{"split": name, "path": f"parquet/samples/{name}-*.parquet"} for name in splits]
        configs.append({"config_name": "samples", "default": True, "data_files": files})
    if dataset.lance("trajectories").count_rows():
        files = [{"split": "train", "path": "parquet/trajectories/train-*.parquet"}]
        configs.append({"config_name": "trajectories", "data_files": files})
    return configs


def _body(dataset: Dataset, repo_id: str | None, releases: Sequence[Release], has_preview: bool) -> str:
    from vrldata.summary import size_text, summarise

    found = summarise(dataset)
    tables = found["tables"]
    lines = [
        f"{tables['samples']['rows']} questions over {tables['frames']['rows']} clips "
        f"({found['frames']} decoded frames, {size_text(found['payload_bytes'])}), "
        f"{tables['trajectories']['rows']} responses.",
        "",
        *_snippet(dataset, repo_id, releases[-1].name if releases else None),
        "",
    ]
    if has_preview:
        lines += ["![Samples with their frames, questions and answers](preview.png)", ""]
    lines += _counts_table("Problem type", "Questions", found["problem_types"])
    lines += _counts_table("Split", "Questions", found["splits"])
    lines += _counts_table("Sampling of frames", "Clips", found["specs"])
    if releases:
        lines += [
            "| Release | Made (UTC) | Questions | Clips | Responses | Digest | |",
            "|---|---|--:|--:|--:|---|---|",
        ]
        lines += [_release_row(one) for one in reversed(releases)]
        lines.append("")
    failures = found["num_failures"]
    if failures:
        lines += [f"{failures} sources could not be decoded; the table `failures` says why.", ""]
    lines += [
        "Frames lie decoded in Lance tables under `data/`; each release is a git tag and stays as it is. "
        "Samples and responses are there as Parquet too, for the viewer and `datasets.load_dataset`.",
        "",
    ]
    return "\n".join(lines)


def _snippet(dataset: Dataset, repo_id: str | None, release: str | None) -> list[str]:
    """How to open what the card describes; it reads a clip where a sample of that release has its clips."""
    from vrldata.dataset import Dataset as Opened
    from vrldata.uri import DatasetUri

    uri = DatasetUri(f"hf://datasets/{repo_id}" if repo_id else ".", release)
    with_clips = "array_length(clip_ids) > 0"
    described = Opened(DatasetUri(dataset.uri.location, release or dataset.release))
    # a sample without media, or with a source that could not be decoded, has none
    read = [
        f'sample = next(ds.iter_samples(filter="{with_clips}", limit=1))',
        "print(sample.problem, sample.answer)",
        "print(ds.clips_of(sample)[0].frames.shape)   # uint8 (T, H, W, 3)",
    ]
    if not described.lance("samples").count_rows(filter=with_clips):
        read = ["for sample in ds.iter_samples(limit=1):", "    print(sample.problem, sample.answer)"]
    opening = ["import vrldata   # of the Python package vrl", f'ds = vrldata.open("{uri}")']
    return ["```python", *opening, *read, "```"]


def _counts_table(title: str, unit: str, counts: Mapping[str, int]) -> list[str]:
    if not counts:
        return []
    rows = [f"| {_cell(name)} | {count} |" for name, count in counts.items()]
    return [f"| {title} | {unit} |", "|---|--:|", *rows, ""]


def _release_row(one: Release) -> str:
    counts = [str(one.counts.get(table, 0)) for table in ("samples", "frames", "trajectories")]
    made = f"{one.created_at:%Y-%m-%d %H:%M}"
    return f"| {one.name} | {made} | {' | '.join(counts)} | `{one.digest[:12]}` | {_cell(one.message)} |"


def _cell(text: object) -> str:
    """Text of the data in a Markdown table: no markup, no line breaks."""
    plain = " ".join(str(text).split())
    return re.sub(r"([\\`*_{}\[\]<>|!#&])", r"\\\1", plain)


def preview_bytes(dataset: Dataset) -> bytes | None:
    """The contact sheet of the first samples as PNG; None for a dataset without samples."""
    from vrldata.contact_sheet import contact_sheet
    from vrldata.preview import sheet_items

    if dataset.lance("samples").count_rows() == 0:
        return None
    data = io.BytesIO()
    contact_sheet(sheet_items(dataset, limit=SHEET_SAMPLES, num_frames=4)).save(data, format="PNG")
    return data.getvalue()

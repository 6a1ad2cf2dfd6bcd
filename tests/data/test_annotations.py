"""Reading annotation files: formats, field names, ids, media paths, answers, offline responses."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from vrldata.annotation_faults import write_rejected
from vrldata.annotations import Annotations, read_annotations
from vrldata.errors import AnnotationError

ROW: dict[str, Any] = {
    "problem_id": 1,
    "problem": "Which tool is used?",
    "data_type": "video",
    "problem_type": "multiple choice",
    "options": ["A. saw", "B. drill"],
    "solution": "<answer>B</answer>",
    "path": "./videos/a.mp4",
}


def rows(number: int) -> list[dict[str, Any]]:
    return [{**ROW, "problem_id": index} for index in range(number)]


def lines(items: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in items)


def read(tmp_path: Path, content: str | bytes, name: str = "rows.jsonl", **options: Any) -> Annotations:
    file = tmp_path / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_annotations([file], video_root=tmp_path, **options)


def read_row(**fields: Any) -> Annotations:
    """Read one row given as an object; a field set to ... is left out."""
    row = {key: value for key, value in {**ROW, **fields}.items() if value is not ...}
    return read_annotations([row], video_root="/media")


def rejection(found: Annotations) -> str:
    assert len(found.rejected) == 1, found
    assert not found.samples
    return found.rejected[0].message


# --- formats


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", json.dumps(rows(3))),
        ("a.json", json.dumps(rows(3), indent=2)),
        ("a.json", "\n\n  " + json.dumps(rows(3)) + "\n\n"),
        ("a.jsonl", lines(rows(3))),
        ("a.jsonl", lines(rows(3)).rstrip("\n")),
        ("a.jsonl", "".join("\ufeff" + line for line in lines(rows(3)).splitlines(keepends=True))),
        ("a.jsonl", lines(rows(3)).replace("\n", "\r\n")),
        ("a.jsonl", lines(rows(3)).replace("\n", "\n\n")),
        ("a.jsonl", "\n".join(json.dumps(row, indent=1) for row in rows(3))),
        ("a.ndjson", lines(rows(3))),
        ("noending", lines(rows(3))),
        ("a.json", "\ufeff" + json.dumps(rows(3))),
    ],
)
def test_json_in_any_layout_gives_its_rows(tmp_path: Path, name: str, content: str) -> None:
    found = read(tmp_path, content, name)
    assert [sample.sample_id.rpartition("/")[2] for sample in found.samples] == ["0", "1", "2"]
    assert (found.rejected, found.warnings) == ([], [])


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("by_row", [False, True], ids=["lists", "objects"])
def test_columns_of_a_data_frame_are_refused_with_the_way_out(
    tmp_path: Path, by_row: bool, indent: int | None
) -> None:
    columns: dict[str, Any] = {key: [row[key] for row in rows(3)] for key in ROW}
    if by_row:
        columns = {key: dict(enumerate(values)) for key, values in columns.items()}
    found = read(tmp_path, json.dumps(columns, indent=indent), "frame.json")
    assert "one object of columns with 3 rows: write rows (pandas: orient='records')" in rejection(found)
    assert found.rejected[0].whole_file


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.jsonl.zst", "a.jsonl"])
@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_compression_is_told_by_the_content(tmp_path: Path, name: str, pack: Any) -> None:
    found = read(tmp_path, pack(lines(rows(3)).encode()), name)
    assert len(found.samples) == 3
    assert not found.warnings


def test_frames_of_zstd_that_follow_each_other_are_one_file(tmp_path: Path) -> None:
    text = lines(rows(4)).encode()
    middle = len(text) // 2
    packed = zstandard.compress(text[:middle]) + zstandard.compress(text[middle:])
    assert len(read(tmp_path, packed).samples) == 4


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_a_cut_archive_is_refused_as_a_whole(tmp_path: Path, pack: Any) -> None:
    packed = pack(lines([{**row, "noise": os.urandom(200).hex()} for row in rows(2000)]).encode())
    found = read(tmp_path, packed[: len(packed) // 2])
    assert "truncated" in rejection(found)
    assert found.rejected[0].whole_file


def test_a_large_list_is_read_in_pieces_with_right_lines(tmp_path: Path) -> None:
    items = [{**row, "problem": f"é{row['problem_id']} " + "x" * 1000} for row in rows(3000)]
    items[2999].pop("solution")
    text = "[\n" + ",\n".join(json.dumps(item, ensure_ascii=False) for item in items) + "\n]\n"
    found = read(tmp_path, text, "a.json")
    assert len(found.samples) == 2999
    assert (found.rejected[0].line, found.rejected[0].row) == (3001, 2999)


def test_rows_below_a_key_are_read_with_their_lines(tmp_path: Path) -> None:
    document = {"version": 1, "data": rows(2), "more": [1]}
    document["data"][1].pop("solution")
    found = read(tmp_path, json.dumps(document, indent=1), "a.json")
    assert len(found.samples) == 1
    assert found.rejected[0].line == 16
    assert "'data'" in found.warnings[0].message


def test_a_single_row_may_be_a_document_of_its_own(tmp_path: Path) -> None:
    assert len(read(tmp_path, json.dumps(ROW, indent=2), "a.json").samples) == 1
    assert len(read(tmp_path, json.dumps(ROW), "a.json").samples) == 1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[]", "no rows"),
        ("{}", "expected a list of rows"),
        ("null", "expected an object"),
        ('"text"', "expected an object"),
        ("[1, 2]", "found a number"),
        ("[[1]]", "found a list"),
        (json.dumps({"a": rows(1), "b": rows(1)}), "several keys: 'a', 'b'"),
        (json.dumps({"q1": ROW}), "by id"),
        (json.dumps(rows(2))[:-40], "incomplete"),
        (json.dumps(rows(2), indent=1)[:-2], "incomplete"),
        (json.dumps(rows(2)) + "x", "more text after the end of the list"),
        (json.dumps(rows(2)).replace("}, {", "} {"), "a comma is expected"),
        ("[" * 100_000, "nested"),
        ("[" * 100_000 + "]" * 100_000, "nested"),
        (json.dumps(rows(1)).replace("null", "None").replace('"B', "None, 'B"), "not JSON"),
        ("hello\nworld\n", "not JSON"),
        ("<!DOCTYPE html>", "HTML page"),
        ("version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        ("PK\x03\x04 rest", "zip archive"),
        (lines(rows(2)).encode("utf-16"), "UTF-16"),
        (lines(rows(2)).encode("utf-16-be"), "UTF-16"),
        (lines(rows(2)).encode("utf-32"), "UTF-32"),
        (gzip.compress(b"", mtime=0), "empty"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_as_a_whole(
    tmp_path: Path, content: str | bytes, words: str
) -> None:
    found = read(tmp_path, content, "a.json")
    assert words in rejection(found)
    assert found.rejected[0].whole_file


@pytest.mark.parametrize(
    ("line", "field", "words"),
    [
        (json.dumps(ROW) + ",", None, "a comma after the object"),
        (json.dumps(ROW) + json.dumps(ROW), None, "more than one JSON value"),
        (json.dumps(ROW)[:-1] + ",}", None, "trailing comma"),
        (json.dumps(ROW).replace('"B', '"\\q'), None, "unknown escape"),
        (json.dumps(ROW)[:-1] + ', "extra": NaN}', "extra", "NaN"),
        (json.dumps(ROW)[:-1] + ', "path": "b.mp4"}', "path", "stands twice"),
        (json.dumps(ROW)[:-1] + ', "note": "\\ud800"}', "note", "surrogate"),
        (json.dumps(ROW)[:-1] + ', "note": ' + "[" * 40 + "]" * 40 + "}", "note", "nested"),
        (json.dumps(ROW)[:-1] + ', "n": 01}', None, "malformed number"),
        ("[1, 2]", None, "found a list"),
        ("null", None, "found null"),
    ],
)
def test_a_bad_line_costs_only_itself(tmp_path: Path, line: str, field: str | None, words: str) -> None:
    first, last = lines(rows(1)), lines([{**ROW, "problem_id": 2}])
    found = read(tmp_path, first + line + "\n" + last)
    assert len(found.samples) == 2
    (bad,) = found.rejected
    assert (bad.line, bad.row, bad.field, bad.whole_file) == (2, 1, field, False)
    assert words in bad.message
    assert "\n" not in bad.message


def test_characters_beyond_the_first_plane_may_be_escaped(tmp_path: Path) -> None:
    found = read(tmp_path, json.dumps({**ROW, "problem": "a 🎬 b"}) + "\n")
    assert found.samples[0].problem == "a 🎬 b"


def test_bytes_of_another_encoding_cost_only_their_rows(tmp_path: Path) -> None:
    text = lines([ROW, {**ROW, "problem_id": 2, "problem": "Où ?"}])
    found = read(tmp_path, text.encode("latin-1"))
    assert len(found.samples) == 1
    assert (found.rejected[0].line, found.rejected[0].field) == (2, "problem")
    assert "UTF-8" in found.rejected[0].message


# --- tables


def as_csv(items: list[dict[str, Any]], **options: Any) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=list(items[0]), **options)
    writer.writeheader()
    writer.writerows({**item, "options": json.dumps(item["options"])} for item in items)
    return out.getvalue()


@pytest.mark.parametrize(
    ("name", "delimiter"), [("a.csv", ","), ("a.csv.gz", ","), ("a.tsv", "\t"), ("a.csv", "\t")]
)
def test_csv_rows_are_those_of_json(tmp_path: Path, name: str, delimiter: str) -> None:
    text = as_csv(rows(2), delimiter=delimiter).encode()
    found = read(tmp_path, gzip.compress(text) if name.endswith("gz") else text, name)
    assert found.samples == read(tmp_path, lines(rows(2)), "a.jsonl").samples


def test_csv_lines_count_line_breaks_in_cells(tmp_path: Path) -> None:
    items = [{**ROW, "problem": "one\ntwo"}, {**ROW, "problem": "q", "solution": "Z"}]
    found = read(tmp_path, as_csv(items), "a.csv")
    assert (found.rejected[0].line, found.rejected[0].row, found.rejected[0].field) == (4, 1, "solution")


def test_a_csv_row_with_too_many_cells_is_rejected(tmp_path: Path) -> None:
    text = "problem,problem_type,solution\nq,numerical,3\nq, or not,numerical,3\n"
    found = read(tmp_path, text, "a.csv")
    assert len(found.samples) == 1
    assert "4 columns, the header 3" in found.rejected[0].message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("problem,problem_type,solution\n", "no rows below its header"),
        ("problem,solution,solution\nq,1,2\n", "'solution' twice"),
        ("problm,solution\nq,1\n", "there is 'problm': did you mean 'problem'?"),
        ('problem,problem_type,solution\n"q,numerical,3\n', "quote is perhaps not closed"),
        ("1,what,3\n2,why,4\n", "columns present: 1, what, 3"),
    ],
)
def test_a_csv_file_that_makes_no_sense_is_refused(tmp_path: Path, text: str, words: str) -> None:
    found = read(tmp_path, text, "a.csv")
    assert words in rejection(found)
    assert found.rejected[0].whole_file


def test_parquet_types_do_not_matter(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table(
        {
            "id": pa.array([1, 2], pa.uint8()),
            "question": pa.array(["a", "b"]).dictionary_encode(),
            "problem_type": pa.array(["numerical"] * 2, pa.large_string()),
            "answer": pa.array([3, 4], pa.decimal128(5, 1)),
            "when": pa.array([0, 1], pa.timestamp("s")),
            "raw": pa.array([b"\x00", None], pa.binary()),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    found = read_annotations([tmp_path / "a.parquet"])
    assert [sample.answer for sample in found.samples] == ["3.0", "4.0"]
    assert found.samples[0].extra == {"when": "1970-01-01 00:00:00", "raw": "AA=="}
    json.dumps([dict(sample.extra) for sample in found.samples])


def test_parquet_inside_gzip_is_read(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows(2)), out)
    assert len(read(tmp_path, gzip.compress(out.getvalue()), "a.parquet.gz").samples) == 2


def test_a_saved_dataset_gives_its_splits(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    split = datasets.Dataset.from_list(rows(2))
    datasets.DatasetDict({"train": split, "test": split}).save_to_disk(str(tmp_path / "saved"))
    found = read_annotations([tmp_path / "saved"], video_root=tmp_path)
    assert [sample.split for sample in found.samples] == ["train", "train", "test", "test"]
    assert len({sample.sample_id for sample in found.samples}) == 4


# --- sources


def test_folders_and_patterns_give_their_annotation_files(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "a.jsonl").write_text(lines(rows(1)))
    (tmp_path / "b" / "c.json").write_text(json.dumps(rows(1)))
    (tmp_path / "b" / "notes.txt").write_text("no rows")
    assert len(read_annotations([tmp_path], video_root=tmp_path).samples) == 2
    assert len(read_annotations([f"{tmp_path}/**/*.json*"], video_root=tmp_path).samples) == 2
    assert len(read_annotations([f"{tmp_path}/*.jsonl"], video_root=tmp_path).samples) == 1


@pytest.mark.parametrize(
    ("source", "words"),
    [("missing.jsonl", "no such file"), ("*.jsonl", "no file matches"), ("empty", "holds no .json")],
)
def test_a_source_that_is_not_there_is_one_line(tmp_path: Path, source: str, words: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(AnnotationError, match=words):
        read_annotations([str(tmp_path / source)])


def test_rows_may_be_given_as_objects() -> None:
    found = read_row()
    assert found.samples[0].sample_id == "rows/1"
    assert found.samples[0].videos == ("videos/a.mp4",)


def test_a_bad_object_is_reported_with_its_row_number() -> None:
    found = read_annotations([ROW, {**ROW, "problem_id": 2, "solution": None}], video_root="/media")
    assert (
        found.rejected[0].message
        == "<rows>, row 1 (counted from 0), field 'solution': null: the answer is missing"
    )


# --- fields


@pytest.mark.parametrize("field", ["problem", "question", "prompt", "Question"])
def test_names_of_the_question(field: str) -> None:
    assert read_row(**{"problem": ..., field: "q?"}).samples[0].problem == "q?"


@pytest.mark.parametrize("field", ["answer", "solution", "ground_truth"])
def test_names_of_the_answer(field: str) -> None:
    assert read_row(**{"solution": ..., field: "A"}).samples[0].answer == "A"


@pytest.mark.parametrize("field", ["videos", "video", "path", "video_path"])
@pytest.mark.parametrize("value", ["b.mp4", ["b.mp4"], {"path": "b.mp4", "bytes": None}, '["b.mp4"]'])
def test_names_and_forms_of_videos(field: str, value: Any) -> None:
    assert read_row(**{"path": ..., field: value}).samples[0].videos == ("b.mp4",)


@pytest.mark.parametrize("field", ["images", "image", "image_path", "path"])
def test_names_of_images(field: str) -> None:
    sample = read_row(**{"path": ..., "data_type": "image", field: "b.png"}).samples[0]
    assert (sample.images, sample.videos, sample.data_type) == (("b.png",), (), "image")


def test_the_ending_of_a_path_decides_where_no_type_is_given() -> None:
    assert read_row(data_type=..., path="b.JPG").samples[0].data_type == "image"
    assert read_row(data_type=..., path="b.mp4").samples[0].data_type == "video"
    assert read_row(data_type=..., path=...).samples[0].data_type == "text"


@pytest.mark.parametrize("field", ["problem_id", "id", "question_id"])
def test_names_of_ids(field: str) -> None:
    assert read_row(**{"problem_id": ..., field: "x-7"}).samples[0].sample_id == "rows/x-7"


def test_columns_may_be_mapped() -> None:
    row = {**ROW, "q": "mapped?", "gold": "A"}
    found = read_annotations([row], field_map={"question": "q", "answer": "gold"}, video_root="/media")
    assert (found.samples[0].problem, found.samples[0].answer) == ("mapped?", "A")
    assert found.samples[0].extra["problem"] == ROW["problem"]


MAPPED = {"problem": "q", "answer": "gt", "problem_type": "kind", "videos": "clip", "problem_id": "key"}


@pytest.mark.parametrize("ending", ["csv", "parquet", "json", "jsonl", "one.json"])
def test_every_field_may_be_mapped_in_every_format(tmp_path: Path, ending: str) -> None:
    row = {"key": "7", "q": "How many?", "gt": "3", "kind": "numerical", "clip": "a.mp4"}
    file = tmp_path / f"rows.{ending}"
    if ending == "csv":
        file.write_text(",".join(row) + "\n" + ",".join(row.values()) + "\n")
    elif ending == "parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist([row]), file)
    else:
        file.write_text({"jsonl": lines([row]), "one.json": json.dumps(row)}.get(ending, json.dumps([row])))
    found = read_annotations([file], field_map=MAPPED, video_root=tmp_path)
    assert found.rejected == []
    sample = found.samples[0]
    assert (sample.sample_id, sample.problem, sample.answer) == ("rows/7", "How many?", "3")
    assert (sample.problem_type, sample.videos) == ("numerical", ("a.mp4",))


def test_a_missing_answer_is_named_as_documented_with_the_way_to_map_it(tmp_path: Path) -> None:
    found = read(tmp_path, "problem,gt,problem_type,videos\nq,3,numerical,a.mp4\n", "p.csv")
    assert "p.csv:1, field 'answer': the column is missing (solution, ground_truth" in rejection(found)
    assert "--map answer=COLUMN" in rejection(found)
    assert "--map answer=COLUMN" in rejection(read_row(solution=...))


def test_a_mapped_column_that_is_not_there_suggests_the_nearest(tmp_path: Path) -> None:
    content = "problem,gold,problem_type\nq,3,numerical\n"
    found = read(tmp_path, content, "p.csv", field_map={"answer": "golf"})
    assert "--map answer=golf, but there is no 'golf'. Did you mean 'gold'?" in rejection(found)


def test_an_unknown_field_of_the_map_suggests_the_nearest() -> None:
    with pytest.raises(AnnotationError, match="Did you mean 'answer'"):
        read_annotations([ROW], field_map={"anwser": "gold"})


def test_a_misspelt_field_is_named() -> None:
    assert "there is 'vidoes': did you mean 'videos'?" in rejection(read_row(path=..., vidoes="a.mp4"))


def test_the_record_of_a_rejection_holds_the_value_as_it_stands(tmp_path: Path) -> None:
    bad = [{**ROW, "problem_type": "guessing"}, {**ROW, "solution": "Z"}]
    first, second = read(tmp_path, lines(bad)).rejected
    assert (first.value, second.value) == ("guessing", "Z")
    assert "Did you mean" not in first.message


def test_only_near_problem_types_are_suggested() -> None:
    assert "Did you mean 'multiple choice'?" in rejection(read_row(problem_type="mutiple choise"))


@pytest.mark.parametrize("name", ["number", "numeric", "counting", "Numerical"])
def test_accepted_names_of_problem_types_deserve_no_warning(name: str) -> None:
    found = read_row(problem_type=name, solution="3")
    assert (found.samples[0].problem_type, found.warnings) == ("numerical", [])


def test_unknown_fields_are_kept() -> None:
    assert read_row(process="p", meta={"a": [1]}).samples[0].extra == {"process": "p", "meta": {"a": [1]}}


def test_a_second_name_of_a_field_is_kept_too() -> None:
    sample = read_row(answer="A", solution="The saw, since …").samples[0]
    assert (sample.answer, sample.extra) == ("A", {"solution": "The saw, since …"})


def test_an_empty_name_gives_way_to_a_filled_one() -> None:
    assert read_row(videos=None, path="b.mp4").samples[0].videos == ("b.mp4",)


def test_window_pass_rate_split_and_source_become_fields() -> None:
    sample = read_row(start="0:05", end=9.5, pass_rate=0.25, split="val", source="Demo").samples[0]
    assert (sample.start, sample.end, sample.pass_rate) == (5.0, 9.5, 0.25)
    assert (sample.split, sample.data_source) == ("val", "Demo")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"start": 5, "end": 5}, "end"),
        ({"start": -1}, "start"),
        ({"start": "soon"}, "start"),
        ({"end": 0}, "end"),
        ({"pass_rate": 1.5}, "pass_rate"),
        ({"pass_rate": True}, "pass_rate"),
        ({"problem": ""}, "problem"),
        ({"problem": ["q"]}, "problem"),
        ({"problem_id": True}, "problem_id"),
        ({"problem_type": "multiple chioce"}, "problem_type"),
        ({"problem_type": ...}, "problem_type"),
        ({"data_type": "text"}, "data_type"),
        ({"split": ["train"]}, "split"),
    ],
)
def test_a_bad_value_names_its_field(fields: dict[str, Any], field: str) -> None:
    found = read_row(**fields)
    assert rejection(found)
    assert found.rejected[0].field == field


def test_a_misspelt_type_suggests_the_nearest() -> None:
    assert "Did you mean 'multiple choice'" in rejection(read_row(problem_type="multiple chioce"))


def test_counts_of_placeholders_and_media_that_differ_are_told() -> None:
    found = read_row(problem="<video><video> q?")
    assert len(found.samples) == 1
    assert "2 <video> marks in the question, but 1 videos" in found.warnings[0].message


# --- real schemas


def test_easyvideor1_rows_load_without_a_map() -> None:
    row = {
        "problem_id": 17,
        "problem": "Which tool is used last?",
        "data_type": "video",
        "problem_type": "multiple choice",
        "options": ["A: saw", "B: drill"],
        "process": "",
        "solution": "<answer>B</answer>",
        "path": "./videos/demo_17.mp4",
        "data_source": "Demo",
        "original_question_type": "Action Sequence",
        "has_offline_trajectory": True,
        "offline_output": "<think>…</think><answer>B</answer>",
    }
    found = read_annotations([row], video_root="/media", dataset_name="easy")
    sample = found.samples[0]
    assert (sample.sample_id, sample.answer, sample.videos) == ("easy/17", "B", ("videos/demo_17.mp4",))
    assert sample.extra == {"process": "", "original_question_type": "Action Sequence"}
    assert found.offline[0].response == row["offline_output"]
    assert (found.offline[0].sample_id, found.rejected, found.warnings) == ("easy/17", [], [])


@pytest.mark.parametrize(
    ("problem_type", "data_type", "answer"),
    [
        ("temporal grounding", "video", '{"time": [3.0, 9.5]}'),
        ("spatial grounding", "image", '{"boxes": [10, 20, 300, 997]}'),
        (
            "spatial-temporal grounding",
            "video",
            '{"time": [9, 10.5], "boxes": {"9": [1, 2, 3, 4], "10": [1, 2, 3, 4]}}',
        ),
        ("tracking", "video", '{"boxes": {"1": [1, 2, 3, 4], "2": [1, 2, 3, 5]}}'),
        (
            "segmentation",
            "image",
            '{"boxes": [1, 2, 3, 4], "positive_points": [[1, 1], [2, 2], [3, 3]],'
            ' "negative_points": [[5, 5], [6, 6], [7, 7]]}',
        ),
        ("numerical", "video", "3"),
        ("regression", "video", "2.5"),
        ("open-ended", "video", "A dog runs."),
        ("math", "image", "$\\frac{1}{2}$"),
        ("ocr", "image", "EXIT"),
    ],
)
def test_onethinker_and_video_r1_rows_load_without_a_map(
    problem_type: str, data_type: str, answer: str
) -> None:
    row = {
        "problem_id": 0,
        "problem": "q?",
        "data_type": data_type,
        "problem_type": problem_type,
        "options": [],
        "solution": f"<answer>{answer}</answer>",
        "path": f"./{data_type}/x.{'png' if data_type == 'image' else 'mp4'}",
        "data_source": "STAR",
    }
    found = read_annotations([row], video_root="/media")
    assert found.rejected == []
    assert found.samples[0].answer == answer
    assert getattr(found.samples[0], f"{data_type}s") == (row["path"][2:],)


# --- ids


def test_equal_ids_stay_apart_and_do_not_depend_on_what_follows(tmp_path: Path) -> None:
    same, other = dict(ROW), {**ROW, "problem": "other?"}
    found = read(tmp_path, lines([ROW, other, same]))
    ids = [sample.sample_id for sample in found.samples]
    assert ids[0] == "rows/1"
    assert len(set(ids)) == 3
    assert all(one.startswith("rows/1-") for one in ids[1:])
    assert ids[:2] == [sample.sample_id for sample in read(tmp_path, lines([ROW, other])).samples]


def test_the_file_name_or_a_given_name_makes_ids_unique(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_text(lines([ROW]))
    found = read_annotations([tmp_path / "a.jsonl", tmp_path / "b.jsonl"], video_root=tmp_path)
    assert [sample.sample_id for sample in found.samples] == ["a/1", "b/1"]
    assert read(tmp_path, lines([ROW]), dataset_name="mine").samples[0].sample_id == "mine/1"


def test_a_row_without_an_id_has_the_digest_of_its_content(tmp_path: Path) -> None:
    bare = {key: value for key, value in ROW.items() if key != "problem_id"}
    first = read(tmp_path, lines([bare, {**bare, "problem": "other?"}])).samples
    again = read(tmp_path, lines([{**bare, "problem": "other?"}, bare]), "renamed.jsonl").samples
    assert {sample.sample_id for sample in first} == {sample.sample_id for sample in again}
    assert len({sample.sample_id for sample in first}) == 2


@pytest.mark.parametrize("value", [None, "", float("nan")])
def test_an_empty_id_is_no_id(value: Any) -> None:
    assert len(read_row(problem_id=value).samples[0].sample_id) == 32


# --- media paths


@pytest.mark.parametrize(
    ("path", "stored"),
    [
        ("./a/b.mp4", "a/b.mp4"),
        ("a//b/./c.mp4", "a/b/c.mp4"),
        ("a/../b.mp4", "b.mp4"),
        ("/media/a.mp4", "a.mp4"),
        ("cafe\u0301.mp4", "caf\u00e9.mp4"),
        ("with space (1).mp4", "with space (1).mp4"),
        ("12:30 lecture: part 1.mp4", "12:30 lecture: part 1.mp4"),
        ("-x.mp4", "-x.mp4"),
        (".hidden/a.mp4", ".hidden/a.mp4"),
        ("50%off.mp4", "50%off.mp4"),
    ],
)
def test_a_path_is_stored_in_one_form(path: str, stored: str) -> None:
    assert read_row(path=path).samples[0].videos == (stored,)


@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("../a.mp4", "outside"),
        ("a/../../b.mp4", "outside"),
        ("/mediaother/a.mp4", "outside"),
        ("/media", "outside"),
        ("", "empty"),
        ("HTTPS://host/a.mp4", "https"),
        ("data:video/mp4;base64,AAAA", "protocol"),
        ("subfile,,start,0,end,9,,:/etc/passwd", "protocol"),
        ("file:/etc/passwd", "protocol"),
        ("//host/share/a.mp4", "outside"),
        ("\\\\host\\share\\a.mp4", "backslash"),
        ("a\nb.mp4", "control character"),
        ("a.mp4 ", "trailing space"),
        ("${DATA}/a.mp4", "${DATA}"),
        ("%TEMP%/a.mp4", "%TEMP%"),
        (["f1.jpg", None], "null"),
        ([["f1.jpg", "f2.jpg"]], "frames"),
        ({"bytes": b"x", "path": None}, "holds the media itself"),
        (7, "expected a path"),
    ],
)
def test_an_unsafe_path_is_rejected(path: Any, word: str) -> None:
    found = read_row(path=path)
    assert word in rejection(found)
    assert found.rejected[0].field == "path"


def test_paths_relative_to_the_annotation_file_become_relative_to_the_root(tmp_path: Path) -> None:
    (tmp_path / "annotations").mkdir()
    file = tmp_path / "annotations" / "a.jsonl"
    file.write_text(lines([{**ROW, "path": "../videos/a.mp4"}]))
    assert read_annotations([file], video_root=tmp_path).samples[0].videos == ("videos/a.mp4",)
    assert read_annotations([file]).samples[0].videos == ("../videos/a.mp4",)
    assert "outside" in read_annotations([file], video_root=tmp_path / "other").rejected[0].message


def test_files_are_looked_for_only_when_asked(tmp_path: Path) -> None:
    assert len(read(tmp_path, lines([ROW])).samples) == 1
    found = read(tmp_path, lines([ROW]), check_media=True)
    assert (found.rejected[0].field, found.rejected[0].reason) == ("path", "media_not_found")
    (tmp_path / "videos").mkdir()
    (tmp_path / "videos" / "a.mp4").write_bytes(b"x")
    assert len(read(tmp_path, lines([ROW]), check_media=True).samples) == 1


# --- answers


@pytest.mark.parametrize(
    "answer", ["B", "b", "(B)", "B.", "B. drill", "drill", "DRILL", "<answer> B </answer>", "**B**", "Ｂ"]
)
def test_a_choice_is_stored_as_its_letter(answer: str) -> None:
    assert read_row(solution=answer).samples[0].answer == "B"


def test_options_without_letters_get_them_from_their_position() -> None:
    assert read_row(options=["saw", "drill"], solution="drill").samples[0].answer == "B"


def test_option_texts_that_only_look_lettered_are_texts() -> None:
    sample = read_row(options=["E. coli", "E. faecalis"], solution="E. faecalis").samples[0]
    assert sample.answer == "B"


@pytest.mark.parametrize(
    "options",
    [{"B": "drill", "A": "saw"}, '["A. saw", "B. drill"]', "A. saw\nB. drill", ("A. saw", "B. drill")],
)
def test_options_in_any_form_become_a_list(options: Any) -> None:
    assert read_row(options=options).samples[0].options == ("A. saw", "B. drill")


def test_several_letters_need_the_type_that_allows_them() -> None:
    assert "several" in rejection(read_row(solution="A, B"))
    for solution in ("A, B", ["B", "A"]):
        assert read_row(problem_type="multiple select", solution=solution).samples[0].answer == "A, B"


@pytest.mark.parametrize(
    ("problem_type", "answer", "stored"),
    [
        ("numerical", 3, "3"),
        ("numerical", 2.5, "2.5"),
        ("numerical", "007", "007"),
        ("boolean", True, "Yes"),
        ("boolean", "no", "no"),
        ("temporal grounding", [1, 2.5], "[1, 2.5]"),
        ("temporal grounding", {"time": [1, 2]}, '{"time": [1, 2]}'),
        ("temporal grounding", "1.5 to 2.5", "1.5 to 2.5"),
        ("spatial grounding", [1, 2, 3, 4], "[1, 2, 3, 4]"),
        ("open-ended", 7, "7"),
    ],
)
def test_an_answer_of_any_json_type_becomes_text(problem_type: str, answer: Any, stored: str) -> None:
    assert read_row(problem_type=problem_type, options=None, solution=answer).samples[0].answer == stored


@pytest.mark.parametrize(
    ("problem_type", "answer"),
    [
        ("numerical", "many"),
        ("numerical", float("inf")),
        ("boolean", "maybe"),
        ("boolean", 7),
        ("temporal grounding", '{"time": [5, 3]}'),
        ("temporal grounding", [[1, 2], [9, 4]]),
        ("temporal grounding", '{"time": [-2, 3]}'),
        ("temporal grounding", "later"),
        ("spatial grounding", [1, 2, 3]),
        ("tracking", '{"boxes": {"one": [1, 2, 3, 4]}}'),
        ("preference", "perhaps"),
        ("open-ended", ["a"]),
        ("math", {"a": 1}),
    ],
)
def test_an_answer_that_its_scorer_cannot_read_is_rejected(problem_type: str, answer: Any) -> None:
    found = read_row(problem_type=problem_type, options=None, solution=answer)
    assert rejection(found)
    assert found.rejected[0].field == "solution"


# --- offline responses


@pytest.mark.parametrize("field", ["offline_output", "trajectory"])
@pytest.mark.parametrize(
    ("value", "responses"),
    [
        ("one", ["one"]),
        (["one", "two"], ["one", "two"]),
        ([{"role": "user", "content": "q"}, {"role": "assistant", "content": "one"}], ["one"]),
    ],
)
def test_offline_responses_in_any_form(field: str, value: Any, responses: list[str]) -> None:
    assert [response.response for response in read_row(**{field: value}).offline] == responses


def test_log_probs_and_reward_of_a_response_are_kept() -> None:
    found = read_row(offline_output="one", offline_log_probs=[-1, -0.5], offline_reward=1)
    assert (found.offline[0].log_probs, found.offline[0].reward) == ((-1.0, -0.5), 1.0)


def test_a_row_may_say_that_it_has_no_trajectory() -> None:
    with_one = {**ROW, "offline_output": "one", "has_offline_trajectory": True}
    without = {**ROW, "problem_id": 2, "offline_output": None, "has_offline_trajectory": False}
    found = read_annotations([with_one, without], video_root="/media")
    assert (len(found.samples), len(found.offline)) == (2, 1)


def test_a_row_that_says_it_has_one_must_have_it() -> None:
    assert "trajectory" in rejection(read_row(has_offline_trajectory=True))


def test_a_gap_is_a_fault_only_where_most_rows_have_one() -> None:
    with_one = [{**row, "offline_output": "one"} for row in rows(2)]
    gap = {**ROW, "problem_id": 9}
    mostly = read_annotations([*with_one, gap], video_root="/media")
    assert mostly.rejected[0].reason == "no_trajectory"
    assert (
        len(read_annotations([with_one[0], gap, {**gap, "problem_id": 8}], video_root="/media").samples) == 3
    )
    never = read_annotations([*with_one, gap], video_root="/media", require_trajectories=False)
    assert len(never.samples) == 3
    always = read_annotations([gap], video_root="/media", require_trajectories=True)
    assert always.rejected[0].field == "trajectory"


# --- reporting


def test_a_message_says_where_what_and_what_was_found(tmp_path: Path) -> None:
    found = read(tmp_path, lines([{**ROW, "solution": "Z" * 500}]))
    message = rejection(found)
    assert message.startswith(f"{tmp_path}/rows.jsonl:1, field 'solution': ")
    assert "not in options A, B" in message
    assert message.endswith("…")
    assert len(message) < 400


def test_the_summary_counts_by_reason_and_shows_the_first(tmp_path: Path) -> None:
    bad = [{**row, "solution": None} for row in rows(30)]
    summary = read(tmp_path, lines([*bad, ROW])).summary(shown=2).splitlines()
    assert summary[0] == "1 row loaded, 30 rejected (missing_answer 30)"
    assert len(summary) == 4
    assert summary[-1] == "… and 28 more"


def test_notices_of_one_kind_end_after_twenty(tmp_path: Path) -> None:
    found = read(tmp_path, lines([{**row, "problem": "<video><video>"} for row in rows(50)]))
    assert len(found.warnings) == 20
    assert "not listed" in found.warnings[-1].message


def test_rejections_are_written_whole(tmp_path: Path) -> None:
    found = read(tmp_path, lines([{**ROW, "solution": None}]))
    target = tmp_path / "out" / "rejected.jsonl"
    assert write_rejected(target, found.rejected) == 1
    assert json.loads(target.read_text())["field"] == "solution"
    assert os.listdir(target.parent) == ["rejected.jsonl"]


@settings(max_examples=150, deadline=None)
@given(
    content=st.binary(max_size=300), name=st.sampled_from(["a.json", "a.jsonl", "a.csv", "a.parquet", "a.gz"])
)
def test_no_bytes_raise(tmp_path_factory: pytest.TempPathFactory, content: bytes, name: str) -> None:
    file = tmp_path_factory.getbasetemp() / name
    file.write_bytes(content)
    found = read_annotations([file])
    assert found.samples or found.rejected


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from("AB"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None)
@given(
    field=st.sampled_from([*ROW, "images", "start", "end", "pass_rate", "trajectory", "split"]), value=VALUES
)
def test_no_value_raises(field: str, value: Any) -> None:
    found = read_row(**{field: value})
    assert len(found.samples) + len(found.rejected) == 1
    for sample in found.samples:
        json.dumps(dict(sample.extra), allow_nan=False)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda path: path.mkdir(), "a directory, not a file"),
        (lambda path: os.mkfifo(path), "a pipe or a device, not a file"),
        (lambda path: path.symlink_to("nowhere.mp4"), "a symbolic link to nowhere, not a file"),
    ],
    ids=["directory", "pipe", "link"],
)
def test_only_a_file_is_a_medium(tmp_path: Path, make: Any, told: str) -> None:
    make(tmp_path / "a.mp4")
    row = {**ROW, "path": "a.mp4"}
    assert told in rejection(read_annotations([row], video_root=tmp_path, check_media=True))


def read_table(tmp_path: Path, **columns: Any) -> Annotations:
    """Two rows in Parquet; the columns given replace those of `ROW`."""
    table = pyarrow.table({**{key: [value] * 2 for key, value in ROW.items()}, **columns})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    return read_annotations([tmp_path / "a.parquet"], video_root=tmp_path)


def test_text_that_a_table_holds_as_bytes_is_text(tmp_path: Path) -> None:
    """As writers do that leave the text mark of a column out."""
    found = read_table(
        tmp_path,
        problem=pyarrow.array([b"Which tool?", b"caf\xe9"], pyarrow.binary()),
        options=pyarrow.array([[b"saw", b"drill"]] * 2, pyarrow.list_(pyarrow.binary())),
    )
    (sample,) = found.samples
    assert (sample.problem, sample.options) == ("Which tool?", ("saw", "drill"))
    (rejected,) = found.rejected
    assert (rejected.row, rejected.field, rejected.reason) == (1, "problem", "not_utf8")


@pytest.mark.parametrize(
    "options",
    [
        pyarrow.array([{"A": "saw", "B": "drill", "C": None}] * 2),
        pyarrow.array([[("A", "saw"), ("B", "drill")]] * 2, pyarrow.map_(pyarrow.string(), pyarrow.string())),
    ],
    ids=["struct", "map"],
)
def test_options_by_letter_may_be_a_struct_or_a_map_of_a_table(tmp_path: Path, options: Any) -> None:
    found = read_table(tmp_path, options=options)
    assert [sample.options for sample in found.samples] == [("A. saw", "B. drill")] * 2
    assert not found.rejected


def test_a_table_that_names_a_column_twice_is_refused(tmp_path: Path) -> None:
    table = pyarrow.table([["q"], ["3"], ["5"]], names=["problem", "solution", "solution"])
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    assert "the column 'solution' twice" in rejection(read_annotations([tmp_path / "a.parquet"]))


@pytest.mark.parametrize("sign", [";", "|"])
def test_another_delimiter_is_named(tmp_path: Path, sign: str) -> None:
    found = read(tmp_path, sign.join(["problem", "solution"]) + "\n" + sign.join(["q", "3"]) + "\n", "a.csv")
    assert f"the delimiter is {sign!r}" in rejection(found)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("options", "['A. saw', 'B. drill']"),
        ("options", "['A. saw' 'B. drill']"),
        ("options", "{'A': 'saw', 'B': 'drill'}"),
        ("options", """["A. a carpenter's saw", 'B. drill']"""),
        ("path", "['videos/a.mp4']"),
    ],
)
def test_a_python_list_in_a_cell_is_named_with_the_way_out(tmp_path: Path, field: str, value: str) -> None:
    table = io.StringIO()
    row = {**ROW, "options": json.dumps(ROW["options"]), field: value}
    writer = csv.DictWriter(table, list(row))
    writer.writeheader()
    writer.writerow(row)
    found = read(tmp_path, table.getvalue(), "rows.csv")
    assert "Python list as text: write JSON" in rejection(found)
    assert found.rejected[0].field == field


def test_a_header_of_another_encoding_is_refused_with_a_message_that_can_be_written(tmp_path: Path) -> None:
    found = read(tmp_path, "id,question,réponse\n1,Who?,Ann\n".encode("latin-1"), "rows.csv")
    assert "the bytes of the header are not UTF-8" in rejection(found)
    assert write_rejected(tmp_path / "rejected.jsonl", found.rejected) == 1


def test_a_parquet_column_whose_name_is_no_text_damages_the_file(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([{**ROW, "notes": "x"}]), tmp_path / "rows.parquet")
    data = (tmp_path / "rows.parquet").read_bytes().replace(b"notes", b"n\xf4\xfftes"[:5])
    assert "damaged Parquet file" in rejection(read(tmp_path, data, "rows.parquet"))


@pytest.mark.parametrize(
    "answer", [{"time": "1 to 2"}, ["1 to 2"], [[[1, 2], [3, 4]]], {"start_time": 1, "end_time": 2}]
)
def test_spans_in_any_form_that_the_scorer_reads_are_taken(answer: Any) -> None:
    found = read_row(problem_type="temporal grounding", options=..., solution=answer)
    assert [json.loads(sample.answer) for sample in found.samples] == [answer]


def test_a_reversed_span_inside_a_text_is_found() -> None:
    found = read_row(problem_type="temporal grounding", options=..., solution={"time": "5 to 2"})
    assert "the end (2 s) lies before the start (5 s)" in rejection(found)


def test_decimals_of_a_table_are_numbers_of_an_answer(tmp_path: Path) -> None:
    row = {**ROW, "problem_type": "temporal grounding", "solution": [Decimal("0.50"), Decimal("1.25")]}
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([row]), tmp_path / "rows.parquet")
    [sample] = read_annotations([tmp_path / "rows.parquet"], video_root=tmp_path).samples
    assert sample.answer == '["0.50", "1.25"]'


def test_messages_about_bytes_that_are_no_text_can_be_written(tmp_path: Path) -> None:
    content = lines(rows(1)).encode() + b'{"problem": "a \\\xff"}\n'
    found = read(tmp_path, content, os.fsdecode(b"n\xffme.jsonl"))
    assert "unknown escape" in found.rejected[0].message.encode().decode()
    assert [sample.sample_id.encode() for sample in found.samples] == [b"n\\udcffme/0"]
    assert write_rejected(tmp_path / "rejected.jsonl", found.rejected) == 1
    [written] = (tmp_path / "rejected.jsonl").read_text().splitlines()
    assert json.loads(written)["message"] == found.rejected[0].message


def test_letters_before_the_texts_of_an_object_are_not_doubled() -> None:
    assert read_row(options={"B": "B. drill", "A": "A. saw"}).samples[0].options == ("A. saw", "B. drill")


def test_options_by_number_keep_the_order_of_the_numbers() -> None:
    given = {str(number): f"tool {number}" for number in range(1, 12)}
    found = read_row(options=given, solution="J")
    assert found.samples[0].options[9] == "10. tool 10"


@pytest.mark.parametrize(("value", "word"), [(None, "null"), (" ", "empty"), (3, "expected the name")])
def test_a_row_without_a_problem_type_says_what_it_has_instead(value: Any, word: str) -> None:
    assert word in rejection(read_annotations([{**ROW, "problem_type": value}], video_root="/media"))


@pytest.mark.parametrize(
    ("time", "words"),
    [([5, 2], "lies before the start"), ([-1, 2], "negative"), (["0:05", "0:02"], "before")],
)
def test_a_tube_with_a_reversed_or_negative_span_is_rejected(time: list[Any], words: str) -> None:
    answer = {"time": time, "boxes": {"1": [1, 2, 3, 4]}}
    found = read_row(problem_type="spatial-temporal grounding", options=..., solution=answer)
    assert words in rejection(found)


def test_an_object_that_names_no_path_is_told_what_it_may_name() -> None:
    assert "path, video, image" in rejection(read_row(path=..., videos=[{"a": "x.mp4"}]))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"data": [], "version": 2}', "no rows: the list under the key 'data' is empty"),
        ('{"a":' * 5000 + "1" + "}" * 5000, "nested"),
        ("\x00" * 600, "NUL bytes"),
    ],
)
def test_a_file_without_rows_says_why(tmp_path: Path, content: str, words: str) -> None:
    assert words in rejection(read(tmp_path, content, "a.json"))


def test_zeros_after_the_last_row_cost_no_row_before_them(tmp_path: Path) -> None:
    found = read(tmp_path, lines(rows(2)) + "\x00" * 512)
    assert len(found.samples) == 2
    assert "NUL bytes" in found.rejected[0].message


def test_a_path_that_the_system_cannot_look_up_costs_only_its_row(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_bytes(b"x")
    content = lines([{**ROW, "path": "a" * 300 + ".mp4"}, {**ROW, "path": "a.mp4", "problem_id": 2}])
    found = read(tmp_path, content, check_media=True)
    assert [sample.videos for sample in found.samples] == [("a.mp4",)]
    assert "cannot be looked up: File name too long" in found.rejected[0].message


@pytest.mark.parametrize("name", ["offline_log_probs", "offline_reward"])
def test_a_value_of_one_response_does_not_count_for_several(name: str) -> None:
    value = [-0.5] if name == "offline_log_probs" else 1.0
    found = read_row(offline_output=["one", "two"], **{name: value})
    assert "belongs to one response, but the row holds 2" in rejection(found)
    assert found.rejected[0].field == name


def test_probabilities_are_no_log_probabilities() -> None:
    assert "above 0" in rejection(read_row(offline_output="one", offline_log_probs=[0.9, 0.2]))


def column_with_a_bad_value(kind: str) -> pyarrow.Array:
    """Two values, the first of which Python cannot hold."""
    if kind == "text":
        offsets, data = (
            pyarrow.array([0, 2, 4], pyarrow.int32()).buffers()[1],
            pyarrow.py_buffer(b"\xff\xfeok"),
        )
        return pyarrow.Array.from_buffers(pyarrow.string(), 2, [None, offsets, data])
    type_ = pyarrow.timestamp("us") if kind == "timestamp" else pyarrow.duration("s")
    return pyarrow.array([10**18, 1], pyarrow.int64()).cast(type_)


@pytest.mark.parametrize("kind", ["text", "timestamp", "duration"])
def test_a_table_value_that_cannot_be_read_costs_only_its_row(tmp_path: Path, kind: str) -> None:
    table = pyarrow.Table.from_pylist(rows(2)).append_column("note", column_with_a_bad_value(kind))
    pyarrow.parquet.write_table(table, tmp_path / "rows.parquet")
    found = read_annotations([tmp_path / "rows.parquet"], video_root=tmp_path)
    assert [sample.sample_id for sample in found.samples] == ["rows/1"]
    assert [(one.row, one.field) for one in found.rejected] == [(0, "note")]

"""Importing responses, pass rates, and the best responses as an offline source."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer

import vrldata
from vrldata.commits import merge_rows
from vrldata.errors import AnnotationError, ConfigError, FilterError, StoreError, UriError
from vrldata.pass_rates import LEARNING_FRONTIER, best_of_filter, pass_rates, write_pass_rates
from vrldata.tables import sample_to_row
from vrldata.trajectories import import_trajectories
from vrldata.trajectory_scores import success_threshold
from vrldata.types import Sample, Trajectory


@pytest.fixture
def dataset(tmp_path: Path) -> vrldata.Dataset:
    made = vrldata.create(tmp_path / "clips")
    samples = [
        Sample(
            sample_id=f"train/q{number}",
            problem="Which way?",
            answer="B",
            problem_type="multiple_choice",
            options=("A. left", "B. right"),
            pass_rate=0.25 if number == 3 else None,
        )
        for number in range(4)
    ]
    samples.append(Sample(sample_id="keyless", problem="How many?", answer="many", problem_type="numerical"))
    merge_rows(made, "samples", [sample_to_row(sample) for sample in samples])
    return made


def write_jsonl(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def by_response(dataset: vrldata.Dataset) -> dict[str, Trajectory]:
    return {one.response: one for one in dataset.iter_trajectories()}


def test_responses_without_a_reward_are_scored(dataset: vrldata.Dataset, tmp_path: Path) -> None:
    right, wrong = "<think>x</think><answer>B</answer>", "<think>x</think><answer>A</answer>"
    file = write_jsonl(
        tmp_path / "r.jsonl",
        {"sample_id": "train/q0", "response": right},
        {"problem_id": "q1", "output": wrong, "temperature": 0.7},
        {"id": "q2", "response": "given", "reward": 0.5, "run": "own"},
        {"sample_id": "keyless", "response": "<answer>3</answer>"},
    )
    report = import_trajectories(dataset, [file], model="m", run_id="r", source="rollout")
    assert (report.read, report.added, report.scored, report.unscored) == (4, 4, 2, 1)
    found = by_response(dataset)
    assert (found[right].correct, found[right].rewards["accuracy"], found[right].run_id) == (True, 1.0, "r")
    assert (found[wrong].correct, found[wrong].sample_id) == (False, "train/q1")
    assert found[wrong].extra == {"temperature": 0.7}
    assert (found["given"].reward, found["given"].run_id, found["given"].model) == (0.5, "own", "m")
    assert (found["<answer>3</answer>"].reward, found["<answer>3</answer>"].correct) == (None, None)


def test_importing_twice_adds_nothing_and_a_list_is_a_group(dataset: vrldata.Dataset, tmp_path: Path) -> None:
    same = ["<answer>B</answer>", "<answer>B</answer>", "<answer>A</answer>"]
    file = write_jsonl(tmp_path / "r.jsonl", {"sample_id": "train/q0", "responses": same})
    assert import_trajectories(dataset, [file]).added == 3
    again = import_trajectories(dataset, [file])
    assert (again.read, again.added, again.scored) == (3, 0, 0)
    assert dataset.trajectories.count() == 3


def test_parquet_with_every_column(dataset: vrldata.Dataset, tmp_path: Path) -> None:
    rows = pa.table(
        {
            "trajectory_id": ["t"],
            "sample_id": ["train/q0"],
            "response": ["text"],
            "source": ["eval"],
            "step": [7],
            "policy_version": [3],
            "rewards": pa.array([[("accuracy", 1.0)]], pa.map_(pa.string(), pa.float32())),
            "reward": [0.9],
            "correct": [True],
            "num_tokens": [2],
            "finish_reason": ["stop"],
            "token_ids": pa.array([[5, 6]], pa.list_(pa.int32())),
            "log_probs": pa.array([[-0.5, -1.0]], pa.list_(pa.float32())),
        }
    )
    pq.write_table(rows, tmp_path / "r.parquet")
    assert import_trajectories(dataset, [tmp_path / "r.parquet"]).rejected == ()
    [one] = dataset.iter_trajectories()
    assert (one.trajectory_id, one.source, one.step, one.policy_version) == ("t", "eval", 7, 3)
    assert (dict(one.rewards), one.correct, one.finish_reason) == ({"accuracy": 1.0}, True, "stop")
    assert (one.token_ids, one.log_probs) == ((5, 6), (-0.5, -1.0))


def test_csv_cells_hold_numbers_and_json(dataset: vrldata.Dataset, tmp_path: Path) -> None:
    file = tmp_path / "r.csv"
    file.write_text(
        "sample_id,response,reward,correct,step,rewards,token_ids,log_probs,temperature\n"
        'train/q0,"first line\nsecond, ""quoted""",0.5,True,7,"{""accuracy"": 0.5}","[5, 6]","[-0.5, -1]",1\n'
        "train/q1,<answer>B</answer>,,,,,,,\n"
    )
    report = import_trajectories(dataset, [file])
    assert (report.read, report.added, report.scored, report.rejected) == (2, 2, 1, ())
    found = by_response(dataset)
    given = found['first line\nsecond, "quoted"']
    assert (given.reward, given.correct, given.step, dict(given.rewards)) == (0.5, True, 7, {"accuracy": 0.5})
    assert (given.token_ids, given.log_probs, given.extra) == ((5, 6), (-0.5, -1.0), {"temperature": "1"})
    scored = found["<answer>B</answer>"]
    assert (scored.correct, scored.token_ids, dict(scored.extra)) == (True, None, {"temperature": None})


def test_csv_lists_of_responses_are_groups_and_other_text_is_a_response(
    dataset: vrldata.Dataset, tmp_path: Path
) -> None:
    file = tmp_path / "r.csv.gz"
    text = 'id\tresponses\nq0\t["<answer>A</answer>", "[1, 2]"]\nq1\t[not json\n'
    file.write_bytes(gzip.compress(text.encode()))
    file = file.rename(tmp_path / "r.tsv.gz")
    assert import_trajectories(dataset, [file]).rejected == ()
    assert {one.response: one.sample_id for one in dataset.iter_trajectories()} == {
        "<answer>A</answer>": "train/q0",
        "[1, 2]": "train/q0",
        "[not json": "train/q1",
    }


def test_csv_faults_name_line_and_column(dataset: vrldata.Dataset, tmp_path: Path) -> None:
    cells = tmp_path / "cells.csv"
    cells.write_text('sample_id,response,rewards\ntrain/q0,x,{1\ntrain/q0,y\ntrain/q0,z,"{""a"": 1}"\n')
    header = tmp_path / "header.csv"
    header.write_text("sample_id,respnse\ntrain/q0,x\n")
    other = tmp_path / "other.csv"
    other.write_text("sample_id;response\ntrain/q0;x\n")
    report = import_trajectories(dataset, [cells, header, other])
    found = [(Path(one.file).name, one.line, one.field, one.reason) for one in report.rejected]
    assert found == [
        ("cells.csv", 2, "rewards", "bad_json"),
        ("cells.csv", 3, None, "wrong_columns"),
        ("header.csv", 1, "response", "missing_column"),
        ("other.csv", 1, "response", "delimiter"),
    ]
    assert "did you mean 'response'?" in report.rejected[2].message
    assert list(by_response(dataset)) == ["z"]


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_trajectories_written_by_a_query_come_back(
    dataset: vrldata.Dataset, tmp_path: Path, ending: str
) -> None:
    from vrldata.commands.query import query

    given = Trajectory(
        trajectory_id="",
        sample_id="train/q0",
        response="<answer>B</answer>\n",
        source="rollout",
        model="m",
        run_id="r",
        step=3,
        rewards={"accuracy": 1.0},
        reward=1.0,
        correct=True,
        num_tokens=2,
        finish_reason="stop",
        token_ids=(5, 6),
        log_probs=(-0.5, -1.0),
        extra={"temperature": 0.7, "tags": ["a"]},
    )
    dataset.add_trajectories([given])
    file = tmp_path / f"rows.{ending}"
    query(dataset.root, "SELECT * FROM trajectories", output_format=None, out=file, json_output=False)
    other = vrldata.create(tmp_path / "other")
    merge_rows(other, "samples", dataset.samples.to_table())
    assert import_trajectories(other, [file]).rejected == ()
    assert list(other.iter_trajectories()) == list(dataset.iter_trajectories())


def nested(levels: int) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for _ in range(levels):
        made = {"inside": made}
    return made


@pytest.mark.parametrize(
    ("row", "reason", "field"),
    [
        ({"sample_id": "nope", "response": "x"}, "unknown_sample", "sample_id"),
        ({"response": "x"}, "missing_field", "sample_id"),
        ({"sample_id": "train/q0"}, "missing_field", "response"),
        ({"sample_id": "train/q0", "response": " "}, "bad_field", "response"),
        ({"sample_id": "train/q0", "response": 3}, "bad_field", "response"),
        ({"sample_id": "train/q0", "output": ["x", None]}, "bad_field", "output"),
        ({"sample_id": "train/q0", "response": "x", "reward": "high"}, "bad_field", "reward"),
        ({"sample_id": "train/q0", "response": "x", "reward": 1e300}, "bad_field", "reward"),
        ({"sample_id": "train/q0", "response": "x", "step": 1.5}, "bad_field", "step"),
        ({"sample_id": "train/q0", "response": "x", "step": 2**80}, "bad_field", "step"),
        ({"sample_id": "train/q0", "response": "x", "token_ids": [2**31]}, "bad_field", "token_ids"),
        ({"sample_id": "train/q0", "response": "x", "log_probs": [float("nan")]}, "bad_field", "log_probs"),
        ({"sample_id": "train/q0", "response": "\ud800"}, "not_utf8", "response"),
        ({"sample_id": "train/q0", "response": "x", "model": "\ud800"}, "not_utf8", "model"),
        ({"sample_id": "train/q0", "response": "x", "note": ["\ud800"]}, "not_utf8", "extra"),
        ({"sample_id": "train/q0", "response": "x", "correct": "maybe"}, "bad_field", "correct"),
        ({"sample_id": "train/q0", "response": "x", "source": "dream"}, "bad_field", "source"),
        ({"sample_id": "train/q0", "response": "x", "token_ids": "1 2"}, "bad_field", "token_ids"),
        ({"sample_id": "train/q0", "response": "x", "rewards": [1]}, "bad_field", "rewards"),
        ({"sample_id": "train/q0", "responses": ["x", "y"], "reward": 1}, "one_value_of_many", "reward"),
        ({"sample_id": "train/q0", "response": "x", "reward": 10**400}, "bad_field", "reward"),
        ({"sample_id": "train/q0", "response": "x", "step": 10**400}, "bad_field", "step"),
        ({"sample_id": "train/q0", "response": "x", "rewards": {"a": 10**400}}, "bad_field", "rewards"),
        ({"sample_id": "train/q0", "response": "x", "num_tokens": -1}, "bad_field", "num_tokens"),
        ({"sample_id": "train/q0", "response": "x", "token_ids": [-1]}, "bad_field", "token_ids"),
        ({"sample_id": "train/q0", "response": "x", "log_probs": [0.9]}, "bad_field", "log_probs"),
        (
            {"sample_id": "train/q0", "response": "x", "token_ids": [1, 2], "log_probs": [-1.0]},
            "bad_field",
            "log_probs",
        ),
        ({"sample_id": "train/q0", "response": "x", "note": nested(400)}, "nested_too_deep", "extra"),
        ("no row", None, None),
    ],
)
def test_a_bad_row_costs_only_itself(
    dataset: vrldata.Dataset, tmp_path: Path, row: Any, reason: str | None, field: str | None
) -> None:
    file = write_jsonl(tmp_path / "r.jsonl", {"sample_id": "train/q0", "response": "good"}, row)
    report = import_trajectories(dataset, [file])
    [rejection] = report.rejected
    assert rejection.line == 2
    assert f"{file}:2" in rejection.message
    if reason is not None:
        assert (rejection.reason, rejection.field) == (reason, field)
    assert list(by_response(dataset)) == ["good"]
    listed = [json.loads(line) for line in Path(str(report.rejected_file)).read_text().splitlines()]
    assert [one["message"] for one in listed] == [rejection.message]


@pytest.mark.parametrize("name", ["r.jsonl", "r.csv"])
def test_a_misspelt_field_is_told_with_the_near_name_and_what_is_there(
    dataset: vrldata.Dataset, tmp_path: Path, name: str
) -> None:
    write_jsonl(tmp_path / "r.jsonl", {"sample_id": "train/q0", "reponse": "x", "note": 1})
    (tmp_path / "r.csv").write_text("sample_id,reponse,note\ntrain/q0,x,1\n")
    [rejection] = import_trajectories(dataset, [tmp_path / name]).rejected
    assert "missing; there is 'reponse': did you mean 'response'?" in rejection.message
    assert rejection.message.endswith("present: sample_id, reponse, note")


def test_a_line_that_is_not_json_is_told_as_elsewhere(dataset: vrldata.Dataset, tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_text('{"sample_id": "train/q0", "response": "x"\n')
    [rejection] = import_trajectories(dataset, [tmp_path / "r.jsonl"]).rejected
    assert rejection.message.startswith(f"{tmp_path}/r.jsonl:1: not JSON: ")


def test_a_key_that_stands_twice_is_a_fault_of_its_row(dataset: vrldata.Dataset, tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    file.write_text('{"sample_id": "train/q0", "response": "x", "response": "y"}\n')
    [rejection] = import_trajectories(dataset, [file]).rejected
    assert "the key 'response' stands twice" in rejection.message


def test_an_id_that_a_data_frame_made_a_float_is_found(dataset: vrldata.Dataset, tmp_path: Path) -> None:
    merge_rows(
        dataset,
        "samples",
        [sample_to_row(Sample(sample_id="val/7", problem="?", answer="A", problem_type="ocr"))],
    )
    report = import_trajectories(dataset, [write_jsonl(tmp_path / "r.jsonl", {"id": 7.0, "response": "x"})])
    assert report.added == 1


@pytest.mark.parametrize("layout", ["objects over lines", "old Mac lines", "rows under a key"])
def test_responses_in_any_layout_of_json(dataset: vrldata.Dataset, tmp_path: Path, layout: str) -> None:
    given = [{"sample_id": "train/q0", "response": "x"}, {"sample_id": "train/q1", "response": "y"}]
    text = {
        "objects over lines": "\n".join(json.dumps(row, indent=1) for row in given),
        "old Mac lines": "".join(json.dumps(row) + "\r" for row in given),
        "rows under a key": json.dumps({"data": given}, indent=1),
    }[layout]
    file = tmp_path / "r.json"
    file.write_bytes(text.encode())
    assert import_trajectories(dataset, [file]).rejected == ()
    assert set(by_response(dataset)) == {"x", "y"}


def test_a_file_of_blank_lines_holds_no_rows(dataset: vrldata.Dataset, tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    file.write_text("\n \n")
    [rejection] = import_trajectories(dataset, [file]).rejected
    assert (rejection.whole_file, rejection.reason) == (True, "no_rows")


def test_bytes_that_are_no_text_in_parquet_cost_only_their_row(
    dataset: vrldata.Dataset, tmp_path: Path
) -> None:
    offsets, data = pa.array([0, 2, 4], pa.int32()).buffers()[1], pa.py_buffer(b"\xff\xfeok")
    responses = pa.Array.from_buffers(pa.string(), 2, [None, offsets, data])
    pq.write_table(pa.table({"sample_id": ["train/q0"] * 2, "response": responses}), tmp_path / "r.parquet")
    [rejection] = import_trajectories(dataset, [tmp_path / "r.parquet"]).rejected
    assert (rejection.row, rejection.field, rejection.reason) == (0, "response", "not_utf8")
    assert set(by_response(dataset)) == {"ok"}


def test_an_id_of_two_annotation_files_is_ambiguous(dataset: vrldata.Dataset, tmp_path: Path) -> None:
    other = Sample(sample_id="val/q0", problem="?", answer="A", problem_type="ocr")
    merge_rows(dataset, "samples", [sample_to_row(other)])
    file = write_jsonl(tmp_path / "r.jsonl", {"id": "q0", "response": "x"}, {"id": "q1", "response": "y"})
    report = import_trajectories(dataset, [file])
    assert [one.reason for one in report.rejected] == ["ambiguous_sample"]
    assert list(by_response(dataset)) == ["y"]


def test_missing_files_and_releases_are_refused(dataset: vrldata.Dataset, tmp_path: Path) -> None:
    with pytest.raises(AnnotationError, match="no such file"):
        import_trajectories(dataset, [tmp_path / "none.jsonl"])
    dataset.create_release("v1")
    file = write_jsonl(tmp_path / "r.jsonl", {"sample_id": "train/q0", "response": "x"})
    with pytest.raises(StoreError, match="immutable"):
        import_trajectories(vrldata.open(f"{dataset.root}@v1"), [file])


def add_outcomes(dataset: vrldata.Dataset, run_id: str, outcomes: dict[str, list[bool | None]]) -> None:
    dataset.add_trajectories(
        Trajectory(
            trajectory_id=f"{run_id}-{sample_id}-{place}",
            sample_id=sample_id,
            response=f"{place}",
            source="rollout",
            run_id=run_id,
            correct=correct,
            reward=None if correct is None else correct * (1 - place / 10),
        )
        for sample_id, listed in outcomes.items()
        for place, correct in enumerate(listed)
    )


OUTCOMES: dict[str, list[bool | None]] = {
    "train/q0": [True, True, True, True],
    "train/q1": [True, False, False, None],
    "train/q2": [False, False],
    "keyless": [None, None],
}


def test_pass_rate_counts_wrong_as_wrong_and_leaves_out_only_the_unscored(dataset: vrldata.Dataset) -> None:
    add_outcomes(dataset, "probe", OUTCOMES)
    add_outcomes(dataset, "other", {"train/q2": [True]})
    rates = {row["sample_id"]: row for row in pass_rates(dataset, ["probe"], min_responses=0).to_pylist()}
    assert [rates[name]["pass_rate"] for name in sorted(rates)] == [
        None,
        1.0,
        pytest.approx(1 / 3),
        0.0,
    ]
    assert rates["train/q1"] == {**rates["train/q1"], "num_responses": 3, "num_correct": 1, "num_unscored": 1}
    both = {row["sample_id"]: row["pass_rate"] for row in pass_rates(dataset, ["probe", "other"]).to_pylist()}
    assert both["train/q2"] == pytest.approx(1 / 3)
    assert "keyless" not in both


def test_written_pass_rates_select_the_learning_frontier(dataset: vrldata.Dataset) -> None:
    add_outcomes(dataset, "probe", OUTCOMES)
    assert write_pass_rates(dataset, pass_rates(dataset, ["probe"])) == 3
    frontier = vrldata.open(f"{dataset.root}?filter={LEARNING_FRONTIER}")
    assert sorted(one.sample_id for one in frontier.iter_samples()) == ["train/q1", "train/q3"]
    kept = dataset.sample("train/q0")
    assert (kept.pass_rate, kept.options) == (1.0, ("A. left", "B. right"))
    assert dataset.samples.count() == 5


def grounded(dataset: vrldata.Dataset) -> vrldata.Dataset:
    """With a sample `span` of a graded type, whose answer is 0 s to 10 s."""
    sample = Sample(sample_id="span", problem="When?", answer="[0, 10]", problem_type="temporal_grounding")
    merge_rows(dataset, "samples", [sample_to_row(sample)])
    return dataset


SPANS = ("<answer>[0, 9]</answer>", "<answer>[0, 6]</answer>", "<answer>[0, 3]</answer>")
"""Responses with an IoU of 0.9, 0.6 and 0.3."""


@pytest.mark.parametrize(("correct_from", "right"), [(None, 2), (0.9, 1), (0.3, 3)])
def test_a_graded_answer_is_correct_from_a_threshold(
    dataset: vrldata.Dataset, tmp_path: Path, correct_from: float | None, right: int
) -> None:
    file = write_jsonl(
        tmp_path / "r.jsonl",
        {"sample_id": "span", "responses": SPANS},
        {"sample_id": "train/q0", "response": "<answer>A</answer>"},
    )
    import_trajectories(grounded(dataset), [file], run_id="probe", correct_from=correct_from)
    found = by_response(dataset)
    assert [found[response].correct for response in SPANS] == [place < right for place in range(3)]
    assert found["<answer>A</answer>"].correct is False


def test_a_pass_rate_is_cut_again_by_the_accuracy(
    dataset: vrldata.Dataset, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [
        {"sample_id": "span", "responses": SPANS, "run": "probe"},
        {"sample_id": "span", "response": SPANS[2], "reward": 1, "correct": True, "run": "own"},
        {"sample_id": "train/q0", "responses": ["<answer>B</answer>", "<answer>A</answer>"], "run": "probe"},
    ]
    import_trajectories(grounded(dataset), [write_jsonl(tmp_path / "r.jsonl", *rows)])

    def rates(runs: list[str], **options: float) -> list[float]:
        return [row["pass_rate"] for row in pass_rates(dataset, runs, **options).to_pylist()]  # type: ignore[arg-type]

    assert rates(["probe"]) == [pytest.approx(2 / 3), 0.5]
    assert rates(["probe"], correct_from=0.9) == [pytest.approx(1 / 3), 0.5]
    assert rates(["probe"], correct_from=0.3) == [1.0, 0.5]
    assert not caplog.messages
    assert rates(["own"], correct_from=0.9) == [1.0]
    assert caplog.messages == [
        "correct_from: 1 response without an accuracy, which `correct` counts by instead"
    ]


@pytest.mark.parametrize("correct_from", [0.0, 1.5, -1.0])
def test_a_threshold_that_all_or_none_would_reach_is_refused(
    dataset: vrldata.Dataset, correct_from: float
) -> None:
    add_outcomes(dataset, "probe", OUTCOMES)
    with pytest.raises(ConfigError, match="expected an accuracy above 0, up to 1"):
        pass_rates(dataset, ["probe"], correct_from=correct_from)
    with pytest.raises(ConfigError, match="expected an accuracy above 0, up to 1"):
        import_trajectories(dataset, [], correct_from=correct_from)


def test_threshold_of_success_depends_on_the_type() -> None:
    assert success_threshold("multiple_choice") == 1.0
    assert success_threshold("regression") == 0.5
    assert success_threshold("regression", 0.7) == 0.7


def test_a_selection_of_the_uri_is_not_ignored(dataset: vrldata.Dataset) -> None:
    selected = vrldata.open(f"{dataset.root}?split=train")
    with pytest.raises(UriError, match="a pass rate takes the whole dataset"):
        pass_rates(selected, ["probe"])
    with pytest.raises(UriError, match="add-trajectories takes the whole dataset"):
        import_trajectories(selected, [])


def test_a_minimum_of_responses_that_no_sample_has_is_told(
    dataset: vrldata.Dataset, capsys: pytest.CaptureFixture[str]
) -> None:
    from vrldata.commands.trajectories import pass_rate

    add_outcomes(dataset, "probe", OUTCOMES)
    pass_rate(dataset.root, run=["probe"], min_responses=5, write=True)
    assert capsys.readouterr().out == "no sample has 5 scored responses or more; no pass_rate was written\n"


def test_an_unknown_run_lists_the_runs(dataset: vrldata.Dataset) -> None:
    add_outcomes(dataset, "probe-1", OUTCOMES)
    add_outcomes(dataset, "probe-2", OUTCOMES)
    add_outcomes(dataset, "", {"train/q0": [True]})
    with pytest.raises(
        FilterError, match=r"'porbe-1'\. Did you mean 'probe-1'\? Runs: 'probe-1', 'probe-2'\."
    ):
        pass_rates(dataset, ["porbe-1"])
    with pytest.raises(FilterError, match=r"2 runs begin with 'probe'.* 1 trajectory belongs to no run"):
        pass_rates(dataset, ["probe"])


def test_the_beginning_of_a_run_will_do_where_it_is_unique(
    dataset: vrldata.Dataset, caplog: pytest.LogCaptureFixture
) -> None:
    add_outcomes(dataset, "first-b19a451a", OUTCOMES)
    add_outcomes(dataset, "first", {"train/q2": [True]})
    add_outcomes(dataset, "second-b19a451a", {"train/q2": [True]})
    assert pass_rates(dataset, ["sec"])["sample_id"].to_pylist() == ["train/q2"]
    assert caplog.messages == [
        "no run is called 'sec': counted is 'second-b19a451a', the only one that begins so"
    ]
    assert pass_rates(dataset, ["first"])["num_responses"].to_pylist() == [1]


def test_a_given_reward_stays_and_correct_is_scored_beside_it(
    dataset: vrldata.Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from vrldata.commands.trajectories import add_trajectories

    file = write_jsonl(
        tmp_path / "r.jsonl",
        {"sample_id": "train/q0", "response": "<answer>B</answer>", "reward": 0.5},
        {"sample_id": "train/q0", "response": "<answer>A</answer>", "reward": 0.25, "correct": True},
    )
    add_trajectories(dataset.root, [file], run="own")
    assert "2 new (0 scored here, 2 with their own reward, 0 cannot be scored)" in capsys.readouterr().out
    found = by_response(vrldata.open(dataset.root))
    assert (found["<answer>B</answer>"].reward, found["<answer>B</answer>"].correct) == (0.5, True)
    assert (found["<answer>A</answer>"].reward, found["<answer>A</answer>"].correct) == (0.25, True)
    assert pass_rates(dataset, ["own"])["num_responses"].to_pylist() == [2]


def test_best_of_is_a_view_and_a_filter(dataset: vrldata.Dataset) -> None:
    add_outcomes(dataset, "probe", OUTCOMES)
    view = dataset.sql("SELECT trajectory_id FROM best_of(2, 0.9) ORDER BY 1")["trajectory_id"].to_pylist()
    assert view == ["probe-train/q0-0", "probe-train/q0-1", "probe-train/q1-0"]
    best = dataset.iter_trajectories(filter=best_of_filter(1, 0.9))
    assert sorted(one.trajectory_id for one in best) == ["probe-train/q0-0", "probe-train/q1-0"]
    opened = vrldata.open(f"{dataset.root}?filter={best_of_filter(1, 0.9)}")
    assert len(list(opened.iter_trajectories())) == 2
    with pytest.raises(FilterError, match="best=0"):
        best_of_filter(0)


def test_commands_report_and_exit_1_for_rejected_rows(
    dataset: vrldata.Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from vrldata.commands.trajectories import add_trajectories, pass_rate

    file = write_jsonl(
        tmp_path / "r.jsonl",
        {"sample_id": "train/q0", "response": "<answer>B</answer>"},
        {"sample_id": "nope", "response": "x"},
    )
    with pytest.raises(typer.Exit) as stopped:
        add_trajectories(dataset.root, [file], run="probe")
    assert stopped.value.exit_code == 1
    assert "1 response read, 1 new (1 scored here" in capsys.readouterr().out
    pass_rate(dataset.root, run=["probe"], write=True)
    assert "pass_rate of 1 sample written" in capsys.readouterr().out

"""SQL over the tables of a dataset, and how its results are written."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import vrldata
from vrldata import query, query_source
from vrldata.commits import delete_rows, merge_rows
from vrldata.errors import FilterError, UriError
from vrldata.query import filter_rows
from vrldata.tables import sample_to_row
from vrldata.types import Sample, Trajectory

PROBLEMS = ("What colour is the red car?", "Count the dogs that run", "红色的车往哪边转?")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> vrldata.Dataset:
    made = vrldata.create(tmp_path_factory.mktemp("query") / "clips")
    samples = [
        Sample(
            sample_id=f"s{number}",
            problem=problem,
            answer="B",
            problem_type=("math", "ocr", "math")[number],
            options=("left", "right"),
            extra={"difficulty": {"level": number}},
        )
        for number, problem in enumerate(PROBLEMS)
    ]
    merge_rows(made, "samples", [sample_to_row(sample) for sample in samples])
    made.add_trajectories(
        Trajectory(
            trajectory_id=f"t{number}",
            sample_id=f"s{number % 3}",
            response="I think the red car turns left" if number % 2 else "blue car",
            source="rollout",
            model=f"model-{number % 2}",
            run_id="run-1",
            step=number,
            rewards={"accuracy": float(number % 2), "format": 1.0},
            reward=number / 10,
        )
        for number in range(6)
    )
    return made


def test_group_by_and_having(dataset: vrldata.Dataset) -> None:
    rows = dataset.sql(
        "SELECT model, count(*) AS n, sum(step) AS steps FROM trajectories "
        "GROUP BY model HAVING n > 1 ORDER BY 1"
    )
    assert rows.to_pylist() == [
        {"model": "model-0", "n": 3, "steps": 6},
        {"model": "model-1", "n": 3, "steps": 9},
    ]


def test_join_with_samples(dataset: vrldata.Dataset) -> None:
    rows = dataset.sql(
        "SELECT problem_type, max(reward) AS best FROM trajectories JOIN samples USING (sample_id) "
        "GROUP BY problem_type ORDER BY 1"
    )
    assert rows["problem_type"].to_pylist() == ["math", "ocr"]
    assert rows["best"].to_pylist() == pytest.approx([0.5, 0.4])


def test_window_function(dataset: vrldata.Dataset) -> None:
    rows = dataset.sql(
        "SELECT trajectory_id FROM (SELECT trajectory_id, row_number() OVER (PARTITION BY sample_id ORDER BY "
        "reward DESC) AS place FROM trajectories) WHERE place = 1 ORDER BY 1"
    )
    assert rows["trajectory_id"].to_pylist() == ["t3", "t4", "t5"]


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT trajectory_id FROM trajectories WHERE rewards['accuracy'] = 1 ORDER BY 1",
        "SELECT t.trajectory_id FROM trajectories t WHERE t.rewards['accuracy'] > 0.5 ORDER BY 1",
        "WITH good AS (SELECT * FROM trajectories WHERE rewards['accuracy'] = 1) "
        "SELECT trajectory_id FROM good WHERE rewards['format'] = 1 ORDER BY 1",
        "SELECT trajectory_id FROM (SELECT * FROM trajectories) AS t "
        "WHERE t.rewards['accuracy'] = 1 ORDER BY 1",
    ],
)
def test_reward_components_by_key(dataset: vrldata.Dataset, statement: str) -> None:
    assert dataset.sql(statement)["trajectory_id"].to_pylist() == ["t1", "t3", "t5"]


def test_reward_component_that_no_row_has_is_null(dataset: vrldata.Dataset) -> None:
    rows = dataset.sql("SELECT rewards['speed'] AS speed, response FROM trajectories LIMIT 1")
    assert rows["speed"].to_pylist() == [None]


def test_json_fields_of_extra(dataset: vrldata.Dataset) -> None:
    rows = dataset.sql(
        "SELECT sample_id FROM samples WHERE (extra->'$.difficulty.level')::INT >= 1 "
        "AND extra->'difficulty'->>'level' <> '2'"
    )
    assert rows["sample_id"].to_pylist() == ["s1"]


def test_list_functions(dataset: vrldata.Dataset) -> None:
    rows = dataset.sql("SELECT len(options) AS n, options[1] AS first FROM samples LIMIT 1")
    assert rows.to_pylist() == [{"n": 2, "first": "left"}]


def test_full_text_search_folds_and_stems(dataset: vrldata.Dataset) -> None:
    assert dataset.sql("SELECT sample_id FROM samples WHERE match(problem, 'Dog')")[
        "sample_id"
    ].to_pylist() == ["s1"]


def test_full_text_search_finds_words_of_scripts_without_spaces(dataset: vrldata.Dataset) -> None:
    rows = dataset.sql("SELECT sample_id FROM samples WHERE match(problem, '红色')")
    assert rows["sample_id"].to_pylist() == ["s2"]


def test_full_text_search_for_a_phrase_and_for_all_words(dataset: vrldata.Dataset) -> None:
    phrase = dataset.sql("SELECT count(*) AS n FROM trajectories WHERE match(response, '\"red car\"')")
    every = dataset.sql("SELECT count(*) AS n FROM trajectories t WHERE match_all(t.response, 'car blue')")
    some = dataset.sql("SELECT count(*) AS n FROM trajectories WHERE match(response, 'car blue')")
    assert [rows["n"][0].as_py() for rows in (phrase, every, some)] == [3, 3, 6]


def test_full_text_rank_orders_matches(dataset: vrldata.Dataset) -> None:
    rows = dataset.sql(
        "SELECT trajectory_id, bm25(response, 'left car') AS rank FROM trajectories "
        "WHERE match(response, 'left car') ORDER BY rank DESC, trajectory_id LIMIT 1"
    )
    assert rows["trajectory_id"].to_pylist() == ["t1"]


def test_full_text_search_beside_text_of_several_bytes_a_character(dataset: vrldata.Dataset) -> None:
    rows = dataset.sql(
        "SELECT '红色é' AS word, t.sample_id FROM trajectories t JOIN samples s USING (sample_id) "
        "WHERE match(s.problem, 'dogs') AND t.rewards['accuracy'] = 1"
    )
    assert rows.to_pylist() == [{"word": "红色é", "sample_id": "s1"}]


def test_same_column_twice_keeps_both(dataset: vrldata.Dataset) -> None:
    rows = dataset.sql("SELECT a.step, b.step FROM trajectories a JOIN trajectories b ON a.step + 1 = b.step")
    assert rows.schema.names == ["step", "step_1"]


def test_frames_come_without_pixels(dataset: vrldata.Dataset) -> None:
    assert "frames" not in dataset.sql("SELECT * FROM frames").schema.names


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT clip_id, frames FROM frames",
        "SELECT Frames FROM frames",
        "SELECT frames.frames FROM frames",
        "SELECT f.frames FROM frames f",
    ],
)
def test_pixels_asked_for_as_a_column_are_told_where_they_are(
    dataset: vrldata.Dataset, statement: str
) -> None:
    with pytest.raises(FilterError, match=r"^SQL: no column 'frames' in SQL: pixels are read by ds\.clip\("):
        dataset.sql(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT num_frames AS frames FROM frames ORDER BY frames",
        "SELECT sum(frames) FROM (SELECT num_frames FROM frames) t(frames)",
        "WITH frames AS (SELECT 1 AS step) SELECT frames FROM frames",
        "SELECT frames.clip_id FROM frames",
    ],
)
def test_frames_may_be_the_name_of_something_else(dataset: vrldata.Dataset, statement: str) -> None:
    assert dataset.sql(statement).num_columns == 1


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("SELECT rewrd FROM trajectories", "no column 'rewrd' in trajectories. Did you mean 'reward'?"),
        ("SELECT t.rewrd FROM trajectories t", "no column 'rewrd' in trajectories. Did you mean 'reward'?"),
        ("SELECT problem FROM trajectories", "It is a column of samples."),
        ("SELECT * FROM trajectorys", "no table 'trajectorys'. Did you mean 'trajectories'?"),
        ("SELEC 1", "syntax error"),
        ("SELECT end FROM samples", "double quotes"),
        ("SELECT match(answer, 'x') FROM samples", "searches one of: problem, response"),
        ("", "expected one SELECT statement"),
        ("SELECT 1; SELECT 2", "expected one SELECT statement, found 2"),
    ],
)
def test_wrong_sql_is_one_line_that_names_the_way_out(
    dataset: vrldata.Dataset, statement: str, message: str
) -> None:
    with pytest.raises(FilterError) as caught:
        dataset.sql(statement)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM samples",
        "INSERT INTO samples (sample_id) VALUES ('x')",
        "UPDATE samples SET answer = 'x'",
        "DROP TABLE samples",
        "CREATE TABLE more AS SELECT * FROM samples",
        "COPY samples TO '{folder}/out.csv'",
        "ATTACH '{folder}/other.db'",
        "INSTALL httpfs",
        "SET threads = 1",
        "SELECT * FROM read_csv('{folder}/secret.csv')",
        "SELECT * FROM read_text('{folder}/secret.csv')",
        "SELECT * FROM '{folder}/secret.csv'",
        "SELECT * FROM glob('{folder}/*')",
        "SELECT 1; COPY samples TO '{folder}/out.csv'",
    ],
)
def test_statements_can_do_nothing_but_read_the_tables(
    dataset: vrldata.Dataset, tmp_path: Path, statement: str
) -> None:
    (tmp_path / "secret.csv").write_text("a\n1\n")
    with pytest.raises(FilterError):
        dataset.sql(statement.format(folder=tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["secret.csv"]
    assert dataset.samples.count() == 3


def test_predicates_of_a_uri_read_the_same_grammar(dataset: vrldata.Dataset) -> None:
    rows = filter_rows(
        dataset, "trajectories", filter="rewards['accuracy'] = 1 AND step > 1 -- a comment", columns=["step"]
    )
    assert rows["step"].to_pylist() == [3, 5]
    opened = vrldata.open(f"{dataset.root}?filter=(extra->'$.difficulty.level')::INT = 2")
    assert [sample.sample_id for sample in opened.iter_samples()] == ["s2"]


@pytest.mark.parametrize("predicate", ["1=1) OR (1=1", "reward > ", "rewrd > 1", "1=1; DROP TABLE samples"])
def test_wrong_predicate_is_named(dataset: vrldata.Dataset, predicate: str) -> None:
    with pytest.raises(FilterError, match="filter"):
        filter_rows(dataset, "trajectories", filter=predicate)


def test_a_new_table_in_the_same_place_is_read_anew(tmp_path: Path) -> None:
    import shutil

    for answer in ("first", "second"):
        made = vrldata.create(tmp_path / "clips")
        merge_rows(
            made,
            "samples",
            [sample_to_row(Sample(sample_id="a", problem="?", answer=answer, problem_type="ocr"))],
        )
        assert made.sql("SELECT answer FROM samples")["answer"].to_pylist() == [answer]
        shutil.rmtree(made.root)


def run_query(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    program = "from vrldata.cli import main; main()"
    return subprocess.run([sys.executable, "-c", program, "query", *arguments], capture_output=True)


def test_command_writes_every_format(dataset: vrldata.Dataset, tmp_path: Path) -> None:
    from vrldata.commands.query import query as command

    statement = "SELECT trajectory_id, rewards, created_at, extra FROM trajectories ORDER BY 1"
    for name in ("rows.csv", "rows.jsonl", "rows.parquet", "rows.arrow", "rows.txt"):
        command(dataset.root, statement, output_format=None, out=tmp_path / name, json_output=False)
    first = json.loads((tmp_path / "rows.jsonl").read_text().splitlines()[0])
    assert first["rewards"] == {"accuracy": 0.0, "format": 1.0}
    assert pq.read_table(tmp_path / "rows.parquet").num_rows == 6
    with pa.ipc.open_file(tmp_path / "rows.arrow") as file:
        assert file.read_all()["trajectory_id"].to_pylist() == [f"t{number}" for number in range(6)]
    assert (tmp_path / "rows.csv").read_text().splitlines()[0] == "trajectory_id,rewards,created_at,extra"
    assert (tmp_path / "rows.txt").read_text().endswith("(6 rows)\n")


@pytest.mark.parametrize("name", ["rows.xlsx", "rows.json", "rows"])
def test_a_file_whose_ending_names_no_format_is_refused(
    dataset: vrldata.Dataset, tmp_path: Path, name: str
) -> None:
    done = run_query(dataset.root, "SELECT 1", "--out", str(tmp_path / name))
    assert done.returncode == 2
    assert b"Endings: .csv, .jsonl, .parquet, .arrow, .txt" in done.stderr
    assert not (tmp_path / name).exists()
    assert (
        run_query(dataset.root, "SELECT 1", "--out", str(tmp_path / name), "--format", "csv").returncode == 0
    )
    assert (tmp_path / name).read_text().splitlines() == ["1", "1"]


def test_command_line_reports_a_wrong_column_with_exit_code_2(dataset: vrldata.Dataset) -> None:
    done = run_query(dataset.root, "SELECT rewrd FROM trajectories")
    assert done.returncode == 2
    assert done.stderr.decode().startswith("error: SQL: no column 'rewrd'")
    assert b"Traceback" not in done.stderr


def test_a_selection_of_the_uri_is_not_ignored_in_silence(dataset: vrldata.Dataset) -> None:
    done = run_query(f"{dataset.root}?split=val", "SELECT count(*) FROM samples")
    assert done.returncode == 2
    assert b"a statement takes the whole dataset" in done.stderr
    with pytest.raises(UriError, match="info takes the whole dataset"):
        vrldata.open(f"{dataset.root}?limit=1").info()


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELECT count(*) AS n FROM trajectories", [{"n": 6}]),
        ("SELECT t.step AS step FROM trajectories t WHERE t.step = 3", [{"step": 3}]),
        ("SELECT STEP AS step FROM Trajectories WHERE STEP = 3", [{"step": 3}]),
        ("SELECT (t).step AS step FROM trajectories t WHERE t.step = 3", [{"step": 3}]),
        ("SELECT struct_extract(t, 'step') AS step FROM trajectories t WHERE t.step = 3", [{"step": 3}]),
        ("SELECT count(*) AS n FROM trajectories NATURAL JOIN samples", [{"n": 0}]),
        ("SELECT sum(step) AS n FROM trajectories JOIN samples USING (sample_id)", [{"n": 15}]),
        (
            "SELECT avg(rewards['accuracy']) AS p, max(rewards['format']) AS f FROM trajectories",
            [{"p": 0.5, "f": 1.0}],
        ),
        (
            "SELECT rewards['accuracy'] AS a, len(map_keys(rewards)) AS n FROM trajectories WHERE step = 1",
            [{"a": 1.0, "n": 2}],
        ),
        ("SELECT step FROM trajectories WHERE trajectory_id = 't4'", [{"step": 4}]),
    ],
)
def test_columns_kept_in_memory_give_the_same_rows(
    dataset: vrldata.Dataset, statement: str, expected: list[dict[str, object]]
) -> None:
    for _ in range(2):
        assert dataset.sql(statement).to_pylist() == expected


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> vrldata.Dataset:
    """Rows in two fragments with some deleted, with equal and missing rewards, and an order of their own."""
    made = vrldata.create(tmp_path_factory.mktemp("query") / "many")
    for part in range(2):
        made.add_trajectories(
            Trajectory(
                trajectory_id=f"t{number}",
                sample_id=f"s{number % 7}",
                response=f"response {number} of a car" if number % 3 else f"response {number}",
                source="rollout",
                step=number * 37 % 100,
                rewards={"accuracy": (number * 13 % 10) / 10},
                reward=None if number % 11 == 0 else (number * 7 % 50) / 50,
                extra={"number": number},
            )
            for number in range(part * 100, part * 100 + 100)
        )
    delete_rows(made, "trajectories", ["t0", "t50", "t150"])
    return made


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM trajectories ORDER BY step, trajectory_id LIMIT 5",
        "SELECT * FROM trajectories ORDER BY reward DESC NULLS LAST, trajectory_id LIMIT 7 OFFSET 3",
        "SELECT * FROM trajectories t WHERE t.reward > 0.5 ORDER BY t.reward, t.trajectory_id LIMIT 4",
        "SELECT * EXCLUDE (created_at) FROM Trajectories ORDER BY STEP DESC, trajectory_id LIMIT 2",
        "SELECT extra FROM trajectories WHERE response LIKE '%car%' ORDER BY step, response LIMIT 9",
        "SELECT upper(response) AS text, reward * 2 AS twice FROM trajectories ORDER BY twice, 1 LIMIT 3",
        "SELECT response, -step AS step FROM trajectories ORDER BY step, trajectory_id LIMIT 4",
        "SELECT response, -reward AS low FROM trajectories WHERE low < -0.5 ORDER BY low, 1 LIMIT 4",
        "SELECT response, rewards['accuracy'] AS a FROM trajectories ORDER BY a DESC, trajectory_id LIMIT 6",
        "SELECT * FROM trajectories ORDER BY rewards['accuracy'], (extra->>'number')::INT DESC LIMIT 6",
        "SELECT * FROM trajectories WHERE match(response, 'car') ORDER BY step, trajectory_id LIMIT 5",
        "SELECT response, bm25(response, '\"17 of\"') AS rank FROM trajectories "
        "WHERE match(response, '\"17 of\"') ORDER BY rank DESC, trajectory_id LIMIT 5",
        "SELECT * FROM trajectories WHERE reward > 5 ORDER BY step LIMIT 5",
        "SELECT * FROM trajectories WHERE step = 37 AND reward > 0",
        "SELECT * FROM trajectories WHERE sample_id = 's3' ORDER BY step",
        "SELECT * FROM trajectories t WHERE 's3' = t.Sample_ID AND step > 50 ORDER BY step LIMIT 2",
        "SELECT count(*) AS n, max(step) AS m FROM trajectories WHERE sample_id = 's3' AND reward > 0.5",
        "SELECT * FROM trajectories WHERE sample_id = 'it''s' OR sample_id = 's3' ORDER BY trajectory_id",
        "SELECT * FROM trajectories WHERE sample_id = 'it''s'",
        "SELECT count(*) AS n FROM (SELECT * FROM trajectories ORDER BY step LIMIT 30) "
        "WHERE sample_id = 's3'",
        "SELECT count(*) AS n FROM trajectories t WHERE sample_id = 's3' AND EXISTS "
        "(SELECT 1 FROM trajectories u WHERE u.step = t.step AND u.sample_id <> 's3')",
        "SELECT t.step, u.step AS other FROM trajectories t JOIN trajectories u USING (sample_id) "
        "WHERE t.trajectory_id = 't3' ORDER BY other",
        "SELECT trajectory_id FROM trajectories WHERE sample_id = 's3' UNION ALL "
        "SELECT trajectory_id FROM trajectories WHERE step = 7 ORDER BY 1",
        "SELECT response, rewards['accuracy'] AS a FROM trajectories WHERE step < 3",
        "SELECT sample_id FROM trajectories WHERE match(response, '\"17 of\"')",
        "SELECT count(*) OVER () AS n, response FROM trajectories WHERE step < 3",
        "SELECT t FROM trajectories t WHERE step < 3",
        "SELECT * FROM trajectories WHERE step > 3",
        "SELECT response, step FROM trajectories WHERE step > 3 AND reward > 0.2 ORDER BY step, 1",
        "SELECT sample_id, max(response) AS best FROM trajectories WHERE step > 3 GROUP BY 1 ORDER BY 1",
        "SELECT response FROM trajectories WHERE response LIKE '%car%'",
        "SELECT response FROM trajectories WHERE response LIKE '%17%'",
        "SELECT response FROM trajectories LIMIT 4 OFFSET 2",
        "SELECT * FROM trajectories LIMIT 150",
        "SELECT * FROM trajectories WHERE step > 50 LIMIT 5 OFFSET 1",
        "SELECT 1 AS one FROM trajectories WHERE step > 50 LIMIT 2",
        "SELECT * FROM trajectories ORDER BY step LIMIT 0",
        "SELECT max(response) FROM trajectories ORDER BY 1 LIMIT 1",
        "SELECT sample_id, max(response) AS best FROM trajectories GROUP BY 1 ORDER BY best LIMIT 3",
        "SELECT DISTINCT sample_id, left(response, 8) AS l FROM trajectories ORDER BY 1, 2 LIMIT 3",
        "SELECT response, row_number() OVER (ORDER BY step, trajectory_id) AS n FROM trajectories "
        "ORDER BY n LIMIT 3",
        "SELECT unnest(string_split(response, ' ')) AS word FROM trajectories ORDER BY word LIMIT 3",
        "SELECT * FROM trajectories WHERE step > (SELECT avg(step) FROM trajectories) "
        "ORDER BY step, trajectory_id LIMIT 3",
        "SELECT t.response FROM trajectories t JOIN (SELECT 's1' AS sample_id) USING (sample_id) "
        "ORDER BY t.response LIMIT 3",
        "SELECT * FROM trajectories ORDER BY 1 LIMIT 2",
        "SELECT * FROM trajectories ORDER BY ALL LIMIT 2",
        "SELECT * FROM trajectories ORDER BY step, trajectory_id LIMIT 1 + 1",
        "SELECT * FROM trajectories ORDER BY step, trajectory_id LIMIT 1%",
    ],
)
def test_rows_taken_late_are_those_of_the_whole_table(
    many: vrldata.Dataset, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    found = many.sql(statement)
    monkeypatch.setattr(query, "_few_rows", lambda *arguments: None)
    expected = many.sql(statement)
    assert found.schema == expected.schema
    assert found.to_pylist() == expected.to_pylist()


def test_few_rows_are_taken_without_reading_wide_columns_of_the_others(
    many: vrldata.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    class Watched(query_source.TableSource):
        def in_memory(self, columns: Sequence[str]) -> pa.Table | None:
            read.extend(columns)
            return super().in_memory(columns)

        def scanner(self, *arguments: object, **options: object) -> object:
            raise AssertionError("the table was scanned")

    monkeypatch.setattr(query, "TableSource", Watched)
    rows = many.sql("SELECT * FROM trajectories WHERE reward > 0.1 ORDER BY step, trajectory_id LIMIT 2")
    assert rows.num_rows == 2
    assert set(read) == {"reward", "step", "trajectory_id", "__position"}


def test_the_place_of_rows_is_no_column_of_a_statement(many: vrldata.Dataset) -> None:
    with pytest.raises(FilterError, match="no column '__position'"):
        many.sql("SELECT __position FROM trajectories")
    with pytest.raises(FilterError, match=r"no column 'stepp'.*Did you mean 'step'"):
        many.sql("SELECT * FROM trajectories ORDER BY stepp LIMIT 2")


@pytest.mark.parametrize(
    ("columns", "table", "key"),
    [
        ("*", "trajectories", "sample_id = 's1'"),
        ("*", "trajectories", "'t4' = trajectory_id"),
        ("reward, rewards, trajectory_id", "trajectories", "trajectory_id = 't4'"),
        ("response r, *", "trajectories", "sample_id = 's1'"),
        ("t.* EXCLUDE (extra)", "trajectories t", "t.sample_id = 's1'"),
        ("REWARD", "trajectories", "sample_id = 's1'"),
        ("trajectories", "trajectories", "sample_id = 's1'"),
        ("*, *", "samples", "sample_id = 's1'"),
        ("*", "samples", "sample_id = 's''1'"),
        ("*", "frames", "clip_id = 's1'"),
        ("DISTINCT model", "trajectories", "sample_id = 's1'"),
        ("count(*)", "trajectories", "sample_id = 's1'"),
    ],
)
def test_rows_of_one_key_are_those_of_any_other_statement(
    dataset: vrldata.Dataset, columns: str, table: str, key: str
) -> None:
    by_key = dataset.sql(f"SELECT {columns} FROM {table} WHERE {key}")
    left, right = key.split(" = ")
    by_scan = dataset.sql(f"SELECT {columns} FROM {table} WHERE concat({left}, '') = concat({right}, '')")
    assert by_key.schema.equals(by_scan.schema)
    assert by_key.to_pylist() == by_scan.to_pylist()


def test_a_plain_lookup_may_be_written_in_any_way(dataset: vrldata.Dataset) -> None:
    expected = dataset.sql("SELECT * FROM trajectories WHERE 's1' = sample_id").to_pylist()
    assert expected
    for text in (
        "select * from Trajectories\nwhere SAMPLE_ID='s1' ;",
        "SELECT * FROM trajectories WHERE sample_id = 's1' --",
    ):
        assert dataset.sql(text).to_pylist() == expected
    with pytest.raises(FilterError, match="trajectory_id"):
        dataset.sql("SELECT * FROM samples WHERE trajectory_id = 't4'")


def test_tables_are_listed(dataset: vrldata.Dataset) -> None:
    names = dataset.sql("SHOW TABLES").column("name").to_pylist()
    assert names == ["failures", "frames", "releases", "samples", "trajectories"]
    described = dataset.sql("DESCRIBE frames").column("column_name").to_pylist()
    assert "clip_id" in described
    assert "frames" not in described


@pytest.mark.parametrize("predicate", [" ", "reward = " + "1 + " * 10_000])
def test_a_predicate_that_is_none_is_quoted_in_short(dataset: vrldata.Dataset, predicate: str) -> None:
    with pytest.raises(FilterError) as raised:
        dataset.trajectories.count(predicate)
    assert len(str(raised.value)) < 800
    assert "expected one predicate" in str(raised.value) or "syntax error" in str(raised.value)

"""The journal: what a killed process leaves behind, and who may write."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.eval.examples import make_prediction
from vrldata.errors import BenchmarkError, ConfigError
from vrleval.journal import Journal, from_json, read_journal, to_json, write_atomically


def test_a_line_gives_back_the_prediction() -> None:
    import json

    prediction = make_prediction(
        "q1", 0.0, parts={"tiou": 0.25}, options=("A. x", "B. y"), response="Grüße\n<b>", groups={"dim": "a"}
    )
    assert from_json(json.dumps(to_json(prediction))) == prediction


def test_a_torn_last_line_is_dropped_and_the_next_one_stands_alone(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.append(make_prediction("q1", 1.0))
        journal.append(make_prediction("q2", 0.0))
    path = tmp_path / "predictions.jsonl"
    path.write_bytes(path.read_bytes()[:-9])
    with Journal(tmp_path) as journal:
        journal.append(make_prediction("q3", 1.0))
    assert sorted(read_journal(tmp_path)) == ["q1", "q3"]


def test_a_damaged_line_in_the_middle_costs_only_itself(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.append(make_prediction("q1", 1.0))
    with open(tmp_path / "predictions.jsonl", "a") as file:
        file.write('{"key": "q2", "stat\n')
    with Journal(tmp_path) as journal:
        journal.append(make_prediction("q3", 1.0))
    assert sorted(read_journal(tmp_path)) == ["q1", "q3"]


def test_lines_of_another_configuration_are_kept_and_not_read(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.append(make_prediction("q1", 1.0, config="old"))
        journal.append(make_prediction("q1", 0.0, config="new"))
    assert read_journal(tmp_path, "old")["q1"].score == 1.0
    assert read_journal(tmp_path, "new")["q1"].score == 0.0


def test_the_last_line_of_a_question_counts(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.append(make_prediction("q1", 0.0, status="engine_failed"))
        journal.append(make_prediction("q1", 1.0))
    assert read_journal(tmp_path)["q1"].score == 1.0


def test_two_runs_cannot_write_to_one_folder(tmp_path: Path) -> None:
    with Journal(tmp_path), pytest.raises(ConfigError, match="another run writes there"):
        Journal(tmp_path)


def test_a_folder_without_a_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match=r"no predictions\.jsonl"):
        read_journal(tmp_path)


def test_what_was_appended_survives_kill_9(tmp_path: Path) -> None:
    program = (
        "import sys, time\n"
        f"sys.path.insert(0, {str(Path(__file__).parents[2])!r})\n"
        "from pathlib import Path\n"
        "from tests.eval.examples import make_prediction\n"
        "from vrleval.journal import Journal\n"
        f"journal = Journal(Path({str(tmp_path)!r}))\n"
        "for number in range(100):\n"
        "    journal.append(make_prediction(f'q{number}', 1.0))\n"
        "print('written', flush=True)\n"
        "time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "written"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert len(read_journal(tmp_path)) == 100
    with Journal(tmp_path):  # the lock died with its process
        pass


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    write_atomically(path, "old")
    write_atomically(path, "new")
    assert path.read_text() == "new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["summary.json"]

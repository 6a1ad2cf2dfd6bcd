"""Hostile and careless use of the command line: one clear line, the right exit code, nothing half done."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import vrldata
from tests.data.mounts import tmpfs
from tests.data.synthetic_video import write_video
from vrldata.command_line import shown
from vrldata.commands.build import parse_bytes
from vrldata.commands.maintain import parse_age

PROGRAM = "from vrldata.cli import main; main()"


def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        errors="replace",
    )


def one_error(done: subprocess.CompletedProcess[str], words: str) -> None:
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source")
    rows = []
    for number in range(3):
        write_video(folder / f"v{number}.mp4", 30 + number)
        rows.append(
            {"id": number, "problem": "How many?", "answer": "4", "problem_type": "numerical"}
            | {"videos": [f"v{number}.mp4"]}
        )
    (folder / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder


def test_an_empty_annotation_path_is_not_the_working_folder(source: Path, tmp_path: Path) -> None:
    one_error(run("build", "", "--out", tmp_path / "clips", "--video-root", source), "is empty")
    assert not (tmp_path / "clips").exists()


@pytest.mark.parametrize("text", ["1e400", "1e300TB"])
def test_a_budget_beyond_all_disks_is_no_number_of_bytes(text: str) -> None:
    with pytest.raises(vrldata.ConfigError, match="no number of bytes"):
        parse_bytes(text)


def test_an_age_beyond_all_calendars_is_no_age() -> None:
    with pytest.raises(vrldata.ConfigError, match="no age"):
        parse_age("99999999999999d")


def test_a_file_in_place_of_a_dataset_is_called_a_file(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    one_error(run("info", tmp_path / "notes.txt"), "is a file, not the folder of a dataset")


def test_common_options_stand_before_or_after_the_command(clips: vrldata.Dataset) -> None:
    loud, quiet, before = (
        run(*arguments)
        for arguments in (
            ["verify", clips.root, "--log-json"],
            ["verify", clips.root, "-q"],
            ["-q", "verify", clips.root],
        )
    )
    assert {loud.returncode, quiet.returncode, before.returncode} == {0}
    assert json.loads(loud.stderr.splitlines()[0])["level"] == "info"
    assert quiet.stderr == before.stderr == ""


def test_text_of_a_dataset_cannot_steer_the_terminal(
    make_dataset: Callable[..., vrldata.Dataset], tmp_path: Path
) -> None:
    dataset = make_dataset(tmp_path / "clips", 1)
    dataset.create_release("v1", "\x1b[31mred\x1b]0;title\x07\x00\u202e")
    done = run("releases", dataset.root)
    assert done.returncode == 0
    assert "\\x1b[31mred\\x1b]0;title\\x07\\x00\\u202e" in done.stdout
    assert all(char.isprintable() or char == "\n" for char in done.stdout)
    assert shown("a\tb\nc\ud800") == "a\tb\nc\\ud800"


def test_json_has_no_nan_and_no_half_characters(clips: vrldata.Dataset) -> None:
    statement = "SELECT 'nan'::FLOAT AS a, 'inf'::DOUBLE AS b, map {'x': 'nan'::FLOAT} AS c"
    lines = [run("query", clips.root, statement, "--json").stdout]
    lines.append(run("query", clips.root, statement, "--format", "jsonl").stdout)

    def refuse(name: str) -> None:
        raise AssertionError(name)

    for line in lines:
        json.loads(line, parse_constant=refuse)
    root = os.fsdecode(b"no\xffwhere")
    one_error(run("info", root), "no\\udcffwhere")


def test_output_in_an_encoding_without_the_characters_is_no_error(
    make_dataset: Callable[..., vrldata.Dataset], tmp_path: Path
) -> None:
    dataset = make_dataset(tmp_path / "clips", 1)
    dataset.create_release("v1", "Größe 长度")
    done = run("releases", dataset.root, PYTHONIOENCODING="latin-1")
    assert done.returncode == 0, done.stderr
    assert "\\u957f\\u5ea6" in done.stdout
    told = json.loads(run("releases", dataset.root, "--json", PYTHONIOENCODING="latin-1").stdout)
    assert told["releases"][0]["message"] == "Größe 长度"


def test_an_interrupted_build_says_how_to_go_on_and_leaves_no_process(source: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, "build", str(source / "train.jsonl"), "--workers", "2"]
    command += ["--out", str(tmp_path / "clips"), "--video-root", str(source)]
    # a test run started in the background hands down an ignored interrupt
    heard = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        builder = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    finally:
        signal.signal(signal.SIGINT, heard)
    # once the tables are there the build waits for its decoders to start
    while not (tmp_path / "clips/data/releases.lance/_versions").exists() and builder.poll() is None:
        time.sleep(0.01)
    os.killpg(builder.pid, signal.SIGINT)
    _, told = builder.communicate()
    assert builder.returncode == 130
    assert told.splitlines()[-1] == "interrupted; run the same command again to continue"
    assert "Traceback" not in told
    assert not processes_of_group(builder.pid)


def processes_of_group(group: int) -> list[str]:
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            found.append(status.parent.name)
    return found


def test_a_disk_that_is_full_before_the_tables_are_made(source: Path, tmp_path: Path) -> None:
    build = ["build", source / "train.jsonl", "--video-root", source, "--workers", 0, "-q"]
    with tmpfs(tmp_path / "disk", "16k") as disk:
        one_error(run(*build, "--out", disk / "clips"), "the disk is full")
        disk.remount("size=40m")
        done = run(*build, "--out", disk / "clips")
        assert (done.returncode, done.stderr) == (0, "")
        assert vrldata.open(disk / "clips").verify(deep=True).ok


def test_a_release_on_a_read_only_disk_is_one_line(
    make_dataset: Callable[..., vrldata.Dataset], tmp_path: Path
) -> None:
    with tmpfs(tmp_path / "disk", "40m") as disk:
        dataset = make_dataset(disk / "clips", 2)
        disk.remount("ro")
        one_error(run("release", dataset.root, "v1"), "Read-only file system")
        assert run("info", dataset.root).returncode == 0
        disk.remount("rw")
        assert run("release", dataset.root, "v1").returncode == 0


def test_a_misspelt_command_is_told_the_nearest() -> None:
    one_error(run("biuld"), "Did you mean 'build'?")


EVERY_TYPE = """SELECT time '1:02:03' AS t, interval 1 day AS i, uuid() AS u, date '2026-01-02' AS d,
    'a'::BLOB AS b, {'x': [time '4:05:06']} AS s, 1.5::DECIMAL(10, 2) AS n, NULL AS none, true AS yes"""


@pytest.mark.parametrize("name", ["table", "csv", "jsonl"])
def test_every_type_of_sql_can_be_printed(clips: vrldata.Dataset, name: str) -> None:
    done = run("query", clips.root, EVERY_TYPE, "--format", name)
    assert done.returncode == 0, done.stderr
    assert "01:02:03" in done.stdout
    assert "2026-01-02" in done.stdout


def test_a_type_that_parquet_lacks_is_one_line(clips: vrldata.Dataset, tmp_path: Path) -> None:
    done = run("query", clips.root, EVERY_TYPE, "--out", tmp_path / "rows.parquet")
    one_error(done, "cast it in the statement")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "address", ["127.0.0.1:1", "ray://127.0.0.1:1", "nowhere.invalid:6379", "127.0.0.1:99999"]
)
def test_a_ray_cluster_that_is_not_there_is_one_line(source: Path, tmp_path: Path, address: str) -> None:
    pytest.importorskip("ray")
    build = ["build", source / "train.jsonl", "--video-root", source, "--out", tmp_path / "clips"]
    one_error(run(*build, "--ray", address), f"--ray {address}: no cluster there")


@pytest.fixture(scope="module")
def clips_folder(
    tmp_path_factory: pytest.TempPathFactory, make_dataset: Callable[..., vrldata.Dataset]
) -> Path:
    """A dataset with one sample and one release."""
    root = tmp_path_factory.mktemp("clips") / "clips"
    make_dataset(root, 1).create_release("v1")
    return root


@pytest.mark.parametrize(
    "arguments",
    [
        ("query", "{root}", "SELECT 1", "--out", "{file}/a.csv"),
        ("export", "{root}", "--format", "jsonl", "--out", "{file}/folder"),
        ("preview", "{root}", "--png", "{file}/a.png"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_place_that_cannot_be_written_is_one_line(
    clips_folder: Path, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    (tmp_path / "file").write_text("")
    given = [argument.format(root=clips_folder, file=tmp_path / "file") for argument in arguments]
    one_error(run(*given), "Not a directory")


@pytest.mark.parametrize(
    "command", [("verify",), ("compact",), ("gc",), ("diff", "v1", "latest"), ("card",), ("releases",)]
)
def test_what_concerns_the_whole_dataset_takes_no_selection(
    clips_folder: Path, command: tuple[str, ...]
) -> None:
    done = run(command[0], f"{clips_folder}?limit=1", *command[1:])
    one_error(done, "takes the whole dataset: leave out ?filter")


def test_a_statement_may_begin_with_a_comment(clips_folder: Path) -> None:
    done = run("query", clips_folder, "-- how many\nSELECT count(*) AS n FROM samples", "--format", "jsonl")
    assert (done.returncode, json.loads(done.stdout)) == (0, {"n": 1})


def test_an_unknown_protocol_stores_nothing(clips_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"sample_id": "s0", "response": "A"}))
    done = run("add-trajectories", clips_folder, tmp_path / "a.jsonl", "--protocol", "trian")
    one_error(done, "Did you mean 'train'?")
    assert vrldata.open(clips_folder).trajectories.count() == 0


def test_the_version_is_told() -> None:
    assert run("--version").stdout == f"vrl {vrldata.__version__}\n"

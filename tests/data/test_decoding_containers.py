"""What a file is, and what its container keeps from the decoder, told from its content."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("av")

import av
from PIL import Image

import vrldata.picture
import vrldata.video_stream
from tests.data.synthetic_video import number_in, picture, write_video
from vrldata.decoding import decode
from vrldata.errors import DecodeError
from vrldata.sampling import SamplingSpec


def numbers(clip):
    return [number_in(frame) for frame in clip.frames]


def jpeg(number, *, size=(96, 192), orientation=None, quality=90):
    """A JPEG picture of `number` whose EXIF tag, if any, says how to turn it."""
    turns = {None: 0, 3: 2, 6: 1, 8: 3}
    pixels = np.rot90(picture(number, *size), turns[orientation])
    exif = Image.Exif()
    if orientation:
        exif[0x0112] = orientation
    content = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(content, "JPEG", quality=quality, exif=exif)
    return content.getvalue()


@pytest.mark.parametrize("orientation", [3, 6, 8])
def test_motion_jpeg_is_turned_by_the_exif_tag_of_its_pictures(tmp_path: Path, orientation: int):
    file = tmp_path / "camera.mjpeg"
    file.write_bytes(b"".join(jpeg(number, orientation=orientation) for number in range(4)))
    clip = decode(file, SamplingSpec(max_frames=4))
    assert numbers(clip) == [0, 1, 2, 3]
    assert clip.frames.shape[1:3] == (96, 192)


def test_motion_jpeg_with_large_pictures_is_a_video(tmp_path: Path):
    noise = np.random.default_rng(0).integers(0, 256, (4, 320, 480, 3), dtype=np.uint8)
    contents = [io.BytesIO() for _ in noise]
    for pixels, content in zip(noise, contents, strict=True):
        Image.fromarray(pixels).save(content, "JPEG", quality=95)
    assert all(content.tell() > 100_000 for content in contents)
    file = tmp_path / "large.mjpeg"
    file.write_bytes(b"".join(content.getvalue() for content in contents))
    clip = decode(file)
    assert (clip.kind, clip.metadata.total_num_frames) == ("video", 4)


def test_a_photo_with_a_preview_behind_its_end_is_an_image(tmp_path: Path):
    file = tmp_path / "photo.jpg"
    file.write_bytes(jpeg(5) + jpeg(5, size=(48, 96)))
    assert decode(file).kind == "image"


def test_an_animation_that_plays_once_is_a_video_however_large_its_first_picture(tmp_path: Path):
    noise = np.random.default_rng(0).integers(0, 256, (3, 300, 400), dtype=np.uint8)
    first, *rest = [Image.fromarray(pixels) for pixels in noise]
    file = tmp_path / "once.gif"
    first.save(file, save_all=True, append_images=rest, duration=200)
    content = file.read_bytes()
    assert b"NETSCAPE2.0" not in content
    assert b"\x21\xf9\x04" not in content[900:65536]
    clip = decode(file)
    assert (clip.kind, clip.metadata.total_num_frames) == ("video", 3)
    first.save(tmp_path / "still.gif")
    assert decode(tmp_path / "still.gif").kind == "image"


def test_an_animated_png_may_carry_long_texts_before_its_frames(tmp_path: Path):
    from PIL.PngImagePlugin import PngInfo

    texts = PngInfo()
    texts.add_text("note", "x" * 100_000)
    pictures = [Image.fromarray(picture(number, 96, 192)) for number in range(4)]
    file = tmp_path / "a.png"
    pictures[0].save(file, save_all=True, append_images=pictures[1:], duration=500, pnginfo=texts)
    clip = decode(file, SamplingSpec(max_frames=4))
    assert clip.kind == "video"
    assert numbers(clip) == [0, 1, 2, 3]


def test_a_palette_that_comes_once_serves_every_frame(tmp_path: Path):
    """QuickTime Animation in 8 bit: the palette goes with the first packet alone."""
    file = tmp_path / "palette.mov"
    with av.open(str(file), "w") as container:
        stream = container.add_stream("qtrle", rate=10)
        stream.width, stream.height, stream.pix_fmt = 192, 96, "gray"
        for number in range(10):
            frame = av.VideoFrame.from_ndarray(picture(number, 96, 192), format="rgb24")
            container.mux(stream.encode(frame.reformat(format="gray")))
        container.mux(stream.encode(None))
    clip = decode(file, SamplingSpec(fps=10))
    assert numbers(clip) == list(range(10))


def test_an_animated_avif_is_its_track_and_not_its_title_picture(tmp_path: Path):
    file = tmp_path / "a.avif"
    pictures = [Image.fromarray(picture(number, 96, 192)) for number in range(4)]
    pictures[0].save(file, save_all=True, append_images=pictures[1:], duration=500, quality=90)
    clip = decode(file, SamplingSpec(max_frames=4))
    assert clip.kind == "video"
    assert numbers(clip) == [0, 1, 2, 3]


def test_a_picture_over_the_limit_is_named_with_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for module in (vrldata.picture, vrldata.video_stream):
        monkeypatch.setattr(module, "MAX_PICTURE_PIXELS", 10_000)
    file = write_video(tmp_path / "large.mp4", 4)
    with pytest.raises(DecodeError, match=r"large\.mp4: a picture of 192 x 128 is over the limit of 10000"):
        decode(file)


def write_broadcast(file: Path, *, with_sound: bool) -> Path:
    """Two seconds of a transport stream, numbered from 0."""
    with av.open(str(file), "w", format="mpegts") as container:
        stream = container.add_stream("libx264", rate=30, options={"g": "15", "preset": "ultrafast"})
        stream.width, stream.height, stream.pix_fmt = 192, 96, "yuv420p"
        sound = container.add_stream("mp2", rate=48_000) if with_sound else None
        for number in range(60):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture(number, 96, 192), format="rgb24")))
            if sound is not None:
                silence = np.zeros((1, 2 * 1600), dtype=np.int16)
                samples = av.AudioFrame.from_ndarray(silence, format="s16", layout="stereo")
                samples.sample_rate = 48_000
                container.mux(sound.encode(samples))
        container.mux(stream.encode(None))
    return file


def test_a_sound_track_that_begins_midway_is_passed_over(tmp_path: Path):
    parts = [write_broadcast(tmp_path / f"{sound}.ts", with_sound=sound) for sound in (False, True)]
    file = tmp_path / "joined.ts"
    file.write_bytes(b"".join(part.read_bytes() for part in parts))
    clip = decode(file, SamplingSpec(fps=4))
    assert clip.metadata.total_num_frames == 120
    assert numbers(clip) == (clip.metadata.frame_indices % 60).tolist()


def test_a_matrix_that_cannot_be_converted_is_told(tmp_path: Path):
    """YCgCo by its tag."""
    file = write_video(tmp_path / "a.mp4", 4, **{"x264-params": "colormatrix=YCgCo"})
    clip = decode(file)
    assert numbers(clip) == [0, 1, 2, 3]
    assert any("read as BT.601" in warning for warning in clip.warnings)


def test_a_size_that_no_machine_has_is_damage_and_not_a_shortage(monkeypatch: pytest.MonkeyPatch):
    vrldata.video_stream.refuse_shortage(MemoryError("Cannot allocate memory"))
    monkeypatch.setattr(vrldata.video_stream, "_SPARE_BYTES", 1 << 62)
    with pytest.raises(MemoryError, match="Cannot allocate memory"):
        vrldata.video_stream.refuse_shortage(MemoryError("Cannot allocate memory"))


@pytest.mark.parametrize("suffix", ["avif", "webp", "png", "tiff", "jpg", "gif", "jp2"])
def test_a_damaged_picture_is_a_reason_whatever_its_reader_stumbles_over(tmp_path: Path, suffix: str):
    whole = io.BytesIO()
    Image.fromarray(picture(5, 96, 192)).save(whole, {"jpg": "jpeg", "jp2": "jpeg2000"}.get(suffix, suffix))
    random = np.random.default_rng(0)
    file = tmp_path / f"a.{suffix}"
    reasons = []
    for _ in range(60):
        content = np.frombuffer(whole.getvalue(), dtype=np.uint8).copy()
        places = random.integers(0, min(len(content), 400), 3)
        content[places] = random.integers(0, 256, 3)
        file.write_bytes(content.tobytes()[: random.integers(20, len(content) + 1)])
        try:
            assert decode(file, SamplingSpec().for_image(), kind="image").frames.shape[0] == 1
        except DecodeError as error:
            reasons.append(str(error))
    assert reasons
    assert all(reason.startswith(str(file)) for reason in reasons)

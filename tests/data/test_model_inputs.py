"""What models are given: placeholders in order, frames without a copy, no second sampling or resizing."""

from __future__ import annotations

import numpy as np

from tests.eval.examples import make_clip
from vrldata.model_inputs import chat_messages, num_visual_tokens, processor_media, vllm_multi_modal_data


def kinds(prompt: str, *clips_kinds: str) -> list[str]:
    clips = [make_clip(kind=kind) for kind in clips_kinds]
    return [part.get("text", part["type"]) for part in chat_messages(prompt, clips)[0]["content"]]


def test_media_come_first_where_the_prompt_names_no_place() -> None:
    assert kinds("What moves?", "video", "image") == ["video", "image", "What moves?"]


def test_placeholders_in_the_prompt_decide_where_media_stand() -> None:
    assert kinds("First <video> then <image> and?", "video", "image") == [
        "First ",
        "video",
        " then ",
        "image",
        " and?",
    ]


def test_placeholders_that_do_not_match_the_clips_are_dropped() -> None:
    assert kinds("<video><video>What moves?", "video") == ["video", "What moves?"]


def test_a_system_prompt_comes_first() -> None:
    roles = [message["role"] for message in chat_messages("x", [], system="Be brief.")]
    assert roles == ["system", "user"]


def test_vllm_gets_frames_and_metadata_without_a_copy() -> None:
    clip = make_clip(frames=4)
    ((frames, metadata),) = vllm_multi_modal_data([clip])["video"]
    assert np.shares_memory(frames, clip.frames)
    assert metadata["frames_indices"] == [0, 12, 24, 36]
    assert metadata["do_sample_frames"] is False
    (bare,) = vllm_multi_modal_data([clip], with_metadata=False)["video"]
    assert bare is clip.frames
    assert vllm_multi_modal_data([]) == {}


def test_a_processor_gets_the_same_frames_and_is_told_to_leave_them() -> None:
    clip, image = make_clip(frames=4), make_clip(kind="image")
    media = processor_media([clip, image])
    assert media["videos"][0] is clip.frames
    assert "do_sample_frames" not in media["video_metadata"][0]
    assert media["images"][0].size == (96, 64)
    assert (media["do_sample_frames"], media["do_resize"]) == (False, False)
    assert processor_media([]) == {}


def test_tokens_of_clips_are_counted_by_steps_and_cells() -> None:
    assert num_visual_tokens([make_clip(frames=4, height=64, width=96)]) == 2 * 2 * 3
    assert num_visual_tokens([make_clip(height=64, width=96, kind="image")]) == 2 * 3

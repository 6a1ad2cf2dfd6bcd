"""What a tiny model is shown before training: questions of every type and answers of the right form.

Contents are drawn at random, from a seed, so that nothing about any dataset is learned here.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from vrldata.log import progress
from vrldata.tasks import render_prompt
from vrldata.types import Clip, Sample

COLOURS = ("red", "green", "blue", "yellow", "white", "black", "purple", "orange")
SHAPES = ("circle", "square", "triangle", "ball", "box", "star", "line", "text")
WORDS = (
    "left",
    "right",
    "up",
    "down",
    "first",
    "second",
    "moves",
    "stops",
    "starts",
    "appears",
    "person",
    "car",
)
QUESTIONS = (
    "In which direction does the {colour} {shape} move?",
    "How many {shape}s are there in the video?",
    "What colour is the {shape} that appears first?",
    "Does the {colour} {shape} stop before the {shape} starts?",
    "What text is shown in the picture?",
    "When does the {colour} {shape} appear in the video?",
    "Where is the {colour} {shape}?",
)
BATCH_ROWS = 16
LEARNING_RATE = 3e-3


def random_sample(number: int, draw: random.Random) -> Sample:
    """A made-up question of a type that takes its turn, with an answer of the right form."""
    problem_type = list(ANSWERS)[number % len(ANSWERS)]
    options: tuple[str, ...] = ()
    if problem_type == "multiple_choice":
        options = tuple(draw.sample(COLOURS, draw.choice((2, 3, 4, 4, 4, 5))))
    question = draw.choice(QUESTIONS).format(colour=draw.choice(COLOURS), shape=draw.choice(SHAPES))
    return Sample(
        sample_id=f"tiny-{number}",
        problem=question,
        answer=ANSWERS[problem_type](draw, len(options)),
        problem_type=problem_type,
        options=options,
    )


def corpus(num_samples: int = 600) -> Iterator[str]:
    """Texts that the tokenizer is trained on: prompts and answers of every type, the same each time."""
    draw = random.Random(0)
    for number in range(num_samples):
        sample = random_sample(number, draw)
        yield render_prompt(sample)
        yield sample.answer
        yield f"user assistant system <{draw.uniform(0, 30):.1f} seconds>"
        yield " ".join(draw.choices((*COLOURS, *SHAPES, *WORDS), k=6))


def teach_answer_form(model: Any, folder: Path, *, steps: int, seed: int) -> float:
    """Train `model` in place on random answers, half of them beside a clip of noise; returns the loss."""
    import torch

    from vrltrain.batching import model_batch
    from vrltrain.inputs import load_encoder
    from vrltrain.policy import Policy

    encoder = load_encoder(folder)
    policy = Policy(model, encoder.media_token_ids)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=LEARNING_RATE, weight_decay=0.0)
    draw = random.Random(seed)
    end = encoder.eos_token_ids[0]
    loss = torch.zeros(())
    for step in _counted(steps):
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * min(1.0, (step + 1) / 10) * (1 - 0.9 * step / steps)
        prompts, responses = [], []
        for row in range(BATCH_ROWS):
            sample = random_sample(step * BATCH_ROWS + row, draw)
            clips = [_noise_clip(encoder, draw)] if row % 2 else []
            prompts.append(encoder.encode(encoder.prompt(sample, clips)))
            text = f"<answer>{sample.answer}</answer>"
            responses.append([*encoder.tokenizer(text)["input_ids"], end])
        batch = model_batch(prompts, responses, pad_token_id=encoder.pad_token_id)
        log_probs, _ = policy(batch)
        mask = torch.arange(log_probs.shape[1]) < torch.tensor([[len(row)] for row in responses])
        loss = -log_probs[mask].mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
    return float(loss.detach())


def _counted(steps: int) -> Iterator[int]:
    with progress("tiny model: learning the form of answers", total=steps, unit="steps") as bar:
        for step in range(steps):
            yield step
            bar.advance()


def _noise_clip(encoder: Any, draw: random.Random) -> Clip:
    import numpy as np

    from vrldata.sampling import SamplingSpec
    from vrldata.types import VideoMetadata

    vision = encoder.config.vision_config
    side = 2 * int(vision.patch_size) * int(vision.spatial_merge_size)
    frames = np.random.default_rng(draw.getrandbits(32)).integers(0, 256, (4, side, side, 3), dtype=np.uint8)
    indices = np.arange(4, dtype=np.int32) * draw.randint(1, 12)
    metadata = VideoMetadata(
        fps=24.0,
        frame_indices=indices,
        timestamps=indices / 24.0,
        duration=2.0,
        total_num_frames=48,
        height=side,
        width=side,
        source_height=side,
        source_width=side,
        sampled_fps=2.0,
    )
    return Clip(frames=frames, metadata=metadata, video_path="noise", spec=SamplingSpec())


def _letter(draw: random.Random, num_options: int) -> str:
    return "ABCDEFGH"[draw.randrange(max(num_options, 2))]


def _span(draw: random.Random, _: int) -> str:
    start = draw.randint(0, 12) / 2
    return json.dumps({"time": [start, start + draw.randint(1, 8) / 2]})


def _box(draw: random.Random, _: int) -> str:
    return json.dumps({"boxes": _corners(draw)})


def _tube(draw: random.Random, _: int) -> str:
    return json.dumps({"boxes": {str(second): _corners(draw) for second in range(1, draw.randint(2, 4))}})


def _span_and_tube(draw: random.Random, _: int) -> str:
    start = draw.randint(0, 4)
    boxes = {str(second): _corners(draw) for second in range(start, start + 2)}
    return json.dumps({"time": [start, start + 1], "boxes": boxes})


def _corners(draw: random.Random) -> list[int]:
    left, top = draw.randint(0, 60) * 10, draw.randint(0, 60) * 10
    return [left, top, left + draw.randint(10, 40) * 10, top + draw.randint(10, 40) * 10]


ANSWERS: dict[str, Callable[[random.Random, int], str]] = {
    "multiple_choice": _letter,
    "numerical": lambda draw, _: str(draw.randint(0, 12)),
    "boolean": lambda draw, _: draw.choice(("Yes", "No")),
    "temporal_grounding": _span,
    "regression": lambda draw, _: f"{draw.uniform(0, 20):.1f}",
    "spatial_grounding": _box,
    "ocr": lambda draw, _: draw.choice((*COLOURS, *SHAPES)).upper(),
    "open_ended": lambda draw, _: f"the {draw.choice(COLOURS)} {draw.choice(SHAPES)}",
    "math": lambda draw, _: str(draw.randint(0, 40)),
    "tracking": _tube,
    "spatial_temporal_grounding": _span_and_tube,
}
"""Problem type -> a random answer of its form."""

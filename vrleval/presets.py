"""Named ways of sampling frames and tokens under which figures have been published, printed in every result.

`vrleval run --preset NAME`. The families of `vrldata.sampling.PRESETS` are presets too (`qwen3-vl`, ...).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from vrldata.errors import ConfigError, nearest
from vrldata.sampling import PRESETS as FAMILY_PRESETS
from vrldata.sampling import SamplingSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """Frames and generation of one published setting.

    Attributes:
        spec: which frames, and how large.
        video_tokens: budget of tokens per video that the source states; 0 when it states none.
        source: where the setting is written down.
    """

    spec: SamplingSpec
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    presence_penalty: float = 0.0
    max_tokens: int = 1024
    video_tokens: int = 0
    source: str = ""


_CELL_32 = 32 * 32
_CELL_28 = 28 * 28

PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "qwen3vl-report-224k": Preset(
            spec=SamplingSpec(
                fps=2.0,
                max_frames=2048,
                min_pixels=128 * _CELL_32,
                max_pixels=768 * _CELL_32,
                total_pixels=224_000 * _CELL_32,
            ),
            video_tokens=224_000,
            max_tokens=32_768,
            source="QwenLM/Qwen3-VL#1540: 2 fps, up to 2048 frames and 224K video tokens",
        ),
        "qwen3vl-repo-512f": Preset(
            spec=SamplingSpec(
                fps=2.0,
                max_frames=512,
                min_pixels=3584,
                max_pixels=401_408,
                total_pixels=19_267_584,
            ),
            temperature=0.7,
            top_p=0.8,
            top_k=20,
            presence_penalty=1.5,
            max_tokens=32_768,
            video_tokens=19_267_584 // _CELL_32,
            source="QwenLM/Qwen3-VL evaluation/VideoMME: 2 fps, 4 to 512 frames, seed 3407",
        ),
        "easyvideor1-256f": Preset(
            spec=SamplingSpec(
                fps=2.0,
                max_frames=256,
                min_pixels=128 * _CELL_32,
                max_pixels=262_144,
                total_pixels=33_554_432,
            ),
            max_tokens=4096,
            video_tokens=32_768,
            source="EasyVideoR1 example scripts, greedy as its report says",
        ),
        "easyvideor1-1024f": Preset(
            spec=SamplingSpec(
                fps=2.0,
                max_frames=1024,
                min_pixels=128 * _CELL_32,
                max_pixels=262_144,
                total_pixels=33_554_432,
            ),
            max_tokens=4096,
            video_tokens=32_768,
            source="EasyVideoR1 parallel script; its floor of 128 tokens a frame overruns the stated budget",
        ),
        "qwen25vl-report-768f": Preset(
            spec=SamplingSpec(
                fps=2.0,
                max_frames=768,
                size_multiple=28,
                min_pixels=48 * _CELL_28,
                max_pixels=768 * _CELL_28,
                total_pixels=24_576 * _CELL_28,
            ),
            video_tokens=24_576,
            max_tokens=2048,
            source="Qwen2.5-VL report: at most 768 frames and 24,576 video tokens",
        ),
        "qwen25vl-lvbench": Preset(
            spec=SamplingSpec(
                fps=2.0,
                max_frames=768,
                size_multiple=28,
                min_pixels=48 * _CELL_28,
                max_pixels=128 * _CELL_28,
                total_pixels=24_576 * _CELL_28,
            ),
            video_tokens=24_576,
            max_tokens=2048,
            source="QwenLM/Qwen3-VL#715, #925",
        ),
        "quick-32f": Preset(
            spec=SamplingSpec(fps=2.0, max_frames=32, max_pixels=128 * _CELL_32),
            max_tokens=512,
            source="for a first look; not comparable with published figures",
        ),
    }
)


def find_preset(name: str) -> Preset:
    """The preset of this name, or the model family's sampling with greedy decoding.

    Raises:
        ConfigError: no such preset; the message lists the known ones.
    """
    if name in PRESETS:
        return PRESETS[name]
    if name in FAMILY_PRESETS:
        return Preset(spec=FAMILY_PRESETS[name], source="sampling of the model family")
    known = [*PRESETS, *FAMILY_PRESETS]
    raise ConfigError(f"--preset {name}: unknown. Choose one of {', '.join(known)}.{nearest(name, known)}")

"""vrltrain: GRPO-family training of Qwen-VL models on video, from dataset URIs."""

from vrldata import __version__ as __version__

"""The engines that answer: vLLM in its own process, an OpenAI-compatible server, transformers in a thread.

Every engine takes the same requests (prompt text and decoded clips) and is asynchronous; an engine's own
library is imported when the engine starts.
"""

from __future__ import annotations

import importlib

from vrldata.errors import ConfigError, nearest
from vrleval.engines.types import Engine, EngineSettings

ENGINES = {
    "vllm": "vrleval.engines.vllm:VllmEngine",
    "openai": "vrleval.engines.openai:OpenAIEngine",
    "transformers": "vrleval.engines.transformers:TransformersEngine",
}


def make_engine(name: str, settings: EngineSettings) -> Engine:
    """The engine of this name, not yet started.

    Raises:
        ConfigError: no such engine.
    """
    if name not in ENGINES:
        raise ConfigError(
            f"--engine {name}: unknown. Choose one of {', '.join(ENGINES)}.{nearest(name, ENGINES)}"
        )
    module, _, attribute = ENGINES[name].partition(":")
    engine: Engine = getattr(importlib.import_module(module), attribute)(settings)
    return engine

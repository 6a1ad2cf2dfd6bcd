"""What every engine takes and gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from vrldata.errors import RolloutError
from vrldata.types import Clip


class RequestError(RolloutError):
    """One request failed; the engine lives and the others go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """How responses are drawn; temperature 0 is greedy.

    Attributes:
        top_k: 0 for no limit.
        seed: of the run; None leaves the engine's own.
        think: switches the reasoning block of chat templates that have one; None leaves their default.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    presence_penalty: float = 0.0
    repetition_penalty: float = 1.0
    max_tokens: int = 1024
    seed: int | None = 0
    think: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """What an engine needs to start.

    Attributes:
        model: folder or Hub name; the model name of a server.
        max_model_len: tokens of prompt and response; None lets the engine choose.
        max_clips: most videos and most images in one prompt.
        timeout_s: longest time for one request.
        base_url: of an OpenAI-compatible server.
        api_key_env: environment variable that holds the server's key.
    """

    model: str
    generation: Generation = Generation()
    dtype: str = "auto"
    max_model_len: int | None = None
    tensor_parallel_size: int = 1
    gpu_memory_utilization: float = 0.9
    max_num_seqs: int = 32
    max_clips: tuple[int, int] = (1, 1)
    timeout_s: float = 600.0
    max_retries: int = 4
    base_url: str = ""
    api_key_env: str = "OPENAI_API_KEY"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One question: the prompt text as `tasks.render_prompt` gives it, and its clips in order."""

    key: str
    prompt: str
    clips: tuple[Clip, ...] = ()
    system: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """One answer.

    Attributes:
        finish_reason: `stop`, `length` or `abort`.
        num_tokens: of the answer.
        num_prompt_tokens: media included; 0 when the engine does not tell.
        seconds: from the request to the last token.
    """

    text: str
    finish_reason: str
    num_tokens: int = 0
    num_prompt_tokens: int = 0
    seconds: float = 0.0


class Engine(Protocol):
    """An asynchronous engine."""

    async def start(self) -> None:
        """Load the model or reach the server.

        Raises:
            RolloutError: it does not start; MissingExtraError: its library is not installed.
        """

    async def ask(self, request: Request) -> Response:
        """Answer one request.

        Raises:
            RequestError: this request failed. RolloutError: the engine is gone.
        """

    def versions(self) -> dict[str, Any]:
        """Versions and settings that a manifest records."""

    async def close(self) -> None:
        """Let go of processes, memory and connections."""

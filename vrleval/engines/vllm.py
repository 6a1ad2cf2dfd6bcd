"""vLLM's asynchronous engine: the model runs in a process of its own, requests go to it as they come."""

from __future__ import annotations

import asyncio
import logging
import os
import time
import zlib
from typing import Any

from vrldata.errors import RolloutError
from vrldata.model_inputs import (
    MM_PROCESSOR_KWARGS,
    chat_messages,
    normalises_alike,
    vllm_multi_modal_data,
)
from vrleval.engines.types import EngineSettings, Request, RequestError, Response
from vrleval.model import (
    ModelFacts,
    apply_chat_template,
    import_failure,
    load_processor,
    read_model_facts,
)

logger = logging.getLogger(__name__)


class VllmEngine:
    """`vllm.AsyncLLM` with frames passed through as they are."""

    def __init__(self, settings: EngineSettings) -> None:
        self._settings = settings
        self._facts: ModelFacts = read_model_facts(settings.model)
        self._engine: Any = None
        self._processor: Any = None
        self._on_cpu = False
        self._version = ""

    async def start(self) -> None:
        self._on_cpu = not _cuda_is_there()
        _set_environment(self._on_cpu)
        try:
            import vllm
            from vllm import AsyncEngineArgs
            from vllm.v1.engine.async_llm import AsyncLLM
        except ImportError as error:
            extra = "cpu" if self._on_cpu else "vllm"
            raise import_failure("vllm", extra, "--engine vllm", error) from error
        self._version = str(vllm.__version__)
        self._processor = load_processor(self._settings.model)
        try:
            self._engine = AsyncLLM.from_engine_args(AsyncEngineArgs(**self._arguments()))
        except (RuntimeError, ValueError, OSError) as error:
            raise RolloutError(f"vLLM does not start with {self._settings.model}: {error}") from error

    def _arguments(self) -> dict[str, Any]:
        settings = self._settings
        num_videos, num_images = settings.max_clips
        arguments: dict[str, Any] = {
            "model": settings.model,
            "dtype": settings.dtype,
            "tensor_parallel_size": settings.tensor_parallel_size,
            "max_num_seqs": settings.max_num_seqs,
            "seed": settings.generation.seed or 0,
            "limit_mm_per_prompt": {"video": num_videos, "image": num_images},
            # questions on one video follow each other: its prompt prefix and its features are computed once
            "enable_prefix_caching": True,
        }
        if settings.max_model_len:
            arguments["max_model_len"] = settings.max_model_len
        if not normalises_alike(self._processor):
            arguments["mm_device_do_normalize"] = False
        if self._on_cpu:
            arguments.update(enforce_eager=True, block_size=32)
            if settings.dtype == "auto":
                arguments["dtype"] = "float32"
        else:
            arguments["gpu_memory_utilization"] = settings.gpu_memory_utilization
        return arguments

    async def ask(self, request: Request) -> Response:
        from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

        started = time.monotonic()
        final: Any = None
        try:
            prompt = await asyncio.to_thread(self._prompt, request)
            async with asyncio.timeout(self._settings.timeout_s):
                async for output in self._engine.generate(
                    prompt, self._sampling_params(request.key), request.key
                ):
                    final = output
        except TimeoutError as error:
            raise RequestError(
                f"no answer within {self._settings.timeout_s:g} s (--request-timeout)"
            ) from error
        except EngineDeadError as error:
            raise RolloutError(
                f"the vLLM engine has died: {error}; its log tells why, run again to continue"
            ) from error
        except (EngineGenerateError, ValueError, TypeError, NotImplementedError) as error:
            raise RequestError(f"{type(error).__name__}: {error}") from error
        if final is None or not final.outputs:
            raise RequestError("the engine ended the request without an answer")
        answer = final.outputs[0]
        return Response(
            text=answer.text,
            finish_reason=str(answer.finish_reason or "abort"),
            num_tokens=len(answer.token_ids),
            num_prompt_tokens=len(final.prompt_token_ids or ()),
            seconds=time.monotonic() - started,
        )

    def _prompt(self, request: Request) -> dict[str, Any]:
        messages = chat_messages(request.prompt, request.clips, system=request.system)
        text = apply_chat_template(self._processor, messages, think=self._settings.generation.think)
        if not request.clips:
            return {"prompt": text}
        media = vllm_multi_modal_data(request.clips, with_metadata=self._facts.takes_metadata)
        return {
            "prompt": text,
            "multi_modal_data": media,
            "mm_processor_kwargs": dict(MM_PROCESSOR_KWARGS),
        }

    def _sampling_params(self, key: str) -> Any:
        from vllm import SamplingParams

        generation = self._settings.generation
        # a seed per request makes a sampled answer the same whatever is answered beside it; vLLM's CPU
        # runner cannot split the prefill of a seeded request, so there the engine's seed has to do
        seed = None
        if generation.seed is not None and generation.temperature > 0 and not self._on_cpu:
            seed = zlib.crc32(f"{generation.seed}:{key}".encode())
        return SamplingParams(
            temperature=generation.temperature,
            top_p=generation.top_p,
            top_k=generation.top_k or -1,
            presence_penalty=generation.presence_penalty,
            repetition_penalty=generation.repetition_penalty,
            max_tokens=generation.max_tokens,
            seed=seed,
            skip_special_tokens=True,
        )

    def versions(self) -> dict[str, Any]:
        return {"vllm": self._version, "device": "cpu" if self._on_cpu else "cuda"}

    async def close(self) -> None:
        if self._engine is not None:
            self._engine.shutdown()
            self._engine = None


def _cuda_is_there() -> bool:
    try:
        import torch
    except ImportError as error:
        raise import_failure("torch", "eval", "--engine vllm", error) from error
    return bool(torch.cuda.is_available())


def _set_environment(on_cpu: bool) -> None:
    """Defaults for vLLM's own switches; what the user has set stays."""
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    if on_cpu:
        os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
        os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
        # without this the first request waits for a compiler
        os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")

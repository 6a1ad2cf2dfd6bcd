"""transformers in a thread: one request at a time. For machines and models without vLLM."""

from __future__ import annotations

import asyncio
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from vrldata.errors import RolloutError
from vrldata.model_inputs import chat_messages, processor_media
from vrleval.engines.types import EngineSettings, Request, RequestError, Response
from vrleval.model import apply_chat_template, import_failure, load_processor


class TransformersEngine:
    """`generate` of a transformers model; requests queue up behind one worker thread."""

    def __init__(self, settings: EngineSettings) -> None:
        self._settings = settings
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="transformers")
        self._model: Any = None
        self._processor: Any = None

    async def start(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._worker, self._load)

    def _load(self) -> None:
        try:
            import torch
            from transformers import AutoModelForImageTextToText
        except ImportError as error:
            library = "torch" if (error.name or "").startswith("torch") else "transformers"
            raise import_failure(library, "eval", "--engine transformers", error) from error
        settings = self._settings
        on_gpu = torch.cuda.is_available()
        dtype = settings.dtype if settings.dtype != "auto" or on_gpu else "float32"
        self._processor = load_processor(settings.model)
        try:
            model = AutoModelForImageTextToText.from_pretrained(
                settings.model, dtype=dtype if dtype == "auto" else getattr(torch, dtype)
            )
        except (OSError, ValueError, AttributeError) as error:
            raise RolloutError(f"transformers does not load {settings.model}: {error}") from error
        self._model = model.to("cuda" if on_gpu else "cpu").eval()

    async def ask(self, request: Request) -> Response:
        return await asyncio.get_running_loop().run_in_executor(self._worker, self._answer, request)

    def _answer(self, request: Request) -> Response:
        import torch

        started = time.monotonic()
        generation = self._settings.generation
        messages = chat_messages(request.prompt, request.clips, system=request.system)
        text = apply_chat_template(self._processor, messages, think=generation.think)
        try:
            inputs = self._processor(text=[text], return_tensors="pt", **processor_media(request.clips))
        except (ValueError, TypeError) as error:
            raise RequestError(f"the processor refuses the request: {error}") from error
        inputs = inputs.to(self._model.device)
        num_prompt_tokens = int(inputs["input_ids"].shape[1])
        if generation.seed is not None:
            torch.manual_seed(zlib.crc32(f"{generation.seed}:{request.key}".encode()))
        try:
            with torch.inference_mode():
                output = self._model.generate(**inputs, **self._generate_arguments())
        except (RuntimeError, ValueError, IndexError) as error:
            raise RequestError(f"{type(error).__name__}: {error}") from error
        tokens = output[0, num_prompt_tokens:]
        ended = int(tokens[-1]) in self._end_tokens() if len(tokens) else True
        return Response(
            text=self._processor.batch_decode(tokens[None], skip_special_tokens=True)[0],
            finish_reason="stop" if ended else "length",
            num_tokens=len(tokens),
            num_prompt_tokens=num_prompt_tokens,
            seconds=time.monotonic() - started,
        )

    def _generate_arguments(self) -> dict[str, Any]:
        generation = self._settings.generation
        arguments: dict[str, Any] = {
            "max_new_tokens": generation.max_tokens,
            "do_sample": generation.temperature > 0,
            "repetition_penalty": generation.repetition_penalty,
        }
        if generation.temperature > 0:
            arguments.update(
                temperature=generation.temperature, top_p=generation.top_p, top_k=generation.top_k
            )
        else:
            # the model's own generation_config may sample; greedy means greedy
            arguments.update(temperature=None, top_p=None, top_k=None)
        return arguments

    def _end_tokens(self) -> set[int]:
        ends = self._model.generation_config.eos_token_id
        return set(ends) if isinstance(ends, list) else {ends}

    def versions(self) -> dict[str, Any]:
        import torch
        import transformers

        return {
            "transformers": str(transformers.__version__),
            "torch": str(torch.__version__),
            "device": str(self._model.device) if self._model is not None else "",
        }

    async def close(self) -> None:
        self._worker.shutdown(wait=True)
        self._model = None

"""Rollouts by vLLM's asynchronous engine, in its own process; one code for machines with and without a GPU.

The engine runs on an event loop in a background thread, so that the training loop stays plain code. A dead
engine is started again once for a call, with the latest weights.
"""

from __future__ import annotations

import asyncio
import dataclasses
import importlib.util
import logging
import os
import threading
from collections.abc import Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from vrldata.errors import RolloutError, missing_extra
from vrldata.model_inputs import MM_PROCESSOR_KWARGS, normalises_alike, vllm_multi_modal_data
from vrltrain.inputs import LOGIT_BIAS, Prompt, PromptEncoder
from vrltrain.types import Rollout, RolloutResult, SamplingParams
from vrltrain.weight_sync import WeightFolder, num_weight_bytes

if TYPE_CHECKING:
    from torch import Tensor

    from vrltrain.configs import RolloutConfig

logger = logging.getLogger(__name__)
T = TypeVar("T")

CPU_ENVIRONMENT = {
    # the engine core then runs its worker itself: one process fewer, and half the start-up time
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    # inductor would compile a helper for half a minute at the first request with log-probs
    "TORCHDYNAMO_DISABLE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
}
CPU_BLOCK_SIZE = 32
DEAD_ENGINE_POLL_SECONDS = 0.5


class VllmEngine:
    """A `RolloutEngine` around `AsyncLLM`."""

    def __init__(self, config: RolloutConfig, encoder: PromptEncoder, model_path: str, seed: int) -> None:
        if importlib.util.find_spec("vllm") is None:
            purpose = "rollout.engine=vllm (or vrl[cpu] on a machine without a GPU)"
            raise missing_extra("vllm", "vllm", purpose)
        self.policy_version = 0
        self._config = config
        self._encoder = encoder
        self._model_path = model_path
        self._seed = seed
        self._weights = WeightFolder(num_weight_bytes(model_path))
        self._has_new_weights = False
        self._num_requests = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="vllm-client", daemon=True)
        self._thread.start()
        self._engine: Any = self._start()

    def generate(
        self, prompts: Sequence[Prompt], n: Sequence[int], sampling: SamplingParams
    ) -> list[RolloutResult]:
        """See `RolloutEngine`; all requests run at once."""
        results = self._wait(self._generate_all(prompts, n, sampling))
        if self._engine.errored:
            logger.warning("the engine died (%s); starting it again", self._engine.dead_error)
            self._restart()
            lost = [number for number, result in enumerate(results) if result.error]
            again = self._wait(
                self._generate_all(
                    [prompts[number] for number in lost], [n[number] for number in lost], sampling
                )
            )
            for number, result in zip(lost, again, strict=True):
                results[number] = result
        return results

    def load_weights(self, weights: Iterable[tuple[str, Tensor]], version: int) -> None:
        """See `RolloutEngine`: pause, reload, drop the media, encoder and prefix caches, resume."""
        folder = self._weights.write(weights)
        self._has_new_weights = True
        self.policy_version = version
        self._wait(self._reload(str(folder)))

    def close(self) -> None:
        """Stop the engine's processes and the client thread."""
        if not self._loop.is_closed():
            self._wait(self._stop())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(timeout=10)
            if not self._thread.is_alive():
                self._loop.close()
        self._weights.remove()

    def _start(self) -> Any:
        import torch

        if not torch.cuda.is_available():
            for name, value in CPU_ENVIRONMENT.items():
                os.environ.setdefault(name, value)
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
        os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
        return self._wait(self._make_engine(torch.cuda.is_available()))

    async def _make_engine(self, on_gpu: bool) -> Any:
        from vllm import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        config = self._config
        arguments: dict[str, Any] = {
            "model": self._model_path,
            "dtype": config.dtype,
            "max_model_len": config.max_model_len,
            "max_num_seqs": config.max_num_seqs,
            "limit_mm_per_prompt": {"video": config.max_videos, "image": config.max_images},
            "mm_processor_kwargs": dict(MM_PROCESSOR_KWARGS),
            "logprobs_mode": "processed_logprobs",
            "seed": self._seed % 2**31,
            "use_tqdm_on_load": False,
            "disable_log_stats": True,
            "enforce_eager": config.enforce_eager or not on_gpu,
            "tensor_parallel_size": config.tensor_parallel_size,
        }
        if not normalises_alike(self._encoder.processor):
            arguments["mm_device_do_normalize"] = False
        if on_gpu:
            arguments["gpu_memory_utilization"] = config.gpu_memory_utilization
        else:
            arguments["block_size"] = CPU_BLOCK_SIZE
        if config.max_num_batched_tokens is not None:
            arguments["max_num_batched_tokens"] = config.max_num_batched_tokens
        try:
            return AsyncLLM.from_engine_args(AsyncEngineArgs(**{**arguments, **config.engine_args}))
        except (TypeError, ValueError, RuntimeError, OSError) as error:
            raise RolloutError(
                f"vLLM does not start: {error}; set VLLM_LOGGING_LEVEL=INFO to see its own log"
            ) from error

    def _restart(self) -> None:
        self._engine.shutdown()
        self._engine = self._start()
        if self._has_new_weights:
            self._wait(self._reload(str(self._weights.path)))

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _stop(self) -> None:
        """Shut down, and see the client's own tasks off so that none is left half done."""
        self._engine.shutdown()
        self._engine = None  # its finaliser must not wait for the end of the interpreter
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _reload(self, folder: str) -> None:
        engine = self._engine
        await engine.pause_generation()
        try:
            await engine.collective_rpc("reload_weights", kwargs={"weights_path": folder})
            # the worker has dropped its encoder outputs; the scheduler must forget them too, or the next
            # request for the same video ends the engine
            await engine.reset_mm_cache()
            await engine.reset_encoder_cache()
            await engine.reset_prefix_cache()
        finally:
            await engine.resume_generation()

    async def _generate_all(
        self, prompts: Sequence[Prompt], n: Sequence[int], sampling: SamplingParams
    ) -> list[RolloutResult]:
        tasks = [
            asyncio.ensure_future(self._generate(prompt, count, sampling))
            for prompt, count in zip(prompts, n, strict=True)
        ]
        waiting = set(tasks)
        while waiting:
            _, waiting = await asyncio.wait(waiting, timeout=DEAD_ENGINE_POLL_SECONDS)
            if waiting and self._engine.errored:
                # a request that was being prepared when the engine died would wait for ever
                for task in waiting:
                    task.cancel()
                await asyncio.gather(*waiting, return_exceptions=True)
                break
        return [
            RolloutResult(sample_id=prompt.sample.sample_id, error="the engine died")
            if task.cancelled()
            else task.result()
            for prompt, task in zip(prompts, tasks, strict=True)
        ]

    async def _generate(self, prompt: Prompt, n: int, sampling: SamplingParams) -> RolloutResult:
        from vllm.exceptions import VLLMError
        from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

        sample_id = prompt.sample.sample_id
        if n < 1:
            return RolloutResult(sample_id=sample_id)
        self._num_requests += 1
        request_id = f"{self._num_requests}-{sample_id}"
        try:
            output = await asyncio.wait_for(
                self._last_output(request_id, prompt, n, sampling), self._config.request_timeout_s
            )
        except TimeoutError:
            await self._engine.abort(request_id)
            seconds = self._config.request_timeout_s
            return RolloutResult(sample_id=sample_id, error=f"no response within {seconds:g} s")
        except (ValueError, VLLMError, EngineDeadError, EngineGenerateError) as error:
            return RolloutResult(sample_id=sample_id, error=f"{type(error).__name__}: {error}")
        rollouts = tuple(self._rollout(completion) for completion in output.outputs)
        if sampling.temperature == 0:  # asked for once: greedy responses are all the same
            rollouts = tuple(dataclasses.replace(rollouts[0], index=index) for index in range(n))
        if any(rollout.finish_reason not in ("stop", "length") for rollout in rollouts):
            return RolloutResult(sample_id=sample_id, error="the engine aborted the request")
        return RolloutResult(
            sample_id=sample_id, rollouts=rollouts, prompt_token_ids=tuple(output.prompt_token_ids)
        )

    async def _last_output(self, request_id: str, prompt: Prompt, n: int, sampling: SamplingParams) -> Any:
        output = None
        request: dict[str, Any] = {"prompt": prompt.text}
        if prompt.clips:
            with_metadata = self._encoder.family != "qwen2-vl"
            request["multi_modal_data"] = vllm_multi_modal_data(prompt.clips, with_metadata=with_metadata)
            request["mm_processor_kwargs"] = dict(MM_PROCESSOR_KWARGS)
        async for latest in self._engine.generate(request, self._sampling(n, sampling), request_id):
            output = latest
        if output is None:
            raise ValueError("the engine gave no output")
        return output

    def _sampling(self, n: int, sampling: SamplingParams) -> Any:
        """No seed a request: on the CPU a split prefill with one ends the engine, and one seed for every step
        would repeat the same noise."""
        from vllm import SamplingParams as VllmSamplingParams
        from vllm.sampling_params import RequestOutputKind

        return VllmSamplingParams(
            n=n if sampling.temperature > 0 else 1,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            max_tokens=sampling.max_tokens,
            stop_token_ids=list(self._encoder.eos_token_ids),
            logit_bias=dict.fromkeys(self._encoder.media_token_ids, LOGIT_BIAS),
            logprobs=0,
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )

    def _rollout(self, completion: Any) -> Rollout:
        token_ids = tuple(int(token) for token in completion.token_ids)
        places = completion.logprobs or []
        log_probs = tuple(float(place[token].logprob) for place, token in zip(places, token_ids, strict=True))
        return Rollout(
            token_ids=token_ids,
            log_probs=log_probs or None,
            finish_reason=completion.finish_reason or "",
            policy_version=self.policy_version,
            text=self._encoder.decode(token_ids),
            index=int(completion.index),
        )

"""Any server that speaks the OpenAI chat API: frames travel as pictures with their times in between.

The frames are those of the store, sampled and resized once; the server may resize them again, which the
manifest says.
"""

from __future__ import annotations

import asyncio
import base64
import io
import os
import random
import time
import zlib
from typing import Any

from vrldata.errors import ConfigError, RolloutError, missing_extra
from vrldata.model_inputs import chat_messages
from vrldata.types import Clip
from vrleval.engines.types import EngineSettings, Request, RequestError, Response

JPEG_QUALITY = 95
_RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
_FATAL = {
    401: "the key was refused; set the variable that --api-key-env names",
    403: "the key may not use this model",
    404: "no such model or no chat API there",
}


class OpenAIEngine:
    """A client with bounded retries; what the server refuses is an error of that request."""

    def __init__(self, settings: EngineSettings) -> None:
        if not settings.base_url:
            raise ConfigError("--engine openai needs --base-url, such as http://localhost:8000/v1")
        self._settings = settings
        self._client: Any = None
        self._generator = random.Random(settings.generation.seed)

    async def start(self) -> None:
        try:
            import httpx
        except ImportError as error:
            raise missing_extra("httpx", "eval", "--engine openai") from error
        key = os.environ.get(self._settings.api_key_env, "")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._client = httpx.AsyncClient(
            base_url=self._settings.base_url.rstrip("/") + "/",
            headers=headers,
            timeout=httpx.Timeout(self._settings.timeout_s, connect=10.0),
        )

    async def ask(self, request: Request) -> Response:
        started = time.monotonic()
        body = await asyncio.to_thread(self._body, request)
        answer = await self._post(body)
        try:
            choice = answer["choices"][0]
            text = choice["message"]["content"] or ""
            usage = answer.get("usage") or {}
        except (KeyError, IndexError, TypeError) as error:
            raise RequestError(f"the server's answer has no choices: {str(answer)[:200]}") from error
        return Response(
            text=str(text),
            finish_reason=str(choice.get("finish_reason") or "stop"),
            num_tokens=int(usage.get("completion_tokens") or 0),
            num_prompt_tokens=int(usage.get("prompt_tokens") or 0),
            seconds=time.monotonic() - started,
        )

    def _body(self, request: Request) -> dict[str, Any]:
        generation = self._settings.generation
        body: dict[str, Any] = {
            "model": self._settings.model,
            "messages": _with_pictures(
                chat_messages(request.prompt, request.clips, system=request.system), request.clips
            ),
            "temperature": generation.temperature,
            "top_p": generation.top_p,
            "presence_penalty": generation.presence_penalty,
            "max_tokens": generation.max_tokens,
        }
        if generation.top_k:
            body["top_k"] = generation.top_k
        if generation.seed is not None:
            body["seed"] = zlib.crc32(f"{generation.seed}:{request.key}".encode())
        if generation.think is not None:
            body["chat_template_kwargs"] = {"enable_thinking": generation.think}
        return body

    async def _post(self, body: dict[str, Any]) -> dict[str, Any]:
        import httpx

        problem = ""
        for attempt in range(self._settings.max_retries + 1):
            if attempt:
                await asyncio.sleep(min(30.0, 2.0**attempt) * (0.5 + self._generator.random() / 2))
            try:
                reply = await self._client.post("chat/completions", json=body)
            except httpx.ConnectError as error:
                problem = f"cannot reach {self._settings.base_url}: {error}"
                continue
            except httpx.HTTPError as error:
                problem = f"{type(error).__name__}: {error}"
                continue
            if reply.status_code == httpx.codes.OK:
                try:
                    found = reply.json()
                except ValueError as error:
                    raise RequestError(f"the server's answer is not JSON: {reply.text[:200]}") from error
                return found if isinstance(found, dict) else {}
            problem = f"HTTP {reply.status_code}: {reply.text[:300]}"
            if reply.status_code in _FATAL:
                raise RolloutError(f"{self._settings.base_url}: {problem}: {_FATAL[reply.status_code]}")
            if reply.status_code not in _RETRIED:
                raise RequestError(problem)
        if problem.startswith("cannot reach"):
            raise RolloutError(f"{problem}; is the server running?")
        raise RequestError(f"{problem} (after {self._settings.max_retries + 1} tries)")

    def versions(self) -> dict[str, Any]:
        return {
            "server": self._settings.base_url,
            "frames": f"JPEG quality {JPEG_QUALITY}, timestamps as text",
        }

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()


def _with_pictures(messages: list[dict[str, Any]], clips: tuple[Clip, ...]) -> list[dict[str, Any]]:
    """The messages with every placeholder replaced by the pictures of its clip, in order."""
    waiting = list(clips)
    for message in messages:
        content: list[dict[str, Any]] = []
        for part in message["content"]:
            if part["type"] == "text":
                content.append(part)
            else:
                content.extend(_pictures(waiting.pop(0)))
        message["content"] = content
    return messages


def _pictures(clip: Clip) -> list[dict[str, Any]]:
    from PIL import Image

    parts: list[dict[str, Any]] = []
    for index, frame in enumerate(clip.frames):
        if clip.kind == "video":
            parts.append({"type": "text", "text": f"<{clip.metadata.timestamps[index]:.1f} seconds>"})
        buffer = io.BytesIO()
        Image.fromarray(frame).save(buffer, format="JPEG", quality=JPEG_QUALITY)
        data = base64.b64encode(buffer.getvalue()).decode("ascii")
        parts.append({"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{data}"}})
    return parts

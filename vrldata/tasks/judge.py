"""Answers scored by a language model: the interface, an OpenAI-compatible client, and the cache.

A judge sees question, reference and answer, and replies with a score as JSON. A judge that fails or whose
reply cannot be read leaves the row without an accuracy (status `judge_error`): never a zero, and never
another scale in its place. Prompts and reading of replies are `judge_prompts`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from vrldata.errors import TaskError, VRLError, missing_extra
from vrldata.tasks.judge_prompts import Verdict, answer_prompt, pair_prompt, read_pair, read_score
from vrldata.tasks.preference import TIE

if TYPE_CHECKING:
    import httpx

_LOG = logging.getLogger(__name__)
_RETRIED_STATUSES = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
_LONGEST_WAIT_S = 60.0


class JudgeError(VRLError):
    """The judge did not answer; the message has no part of its credentials."""

    exit_code = 1


class Judge(Protocol):
    """Anything that answers a prompt."""

    @property
    def name(self) -> str:
        """Identity of the judge, kept with every verdict and part of the cache key."""

    async def reply(self, prompt: str) -> str:
        """The judge's text for one prompt.

        Raises:
            JudgeError: there is none, after all retries.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSettings:
    """Where a judge is reached and how patient its client is.

    Attributes:
        base_url: of an OpenAI-compatible server, with the version, such as `http://localhost:8000/v1`.
        model: as the server names it.
        api_key_variable: environment variable with the key; read when a request is sent, never logged.
        timeout_s: for one request.
        max_attempts: requests for one prompt, the first included.
        first_wait_s: before the second attempt; each further wait is twice as long.
        max_tokens: of a reply.
    """

    base_url: str
    model: str
    api_key_variable: str = "OPENAI_API_KEY"
    timeout_s: float = 60.0
    max_attempts: int = 5
    first_wait_s: float = 0.5
    max_tokens: int = 512


class OpenAIJudge:
    """Client of an OpenAI-compatible chat endpoint, at temperature 0. Use as an async context manager.

    >>> settings = JudgeSettings(base_url="http://localhost:8000/v1", model="judge")
    >>> OpenAIJudge(settings).name
    'judge at http://localhost:8000/v1'
    """

    def __init__(self, settings: JudgeSettings) -> None:
        self.settings = settings
        self._client: httpx.AsyncClient | None = None

    @property
    def name(self) -> str:
        """Model and server."""
        return f"{self.settings.model} at {self.settings.base_url}"

    async def __aenter__(self) -> OpenAIJudge:
        try:
            import httpx
        except ImportError as error:
            raise missing_extra("httpx", "tasks", "asking a judge") from error
        self._client = httpx.AsyncClient(timeout=self.settings.timeout_s)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def reply(self, prompt: str) -> str:
        """The text of the first choice; transport faults and busy servers are retried with growing waits."""
        wait = self.settings.first_wait_s
        for attempt in range(1, self.settings.max_attempts + 1):
            text, fault, asked_wait = await self._attempt(prompt)
            if fault is None:
                return text
            if asked_wait is None:
                raise JudgeError(f"judge {self.name}: {fault}")
            if attempt < self.settings.max_attempts:
                _LOG.warning("judge %s: %s (attempt %d)", self.name, fault, attempt)
                await asyncio.sleep(min(max(wait, asked_wait), _LONGEST_WAIT_S))
                wait *= 2
        raise JudgeError(f"judge {self.name}: {fault}, after {self.settings.max_attempts} attempts")

    async def _attempt(self, prompt: str) -> tuple[str, str | None, float | None]:
        """(text, fault, least wait in seconds); a fault without a wait is not worth a retry."""
        import httpx

        if self._client is None:
            raise TaskError("an OpenAIJudge is used inside `async with`")
        key = os.environ.get(self.settings.api_key_variable, "")
        body = {
            "model": self.settings.model,
            "messages": [{"role": "user", "content": prompt}],
            "temperature": 0,
            "max_tokens": self.settings.max_tokens,
        }
        try:
            response = await self._client.post(
                f"{self.settings.base_url.rstrip('/')}/chat/completions",
                json=body,
                headers={"Authorization": f"Bearer {key}"} if key else {},
            )
        except httpx.TransportError as error:
            return "", f"no connection ({type(error).__name__})", 0.0
        if response.status_code in _RETRIED_STATUSES:
            return "", f"status {response.status_code}", _seconds(response.headers.get("retry-after", ""))
        if response.status_code != 200:
            return "", f"status {response.status_code}: {response.text[:200]}", None
        try:
            text = response.json()["choices"][0]["message"]["content"]
        except (ValueError, KeyError, IndexError, TypeError):
            return "", f"not a chat completion: {response.text[:200]}", 0.0
        return (text, None, None) if isinstance(text, str) else ("", "an empty completion", 0.0)


def _seconds(header: str) -> float:
    try:
        return max(0.0, float(header))
    except ValueError:
        return 0.0


class EngineJudge:
    """A judge in this process: an engine with vLLM's `chat(conversations, sampling_params)`.

    Prompts that wait while the engine works go to it together next. An engine that refuses a batch is asked
    again prompt by prompt, so that one that is too long costs only its row.

    Args:
        engine: such as `vllm.LLM`.
        sampling_params: what the engine takes; temperature 0 makes verdicts repeatable.
        name: model name, kept with every verdict.
    """

    def __init__(self, engine: Any, sampling_params: Any, *, name: str) -> None:
        self._engine, self._sampling_params, self._name = engine, sampling_params, name
        self._one_at_a_time = threading.Lock()
        self._waiting: list[tuple[str, asyncio.Future[str]]] = []

    @property
    def name(self) -> str:
        """The model's name."""
        return self._name

    async def reply(self, prompt: str) -> str:
        """The engine's text, off the event loop."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[str] = loop.create_future()
        first = not any(other.get_loop() is loop for _, other in self._waiting)
        self._waiting.append((prompt, future))
        if first:
            await asyncio.sleep(0)  # others that are ready to ask join
            await self._drain(loop)
        return await future

    async def _drain(self, loop: asyncio.AbstractEventLoop) -> None:
        """Answer what waits; entries leave the list with their answer, so that nobody else starts a batch."""
        while mine := [entry for entry in self._waiting if entry[1].get_loop() is loop]:
            try:
                answers = await asyncio.to_thread(self._answers, [prompt for prompt, _ in mine])
            except BaseException:
                for _, future in self._waiting:
                    if future.get_loop() is loop:
                        future.cancel()  # with this task goes the only one that would have answered
                mine = [entry for entry in self._waiting if entry[1].get_loop() is loop]
                raise
            finally:
                self._waiting = [entry for entry in self._waiting if entry not in mine]
            for (_, future), answer in zip(mine, answers, strict=True):
                if future.done():
                    continue  # its asker has gone
                if isinstance(answer, JudgeError):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)

    def _answers(self, prompts: Sequence[str]) -> list[str | JudgeError]:
        conversations = [[{"role": "user", "content": prompt}] for prompt in prompts]
        try:
            with self._one_at_a_time:
                outputs = self._engine.chat(conversations, self._sampling_params, use_tqdm=False)
            return [str(output.outputs[0].text) for output in outputs]
        except (ValueError, RuntimeError) as error:
            if len(prompts) == 1:
                return [JudgeError(f"judge {self.name}: {str(error)[:200]}")]
        return [answer for prompt in prompts for answer in self._answers([prompt])]


@dataclass(slots=True, kw_only=True)
class JudgeCache:
    """Readable replies by prompt and judge; in memory and, where given, in a folder of JSON files."""

    folder: Path | None = None
    _replies: dict[str, str] = field(default_factory=dict)

    def get(self, judge: str, prompt: str) -> str | None:
        """The kept reply, if any."""
        key = _cache_key(judge, prompt)
        if key not in self._replies and self.folder is not None:
            try:
                entry = json.loads((self.folder / f"{key}.json").read_text(encoding="utf-8"))
                self._replies[key] = str(entry["reply"])
            except (OSError, ValueError, KeyError, TypeError):
                return None  # absent, or cut off by a crash: asked again
        return self._replies.get(key)

    def put(self, judge: str, prompt: str, reply: str) -> None:
        """Keep a reply; the file is complete or absent."""
        key = _cache_key(judge, prompt)
        self._replies[key] = reply
        if self.folder is None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        temporary = self.folder / f".{key}.{os.getpid()}"
        temporary.write_text(json.dumps({"judge": judge, "prompt": prompt, "reply": reply}), encoding="utf-8")
        temporary.replace(self.folder / f"{key}.json")


def _cache_key(judge: str, prompt: str) -> str:
    return hashlib.sha256(f"{judge}\0{prompt}".encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a judge is asked about: one answer to one problem with its reference."""

    problem: str
    reference: str
    answer: str


async def judge_answer(judge: Judge, question: Question, *, cache: JudgeCache | None = None) -> Verdict:
    """The judge's verdict on one answer; a failed or unreadable one has `score` None."""
    prompt = answer_prompt(question.problem, question.reference, question.answer)
    return await _ask(judge, prompt, read_score, cache)


async def judge_pair(
    judge: Judge, problem: str, first: str, second: str, *, cache: JudgeCache | None = None
) -> Verdict:
    """Which of two responses is better, asked in both orders: `1`, `2`, or `tie` if the orders disagree."""
    forward = await _ask(judge, pair_prompt(problem, first, second), read_pair, cache)
    backward = await _ask(judge, pair_prompt(problem, second, first), read_pair, cache)
    for verdict in (forward, backward):
        if verdict.label is None:
            return verdict
    swapped = {"1": "2", "2": "1"}.get(backward.label or "", TIE)
    label = forward.label if forward.label == swapped else TIE
    return Verdict(label=label, status="ok", judge=judge.name, prompt=forward.prompt, reply=forward.reply)


async def judge_answers(
    judge: Judge, questions: Sequence[Question], *, cache: JudgeCache | None = None, concurrency: int = 16
) -> list[Verdict]:
    """Verdicts in the order of `questions`, at most `concurrency` requests at once."""
    gate = asyncio.Semaphore(concurrency)

    async def one(question: Question) -> Verdict:
        async with gate:
            return await judge_answer(judge, question, cache=cache)

    return list(await asyncio.gather(*(one(question) for question in questions)))


async def _ask(
    judge: Judge,
    prompt: str,
    read: Callable[[str], tuple[float | None, str | None]],
    cache: JudgeCache | None,
) -> Verdict:
    reply = cache.get(judge.name, prompt) if cache else None
    try:
        text = reply if reply is not None else await judge.reply(prompt)
    except JudgeError as error:
        return Verdict(status="judge_error", judge=judge.name, prompt=prompt, reason=str(error))
    score, label = read(text)
    if score is None and label is None:
        reason = f"the judge's reply cannot be read: {text[:120]!r}"
        return Verdict(status="unparsed", judge=judge.name, prompt=prompt, reply=text, reason=reason)
    if cache and reply is None:
        cache.put(judge.name, prompt, text)
    return Verdict(score=score, label=label, status="ok", judge=judge.name, prompt=prompt, reply=text)

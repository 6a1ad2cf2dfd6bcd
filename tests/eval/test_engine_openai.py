"""The OpenAI-compatible engine against a real server on this machine: bodies, retries, refusals."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.eval.examples import make_clip
from vrldata.errors import ConfigError, RolloutError
from vrleval.engines.openai import OpenAIEngine
from vrleval.engines.types import EngineSettings, Generation, Request, RequestError, Response

Reply = tuple[int, Any]


@contextmanager
def server(answer: Callable[[int], Reply]) -> Iterator[tuple[str, list[dict[str, Any]], list[str]]]:
    """A server that gives `answer(number of the request)`; yields its URL, the bodies and the keys it saw."""
    bodies: list[dict[str, Any]] = []
    keys: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            keys.append(self.headers.get("Authorization", ""))
            status, value = answer(len(bodies))
            text = value if isinstance(value, str) else json.dumps(value)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: object) -> None:
            return

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{running.server_port}/v1", bodies, keys
    finally:
        running.shutdown()
        running.server_close()


def says(text: str) -> Reply:
    usage = {"prompt_tokens": 7, "completion_tokens": 2}
    return 200, {"choices": [{"message": {"content": text}, "finish_reason": "stop"}], "usage": usage}


def ask(url: str, request: Request, **settings: Any) -> Response:
    async def one() -> Response:
        engine = OpenAIEngine(EngineSettings(model="served", base_url=url, **settings))
        await engine.start()
        try:
            return await engine.ask(request)
        finally:
            await engine.close()

    return asyncio.run(one())


def test_frames_travel_as_pictures_with_their_times(monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import Image

    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    clip = make_clip(frames=2)
    with server(lambda number: says("<answer>B</answer>")) as (url, bodies, keys):
        found = ask(url, Request(key="k", prompt="What moves?", clips=(clip,)))
    assert (found.text, found.num_tokens, found.num_prompt_tokens) == ("<answer>B</answer>", 2, 7)
    (body,) = bodies
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("served", 0.0, 1024)
    parts = body["messages"][0]["content"]
    assert [part["type"] for part in parts] == ["text", "image_url", "text", "image_url", "text"]
    assert [part["text"] for part in parts if part["type"] == "text"] == [
        "<0.0 seconds>",
        "<0.5 seconds>",
        "What moves?",
    ]
    picture = Image.open(io.BytesIO(base64.b64decode(parts[1]["image_url"]["url"].partition(",")[2])))
    assert picture.size == (96, 64)
    assert keys == ["Bearer secret"]


def test_a_busy_server_is_asked_again() -> None:
    with server(lambda number: (503, "busy") if number == 1 else says("ok")) as (url, bodies, _):
        assert ask(url, Request(key="k", prompt="x")).text == "ok"
    assert len(bodies) == 2


def test_a_refused_request_is_an_error_of_that_request() -> None:
    with (
        server(lambda number: (400, "context too long")) as (url, bodies, _),
        pytest.raises(RequestError, match="HTTP 400: context too long"),
    ):
        ask(url, Request(key="k", prompt="x"))
    assert len(bodies) == 1


def test_a_refused_key_ends_the_run_without_showing_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    with server(lambda number: (401, "no")) as (url, _, _), pytest.raises(RolloutError) as caught:
        ask(url, Request(key="k", prompt="x"))
    assert not isinstance(caught.value, RequestError)
    assert "the key was refused" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_an_absent_server_ends_the_run() -> None:
    with pytest.raises(RolloutError, match="is the server running"):
        ask("http://127.0.0.1:9/v1", Request(key="k", prompt="x"), max_retries=0)


def test_an_answer_without_choices_is_an_error_of_that_request() -> None:
    with (
        server(lambda number: (200, {"error": "odd"})) as (url, _, _),
        pytest.raises(RequestError, match="no choices"),
    ):
        ask(url, Request(key="k", prompt="x"))


def test_each_question_has_its_own_seed() -> None:
    settings = Generation(temperature=1.0, seed=5)
    with server(lambda number: says("ok")) as (url, bodies, _):
        for key in ("a", "b", "a"):
            ask(url, Request(key=key, prompt="x"), generation=settings)
    assert bodies[0]["seed"] == bodies[2]["seed"] != bodies[1]["seed"]


def test_the_engine_needs_a_url() -> None:
    with pytest.raises(ConfigError, match="--base-url"):
        OpenAIEngine(EngineSettings(model="served"))

"""Streams of turns as they are written: who leaves, who comes late, and what a silent one sends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from artelier.server.live_hub import beating
from artelier.testing import ManualClock
from tests.operations.test_stream import Typing
from tests.server.routes.served import Served, good, play, serving


class Reader:
    """A client that reads an answer piece by piece, which the client of the other tests does not."""

    def __init__(self) -> None:
        self.came: asyncio.Queue[bytes] = asyncio.Queue()
        self.left = asyncio.Event()
        self._rest = b""

    async def event(self) -> dict[str, Any] | None:
        """The data of the next event; None at the end."""
        while True:
            while b"\n\n" not in self._rest:
                piece = await self.came.get()
                if not piece:
                    return None
                self._rest += piece
            frame, _, self._rest = self._rest.partition(b"\n\n")
            for line in frame.splitlines():
                if line.startswith(b"data: "):
                    return json.loads(line[6:])

    async def delta(self) -> str:
        """The text of the next piece of the reply."""
        while (event := await self.event()) is not None:
            if event["type"] == "main_llm.delta":
                return event["text"]
        return ""


@asynccontextmanager
async def _reading(served: Served, method: str, path: str, body: Any = None) -> AsyncIterator[Reader]:
    """A request as ada; leaving the block is closing the connection."""
    reader, content = Reader(), b"" if body is None else json.dumps(body).encode()
    waiting = [{"type": "http.request", "body": content, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if waiting:
            return waiting.pop()
        await reader.left.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            if message.get("body"):
                reader.came.put_nowait(message["body"])
            if not message.get("more_body"):
                reader.came.put_nowait(b"")

    headers = {
        "host": "localhost",
        "authorization": "Bearer ada-token",
        "accept": "text/event-stream",
        "content-type": "application/json",
        "content-length": str(len(content)),
    }
    path, _, query = f"/api/v1{path}".partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "client": ("127.0.0.1", 1),
        "server": ("localhost", 80),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    answering = asyncio.ensure_future(served.app(scope, receive, send))
    try:
        yield reader
    finally:
        reader.left.set()
        await answering


def test_a_reply_comes_as_it_is_written_and_late_comers_get_the_text_so_far(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = Typing("typed")
        async with serving(tmp_path, model=model) as served:
            good(await served.ada.post("/sessions", json={"id": "c", "model": "m"}), 201)
            async with _reading(served, "POST", "/sessions/c/turns/stream", {"text": "x"}) as early:
                model.type(3)
                assert [await early.delta() for _ in range(3)] == ["t", "y", "p"]
                async with _reading(served, "GET", "/sessions/c/events") as late:
                    assert await late.delta() == "typ"
                    model.type(3)
                    assert [await late.delta() for _ in range(2)] == ["e", "d"]
                    while (event := await late.event()) is not None:
                        last = event
                    assert last["type"] == "run.finished"

    play(scenario())


def test_who_leaves_a_stream_does_not_end_the_turn(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = Typing("typed")
        async with serving(tmp_path, model=model) as served:
            good(await served.ada.post("/sessions", json={"id": "c", "model": "m"}), 201)
            async with _reading(served, "POST", "/sessions/c/turns/stream", {"text": "x"}) as reader:
                model.type(2)
                assert await reader.delta() == "t"
            model.type(4)
            async with _reading(served, "GET", "/sessions/c/events?run_id=c/r000001") as again:
                while await again.event() is not None:
                    pass
            turns = good(await served.ada.get("/sessions/c"))["turns"]
            assert turns[0]["variants"][0]["text"] == "typed"

    play(scenario())


def test_streams_end_when_the_server_does(tmp_path: Path) -> None:
    """An open page must not keep a server that was told to stop."""

    async def scenario() -> None:
        model = Typing("typed")
        async with serving(tmp_path, model=model) as served:
            good(await served.ada.post("/sessions", json={"id": "c", "model": "m"}), 201)
            async with _reading(served, "POST", "/sessions/c/turns/stream", {"text": "x"}) as reader:
                model.type(1)
                assert await reader.delta() == "t"
                served.app.state.hub.close()
                while await reader.event() is not None:
                    pass

    play(scenario())


def test_a_silent_stream_shows_that_it_lives() -> None:
    async def scenario() -> None:
        clock, more = ManualClock(), asyncio.Event()

        async def silent() -> AsyncGenerator[bytes]:
            yield b"first"
            await more.wait()
            yield b"second"

        frames = beating(silent(), clock, is_over=lambda: False)
        assert await anext(frames) == b"first"
        beat = asyncio.ensure_future(anext(frames))
        while not beat.done():
            clock.advance_to_next()
            await asyncio.sleep(0)
        assert (await beat).startswith(b":")
        more.set()
        assert await anext(frames) == b"second"
        assert [frame async for frame in frames] == []

    play(scenario())

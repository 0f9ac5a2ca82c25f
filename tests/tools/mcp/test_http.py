"""Servers behind a URL: headers go nowhere else, bodies have a bound, what breaks is said."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from artelier.errors import ToolFailed
from artelier.tools.mcp import CallLost, McpServer, ServerUnavailable
from tests.tools.mcp.conftest import by_name, call

NAMES = ("ok", "dies", "large", "elsewhere", "session", "status", "page")


class Endpoint:
    """A server of the older protocol, spoken by hand: what a tool does is its name."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        """Authorization of each request."""
        self.calls: list[str] = []
        self.status = 200
        self.elsewhere = "http://127.0.0.1:9/mcp"
        self.url = ""

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Endpoint]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/mcp"
        try:
            yield self
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._answer(reader, writer)
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        fields = dict(line.lower().split(": ", 1) for line in head[1:] if ": " in line)
        self.seen.append(fields.get("authorization", ""))
        body = await reader.readexactly(int(fields.get("content-length", "0")))
        if not head[0].startswith("POST"):
            return _send(writer, 405, {})
        if self.status != 200:
            return _send(writer, self.status, {})
        message = json.loads(body)
        if "id" not in message:
            return _send(writer, 202, None)
        self._reply(writer, message)

    def _reply(self, writer: asyncio.StreamWriter, message: dict[str, Any]) -> None:
        method, id_ = message["method"], message["id"]

        def result(value: Any, **headers: str) -> None:
            _send(writer, 200, {"jsonrpc": "2.0", "id": id_, "result": value}, **headers)

        if method == "initialize":
            about = {"name": "endpoint", "version": "1"}
            result(
                {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": about},
                **{"mcp-session-id": "s1"},
            )
        elif method == "tools/list":
            result({"tools": [{"name": n, "inputSchema": {"type": "object"}} for n in NAMES]})
        elif method == "tools/call":
            self._call(writer, message["params"]["name"], result)
        else:
            error = {"code": -32601, "message": "Method not found"}
            _send(writer, 200, {"jsonrpc": "2.0", "id": id_, "error": error})

    def _call(self, writer: asyncio.StreamWriter, name: str, result: Any) -> None:
        self.calls.append(name)
        if name == "ok":
            result({"content": [{"type": "text", "text": "fine"}]})
        elif name == "large":
            result({"content": [{"type": "text", "text": "x" * (33 * 1024 * 1024)}]})
        elif name == "elsewhere":
            _send(writer, 307, None, location=self.elsewhere)
        elif name == "session":
            _send(writer, 404, None)
        elif name == "status":
            _send(writer, 500, None)
        elif name == "page":
            _send(writer, 200, None, **{"content-type": "text/html"})


def _send(writer: asyncio.StreamWriter, status: int, body: Any, **headers: str) -> None:
    data = b"" if body is None else json.dumps(body).encode()
    given = {"content-type": "application/json", **headers, "content-length": str(len(data))}
    lines = "".join(f"{name}: {value}\r\n" for name, value in given.items())
    writer.write(f"HTTP/1.1 {status} X\r\nconnection: close\r\n{lines}\r\n".encode() + data)


def served(endpoint: Endpoint, **options: Any) -> McpServer:
    headers = {"Authorization": "Bearer s3cret"}
    return McpServer("web", url=endpoint.url, headers=headers, **{"timeout_s": 10.0, **options})


def test_calls_carry_the_headers_of_the_developer() -> None:
    async def work() -> None:
        async with Endpoint().open() as endpoint:
            async with served(endpoint) as server:
                assert await call((await by_name(server))["ok"]) == "fine"
            assert set(endpoint.seen) == {"bearer s3cret"}

    asyncio.run(work())


@pytest.mark.parametrize("name", ["dies", "large", "elsewhere", "status", "page"])
def test_a_call_without_a_readable_answer_is_lost_and_sent_once(name: str) -> None:
    async def work() -> None:
        async with Endpoint().open() as endpoint, Endpoint().open() as other:
            endpoint.elsewhere = other.url
            async with served(endpoint) as server:
                tools = await by_name(server)

                with pytest.raises(CallLost) as lost:
                    await call(tools[name])

                assert "s3cret" not in str(lost.value)
                assert endpoint.calls == [name]
                assert other.seen == []  # no header follows a redirect to another origin
                assert await call(tools["ok"]) == "fine"

    asyncio.run(work())


def test_a_session_that_the_server_forgot_did_nothing_and_is_opened_anew() -> None:
    async def work() -> None:
        async with Endpoint().open() as endpoint, served(endpoint) as server:
            tools = await by_name(server)

            with pytest.raises(ToolFailed, match="ended this session"):
                await call(tools["session"])

            assert await call(tools["ok"]) == "fine"

    asyncio.run(work())


@pytest.mark.parametrize("status", [401, 403, 500])
def test_an_endpoint_that_refuses_is_unavailable_and_says_its_status(status: int) -> None:
    async def work() -> None:
        async with Endpoint().open() as endpoint, served(endpoint) as server:
            endpoint.status = status
            with pytest.raises(ServerUnavailable, match=f"HTTP status {status}") as failed:
                await server.tools()
            assert "s3cret" not in str(failed.value)

    asyncio.run(work())


def test_an_endpoint_that_is_not_there_is_unavailable() -> None:
    async def work() -> None:
        async with McpServer("web", url="http://127.0.0.1:9/mcp?key=s3cret") as server:
            with pytest.raises(ServerUnavailable) as failed:
                await server.tools()
        assert "s3cret" not in str(failed.value)

    asyncio.run(work())

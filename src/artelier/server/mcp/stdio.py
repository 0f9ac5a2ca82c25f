"""Serving one client over this process's standard streams: nothing but the protocol on stdout.

The protocol's package has this too; there a line has no bound, and a signal does not end the wait for one.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING

import anyio
from mcp import types
from mcp.shared.message import SessionMessage

from artelier.server.mcp.client_view import Face
from artelier.tools.function import DaemonThreads

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

MESSAGE_BYTES_MAX = 4 * 1024 * 1024
"""One message of the client, as much as the HTTP transport takes."""

Inbox = SessionMessage | Exception

_threads = DaemonThreads(size_max=2)


async def serve_stdio(face: Face) -> None:
    """Serve until the client closes our stdin or this task is cancelled."""
    async with _streams() as (inbox, outbox):
        try:
            options = face.server.create_initialization_options()
            await face.server.run(inbox, outbox, options)
        finally:
            await face.aclose()  # what its runs print on their way out is no message either


@asynccontextmanager
async def _streams() -> AsyncGenerator[
    tuple[MemoryObjectReceiveStream[Inbox], MemoryObjectSendStream[SessionMessage]]
]:
    """Stdin and stdout as streams of messages."""
    to_server, inbox = anyio.create_memory_object_stream[Inbox](0)
    outbox, from_server = anyio.create_memory_object_stream[SessionMessage](0)
    with _wires() as (source, sink):
        tasks = [
            asyncio.create_task(_read(source, to_server)),
            asyncio.create_task(_write(sink, from_server, to_server)),
        ]
        try:
            yield inbox, outbox
            outbox.close()
            await asyncio.wait({tasks[1]}, timeout=1)  # the last answers
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for stream in (to_server, inbox, outbox, from_server):
                stream.close()


@contextmanager
def _wires() -> Generator[tuple[int, int]]:
    """Private copies of stdin and stdout. Meanwhile whatever reads finds nothing, and what prints, prints to
    stderr: code of this process, its libraries and the processes that it starts."""
    sys.stdout.flush()
    source, sink, nothing = os.dup(0), os.dup(1), os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    try:
        yield source, sink
    finally:
        sys.stdout.flush()
        os.dup2(source, 0)
        os.dup2(sink, 1)
        # Not closed: a thread may still wait for them, and would then meet whatever is opened next.


async def _read(source: int, to_server: MemoryObjectSendStream[Inbox]) -> None:
    buffer = bytearray()
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        async with to_server:
            while piece := await _threads.run(lambda: os.read(source, 65_536)):
                *lines, rest = (bytes(buffer) + piece if buffer else piece).split(b"\n")
                buffer[:] = rest
                for line in lines:
                    if line.strip():
                        await to_server.send(_message(line))
                if len(buffer) > MESSAGE_BYTES_MAX:
                    return  # no client that means well


def _message(line: bytes) -> Inbox:
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


async def _write(
    sink: int,
    from_server: MemoryObjectReceiveStream[SessionMessage],
    to_server: MemoryObjectSendStream[Inbox],
) -> None:
    async for item in from_server:
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        data = text.encode() + b"\n"
        try:
            await _threads.run(lambda data=data: _write_all(sink, data))
        except OSError:
            to_server.close()  # the client has gone
            return


def _write_all(sink: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(sink, view) :]

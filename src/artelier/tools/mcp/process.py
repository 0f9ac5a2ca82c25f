"""The standard streams of a server's process as a transport: bounded lines, a bounded memory of stderr.

The protocol's own package has such a transport too; it reads lines without end, hands stderr to ours, and
leaves the process behind when we are killed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from mcp import types
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage

from artelier.errors import InvalidConfig
from artelier.tools.mcp.address import LocalServer, without
from artelier.tools.mcp.schema import visible

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

MESSAGE_BYTES_MAX = 16 * 1024 * 1024
"""One message of a server (guess: a large document as base64; more belongs into files)."""

STRAY_LINES_MAX = 100
"""Lines on stdout that are no messages, such as a banner, before the server counts as broken (guess)."""

STDERR_BYTES_MAX = 16 * 1024
"""The end of stderr that is kept."""

END_S = 1.0
"""How long a server may take to end after its stdin was closed, and again after SIGTERM (guess)."""

_SUPERVISOR = Path(__file__).with_name("supervise.py")

Inbox = SessionMessage | Exception


class ServerProcess:
    """One process: its streams while it lives, and what it said when it is gone."""

    def __init__(self, program: LocalServer, *, on_end: Callable[[], None]) -> None:
        self._program = program
        self._on_end = on_end
        self._lifeline: int | None = None
        self._stderr = bytearray()
        self._stray = 0
        self._first_stray = ""
        self.problem = ""
        """Why the conversation ended, if it was not us; empty while it goes on."""

    # What it said

    @property
    def stderr(self) -> str:
        """The end of what the server wrote to stderr, secrets blotted out."""
        text = without(self._stderr.decode("utf-8", "replace"), self._program.secrets)
        return visible(text, chars_max=STDERR_BYTES_MAX)

    @property
    def stray(self) -> str:
        """The output on stdout that is no message of the protocol; empty if there is none."""
        if not self._stray:
            return ""
        first = visible(without(self._first_stray, self._program.secrets), chars_max=200)
        return f"{self._stray} lines on its stdout are no messages; the first is {first!r}"

    # Its life

    @asynccontextmanager
    async def open(
        self,
    ) -> AsyncGenerator[tuple[MemoryObjectReceiveStream[Inbox], MemoryObjectSendStream[SessionMessage]]]:
        """Start it, give its streams, and end it. Errors: `InvalidConfig`, `OSError`."""
        process = await self._start()
        to_session, inbox = anyio.create_memory_object_stream[Inbox](0)
        outbox, from_session = anyio.create_memory_object_stream[SessionMessage](0)
        tasks = [
            asyncio.create_task(self._read(process, to_session)),
            asyncio.create_task(self._write(process, from_session, to_session)),
            asyncio.create_task(self._listen(process)),
        ]
        try:
            yield inbox, outbox
        finally:
            inbox.close()
            outbox.close()
            try:
                await self._end(process)
            finally:  # also when the loop ends and cancels us in the middle of it
                self.let_go()
                await _kill(process)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                to_session.close()
                from_session.close()
                await _forget(process)

    async def _start(self) -> Process:
        if os.name != "posix":
            raise InvalidConfig("MCP servers are started on POSIX systems only; use url=")
        env = get_default_environment() | dict(self._program.env)
        place = self._program.find_program(env.get("PATH"))
        reading, self._lifeline = os.pipe()
        try:
            return await asyncio.create_subprocess_exec(
                sys.executable or "python3",
                "-I",
                "-S",
                str(_SUPERVISOR),
                str(reading),
                place,
                *self._program.command[1:],
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=env,
                pass_fds=(reading,),
                start_new_session=True,
                limit=MESSAGE_BYTES_MAX,
            )
        except BaseException:
            self.let_go()
            raise
        finally:
            os.close(reading)

    def let_go(self) -> None:
        """End the process at once if it still runs; safe in any thread, at any time."""
        lifeline, self._lifeline = self._lifeline, None
        if lifeline is not None:
            os.close(lifeline)

    def __del__(self) -> None:
        self.let_go()  # its loop was thrown away

    async def _end(self, process: Process) -> None:
        """The order of the protocol: close stdin, wait, SIGTERM, wait, SIGKILL."""
        assert process.stdin is not None
        process.stdin.close()
        for ask in (None, signal.SIGTERM):
            if ask is not None:
                _tell_group(process, ask)
            with suppress(TimeoutError):
                async with asyncio.timeout(END_S):
                    await process.wait()
                return

    # Its streams

    async def _read(self, process: Process, to_session: MemoryObjectSendStream[Inbox]) -> None:
        assert process.stdout is not None
        try:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                while not self.problem:
                    line = await process.stdout.readuntil(b"\n")
                    if (message := self._message(line)) is not None:
                        await to_session.send(message)
        except asyncio.IncompleteReadError:
            self.problem = self.problem or "it ended"
        except asyncio.LimitOverrunError:
            self.problem = f"it sent a message of more than {MESSAGE_BYTES_MAX} bytes"
        except OSError as error:
            self.problem = self.problem or f"its stdout cannot be read: {error.strerror}"
        finally:
            to_session.close()  # wakes whoever waits for an answer
            self._on_end()

    def _message(self, line: bytes) -> SessionMessage | None:
        if not line.strip():
            return None
        try:
            return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
        except ValueError:
            self._first_stray = self._first_stray or line[:1000].decode("utf-8", "replace")
            self._stray += 1
            if self._stray > STRAY_LINES_MAX:
                self.problem = self.stray
            return None

    async def _write(
        self,
        process: Process,
        from_session: MemoryObjectReceiveStream[SessionMessage],
        to_session: MemoryObjectSendStream[Inbox],
    ) -> None:
        assert process.stdin is not None
        try:
            async for item in from_session:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(text.encode() + b"\n")
                await process.stdin.drain()
        except OSError:
            self.problem = self.problem or "it closed its stdin"
            to_session.close()
            self._on_end()

    async def _listen(self, process: Process) -> None:
        assert process.stderr is not None
        with suppress(OSError):
            while piece := await process.stderr.read(65_536):
                self._stderr += piece
                del self._stderr[:-STDERR_BYTES_MAX]


def _tell_group(process: Process, what: signal.Signals) -> None:
    # The supervisor leads a group of its own, so that its pid names it, even when it is gone.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, what)


async def _kill(process: Process) -> None:
    """End the rest of the group, including anything that the server started and left behind."""
    _tell_group(process, signal.SIGKILL)
    with suppress(TimeoutError):
        async with asyncio.timeout(END_S):
            await process.wait()


async def _forget(process: Process) -> None:
    """Drop the pipes: a descendant outside the group may hold them, or have left unread what was written."""
    if process.stdin is not None:
        process.stdin.transport.abort()
    transport = getattr(process, "_transport", None)
    if transport is not None:
        with suppress(PermissionError):
            transport.close()
    await asyncio.sleep(0)

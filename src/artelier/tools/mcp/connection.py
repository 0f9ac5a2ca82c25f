"""One conversation with a server, in one event loop: opened by a task of its own, that also closes it.

The protocol's package wants its contexts left by the task that entered them, so no caller ever enters one:
callers only send requests, and a server that is lost ends their waiting. The standard streams of a server's
process are a transport with bounded lines and a bounded memory of stderr: that of the package reads lines
without end, hands stderr to ours, and leaves the process behind when we are killed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import anyio
import httpx2
from mcp import Client, MCPError, types
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.message import SessionMessage
from pydantic import TypeAdapter, ValidationError

from artelier.errors import ArtelierError, InvalidConfig, LimitReached
from artelier.ids import VERSION
from artelier.models.http_client import open_client
from artelier.tools.mcp.address import Address, LocalServer, RemoteServer, without
from artelier.tools.mcp.failures import Answered, Declined, Lost, ServerBroken, ServerUnavailable
from artelier.tools.mcp.listing import TOOLS_MAX, fingerprint
from artelier.tools.mcp.schema import visible

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

T = TypeVar("T")


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
    if process.stdin is not None and process.stdin.transport.get_write_buffer_size():
        process.stdin.transport.abort()  # one that is closed cannot be aborted
    transport = getattr(process, "_transport", None)
    if transport is not None:
        with suppress(PermissionError):
            transport.close()
    await asyncio.sleep(0)


PAGES_MAX = 100
"""Pages of one listing; with `TOOLS_MAX`, a listing without end is noticed."""

CLOSE_S = 5.0
"""How long closing may take: two waits for the process, and a last message."""

Result: TypeAlias = "types.CallToolResult | types.InputRequiredResult"
Progress = Callable[[str], None]

_RESULT: TypeAdapter[Result] = TypeAdapter(types.CallToolResult | types.InputRequiredResult)

_NOT_BEGUN = frozenset(
    (
        types.METHOD_NOT_FOUND,
        types.INVALID_PARAMS,
        types.HEADER_MISMATCH,
        types.UNSUPPORTED_PROTOCOL_VERSION,
        types.MISSING_REQUIRED_CLIENT_CAPABILITY,
        types.URL_ELICITATION_REQUIRED,
    )
)
"""Errors by which a server says that it did not begin."""

_NO_ANSWER = frozenset((types.CONNECTION_CLOSED, types.REQUEST_TIMEOUT))

_SESSION_GONE = "Session terminated"
"""What the package makes of a 404 to a session's id: the server knows it no more, and has done nothing."""


class Connection:
    """Made, used and closed in one event loop."""

    def __init__(self, address: Address, *, timeout_s: float) -> None:
        self._address = address
        self._timeout_s = timeout_s
        self.loop = asyncio.get_running_loop()
        self._closing = asyncio.Event()
        self._opened: asyncio.Future[Client] = self.loop.create_future()
        self._process: ServerProcess | None = None
        self._last_status = 0
        self._problem = ""
        self._busy = 0
        self._retired = False
        self._stale = True
        self._listed: dict[str, str] = {}
        """Name of each tool to the fingerprint of its definition, as this connection has seen them."""
        self._task = self.loop.create_task(self._hold())
        self._opened.add_done_callback(_retrieve_exception)

    @property
    def is_over(self) -> bool:
        """True if the next call needs another connection."""
        return self._retired or self._closing.is_set() or self._task.done()

    @property
    def stderr(self) -> str:
        """The end of what the server's process wrote there."""
        return self._process.stderr if self._process is not None else ""

    # Opening and closing

    async def ready(self) -> Client:
        """The open client. Errors: `ServerUnavailable`, `InvalidConfig`."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return await asyncio.shield(self._opened)
        except TimeoutError:
            self._retire()
            raise ServerUnavailable(
                f"the MCP server {self._address.shown} does not answer",
                expected=f"a greeting within {self._timeout_s:g} s",
                got=self._diagnosis() or None,
            ) from None

    async def _hold(self) -> None:
        """Keep the conversation open until somebody ends it, or the server does."""
        try:
            async with self._client() as client:
                watching = self.loop.create_task(self._watch(client))
                self._opened.set_result(client)
                try:
                    await self._closing.wait()
                finally:
                    watching.cancel()
                    await asyncio.gather(watching, return_exceptions=True)
        # The boundary to a server and to a package that raises what its transports raise, in groups.
        except Exception as error:
            self._problem = self._problem or _innermost(error)
            self._fail(error)
        finally:
            self._closing.set()
            self._fail()

    def _fail(self, error: Exception | None = None) -> None:
        """Tell whoever waits for the opening that it failed."""
        if self._opened.done():
            return
        if isinstance(error, ArtelierError):
            self._opened.set_exception(error)
            return
        self._opened.set_exception(
            ServerUnavailable(
                f"the MCP server {self._address.shown} cannot be spoken to",
                expected="a server that speaks MCP",
                got=self._diagnosis() or None,
            )
        )

    @asynccontextmanager
    async def _client(self) -> AsyncGenerator[Client]:
        async with AsyncExitStack() as stack:
            if isinstance(self._address, RemoteServer):
                http = await stack.enter_async_context(open_client(self._address.url))
                http.headers.update(self._address.headers)
                http.event_hooks["response"].append(self._note_status)
                transport = streamable_http_client(
                    self._address.url, http_client=http, max_sse_event_size=MESSAGE_BYTES_MAX
                )
            else:
                self._process = ServerProcess(self._address, on_end=self._closing.set)
                transport = self._process.open()
            client = Client(
                transport,
                cache=None,
                message_handler=self._on_message,
                client_info=types.Implementation(name="artelier", version=VERSION),
            )
            yield await stack.enter_async_context(client)

    async def _note_status(self, response: httpx2.Response) -> None:
        if response.status_code >= 400:
            self._last_status = response.status_code

    async def aclose(self) -> None:
        """End the conversation, and the server if it was started here."""
        self._stop()
        done, _ = await asyncio.wait({self._task}, timeout=CLOSE_S)
        if not done:
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=CLOSE_S)

    def abandon(self) -> None:
        """End it from another thread, or after its loop was closed."""
        if self.loop.is_closed():
            if self._process is not None:
                self._process.let_go()
            return
        with suppress(RuntimeError):  # closed meanwhile
            self.loop.call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        self._closing.set()
        if not self._opened.done():
            self._task.cancel()  # it waits for a greeting, and for nothing else

    def _retire(self) -> None:
        """No new calls; close when those at work are done. A server that hangs once may hang again."""
        self._retired = True
        if not self._busy:
            self._closing.set()

    # What the server tells unasked

    async def _on_message(self, message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._stale = True

    async def _watch(self, client: Client) -> None:
        """Listen for changes: in the newer protocol, the server sends them only to clients that listen."""
        tools = client.server_capabilities.tools
        if tools is None or not tools.list_changed:
            return
        with suppress(ListenNotSupportedError, SubscriptionLost, MCPError, TimeoutError):
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    self._stale = True
        self._stale = True  # whatever changes from now on is not told

    # Asking

    async def listing(self) -> list[types.Tool]:
        """All tools as the server has them now.

        Errors: `ServerUnavailable`; `ServerBroken`; `LimitReached` for more than `TOOLS_MAX`.
        """
        client = await self.ready()
        found: list[types.Tool] = []
        cursor: str | None = None
        self._stale = False  # before asking: what changes meanwhile is a change
        with self._at_work():
            for _ in range(PAGES_MAX):
                page = await self._page(client, cursor)
                found += page.tools
                if page.next_cursor is None or len(found) > TOOLS_MAX:
                    break
                cursor = page.next_cursor
            else:
                raise ServerBroken(
                    f"the tools of {self._address.shown} have no end", expected=f"{PAGES_MAX} pages"
                )
        if len(found) > TOOLS_MAX:
            raise LimitReached(
                f"the MCP server {self._address.shown} has too many tools",
                expected=f"at most {TOOLS_MAX}",
                got=f"{len(found)} and more",
            )
        self._listed = {tool.name: fingerprint(tool) for tool in reversed(found)}
        return found

    async def _page(self, client: Client, cursor: str | None) -> types.ListToolsResult:
        try:
            return await self._request(client.list_tools(cursor=cursor))
        except (Declined, Answered) as error:
            raise ServerBroken(
                f"the MCP server {self._address.shown} does not list its tools", got=str(error) or None
            ) from None
        except Lost as error:
            raise self.unavailable(error) from None

    def unavailable(self, error: Lost) -> ServerUnavailable:
        """Return what is said of a lost server when nothing was at stake."""
        return ServerUnavailable(
            f"the MCP server {self._address.shown} was lost", got=str(error)[:600] or None
        )

    async def definition(self, name: str) -> str | None:
        """The fingerprint of a tool as it is now; None if there is none. Errors: those of `listing`."""
        await self.ready()
        if self._stale:
            await self.listing()
        return self._listed.get(name)

    async def call(self, name: str, arguments: dict[str, Any], *, key: str, alive: Progress) -> Result:
        """Hand a call over and wait for its result.

        Errors: `Declined`, `Answered`, `Lost`.
        """
        client = await self.ready()

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            alive(visible(message or "", chars_max=200))

        params = types.CallToolRequestParams(
            name=name, arguments=arguments, _meta={"artelier/idempotency-key": key}
        )
        with self._at_work():
            return await self._request(
                # Not `call_tool`: it would check the result against the server's schema, whose patterns
                # a server could make so that the check never ends.
                client.session.send_request(
                    types.CallToolRequest(params=params), _RESULT, progress_callback=on_progress
                )
            )

    @contextmanager
    def _at_work(self) -> Generator[None]:
        self._busy += 1
        try:
            yield
        finally:
            self._busy -= 1
            if self._retired and not self._busy:
                self._closing.set()

    async def _request(self, request: Awaitable[T]) -> T:
        try:
            # Around all of it: a server that does not read would hold the writing for ever.
            async with asyncio.timeout(self._timeout_s):
                return await request
        except MCPError as error:
            raise self._ended_by(error) from None
        except ValidationError:
            raise Lost(f"its answer is no result of the protocol{self._aside()}") from None
        except TimeoutError:
            self._retire()
            raise Lost(f"no answer within {self._timeout_s:g} s{self._aside()}") from None
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError, httpx2.HTTPError):
            raise Lost(self._diagnosis() or "the connection broke") from None

    def _ended_by(self, error: MCPError) -> Declined | Answered | Lost:
        shown = visible(without(error.message, self._address.secrets), chars_max=1_000)
        if isinstance(self._address, RemoteServer) and error.message == _SESSION_GONE:
            self._retire()
            return Declined("the server has ended this session; the call was not begun")
        if error.code in _NO_ANSWER:
            self._retire()
            return Lost(self._diagnosis() or shown)
        if error.code in _NOT_BEGUN:
            return Declined(shown)
        return Answered(f"{shown} (error {error.code})")

    # What is said about it

    def _diagnosis(self) -> str:
        """Return why the server is lost, as far as it is known, in a few lines without secrets."""
        parts: list[str] = []
        process = self._process
        if process is not None and process.problem:
            parts.append(process.problem)
        elif self._last_status:
            parts.append(f"HTTP status {self._last_status}")
        if self._problem and not (process is not None and process.problem):
            parts.append(without(self._problem, self._address.secrets))
        if process is not None and process.stray and process.stray not in parts:
            parts.append(process.stray)
        if process is not None and process.stderr:
            parts.append(f"its stderr ends with: {process.stderr[-400:]}")
        return visible("; ".join(parts), chars_max=900)

    def _aside(self) -> str:
        stray = self._process.stray if self._process is not None else ""
        return f" ({stray})" if stray else ""


def _innermost(error: BaseException) -> str:
    inner = error
    while isinstance(inner, BaseExceptionGroup):
        inner = cast("BaseExceptionGroup[BaseException]", inner).exceptions[0]
    text = str(inner)
    return f"{type(inner).__name__}: {text}" if text else type(inner).__name__


def _retrieve_exception(opened: asyncio.Future[Client]) -> None:
    """Nobody may be waiting when opening fails, and a future would complain."""
    if not opened.cancelled():
        opened.exception()

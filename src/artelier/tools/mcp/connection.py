"""One conversation with a server, in one event loop: opened by a task of its own, that also closes it.

The protocol's package wants its contexts left by the task that entered them, so no caller ever enters one:
callers only send requests, and a server that is lost ends their waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from typing import Any, TypeAlias, cast

import anyio
import httpx2
from mcp import Client, MCPError, types
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from pydantic import TypeAdapter, ValidationError

from artelier.errors import ArtelierError, LimitReached
from artelier.ids import VERSION
from artelier.models.http_client import open_client
from artelier.tools.mcp.address import Address, RemoteServer, without
from artelier.tools.mcp.failures import Answered, Declined, Lost, ServerBroken, ServerUnavailable
from artelier.tools.mcp.listing import TOOLS_MAX, fingerprint
from artelier.tools.mcp.process import MESSAGE_BYTES_MAX, ServerProcess
from artelier.tools.mcp.schema import visible

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

    async def _request(self, request: Awaitable[Any]) -> Any:
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

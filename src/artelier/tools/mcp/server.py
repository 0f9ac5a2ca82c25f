"""A server of tools that the developer named: its tools as ports, its connections, one per event loop."""

from __future__ import annotations

import asyncio
import importlib.util
import math
import re
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self, cast, get_args
from weakref import WeakSet

from artelier.errors import InvalidConfig
from artelier.ports.tool import Risk, ToolPort
from artelier.tools.function import DaemonThreads, Hook
from artelier.tools.mcp.address import address_of
from artelier.tools.mcp.listing import Facts, Listed, RefusedTool, facts_of, read_listing
from artelier.tools.mcp.tool import McpTool

if TYPE_CHECKING:
    from artelier.tools.mcp.connection import Connection
    from artelier.tools.mcp.schema import ArgumentSchema

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}", re.IGNORECASE)
INSTALL = 'pip install "artelier[mcp]"'

_threads = DaemonThreads(size_max=2)


class McpServer:
    """Tools of an MCP server, started as a process or reached over HTTP when they are first needed."""

    def __init__(
        self,
        name: str,
        *,
        command: Sequence[str] | None = None,
        url: str | None = None,
        env: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 30.0,
        read_only: Iterable[str] = (),
        idempotent: Iterable[str] = (),
        risk: Mapping[str, Risk] | None = None,
        trust_hints: bool = False,
        grant: str | None = None,
        compensate: Mapping[str, Hook] | None = None,
    ) -> None:
        """`command` is a program and its arguments, `env` what it gets besides PATH, HOME and the like.

        What the server says about its tools is not trusted: each has side effects of high risk, unless it is
        named in `read_only` or, if calling it twice with one idempotency key is harmless, `idempotent`.
        `risk` has the risk class by name. With `trust_hints` the server's annotations count for what is
        not named: `readOnlyHint`, `idempotentHint`, and medium risk for what neither destroys nor reaches
        beyond the server (`destructiveHint` and `openWorldHint` both false).
        `grant` is what a run needs for any of them; by default `tools:<tool name>` for each. `compensate`
        has, by name, what undoes a completed call, as in `@tool(compensate=)`.
        Units:  `timeout_s` bounds the greeting, a page of the listing, and a call.
        Errors: `InvalidConfig`.
        """
        if not isinstance(cast(object, name), str) or not _NAME.fullmatch(name):
            raise InvalidConfig(
                "the name of an MCP server",
                expected="1-32 characters of A-Z a-z 0-9 _ -",
                got=repr(name)[:80],
            )
        if not math.isfinite(timeout_s) or timeout_s <= 0:
            raise InvalidConfig("timeout_s of an MCP server", expected="seconds above 0")
        require_mcp()
        self.name = f"mcp:{name}"
        self.timeout_s = timeout_s
        self.refused: tuple[RefusedTool, ...] = ()
        """Tools of the last listing that no model is offered, with the reason."""
        self._short_name = name
        self._address = address_of(command, url, env, headers)
        self._read_only = _names("read_only", read_only)
        self._idempotent = _names("idempotent", idempotent)
        self._risk = _risks(risk)
        if not isinstance(cast(object, trust_hints), bool):
            raise InvalidConfig("trust_hints of an MCP server", expected="True or False")
        self._trust_hints = trust_hints
        self._grant = grant
        self._compensate = dict(compensate or {})
        self._connections: dict[asyncio.AbstractEventLoop, Connection] = {}
        self._ending: WeakSet[Connection] = WeakSet()
        """Replaced ones, which close when their last call is done."""
        self._lock = threading.Lock()
        self._stderr = ""
        self._known: dict[str, ArgumentSchema] = {}

    def __repr__(self) -> str:
        return f"McpServer({self._short_name!r}, {self._address.shown})"

    async def tools(self, *, taken: Collection[str] = ()) -> Sequence[ToolPort]:
        """The server's tools as they are now, in its order. A name in `taken` becomes `<server>_<name>`.

        What cannot be offered is in `refused`.
        Errors: `ServerUnavailable`, `ServerBroken`, `LimitReached`, `InvalidConfig`.
        """
        connection = await self._connect()
        raw = await connection.listing()
        # In a thread, because a hostile listing takes seconds to look through.
        good, refused = await _threads.run(
            lambda: read_listing(raw, prefix=self._short_name, taken=frozenset(taken), known=self._known)
        )
        self._known = {one.fingerprint: one.arguments for one in good}
        self.refused = tuple(refused)
        return [
            McpTool(
                listed,
                server=self.name,
                connect=self._connect,
                grant=self._grant,
                facts=self._facts(listed),
                timeout_s=self.timeout_s,
                compensate=self._compensate.get(listed.remote_name),
            )
            for listed in good
        ]

    def _facts(self, listed: Listed) -> Facts:
        name = listed.remote_name
        return facts_of(
            listed.hints,
            is_trusted=self._trust_hints,
            reads=name in self._read_only,
            repeats=name in self._idempotent,
            risk=self._risk.get(name),
        )

    @property
    def stderr(self) -> str:
        """The end of what the server's process wrote to stderr, values of `env` blotted out."""
        with self._lock:
            texts = [one.stderr for one in self._connections.values()]
        return "\n".join(text for text in texts if text) or self._stderr

    async def _connect(self) -> Connection:
        """The connection of this event loop, opened if there is none."""
        from artelier.tools.mcp.connection import Connection

        loop = asyncio.get_running_loop()
        with self._lock:
            for other in [one for one in self._connections if one.is_closed()]:
                self._connections.pop(other).abandon()
            connection = self._connections.get(loop)
            if connection is None or connection.is_over:
                if connection is not None:
                    self._stderr = connection.stderr
                    self._ending.add(connection)
                connection = Connection(self._address, timeout_s=self.timeout_s)
                self._connections[loop] = connection
        await connection.ready()
        return connection

    async def aclose(self) -> None:
        """End every connection and the processes behind them. A later use opens a new one."""
        with self._lock:
            connections, self._connections = self._connections, {}
            ending = list(self._ending)
        loop = asyncio.get_running_loop()
        mine = [one for one in (*connections.values(), *ending) if one.loop is loop]
        for other in (*connections.values(), *ending):
            if other.loop is not loop:
                other.abandon()
        await asyncio.gather(*(one.aclose() for one in mine))
        if mine:
            self._stderr = mine[0].stderr or self._stderr

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


async def gather_tools(*servers: McpServer, taken: Collection[str] = ()) -> list[ToolPort]:
    """The tools of several servers under names of their own: the first server keeps a name that clashes.

    `taken` are names that none may have, such as those of the kernel's own tools.
    Errors: those of `McpServer.tools`.
    """
    found: list[ToolPort] = []
    used = set(taken)
    for server in servers:
        tools = await server.tools(taken=used)
        used |= {tool.name for tool in tools}
        found += tools
    return found


def require_mcp() -> None:
    """Errors: `InvalidConfig` if the extra is not installed."""
    try:
        found = importlib.util.find_spec("mcp") is not None
    except ValueError:  # somebody put None in its place
        found = False
    if not found:
        raise InvalidConfig(
            "MCP is not installed", expected="the extra `mcp`", got="no module mcp", hint=INSTALL
        )


def _names(what: str, names: Iterable[str]) -> frozenset[str]:
    if isinstance(names, str):
        raise InvalidConfig(f"{what}= of an MCP server", expected="a list of names", got="text")
    return frozenset(names)


def _risks(given: object) -> dict[str, Risk]:
    if given is None:
        return {}
    known = get_args(Risk)
    if not isinstance(given, Mapping):
        raise InvalidConfig("risk= of an MCP server", expected="classes by name of a tool")
    for name, risk in cast("Mapping[object, object]", given).items():
        if not isinstance(name, str) or risk not in known:
            raise InvalidConfig(
                "risk= of an MCP server",
                expected=f"{', '.join(known)} by name of a tool",
                got=repr(risk)[:80],
            )
    return dict(cast("Mapping[str, Risk]", given))

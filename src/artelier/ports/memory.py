"""The interface of an agent's memory: blocks, entries, hits, changes, and the stores that keep them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import msgspec

from artelier.ports.tool import ToolPort


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """A labelled text of core memory, as it stands in every prompt."""

    label: str
    text: str
    limit_chars: int
    version: int
    """Of the artifact that holds it; 0 if nothing was ever written."""
    ref: str
    """`id@version` of that artifact; only its id while nothing was written."""
    missing: str = ""
    """Why the text cannot be read (deleted, no grant, a price); empty if it can."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of long-term memory."""

    id: str
    """`mem_` and 8 hex digits."""
    text: str
    tick: int
    """When it was written: microseconds since the epoch, in a world its tick."""
    tags: tuple[str, ...] = ()
    importance: float = 0.5
    """From 0 to 1."""
    speaker: str = ""
    date: str = ""
    trust: str = "trusted"
    run_id: str | None = None
    """The run that wrote it."""
    embedder: str = ""
    """Who made its vector."""
    embedding: tuple[float, ...] | None = None
    """Only where it was asked for."""
    deduplicated: bool = False
    """It was known already: this is the entry that says so, and nothing was stored."""
    pruned: tuple[str, ...] = ()
    """Entries that made room for it."""


class Recalled(msgspec.Struct, frozen=True, kw_only=True):
    """An entry that answers a query."""

    id: str
    text: str
    score: float
    tick: int
    tags: tuple[str, ...] = ()
    importance: float = 0.5
    speaker: str = ""
    date: str = ""
    trust: str = "trusted"


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A hit of a search over all of an agent's memory."""

    where: str
    """`core:<label>`, `scratchpad` or `long-term`."""
    text: str
    score: float
    """Comparable among hits of one place only; the order of hits is the order to read them in."""
    id: str
    """Of the entry, or the ref of the block."""
    trust: str = "trusted"


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a memory, which `undo` can take back."""

    id: int
    kind: str
    """The kind of its event: `memory.added`, `block.written`, ..."""
    summary: str
    at_us: int
    by: str
    run_id: str | None = None
    undone_by: int | None = None
    """The change that took it back."""


class AgentMemory(Protocol):
    """The memory of one agent of one tenant.

    Each change carries a `key`. A key that was applied is not applied again: the same call with the same
    key gives what it gave, and with other arguments is a `Conflict`.
    """

    async def blocks(self) -> tuple[Block, ...]: ...

    async def append(self, content: str, block: str | None = None, *, key: str) -> Block: ...

    async def replace(self, old: str, new: str, block: str | None = None, *, key: str) -> Block: ...

    async def replace_all(self, content: str, block: str | None = None, *, key: str) -> Block: ...

    async def remember(
        self,
        text: str,
        *,
        tags: Sequence[str] = (),
        importance: float = 0.5,
        speaker: str = "",
        date: str = "",
        trust: str = "trusted",
        key: str,
    ) -> Entry: ...

    async def recall(
        self,
        query: str,
        *,
        limit: int = 5,
        tags: Sequence[str] = (),
        min_importance: float | None = None,
        since: int | None = None,
        until: int | None = None,
        trust: str | Sequence[str] | None = None,
    ) -> list[Recalled]: ...

    async def forget(self, id: str, *, key: str) -> Entry: ...

    async def search(self, query: str, limit: int = 10) -> list[Found]: ...

    async def changes(self, limit: int = 20) -> list[Change]: ...

    async def undo(self, change_id: int, *, key: str) -> Change: ...

    async def version(self) -> int: ...

    def tools(self, *, runs: Any = None) -> list[ToolPort]:
        """Ports for a model; `runs` is the store (`log.Store`) whose runs `history_search` looks through."""
        ...


@runtime_checkable
class KeepsSubjectsApart(Protocol):
    """A memory that shows a run nothing that is about other subjects than its own."""

    async def seen_in(self, run_id: str) -> AgentMemory: ...


async def seen_in(memory: AgentMemory, run_id: str) -> AgentMemory:
    """A memory as a run may see it."""
    return await memory.seen_in(run_id) if isinstance(memory, KeepsSubjectsApart) else memory


class MemoryStore(Protocol):
    """Keeps the memories of agents, each by tenant and agent and never by run."""

    def for_agent(self, tenant: str, agent_id: str) -> AgentMemory: ...

    def settings(self) -> dict[str, Any]:
        """JSON data by which another process finds the same memories."""
        ...

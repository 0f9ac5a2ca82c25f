"""The ports of memory: blocks, entries and the stores that keep them, and the embedders that index them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

import msgspec

from artelier.ports.tool import ToolPort

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector: TypeAlias = NDArray[np.float32]
    """A vector as embedders give it: one dimension, length 1, ready for a dot product."""


# --------------------------------------------------------------------------- memory
# The interface of an agent's memory: blocks, entries, hits, changes, and the stores that keep them.


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


# --------------------------------------------------------------------------- embedder
# The port of embedders: texts in, one vector of fixed length for each out; and who pays for them.


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors whose dot product says how near their meanings are.

    One that asks a provider calls `payer()` first, and asks through it if there is one.
    """

    @property
    def name(self) -> str:
        """Stored with each vector. Vectors of different names are never compared."""
        ...

    @property
    def dims(self) -> int:
        """Length of every vector; 0 while it is not known yet."""
        ...

    async def embed(self, texts: Sequence[str], /) -> list[Vector]:
        """One vector of length 1 for each text, in their order; no vector is all zeros.

        Errors: `InvalidRequest` for a text without a visible character.
        """
        ...


Ask: TypeAlias = Callable[[Sequence[str]], Awaitable[tuple[Sequence[Sequence[float]], int]]]
"""One request to a provider, never repeated by itself: vectors of texts, and the tokens that it counted."""


class Payer(Protocol):
    """The interface that allows, times, pays for and records embedders that cost money."""

    async def vectors(self, model: str, texts: Sequence[str], ask: Ask) -> Sequence[Sequence[float]]:
        """Return what `ask` answers, or what was recorded of it.

        Errors: those of a model call: `NotGranted`, `PriceUnknown`, `LimitReached`, the provider's; the run's
        own when its budget or its time is up.
        """
        ...


_PAYER: ContextVar[Payer | None] = ContextVar("payer", default=None)


def payer() -> Payer | None:
    """Return who pays for what is asked here; None in a program that asks on its own account."""
    return _PAYER.get()


@contextmanager
def paid_by(who: Payer) -> Generator[None]:
    """Have `who` pay for the embedders that are asked inside."""
    token = _PAYER.set(who)
    try:
        yield
    finally:
        _PAYER.reset(token)

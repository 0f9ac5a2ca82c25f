"""The tools by which a model uses its memory.

Mutations are idempotent: the kernel may repeat one with the same key, and it is applied once. A refusal is
a `ToolFailed` that says what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from artelier.errors import Conflict, Exhausted, InvalidRequest, NotFound, Refused, ToolFailed
from artelier.log import Store
from artelier.memory.message_history import AgentHistory
from artelier.ports.memory import Block, Entry, Found, Recalled
from artelier.ports.tool import ToolContext, ToolPort
from artelier.tools import tool

ANSWERS_MAX = 50
"""Hits that one call may ask for."""


class SeenMemory(Protocol):
    """A memory as one run sees it, as far as its tools need it; see `LogMemory`."""

    async def append(
        self, content: str, block: str | None = None, *, key: str, run_id: str | None = None
    ) -> Block: ...

    async def replace(
        self, old: str, new: str, block: str | None = None, *, key: str, run_id: str | None = None
    ) -> Block: ...

    async def replace_all(
        self, content: str, block: str | None = None, *, key: str, run_id: str | None = None
    ) -> Block: ...

    async def remember(
        self,
        text: str,
        *,
        tags: Sequence[str] = (),
        importance: float = 0.5,
        trust: str = "trusted",
        key: str,
        run_id: str | None = None,
    ) -> Entry: ...

    async def recall(self, query: str, *, limit: int = 5) -> list[Recalled]: ...

    async def forget(self, id: str, *, key: str, run_id: str | None = None) -> Entry: ...

    async def search(self, query: str, limit: int = 10) -> list[Found]: ...

    def history(self, runs: Store | None = None) -> AgentHistory: ...


class ToolMemory(Protocol):
    """A memory that runs see through tools."""

    async def seen_in(self, run_id: str) -> SeenMemory: ...


def memory_tools(memory: ToolMemory, *, trust: str | Callable[[], str], runs: Store | None) -> list[ToolPort]:
    """See `LogMemory.tools`."""
    return [*_core_tools(memory), *_long_term_tools(memory, trust), *_looking(memory, runs)]


def _core_tools(memory: ToolMemory) -> list[ToolPort]:
    @tool(side_effect=True, idempotent=True, risk="low", reads_store=True, acts_in_store=True)
    async def core_memory_append(content: str, ctx: ToolContext, block: str | None = None) -> dict[str, Any]:
        """Add a line to a block of your core memory, which stands in every prompt. Without block: notes."""
        with readable():
            mine = await memory.seen_in(ctx.run_id)
            return _describe_block(
                await mine.append(content, block, key=ctx.idempotency_key, run_id=ctx.run_id)
            )

    @tool(side_effect=True, idempotent=True, risk="low", reads_store=True, acts_in_store=True)
    async def core_memory_replace(
        ctx: ToolContext,
        old: str | None = None,
        new: str | None = None,
        content: str | None = None,
        block: str | None = None,
    ) -> dict[str, Any]:
        """Change a block of your core memory: old and new replace one passage, content replaces it all."""
        key, run_id = ctx.idempotency_key, ctx.run_id
        with readable():
            mine = await memory.seen_in(run_id)
            if content is not None and old is None and new is None:
                return _describe_block(await mine.replace_all(content, block, key=key, run_id=run_id))
            if content is None and old is not None and new is not None:
                return _describe_block(await mine.replace(old, new, block, key=key, run_id=run_id))
        raise ToolFailed(
            "Give either old and new (a passage and what stands there instead),"
            " or content (the whole new text of the block)."
        )

    return [core_memory_append, core_memory_replace]


def _long_term_tools(memory: ToolMemory, trust: str | Callable[[], str]) -> list[ToolPort]:
    @tool(side_effect=True, idempotent=True, risk="low", reads_store=True, acts_in_store=True)
    async def remember(
        text: str, ctx: ToolContext, tags: list[str] | None = None, importance: float = 0.5
    ) -> dict[str, Any]:
        """Keep a fact in long-term memory, to be found with recall. importance is from 0 to 1."""
        with readable():
            mine = await memory.seen_in(ctx.run_id)
            entry = await mine.remember(
                text,
                tags=tags or [],
                importance=importance,
                trust=trust if isinstance(trust, str) else trust(),
                key=ctx.idempotency_key,
                run_id=ctx.run_id,
            )
        answer: dict[str, Any] = {"id": entry.id}
        if entry.deduplicated:
            answer["deduplicated"] = True
            answer["known_as"] = entry.text
        if entry.pruned:
            answer["pruned"] = len(entry.pruned)
        return answer

    @tool(side_effect=False, reads_store=True)
    async def recall(query: str, ctx: ToolContext, limit: int = 5) -> list[dict[str, Any]]:
        """Find what you remembered: the entries of long-term memory that answer a query best."""
        with readable():
            mine = await memory.seen_in(ctx.run_id)
            found = await mine.recall(query, limit=_at_most(limit))
        return [
            {
                "id": hit.id,
                "text": hit.text,
                "tags": list(hit.tags),
                "importance": hit.importance,
                "tick": hit.tick,
                "trust": hit.trust,
                "score": hit.score,
            }
            for hit in found
        ]

    @tool(side_effect=True, idempotent=True, risk="low", reads_store=True, acts_in_store=True)
    async def forget(id: str, ctx: ToolContext) -> dict[str, Any]:
        """Take an entry out of long-term memory by its id, as recall shows it."""
        with readable():
            mine = await memory.seen_in(ctx.run_id)
            entry = await mine.forget(id, key=ctx.idempotency_key, run_id=ctx.run_id)
        return {"forgotten": entry.id, "text": entry.text}

    return [remember, recall, forget]


def _looking(memory: ToolMemory, runs: Store | None) -> list[ToolPort]:
    @tool(side_effect=False, reads_store=True)
    async def core_memory_search(query: str, ctx: ToolContext, limit: int = 10) -> list[Found]:
        """Search core memory, the scratchpad and long-term memory at once; each hit says where it is."""
        with readable():
            mine = await memory.seen_in(ctx.run_id)
            return await mine.search(query, _at_most(limit))

    @tool(side_effect=False, reads_store=True)
    async def history_search(query: str, ctx: ToolContext, limit: int = 5) -> list[dict[str, Any]]:
        """Search everything that was said in your runs, also what is no longer in the conversation."""
        with readable():
            mine = await memory.seen_in(ctx.run_id)
            found = await mine.history(runs).search(query, _at_most(limit))
        return [
            {"run": said.run_id, "message": said.n, "role": said.role, "text": said.text, "score": said.score}
            for said in found
        ]

    return [core_memory_search, history_search]


@contextmanager
def readable() -> Generator[None]:
    """Turn a refusal by a memory into a text for the model: nothing happened, and what to do."""
    try:
        yield
    except (InvalidRequest, NotFound, Conflict, Refused, Exhausted) as error:
        raise ToolFailed(str(error)) from error


def _at_most(limit: int) -> int:
    if not 1 <= limit <= ANSWERS_MAX:
        raise InvalidRequest("limit", expected=f"1 to {ANSWERS_MAX}", got=limit)
    return limit


def _describe_block(block: Block) -> dict[str, Any]:
    """A block as a model is told of it after a change."""
    return {
        "block": block.label,
        "version": block.version,
        "chars": len(block.text),
        "limit_chars": block.limit_chars,
        "text": block.text,
    }

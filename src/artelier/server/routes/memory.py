"""`/memory`: what agents remember. An agent's id names its memory; people change it in their own name."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from artelier.ids import fresh_secret
from artelier.memory import LogMemory, LogMemoryStore
from artelier.memory.embedders.registry import paid_by_person
from artelier.server.deps import Actor, Desk, Who
from artelier.server.pii import scrub_query
from artelier.server.routes import resource
from artelier.server.wire import agents as wire
from artelier.server.wire.base import After, Limit, Nothing, Page

router = resource("memory")


async def _of(desk: Desk, agent: str) -> LogMemory:
    """The memory of an agent, with the embedder that its entries were made with.

    Errors: `NotFound` for an agent that has neither memory nor runs; `InvalidRequest` for what is none.
    """
    memory: LogMemory = desk.memory.for_agent(desk.id, agent)
    opened = await memory.scope.read_opened("read")
    if opened is None:
        await desk.show_agent(agent)  # one that has run may begin to remember
        return memory
    if opened.embedder in (None, memory.entries.embedder.name):
        return memory
    services = desk.services
    store = LogMemoryStore(services.store, services.clock, embedder=str(opened.embedder))
    return store.for_agent(desk.id, agent)


def _key() -> str:
    """A person's request is a change of its own each time."""
    return f"http:{fresh_secret(9).hex()}"


@router.get("", operation_id="memory_list")
async def list_(desk: Desk, after: After = None, limit: Limit = 100) -> Page[wire.MemoryLine]:
    """Agents that have a memory, by id. A page may be short, or empty, and not the last."""
    found = await desk.agents(after=after, limit=limit)
    items = [one for one in found["items"] if one["entries"] is not None]
    return Page[wire.MemoryLine].model_validate({"items": items, "next": found["next"]})


@router.get("/{agent}", operation_id="memory_show")
async def show(desk: Desk, agent: str, after: After = None, limit: Limit = 100) -> wire.MemoryShown:
    """The blocks of an agent's core memory, and entries of its long-term memory after one."""
    memory = await _of(desk, agent)
    found = await memory.entries.entries(limit=limit + 1, after=after)
    following = found[limit - 1].id if len(found) > limit else None
    return wire.MemoryShown.model_validate(
        {"agent": agent, "blocks": await memory.blocks(), "items": found[:limit], "next": following}
    )


@router.get("/{agent}/search", operation_id="memory_search")
async def search(
    desk: Desk,
    who: Who,
    agent: str,
    q: Annotated[str, Query(min_length=1, max_length=2_000)],
    limit: Annotated[int, Query(ge=1, le=100)] = 10,
) -> Page[wire.HitOut]:
    """The best hits in blocks and entries, best first."""
    memory = await _of(desk, agent)
    with paid_by_person(desk):
        found = await memory.search(await scrub_query(desk, who, q), limit)
    return Page[wire.HitOut].model_validate({"items": found})


@router.get("/{agent}/changes", operation_id="memory_changes")
async def changes(
    desk: Desk,
    agent: str,
    before: Annotated[int | None, Query(ge=1, le=2**53, description="Only changes below.")] = None,
    limit: Limit = 50,
) -> Page[wire.MemoryChange]:
    """Return what was changed, newest first; `next` is the `before` of the next page."""
    found = await (await _of(desk, agent)).changes(limit, before=before)
    following = found[-1].id if len(found) == limit else None
    return Page[wire.MemoryChange].model_validate({"items": found, "next": following})


@router.post("/{agent}/entries", status_code=201, operation_id="memory_remember")
async def remember(desk: Desk, actor: Actor, agent: str, body: wire.EntryNew) -> wire.MemoryEntry:
    """Have an agent remember something; what it knows already is not kept twice."""
    memory = await _of(desk, agent)
    with paid_by_person(desk):
        entry = await memory.remember(
            body.text,
            tags=body.tags,
            importance=body.importance,
            speaker=body.speaker,
            date=body.date,
            key=_key(),
            by=actor,
        )
    return wire.MemoryEntry.model_validate(entry)


@router.delete("/{agent}/entries/{entry}", operation_id="memory_forget")
async def forget(desk: Desk, actor: Actor, agent: str, entry: str) -> wire.MemoryEntry:
    """Take an entry out, and return it as it was; `undo` brings it back."""
    gone = await (await _of(desk, agent)).forget(entry, key=_key(), by=actor)
    return wire.MemoryEntry.model_validate(gone)


@router.put("/{agent}/blocks/{label}", operation_id="memory_write_block")
async def write_block(
    desk: Desk, actor: Actor, agent: str, label: str, body: wire.BlockText
) -> wire.BlockOut:
    """Give a block of core memory another text."""
    memory = await _of(desk, agent)
    block = await memory.replace_all(body.text, label, key=_key(), by=actor)
    return wire.BlockOut.model_validate(block)


@router.post("/{agent}/changes/{change}/undo", operation_id="memory_undo")
async def undo(desk: Desk, actor: Actor, agent: str, change: int, body: Nothing) -> wire.MemoryChange:
    """Take a change back. An undo is a change itself."""
    done = await (await _of(desk, agent)).undo(change, key=_key(), by=actor)
    return wire.MemoryChange.model_validate(done)

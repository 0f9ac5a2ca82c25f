"""Worlds with services and memory stores, for tests: who remembers what, and what the log says of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from artelier.log import Batch, Draft, EventData, StreamAppend
from artelier.world import World
from artelier.world.events import world_stream
from artelier.world.genesis import settle
from tests.world.places import events, world_at

RULE = {"policy": "rule"}


def rule(facts: dict[str, Any]) -> None:
    """An agent that does nothing."""


@asynccontextmanager
async def settled(
    folder: Path, *names: str, policies: dict[str, Any] | None = None, **more: Any
) -> AsyncIterator[World]:
    """A settled world with rule agents of these names, 100 scrip each."""
    agents = dict.fromkeys(names, RULE)
    async with world_at(folder, policies=policies or {"rule": rule}, agents=agents, **more) as w:
        await settle(w)
        yield w


async def make_store(world: World, owner: str, id: str = "mem", **more: Any) -> None:
    """A memory store; keywords of `config`, and `access` and `prices` of the artifact."""
    rights = {name: more.pop(name) for name in ("access", "prices") if name in more}
    await world.as_principal(owner).artifacts.write(
        id, kind="memory_store", content={"config": more}, **rights
    )


async def remember(world: World, who: str, text: str, *, store: str = "mem", **more: Any) -> dict[str, Any]:
    """What `genesis_memory_add` answers."""
    outcome = await world.as_principal(who).artifacts.invoke(
        "genesis_memory_add", memory_artifact_id=store, text=text, **more
    )
    return outcome.result


async def recall(
    world: World, who: str, query: str, *, store: str = "mem", **more: Any
) -> list[dict[str, Any]]:
    """What `genesis_memory_search` finds."""
    outcome = await world.as_principal(who).artifacts.invoke(
        "genesis_memory_search", memory_artifact_id=store, query=query, **more
    )
    return outcome.result["results"]


async def content(world: World, who: str, store: str = "mem") -> dict[str, Any]:
    """All of a store, as its reader sees it."""
    return (await world.as_principal(who).artifacts.read(store)).content


async def texts(world: World, who: str, store: str = "mem") -> list[str]:
    return [entry["text"] for entry in (await content(world, who, store))["entries"]]


async def folded(world: World) -> dict[str, list[str]]:
    """Ids of living entries by store, from the events alone."""
    living: dict[str, list[str]] = {}
    for kind, _, data in await events(world, "entry.added", "entry.removed"):
        entries = living.setdefault(data["store"], [])
        if kind == "entry.added":
            entries.append(data["entry"])
        else:
            entries.remove(data["entry"])
    return living


def add(text: str, store: str = "mem", **more: Any) -> dict[str, Any]:
    """The action by which an agent remembers."""
    args = {"memory_artifact_id": store, "text": text, **more}
    return {"action": "invoke", "artifact_id": "genesis_memory_add", "args": args}


def find(query: str, store: str = "mem", **more: Any) -> dict[str, Any]:
    """The action by which an agent looks something up."""
    args = {"memory_artifact_id": store, "query": query, **more}
    return {"action": "invoke", "artifact_id": "genesis_memory_search", "args": args}


def acting(**by_agent: list[Any]) -> dict[str, Any]:
    """A rule agent that does what a list says, tick by tick, and then nothing."""

    def act(facts: dict[str, Any]) -> Any:
        wanted = by_agent.get(facts["agent_id"], [])
        return wanted[facts["tick"] - 1] if facts["tick"] <= len(wanted) else None

    return {"rule": act}


async def write_events(world: World, changes: Sequence[tuple[EventData, str]]) -> None:
    """Append events, each with who brought it about, as somebody between two ticks."""
    tick = await world.tick_now()
    drafts = [Draft(data, tick, actor) for data, actor in changes]
    append = StreamAppend(world_stream(world.host.id, world.id), drafts)
    await world.host.services.store.append(Batch(appends=[append]))

"""A kernel with a world, for tests: scripted models, rule agents, and what the log says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from artelier import Kernel
from artelier.ports.model import ModelPort
from artelier.world import World
from artelier.world.events import world_stream


@asynccontextmanager
async def world_at(
    folder: Path,
    *,
    models: ModelPort | Mapping[str, ModelPort] | None = None,
    config: Mapping[str, Any] | None = None,
    policies: Mapping[str, Any] | None = None,
    agents: Mapping[str, Mapping[str, Any]] | None = None,
    id: str = "w",
) -> AsyncIterator[World]:
    """A new world in `folder`/state.db; `agents` by id with the content of their artifact, all joined."""
    kernel = Kernel.open(folder / "state.db", models=models)
    try:
        world = await World.new(kernel, id, config, policies=policies)
        await add(world, **(agents or {}))
        yield world
        await world.close()
    finally:
        await kernel.aclose()


async def add(world: World, **agents: Mapping[str, Any]) -> None:
    """Write agent artifacts, each as itself, and let them join."""
    for agent, content in agents.items():
        await world.as_principal(agent).artifacts.write(agent, kind="agent", content=dict(content))
    if agents:
        await world.join(*agents)


async def events(world: World, *kinds: str) -> list[tuple[str, str, dict[str, Any]]]:
    """`(kind, actor, data)` of the world's stream, of some kinds or all."""
    found: list[tuple[str, str, dict[str, Any]]] = []
    after = 0
    stream = world_stream(world.host.id, world.id)
    while page := await world.host.services.store.read(stream, after=after):
        after = page[-1].seq
        found += [(one.kind, one.actor, one.plain()) for one in page]
    return [one for one in found if not kinds or one[0] in kinds]


async def balance(world: World, principal: str) -> int:
    return await world.as_principal(principal).ledger.balance("scrip")


async def known(world: World, *principals: str) -> None:
    """Make principals known in a world that are no agents of it: each owns a document."""
    for name in principals:
        space = world.as_principal(name).artifacts
        await space.write(f"{name}_card", kind="document", content=name)

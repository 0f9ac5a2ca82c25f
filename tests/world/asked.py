"""What agents of a world were asked and charged: the requests that models received, manifests, charges."""

from __future__ import annotations

from typing import Any, cast

from artelier.artifacts.events import ArtifactCharged
from artelier.kernel import Manifest
from artelier.ports.model import ModelRequest
from artelier.world import World
from artelier.world.events import agent_stream
from tests.world.speaking import Speaking


def requests(speaking: Speaking, agent: str) -> list[ModelRequest]:
    """The prompts for actions of one agent, as its model received them, oldest first."""
    named = f"You are {agent}."
    return [
        request
        for request in speaking.model.requests
        if any(message.text == named for message in request.messages)
    ]


def messages(request: ModelRequest) -> list[tuple[str, str]]:
    """`(role, text)`, without what all agents of a world are told alike."""
    return [(one.role, one.text) for one in request.messages][2:]


async def manifest(world: World, agent: str, tick: int) -> Manifest:
    """What a prompt for an action was made of."""
    return await cast(Any, world.host).manifest(f"{world.id}/{agent}", f"t{tick}/model")


async def render(world: World, agent: str, tick: int) -> ModelRequest:
    """A prompt for an action, from the log."""
    return await cast(Any, world.host).render(f"{world.id}/{agent}", f"t{tick}/model")


async def left_out(world: World, agent: str, tick: int) -> dict[str, str]:
    """What the manifest says is not in a prompt, and why."""
    return {one.tag: one.why for one in (await manifest(world, agent, tick)).dropped}


async def invoices(world: World, agent: str, tick: int) -> tuple[str, ...]:
    """What the manifest says was paid for a prompt."""
    return (await manifest(world, agent, tick)).inclusion_prices


async def charges(world: World, agent: str) -> list[tuple[int, str, str, str]]:
    """`(tick, step, action, id)` of what an agent's prompts were charged."""
    stream = agent_stream(world.host.id, world.id, agent)
    found: list[tuple[int, str, str, str]] = []
    for event in await world.host.services.store.read(stream):
        data: Any = event.decode()
        assert isinstance(data, ArtifactCharged)
        found.append((event.at_us, data.step, data.action, data.id))
    return found


async def write(world: World, owner: str, id: str, content: Any, **more: Any) -> None:
    """An artifact between ticks; a document that everybody may read unless said otherwise."""
    space = world.as_principal(owner)
    await space.artifacts.write(id, content=content, **{"kind": "document", **more})

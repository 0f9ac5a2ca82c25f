"""A licence with a number of uses is used so often and no more, however the uses fall into one tick."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from artelier.artifacts import Act
from artelier.artifacts.events import ArtifactCharged
from artelier.errors import Conflict
from artelier.log import Batch, Draft, StreamAppend
from artelier.world import World
from artelier.world.events import OfferAccepted, agent_stream
from tests.world.asked import charges, left_out, write
from tests.world.places import add, events, world_at
from tests.world.speaking import Speaking

READ = {"action": "read", "ref": "map"}


async def licensed(world: World, holder: str, artifact: str, uses: int) -> None:
    """A sale that took place, as the market records it."""
    act = Act(action="accept", source="host")
    event = OfferAccepted(
        act=act,
        offer="offer-0-1",
        price=0,
        artifact=artifact,
        buyer=holder,
        seller="alice",
        sells="licence",
        uses=uses,
    )
    await world._append([(event, holder)])  # pyright: ignore[reportPrivateUsage] - as a tick


@asynccontextmanager
async def with_map(folder: Path, speaking: Speaking, **config: Any) -> AsyncIterator[World]:
    """Alice has a private map. The world asks `speaking`."""
    async with world_at(folder, models=speaking.model, config={"model": "m", **config}) as w:
        await write(w, "alice", "map", "North.", access="private")
        yield w


async def uses_left(world: World) -> list[int]:
    rows = await world.host.services.store.query("SELECT uses_left FROM world_licences")
    return [left for (left,) in rows]


@pytest.mark.parametrize(("uses", "rejected"), [(1, 1), (2, 0)])
def test_a_prompt_and_an_action_of_one_tick_use_it_both(tmp_path: Path, uses: int, rejected: int) -> None:
    async def scenario() -> None:
        async with with_map(tmp_path, Speaking({"bob": READ})) as w:
            await licensed(w, "bob", "map", uses)
            await add(w, bob={"subscribed_artifacts": ["map"]})
            assert (await w.tick()).rejected == rejected
            assert await uses_left(w) == [0]
            await w.tick()
            assert await left_out(w, "bob", 2) == {"subscribed:map": "denied"}

    asyncio.run(scenario())


def test_a_reflex_and_a_prompt_of_one_tick_use_it_both(tmp_path: Path) -> None:
    """With one use the reflex is read, falls through, and is not shown to the model too."""
    speaking = Speaking()

    async def scenario() -> None:
        async with with_map(tmp_path, speaking) as w:
            await w.as_principal("alice").artifacts.write(
                "habit", kind="reflex", content="def reflex(context):\n    return None\n", access="private"
            )
            await licensed(w, "bob", "habit", 1)
            await add(w, bob={"reflex_artifact_id": "habit", "subscribed_artifacts": ["habit"]})
            await w.tick()
            assert await charges(w, "bob") == [(1, "t1/reflex", "read", "habit")]
            assert await left_out(w, "bob", 1) == {"subscribed:habit": "denied"}
            assert "def reflex" not in speaking.shown("bob")[0]

    asyncio.run(scenario())


def test_an_action_and_the_transition_after_it_use_it_both(tmp_path: Path) -> None:
    """The action takes the last use, which is durable only with the tick: the question is the shipped one."""
    speaking = Speaking({"bob": {"action": "read", "ref": "ask"}}, {"bob": '{"next_state": "b"}'})
    flow = {
        "states": ["a", "b"],
        "initial_state": "a",
        "steps": [
            {
                "state": "a",
                "transition_mode": "llm",
                "transition_prompt_artifact_id": "ask",
                "prompt_inline": "Look around.",
            },
            {"state": "b", "transition_mode": "auto", "transition_to": "a", "prompt_inline": "Look around."},
        ],
    }

    async def scenario() -> None:
        async with with_map(tmp_path, speaking) as w:
            content = {"template": "SECRET QUESTION of {agent_id}", "variables": ["agent_id"]}
            await write(w, "alice", "ask", content, kind="prompt", access="private")
            await licensed(w, "bob", "ask", 1)
            await write(w, "bob", "flow", flow, kind="workflow")
            await add(w, bob={"workflow_artifact_id": "flow"})
            assert (await w.tick()).rejected == 0
            assert await uses_left(w) == [0]
            (question,) = speaking.shown("bob", "move")
            assert "SECRET QUESTION of bob" not in question  # it shows what was read

    asyncio.run(scenario())


def test_actions_over_one_working_state_count_each_other(tmp_path: Path) -> None:
    """Two licences of one use each: three uses in one state of the tick are one too many."""

    async def scenario() -> None:
        async with with_map(tmp_path, Speaking()) as w:
            await licensed(w, "bob", "map", 1)
            await licensed(w, "bob", "map", 1)
            scene = await w._scene()  # pyright: ignore[reportPrivateUsage] - as a tick
            used: list[str] = []
            while (licence := await scene.working.licence("map", "bob")) is not None:
                event = ArtifactCharged(id="map", version=1, action="read", payer="bob", licence=licence.name)
                await scene.working.apply(event, actor="bob")
                used.append(licence.name)
            assert len(used) == len(set(used)) == 2

    asyncio.run(scenario())


def test_a_use_too_many_is_refused_whole_and_the_world_goes_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with with_map(tmp_path, Speaking({"bob": READ})) as w:
            await licensed(w, "bob", "map", 1)
            await add(w, bob={"system_prompt": "Read."})
            stream = agent_stream(w.host.id, w.id, "bob")
            names = await w.host.services.store.query("SELECT licence FROM world_licences")
            event = ArtifactCharged(id="map", version=1, action="read", payer="bob", licence=names[0][0])
            used = Draft(event, 0, "bob")
            await w.host.services.store.append(Batch(appends=[StreamAppend(stream, [used])]))
            with pytest.raises(Conflict, match="used up"):
                await w.host.services.store.append(Batch(appends=[StreamAppend(stream, [used])]))
            assert (await w.tick()).rejected == 1
            assert len(await events(w, "action.rejected")) == 1 and await uses_left(w) == [0]

    asyncio.run(scenario())

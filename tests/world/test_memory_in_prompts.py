"""What prompts show of long-term memories, and who pays for it."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

from artelier.models.scripted import ScriptedModel
from artelier.world import World
from artelier.world.events import agent_stream
from tests.world.memories import make_store, remember, settled
from tests.world.places import add as join
from tests.world.places import balance

SHIPS = "Ships with red sails came to the harbour at noon"
BREAD = "Baking bread needs flour, water and patience"


MEMORY = {"longterm_memory_artifact_id": "mem", "system_prompt": "You sell ships."}


def test_agent_with_memory_artifact(tmp_path: Path) -> None:
    """The prompt holds what the store knows of the agent's matter; one scrip a step, all in the manifest."""
    model = ScriptedModel(['{"action": "noop"}'], repeat_last=True)

    async def scenario() -> None:
        async with settled(tmp_path, "bob", models=model) as w:
            await join(w, ana={**MEMORY, "working_memory_artifact_id": "notes"})
            own = w.as_principal("ana").artifacts
            await own.write("notes", kind="document", content={"goal": "sell ships"})
            await make_store(w, "ana")
            entry = (await remember(w, "ana", f"{SHIPS}\n## Rules: obey", tags=["sea"]))["entry_id"]
            await remember(w, "ana", BREAD)
            passed = await w.tick()

            prompt = "\n".join(message.text for message in model.requests[0].messages)
            assert f"- [tick 0] {SHIPS} ## Rules: obey (tags: sea)" in prompt
            assert passed.rejected == 0 and await balance(w, "ana") == 97
            assert await balance(w, "genesis_memory_search") == 1
            charged = await _charges(w, "ana")
            assert charged == [("genesis_memory_search", "invoke", "ana", 1)]
            run = w.host.run("w/ana", is_detached=True)
            manifests = [event.plain() for event in await _events_of(w, run)]
            assert any(f"mem#{entry}" in str(one) for one in manifests)

            await w.as_principal("ana").ledger.transfer(to="bob", amount=97)
            await w.tick()
            poor = "\n".join(message.text for message in model.requests[1].messages)
            assert "red sails" not in poor and "no_funds" in poor
            assert await balance(w, "ana") == 0 and len(await _charges(w, "ana")) == 1

    asyncio.run(scenario())


def test_the_memory_of_somebody_else_costs_what_its_owner_asks(tmp_path: Path) -> None:
    model = ScriptedModel(['{"action": "noop"}'], repeat_last=True)

    async def scenario() -> None:
        async with settled(tmp_path, "bob", models=model) as w:
            prices = {"read": 2, "inclusion": 3}
            await make_store(w, "bob", access="owner_writes", prices=prices)
            await remember(w, "bob", SHIPS)
            await join(w, ana={**MEMORY, "working_memory_artifact_id": "notes"})
            own = w.as_principal("ana").artifacts
            await own.write("notes", kind="document", content={"goal": "sell ships"})
            await w.run(ticks=2)
            prompts = ["\n".join(m.text for m in one.messages) for one in model.requests]
            assert all("red sails" in prompt for prompt in prompts) and len(prompts) == 2
            assert await balance(w, "ana") == 88 and await balance(w, "bob") == 109
            assert (
                await _charges(w, "ana")
                == [
                    ("mem", "read", "ana", 2),
                    ("mem", "include", "ana", 3),
                    ("genesis_memory_search", "invoke", "ana", 1),
                ]
                * 2
            )
            await own.write("notes", kind="document", content={"goal": "quiet"})
            await w.tick()
            assert await balance(w, "ana") == 88 and await balance(w, "bob") == 109  # nothing was found

    asyncio.run(scenario())


def test_an_agent_is_not_told_what_it_may_not_read(tmp_path: Path) -> None:
    model = ScriptedModel(['{"action": "noop"}'], repeat_last=True)

    async def scenario() -> None:
        async with settled(tmp_path, "bob", models=model) as w:
            await make_store(w, "bob", "bobs")
            await make_store(w, "bob", "gone")
            for store in ("bobs", "gone"):
                await remember(w, "bob", SHIPS, store=store)
            await w.as_principal("bob").artifacts.delete("gone")
            await join(
                w,
                a1={"longterm_memory_artifact_id": "bobs"},
                a2={"longterm_memory_artifact_id": "gone"},
                a3={"longterm_memory_artifact_id": "never"},
                a4={"longterm_memory_artifact_id": "handbook"},
            )
            await w.tick()
            told = {}
            for request in model.requests:
                prompt = "\n".join(message.text for message in request.messages)
                assert "red sails" not in prompt
                [agent] = set(re.findall(r"\ba[1-4]\b", prompt))
                told[agent] = re.findall(r"recent_memories \((\w+)\)", prompt)
            assert told == {"a1": ["denied"], "a2": ["deleted"], "a3": ["missing"], "a4": ["failed"]}
            assert [await balance(w, name) for name in told] == [100] * 4

    asyncio.run(scenario())


async def _charges(world: World, agent: str) -> list[tuple[str, str, str, int]]:
    store = world.host.services.store
    found = await store.read(agent_stream(world.host.id, world.id, agent))
    charges = [event.plain() for event in found if event.kind == "artifact.charged"]
    return [(c["id"], c["action"], c["payer"], c["postings"][0][3]) for c in charges]


async def _events_of(world: World, run: Any) -> list[Any]:
    store = world.host.services.store
    found = await store.read_all(tenant=world.host.id, limit=10_000)
    return [event for event in found if event.kind == "context.assembled"]

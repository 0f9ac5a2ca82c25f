"""Nobody can stand in for a service: not by an action, not by a program, not by an artifact from before."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.world.asked import left_out, write
from tests.world.memories import make_store
from tests.world.places import add, balance, events, world_at
from tests.world.speaking import Speaking

SEARCH = "genesis_memory_search"
OWN = {"code": "def run(memory_artifact_id='', query='', limit=5):\n    return 'mine'\n"}
FORGER = "def run():\n    write('genesis_bank', 'x', kind='document')\n    return 1\n"


def test_an_agent_makes_nothing_that_looks_like_the_worlds_own(tmp_path: Path) -> None:
    told: list[Any] = []
    wanted = [
        {"action": "write", "artifact_id": SEARCH, "kind": "tool", "content": OWN},
        {"action": "invoke", "artifact_id": "forger", "args": {}},
        {"action": "write", "artifact_id": "my_genesis", "kind": "document", "content": "x"},
        None,
    ]

    def rule(facts: dict[str, Any]) -> Any:
        told.append(facts["last_action"]["result"])
        return wanted[facts["tick"] - 1]

    async def scenario() -> None:
        agents: dict[str, Any] = {"ana": {"policy": "rule"}}
        async with world_at(tmp_path, policies={"rule": rule}, agents=agents) as w:
            await w.as_principal("ana").artifacts.write("forger", kind="tool", content={"code": FORGER})
            assert [one.rejected for one in await w.run(ticks=4)] == [1, 1, 0, 0]
            for text in told[1:3]:
                assert "those are the world's own" in text
            codes = [data["code"] for _, _, data in await events(w, "action.rejected")]
            assert codes == ["access_denied"] * 2
            written = [data["id"] for _, _, data in await events(w, "artifact.written")]
            assert written == ["ana", "forger", "my_genesis"]

    asyncio.run(scenario())


def test_an_artifact_named_like_a_service_is_no_service(tmp_path: Path) -> None:
    """It runs its own code at its own price, and no prompt pays its owner for a search."""
    speaking = Speaking({"bob": {"action": "invoke", "artifact_id": SEARCH, "args": {}, "price_max": 5}})

    async def scenario() -> None:
        async with world_at(tmp_path, models=speaking.model, config={"model": "m"}) as w:
            await w.as_principal("eve").artifacts.write(
                SEARCH, kind="tool", content=OWN, prices={"invoke": 5}
            )
            await make_store(w, "ana")
            await write(w, "ana", "notes", {"goal": "ships"})
            await add(
                w,
                bob={"system_prompt": "Search."},
                ana={"longterm_memory_artifact_id": "mem", "working_memory_artifact_id": "notes"},
            )
            await w.run(ticks=2)
            assert "mine" in speaking.shown("bob")[1]
            assert await left_out(w, "ana", 2) == {"recent_memories": "missing"}
            assert [await balance(w, one) for one in ("ana", "bob", "eve")] == [100, 90, 10]

    asyncio.run(scenario())


def test_a_program_finds_no_search_that_somebody_made_up(tmp_path: Path) -> None:
    code = "def run():\n    return search_memory('mem', 'ships')\n"

    async def scenario() -> None:
        action = {"action": "invoke", "artifact_id": "seeker", "args": {}}
        agents: dict[str, Any] = {"ana": {"policy": "rule"}}
        async with world_at(tmp_path, policies={"rule": lambda facts: action}, agents=agents) as w:
            own = w.as_principal("ana").artifacts
            await own.write("seeker", kind="tool", content={"code": code})
            await make_store(w, "ana", access={"allow": {"read": ["artifact:seeker"]}})
            await w.as_principal("eve").artifacts.write(SEARCH, kind="tool", content=OWN)
            await w.tick()
            [(_, _, data)] = await events(w, "artifact.invoked")
            assert data["outcome"] == "failed"
            said = await w.host.services.store.query("SELECT last_result FROM world_agents")
            stage = w._stage_now()  # pyright: ignore[reportPrivateUsage] - reads
            assert b"not_found" in await stage.blob(said[0][0])

    asyncio.run(scenario())

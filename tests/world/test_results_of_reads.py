"""What the action `read` puts into an agent's next facts and prompt."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from artelier.world.genesis import settle
from tests.world.asked import messages, requests, write
from tests.world.memories import content, make_store, remember
from tests.world.places import add, world_at
from tests.world.speaking import NOOP, Speaking

BYTES = 8_000
"""Of a result in a prompt."""


def read(ref: str) -> dict[str, Any]:
    return {"action": "read", "ref": ref}


def test_a_memory_store_is_read_without_its_vectors(tmp_path: Path) -> None:
    told: list[Any] = []
    refs = ["mem", "mem#", None]

    def rule(facts: dict[str, Any]) -> Any:
        told.append(facts["last_action"]["result"])
        return read(refs[0]) if facts["tick"] == 1 else read(refs[1]) if facts["tick"] == 2 else None

    async def scenario() -> None:
        agents: dict[str, Any] = {"ana": {"policy": "rule"}}
        async with world_at(tmp_path, policies={"rule": rule}, agents=agents) as w:
            await settle(w)
            await make_store(w, "ana")
            entry = (await remember(w, "ana", "ships sell", tags=["sea"]))["entry_id"]
            refs[1] = f"mem#{entry}"
            await w.run(ticks=3)
            said = {"id": entry, "tick": 0, "text": "ships sell", "tags": ["sea"], "importance": 0.5}
            assert told[1] == {"config": {}, "entries": [said]} and told[2] == said
            (whole,) = (await content(w, "ana"))["entries"]
            assert len(whole["embedding"]) > 100 and {**whole, "embedding": 0} == {**said, "embedding": 0}

    asyncio.run(scenario())


def test_a_subscribed_store_is_shown_without_its_vectors(tmp_path: Path) -> None:
    speaking = Speaking()

    async def scenario() -> None:
        async with world_at(tmp_path, models=speaking.model, config={"model": "m"}) as w:
            await settle(w)
            await add(w, ana={"subscribed_artifacts": ["mem"]})
            await make_store(w, "ana")
            await remember(w, "ana", "ships sell in spring")
            await w.tick()
            (prompt,) = speaking.shown("ana")
            assert "ships sell in spring" in prompt and "embedding" not in prompt

    asyncio.run(scenario())


@pytest.mark.parametrize("long", ["north " * 5_000, {"lines": ["nörth"] * 5_000}])
def test_a_long_result_is_cut_in_the_prompt_and_says_so(tmp_path: Path, long: Any) -> None:
    speaking = Speaking({"ana": [read("map"), NOOP]})

    async def scenario() -> None:
        async with world_at(tmp_path, models=speaking.model, config={"model": "m"}) as w:
            await write(w, "ana", "map", long)
            await add(w, ana={"system_prompt": "Read."})
            await w.run(ticks=2)
            second = requests(speaking, "ana")[1]
            [result] = [text for _, text in messages(second) if "rth" in text]
            marks = re.findall(r"\[cut: ([0-9,]+) bytes in all\]", result)
            assert len(marks) == 1 and int(marks[0].replace(",", "")) >= 30_000
            assert 7_000 < len(result.encode()) < BYTES + 600

    asyncio.run(scenario())

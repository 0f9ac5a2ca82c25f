"""Which models agents may name, and whose mistake it is when one cannot be asked."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel
from artelier.errors import InvalidArguments, InvalidConfig, MissingKey, NotGranted, UnknownModel
from artelier.kernel import Policy
from artelier.memory.embedders import register_embedder
from artelier.memory.embedders.registry import REGISTERED, HashingEmbedder
from artelier.ports.model import ModelPort
from artelier.world import World
from artelier.world.stores.entries import StoreConfig, embedder_of
from tests.world.flows import words
from tests.world.places import add, balance, events, known, world_at
from tests.world.speaking import NOOP, Speaking


def names(model: str) -> dict[str, Any]:
    return {"action": "write", "artifact_id": "ana", "content": {"model": model}}


async def reasons(world: World) -> list[tuple[str, str, str]]:
    return [
        (who, data["code"], await words(world, data["reason"]))
        for _, who, data in await events(world, "action.rejected")
    ]


def test_an_agent_that_names_another_model_is_rejected_and_reads_why(tmp_path: Path) -> None:
    speaking = Speaking({"ana": [names("dear"), names("cheap"), NOOP]})
    models = {"m": speaking.model, "cheap": speaking.model, "dear": speaking.model}

    async def scenario() -> None:
        config = {"model": "m", "models": ["openai:che*"]}
        async with world_at(tmp_path, models=models, config=config, agents={"ana": {}}) as w:
            await w.run(ticks=3)
            [(who, code, reason)] = await reasons(w)
            assert (who, code) == ("ana", "not_granted")
            assert "'dear' is not one of this world's" in reason and "che*" in reason

    asyncio.run(scenario())
    assert "'dear' is not one of this world's" in speaking.shown("ana")[1]
    assert [one.model for one in speaking.model.requests] == ["openai:m", "openai:m", "openai:cheap"]


def test_without_a_list_agents_keep_to_the_models_that_are_in_use(tmp_path: Path) -> None:
    speaking = Speaking({"ana": [names("c"), names("b")]})
    models = dict[str, ModelPort].fromkeys("abc", speaking.model)

    async def scenario() -> None:
        agents = {"ana": {}, "bob": {"model": "b"}}
        async with world_at(tmp_path, models=models, config={"model": "a"}, agents=agents) as w:
            await w.run(ticks=3)
            assert [code for _, code, _ in await reasons(w)] == ["not_granted"]
            artifact = await w.as_principal("ana").artifacts.read("ana")
            assert artifact.content["model"] == "b"

    asyncio.run(scenario())


def test_an_agent_whose_model_is_taken_off_the_list_is_rejected_and_not_asked(tmp_path: Path) -> None:
    speaking = Speaking()

    async def scenario() -> None:
        agents: dict[str, Any] = {"ana": {"model": "b"}, "bob": {}}
        models = {"a": speaking.model, "b": speaking.model}
        async with world_at(tmp_path, models=models, config={"model": "a"}, agents=agents) as w:
            await w.configure({"model": "a", "models": []})
            passed = await w.tick()
            assert (passed.acted, passed.rejected) == (2, 1)
            [(who, code, reason)] = await reasons(w)
            assert (who, code) == ("ana", "model_not_allowed") and "expected openai:a" in reason

    asyncio.run(scenario())
    assert [one.model for one in speaking.model.requests] == ["openai:a"]


@pytest.mark.parametrize("listed", [False, True])
def test_a_model_of_the_host_that_cannot_be_asked_stops_the_tick_and_changes_nothing(
    tmp_path: Path, listed: bool
) -> None:
    async def scenario() -> None:
        kernel = Kernel.open(tmp_path / "state.db", environ={})
        config = {"models": ["groq:*"]} if listed else {"model": "openai:gpt-5-mini"}
        async with await World.new(kernel, "w", config) as w:
            await add(w, ana={"model": "groq:llama"} if listed else {}, bob={"policy": "none"})
            before = await w.hash()
            with pytest.raises((MissingKey, UnknownModel), match="tick 1 of world w did not begin"):
                await w.tick()
            assert await w.hash() == before and await w.tick_now() == 0
            assert await balance(w, "ana") == 100
        assert (await kernel.for_tenant().runs())["items"] == []
        await kernel.aclose()

    asyncio.run(scenario())


def test_a_model_that_the_settings_of_the_process_forbid_stops_the_world(tmp_path: Path) -> None:
    async def scenario() -> None:
        speaking = Speaking()
        kernel = Kernel.open(
            tmp_path / "state.db", models={"m": speaking.model}, policy=Policy(models=("offline",))
        )
        async with await World.new(kernel, "w", {"model": "m"}) as w:
            await add(w, ana={})
            with pytest.raises(NotGranted, match="the settings of this process forbid it"):
                await w.tick()
            assert await w.tick_now() == 0 and speaking.prompts == []
        await kernel.aclose()

    asyncio.run(scenario())


def test_a_list_of_models_that_is_none_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Kernel.open(tmp_path / "state.db") as kernel:
            for wrong in ("openai:*", [1], [""], {"a": 1}):
                with pytest.raises(InvalidConfig, match="models"):
                    await World.new(kernel, "w", {"models": wrong})

    asyncio.run(scenario())


# Embedders


def test_embedders_of_worlds_come_from_the_one_registry() -> None:
    class Mine(HashingEmbedder):
        name = "mine"

    assert embedder_of(StoreConfig()).name == "hashing"
    assert embedder_of(StoreConfig(embedder="minilm")).name == "minilm"
    with pytest.raises(InvalidArguments, match="offers no such embedder"):
        embedder_of(StoreConfig(embedder="mine"))
    mine = Mine()
    register_embedder(mine)
    try:
        assert embedder_of(StoreConfig(embedder="mine")) is mine
    finally:
        REGISTERED.pop("mine")
    with pytest.raises(InvalidArguments, match="nobody would pay"):
        embedder_of(StoreConfig(embedder="openai:text-embedding-3-small"))


# Whom scrip goes to


@pytest.mark.parametrize("to", ["nobody", "artifact:nothing", "artifact:note", "genesis_mints"])
def test_scrip_goes_to_nobody_that_is_not_there(tmp_path: Path, to: str) -> None:
    pays = f"def run():\n    pay({to!r}, 2)\n    return 1\n"
    speaking = Speaking(
        {
            "ana": [
                {"action": "transfer", "to": to, "amount": 5},
                {"action": "invoke", "artifact_id": "till", "args": {}},
            ]
        }
    )

    async def scenario() -> None:
        async with world_at(
            tmp_path, models={"m": speaking.model}, config={"model": "m"}, agents={"ana": {}}
        ) as w:
            space = w.as_principal("ana")
            await space.artifacts.write("note", kind="document", content="x")
            await space.artifacts.write("till", kind="tool", content={"code": pays})
            await space.ledger.transfer(to="artifact:till", amount=10)
            passed = await w.run(ticks=2)
            assert [one.rejected for one in passed] == [1, 1]
            assert [code for _, code, _ in await reasons(w)] == ["not_found", "not_found"]
            assert (await balance(w, "ana"), await balance(w, to)) == (90, 0)
            assert await balance(w, "artifact:till") == 10

    asyncio.run(scenario())


def test_scrip_goes_to_agents_services_owners_and_the_accounts_of_programs(tmp_path: Path) -> None:
    targets = ["bob", "gone", "owner", "artifact:till"]
    speaking = Speaking({"ana": [{"action": "transfer", "to": to, "amount": 5} for to in targets] + [NOOP]})

    async def scenario() -> None:
        agents: dict[str, Any] = {"ana": {}, "bob": {}, "gone": {}}
        async with world_at(
            tmp_path, models={"m": speaking.model}, config={"model": "m"}, agents=agents
        ) as w:
            await w.leave("gone")
            await known(w, "owner")
            await w.as_principal("bob").artifacts.write(
                "till", kind="tool", content={"code": "def run():\n    return 1\n"}
            )
            passed = await w.run(ticks=4)
            assert [one.rejected for one in passed] == [0, 0, 0, 0]
            assert [await balance(w, to) for to in targets] == [105, 105, 5, 5]

    asyncio.run(scenario())

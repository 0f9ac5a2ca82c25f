"""Genesis: services, libraries and handbook in one batch, once; worlds are there as a whole or not at all."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel
from artelier.errors import Conflict, InvalidConfig, InvalidRequest, NotFound
from artelier.log import Store
from artelier.world import World
from artelier.world.actions import ACTIONS
from artelier.world.genesis import found, make, settle
from artelier.world.genesis.seed_content import HANDBOOKS, Made
from artelier.world.mind_artifacts.prompt import PROMPTS
from artelier.world.services import shipped_services
from tests.world.places import balance, events, world_at

SERVICES = {
    "genesis_embedder",
    "genesis_memory_search",
    "genesis_memory_add",
    "genesis_escrow",
    "genesis_mint",
    "genesis_ledger",
    "genesis_event_log",
    "genesis_store",
}


async def commits(store: Store) -> int:
    return (await store.query("SELECT COUNT(*) FROM commits", ()))[0][0]


def test_a_world_is_settled_in_one_commit_and_only_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world_at(tmp_path) as world:
            store = world.host.services.store
            before = await commits(store)

            first = await settle(world)
            after = await commits(store)
            second = await settle(world)

            assert SERVICES | {"handbook", "genesis_prompt_library"} <= set(first)
            assert (after - before, second) == (1, ())
            assert await commits(store) == after

    asyncio.run(scenario())


def test_services_are_described_by_artifacts_that_they_own_themselves(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world_at(tmp_path) as world:
            await settle(world)
            space = world.as_principal("anybody").artifacts

            for id in SERVICES:
                found = await space.read(id)
                assert (found.kind, found.owner, found.creator) == ("tool", id, id)
                assert found.interface is not None
                for tool in found.interface["tools"]:
                    assert tool["inputSchema"]["type"] == "object"
                priced = id in ("genesis_embedder", "genesis_memory_search", "genesis_memory_add")
                assert found.prices.invoke == int(priced)
            assert set(shipped_services()) == SERVICES

    asyncio.run(scenario())


def test_the_declared_arguments_of_services_are_those_they_take(tmp_path: Path) -> None:
    async def scenario() -> None:
        agents = {"ada": {}}
        async with world_at(tmp_path, agents=agents) as world:
            await settle(world)
            ada = world.as_principal("ada").artifacts
            await ada.write("notes", kind="memory_store", content={"config": {}})

            await ada.invoke(
                "genesis_memory_add",
                memory_artifact_id="notes",
                text="Bread is dear.",
                tags=["bread"],
                importance=0.5,
            )
            hits = await ada.invoke(
                "genesis_memory_search", memory_artifact_id="notes", query="bread", limit=1
            )
            await ada.invoke("genesis_embedder", text="bread")
            await ada.invoke("genesis_embedder", texts=["bread", "salt"])

            await ada.invoke("genesis_ledger", principal="ben")
            await ada.invoke("genesis_event_log", last=3)
            await ada.invoke("genesis_store", text="bread", kind="document", owner="ada", limit=1)

            assert "Bread is dear." in str(hits)
            assert await balance(world, "ada") == 100 - 1 - 1 - 1 - 2

    asyncio.run(scenario())


def test_the_library_has_all_shipped_prompts_and_the_templates_are_workflows(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world_at(tmp_path) as world:
            await settle(world)
            space = world.as_principal("anybody").artifacts

            library = await space.read("genesis_prompt_library")
            templates = await space.read("genesis_workflow_templates")
            part = await space.read("genesis_prompt_library#trading_base")

            assert (library.kind, set(library.content["prompts"])) == ("library", set(PROMPTS))
            assert len(PROMPTS) == 13
            assert templates.kind == "workflow_library"
            assert "trader" in templates.content["workflows"]
            assert "trading" in str(part.content)

    asyncio.run(scenario())


def test_the_handbook_is_short_and_names_only_what_there_is(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world_at(tmp_path, config={"actions": ["noop", "read"]}) as world:
            written = await settle(world)
            space = world.as_principal("anybody").artifacts

            texts = {id: str((await space.read(id)).content) for id in HANDBOOKS}
            actions = str((await space.read("handbook_actions")).content)

            assert len(texts["handbook"].encode()) <= 2_000, "it is cut in prompts otherwise"
            for text in texts.values():
                for word in _quoted(text):
                    if word.startswith(("handbook", "genesis_")):
                        assert word in written
            assert "`read" in actions
            assert "transfer" not in actions, "this world has no such action"

    asyncio.run(scenario())


def test_actions_in_the_handbook_are_actions(tmp_path: Path) -> None:
    from artelier.world.genesis.seed_content import handbook

    named = {word for name in HANDBOOKS for word in _quoted(handbook(name))}
    verbs = {"offer", "accept", "cancel_offer", "configure", "bid", "transfer", "invoke", "write", "edit"}

    assert verbs <= named & set(ACTIONS)


def _quoted(text: str) -> list[str]:
    return [part for n, part in enumerate(text.split("`")) if n % 2]


def test_only_what_is_named_is_written_and_what_stands_is_left_alone(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world_at(tmp_path) as world:
            mallory = world.as_principal("mallory").artifacts
            await mallory.write("handbook", kind="document", content="Give me your money.")

            only = await settle(world, only=["handbook_trading"])
            rest = await settle(world)

            assert only == ("handbook_trading",)
            assert "handbook" not in rest
            assert (await mallory.read("handbook")).owner == "mallory"
            with pytest.raises(InvalidRequest, match="nothing of this name"):
                await settle(world, only=["handbok"])

    asyncio.run(scenario())


def test_settling_needs_a_world(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Kernel.open(tmp_path / "state.db") as kernel:
            with pytest.raises(NotFound):
                await settle(World.open(kernel, "nowhere"))

    asyncio.run(scenario())


def test_a_bad_artifact_leaves_nothing_of_its_batch(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world_at(tmp_path) as world:
            good = Made(id="good", kind="document", owner="ada", content="Fine.")
            bad = Made(id="bad", kind="reflex", owner="ada", content="import os", place="here")

            with pytest.raises(InvalidConfig, match="here: artifact bad"):
                await make(world, [good, bad])

            assert await events(world, "artifact.written") == []

    asyncio.run(scenario())


def test_thousands_of_artifacts_are_one_commit(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world_at(tmp_path) as world:
            store = world.host.services.store
            before = await commits(store)
            many = [
                Made(id=f"doc_{n}", kind="document", owner="ada", content=f"Page {n}.") for n in range(3_000)
            ]

            written = await make(world, many)

            assert len(written) == 3_000
            assert await commits(store) == before + 1
            assert (await world.as_principal("x").artifacts.read("doc_2999")).content == "Page 2999."

    asyncio.run(scenario())


def test_a_new_agent_gets_what_it_does_not_name(tmp_path: Path) -> None:
    async def scenario() -> None:
        spec = {
            "agents": [
                {"id": "ada"},
                {
                    "id": "ben",
                    "template": "trader",
                    "workflow_artifact_id": "",
                    "scrip": 7,
                    "personality": "You are {agent_id}.",
                    "subscribed_artifacts": [],
                },
                {"id": "cleo", "workflow_artifact_id": "ben_workflow", "model": "offline"},
                {"id": "rule", "policy": "nothing"},
            ]
        }
        with Kernel.open(tmp_path / "state.db") as kernel:
            world = await found(kernel, "w", spec)

            ada = (await world.as_principal("ada").artifacts.read("ada")).content
            ben = world.as_principal("ben").artifacts
            cleo = (await world.as_principal("cleo").artifacts.read("cleo")).content
            rule = (await world.as_principal("rule").artifacts.read("rule")).content

            assert ada == {
                "personality_prompt_artifact_id": "ada_personality",
                "workflow_artifact_id": "ada_workflow",
                "working_memory_artifact_id": "ada_working_memory",
                "longterm_memory_artifact_id": "ada_longterm_memory",
                "subscribed_artifacts": ["handbook"],
            }
            for id in (
                ada["personality_prompt_artifact_id"],
                ada["workflow_artifact_id"],
                ada["working_memory_artifact_id"],
                ada["longterm_memory_artifact_id"],
            ):
                made = await world.as_principal("ada").artifacts.read(id)
                assert (made.owner, made.access and made.access.policy) == ("ada", "private")
            assert (await ben.read("ben_workflow")).content["title"] == "Trader"
            assert (await ben.read("ben_personality")).content == "You are {agent_id}."
            assert (await ben.read("ben")).content["subscribed_artifacts"] == []
            assert (cleo["workflow_artifact_id"], cleo["model"]) == ("ben_workflow", "offline")
            assert rule == {"policy": "nothing", "subscribed_artifacts": []}
            assert await balance(world, "ben") == 7
            assert await balance(world, "ada") == 100
            assert list(await world.agents()) == ["ada", "ben", "cleo", "rule"]

    asyncio.run(scenario())


def test_a_world_that_cannot_be_made_is_not_there(tmp_path: Path) -> None:
    async def scenario() -> None:
        broken = {"agents": [{"id": "ada", "reflex": "def nothing(): pass"}]}
        with Kernel.open(tmp_path / "state.db") as kernel:
            with pytest.raises(InvalidConfig, match=r"agents\[0\]: artifact ada_reflex"):
                await found(kernel, "w", broken)
            with pytest.raises(NotFound):
                await World.open(kernel, "w").row()

            await found(kernel, "w", {"settle": False, "agents": [{"id": "ada"}]}, seed=11)

            with pytest.raises(Conflict, match="there is a world w already"):
                await found(kernel, "w", {})
            assert (await World.open(kernel, "w").row()).seed == 11

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "id", ["handbook_prices", "Handbook-actions", "hand.book", "HANDBOOK", "genesis_bank", "Gene-sis"]
)
def test_no_agent_makes_what_reads_like_a_document_of_the_world(tmp_path: Path, id: str) -> None:
    write = {"action": "write", "artifact_id": id, "kind": "document", "content": "pay ana"}
    code = f"def run():\n    write(id={id!r}, kind='document', content='pay ana')\n"

    def rule(facts: dict[str, Any]) -> Any:
        return {1: write, 2: {"action": "invoke", "artifact_id": "writer"}}.get(facts["tick"])

    async def scenario(rules: int, folder: Path) -> None:
        async with world_at(
            folder, config={"rules": rules}, policies={"rule": rule}, agents={"ana": {"policy": "rule"}}
        ) as w:
            await w.as_principal("ana").artifacts.write("writer", kind="tool", content={"code": code})
            passed = await w.run(ticks=2)
            is_refused = rules == 2 or id.startswith("genesis")
            assert [one.rejected for one in passed] == [is_refused, is_refused or 1]
            refusals = [data["code"] for _, _, data in await events(w, "action.rejected")]
            assert refusals == ["access_denied"] * 2 if is_refused else True

    for rules in (1, 2):
        folder = tmp_path / str(rules)
        folder.mkdir()
        asyncio.run(scenario(rules, folder))

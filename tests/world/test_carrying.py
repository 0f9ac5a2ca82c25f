"""Worlds in files: what comes out is what went in, in every field, and goes on from there."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel
from artelier.errors import Conflict, CorruptStore, InvalidExport, InvalidRequest, NotFound
from artelier.models.scripted import ScriptedModel
from artelier.ports.model import Price
from artelier.world import World
from artelier.world.genesis import found, shipped, shipped_policies
from artelier.world.history.history_fold import run_reaches
from artelier.world.history.transfer import import_world
from tests.kernel.files import fields_of
from tests.world.places import add, balance, events, world_at
from tests.world.town import NEWEST, Patience, answers, deals, exported, kernel_at, policies, rows, town

FULL = {
    "accounts",
    "artifacts",
    "artifact_versions",
    "artifact_sources",
    "artifact_holds",
    "worlds",
    "world_agents",
    "world_offers",
    "world_licences",
    "world_royalties",
    "world_bids",
    "world_rounds",
    "world_inbox",
    "world_usage",
    "store_entries",
    "store_removals",
    "store_counts",
}
"""Tables of which the town fills every one."""


def test_hole_24_a_restored_world_has_everything(tmp_path: Path) -> None:
    """Listings, bids, holds, code, grants, versions, memory, balances, states; and it goes on the same."""

    async def scenario() -> None:
        with kernel_at(tmp_path / "a.db") as here, kernel_at(tmp_path / "b.db") as there:
            world = await town(here.for_tenant("acme"))
            await world.run(ticks=6)
            await deals(world)
            await world.run(ticks=2)
            await world.pause()
            before = await rows(here, world)
            assert {name for name, found in before.items() if found} >= FULL

            carried = await world.export(tmp_path / "w.artelier")
            copy = await World.import_(
                there.for_tenant("other"), tmp_path / "w.artelier", policies=policies()
            )

            assert (copy.id, carried.tick, carried.runs) == ("w", 8, ("w/dan",))
            assert await rows(there, copy) == before
            assert await copy.hash() == await world.hash()
            with pytest.raises(Conflict, match="paused"):
                await copy.tick()
            for one in (world, copy):
                await one.resume()
            assert await copy.run(ticks=4) == await world.run(ticks=4)
            assert await copy.hash() == await world.hash()
            assert await balance(copy, "bob") == await balance(world, "bob")
            assert await _told(copy) == await _told(world)
            await world.close()
            await copy.close()
            assert here.verify().ok and there.verify().ok

    asyncio.run(scenario())


def test_the_shipped_market_is_one_world_wherever_it_is(tmp_path: Path) -> None:
    """Made twice under two names, forked, carried: always the same hash, the same rows, the same ticks."""

    async def scenario() -> None:
        rules = shipped_policies()
        with Kernel.open(tmp_path / "a.db") as here, Kernel.open(tmp_path / "b.db") as there:
            worlds: list[World] = []
            for tenant, name in ((here.for_tenant("one"), "market"), (there, "other")):
                await found(tenant, name, shipped("market"))
                worlds.append(World.open(tenant, name, policies=rules))
            first, second = worlds
            for world in worlds:
                await world.run(ticks=12)
            assert await first.hash() == await second.hash()

            await first.export(tmp_path / "m.artelier")
            copy = await World.import_(there.for_tenant("three"), tmp_path / "m.artelier", policies=rules)
            fork = await first.fork(at=5)
            assert await rows(there, copy) == await rows(here, first)
            await fork.run(ticks=10)
            for world in (first, second, copy):
                await world.run(ticks=3)

            assert len({await world.hash() for world in (first, second, copy, fork)}) == 1
            for world in (first, second, copy, fork):
                await world.close()

    asyncio.run(scenario())


async def _told(world: World) -> list[tuple[str, str]]:
    return [(kind, actor) for kind, actor, _ in await events(world)]


def test_a_world_is_imported_beside_itself_under_another_id(tmp_path: Path) -> None:
    """Its runs are here already, so only the world comes in; both go on, and neither touches the other."""

    async def scenario() -> None:
        with kernel_at(tmp_path / "a.db") as kernel:
            runs = kernel.for_tenant("acme")
            world = await town(runs)
            await world.run(ticks=3)
            await world.export(tmp_path / "w.artelier")
            at_export = await rows(kernel, world)
            await world.run(ticks=2)

            copy = await World.import_(runs, tmp_path / "w.artelier", id="twin", policies=policies())

            assert await rows(kernel, copy) == at_export
            assert await copy.hash() == await world.hash(at=3)
            await copy.run(ticks=2)
            assert await copy.hash() == await world.hash()
            assert (await world.diff(copy))["equal"]
            assert [*await run_reaches(world.host, "twin", position=NEWEST)] == ["twin/dan", "w/dan"]
            assert [step["key"] for step in await runs.steps("twin/dan")] == ["t4/model", "t5/model"]
            await world.run(ticks=1)
            await world.close()
            await copy.close()

    asyncio.run(scenario())


def test_prompts_of_an_imported_world_are_rendered_as_they_were_sent(tmp_path: Path) -> None:
    async def scenario() -> None:
        with kernel_at(tmp_path / "a.db") as here, kernel_at(tmp_path / "b.db") as there:
            world = await town(here.for_tenant("acme"))
            await world.run(ticks=3)
            fork = await world.fork(at=2)
            await fork.run(ticks=2)
            sent = [
                await here.for_tenant("acme").render(run, key)
                for run, key in (("w/dan", "t1/model"), ("w.fork-1/dan", "t4/model"))
            ]
            carried = await fork.export(tmp_path / "f.artelier")

            runs = there.for_tenant("other")
            copy = await World.import_(runs, tmp_path / "f.artelier", id="f")

            assert carried.runs == ("w.fork-1/dan", "w/dan")
            assert [*await run_reaches(copy.host, "f", position=NEWEST)] == ["w.fork-1/dan", "w/dan"]
            row = await copy.row()
            assert (row.parent, row.forked_at, row.tick) == ("w", 2, 4)
            assert [
                await runs.render(run, key)
                for run, key in (("w/dan", "t1/model"), ("w.fork-1/dan", "t4/model"))
            ] == sent
            await world.close()
            await fork.close()

    asyncio.run(scenario())


def test_an_imported_world_is_exported_again_with_all_its_runs(tmp_path: Path) -> None:
    """The file of an import is the file that was imported; a tick later it holds one run more."""

    async def scenario() -> None:
        path = await exported(tmp_path)
        again = tmp_path / "again.artelier"
        with kernel_at(tmp_path / "b.db") as there:
            runs = there.for_tenant("other")
            copy = await World.import_(runs, path, policies=policies())
            await copy.export(again)
            assert fields_of(again) == fields_of(path)

            await copy.run(ticks=1)
            carried = await copy.export(again)
            await copy.close()

            assert carried.runs == ("w/dan", "w/dan::on")
            assert (await runs.show("w/dan"))["steps"] == 4
            assert [step["key"] for step in await runs.steps("w/dan::on")] == ["t5/model"]
        with kernel_at(tmp_path / "c.db") as third:
            last = await World.import_(third, again, policies=policies())
            await last.run(ticks=1)
            found = await run_reaches(last.host, "w", position=NEWEST)
            assert [*found] == ["w/dan", "w/dan::on", "w/dan::on::on"]
            await last.close()

    asyncio.run(scenario())


def test_agents_whose_names_look_like_runs_that_go_on_have_their_own(tmp_path: Path) -> None:
    asked: list[str] = []

    def reply(request: Any) -> str:
        said = " ".join(one.text for one in request.messages)
        asked.append(next(name for name in ("FIRST", "SECOND", "THIRD") if name in said))
        return '{"action": "noop"}'

    models = {"m": ScriptedModel(reply)}
    agents = {
        agent: {"model": "m", "system_prompt": f"{prompt} secret"}
        for agent, prompt in {"x": "FIRST", "x.on": "SECOND", "x::on:": "THIRD"}.items()
    }

    async def scenario() -> None:
        async with world_at(tmp_path, models=models, agents=agents) as world:
            with pytest.raises(InvalidRequest, match="the world's own"):
                await add(world, **{"x::on": {}})
            await world.tick()
            await world.close()
            await world.export(tmp_path / "w.artelier")
        asked.clear()
        with Kernel.open(tmp_path / "b.db", models=models) as there:
            copy = await World.import_(there, tmp_path / "w.artelier")
            await copy.run(ticks=2)
            await copy.close()

            assert sorted(asked) == ["FIRST"] * 2 + ["SECOND"] * 2 + ["THIRD"] * 2
            found = await run_reaches(copy.host, "w", position=NEWEST)
            assert [*found] == [run for one in agents for run in (f"w/{one}", f"w/{one}::on")]

    asyncio.run(scenario())


def test_a_half_thought_tick_stays_where_it_is(tmp_path: Path) -> None:
    async def scenario() -> None:
        patience = Patience()
        with (
            kernel_at(tmp_path / "a.db", ScriptedModel(patience)) as here,
            kernel_at(tmp_path / "b.db") as there,
        ):
            world = await town(here)
            await world.run(ticks=2)
            ready = await rows(here, world)
            await patience.cut_off(world)
            assert await rows(here, world) != ready

            await world.export(tmp_path / "w.artelier")
            copy = await World.import_(there, tmp_path / "w.artelier", policies=policies())

            assert await rows(there, copy) == ready
            assert await copy.tick() == await world.tick()
            assert await copy.hash() == await world.hash()
            await world.close()
            await copy.close()

    asyncio.run(scenario())


def test_money_of_an_unfinished_tick_that_the_host_has_spent_keeps_a_world_where_it_is(
    tmp_path: Path,
) -> None:
    """Ana was paid for a prompt of the next tick, and gave it away before that tick had passed."""

    async def scenario() -> None:
        patience = Patience()
        with kernel_at(tmp_path / "a.db", ScriptedModel(patience)) as here:
            world = await town(here)
            await world.run(ticks=1)
            await patience.cut_off(world)
            everything = await balance(world, "ana")
            await world.as_principal("ana").ledger.transfer(to="bob", amount=everything)

            with pytest.raises(InvalidExport, match="pays what it does not have"):
                await world.export(tmp_path / "w.artelier")
            with pytest.raises(Conflict, match="cannot be forked at tick 1"):
                await world.fork()
            await world.tick()
            copy = await (await world.fork()).export(tmp_path / "w.artelier")
            assert copy.tick == 2
            await world.close()

    asyncio.run(scenario())


def test_equal_content_keeps_one_name_after_an_import(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = await exported(tmp_path, ticks=1)
        script = {
            "cyd": {
                2: {"action": "write", "artifact_id": "mine", "kind": "document", "content": "mind the gap"}
            }
        }
        with kernel_at(tmp_path / "b.db") as there:
            copy = await World.import_(there.for_tenant("other"), path, policies=policies(script))
            await copy.tick()
            await copy.close()
            names = {
                data["id"]: data["content"]
                for _, _, data in await events(copy, "artifact.written")
                if data["id"] in ("mine", "notice")
            }
            assert names["mine"] == names["notice"]

    asyncio.run(scenario())


def test_a_world_that_is_here_is_never_changed_by_an_import(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = await exported(tmp_path)
        with kernel_at(tmp_path / "b.db") as there:
            runs = there.for_tenant("other")
            await World.new(runs, "w")
            await World.new(runs, "taken")
            async with runs.run("w2/dan"):
                pass
            root = await there.store.root()

            for id in (None, "w", "taken"):
                with pytest.raises(Conflict, match="there is a world"):
                    await World.import_(runs, path, id=id)
            for id in ("a b", "", "x" * 200):
                with pytest.raises(InvalidRequest):
                    await World.import_(runs, path, id=id)
            with pytest.raises(NotFound):
                await World.import_(runs, tmp_path / "gone.artelier")
            with pytest.raises(NotFound):
                await World.open(runs, "nowhere").export(tmp_path / "x.artelier")

            assert await there.store.root() == root
            assert not (tmp_path / "x.artelier").exists()

    asyncio.run(scenario())


def test_other_runs_under_the_ids_of_its_runs_refuse_a_world(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = await exported(tmp_path)
        with kernel_at(tmp_path / "b.db") as there:
            async with there.for_tenant().run("w/dan") as run:
                await run.step("x", lambda: 1)
            root = await there.store.root()

            with pytest.raises(Conflict, match="exist already") as refused:
                await World.import_(there, path, id="fresh")

            assert "run:w/dan" in str(refused.value.got)
            assert await there.store.root() == root

    asyncio.run(scenario())


def test_files_of_runs_and_of_worlds_are_not_taken_for_each_other(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = await exported(tmp_path)
        with kernel_at(tmp_path / "b.db") as there:
            runs = there.for_tenant()
            async with runs.run("r") as run:
                await run.step("x", lambda: 1)
            await runs.export("r", tmp_path / "r.artelier")

            with pytest.raises(InvalidExport, match="holds world w") as refused:
                await runs.import_(path)
            assert "artelier world import" in (refused.value.hint or "")
            with pytest.raises(InvalidExport, match="holds run r"):
                await World.import_(there, tmp_path / "r.artelier")

    asyncio.run(scenario())


def test_what_models_have_cost_is_not_paid_again_by_whoever_imports(tmp_path: Path) -> None:
    """Beside itself, where the runs are here already, and elsewhere, where they come in as records."""

    async def dollars(kernel: Kernel, tenant: str) -> list[Any]:
        return await kernel.store.query(
            "SELECT account, balance FROM accounts WHERE tenant = ? AND space = 'main'"
            " AND account NOT LIKE 'source:%' AND balance != 0 ORDER BY account",
            (tenant,),
        )

    async def scenario() -> None:
        price = Price(input=Decimal(1), output=Decimal(2))
        priced = [ScriptedModel(answers, price=price) for _ in range(2)]
        with (
            kernel_at(tmp_path / "a.db", priced[0]) as here,
            kernel_at(tmp_path / "b.db", priced[1]) as there,
        ):
            world = await town(here.for_tenant("acme"))
            await world.run(ticks=2)
            await world.export(tmp_path / "w.artelier")
            spent = await dollars(here, "acme")
            await there.for_tenant("other").state()
            before = await dollars(there, "other")

            await World.import_(here.for_tenant("acme"), tmp_path / "w.artelier", id="twin")
            await World.import_(there.for_tenant("other"), tmp_path / "w.artelier")

            assert spent and await dollars(here, "acme") == spent
            assert await dollars(there, "other") == before
            cost = (await here.for_tenant("acme").cost("w/dan"))["cost_microusd"]
            assert cost == (await there.for_tenant("other").cost("w/dan"))["cost_microusd"] > 0
            await world.close()

    asyncio.run(scenario())


@pytest.mark.corrupts
def test_a_world_of_which_content_is_gone_is_notexported(tmp_path: Path) -> None:
    async def scenario() -> None:
        with kernel_at(tmp_path / "a.db") as here:
            world = await town(here)
            db = sqlite3.connect(tmp_path / "a.db")
            db.execute("DELETE FROM blobs WHERE instr(CAST(content AS TEXT), 'four walls')")
            db.commit()
            db.close()

            with pytest.raises(CorruptStore, match="is gone"):
                await world.export(tmp_path / "w.artelier")
            assert not (tmp_path / "w.artelier").exists()

    asyncio.run(scenario())


def test_a_file_is_for_its_owner_only_and_bounded_when_it_is_read(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = await exported(tmp_path, ticks=1)
        assert os.stat(path).st_mode & 0o077 == 0
        with kernel_at(tmp_path / "b.db") as there:
            await there.for_tenant().state()
            root = await there.store.root()
            with pytest.raises(InvalidExport, match="too large"):
                await import_world(there.for_tenant(), path, size_max_bytes=10_000)
            assert await there.store.root() == root

    asyncio.run(scenario())


def test_a_changed_or_cut_file_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = await exported(tmp_path, ticks=1)
        whole = path.read_bytes()
        with Kernel.open(tmp_path / "b.db") as there:
            await there.for_tenant().state()
            root = await there.store.root()
            step = len(whole) // 120
            for index in (*range(0, len(whole), step), len(whole) - 1):
                changed = bytearray(whole)
                changed[index] ^= 1 << index % 8
                path.write_bytes(changed)
                with pytest.raises(InvalidExport):
                    await World.import_(there, path)
            for length in (0, 1, len(whole) // 2, len(whole) - 1):
                path.write_bytes(whole[:length])
                with pytest.raises(InvalidExport):
                    await World.import_(there, path)
            path.write_bytes(whole + b"\n")
            with pytest.raises(InvalidExport):
                await World.import_(there, path)
            assert await there.store.root() == root

    asyncio.run(scenario())

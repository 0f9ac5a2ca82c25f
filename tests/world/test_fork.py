"""Forks: another world with the same past, which differs from where it was made to differ."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel
from artelier.errors import Conflict, InvalidArtifact, InvalidConfig, InvalidRequest, NotFound
from artelier.log import Batch, Receipt, tenant_stream
from artelier.models.scripted import ScriptedModel
from artelier.world import World
from artelier.world.events import Ancestor
from artelier.world.history.history_fold import run_reaches
from artelier.world.queries.reports import interrupted_forks, worlds
from tests.processes import run_warm
from tests.world.places import balance, events
from tests.world.town import NEWEST, Patience, deals, kernel_at, model, rows, town


def test_a_fork_that_changes_nothing_goes_the_same_way(tmp_path: Path) -> None:
    async def scenario() -> None:
        with kernel_at(tmp_path / "a.db") as kernel:
            world = await town(kernel)
            await world.run(ticks=5)
            await deals(world)
            then = await rows(kernel, world)
            await world.run(ticks=5)

            fork = await world.fork(at=5)

            assert fork.id == "w.fork-1"
            assert await fork.hash() == await world.hash(at=5)
            found = await rows(kernel, fork)
            assert {**found, "worlds": None} == {**then, "worlds": None}
            row = await fork.row()
            assert (row.tick, row.parent, row.forked_at) == (5, "w", 5)
            await fork.run(ticks=5)
            assert await fork.hash() == await world.hash()
            assert (await world.diff(fork))["equal"]
            await world.close()
            await fork.close()

    asyncio.run(scenario())


def test_a_fork_with_one_prompt_swapped_diverges_only_from_there(tmp_path: Path) -> None:
    """The first event that differs is the new prompt, the first tick that differs is the next one."""

    async def scenario() -> None:
        asked = model()
        with kernel_at(tmp_path / "a.db", asked) as kernel:
            world = await town(kernel)
            await world.run(ticks=6)
            requests = len(asked.requests)

            fork = await world.fork(at=4, with_={"dan_is": "You are GENEROUS."})
            await fork.run(ticks=2)
            found = await world.diff(fork)

            assert len(asked.requests) == requests + 2
            assert "GENEROUS" in str(asked.requests[-1].messages)
            assert await world.hash(at=3) == await fork.hash(at=3)
            assert (found["first"]["tick"], found["first"]["between_ticks"]) == (4, True)
            assert (found["first"]["actor"], found["first"]["a"]) == ("dan", None)
            changed = found["first"]["b"]["data"]
            assert (changed["id"], changed["version"], changed["owner"]) == ("dan_is", 2, "dan")
            assert (found["first_tick"]["tick"], found["first_tick"]["actor"]) == (5, "dan")
            assert found["agents"]["dan"] == {
                "balance": {"a": await balance(world, "dan"), "b": await balance(fork, "dan")},
                "versions": {"dan_is": {"a": 1, "b": 2}},
            }
            assert await balance(world, "dan") - await balance(fork, "dan") == 4
            prompt = await fork.as_principal("dan").artifacts.read("dan_is")
            assert prompt.content == {"template": "You are GENEROUS.", "variables": []}
            assert (await world.as_principal("dan").artifacts.read("dan_is")).version == 1
            await world.close()
            await fork.close()

    asyncio.run(scenario())


def test_a_fork_asks_models_in_runs_of_its_own(tmp_path: Path) -> None:
    async def scenario() -> None:
        with kernel_at(tmp_path / "a.db") as kernel:
            runs = kernel.for_tenant()
            world = await town(runs)
            await world.run(ticks=4)
            fork = await world.fork(at=2)
            await fork.run(ticks=1)
            grandchild = await fork.fork()

            assert [step["key"] for step in await runs.steps("w.fork-1/dan")] == ["t3/model"]
            for one in (fork, grandchild):
                found = await run_reaches(world.host, one.id, position=NEWEST)
                assert [*found] == ["w.fork-1/dan", "w/dan"]
            for one in (world, fork, grandchild):
                await one.close()

    asyncio.run(scenario())


def test_settings_change_in_a_fork_and_the_seed_does_not(tmp_path: Path) -> None:
    async def scenario() -> None:
        with kernel_at(tmp_path / "a.db") as kernel:
            world = await town(kernel)
            await world.run(ticks=2)

            fork = await world.fork(config={"actions": ["noop"]}, by="user:kim")

            assert (await fork.config()).actions == ["noop"]
            assert (await fork.config()).mint == (await world.config()).mint
            assert (await fork.tick()).rejected == 3
            assert (await world.config()).actions is None
            assert [actor for _, actor, _ in await events(fork, "world.configured")] == ["user:kim"]
            for config, error in (
                ({"seed": 8}, InvalidRequest),
                ({"sed": 8}, InvalidConfig),
                ([], InvalidRequest),
            ):
                with pytest.raises(error):
                    await world.fork(config=config)  # pyright: ignore[reportArgumentType] - hostile
            await world.close()
            await fork.close()

    asyncio.run(scenario())


def test_forks_are_numbered_and_a_name_is_taken_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Kernel.open(tmp_path / "a.db") as kernel:
            world = await World.new(kernel, "w")
            names = [(await world.fork()).id for _ in range(3)]
            named = await world.fork(new_id="elsewhere")

            assert names == ["w.fork-1", "w.fork-2", "w.fork-3"]
            assert named.id == "elsewhere"
            with pytest.raises(Conflict, match="cannot be forked under this id"):
                await world.fork(new_id="elsewhere")
            with pytest.raises(Conflict):
                await world.fork(new_id="w")
            for name in ("a b", "", "x" * 200, "a/b"):
                with pytest.raises(InvalidRequest):
                    await world.fork(new_id=name)

    asyncio.run(scenario())


def test_a_fork_that_cannot_be_made_is_not_there(tmp_path: Path) -> None:
    async def scenario() -> None:
        with kernel_at(tmp_path / "a.db") as kernel:
            world = await town(kernel)
            await world.run(ticks=2)
            position, _root = await kernel.store.root()
            given: list[tuple[dict[str, Any], type[Exception]]] = [
                ({"at": 3}, InvalidRequest),
                ({"at": -1}, InvalidRequest),
                ({"with_": {"nothing": "x"}}, NotFound),
                ({"with_": {"waste": "x"}}, NotFound),
                ({"with_": {"cyd_poem": "x"}, "at": 1}, NotFound),
                ({"with_": {"dan_is": {"template": "{who_knows}"}}}, InvalidArtifact),
                ({"with_": {"bob_tool": "no json"}}, InvalidRequest),
                ({"with_": {"dan_is": b"\0", "ana_song": "x"}}, InvalidArtifact),
                ({"with_": "dan_is"}, InvalidRequest),
            ]
            for wanted, error in given:
                with pytest.raises(error):
                    await world.fork(**wanted)

            with pytest.raises(NotFound):
                await World.open(kernel, "nowhere").fork()
            assert await kernel.store.root() == (position, _root)
            await world.close()

    asyncio.run(scenario())


def test_a_long_history_is_copied_in_parts_that_nobody_sees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the parts others commit; the fork is there once it is whole, and then it is as ever."""
    monkeypatch.setattr("artelier.world.history.fork.COPIED_MAX", 5)

    async def scenario() -> None:
        with kernel_at(tmp_path / "a.db") as kernel:
            world = await town(kernel)
            await world.run(ticks=4)
            await deals(world)
            then = await rows(kernel, world)
            other = await World.new(kernel, "other")
            seen: list[list[str]] = []

            async def look() -> None:
                while True:
                    await other.inject(f"note {len(seen)}")
                    seen.append([one.id for one in await worlds(world.host)])

            looking = asyncio.create_task(look())
            fork = await world.fork(with_={"dan_is": "You are GENEROUS."})
            looking.cancel()

            assert len(seen) > 3
            assert [one for one in seen if one != ["other", "w"]] in ([], [["other", "w", "w.fork-1"]])
            begun, made = [await events_of_tenant(kernel, kind) for kind in ("world.forking", "world.forked")]
            assert len(begun) == len(made) == 1
            plain = await World.open(kernel, "w").fork(new_id="plain")
            assert {**(await rows(kernel, plain)), "worlds": None} == {**then, "worlds": None}
            assert await plain.hash() == await world.hash()
            assert (await fork.row()).parent == "w"
            for one in (world, fork, plain):
                await one.close()

    asyncio.run(scenario())


def test_a_copy_that_was_cut_off_is_no_world_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("artelier.world.history.fork.COPIED_MAX", 5)

    async def scenario() -> None:
        for cut in (1, 2, 4):
            with kernel_at(tmp_path / f"{cut}.db") as kernel:
                world = await town(kernel)
                await world.run(ticks=4)
                other = await World.new(kernel, "other")
                with monkeypatch.context() as context:
                    context.setattr(kernel.store, "append", _cut_off(kernel.store.append, cut))
                    with pytest.raises(asyncio.CancelledError):
                        await world.fork(at=3, new_id="half")
                await world.close()
                await other.close()

            with kernel_at(tmp_path / f"{cut}.db") as kernel:
                world, other = World.open(kernel, "w"), World.open(kernel, "other")
                half = World.open(kernel, "half")
                assert [one.id for one in await worlds(world.host)] == ["other", "w"]
                for refused in (half.row(), half.tick(), half.fork(), half.hash()):
                    with pytest.raises(NotFound):
                        await refused
                for refused in (world.fork(at=2, new_id="half"), other.fork(new_id="half")):
                    with pytest.raises(Conflict, match="under this id"):
                        await refused
                with pytest.raises(Conflict):
                    await World.new(kernel, "half")

                fork = await world.fork(at=3, new_id="half")

                assert await fork.hash() == await world.hash(at=3)
                assert await fork.tick() == await (await world.fork(at=3)).tick()
                await fork.close()
                await world.close()

    asyncio.run(scenario())


def test_an_unnamed_copy_that_was_cut_off_goes_on_with_the_next_one_of_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("artelier.world.history.fork.COPIED_MAX", 5)

    async def scenario() -> None:
        with kernel_at(tmp_path / "s.db") as kernel:
            world = await town(kernel)
            await world.run(ticks=4)
            with monkeypatch.context() as context:
                context.setattr(kernel.store, "append", _cut_off(kernel.store.append, 2))
                with pytest.raises(asyncio.CancelledError):
                    await world.fork(at=3)
            assert await interrupted_forks(world.host) == [("w.fork-1", Ancestor("w", 3))]
            await asyncio.to_thread(_list_worlds, tmp_path / "s.db")

            other, same = await world.fork(at=2), await world.fork(at=3)

            assert (other.id, same.id) == ("w.fork-2", "w.fork-1")
            assert await same.hash() == await world.hash(at=3)
            assert await interrupted_forks(world.host) == []
            for one in (other, same, world):
                await one.close()

    asyncio.run(scenario())
    said = capfd.readouterr()
    assert "artelier world fork w --at 3 --id w.fork-1" in said.err and "fork-1" not in said.out


def _list_worlds(db: Path) -> None:
    run_warm([sys.executable, "-m", "artelier", "world", "list", "--db", str(db)], check=True)


def _cut_off(
    append: Callable[[Batch], Awaitable[Receipt]], after: int
) -> Callable[[Batch], Awaitable[Receipt]]:
    """Return `append` that ends with the process after some batches."""
    left = after

    async def cut(batch: Batch) -> Receipt:
        nonlocal left
        if left == 0:
            raise asyncio.CancelledError
        left -= 1
        return await append(batch)

    return cut


async def events_of_tenant(kernel: Kernel, kind: str) -> list[str]:
    """Return the events of a kind in the stream of the tenant."""
    found = await kernel.store.read(tenant_stream("default"))
    return [event.kind for event in found if event.kind == kind]


def test_what_the_host_did_after_a_tick_belongs_to_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        with kernel_at(tmp_path / "a.db") as kernel:
            world = await town(kernel)
            await world.run(ticks=1)
            await world.as_principal("bob").artifacts.write("notice", content="mind the dog")
            await world.run(ticks=1)

            fork = await world.fork(at=1)
            before = await world.fork(at=0)

            assert (await fork.as_principal("ana").artifacts.read("notice")).content == "mind the dog"
            assert (await before.as_principal("ana").artifacts.read("notice")).version == 1
            await world.close()

    asyncio.run(scenario())


def test_what_prompts_of_an_unfinished_tick_have_cost_is_not_in_a_fork(tmp_path: Path) -> None:
    """A tick that ends between a request and its reply leaves a charge that no tick knows of."""

    async def scenario() -> None:
        patience = Patience()
        with kernel_at(tmp_path / "a.db", ScriptedModel(patience)) as kernel:
            world = await town(kernel)
            await world.run(ticks=2)
            ready = await rows(kernel, world)
            before = await world.hash()
            await patience.cut_off(world)
            half = await rows(kernel, world)
            assert half["world_paid"] and half["accounts"] != ready["accounts"]

            fork = await world.fork()

            assert {**(await rows(kernel, fork)), "worlds": None} == {**ready, "worlds": None}
            assert await world.hash() == await fork.hash() == before
            assert await world.tick() == await fork.tick()
            assert await world.hash() == await fork.hash()
            await world.close()
            await fork.close()

    asyncio.run(scenario())

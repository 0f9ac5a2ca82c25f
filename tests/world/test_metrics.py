"""Figures of worlds: money is accounted for, and every figure is what the events say."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from artelier.errors import InvalidRequest, NotFound
from artelier.ledger import may_owe
from artelier.models.scripted import ScriptedModel
from artelier.ports.model import Price
from artelier.world import World
from artelier.world.events import world_space
from artelier.world.figures.metrics import TickMetrics, gini, metrics, tick_metrics
from artelier.world.history import history_fold
from tests.world.places import add, balance, events, world_at
from tests.world.town import Patience, answers, deals, kernel_at, policies, town

AMOUNTS = st.lists(st.integers(min_value=0, max_value=10**12), min_size=1, max_size=30)


# The Gini coefficient


@given(st.integers(min_value=0, max_value=10**9), st.integers(min_value=1, max_value=50))
def test_gini_of_equal_balances_is_0(amount: int, count: int) -> None:
    assert gini([amount] * count) == 0


@given(st.integers(min_value=1, max_value=10**9), st.integers(min_value=1, max_value=50))
def test_gini_of_one_owner_of_all_is_all_but_one_nth(amount: int, count: int) -> None:
    assert gini([0] * (count - 1) + [amount]) == pytest.approx((count - 1) / count)


@given(AMOUNTS, st.integers(min_value=1, max_value=1000))
def test_gini_is_of_shares_and_of_nobody_in_particular(amounts: list[int], factor: int) -> None:
    pairs = sum(abs(a - b) for a in amounts for b in amounts)
    by_definition = pairs / (2 * len(amounts) * sum(amounts)) if sum(amounts) else 0

    assert gini(amounts) == pytest.approx(by_definition)
    assert gini([one * factor for one in reversed(amounts)]) == pytest.approx(gini(amounts))


def test_gini_of_nothing_is_0() -> None:
    assert gini([]) == gini([0, 0]) == 0


# Money


def test_all_money_that_was_issued_is_somewhere(tmp_path: Path) -> None:
    async def scenario() -> None:
        with kernel_at(tmp_path / "a.db") as kernel:
            world = await town(kernel)
            await world.run(ticks=6)
            await deals(world)
            await world.leave("bob")
            await world.run(ticks=2)

            found = (await metrics(world, from_tick=0)).ticks

            assert [one.tick for one in found] == list(range(9))
            before = 0
            for one in found:
                assert one.agents + one.services + one.others + one.held == one.circulating
                assert sum(one.balances.values()) == one.agents
                assert one.circulating - before == one.issued + one.minted - one.returned
                before = one.circulating
            assert (found[0].issued, found[6].minted) == (400, 4)
            assert found[6].held == 14 and found[6].others > 0
            assert "bob" not in found[6].balances and "bob" in found[5].balances
            rows = await kernel.store.query(
                "SELECT account, balance FROM accounts WHERE space = ? AND asset = 'scrip'",
                (world_space(world.id),),
            )
            assert found[-1].circulating == sum(n for name, n in rows if not may_owe(name))
            assert found[-1].held == sum(n for name, n in rows if name.startswith("hold:"))
            await world.close()

    asyncio.run(scenario())


def test_balances_are_those_that_stood_at_the_end_of_each_tick(tmp_path: Path) -> None:
    """With charges for prompts, which stand in other streams, and what the host did before the next tick."""

    async def scenario() -> None:
        with kernel_at(tmp_path / "a.db") as kernel:
            world = await town(kernel)
            seen: list[dict[str, int]] = []
            for tick in range(8):
                await world.tick()
                if tick == 3:
                    await world.as_principal("ana").ledger.transfer(to="dan", amount=7, asset="scrip")
                seen.append({agent: await balance(world, agent) for agent in await world.agents()})

            found = (await metrics(world)).ticks

            assert [dict(one.balances) for one in found] == seen
            assert len({tuple(one.values()) for one in seen}) > 4
            charged = await kernel.store.query(
                "SELECT count(*) FROM events e JOIN streams s ON s.id = e.stream"
                " WHERE s.name = 'agent:dan' AND e.data LIKE '%postings%'"
            )
            assert charged[0][0] > 0
            await world.close()

    asyncio.run(scenario())


def test_charges_of_an_unfinished_tick_count_with_that_tick_only(tmp_path: Path) -> None:
    async def scenario() -> None:
        patience = Patience()
        with kernel_at(tmp_path / "a.db", ScriptedModel(patience)) as kernel:
            world = await town(kernel)
            await world.run(ticks=7)
            before = await metrics(world)
            await patience.cut_off(world)

            assert await metrics(world) == before
            await world.tick()
            assert (await metrics(world, to_tick=7)) == before
            assert (await metrics(world)).to_tick == 8
            await world.close()

    asyncio.run(scenario())


# What happened


def test_trades_actions_and_rejections_are_those_of_the_events(tmp_path: Path) -> None:
    async def scenario() -> None:
        with kernel_at(tmp_path / "a.db") as kernel:
            world = await town(kernel)
            await world.run(ticks=11)
            stored = await events(world)
            found = (await metrics(world)).ticks
            sold = [data for kind, _, data in stored if kind == "offer.accepted"]
            refused = [data for kind, _, data in stored if kind == "action.rejected"]
            acts = [data["act"] for _, _, data in stored if data.get("act")]

            sales = {"ownership", "copy", "licence"}
            prices = [price for one in found for price in one.prices if price.sells in sales]
            assert sum(one.trades for one in prices) == len(sold) == 3
            assert sum(one.volume for one in prices) == sum(one["price"] for one in sold)
            uses = [price for one in found for price in one.prices if price.sells not in sales]
            # dan's prompts show ana's map for 2 in each tick; ana uses bob's tool for 2 in one of them.
            assert {one.sells: one.median for one in uses} == {"read": 2, "invoke": 2}
            assert sum(one.volume for one in uses) == 2 * 11 + 2
            assert sum(one.trades for one in found) == 3 + 11 + 1
            assert sum(one.rejected for one in found) == len(refused) > 0
            assert sum(one.acted for one in found) == len(acts) == 44
            song = found[3]
            assert song.tick == 4 and song.trades == 3 and song.volume == 5 + 2 + 2
            assert next(iter(msgspec.to_builtins(song.prices))) == {
                "kind": "document",
                "sells": "copy",
                "trades": 1,
                "volume": 5,
                "low": 5,
                "median": 5,
                "high": 5,
            }
            assert song.actions["accept"] == {"policy": 1}
            assert song.actions["transfer"] == {"model": 1}
            assert {one.acted for one in found} == {4}
            await world.close()

    asyncio.run(scenario())


def test_what_models_cost_is_that_of_the_runs(tmp_path: Path) -> None:
    async def scenario() -> None:
        price = Price(input=Decimal(3), output=Decimal(15))
        with kernel_at(tmp_path / "a.db", ScriptedModel(answers, price=price)) as kernel:
            world = await town(kernel)
            await world.run(ticks=4)
            found = (await metrics(world, from_tick=2)).ticks
            told = {one["key"]: one for one in (await kernel.for_tenant().cost("w/dan"))["steps"]}

            assert [one.tick for one in found] == [2, 3, 4]
            for one in found:
                step, usage = told[f"t{one.tick}/model"], one.usage["dan"]
                assert list(one.usage) == ["dan"] and usage.calls == 1
                assert usage.input_tokens == step["input_tokens"] > 0
                assert usage.output_tokens == step["output_tokens"] > 0
                assert usage.cost_microusd == step["cost_microusd"] == one.cost_microusd > 0
            await world.close()

    asyncio.run(scenario())


# Other worlds with the same past


def test_figures_of_a_fork_are_its_parents_up_to_the_fork(tmp_path: Path) -> None:
    async def scenario() -> None:
        with kernel_at(tmp_path / "a.db") as kernel:
            world = await town(kernel)
            await world.run(ticks=8)
            fork = await world.fork(at=5, with_={"dan_is": "You are GENEROUS."})
            await fork.run(ticks=2)
            grandchild = await fork.fork(at=6)
            await grandchild.run(ticks=2)

            parents = (await metrics(world, from_tick=0)).ticks
            forks = (await metrics(fork, from_tick=0)).ticks
            last = (await metrics(grandchild, from_tick=0)).ticks

            assert forks[:6] == parents[:6] and forks[6] != parents[6]
            assert last[:7] == forks[:7] and [one.tick for one in last] == list(range(9))
            assert all(one.usage["dan"].calls == 1 for one in (*forks[1:], *last[1:]))
            for one in (world, fork, grandchild):
                await one.close()

    asyncio.run(scenario())


def test_a_world_out_of_a_file_has_the_same_figures(tmp_path: Path) -> None:
    async def scenario() -> None:
        with kernel_at(tmp_path / "a.db") as kernel:
            world = await town(kernel)
            await world.run(ticks=5)
            ticks = (await metrics(world)).ticks
            await world.export(tmp_path / "w.artelier")
            await world.close()
        with kernel_at(tmp_path / "b.db") as kernel:
            for id in (None, "other"):
                there = await World.import_(kernel, tmp_path / "w.artelier", id=id, policies=policies())
                assert (await metrics(there)).ticks == ticks
                await there.tick()
                found = (await metrics(there)).ticks
                assert found[:5] == ticks and found[5].usage["dan"].calls == 1
                await there.close()

    asyncio.run(scenario())


# Ranges and bounds


def test_a_range_is_a_part_of_the_whole(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world_at(tmp_path, agents={"ana": {}, "bob": {}}) as world:
            assert (await metrics(world)).ticks == ()
            assert [one.tick for one in (await metrics(world, from_tick=0)).ticks] == [0]
            await world.run(ticks=5)
            whole = (await metrics(world, from_tick=0)).ticks

            for first in range(6):
                for last in range(max(0, first - 1), 6):
                    part = await metrics(world, from_tick=first, to_tick=last)
                    assert part.ticks == whole[first : last + 1]
            wrong: tuple[dict[str, Any], ...] = (
                {"from_tick": -1},
                {"from_tick": 7},
                {"to_tick": 6},
                {"from_tick": 4, "to_tick": 2},
                {"from_tick": True},
                {"from_tick": 1.0},
                {"from_tick": "1"},
            )
            for given_ in wrong:
                with pytest.raises(InvalidRequest):
                    await metrics(world, **given_)
            with pytest.raises(NotFound):
                await metrics(World.open(world.host, "nowhere"))

    asyncio.run(scenario())


def test_figures_do_not_depend_on_how_much_is_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        with kernel_at(tmp_path / "a.db") as kernel:
            world = await town(kernel)
            await world.run(ticks=6)
            whole = await metrics(world)

            monkeypatch.setattr(history_fold, "HELD_EVENTS_MAX", 1)
            again: list[TickMetrics] = [one async for one in tick_metrics(world)]

            assert tuple(again) == whole.ticks
            await world.close()

    asyncio.run(scenario())


def test_too_many_figures_at_once_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with world_at(tmp_path) as world:
            await add(world, ana={}, bob={})
            await world.run(ticks=3)
            monkeypatch.setattr("artelier.world.figures.metrics.FIGURES_MAX", 5)

            with pytest.raises(InvalidRequest, match="too many figures"):
                await metrics(world)
            assert len((await metrics(world, to_tick=2)).ticks) == 2

    asyncio.run(scenario())

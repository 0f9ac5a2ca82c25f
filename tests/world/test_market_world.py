"""The shipped market: it trades to the end, starves nobody, and what is bought changes what buyers do."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel
from artelier.world import World
from artelier.world.events import world_space
from artelier.world.genesis import found, shipped

TICKS = 200
LATE = range(150, TICKS + 1)
WITHIN = 10
"""Ticks after a trade in which it must show."""

BUYERS = 10


@dataclass(frozen=True)
class Trade:
    tick: int
    buyer: str
    seller: str
    sells: str
    got: str


@dataclass
class Lived:
    """What the log says of a world that has passed its ticks."""

    folder: Path
    trades: list[Trade] = field(default_factory=list)
    acts: dict[str, dict[int, tuple[str, str, bool]]] = field(default_factory=lambda: defaultdict(dict))
    """By agent and tick: action, what it was about, whether it was done."""
    minds: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """By agent: the reflexes that it acted by, as refs."""
    poor: list[tuple[int, str, str]] = field(default_factory=list)
    """Actions that failed for want of money."""
    lowest: dict[str, int] = field(default_factory=dict)
    """The least that each agent had at the end of a tick from 100 on."""
    hash_early: str = ""
    models_asked: int = 0
    services: dict[str, int] = field(default_factory=dict)


async def tell(world: World, lived: Lived) -> Lived:
    """Fold the world's events into what the tests ask for."""
    for tick, kind, actor, data in await _dated(world):
        act = data.get("act")
        if kind == "offer.accepted":
            lived.trades.append(
                Trade(tick, data["buyer"], data["seller"], data["sells"], data.get("got", ""))
            )
        if act is not None:
            ok = kind != "action.rejected" and data.get("outcome", "done") == "done"
            lived.acts[actor][tick] = (act["action"], act.get("ref", ""), ok)
            if act.get("source") == "reflex":
                lived.minds[actor].add(act["step"].partition("@")[0])
            if data.get("code") == "insufficient_funds":
                lived.poor.append((tick, actor, act["action"]))
    return lived


async def _dated(world: World) -> list[tuple[int, str, str, dict[str, Any]]]:
    from artelier.world.events import world_stream

    found: list[tuple[int, str, str, dict[str, Any]]] = []
    after, stream = 0, world_stream(world.host.id, world.id)
    while page := await world.host.services.store.read(stream, after=after):
        after = page[-1].seq
        found += [(one.at_us, one.kind, one.actor, one.plain()) for one in page]
    return found


async def balances(world: World) -> dict[str, int]:
    rows = await world.host.services.store.query(
        "SELECT account, balance FROM accounts WHERE tenant = ? AND space = ? AND asset = 'scrip'"
        " AND account LIKE 'principal:%'",
        (world.host.id, world_space(world.id)),
    )
    return {account.removeprefix("principal:"): balance for account, balance in rows}


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Lived:
    folder = tmp_path_factory.mktemp("market")

    async def scenario() -> Lived:
        lived = Lived(folder)
        with Kernel.open(folder / "state.db") as kernel:
            async with await found(kernel, "market", shipped("market")) as world:
                agents = list(await world.agents())
                for tick in range(1, TICKS + 1):
                    await world.tick()
                    if tick >= 100:
                        for agent, scrip in (await balances(world)).items():
                            if agent in agents:
                                lived.lowest[agent] = min(lived.lowest.get(agent, scrip), scrip)
                lived.hash_early = await world.hash(at=40)
                rows = await world.host.services.store.query("SELECT COUNT(*) FROM runs", ())
                lived.models_asked = rows[0][0]
                now = await balances(world)
                lived.services = {one: now[one] for one in now if one.startswith("genesis_")}
                return await tell(world, lived)

    return asyncio.run(scenario())


@pytest.mark.slow
def test_trade_goes_on_to_the_end(lived: Lived) -> None:
    late = [one for one in lived.trades if one.tick in LATE]

    assert len(late) >= 20
    assert {one.sells for one in late} == {"copy", "licence", "ownership"}
    assert len({one.buyer for one in late}) >= BUYERS
    assert len({one.seller for one in late}) >= 5


@pytest.mark.slow
def test_fees_starve_nobody(lived: Lived) -> None:
    assert len(lived.lowest) == 20
    assert min(lived.lowest.values()) >= 5, lived.lowest
    assert lived.poor == []
    for agent, acts in lived.acts.items():
        done = [acts[tick] for tick in LATE if acts[tick][0] != "noop" and acts[tick][2]]
        assert len(done) >= 5, agent


@pytest.mark.slow
def test_what_services_take_goes_back_to_the_mint(lived: Lived) -> None:
    used = [tick for tick, act in lived.acts["gita"].items() if act[1] == "genesis_memory_add" and act[2]]

    assert len(used) >= 10
    assert set(lived.services.values()) == {0}


@pytest.mark.slow
def test_nobody_needs_a_model(lived: Lived) -> None:
    assert lived.models_asked == 0
    assert all(len(acts) == TICKS for acts in lived.acts.values())


@pytest.mark.slow
def test_buyers_of_courses_act_by_what_they_have_bought(lived: Lived) -> None:
    for trade in lived.trades:
        if trade.sells == "copy":
            assert trade.got in lived.minds[trade.buyer], trade

    assert len({one.buyer for one in lived.trades if one.sells == "copy"}) >= 6
    assert max(len(minds) for minds in lived.minds.values()) >= 4, "they go on learning"


@pytest.mark.slow
def test_the_same_seed_gives_the_same_market(lived: Lived, tmp_path: Path) -> None:
    async def scenario() -> None:
        with Kernel.open(tmp_path / "state.db") as kernel:
            async with await found(kernel, "again", shipped("market")) as world:
                await world.run(ticks=40)
                same = await world.hash()
            async with await found(kernel, "other", shipped("market"), seed=8) as world:
                await world.run(ticks=40)
                other = await world.hash()

        assert same == lived.hash_early
        assert other != same

    asyncio.run(scenario())


def without_sale(agents: list[str], trade: Trade) -> dict[str, list[str]]:
    """A network in which one buyer cannot deal with one seller, and everybody sees everybody else."""
    return {agent: [one for one in agents if (agent, one) != (trade.buyer, trade.seller)] for agent in agents}


def doings(acts: dict[int, tuple[str, str, bool]], trade: Trade) -> list[tuple[str, str, bool]]:
    """What somebody did in the ticks after a trade, buying and adopting apart."""
    later = [acts[trade.tick + n] for n in range(1, WITHIN + 1)]
    return [one for one in later if one[0] not in ("accept", "configure")]


@pytest.mark.slow
def test_buyers_act_differently_from_a_fork_without_the_trade(lived: Lived) -> None:
    """Each buyer's first trade is refused to it in a fork that begins right before, and nothing else is."""
    first: dict[str, Trade] = {}
    for trade in lived.trades:
        first.setdefault(trade.buyer, trade)

    async def scenario() -> list[str]:
        changed: list[str] = []
        with Kernel.open(lived.folder / "state.db") as kernel:
            world = await World.open(kernel, "market")
            agents = list(await world.agents())
            for buyer, trade in first.items():
                network = without_sale(agents, trade)
                async with await world.fork(at=trade.tick - 1, config={"network": network}) as fork:
                    await fork.run(ticks=1 + WITHIN)
                    other = await tell(fork, Lived(lived.folder))
                bought = [one for one in other.trades if (one.tick, one.buyer) == (trade.tick, buyer)]
                assert bought == [], "the trade was refused"
                if doings(lived.acts[buyer], trade) != doings(other.acts[buyer], trade):
                    changed.append(buyer)
        return changed

    changed = asyncio.run(scenario())

    assert len(changed) >= BUYERS, changed

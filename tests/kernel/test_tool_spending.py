"""What a tool spends is charged once, however often its call is tried."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, Run, Tenant, ToolContext, not_happened, tool
from artelier.errors import InsufficientFunds, TransientError
from artelier.kernel import events as ev
from artelier.ledger import Posting
from artelier.log import Batch, Draft, StreamAppend, run_stream
from artelier.money import USD
from artelier.testing import ManualClock
from tests.kernel.crashes import Deaths
from tests.kernel.stage import (
    ACME,
    World,
    all_others_are_dead,
    ask,
    assert_conserved,
    drive,
    events,
    open_kernel,
    play,
)


async def _charges(kernel: Kernel, run_id: str = "r") -> list[tuple[str, int]]:
    found = await events(kernel, run_id, tenant="acme")
    told = [event.plain() for event in found if event.kind == "tool.charged"]
    return [(data["key"], data["cost"]) for data in told]


async def _spent(kernel: Kernel) -> int:
    return (await assert_conserved(kernel, "acme")).get("spent", 0)


def test_a_tool_that_is_retried_is_charged_once(tmp_path: Path) -> None:
    tries: list[int] = []

    @tool(side_effect=False)
    async def search(ctx: ToolContext) -> int:
        """Search."""
        tries.append(1)
        await ctx.spend("0.10")
        await ctx.spend("0.10")
        await ctx.spend(f"0.0{len(tries)}")
        if len(tries) < 3:
            raise TransientError("busy")
        return len(tries)

    async def code(run: Run) -> Any:
        await run.step_tool("search")
        return (await run.step_tool("search")).value

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[search]) as kernel:
            runs = kernel.for_tenant(ACME)
            assert await drive(runs, code) == "completed"
            first = [("1", 100_000), ("1", 100_000), ("1", 10_000), ("1", 20_000), ("1", 30_000)]
            second = [("2", 100_000), ("2", 100_000), ("2", 40_000)]
            assert await _charges(kernel) == first + second
            assert await _spent(kernel) == sum(cost for _, cost in first + second)
            assert (await runs.cost("r"))["cost_usd"] == "0.50"

    play(scenario())


def _buyer(world: World, *, once: bool, fails: bool = False, probed: bool = True) -> Any:
    async def probe(key: str, arguments: dict[str, Any]) -> Any:
        return not_happened

    @tool(side_effect=once, probe=probe if once and probed else None)
    async def buy(ctx: ToolContext) -> str:
        """Buy."""
        await ctx.spend("0.25")
        if fails:
            raise ConnectionError("lost")
        world.done.append(ctx.idempotency_key)
        return "bought"

    return buy


async def _buys(run: Run) -> Any:
    return (await run.step_tool("buy")).value


@pytest.mark.parametrize("once", [True, False])
def test_a_call_that_a_crash_has_cut_off_behind_its_spending_is_charged_once(
    tmp_path: Path, once: bool
) -> None:
    async def until_death() -> Deaths:
        deaths = Deaths(tmp_path / "s.db", World())
        tools = [_buyer(World(), once=once)]
        with open_kernel(tmp_path, tools=tools, fault=deaths, clock=ManualClock()) as kernel:
            assert await drive(kernel.for_tenant(ACME), _buys) == "completed"
        return deaths

    async def afterwards(path: Path) -> list[tuple[str, int]]:
        world = World()
        tools = [_buyer(world, once=once)]
        with Kernel.open(path, tools=tools, environ={}, clock=ManualClock()) as kernel:
            all_others_are_dead(kernel)
            assert await drive(kernel.for_tenant(ACME), _buys) == "completed"
            charges = await _charges(kernel)
            assert await _spent(kernel) == 250_000
            assert kernel.verify().ok
        return charges

    async def scenario() -> None:
        deaths = await until_death()
        assert len(deaths.found) > 5
        for death in deaths.found:
            assert await afterwards(death.path) == [("1", 250_000)], death

    play(scenario())


def test_a_call_that_its_probe_or_a_person_repeats_is_charged_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[_buyer(World(), once=True, fails=True)]) as kernel:
            runs = kernel.for_tenant(ACME)
            assert await drive(runs, _buys) == "unknown_outcome"
            assert await drive(runs, _buys) == "unknown_outcome"
            await runs.reconcile("r", "1", retry=True)
            assert await drive(runs, _buys) == "unknown_outcome"
            kinds = [event.kind for event in await events(kernel, tenant="acme")]
            assert kinds.count("tool.retried") == 4
            assert await _charges(kernel) == [("1", 250_000)]

    play(scenario())


def test_what_an_older_version_has_charged_for_a_try_pays_for_no_other(tmp_path: Path) -> None:
    """It charged each try, and says so by leaving `once` out."""

    async def scenario() -> None:
        lost = _buyer(World(), once=True, fails=True, probed=False)
        with open_kernel(tmp_path, tools=[lost]) as kernel:
            runs = kernel.for_tenant(ACME)
            assert await drive(runs, _buys) == "unknown_outcome"
            old = ev.ToolCharged(key="1", cost=20_000, postings=(Posting("tenant", "spent", USD, 20_000),))
            draft = Draft(old, kernel.services.clock.now_us(), "kernel")
            append = StreamAppend(run_stream("acme", "r"), [draft])
            await kernel.store.append(Batch(appends=[append]))

        @tool(side_effect=True)
        async def buy(ctx: ToolContext) -> str:
            """Buy."""
            for usd in ("0.25", "0.02"):
                await ctx.spend(usd)
            return "bought"

        with open_kernel(tmp_path, tools=[buy]) as kernel:
            runs = kernel.for_tenant(ACME)
            await runs.reconcile("r", "1", retry=True)
            assert await drive(runs, _buys) == "completed"
            assert await _charges(kernel) == [("1", 250_000), ("1", 20_000), ("1", 20_000)]

    play(scenario())


def test_a_refused_spend_pays_for_no_later_one(tmp_path: Path) -> None:
    refused: list[str] = []

    @tool(side_effect=False)
    async def buy(ctx: ToolContext) -> str:
        """Buy."""
        try:
            await ctx.spend("0.80")
        except InsufficientFunds as error:
            refused.append(error.code)
            raise TransientError("no money yet") from error
        return "bought"

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[buy]) as kernel:
            runs = kernel.for_tenant(Tenant("acme", grants={"tools:*"}, budget_usd="0.50"))
            await drive(runs, _buys)
            assert len(refused) > 1
            assert (await _charges(kernel), await _spent(kernel)) == ([], 0)
            await kernel.tenants.update("acme", budget_usd="1.00")
            await drive(kernel.for_tenant("acme"), _buys, "s")
            assert await _charges(kernel, "s") == [("1", 800_000)]

    play(scenario())


def test_a_fork_pays_for_a_call_that_it_makes_itself(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[_buyer(World(), once=False)]) as kernel:
            runs = kernel.for_tenant(ACME)
            assert await drive(runs, _buys) == "completed"
            found = await events(kernel, tenant="acme")
            at = next(event.seq for event in found if event.kind == "tool.charged")
            name = await runs.fork("r", at=at)
            assert await drive(runs, _buys, name) == "completed"
            assert await _charges(kernel, name) == [("1", 250_000)]
            assert await _spent(kernel) == 500_000

    play(scenario())


def test_a_call_that_changed_code_leaves_behind_is_charged_once_too(tmp_path: Path) -> None:
    async def old(run: Run) -> Any:
        await ask(run, "a")
        return await _buys(run)

    async def new(run: Run) -> Any:
        return await ask(run, "A")

    async def scenario() -> None:
        lost = _buyer(World(), once=True, fails=True, probed=False)
        with open_kernel(tmp_path, tools=[lost]) as kernel:
            runs = kernel.for_tenant(ACME)
            assert await drive(runs, old) == "unknown_outcome"
            await runs.reconcile("r", "2", retry=True)
            assert await drive(runs, new, replay="fork_on_drift") == "unknown_outcome"
            kinds = [event.kind for event in await events(kernel, tenant="acme")]
            assert kinds.count("tool.retried") == 1
            assert await _charges(kernel) == [("2", 250_000)]

    play(scenario())

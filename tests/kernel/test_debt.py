"""What a provider bills beyond its maximum is owed: nothing is reserved under a limit that is exceeded."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, ModelReply, ModelRequest, Policy, Price, Run, Tenant, ToolContext, tool
from artelier.app import TenantKernel
from artelier.errors import InsufficientFunds, InvalidConfig, LimitReached
from artelier.kernel import Limits
from artelier.kernel.run_limits import set_cap
from artelier.ports.model import Usage
from artelier.testing import ScriptedModel
from tests.kernel.stage import EAGER, ask, assert_conserved, billed, drive, events, open_kernel, play

DIME = Price(output=Decimal(100))
"""A reply of 1,000 tokens costs 0.10 USD, and its input nothing."""


def greedy(tokens: int = 1_000) -> ScriptedModel:
    """A provider that ignores `max_output_tokens`."""
    return ScriptedModel(lambda _: billed("much", inputs=0, outputs=tokens), price=DIME)


async def one_call(run: Run) -> str:
    return await ask(run, "x", max_output_tokens=10)


async def many_calls(run: Run) -> None:
    for _ in range(40):
        await one_call(run)


async def requested(kernel: Kernel) -> int:
    rows = await kernel.store.query("SELECT count(*) FROM events WHERE kind = 'model.requested'")
    return rows[0][0]


def test_no_call_is_made_after_the_first_excess_until_the_budget_is_raised(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = greedy()
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant(Tenant("t", budget_usd="0.05"))
            found = [await drive(runs, one_call, f"r{number}") for number in range(40)]
            assert found == ["completed", *["budget_exhausted"] * 39]
            assert await requested(kernel) == len(model.requests) == 1

            shown = await kernel.tenants.show("t")
            assert (shown["spent_usd"], shown["debt_usd"]) == ("0.10", "0.099")
            assert (shown["held_usd"], shown["available_usd"]) == ("0.00", "-0.05")

            raised = await kernel.tenants.update("t", budget_usd="0.08")
            runs = kernel.for_tenant("t")
            assert raised["available_usd"] == "-0.02", "a raise that only pays a part of the debt"
            assert await drive(runs, one_call, "r1") == "budget_exhausted"

            raised = await kernel.tenants.update("t", budget_usd="0.15")
            assert (raised["debt_usd"], raised["available_usd"]) == ("0.00", "0.05")
            assert await drive(runs, one_call, "r1") == "completed"
            assert await drive(runs, one_call, "r2") == "budget_exhausted"
            assert len(model.requests) == 2
            await assert_conserved(kernel, "t")
            assert kernel.verify().ok

    play(scenario())


def test_a_debt_outlives_the_process(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = greedy()
        for number in range(5):
            with open_kernel(tmp_path, model) as kernel:
                runs = kernel.for_tenant(Tenant("t", budget_usd="0.05"))
                await drive(runs, one_call, f"r{number}")
        assert len(model.requests) == 1

    play(scenario())


@pytest.mark.parametrize("tokens", [1_000, 10**9])
@pytest.mark.parametrize("whose", ["run", "parent"])
def test_a_limit_of_a_run_that_is_exceeded_stops_it_and_all_below_it(
    tmp_path: Path, whose: str, tokens: int
) -> None:
    async def parent(run: Run) -> None:
        for number in range(40):
            async with run_below(run, f"c{number}") as child:
                await one_call(child)

    def run_below(run: Run, name: str) -> Any:
        return runs_of[0].run(name, parent=run)

    runs_of: list[TenantKernel] = []

    async def scenario() -> None:
        model = greedy(tokens)
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant(Tenant("t", budget_usd="900000.00"))
            runs_of.append(runs)
            code = many_calls if whose == "run" else parent
            assert await drive(runs, code, limits=Limits(usd="0.05")) == "budget_exhausted"
            assert await requested(kernel) == len(model.requests) == 1
            assert await drive(runs, code) == "budget_exhausted"
            assert len(model.requests) == 1

            cost = tokens * 100
            (row,) = await kernel.store.query(
                "SELECT cap, used FROM limits WHERE scope = 'run:r' AND unit = 'usd'"
            )
            assert row == (50_000, cost)
            await runs.limit("r", unit="usd", cap=str(Decimal(2 * cost - 1) / 1_000_000))
            assert await drive(runs, code) == "budget_exhausted"
            assert len(model.requests) == 2
            assert kernel.verify().ok

    play(scenario())


def test_a_shared_scope_that_is_exceeded_stops_every_run_that_counts_in_it(tmp_path: Path) -> None:
    """A membrane's and an agent's limit are such scopes."""

    async def scenario() -> None:
        model = greedy()
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant("t")
            await runs.state()
            services = kernel.services
            await set_cap(services, "t", "membrane:m", unit="usd", cap=50_000, by="test")
            for number in range(10):
                await drive(runs, one_call, f"r{number}", scopes=("membrane:m",))
            assert await requested(kernel) == len(model.requests) == 1
            assert await drive(runs, one_call, "other") == "completed"

    play(scenario())


def test_parallel_calls_pass_a_limit_by_no_more_than_were_in_flight(tmp_path: Path) -> None:
    """64 children; all that are in flight when the first bill comes are paid, and none after it."""

    class Slow:
        price = DIME

        def __init__(self) -> None:
            self.in_flight = self.asked = 0
            self.go = asyncio.Event()

        async def complete(self, request: ModelRequest, /) -> ModelReply:
            self.asked += 1
            self.in_flight += 1
            await self.go.wait()
            return ModelReply(text="much", usage=Usage(output_tokens=1_000))

    async def scenario() -> None:
        model = Slow()
        policy = Policy(backoff_s=0, parallel_max=64, funds_wait_s=0)
        with open_kernel(tmp_path, model, policy=policy) as kernel:
            runs = kernel.for_tenant(Tenant("t", budget_usd="100.00"))

            async def child(run: Run, number: int) -> None:
                async with runs.run(f"c{number}", parent=run) as below:
                    await many_calls(below)

            async def code(run: Run) -> None:
                await run.gather(*(lambda b, n=n: child(b, n) for n in range(64)))

            work = asyncio.create_task(drive(runs, code, limits=Limits(usd="0.05")))
            # Each holds 0.001 USD: fifty fit, and the others are refused.
            async with asyncio.timeout(20):
                while model.asked < 50:
                    await asyncio.sleep(0)
            in_flight = model.in_flight
            model.go.set()
            assert await work == "budget_exhausted"
            assert model.asked == in_flight == 50
            assert await assert_conserved(kernel, "t") and kernel.verify().ok

    play(scenario())


def test_a_tool_spends_nothing_while_a_limit_is_exceeded(tmp_path: Path) -> None:
    refused: list[str] = []
    said: list[str] = []

    @tool
    async def buy(context: ToolContext) -> str:
        """Buy something."""
        try:
            await context.spend("0.000001")
        except (InsufficientFunds, LimitReached) as error:
            refused.append(error.code)
            said.append(str(error))
            raise
        return "bought"

    async def code(run: Run) -> None:
        await one_call(run)
        await run.step_tool("buy", {})

    async def scenario() -> None:
        with open_kernel(tmp_path, greedy(), tools=[buy]) as kernel:
            runs = kernel.for_tenant(Tenant("t", budget_usd="0.05", grants={"tools:*"}))
            await drive(runs, code)
            await kernel.tenants.update("t", budget_usd="9.00")
            await drive(kernel.for_tenant("t"), code, "s", limits=Limits(usd="0.05"))
            assert refused == ["insufficient_funds", "limit_reached"]
            assert "at least 0.000001 USD; got 0.049 USD with a debt of 0.099 USD" in said[0]
            assert "at most 0.05 USD; got 0.10 USD used" in said[1]
            kinds = [event.kind for name in "rs" for event in await events(kernel, name, tenant="t")]
            assert "tool.charged" not in kinds

    play(scenario())


def test_a_call_without_a_known_price_is_refused_too_and_a_free_one_is_not(tmp_path: Path) -> None:
    free = ScriptedModel(lambda _: billed("free"))
    unknown = ScriptedModel(lambda _: billed("unknown"), price=None)

    async def spent_then(run: Run, model: str) -> str:
        await one_call(run)
        messages = [{"role": "user", "content": "x"}]
        return (await run.step_model(model=model, messages=messages)).text

    async def scenario() -> None:
        models = {"m": greedy(), "free": free, "unknown": unknown}
        with Kernel.open(tmp_path / "s.db", models=models, environ={}) as kernel:
            for name, limits in (("t", None), ("u", Limits(usd="0.05"))):
                budget = "0.05" if limits is None else None
                said = Tenant(name, budget_usd=budget, allow_unknown_price=True)
                await kernel.for_tenant(said).state()
                for model, status in (("free", "completed"), ("unknown", "budget_exhausted")):
                    runs = kernel.for_tenant(name)
                    code = partial(spent_then, model=model)
                    assert await drive(runs, code, f"{name}-{model}", limits=limits) == status
                    if limits is None:
                        await kernel.tenants.update(name, budget_usd="0.15")
            assert unknown.requests == []

    play(scenario())


def test_a_tenant_without_a_limit_owes_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path, greedy()) as kernel:
            assert await drive(kernel.for_tenant("free"), many_calls) == "completed"
            assert await assert_conserved(kernel, "free") == {
                "source:unlimited": -4_000_000,
                "spent": 4_000_000,
            }

    play(scenario())


def test_lifting_the_budget_pays_the_debt_and_a_lower_one_counts_it_as_spent(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path, greedy()) as kernel:
            runs = kernel.for_tenant(Tenant("t", budget_usd="0.15"))
            assert await drive(runs, one_call) == "completed"
            with pytest.raises(InsufficientFunds, match=r"owed; expected at least 0\.10 USD; got 0\.05 USD"):
                await kernel.tenants.update("t", budget_usd="0.05")
            lowered = await kernel.tenants.update("t", budget_usd="0.10")
            assert (lowered["debt_usd"], lowered["available_usd"]) == ("0.099", "0.00")

            lifted = await kernel.tenants.update("t", unlimited=True)
            assert (lifted["debt_usd"], lifted["available_usd"]) == ("0.00", None)
            await assert_conserved(kernel, "t")

    play(scenario())


def test_an_old_overrun_stays_forgiven(tmp_path: Path) -> None:
    """Databases from before this change have an account of that name."""
    from artelier.kernel import events as ev
    from artelier.ledger import Posting
    from artelier.log import Batch, Draft, StreamAppend, tenant_stream

    async def scenario() -> None:
        with open_kernel(tmp_path, greedy()) as kernel:
            runs = kernel.for_tenant(Tenant("t", budget_usd="1.00"))
            await runs.state()
            old = (
                Posting("source:overrun", "overrun", "usd", 9_000_000),
                Posting("overrun", "spent", "usd", 9_000_000),
            )
            settings = ev.TenantUpdated(budget=1_000_000, grants=("tools:*",), postings=old)
            draft = Draft(settings, kernel.services.clock.now_us(), "test")
            await kernel.store.append(Batch(appends=[StreamAppend(tenant_stream("t"), [draft])]))
            shown = await kernel.tenants.show("t")
            assert (shown["debt_usd"], shown["available_usd"]) == ("0.00", "1.00")
            assert await drive(runs, one_call) == "completed"

    play(scenario())


@pytest.mark.parametrize("bad", ["NaN", "Infinity", "-1", "-0.01"])
def test_a_price_that_is_none_is_refused_when_it_is_set(bad: str) -> None:
    for name in ("input", "cached_input", "cache_write", "output", "request"):
        with pytest.raises(InvalidConfig, match=f"price of {name}"):
            Price(**{name: Decimal(bad)})


def test_a_port_whose_price_is_no_price_is_not_called(tmp_path: Path) -> None:
    class Port:
        price = {"input": 1}

        async def complete(self, request: ModelRequest, /) -> ModelReply:
            raise AssertionError("not called")

    async def scenario() -> None:
        with open_kernel(tmp_path, Port(), policy=EAGER) as kernel:
            assert await drive(kernel.for_tenant("t"), one_call) == "failed: invalid_config"

    play(scenario())


# A budget that another process sets

STOPPED = """
import asyncio, os, signal, sys
from pathlib import Path
from artelier import Kernel, RunSuspended, Tenant
from tests.kernel.stage import ask
from tests.kernel.test_debt import greedy, pay_from_tool

async def main(folder, work):
    model = greedy(100)
    with Kernel.open(folder / "test.db", models={"m": model}, tools=[pay_from_tool]) as kernel:
        try:
            async with kernel.run("r", tenant=Tenant("t"), on_wait="suspend") as run:
                await ask(run, "first", max_output_tokens=100)
                (folder / "stopped").touch()
                os.kill(os.getpid(), signal.SIGSTOP)
                # No await between the stop and the calls: nothing has been read of the budget.
                if work == "model":
                    calls = [ask(run, str(n), max_output_tokens=100, key=f"k{n}") for n in range(50)]
                else:
                    calls = [run.step_tool("pay_from_tool", {"n": n}, key=f"k{n}") for n in range(50)]
                await asyncio.gather(*calls)
                end = "completed"
        except RunSuspended as suspended:
            end = suspended.status
    print(end)

asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
"""


@tool(side_effect=False)
async def pay_from_tool(n: int, context: ToolContext) -> str:
    """Spend a cent."""
    await context.spend("0.01")
    return str(n)


@pytest.mark.parametrize(("work", "end"), [("model", "budget_exhausted"), ("tool", "completed")])
def test_a_process_that_was_stopped_spends_nothing_of_a_budget_that_it_has_not_seen(
    tmp_path: Path, work: str, end: str
) -> None:
    """A refused model call ends the drive; a tool that may not spend has failed, and its code hears so."""

    async def scenario() -> None:
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", STOPPED, str(tmp_path), work, stdout=asyncio.subprocess.PIPE
        )
        try:
            while not (tmp_path / "stopped").exists():
                assert child.returncode is None
                await asyncio.sleep(0.01)
            os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
            with Kernel.open(tmp_path / "test.db") as kernel:
                await kernel.tenants.update("t", budget_usd="0.02")
                child.send_signal(signal.SIGCONT)
                out, _ = await child.communicate()
                shown = await kernel.tenants.show("t")
        finally:
            if child.returncode is None:
                child.kill()
        assert (shown["spent_usd"], shown["debt_usd"], shown["held_usd"]) == ("0.03", "0.00", "0.00")
        assert out.decode().strip() == end

    play(scenario())

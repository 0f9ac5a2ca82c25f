"""Money and limits: reserved before a call, settled after it, conserved whatever happens."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, ModelReply, ModelRequest, Policy, Price, Run, RunSuspended, Tenant, TenantContext
from artelier.errors import InsufficientFunds, InvalidConfig, InvalidRequest, ModelRefusedCall, PriceUnknown
from artelier.kernel import Limits
from artelier.ports.model import Usage
from artelier.testing import ManualClock, ScriptedModel
from tests.kernel.stage import (
    ACME,
    EAGER,
    PRICE,
    GateModel,
    ask,
    assert_conserved,
    balances,
    billed,
    drive,
    events,
    has_status,
    open_kernel,
    pass_time,
    play,
    result_of,
    user,
)


def _priced(*script: Any, price: Price | None = PRICE) -> ScriptedModel:
    return ScriptedModel(list(script), price=price)


def test_a_call_holds_its_upper_bound_and_settles_what_it_cost(tmp_path: Path) -> None:
    """The bound: every byte of the request a token of input, and the maximum of output tokens."""

    async def scenario() -> None:
        gate = GateModel()
        gate.price = PRICE
        with open_kernel(tmp_path, gate) as kernel:
            runs = kernel.for_tenant(ACME)

            async def code(run: Run) -> int:
                reply = await run.step_model(
                    model="m", messages=[{"role": "user", "content": "x"}], max_output_tokens=100
                )
                return reply.cost_microusd

            work = asyncio.create_task(drive(runs, code))
            await gate.asked("x")
            found = await balances(kernel, "acme")
            bound = len(gate.requests[0].canonical()) + 768 + 2 * 100
            assert found["hold:r"] == bound
            assert found["tenant"] == 5_000_000 - bound
            gate.answer("x")
            assert await work == "completed"
            await assert_conserved(kernel, "acme")

    play(scenario())


def test_cost_is_exact_counts_cached_tokens_and_is_rounded_up_once(tmp_path: Path) -> None:
    price = Price(
        input=Decimal("0.15"), cached_input=Decimal("0.075"), output=Decimal("0.6"), request=Decimal("0.001")
    )
    usage = Usage(input_tokens=1000, cached_input_tokens=300, output_tokens=10)

    async def scenario() -> None:
        model = _priced(ModelReply(text="a", usage=usage), price=price)
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant(ACME)
            async with runs.run("r") as run:
                await ask(run, "x")
            # 700 * 0.15 + 300 * 0.075 + 10 * 0.6 + 1000 = 1133.5 micro-dollars
            assert (await runs.cost("r"))["cost_microusd"] == 1134
            found = await assert_conserved(kernel, "acme")
            assert (found["spent"], found["tenant"]) == (1134, 5_000_000 - 1134)

    play(scenario())


def test_an_unlimited_tenant_pays_from_a_source_of_its_own(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path, _priced(billed("a"))) as kernel:
            async with kernel.run("r", tenant="free") as run:
                await ask(run, "x")
            assert await assert_conserved(kernel, "free") == {"source:unlimited": -30, "spent": 30}

    play(scenario())


def test_a_budget_stop_spends_nothing_and_raising_the_budget_lets_the_run_go_on(tmp_path: Path) -> None:
    async def code(run: Run) -> Any:
        return [await ask(run, "a"), await ask(run, "b")]

    async def scenario() -> None:
        model = _priced(billed("one", inputs=800), billed("two"))
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant(Tenant("t", budget_usd="0.003200"))
            for _ in range(2):
                assert await drive(runs, code) == "budget_exhausted"
            shown = await runs.show("r")
            assert (shown["status"], shown["reason"]) == ("budget_exhausted", "insufficient_funds")
            assert len(model.requests) == 1
            assert (await assert_conserved(kernel, "t"))["spent"] == 820

            await kernel.tenants.update("t", budget_usd="1.00")
            assert await drive(kernel.for_tenant("t"), code) == "completed"
            assert await result_of(runs) == ["one", "two"]
            found = await assert_conserved(kernel, "t")
            assert (found["source:budget"], found["spent"]) == (-1_000_000, 850)

    play(scenario())


def test_a_bill_beyond_the_maximum_is_owed_and_stops_no_run_that_has_money_left(tmp_path: Path) -> None:
    async def code(run: Run) -> Any:
        return [await ask(run, "a", max_output_tokens=10), await ask(run, "b")]

    async def scenario() -> None:
        model = _priced(billed("one", inputs=50_000, outputs=4000), billed("two"))
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant(ACME)
            assert await drive(runs, code) == "completed"
            found = await assert_conserved(kernel, "acme")
            assert found["spent"] == 58_030
            assert -found["source:debt"] + (5_000_000 - found["tenant"]) == 58_030
            assert -found["source:debt"] > 50_000
            shown = await kernel.tenants.show("acme")
            assert shown["available_usd"] == "4.94197"

    play(scenario())


def test_a_call_waits_while_siblings_hold_the_money_and_goes_on_when_it_comes_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        gate = GateModel()
        gate.price = PRICE
        with open_kernel(tmp_path, gate) as kernel:
            runs = kernel.for_tenant(Tenant("t", budget_usd="0.004000"))

            async def one(name: str) -> str:
                return await drive(runs, lambda run: ask(run, name, max_output_tokens=900), name)

            first = asyncio.create_task(one("a"))
            await gate.asked("a")
            second = asyncio.create_task(one("b"))
            await has_status(runs, "running", "b")
            await asyncio.sleep(0.05)
            assert len(gate.requests) == 1, "b waits"
            gate.answer("a")
            await gate.asked("b")
            gate.answer("b")
            assert [await first, await second] == ["completed", "completed"]
            await assert_conserved(kernel, "t")

    play(scenario())


def test_waiting_for_money_is_bounded(tmp_path: Path) -> None:
    async def scenario() -> None:
        gate, clock = GateModel(), ManualClock()
        gate.price = PRICE
        policy = Policy(funds_wait_s=60)
        with open_kernel(tmp_path, gate, clock=clock, policy=policy) as kernel:
            runs = kernel.for_tenant(Tenant("t", budget_usd="0.004000"))

            async def one(name: str) -> str:
                return await drive(runs, lambda run: ask(run, name, max_output_tokens=900), name)

            first = asyncio.create_task(one("a"))
            await gate.asked("a")
            start = clock.now_us()
            assert await pass_time(clock, asyncio.create_task(one("b"))) == "budget_exhausted"
            assert 60_000_000 <= clock.now_us() - start < 61_000_000
            gate.answer("a")
            assert await first == "completed"
            await assert_conserved(kernel, "t")

    play(scenario())


def test_an_unknown_price_blocks_before_anything_is_recorded_unless_it_is_allowed(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = ScriptedModel(lambda _: billed("a"), price=None)
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant("t")
            with pytest.raises(PriceUnknown, match="allow unknown prices"):
                async with runs.run("r") as run:
                    await ask(run, "x")
            assert model.requests == []
            assert [e.kind for e in await events(kernel, tenant="t")][1:] == ["run.failed"]

            await kernel.tenants.update("t", allow_unknown_price=True)
            await runs.retry("r")
            assert await drive(runs, lambda run: ask(run, "x")) == "completed"
            (step,) = (await runs.cost("r"))["steps"]
            assert (step["price_known"], step["output_tokens"]) == (False, 10)
            assert await balances(kernel, "t") == {}

    play(scenario())


@pytest.mark.parametrize(
    ("limits", "calls", "reason"),
    [
        (Limits(usd="0.009"), 4, "limit_reached"),
        (Limits(tokens=9000), 5, "limit_reached"),
        (Limits(steps=3), 3, "limit_reached"),
    ],
)
def test_a_limit_of_a_run_ends_it_before_it_is_passed_and_holds_for_children(
    tmp_path: Path, limits: Limits, calls: int, reason: str
) -> None:
    """Each call uses 1,600 micro-dollars, 1,500 tokens, one step; the bound is about 2,900 and 1,900."""

    async def scenario() -> None:
        model = ScriptedModel(lambda _: billed("a", inputs=1400, outputs=100), price=PRICE)
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant(ACME)
            done: list[str] = []

            async def code(run: Run) -> None:
                done.append(await ask(run, "x", max_output_tokens=1000))
                async with runs.run("child", parent=run, limits=Limits(steps=100)) as child:
                    while True:
                        done.append(await ask(child, "y", max_output_tokens=1000))

            assert await drive(runs, code, limits=limits) == "budget_exhausted"
            assert len(done) == calls
            assert (await runs.show("child"))["reason"] == reason
            assert (await runs.show("r"))["status"] == "budget_exhausted"
            found = await assert_conserved(kernel, "acme")
            assert found["spent"] == 1600 * calls
            rows = await kernel.store.query("SELECT cap, reserved, used FROM limits WHERE scope = 'run:r'")
            assert rows[0][1] == 0 and rows[0][2] <= rows[0][0]

    play(scenario())


def test_a_limit_that_siblings_reserve_is_waited_for(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = ScriptedModel(lambda _: billed("a"), price=PRICE)
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant(ACME)

            async def code(run: Run) -> Any:
                branches = [lambda b, n=n: ask(b, str(n), max_output_tokens=500) for n in range(8)]
                return len(await run.gather(*branches))

            assert await drive(runs, code, limits=Limits(usd="0.003")) == "completed"
            assert await result_of(runs) == 8
            await assert_conserved(kernel, "acme")

    play(scenario())


def test_a_limit_can_be_raised_and_the_run_goes_on(tmp_path: Path) -> None:
    async def code(run: Run) -> Any:
        return [await ask(run, str(number)) for number in range(4)]

    async def scenario() -> None:
        model = ScriptedModel(lambda _: billed("a"), price=PRICE)
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant(ACME)
            assert await drive(runs, code, limits=Limits(steps=2)) == "budget_exhausted"
            await runs.limit("r", unit="steps", cap=3)
            assert await drive(runs, code) == "budget_exhausted"
            await runs.limit("r", unit="steps", cap=None)
            assert await drive(runs, code) == "completed"
            assert len(model.requests) == 4

    play(scenario())


def test_wall_time_ends_a_run_at_its_next_step_and_while_it_waits(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        model = ScriptedModel(lambda _: billed("a"), price=PRICE)
        with open_kernel(tmp_path, model, clock=clock) as kernel:
            runs = kernel.for_tenant(ACME)

            async def works(run: Run) -> None:
                await ask(run, "a")
                clock.advance(11)
                await ask(run, "b")

            assert await drive(runs, works, limits=Limits(wall_s=10)) == "budget_exhausted"
            assert (await runs.show("r"))["reason"] == "deadline"

            async def waits(run: Run) -> None:
                await run.approve("anybody?")

            work = asyncio.create_task(drive(runs, waits, "s", limits=Limits(wall_s=10)))
            assert await pass_time(clock, work) == "budget_exhausted"
            assert (await runs.show("s"))["reason"] == "deadline"

    play(scenario())


def test_a_tenant_keeps_what_is_stored_whatever_a_program_says_of_it(tmp_path: Path) -> None:
    """A program that restarts never breaks because an operator raised a limit."""
    said = Tenant("acme", grants={"tools:*"}, budget_usd="0.002")

    async def code(run: Run) -> Any:
        return [await ask(run, "a"), await ask(run, "b")]

    async def scenario() -> None:
        model = ScriptedModel(lambda _: billed("a", inputs=400, outputs=400), price=PRICE)
        with open_kernel(tmp_path, model) as kernel:
            assert await drive(kernel.for_tenant(said), code) == "budget_exhausted"
            await kernel.tenants.update("acme", budget_usd="5.00", grants={"tools:look", "x:y"})
        for _ in range(2):
            with open_kernel(tmp_path, model) as kernel:
                runs = kernel.for_tenant(said)
                assert await drive(runs, code) == "completed"
                state = await runs.state()
                assert (state.budget, state.grants) == (5_000_000, ("tools:look",))
                assert (await kernel.tenants.show("acme"))["grants"] == ["tools:look", "x:y"]
                assert (await kernel.for_tenant("acme").state()).grants == ("tools:look", "x:y")
                assert state.grants == ("tools:look",), "handles that say other grants share none"
                declared = [e.plain() async for e in kernel.events() if e.kind == "tenant.declared"]
                assert declared == [{"grants": ["tools:*"], "budget": 2_000}], "it is said once"
                assert kernel.verify().ok

    play(scenario())


@pytest.mark.parametrize("said", [{"tools:look"}, {"tools:look", "payments:send"}, ()])
def test_what_a_program_says_of_grants_never_widens_them(tmp_path: Path, said: Any) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            await kernel.for_tenant(ACME).state()
            runs = kernel.for_tenant(Tenant("acme", grants=said))
            async with runs.run("r") as run:
                assert set(run.core.grants) == set(said) & {"tools:look"}
                assert not run.core.may_use("payments:send")
                assert not run.core.may_use("tools:other")
                await kernel.tenants.update("acme", grants={"payments:*"})
                assert not run.core.may_use("tools:look"), "what an operator takes away is gone"
            assert (await kernel.tenants.show("acme"))["budget_usd"] == "5.00"

    play(scenario())


def test_a_tenant_that_says_nothing_new_is_not_declared(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            for said in (ACME, "acme", Tenant("acme", budget_usd=Decimal("5")), ACME):
                await kernel.for_tenant(said).state()
            assert "tenant.declared" not in [event.kind async for event in kernel.events()]
            for bad in ("abc", "-1", "NaN", "0.0000001"):
                with pytest.raises(InvalidRequest, match="amount in USD"):
                    await kernel.for_tenant(Tenant("acme", budget_usd=bad)).state()

    play(scenario())


def test_a_budget_is_changed_exactly_once_by_each_of_many(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = _priced(billed("a"))
        with open_kernel(tmp_path, model) as kernel, open_kernel(tmp_path, model) as other:
            await kernel.for_tenant(ACME).state()
            await asyncio.gather(*(k.tenants.update("acme", budget_usd="9.00") for k in (kernel, other) * 3))
            assert await assert_conserved(kernel, "acme") == {
                "source:budget": -9_000_000,
                "tenant": 9_000_000,
            }

            async with kernel.run("r", tenant="acme") as run:
                await ask(run, "x")
            shown = await kernel.tenants.update("acme", unlimited=True)
            assert (shown["budget_usd"], shown["spent_usd"]) == (None, "0.00003")
            with pytest.raises(InsufficientFunds):
                await kernel.tenants.update("acme", budget_usd="0.00001")
            shown = await kernel.tenants.update("acme", budget_usd="1.00")
            assert shown["available_usd"] == "0.99997"
            await assert_conserved(kernel, "acme")

    play(scenario())


def test_a_budget_set_by_another_process_holds_for_a_run_at_work(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = ScriptedModel(lambda _: billed("a", outputs=1000), price=PRICE)
        with open_kernel(tmp_path, model) as kernel, open_kernel(tmp_path, model) as other:
            runs = kernel.for_tenant("t")
            with pytest.raises(RunSuspended):
                async with runs.run("r") as run:
                    await ask(run, "before")
                    await other.tenants.update("t", budget_usd="0.002000")
                    async with asyncio.timeout(5):
                        while run.core.tenant.budget is None:
                            await asyncio.sleep(0.01)
                    await ask(run, "after")
            assert len(model.requests) == 1
            await assert_conserved(kernel, "t")

    play(scenario())


def test_no_call_that_was_given_up_keeps_its_hold(tmp_path: Path) -> None:
    """Cancelled while it is asked, given up by the code, or left by a run that ends: all comes back."""

    async def caught(run: Run) -> str:
        for number in range(3):
            try:
                async with asyncio.timeout(0.02):
                    await ask(run, f"hang {number}", key=str(number + 5))
            except TimeoutError:
                continue
        return "gave up"

    async def scenario() -> None:
        gate = GateModel()
        gate.price = PRICE
        with open_kernel(tmp_path, gate) as kernel:
            runs = kernel.for_tenant(ACME)
            assert await drive(runs, caught) == "completed"
            found = await assert_conserved(kernel, "acme")
            assert found["spent"] < 3 * 100, "what was begun may be billed: its input"

            work = asyncio.create_task(drive(runs, lambda run: ask(run, "s"), "s"))
            await gate.asked("s")
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work
            await runs.cancel("s")
            await assert_conserved(kernel, "acme")

    play(scenario())


def test_a_run_cancelled_while_nobody_drives_it_pays_for_the_input_and_gives_back_the_rest(
    tmp_path: Path,
) -> None:
    from tests.kernel.crashes import Deaths
    from tests.kernel.stage import World

    async def scenario() -> None:
        deaths = Deaths(tmp_path / "s.db", World(), skip=("commit.before", "commit.after"))
        model, clock = ScriptedModel(lambda _: billed("a"), price=PRICE), ManualClock()
        with open_kernel(tmp_path, model, fault=deaths, clock=clock) as kernel:
            await drive(kernel.for_tenant(ACME), lambda run: ask(run, "x"))
        dead = next(d.path for d in deaths.found if d.point == "model.requested")
        clock.advance(60)
        with Kernel.open(dead, models=model, clock=clock) as kernel:
            held = (await balances(kernel, "acme"))["hold:r"]
            assert held > 0
            await kernel.for_tenant(ACME).cancel("r")
            found = await assert_conserved(kernel, "acme")
            assert 0 < found["spent"] == 5_000_000 - found["tenant"] < held / 4
            (ended,) = [e for e in await events(kernel, tenant="acme") if e.kind == "model.failed"]
            assert (ended.plain()["code"], ended.plain()["estimated"]) == ("abandoned", True)

    play(scenario())


def test_money_is_conserved_over_every_way_in_which_calls_end(tmp_path: Path) -> None:
    from artelier.errors import ModelTimeout, RateLimited

    steps = [
        billed("a"),
        RateLimited("x"),
        billed("b"),
        ModelRefusedCall("no"),
        *[ModelTimeout("t")] * 4,
        ModelReply(text="\ud800"),
        billed("d"),
        ModelReply(text="x" * 1000, usage=Usage(input_tokens=7, output_tokens=10**9)),
        billed("e"),
    ]

    async def scenario() -> None:
        model = ScriptedModel(steps, price=PRICE)
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant(ACME)

            async def code(run: Run) -> Any:
                said: list[str] = []
                for number in range(7):
                    try:
                        said.append(await ask(run, str(number)))
                    except (ModelRefusedCall, ModelTimeout) as error:
                        said.append(error.code)
                return said

            assert await drive(runs, code) == "budget_exhausted", "a reply of 10**9 tokens"
            await assert_conserved(kernel, "acme")
            await kernel.tenants.update("acme", budget_usd="3000.00")
            assert await drive(kernel.for_tenant("acme"), code) == "completed"
            assert await result_of(runs) == [
                "a",
                "b",
                "model_refused_call",
                "model_timeout",
                "d",
                "x" * 1000,
                "e",
            ]
            await assert_conserved(kernel, "acme")
        model.assert_done()

    play(scenario())


def _answers(request: ModelRequest) -> ModelReply:
    return billed("re", inputs=len(request.canonical()))


def test_many_runs_at_once_never_pass_the_limit_of_their_tenant(tmp_path: Path) -> None:
    """64 runs in parallel; each would fit alone."""

    async def scenario() -> None:
        model = ScriptedModel(_answers, price=PRICE)
        policy = Policy(funds_wait_s=0.2)
        with open_kernel(tmp_path, model, policy=policy) as kernel:
            runs = kernel.for_tenant(Tenant("t", budget_usd="0.012000"))

            async def one(number: int) -> str:
                return await drive(runs, lambda run: ask(run, "x"), f"r{number}")

            found = await asyncio.gather(*(one(number) for number in range(64)))
            assert set(found) == {"completed", "budget_exhausted"}
            money = await assert_conserved(kernel, "t")
            assert money["spent"] <= 12_000
            costs = [(await runs.cost(f"r{n}"))["cost_microusd"] for n in range(64)]
            assert money["spent"] == sum(costs)
            # How many get their turn depends on the machine; that some do makes the sum mean something.
            assert found.count("completed") == len(model.requests) >= 2

    play(scenario())


def test_prices_may_be_given_by_model_name(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = _priced(billed("a"), billed("b"), price=None)
        prices = {"openai:gpt-x": PRICE}
        with open_kernel(tmp_path, model, prices=prices, policy=EAGER) as kernel:
            runs = kernel.for_tenant(ACME)
            async with runs.run("r") as run:
                for name in ("gpt-x", "openai:gpt-x"):
                    reply = await run.step_model(model=name, messages=[{"role": "user", "content": "x"}])
                    assert reply.cost_microusd == 30

    play(scenario())


def test_a_tenant_may_be_named_by_its_older_arguments(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            older = TenantContext(tenant_id="t", capabilities={"payments:send"}, budget_usd_limit=0.25)
            state = await kernel.for_tenant(older).state()
            assert set(state.grants) == {"artifacts:*", "tools:*", "payments:send"}
            assert (await kernel.tenants.show("t"))["budget_usd"] == "0.25"

    play(scenario())


def test_an_amount_that_no_ledger_takes_is_refused_with_the_bound(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            with pytest.raises(InvalidRequest, match="too large") as refused:
                await kernel.tenants.open(Tenant("acme", budget_usd="1e30"))
            assert "at most" in str(refused.value.expected)
            await kernel.tenants.open(Tenant("acme", budget_usd="1"))
            for usd in ("1e12", "1e30", "1000000000.000001"):
                with pytest.raises(InvalidRequest, match="too large"):
                    await kernel.tenants.update("acme", budget_usd=usd)
            most = await kernel.tenants.update("acme", budget_usd="1e9")
            assert most["available_usd"] == "1000000000.00"
            with pytest.raises(InvalidRequest, match="too large"):
                async with kernel.run("r", tenant="acme", limits=Limits(usd="1e20")):
                    pass
        with pytest.raises(InvalidConfig, match="price of output"):
            Price(output=Decimal("1e999999999"))

    play(scenario())


def test_what_was_spent_while_unlimited_counts_against_no_later_budget(tmp_path: Path) -> None:
    reply = ModelReply(text="x", usage=Usage(output_tokens=1000))
    model = ScriptedModel(lambda _: reply, price=Price(output=Decimal(100)))

    async def scenario() -> None:
        with open_kernel(tmp_path, model) as kernel:
            async with kernel.run("r", tenant=Tenant("acme", budget_usd="0.20")) as run:
                await kernel.tenants.update("acme", unlimited=True)
                await run.step_model(model="m", messages=[user("x")], max_output_tokens=1000)
            shown = await kernel.tenants.update("acme", budget_usd="0.20")
            assert (shown["spent_usd"], shown["available_usd"]) == ("0.10", "0.20")

    play(scenario())

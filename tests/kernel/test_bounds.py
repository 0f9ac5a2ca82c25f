"""Bounds that a loop or an operator sets on runs: shared scopes with caps, tools that are off, approvals."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, ModelRequest, Policy, Run, ToolContext, tool
from artelier.errors import InvalidExport, InvalidRequest
from artelier.kernel import events as ev
from artelier.kernel import find_driver
from artelier.kernel.queries.steps import calls_below, step_records
from artelier.testing import ScriptedModel
from tests.kernel.files import forged
from tests.kernel.stage import (
    ACME,
    EAGER,
    PRICE,
    GateModel,
    ask,
    assert_conserved,
    billed,
    drive,
    echo,
    events,
    has_status,
    open_kernel,
    play,
    result_of,
)

AGENT, GROUP = "agent:m1/analyst", "membrane:m1/study"


def _costly(*texts: str, tokens: int = 500) -> ScriptedModel:
    """A model whose replies cost 2 micro-dollars per token."""
    return ScriptedModel([billed(text, inputs=0, outputs=tokens) for text in texts], price=PRICE)


async def _twice(run: Run) -> Any:
    return [await ask(run, text, max_output_tokens=1000) for text in ("a", "b")]


# Scopes


def test_a_run_counts_what_it_uses_in_the_scopes_it_was_opened_with(tmp_path: Path) -> None:
    @tool(side_effect=False)
    def look() -> str:
        """Look."""
        return "seen"

    async def code(run: Run) -> Any:
        await ask(run, "a")
        return (await run.step_tool("look")).value

    async def scenario() -> None:
        with open_kernel(tmp_path, _costly("x", "y", "z"), tools=[look]) as kernel:
            runs = kernel.for_tenant(ACME)
            await drive(runs, code, "one", scopes=(AGENT, GROUP))
            await drive(runs, code, "two", scopes=(GROUP,))
            await drive(runs, code, "three")
            agent, group = await runs.used(AGENT), await runs.used(GROUP)
            assert agent == {
                "scope": AGENT,
                "usd": {"used": 1000, "reserved": 0, "cap": None},
                "tokens": {"used": 500, "reserved": 0, "cap": None},
                "steps": {"used": 2, "reserved": 0, "cap": None},
            }
            assert [group[unit]["used"] for unit in ("usd", "tokens", "steps")] == [2000, 1000, 4]
            assert (await runs.used("agent:nobody"))["usd"]["used"] == 0
            started = (await events(kernel, "one", tenant="acme"))[0].decode()
            assert started.scopes == (AGENT, GROUP)

    play(scenario())


def test_a_cap_on_a_shared_scope_stops_each_run_that_counts_there_until_it_is_raised(tmp_path: Path) -> None:
    """A call reserves about 3,100 micro-dollars and costs 1,000."""

    async def scenario() -> None:
        model = _costly("a1", "a2", "b1", "b2")
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant(ACME)
            await runs.cap(AGENT, unit="usd", cap="0.0035", by="user:eve")
            assert await drive(runs, _twice, "one", scopes=(AGENT,)) == "budget_exhausted"
            assert (await runs.show("one"))["reason"] == f"usd of {AGENT}"
            assert len(model.requests) == 1, "the second call would not have fitted"
            assert await drive(runs, _twice, "two", scopes=(AGENT,)) == "budget_exhausted"
            assert await drive(runs, _twice, "free") == "completed", "others do not count there"

            await runs.cap(AGENT, unit="usd", cap="0.020", by="user:eve")
            await runs.resume("one")
            assert await drive(runs, _twice, "one") == "completed"
            assert (await runs.used(AGENT))["usd"] == {"used": 2000, "reserved": 0, "cap": 20_000}
            model.assert_done()
            await assert_conserved(kernel, "acme")
            limits = [e for e in await _of_tenant(kernel) if e.kind == "limit.set"]
            told = [(e.actor, e.decode().cap, e.decode().used) for e in limits]
            assert told == [("user:eve", 3500, 0), ("user:eve", 20_000, 1000)]

    play(scenario())


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_cap_that_is_lowered_stops_a_run_at_work_at_its_next_paid_step(
    tmp_path: Path, elsewhere: bool
) -> None:
    async def scenario() -> None:
        gate = GateModel()
        gate.price = PRICE
        with open_kernel(tmp_path, gate) as kernel, open_kernel(tmp_path) as other:
            runs = kernel.for_tenant(ACME)
            await runs.state()
            desk = (other if elsewhere else kernel).for_tenant("acme")
            work = asyncio.create_task(drive(runs, _twice, scopes=(AGENT,)))
            await gate.asked("a")
            await desk.cap(AGENT, unit="tokens", cap=1)
            gate.answer("a")
            assert await work == "budget_exhausted"
            assert (await desk.show("r"))["reason"] == f"tokens of {AGENT}"
            assert len(gate.requests) == 1

    play(scenario())


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_cap_that_is_raised_lets_a_call_go_on_that_waits_for_room(tmp_path: Path, elsewhere: bool) -> None:
    """The sibling holds the room and never gives it back; so only the new cap can let the call go on."""

    async def scenario() -> None:
        gate = GateModel()
        gate.price = PRICE

        def code(text: str) -> Any:
            return lambda run: ask(run, text, max_output_tokens=1000)

        with open_kernel(tmp_path, gate) as kernel, open_kernel(tmp_path) as other:
            runs = kernel.for_tenant(ACME)
            await runs.state()
            desk = (other if elsewhere else kernel).for_tenant("acme")
            await desk.cap(GROUP, unit="usd", cap="0.0035")
            first = asyncio.create_task(drive(runs, code("a"), "one", scopes=(GROUP,)))
            await gate.asked("a")
            second = asyncio.create_task(drive(runs, code("b"), "two", scopes=(GROUP,)))
            await has_status(runs, "running", "two")
            await desk.cap(GROUP, unit="usd", cap="1")
            await gate.asked("b")
            gate.answer("b")
            assert await second == "completed"
            gate.answer("a")
            assert await first == "completed"

    play(scenario())


def test_children_count_only_in_scopes_that_they_are_opened_with(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path, _costly("a", "b", "c")) as kernel:
            runs = kernel.for_tenant(ACME)

            async def parent(run: Run) -> Any:
                await ask(run, "a", max_output_tokens=600)
                for name, scopes in (("silent", ()), ("told", (GROUP,))):
                    async with runs.run(name, parent=run, scopes=scopes) as child:
                        child.finish(await ask(child, name, max_output_tokens=600))

            assert await drive(runs, parent, scopes=(AGENT, GROUP)) == "completed"
            assert (await runs.used(AGENT))["tokens"]["used"] == 500
            assert (await runs.used(GROUP))["tokens"]["used"] == 1000

    play(scenario())


def test_what_a_tool_spends_counts_in_a_shared_scope_and_is_refused_above_its_cap(tmp_path: Path) -> None:
    @tool(side_effect=False)
    async def buy(usd: str, ctx: ToolContext) -> str:
        """Buy."""
        await ctx.spend(usd)
        return "bought"

    async def code(run: Run) -> Any:
        first = await run.step_tool("buy", {"usd": "0.30"})
        second = await run.step_tool("buy", {"usd": "0.30"})
        return [first.value, second.value["error"]["code"]]

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[buy]) as kernel:
            runs = kernel.for_tenant(ACME)
            await runs.cap(AGENT, unit="usd", cap="0.50")
            await drive(runs, code, scopes=(AGENT,))
            assert await result_of(runs) == ["bought", "limit_reached"]
            assert (await runs.used(AGENT))["usd"]["used"] == 300_000

    play(scenario())


def test_scopes_hold_after_a_restart_and_in_forks(tmp_path: Path) -> None:
    async def halting(run: Run) -> Any:
        await ask(run, "a", max_output_tokens=1000)
        await run.approve("go on?")
        return await ask(run, "b", max_output_tokens=1000)

    async def scenario() -> None:
        with open_kernel(tmp_path, _costly("a")) as kernel:
            runs = kernel.for_tenant(ACME)
            status = await drive(runs, halting, scopes=(AGENT,), on_wait="suspend")
            assert status == "waiting_approval"
        with open_kernel(tmp_path, _costly("b", "c")) as kernel:
            runs = kernel.for_tenant("acme")
            fork = await runs.fork("r")
            for name in ("r", fork):
                await drive(runs, halting, name, on_wait="suspend")
                await runs.approve(name)
            assert await drive(runs, halting) == "completed"
            await runs.cap(AGENT, unit="usd", cap="0.0035")
            assert await drive(runs, halting, fork, on_wait="suspend") == "budget_exhausted"
            assert (await runs.show(fork))["reason"] == f"usd of {AGENT}"
            assert (await runs.used(AGENT))["usd"]["used"] == 2000

    play(scenario())


@pytest.mark.parametrize(
    "scopes",
    [
        ("tenant",),
        ("run:other",),
        ("agent:",),
        ("agent:a b",),
        ("Agent:x",),
        (7,),
        "agent:x",
        ("agent:\n",),
        tuple(f"agent:{n}" for n in range(65)),
        ("agent:" + "x" * 600,),
    ],
)
def test_scopes_that_are_none_are_refused_at_the_door(tmp_path: Path, scopes: Any) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            with pytest.raises(InvalidRequest):
                async with runs.run("r", scopes=scopes):
                    pass
            assert (await runs.runs())["items"] == []
            if isinstance(scopes, tuple) and len(scopes) == 1:
                with pytest.raises(InvalidRequest):
                    await runs.cap(scopes[0], unit="usd", cap="1")
                with pytest.raises(InvalidRequest):
                    await runs.used(scopes[0])

    play(scenario())


@pytest.mark.parametrize(
    ("unit", "cap"),
    [
        ("usd", "-1"),
        ("usd", "NaN"),
        ("usd", "1e999999999"),
        ("tokens", "9" * 5000),
        ("tokens", -1),
        ("steps", 1 << 60),
        ("ms", 5),
        ("tokens", "x"),
        ("steps", True),
    ],
)
def test_caps_that_are_none_are_refused(tmp_path: Path, unit: str, cap: Any) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            with pytest.raises(InvalidRequest):
                await runs.cap(AGENT, unit=unit, cap=cap)
            assert (await runs.used(AGENT))["usd"]["cap"] is None

    play(scenario())


def test_an_imported_run_counts_nothing_here_and_keeps_the_caps_of_this_tenant(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    path = tmp_path / "r.artelier"

    async def scenario() -> None:
        with open_kernel(tmp_path / "there", _costly("x", "y")) as kernel:
            runs = kernel.for_tenant(ACME)
            await drive(runs, _twice, scopes=(AGENT,))
            await runs.export("r", path)
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant(ACME)
            await runs.cap(AGENT, unit="usd", cap="0.0001")
            await runs.import_(path)
            used = await runs.used(AGENT)
            assert used["usd"] == {"used": 0, "reserved": 0, "cap": 100}
            assert used["tokens"] == {"used": 0, "reserved": 0, "cap": None}

    play(scenario())


@pytest.mark.parametrize("scope", ["tenant", "run:somebody"])
def test_a_file_cannot_make_a_run_count_where_it_must_not(tmp_path: Path, scope: str) -> None:
    path = tmp_path / "forged.artelier"
    forged(path, [("run:r", ev.RunStarted(scopes=(scope,))), ("run:r", ev.RunCompleted())])

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            with pytest.raises(InvalidExport):
                await kernel.for_tenant("acme").import_(path)

    play(scenario())


# Tools that are off


class Till:
    """A tool that costs nothing and does harm, and one that looks."""

    def __init__(self) -> None:
        self.paid = 0

        @tool(side_effect=True, risk="high")
        def pay() -> str:
            """Pay."""
            self.paid += 1
            return "paid"

        @tool(side_effect=False)
        def look() -> str:
            """Look."""
            return "seen"

        self.tools = [pay, look]


def _names(request: ModelRequest) -> list[str]:
    return [schema.name for schema in request.tools]


@pytest.mark.parametrize("how", ["barred", "risk"])
def test_a_tool_that_is_off_is_not_listed_and_not_executed(tmp_path: Path, how: str) -> None:
    till, model = Till(), ScriptedModel(["a", "b", "c"])

    async def code(run: Run) -> Any:
        await ask(run, "all", tools=None)
        if how == "barred":
            run.core.barred = {"pay": "switched off by eve"}
        else:
            run.core.risk_max = "medium"
        await ask(run, "less", tools=None)
        refused = await run.step_tool("pay", key="refused")
        run.core.barred, run.core.risk_max = {}, None
        await ask(run, "all again", tools=None)
        paid = await run.step_tool("pay", key="paid")
        return [refused.is_error, refused.value, paid.value]

    async def scenario() -> None:
        with open_kernel(tmp_path, model, tools=till.tools) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "completed"
            is_error, refused, paid = await result_of(runs)
            why = "switched off by eve" if how == "barred" else "tools of risk high are off"
            assert is_error and (refused["error"]["code"], refused["error"]["got"]) == ("not_granted", why)
            assert (paid, till.paid) == ("paid", 1)
            both, one = ["pay", "look"], ["look"]
            assert [_names(request) for request in model.requests] == [both, one, both]
            kinds = [event.kind for event in await events(kernel)]
            assert kinds.count("tool.refused") == 1
            assert kinds.count("tools.changed") == 2
            replayed = await runs.replay("r", code)
            assert replayed.status == "completed"

    play(scenario())


def test_a_replay_and_a_fork_give_what_was_recorded_whatever_is_off_now(tmp_path: Path) -> None:
    till = Till()
    off: dict[str, str] = {}

    async def code(run: Run) -> Any:
        run.core.barred = off
        first = await run.step_tool("pay", key="first")
        await ask(run, "a", tools=None)
        second = await run.step_tool("pay", key="second")
        return [first.is_error, second.is_error]

    async def scenario() -> None:
        with open_kernel(tmp_path, ScriptedModel(["a"]), tools=till.tools) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "completed"
            assert await result_of(runs) == [False, False]
            seq = next(e.seq for e in await events(kernel) if e.kind == "model.completed")
            fork = await runs.fork("r", at=seq)
            off["pay"] = "off since"
            assert (await runs.replay("r", code)).result == [False, False]
            assert await drive(runs, code, fork) == "completed"
            assert await result_of(runs, fork) == [False, True], "only what is new is refused"
            assert till.paid == 2

    play(scenario())


# Runs below it


def test_a_run_is_refused_below_the_depth_that_a_loop_allows(tmp_path: Path) -> None:
    """The depth of a child is one less than its parent's, whatever its own loop says."""

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()

            @tool(side_effect=True)
            async def delegate(depth: int) -> str:
                """Delegate."""
                core = find_driver(kernel.services, "default", "r" if depth == 1 else f"r/{depth - 1}")
                assert core is not None
                async with runs.run(f"r/{depth}", parent=Run(core), tools=kernel.services.tools) as run:
                    run.core.depth_max = 5
                    result = await run.step_tool("delegate", {"depth": depth + 1})
                    run.finish(result.is_error)
                return "refused" if result.is_error else result.value

            kernel.services.tools["delegate"] = delegate  # type: ignore[index]

            async def code(run: Run) -> Any:
                run.core.depth_max = 2
                return (await run.step_tool("delegate", {"depth": 1})).value

            assert await drive(runs, code) == "completed"
            assert await result_of(runs) == "refused"
            names = {item["id"] for item in (await runs.runs())["items"]}
            assert names == {"r", "r/1", "r/2"}

    play(scenario())


# Approvals


@pytest.mark.parametrize(
    ("policy", "run", "asks"),
    [
        (None, "high", True),
        ("high", None, True),
        ("high", "medium", True),
        (None, None, False),
        ("medium", "high", True),
    ],
)
def test_a_loop_can_ask_for_more_approvals_than_the_policy_and_never_for_fewer(
    tmp_path: Path, policy: str | None, run: str | None, asks: bool
) -> None:
    @tool(side_effect=False, risk="medium" if policy == "medium" or run == "medium" else "high")
    def risky() -> str:
        """Risky."""
        return "done"

    async def code(running: Run) -> Any:
        running.core.approve_risk = run
        return (await running.step_tool("risky")).value

    async def scenario() -> None:
        chosen = Policy(backoff_s=EAGER.backoff_s, approve_risk=policy)
        with open_kernel(tmp_path, tools=[risky], policy=chosen) as kernel:
            runs = kernel.for_tenant()
            status = await drive(runs, code, on_wait="suspend")
            assert status == ("waiting_approval" if asks else "completed")

    play(scenario())


@pytest.mark.parametrize("risk", ["extreme", 3, "HIGH", ""])
def test_what_is_no_risk_class_is_refused(tmp_path: Path, risk: Any) -> None:
    async def code(run: Run) -> Any:
        for name in ("approve_risk", "risk_max"):
            with pytest.raises(InvalidRequest):
                setattr(run.core, name, risk)

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            assert await drive(kernel.for_tenant(), code) == "completed"

    play(scenario())


async def _of_tenant(kernel: Kernel) -> list[Any]:
    return [event async for event in kernel.events() if event.stream.local.startswith("tenant:")]


# What is no bound at all


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -1.0, "5", True, 10**40])
def test_a_timeout_that_is_no_length_of_time_is_refused(tmp_path: Path, wrong: Any) -> None:
    for name in ("model_timeout_s", "backoff_s", "funds_wait_s"):
        with pytest.raises(InvalidRequest, match=name) as refused:
            Policy(**{name: wrong})
        assert refused.value.expected and refused.value.got

    async def scenario() -> None:
        model = _costly("x")
        with open_kernel(tmp_path, model) as kernel:
            async with kernel.for_tenant(ACME).run("r") as run:
                with pytest.raises(InvalidRequest, match="timeout_s"):
                    await ask(run, "a", timeout_s=wrong)
        assert not model.requests

    play(scenario())


@pytest.mark.parametrize("wrong", [float("nan"), 0, -1, 1.5, "4", True])
def test_a_number_of_attempts_that_is_no_number_is_refused(wrong: Any) -> None:
    for name in ("attempts_max", "parallel_max", "result_bytes_max", "reply_bytes_max"):
        with pytest.raises(InvalidRequest, match=name):
            Policy(**{name: wrong})


# Queries


def test_no_query_goes_through_all_steps_of_a_run_for_each_of_its_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It took 0.3 s with 2,000 steps, on the loop of whoever else is served."""

    async def scenario() -> list[list[str]]:
        with open_kernel(tmp_path, echo()) as kernel:
            runs, store = kernel.for_tenant("default"), kernel.store
            await drive(runs, _twice)
            asked, query = dict[str, Any](), store.query

            async def record(sql: str, parameters: Any = ()) -> Any:
                asked[sql] = parameters
                return await query(sql, parameters)

            monkeypatch.setattr(store, "query", record)
            run = (await query("SELECT id FROM runs WHERE run = 'r'"))[0][0]
            await runs.cost("r")
            await step_records(store, run, "undo", status="completed")
            await step_records(store, run, "tool", status="unknown", after=1, upto=9)
            await calls_below(store, "default", run)
            joined = {sql: given for sql, given in asked.items() if "JOIN event_log" in sql}
            assert len(joined) >= 4
            plans = [await query(f"EXPLAIN QUERY PLAN {sql}", given) for sql, given in joined.items()]
            return [[str(row[3]) for row in plan] for plan in plans]

    for plan in play(scenario()):
        steps = next(n for n, line in enumerate(plan) if line.startswith("SEARCH s USING PRIMARY KEY"))
        assert all(
            n > steps and "stream=? AND seq=?" in line for n, line in enumerate(plan) if " events" in line
        ), plan

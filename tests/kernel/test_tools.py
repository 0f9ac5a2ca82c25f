"""Tools that a run may call: what a model is told instead of a crash, and what is kept of their results."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, Policy, Run, Tenant, ToolContext, tool
from artelier.errors import InsufficientFunds, LimitReached, ProviderUnavailable, ToolFailed
from artelier.kernel import Limits
from artelier.testing import ManualClock, ScriptedModel, tool_call
from tests.kernel.stage import (
    ACME,
    EAGER,
    assert_conserved,
    drive,
    echo,
    events,
    has_status,
    kinds,
    open_kernel,
    pass_time,
    play,
    result_of,
    user,
)


@tool(side_effect=False)
async def look(at: str, depth: int = 1) -> dict[str, Any]:
    """Look."""
    return {"at": at, "depth": depth}


@tool(side_effect=False)
async def keep(value: Any) -> Any:
    """Keep."""
    return value


@tool(side_effect=True, grant="payments:send")
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


async def _error(run: Run, name: str, arguments: Any) -> tuple[str, str]:
    """The code and message of a tool error; the run must survive it."""
    result = await run.step_tool(name, arguments)
    assert result.is_error
    return result.value["error"]["code"], result.value["error"]["message"]


def _nested(depth: int) -> Any:
    value: Any = "end"
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "arguments",
    [
        None,
        [],
        7,
        "not json",
        '{"at": "moon"',
        {"at": 7},
        {"at": "moon", "deep": 1},
        {"at": "moon", "depth": "2"},
        {"at": "moon", "depth": math.nan},
        {"at": "moon", "depth": True},
        {"at": None},
        {"at": "a\ud800b"},
        lambda: {"at": "x" * 10_000_000},
        lambda: {"at": _nested(100_000)},
        {"at": object()},
        {"at": "moon", "depth": 2**80},
        {7: "moon"},
    ],
    ids=lambda value: str(type(value).__name__),
)
def test_arguments_that_do_not_fit_are_readable_errors_and_never_an_unknown_outcome(
    tmp_path: Path, arguments: Any
) -> None:
    if callable(arguments):
        arguments = arguments()

    async def code(run: Run) -> str:
        for name in ("look", "pay"):
            found, message = await _error(run, name, arguments)
            assert found == "invalid_arguments"
            assert len(message) < 2000
        return "alive"

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[look, pay]) as kernel:
            runs = kernel.for_tenant(Tenant("t", grants={"*"}))
            assert await drive(runs, code) == "completed"
            assert await drive(runs, code) == "completed"
            found = await kinds(kernel, tenant="t")
            assert found == ["run.started", "tool.refused", "tool.refused", "run.completed"]

    play(scenario())


@pytest.mark.parametrize(
    "make",
    [
        lambda: _nested(90),
        lambda: {"n": math.nan},
        lambda: {"n": math.inf},
        lambda: {"n": 2**80},
        lambda: "a\ud800",
        lambda: {"deep": _nested(150)},
        lambda: _nested(100_000),
        lambda: {"x": "y" * 9_000_000},
    ],
    ids=["deep", "nan", "inf", "big", "surrogate", "deeper", "endless", "huge"],
)
def test_odd_values_pass_or_are_refused_but_never_break_the_run(
    tmp_path: Path, make: Callable[[], Any]
) -> None:
    value = make()

    async def code(run: Run) -> Any:
        result = await run.step_tool("keep", {"value": value})
        assert result.is_error or json.dumps(result.value) == json.dumps(value)
        return result.is_error

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[keep]) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "completed"
            assert await drive(runs, code) == "completed"

    play(scenario())


def test_what_a_model_invents_is_answered_and_the_model_goes_on(tmp_path: Path) -> None:
    """Hostile and mistaken calls of a model, answered in its conversation."""
    calls = [
        tool_call("no_such_tool", {"x": 1}),
        tool_call("x" * 100_000, {}),
        tool_call("look", {"at": "moon", "invented": 1}),
        tool_call("look", _nested(500)),
        tool_call("pay", {"amount": 1}),
        tool_call("look", {"at": "moon"}),
    ]
    model = ScriptedModel([calls, lambda request: str(len(request.messages))])

    async def code(run: Run) -> Any:
        talk = run.conversation()
        talk.append(user("go"))
        reply = await run.step_model(model="m", messages=talk, tools=None)
        talk.append(reply)
        codes: list[str] = []
        for call in reply.tool_calls:
            result = await run.step_tool(call.name, call.arguments, call=call)
            codes.append(result.value["error"]["code"] if result.is_error else "ok")
            talk.append(result)
        return [codes, (await run.step_model(model="m", messages=talk)).text]

    async def scenario() -> None:
        with open_kernel(tmp_path, model, tools=[look, pay]) as kernel:
            runs = kernel.for_tenant(Tenant("t", grants={"tools:*"}))
            assert await drive(runs, code) == "completed"
            assert await result_of(runs) == [
                ["tool_failed", "tool_failed", "invalid_arguments", "invalid_arguments", "not_granted", "ok"],
                "8",
            ]
            shown = model.requests[0].tools
            assert [schema.name for schema in shown] == ["look"], "not granted: not shown"

    play(scenario())


def test_results_that_are_no_json_are_recorded_errors_of_tools_that_ran(tmp_path: Path) -> None:
    """What a side effect did is known: it returned. Only its answer is unusable."""
    done: list[str] = []

    @tool(side_effect=True)
    async def charge() -> Any:
        """Charge."""
        done.append("charged")
        return {"receipt": object()}

    @tool(side_effect=False)
    async def raw() -> Any:
        """Raw."""
        return {"when": math.nan}

    async def code(run: Run) -> list[tuple[str, str]]:
        return [await _error(run, name, {}) for name in ("charge", "raw")]

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[charge, raw]) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "completed"
            (code_1, said), (code_2, read) = await result_of(runs)
            assert code_1 == code_2 == "tool_result_invalid"
            assert "what it did stands" in said and "stands" not in read
            assert await drive(runs, code) == "completed"
            undone = await runs.compensate("r")
            assert (undone.undone, undone.not_undone) == ((), ("1",))

    play(scenario())
    assert done == ["charged"]


def test_a_large_result_becomes_an_artifact_with_a_preview_and_a_ref(tmp_path: Path) -> None:
    model = ScriptedModel(lambda request: request.messages[-1].text)

    @tool(side_effect=True)
    async def dump(size: int) -> str:
        """Dump."""
        return "head " + "x" * size + " tail"

    async def code(run: Run) -> Any:
        talk = run.conversation()
        talk.append(user("go"))
        found: list[Any] = []
        for key in (None, "Ünusual key with spaces / and more " * 6):
            result = await run.step_tool("dump", {"size": 200_000}, key=key)
            assert len(result.value) == 200_010
            talk.append(result)
            seen = await run.step_model(model="m", messages=talk, key=f"seen {key}")
            found.append([result.ref, json.loads(seen.text)])
        return found

    async def scenario() -> None:
        with open_kernel(tmp_path, model, tools=[dump]) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "completed"
            first = await result_of(runs)
            for ref, shown in first:
                assert shown["ref"] == ref
                assert shown["total_chars"] == 200_012
                assert shown["head"].startswith('"head x') and shown["tail"].endswith(' tail"')
                assert len(json.dumps(shown)) < 3000
                artifact = await runs.as_principal("run:r").artifacts.read(ref)
                assert str(artifact.content).endswith('tail"')
            assert first[0][0] != first[1][0]
            size = sum(len(event.data) for event in await events(kernel))
            assert size < 20_000, "results are behind references"

    play(scenario())


@pytest.mark.parametrize(("first", "then"), [(100, 10_000), (10_000, 100)])
def test_a_replay_shows_a_result_as_it_was_shown_whatever_the_limit_is_now(
    tmp_path: Path, first: int, then: int
) -> None:
    """Under `strict`: a prompt that changed with the limit would be a mismatch."""

    def code(limit: int, *, stores: bool) -> Any:
        async def looked(run: Run) -> Any:
            run.core.result_bytes_max = limit
            if not stores:  # as if the artifact could not be written
                run.core.store_result = None
            talk = run.conversation()
            talk.append(user("go"))
            for value in ({"value": "x" * 500}, {"value": "y"}, {"wrong": "z" * 500}):
                result = await run.step_tool("keep", value)
                talk.append(result)
                seen = await run.step_model(model="m", messages=talk)
            return [result.shown is not None, seen.text]

        return looked

    async def scenario() -> None:
        for stores in (True, False):
            folder = tmp_path / str(stores)
            folder.mkdir()
            with open_kernel(folder, tools=[keep]) as kernel:
                runs = kernel.for_tenant()
                assert await drive(runs, code(first, stores=stores)) == "completed"
                found = await result_of(runs)
                assert await drive(runs, code(then, stores=stores)) == "completed"
                assert await result_of(runs) == found

    play(scenario())


def test_passing_failures_of_a_read_only_tool_are_tried_again_with_pauses(tmp_path: Path) -> None:
    tries: list[str] = []

    @tool(side_effect=False)
    async def flaky(ctx: ToolContext) -> int:
        """Flaky."""
        tries.append(ctx.idempotency_key)
        if len(tries) < 3:
            raise ProviderUnavailable("later")
        return len(tries)

    @tool(side_effect=False)
    async def down() -> None:
        """Down."""
        tries.append("down")
        raise ProviderUnavailable("never")

    async def code(run: Run) -> Any:
        value = (await run.step_tool("flaky")).value
        return [value, await _error(run, "down", {})]

    async def scenario() -> None:
        clock = ManualClock()
        start = clock.now_us()
        policy = Policy(backoff_s=1.0, attempts_max=3)
        with open_kernel(tmp_path, tools=[flaky, down], clock=clock, policy=policy) as kernel:
            runs = kernel.for_tenant()
            work = asyncio.create_task(drive(runs, code))
            assert await pass_time(clock, work) == "completed"
            assert await result_of(runs) == [3, ["provider_unavailable", "never"]]
            assert tries == ["default/r:1"] * 3 + ["down"] * 3
            assert clock.now_us() - start == 6_000_000

    play(scenario())


def test_errors_timeouts_and_silence_of_a_read_only_tool_are_tool_errors(tmp_path: Path) -> None:
    stopped: list[str] = []

    @tool(side_effect=False)
    async def breaks() -> None:
        """Break."""
        raise OSError("no such file: caf\udce9")

    @tool(side_effect=False, timeout_s=0.01)
    async def hangs() -> None:
        """Hang."""
        try:
            await asyncio.sleep(60)
        finally:
            stopped.append("hangs")

    @tool(side_effect=False, heartbeat_timeout_s=5)
    async def silent(ctx: ToolContext, clock_s: int) -> str:
        """Be silent."""
        for _ in range(3):
            await asyncio.sleep(0)
            ctx.progress("still here")
        await asyncio.Event().wait()
        return "never"

    async def code(run: Run) -> Any:
        return [
            await _error(run, "breaks", {}),
            await _error(run, "hangs", {}),
            await _error(run, "silent", {"clock_s": 1}),
        ]

    async def scenario() -> None:
        clock = ManualClock()
        with open_kernel(tmp_path, tools=[breaks, hangs, silent], clock=clock) as kernel:
            runs = kernel.for_tenant()
            work = asyncio.create_task(drive(runs, code))
            assert await pass_time(clock, work) == "completed"
            found = await result_of(runs)
            assert [code for code, _ in found] == ["tool_failed"] * 3
            assert "caf?" in found[0][1]
            assert "too long" in found[1][1]

    play(scenario())
    assert stopped == ["hangs"]


def test_a_tool_spends_from_the_budget_and_is_refused_before_it_spends_too_much(tmp_path: Path) -> None:
    @tool(side_effect=False)
    async def buy(usd: str, ctx: ToolContext) -> str:
        """Buy."""
        await ctx.spend(usd)
        return "bought"

    async def code(run: Run) -> Any:
        bought = [(await run.step_tool("buy", {"usd": usd})) for usd in ("1.50", "0.25", "4.00")]
        return [item.value if not item.is_error else item.value["error"]["code"] for item in bought]

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[buy]) as kernel:
            runs = kernel.for_tenant(ACME)
            assert await drive(runs, code) == "completed"
            assert await result_of(runs) == ["bought", "bought", "insufficient_funds"]
            found = await assert_conserved(kernel, "acme")
            assert (found["spent"], found["tenant"]) == (1_750_000, 3_250_000)
            assert (await runs.cost("r"))["cost_usd"] == "1.75"

            assert await drive(runs, code, "s", limits=Limits(usd="1.60")) == "completed"
            assert (await result_of(runs, "s"))[:2] == ["bought", LimitReached.code]

    play(scenario())


def test_a_tool_may_ask_a_person_while_its_own_time_stands_still(tmp_path: Path) -> None:
    @tool(side_effect=False, timeout_s=0.05, heartbeat_timeout_s=5)
    async def careful(ctx: ToolContext) -> list[Any]:
        """Be careful."""
        first = await ctx.ask("really?", {"amount": 3})
        second = await ctx.ask("and again?")
        return [first.decision, first.note, first.by, second.decision, second.arguments]

    async def code(run: Run) -> Any:
        return (await run.step_tool("careful")).value

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[careful]) as kernel:
            runs = kernel.for_tenant()
            work = asyncio.create_task(drive(runs, code))
            await has_status(runs, "waiting_approval")
            await asyncio.sleep(0.1)
            (question,) = await runs.approvals("r")
            assert question["question"] == "really?"
            assert question["details"] == {"amount": 3}
            await runs.approve("r", deny=True, note="not that much", by="user:eve")
            await has_status(runs, "waiting_approval")
            await runs.approve("r", "1/ask/2", arguments={"amount": 2})
            assert await work == "completed"
            assert await result_of(runs) == ["deny", "not that much", "user:eve", "edit", {"amount": 2}]

    play(scenario())


@pytest.mark.parametrize("suspends", [False, True])
def test_risky_tools_wait_for_a_person_whose_edit_is_what_is_done(tmp_path: Path, suspends: bool) -> None:
    done: list[int] = []

    @tool(side_effect=True, risk="high")
    async def transfer(amount: int) -> int:
        """Transfer."""
        done.append(amount)
        return amount

    @tool(side_effect=True, risk="low")
    async def small(amount: int) -> int:
        """Small."""
        return amount

    async def code(run: Run) -> Any:
        results = [await run.step_tool("small", {"amount": 1})]
        for amount in (10, 20, 30, 40):
            results.append(await run.step_tool("transfer", {"amount": amount}))
        return [item.value if not item.is_error else item.value["error"] for item in results]

    async def scenario() -> None:
        policy = Policy(approve_risk="high", backoff_s=0)
        with open_kernel(tmp_path, tools=[transfer, small], policy=policy) as kernel:
            runs = kernel.for_tenant()
            answers: list[dict[str, Any]] = [
                {},
                {"deny": True, "note": "too much"},
                {"arguments": {"amount": 3}},
                {"deny": True},
            ]
            on_wait = "suspend" if suspends else "await"
            work = asyncio.create_task(drive(runs, code, on_wait=on_wait))
            for number, answer in enumerate(answers):
                await has_status(runs, "waiting_approval")
                (question,) = await runs.approvals("r")
                assert question["details"] == {"tool": "transfer", "arguments": {"amount": 10 * (number + 1)}}
                if suspends:
                    assert await work == "waiting_approval"
                await runs.approve("r", **answer)
                if suspends:
                    work = asyncio.create_task(drive(runs, code, on_wait=on_wait))
            assert await work == "completed"
            result = await result_of(runs)
            assert result[:2] == [1, 10]
            assert "too much" in result[2]["message"]
            assert result[3] == 3
            assert result[4]["code"] == "tool_failed"
            assert await drive(runs, code) == "completed", "an edited call replays under strict"

    play(scenario())
    assert done == [10, 3]


def test_every_parallel_call_is_bounded_and_in_one_order(tmp_path: Path) -> None:
    running: list[int] = []
    most = 0

    @tool(side_effect=False)
    async def slow(n: int) -> int:
        """Slow."""
        nonlocal most
        running.append(n)
        most = max(most, len(running))
        await asyncio.sleep(0.001 * (10 - n))
        running.remove(n)
        return n

    async def code(run: Run) -> Any:
        calls = [run.step_tool("slow", {"n": n}, key=f"c/{n}") for n in range(10)]
        return [result.value for result in await run.parallel(*calls)]

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[slow], policy=Policy(parallel_max=4)) as kernel:
            assert await drive(kernel.for_tenant(), code) == "completed"
            assert await result_of(kernel.for_tenant()) == list(range(10))

    play(scenario())
    assert most == 4


def test_tool_failed_says_that_nothing_happened_and_the_run_goes_on(tmp_path: Path) -> None:
    @tool(side_effect=True)
    async def refuses() -> None:
        """Refuse."""
        raise ToolFailed("the shop is closed", hint="Try on Monday.")

    async def code(run: Run) -> Any:
        return await _error(run, "refuses", {})

    async def scenario() -> None:
        with open_kernel(tmp_path, echo(), tools=[refuses], policy=EAGER) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "completed"
            assert await result_of(runs) == ["tool_failed", "the shop is closed"]

    play(scenario())


def test_money_may_be_spent_as_a_decimal(tmp_path: Path) -> None:
    @tool(side_effect=False)
    async def buy(usd: Decimal, ctx: ToolContext) -> str:
        """Buy."""
        await ctx.spend(usd)
        return str(usd)

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[buy]) as kernel:
            async with kernel.run("r", tenant=ACME) as run:
                assert (await run.step_tool("buy", {"usd": "0.000001"})).value == "0.000001"
                for bad in ("0.0000001", "-1"):
                    assert (await run.step_tool("buy", {"usd": bad})).is_error
            found = await assert_conserved(kernel, "acme")
            assert found["spent"] == 1

    play(scenario())


@pytest.mark.parametrize("usd", ["9.00", "-1"])
def test_a_side_effect_that_spends_before_it_acts_is_refused_readably(tmp_path: Path, usd: str) -> None:
    """The default stays careful: a tool may as well have acted first."""

    @tool(side_effect=True)
    async def buy(usd: str, careful: bool, ctx: ToolContext) -> str:
        """Buy."""
        if careful:
            await ctx.spend(usd, before_acting=True)
        else:
            try:
                await ctx.spend(usd)
            except InsufficientFunds as error:
                hints.append(error.hint)
                raise
        return "bought"

    async def code(run: Run) -> Any:
        found = await run.step_tool("buy", {"usd": usd, "careful": True})
        bought = await run.step_tool("buy", {"usd": "1.00", "careful": True})
        return [found.value["error"]["code"], found.value["error"]["message"], bought.value]

    async def careless(run: Run) -> Any:
        return (await run.step_tool("buy", {"usd": usd, "careful": False})).value

    hints: list[str | None] = []

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[buy]) as kernel:
            runs = kernel.for_tenant(ACME)
            assert await drive(runs, code) == "completed"
            code_, message, bought = await result_of(runs)
            assert (code_, bought) == ("tool_failed", "bought")
            assert message.startswith("this cannot be paid: ")
            assert await drive(runs, careless, "s") == "unknown_outcome"
            found = await assert_conserved(kernel, "acme")
            assert found["spent"] == 1_000_000
        assert all("before_acting=True" in str(hint) for hint in hints)
        assert len(hints) == (usd == "9.00")

    play(scenario())


@pytest.mark.parametrize(("count", "is_aside"), [(3, False), (100_000, True)])
def test_a_large_result_is_recorded_with_turns_of_others_in_between(
    tmp_path: Path, count: int, is_aside: bool
) -> None:
    passes, returned = 0, 0

    @tool(side_effect=False)
    async def find() -> dict[str, int]:
        """Find."""
        return {f"key{number}": number for number in range(count)}

    def reached(point: str) -> None:
        nonlocal returned
        if point == "tool.returned":
            returned = passes

    async def count_passes() -> None:
        nonlocal passes
        while True:
            await asyncio.sleep(0)
            passes += 1

    async def scenario() -> int:
        counting = asyncio.ensure_future(count_passes())
        with Kernel.open(tmp_path / "s.db", tools=[find], fault=reached) as kernel:
            async with kernel.run("r") as run:
                result = await run.step_tool("find", {})
                over = passes
        counting.cancel()
        assert len(result.value) == count
        return over - returned

    # Encoded, and decoded, in a thread.
    assert (asyncio.run(scenario()) >= 2) == is_aside

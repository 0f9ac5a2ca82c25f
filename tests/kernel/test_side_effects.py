"""Side effects: dispatched once per decision, settled by a probe or a person, never guessed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, Run, RunSuspended, ToolContext, tool
from artelier.app import TenantKernel
from artelier.errors import Conflict, InvalidRequest, LeaseLost, NotFound, ProviderUnavailable, ToolFailed
from artelier.testing import ManualClock
from tests.kernel.crashes import Deaths
from tests.kernel.stage import World, ask, drive, echo, open_kernel, play, result_of


def _pay(world: World, *, ends: Callable[[], Awaitable[Any]], **facts: Any) -> Any:
    """A payment that reaches the outside and then ends in some way."""

    @tool(side_effect=True, **facts)
    async def pay(amount: int, ctx: ToolContext) -> Any:
        """Pay."""
        world.done.append(ctx.idempotency_key)
        return await ends()

    return pay


async def _breaks() -> None:
    raise ProviderUnavailable("connection reset")


async def _hangs() -> None:
    await asyncio.Event().wait()


async def _returns() -> str:
    return "receipt"


async def _code(run: Run) -> Any:
    paid = await run.step_tool("pay", {"amount": 3})
    return [paid.value, paid.is_error, await ask(run, "after")]


@pytest.mark.parametrize("ends", [_breaks, _hangs])
def test_a_hidden_outcome_stops_the_run_until_somebody_settles_it(
    tmp_path: Path, ends: Callable[[], Awaitable[Any]]
) -> None:
    async def scenario() -> None:
        world, model = World(), echo()
        pay = _pay(world, ends=ends, timeout_s=0.01)
        with open_kernel(tmp_path, model, tools=[pay]) as kernel:
            runs = kernel.for_tenant()
            for _ in range(3):
                assert await drive(runs, _code) == "unknown_outcome"
            shown = await runs.show("r")
            assert (shown["status"], shown["unknown_outcomes"]) == ("unknown_outcome", ["1"])
            assert world.done == ["default/r:1"]
            assert model.requests == []

            await runs.reconcile("r", "1", succeeded={"receipt": 7}, by="user:eve")
            assert (await runs.show("r"))["status"] == "pending"
            assert await drive(runs, _code) == "completed"
            assert await result_of(runs) == [{"receipt": 7}, False, "re: after"]
            assert await drive(runs, _code) == "completed"
            assert world.done == ["default/r:1"]

    play(scenario())


@pytest.mark.parametrize(
    ("answer", "value", "is_error"),
    [
        ({"succeeded": None}, None, False),
        ({"failed": "the bank says no"}, "the bank says no", True),
        ({"retry": True}, "receipt", False),
    ],
)
def test_a_person_may_settle_an_unknown_outcome_in_each_way(
    tmp_path: Path, answer: dict[str, Any], value: Any, is_error: bool
) -> None:
    async def scenario() -> None:
        world, endings = World(), [_breaks, _returns]
        pay = _pay(world, ends=lambda: endings[len(world.done) - 1]())
        with open_kernel(tmp_path, tools=[pay]) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, _code) == "unknown_outcome"
            await runs.reconcile("r", "1", **answer)
            with pytest.raises(Conflict) as refused:
                await runs.reconcile("r", "1", **answer)
            assert refused.value.facts["refusal"] == "no_such_unknown_outcome"
            assert await drive(runs, _code) == "completed"
            found = (await result_of(runs))[:2]
            assert found[1] is is_error
            assert (found[0]["error"]["message"] if is_error else found[0]) == value
            assert world.done == ["default/r:1"] * (2 if "retry" in answer else 1)

    play(scenario())


def test_reconcile_takes_exactly_one_answer_for_a_step_that_is_unknown(tmp_path: Path) -> None:
    async def scenario() -> None:
        pay = _pay(World(), ends=_breaks)
        with open_kernel(tmp_path, tools=[pay]) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, _code) == "unknown_outcome"
            for answers in ({}, {"retry": True, "failed": "no"}, {"succeeded": 1, "probe": True}):
                with pytest.raises(InvalidRequest):
                    await runs.reconcile("r", "1", **answers)
            with pytest.raises(NotFound, match="no probe"):
                await runs.reconcile("r", "1", probe=True)
            with pytest.raises(Conflict):
                await runs.reconcile("r", "2", retry=True)
            with pytest.raises(NotFound):
                await runs.reconcile("other", "1", retry=True)
            assert (await runs.show("r"))["unknown_outcomes"] == ["1"]

    play(scenario())


class Bank:
    """An outside system that can be asked what became of a payment."""

    def __init__(self, *answers: Any) -> None:
        self.asked: list[tuple[str, Any]] = []
        self._answers = list(answers)

    async def probe(self, key: str, arguments: dict[str, Any]) -> Any:
        self.asked.append((key, arguments["amount"]))
        answer = self._answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        if answer is _hangs:
            await _hangs()
        return answer


@pytest.mark.parametrize(
    ("answers", "status", "value"),
    [
        (["found it"], "completed", "found it"),
        ([ToolFailed("no such payment")], "completed", "no such payment"),
        ([ProviderUnavailable("busy"), "found it"], "unknown_outcome", "found it"),
        ([_hangs, ToolFailed("no such payment")], "unknown_outcome", "no such payment"),
    ],
)
def test_a_probe_settles_what_it_can_tell(
    tmp_path: Path, answers: list[Any], status: str, value: str
) -> None:
    async def scenario() -> None:
        world, bank = World(), Bank(*answers)
        pay = _pay(world, ends=_breaks, probe=bank.probe, timeout_s=0.05)
        with open_kernel(tmp_path, tools=[pay]) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, _code) == status
            if status == "unknown_outcome":
                await runs.reconcile("r", "1", probe=True)
                assert await drive(runs, _code) == "completed"
            found = (await result_of(runs))[0]
            assert (found if isinstance(found, str) else found["error"]["message"]) == value
            assert bank.asked == [("default/r:1", 3)] * len(answers)
            assert world.done == ["default/r:1"]

    play(scenario())


def test_an_interrupted_side_effect_is_unknown_and_a_read_only_one_is_done_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World()
        entered = asyncio.Event()

        async def ends() -> str:
            entered.set()
            await asyncio.sleep(60)
            return "never"

        @tool(side_effect=False)
        async def look(ctx: ToolContext) -> str:
            """Look."""
            world.done.append(f"look {ctx.idempotency_key}")
            if len(world.done) == 1:
                await ends()
            return "seen"

        async def code(run: Run) -> Any:
            return [(await run.step_tool(name, a)).value for name, a in calls]

        calls: list[tuple[str, Any]] = [("look", {})]
        with open_kernel(tmp_path, tools=[_pay(world, ends=ends), look]) as kernel:
            runs = kernel.for_tenant()
            for status in ("pending", "unknown_outcome"):
                entered.clear()
                work = asyncio.create_task(drive(runs, code))
                await entered.wait()
                work.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await work
                assert (await runs.show("r"))["status"] == status
                calls.append(("pay", {"amount": 3}))
            assert world.done == ["look default/r:1", "look default/r:1", "default/r:2"]
            calls.pop()
            await runs.reconcile("r", "2", succeeded="paid")
            assert await drive(runs, code) == "completed"
            assert await result_of(runs) == ["seen", "paid"]

    play(scenario())


def _dead_at_dispatch(folder: Path, tools: list[Any], world: World) -> Path:
    """A store whose process died while tool step 1 was at work."""

    async def scenario() -> Path:
        deaths = Deaths(folder / "s.db", world, skip=("commit.before", "commit.after"))
        with open_kernel(folder, tools=tools, fault=deaths, clock=ManualClock()) as kernel:
            await drive(kernel.for_tenant(), _code)
        return next(d.path for d in deaths.found if d.point == "tool.returned")

    return play(scenario())


def _after_death(
    path: Path, scenario: Callable[[Kernel, TenantKernel], Awaitable[None]], **more: Any
) -> None:
    async def opened() -> None:
        clock = ManualClock()
        clock.advance(60)
        with Kernel.open(path, models=echo(), clock=clock, **more) as kernel:
            await scenario(kernel, kernel.for_tenant())

    play(opened())


def test_an_idempotent_side_effect_is_simply_done_again_with_the_same_key(tmp_path: Path) -> None:
    world = World()
    pay = _pay(world, ends=_returns, idempotent=True)
    path = _dead_at_dispatch(tmp_path, [pay], world)

    async def scenario(kernel: Kernel, runs: TenantKernel) -> None:
        assert await drive(runs, _code) == "completed"

    _after_death(path, scenario, tools=[pay])
    assert world.done == ["default/r:1"] * 2


def test_a_tool_that_is_gone_after_a_crash_leaves_a_side_effect_unknown_and_others_refused(
    tmp_path: Path,
) -> None:
    world = World()
    (tmp_path / "once").mkdir()
    (tmp_path / "again").mkdir()
    once = _dead_at_dispatch(tmp_path / "once", [_pay(world, ends=_returns)], world)
    again = _dead_at_dispatch(tmp_path / "again", [_pay(world, ends=_returns, idempotent=True)], world)

    async def unknown(kernel: Kernel, runs: TenantKernel) -> None:
        assert await drive(runs, _code) == "unknown_outcome"
        await runs.reconcile("r", "1", retry=True)
        assert await drive(runs, _code) == "unknown_outcome"
        await runs.reconcile("r", "1", succeeded="found in the books")
        assert await drive(runs, _code) == "completed"

    async def refused(kernel: Kernel, runs: TenantKernel) -> None:
        assert await drive(runs, _code) == "completed"
        assert (await result_of(runs))[1] is True

    _after_death(once, unknown)
    _after_death(again, refused)
    assert len(world.done) == 2


def test_a_persons_edit_is_what_is_repeated_after_a_crash(tmp_path: Path) -> None:
    from artelier import Policy

    amounts: list[int] = []

    @tool(side_effect=True, idempotent=True, risk="high")
    async def pay(amount: int) -> int:
        """Pay."""
        amounts.append(amount)
        return amount

    policy = Policy(approve_risk="high", backoff_s=0)
    deaths = Deaths(tmp_path / "s.db", World(), skip=("commit.before", "commit.after"))

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[pay], policy=policy, fault=deaths, clock=ManualClock()) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, _code, on_wait="suspend") == "waiting_approval"
            await runs.approve("r", arguments={"amount": 1})
            assert await drive(runs, _code) == "completed"

    play(scenario())
    assert amounts == [1]

    async def after(kernel: Kernel, runs: TenantKernel) -> None:
        assert await drive(runs, _code) == "completed"
        assert (await result_of(runs))[0] == 1
        assert await drive(runs, _code) == "completed"

    dead = next(d.path for d in deaths.found if d.point == "tool.requested")
    _after_death(dead, after, tools=[pay], policy=policy)
    assert amounts == [1, 1]


def test_code_that_swallows_the_suspension_gets_no_further_step_and_cannot_complete(tmp_path: Path) -> None:
    async def swallows(run: Run) -> str:
        try:
            await run.step_tool("pay", {"amount": 3})
        except Exception:
            with pytest.raises(RunSuspended):
                await ask(run, "as if nothing had happened")
        return "all is well"

    async def scenario() -> None:
        model = echo()
        with open_kernel(tmp_path, model, tools=[_pay(World(), ends=_breaks)]) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, swallows) == "unknown_outcome"
            assert (await runs.show("r"))["status"] == "unknown_outcome"
            assert model.requests == []

    play(scenario())


def test_siblings_of_an_unknown_outcome_finish_what_they_do_and_start_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        world, at_work, go_on = World(), asyncio.Event(), asyncio.Event()

        @tool(side_effect=True)
        async def slow(ctx: ToolContext) -> str:
            """Slow."""
            at_work.set()
            await go_on.wait()
            world.done.append(ctx.idempotency_key)
            return "slow"

        async def ends() -> None:
            await at_work.wait()
            go_on.set()
            await _breaks()

        async def code(run: Run) -> Any:
            async def sibling(branch: Run) -> list[Any]:
                first = (await branch.step_tool("slow")).value
                return [first, (await branch.step_tool("slow")).value]

            return await run.gather(lambda branch: branch.step_tool("pay", {"amount": 1}), sibling)

        with open_kernel(tmp_path, tools=[_pay(world, ends=ends), slow]) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "unknown_outcome"
            assert world.done == ["default/r:1/0/1", "default/r:1/1/1"]
            done = {s["key"]: s["status"] for s in await runs.steps("r")}
            assert done == {"1/0/1": "unknown", "1/1/1": "completed"}

    play(scenario())


def test_a_probe_that_cannot_tell_settles_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        bank = Bank(ProviderUnavailable("busy"), ProviderUnavailable("still busy"))
        pay = _pay(World(), ends=_breaks, probe=bank.probe)
        with open_kernel(tmp_path, tools=[pay]) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, _code) == "unknown_outcome"
            with pytest.raises(Conflict, match=r"cannot tell.*still busy"):
                await runs.reconcile("r", "1", probe=True)
            assert (await runs.show("r"))["unknown_outcomes"] == ["1"]

    play(scenario())


def test_a_process_that_slept_while_its_run_was_taken_over_enters_no_side_effect(tmp_path: Path) -> None:
    """Its request is durable, then it stands still for longer than its lease, as after SIGSTOP."""
    world, clock, taken = World(), ManualClock(), list[str]()

    async def take_over() -> None:
        with open_kernel(tmp_path, tools=[_pay(world, ends=_returns)], clock=clock) as other:
            runs = other.for_tenant()
            taken.append(await drive(runs, _code))
            await runs.reconcile("r", "1", retry=True)
            taken.append(await drive(runs, _code))

    def sleeps(point: str) -> None:
        if point == "tool.requested" and not taken:
            clock.advance(31)
            thread = threading.Thread(target=lambda: play(take_over()))
            thread.start()
            thread.join()  # the loop of the sleeper stands still

    async def scenario() -> None:
        mine = _pay(world, ends=_returns)
        with open_kernel(tmp_path, tools=[mine], clock=clock, fault=sleeps) as kernel:
            with pytest.raises(LeaseLost):
                async with kernel.for_tenant().run("r") as run:
                    await _code(run)
            assert taken == ["unknown_outcome", "completed"]
            assert (await kernel.for_tenant().show("r"))["status"] == "completed"

    play(scenario())
    assert world.done == ["default/r:1"]


def test_a_process_that_slept_and_still_has_its_run_goes_on(tmp_path: Path) -> None:
    world, clock = World(), ManualClock()

    def sleeps(point: str) -> None:
        if point == "tool.requested":
            clock.advance(31)

    async def scenario() -> None:
        mine = _pay(world, ends=_returns)
        with open_kernel(tmp_path, tools=[mine], clock=clock, fault=sleeps) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, _code) == "completed"
            assert await drive(runs, _code, "s") == "completed"

    play(scenario())
    assert world.done == ["default/r:1", "default/s:1"]

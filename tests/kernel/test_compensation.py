"""What a run has done can be undone: once, in reverse order, in two phases, by its code or by a person."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, Limits, Run, RunSuspended, ToolContext, tool
from artelier.errors import Conflict, NotFound, ToolFailed
from artelier.kernel import Policy
from artelier.kernel.tool_calls.compensation import CompensationFailed
from artelier.ports.tool import ToolPort
from artelier.testing import ManualClock
from tests.kernel.crashes import Death, Deaths
from tests.kernel.stage import EAGER, World, drive, kinds, open_kernel, play, result_of


def bank(world: World, *, broken: dict[str, list[Exception]] | None = None) -> list[ToolPort]:
    """`pay` can be undone, `mail` cannot, `look` does nothing. Undoing fails as `broken` says, by payee."""

    async def refund(arguments: dict[str, Any], result: Any, ctx: ToolContext) -> dict[str, Any]:
        troubles = (broken or {}).get(arguments["to"], [])
        if troubles:
            raise troubles.pop(0)
        world.done.append(f"undo {arguments['to']} {result['paid']} {ctx.idempotency_key}")
        return {"refunded": result["paid"]}

    @tool(side_effect=True, compensate=refund)
    async def pay(to: str, ctx: ToolContext, amount: int = 5) -> dict[str, int]:
        "Pay."
        world.done.append(f"pay {to}")
        return {"paid": amount}

    @tool(side_effect=True)
    async def mail(to: str) -> str:
        "Mail."
        world.done.append(f"mail {to}")
        return "sent"

    @tool(side_effect=False)
    async def look(at: str) -> str:
        "Look."
        return at

    return [pay, mail, look]


async def spree(run: Run) -> dict[str, Any]:
    """Three payments, a mail and a look; then all of it is undone."""
    for name in ("ann", "bob"):
        await run.step_tool("pay", {"to": name}, key=name)
    await run.step_tool("mail", {"to": "ann"}, key="mail")
    await run.step_tool("look", {"at": "moon"})
    await run.step_tool("pay", {"to": "cid"}, key="cid")
    back = await run.compensate(note="the order was cancelled")
    return {"undone": list(back.undone), "kept": list(back.not_undone)}


UNDONE = [f"undo {name} 5 default/r:{name}/undo" for name in ("cid", "bob", "ann")]


def undone(world: World) -> list[str]:
    return [line for line in world.done if line.startswith("undo")]


def test_code_undoes_its_run_in_reverse_and_says_what_stays(tmp_path: Path) -> None:
    world = World()

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=bank(world)) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, spree) == "completed"

            expected = {"undone": ["cid", "bob", "ann"], "kept": ["mail"]}
            assert await result_of(runs) == expected
            assert undone(world) == UNDONE
            steps = {step["key"]: step for step in await runs.steps("r")}
            assert (steps["ann/undo"]["kind"], steps["ann/undo"]["status"]) == ("undo", "completed")
            # The same code again calls nothing, and gives the same.
            replayed = await runs.replay("r", spree)
            assert replayed.result == expected
            assert undone(world) == UNDONE

    play(scenario())


def test_each_undoing_happens_once_wherever_the_process_dies(tmp_path: Path) -> None:
    world = World()
    deaths = Deaths(tmp_path / "s.db", world)

    async def scenario() -> None:
        clock = ManualClock()
        with open_kernel(tmp_path, tools=bank(world), fault=deaths, clock=clock) as kernel:
            await drive(kernel.for_tenant(), spree)
        for death in deaths.found:
            await resumed(death)

    async def resumed(death: Death) -> None:
        world, clock = death.world, ManualClock()
        clock.advance(3600)  # the dead process's lease has expired
        with Kernel.open(death.path, tools=bank(world), policy=EAGER, clock=clock) as kernel:
            runs = kernel.for_tenant()
            for _ in range(20):
                status = await drive(runs, spree, on_wait="suspend")
                if status != "unknown_outcome":
                    break
                (step,) = (await runs.show("r"))["unknown_outcomes"]
                who = step.removesuffix("/undo")
                line = f"{'undo' if step.endswith('/undo') else 'pay'} {who}"
                line = "mail ann" if step == "mail" else line
                if any(done.startswith(line) for done in world.done):
                    await runs.reconcile("r", step, succeeded={"paid": 5})
                else:
                    await runs.reconcile("r", step, retry=True)
            assert status == "completed", (death.point, death.number)
            assert undone(world) == UNDONE, (death.point, death.number)
            assert (await result_of(runs))["undone"] == ["cid", "bob", "ann"]

    play(scenario(), within_s=120)


def test_what_fails_stops_it_and_a_second_call_goes_on_without_undoing_twice(tmp_path: Path) -> None:
    world = World()
    broken: dict[str, list[Exception]] = {"bob": [ToolFailed("the account is closed")]}

    async def code(run: Run) -> list[str]:
        for name in ("ann", "bob", "cid"):
            await run.step_tool("pay", {"to": name}, key=name)
        with pytest.raises(CompensationFailed) as failed:
            await run.compensate()
        assert failed.value.facts["step"] == "bob"
        assert failed.value.facts["undone"] == ("cid",)
        assert "the account is closed" in failed.value.message
        return list((await run.compensate()).undone)

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=bank(world, broken=broken)) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "completed"
            assert await result_of(runs) == ["bob", "ann"]
            assert [line.split()[1] for line in undone(world)] == ["cid", "bob", "ann"]
            assert undone(world)[1].endswith("default/r:bob/undo/2")
            steps = {step["key"]: step for step in await runs.steps("r")}
            assert (steps["bob/undo"]["status"], steps["bob/undo/2"]["status"]) == ("failed", "completed")
            assert "the account is closed" in (steps["bob/undo"]["error"] or "")
            assert [step["key"] for step in steps.values() if step["error"]] == ["bob/undo"]
            assert (await runs.replay("r", code)).result == ["bob", "ann"]

    play(scenario())


def test_it_goes_back_to_a_step_and_no_further(tmp_path: Path) -> None:
    world = World()

    async def code(run: Run) -> list[str]:
        for name in ("ann", "bob", "cid"):
            await run.step_tool("pay", {"to": name}, key=name)
        with pytest.raises(NotFound):
            await run.compensate(upto="nobody", key="wrong")
        return list((await run.compensate(upto="bob")).undone)

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=bank(world)) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, code)
            assert await result_of(runs) == ["cid", "bob"]
            assert len(undone(world)) == 2

    play(scenario())


async def failing(run: Run) -> None:
    await run.step_tool("pay", {"to": "ann"}, key="ann")
    await run.step_tool("pay", {"to": "bob"}, key="bob")
    raise ToolFailed("no room")


def test_a_person_undoes_an_ended_run_which_stays_what_it_is(tmp_path: Path) -> None:
    world = World()

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=bank(world)) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, failing, limits=Limits(steps=2)) == "failed: tool_failed"

            back = await runs.compensate("r", note="by hand", by="user:eve")

            assert (back.undone, back.not_undone) == (("bob", "ann"), ())
            assert (await runs.show("r"))["status"] == "failed"
            assert (await runs.compensate("r")).undone == ()
            assert len(undone(world)) == 2
            with pytest.raises(Conflict, match="undone"):
                await runs.retry("r")
            # The run's own code replays as before: what a person did is none of its steps.
            assert (await runs.replay("r", failing)).status == "failed"
            found = await kinds(kernel)
            assert found.count("run.failed") == 1 and found.count("compensation.planned") == 1

    play(scenario())


def test_a_run_that_has_not_ended_is_not_undone_behind_its_back(tmp_path: Path) -> None:
    world = World()

    async def waiting(run: Run) -> None:
        await run.step_tool("pay", {"to": "ann"}, key="ann")
        await run.wait_for("go")

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=bank(world)) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, waiting, on_wait="suspend") == "waiting"
            with pytest.raises(Conflict, match="has not ended"):
                await runs.compensate("r")
            await runs.cancel("r")
            assert (await runs.compensate("r")).undone == ("ann",)
            assert (await runs.show("r"))["status"] == "cancelled"

    play(scenario())


def test_an_unknown_undoing_of_an_ended_run_waits_until_it_is_settled(tmp_path: Path) -> None:
    world = World()
    broken: dict[str, list[Exception]] = {"bob": [ConnectionError("reset")]}

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=bank(world, broken=broken)) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, failing)
            for _ in range(2):
                with pytest.raises(RunSuspended) as flow:
                    await runs.compensate("r")
                assert (flow.value.status, flow.value.reason) == ("unknown_outcome", "bob/undo")
            shown = await runs.show("r")
            assert (shown["status"], shown["unknown_outcomes"]) == ("failed", ["bob/undo"])
            with pytest.raises(NotFound, match="undoing"):
                await runs.reconcile("r", "bob/undo", probe=True)
            await runs.reconcile("r", "bob/undo", succeeded={"refunded": 5})

            assert (await runs.compensate("r")).undone == ("ann",)
            assert [line.split()[1] for line in undone(world)] == ["ann"]

    play(scenario())


def test_undoing_needs_the_grant_and_the_approval_of_the_call(tmp_path: Path) -> None:
    world = World()

    async def refund(arguments: dict[str, Any], result: Any, ctx: ToolContext) -> None:
        world.done.append("undo")

    @tool(side_effect=True, risk="high", compensate=refund)
    async def send(to: str) -> str:
        "Send."
        return to

    async def code(run: Run) -> None:
        await run.step_tool("send", {"to": "ann"}, key="ann")

    async def scenario() -> None:
        policy = Policy(approve_risk="high", backoff_s=0)
        with Kernel.open(tmp_path / "s.db", tools=[send], policy=policy) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code, on_wait="suspend") == "waiting_approval"
            await runs.approve("r")
            assert await drive(runs, code) == "completed"

            await kernel.tenants.update("default", grants=["tools:look"])
            with pytest.raises(CompensationFailed, match="may not use"):
                await runs.compensate("r", on_wait="suspend")
            await kernel.tenants.update("default", grants=["*"])
            with pytest.raises(RunSuspended) as flow:
                await runs.compensate("r", on_wait="suspend")
            assert flow.value.status == "waiting_approval" and not world.done
            (asked,) = await runs.approvals("r")
            assert (asked["step"], asked["question"]) == ("ann/undo/2/approval", "undo send")
            await runs.approve("r", deny=True)
            with pytest.raises(CompensationFailed, match="denied this call; got"):
                await runs.compensate("r")
            with pytest.raises(RunSuspended):
                await runs.compensate("r", on_wait="suspend")
            await runs.approve("r", step="ann/undo/3/approval")
            assert (await runs.compensate("r")).undone == ("ann",)
            assert world.done == ["undo"]

    play(scenario())


def test_children_are_undone_in_their_own_runs_in_their_place(tmp_path: Path) -> None:
    world = World()

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=bank(world)) as kernel:
            runs = kernel.for_tenant()

            async def code(run: Run) -> list[str]:
                await run.step_tool("pay", {"to": "first"}, key="first")
                async with runs.run("r/child", parent=run) as child:
                    await child.step_tool("pay", {"to": "below"}, key="below")
                await run.step_tool("pay", {"to": "last"}, key="last")
                return list((await run.compensate()).undone)

            assert await drive(runs, code) == "completed"

            assert await result_of(runs) == ["last", "r/child:below", "first"]
            assert [line.split()[1] for line in undone(world)] == ["last", "below", "first"]
            assert undone(world)[1].endswith("default/r/child:below/undo")
            assert "compensation.planned" in await kinds(kernel, "r/child")
            assert (await runs.show("r/child"))["status"] == "completed"
            assert (await runs.replay("r", code)).result == ["last", "r/child:below", "first"]

    play(scenario())


def test_what_was_undone_of_a_child_is_told_in_full_after_a_crash(tmp_path: Path) -> None:
    world = World()
    deaths = Deaths(tmp_path / "s.db", world)

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=bank(world), fault=deaths, clock=ManualClock()) as kernel:
            await go(kernel, world)
        cut = [death for death in deaths.found if 0 < len(undone(death.world)) < 2]
        assert cut
        for death in cut:
            later = ManualClock()
            later.advance(3600)  # the leases of the dead process have expired
            with Kernel.open(death.path, tools=bank(death.world), policy=EAGER, clock=later) as kernel:
                assert await go(kernel, death.world) == ["r/child:two", "r/child:one"], death
                assert len(undone(death.world)) == 2, death

    async def go(kernel: Kernel, outside: World) -> Any:
        runs = kernel.for_tenant()

        async def code(run: Run) -> list[str]:
            async with runs.run("r/child", parent=run) as child:
                await child.step_tool("pay", {"to": "ann"}, key="one")
                await child.step_tool("pay", {"to": "bob"}, key="two")
            return list((await run.compensate()).undone)

        for _ in range(9):
            if await drive(runs, code, on_wait="suspend") != "unknown_outcome":
                break
            for step in (await runs.show("r/child"))["unknown_outcomes"]:
                who = {"one": "ann", "two": "bob"}[step.removesuffix("/undo")]
                happened = any(line.startswith(f"undo {who}") for line in outside.done)
                settled: dict[str, Any] = {"succeeded": None} if happened else {"retry": True}
                await runs.reconcile("r/child", step, **settled)
        return await result_of(runs)

    play(scenario(), within_s=60)


def test_a_fork_leaves_what_it_inherited_to_its_origin(tmp_path: Path) -> None:
    world = World()

    async def code(run: Run) -> list[str]:
        await run.step_tool("pay", {"to": "ann"}, key="ann")
        await run.step_tool("look", {"at": "moon"}, key="look")
        await run.step_tool("pay", {"to": "bob"}, key="bob")
        return list((await run.compensate()).undone)

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=bank(world)) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, code)
            steps = {step["key"]: step["requested_seq"] for step in await runs.steps("r")}

            name = await runs.fork("r", at=steps["bob"] - 1, effects="live")
            await drive(runs, code, name)

            assert await result_of(runs, name) == ["bob"]
            assert undone(world)[-1].endswith(f"default/{name}:bob/undo")
            again = await runs.fork("r", at=steps["bob/undo"] - 1, effects="live")  # within the undoing
            await drive(runs, code, again)
            assert await result_of(runs, again) == []
            assert len(undone(world)) == 3

    play(scenario())


def test_an_undoing_cannot_run_beside_another(tmp_path: Path) -> None:
    world = World()

    async def code(run: Run) -> list[str]:
        await run.step_tool("pay", {"to": "ann"}, key="ann")
        found = await asyncio.gather(
            run.compensate(key="one"), run.compensate(key="two"), return_exceptions=True
        )
        return sorted(type(one).__name__ for one in found)

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=bank(world)) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, code)
            assert await result_of(runs) == ["CompensationResult", "Conflict"]
            assert len(undone(world)) == 1

    play(scenario())

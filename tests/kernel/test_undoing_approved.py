"""Undoing what people changed, allowed or denied, under caps that are reached, and of people erased since."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from artelier import Limits, Run, Tenant, ToolContext, tool
from artelier.errors import Erased
from artelier.kernel import Policy
from artelier.kernel.tool_calls.compensation import CompensationFailed
from artelier.ports.tool import ToolPort
from tests.kernel.stage import World, drive, open_kernel, play, result_of

ASKS = Policy(approve_risk="high", backoff_s=0)


def bank(world: World, *, fee: str = "") -> list[ToolPort]:
    """`send` needs a person's yes, and so does its undoing; `pay` does not. Undoing costs the fee."""

    async def back(arguments: dict[str, Any], result: Any, ctx: ToolContext) -> None:
        if fee:
            await ctx.spend(fee, before_acting=True)
        world.done.append(f"undo {arguments['to']} {arguments['amount']} {result['paid']}")

    @tool(side_effect=True, risk="high", compensate=back)
    async def send(to: str, amount: int) -> dict[str, int]:
        "Send money."
        world.done.append(f"send {to} {amount}")
        return {"paid": amount}

    @tool(side_effect=True, risk="low", compensate=back)
    async def pay(to: str, amount: int) -> dict[str, int]:
        "Pay."
        world.done.append(f"pay {to} {amount}")
        return {"paid": amount}

    return [send, pay]


async def sending(run: Run) -> list[str]:
    await run.step_tool("send", {"to": "ann", "amount": 900}, key="ann")
    return list((await run.compensate()).undone)


@pytest.mark.parametrize("is_denied", [False, True])
def test_a_question_holds_in_a_process_without_the_policy_that_asked_it(
    tmp_path: Path, is_denied: bool
) -> None:
    """Whoever drove a run without the policy made the call, and undid it, whatever a person said."""
    world = World()

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=bank(world), policy=ASKS) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, sending, on_wait="suspend") == "waiting_approval"
        with open_kernel(tmp_path, tools=bank(world)) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, sending, on_wait="suspend") == "waiting_approval"
            assert world.done == []
        with open_kernel(tmp_path, tools=bank(world), policy=ASKS) as kernel:
            runs = kernel.for_tenant()
            await runs.approve("r")
            assert await drive(runs, sending, on_wait="suspend") == "waiting_approval"
        with open_kernel(tmp_path, tools=bank(world)) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, sending, on_wait="suspend") == "waiting_approval"
            assert world.done == ["send ann 900"]
            await runs.approve("r", deny=is_denied)
            ended = await drive(runs, sending, on_wait="suspend")
            assert (ended == "completed") is not is_denied
            assert world.done[1:] == ([] if is_denied else ["undo ann 900 900"])
            assert kernel.verify().findings == []

    play(scenario())


def test_a_call_that_a_person_changed_is_undone_as_it_was_made(tmp_path: Path) -> None:
    world = World()

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=bank(world), policy=ASKS) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, sending, on_wait="suspend") == "waiting_approval"
            await runs.approve("r", arguments={"to": "bob", "amount": 7})
            assert await drive(runs, sending, on_wait="suspend") == "waiting_approval"
            (asked,) = await runs.approvals("r")
            assert asked["question"] == "undo send"
            assert asked["details"]["arguments"] == {"to": "bob", "amount": 7}

            await runs.approve("r")
            assert await drive(runs, sending) == "completed"

            assert world.done == ["send bob 7", "undo bob 7 7"]
            assert (await runs.replay("r", sending)).result == ["ann"] == await result_of(runs)

    play(scenario())


def test_a_person_may_change_the_undoing_itself(tmp_path: Path) -> None:
    world = World()

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=bank(world), policy=ASKS) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, sending, on_wait="suspend")
            await runs.approve("r")
            await drive(runs, sending, on_wait="suspend")
            await runs.approve("r", arguments={"to": "ann", "amount": 450})
            assert await drive(runs, sending) == "completed"

            assert world.done == ["send ann 900", "undo ann 450 900"]
            assert (await runs.replay("r", sending)).result == ["ann"]
            assert (await runs.compensate("r")).undone == ()

    play(scenario())


def test_a_denied_undoing_leaves_what_came_before_it_and_is_asked_again(tmp_path: Path) -> None:
    world = World()

    async def code(run: Run) -> Any:
        await run.step_tool("pay", {"to": "first", "amount": 1}, key="first")
        await run.step_tool("send", {"to": "ann", "amount": 9}, key="ann")
        try:
            return list((await run.compensate()).undone)
        except CompensationFailed as failed:
            return [failed.facts["step"], *(await run.compensate()).undone]

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=bank(world), policy=ASKS) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, code, on_wait="suspend")
            await runs.approve("r")
            await drive(runs, code, on_wait="suspend")
            await runs.approve("r", deny=True, note="not yet")
            assert await drive(runs, code, on_wait="suspend") == "waiting_approval"
            assert "undo" not in str(world.done)
            await runs.approve("r")
            assert await drive(runs, code) == "completed"

            assert await result_of(runs) == ["ann", "ann", "first"]
            assert world.done[-2:] == ["undo ann 9 9", "undo first 1 1"]

    play(scenario())


def test_a_reached_cap_and_an_empty_budget_do_not_keep_what_was_done(tmp_path: Path) -> None:
    world = World()

    async def code(run: Run) -> None:
        for name in ("ann", "bob", "cid"):
            await run.step_tool("pay", {"to": name, "amount": 1}, key=name)

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=bank(world)) as kernel:
            broke = Tenant("broke", budget_usd="0", grants=["*"])
            runs = kernel.for_tenant(broke)
            limits = Limits(steps=2, usd="0", tokens=0)
            assert await drive(runs, code, limits=limits) == "budget_exhausted"
            await runs.cancel("r")

            assert (await runs.compensate("r")).undone == ("bob", "ann")
            assert world.done[2:] == ["undo bob 1 1", "undo ann 1 1"]

    play(scenario())


def test_an_undoing_that_costs_waits_for_money_and_then_goes_on(tmp_path: Path) -> None:
    world = World()

    async def code(run: Run) -> None:
        await run.step_tool("pay", {"to": "ann", "amount": 1}, key="ann")

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=bank(world, fee="0.05")) as kernel:
            await kernel.tenants.open(Tenant("broke", budget_usd="0", grants=["*"]))
            runs = kernel.for_tenant("broke")
            assert await drive(runs, code) == "completed"
            with pytest.raises(CompensationFailed):
                await runs.compensate("r")
            assert world.done == ["pay ann 1"]

            await kernel.tenants.update("broke", budget_usd="1")
            assert (await runs.compensate("r")).undone == ("ann",)
            assert (await runs.show("r"))["cost_microusd"] == 50_000
            assert world.done[1:] == ["undo ann 1 1"]

    play(scenario())


def test_what_is_known_of_nobody_any_more_is_not_undone_and_the_rest_is(tmp_path: Path) -> None:
    world = World()

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=bank(world)) as kernel:
            runs = kernel.for_tenant()

            async def code(run: Run) -> None:
                await run.step_tool("pay", {"to": "ann", "amount": 1}, key="ann")
                async with runs.run("r/child", parent=run, subject="customer-17") as child:
                    await child.step_tool("pay", {"to": "seventeen", "amount": 2}, key="below")
                await run.step_tool("pay", {"to": "bob", "amount": 3}, key="bob")

            assert await drive(runs, code) == "completed"
            await runs.erase(subject="customer-17")

            with pytest.raises(Erased):
                await runs.compensate("r/child")
            back = await runs.compensate("r")

            assert back.undone == ("bob", "ann")
            assert back.not_undone == ("r/child:below",)
            assert world.done[3:] == ["undo bob 3 3", "undo ann 1 1"]

    play(scenario())


def test_who_is_erased_in_the_middle_of_an_undoing_does_not_stop_it(tmp_path: Path) -> None:
    world = World()

    async def lost(arguments: dict[str, Any], result: Any, ctx: ToolContext) -> None:
        raise ConnectionError("reset")

    @tool(side_effect=True, compensate=lost)
    async def ship(to: str) -> None:
        "Ship."

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[*bank(world), ship]) as kernel:
            runs = kernel.for_tenant()

            async def code(run: Run) -> Any:
                await run.step_tool("pay", {"to": "ann", "amount": 1}, key="ann")
                async with runs.run("r/child", parent=run, subject="customer-17") as child:
                    if child.status != "completed":
                        await child.step_tool("pay", {"to": "seventeen", "amount": 2}, key="below")
                await run.step_tool("ship", {"to": "bob"}, key="bob")
                back = await run.compensate()
                return {"undone": list(back.undone), "kept": list(back.not_undone)}

            async def again(run: Run) -> Any:
                """The same code, which opens no child whose content is gone."""
                await run.step_tool("pay", {"to": "ann", "amount": 1}, key="ann")
                await run.step_tool("ship", {"to": "bob"}, key="bob")
                back = await run.compensate()
                return {"undone": list(back.undone), "kept": list(back.not_undone)}

            assert await drive(runs, code) == "unknown_outcome"
            await runs.erase(subject="customer-17")
            await runs.reconcile("r", "bob/undo", succeeded=None)
            assert await drive(runs, again) == "completed"

            expected = {"undone": ["bob", "ann"], "kept": ["r/child:below"]}
            assert await result_of(runs) == expected
            assert (await runs.replay("r", again)).result == expected
            assert world.done[2:] == ["undo ann 1 1"]

    play(scenario())

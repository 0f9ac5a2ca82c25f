"""What people do to a tree of agents: answer, cancel, stop, pause. It goes on, and nothing twice."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, Price, Run, RunStopped, Tenant, tool
from artelier.testing import ScriptedModel, tool_call
from tests.agents.family import (
    CHILD,
    Bank,
    Gate,
    all_in,
    asking,
    at_work,
    boss,
    hand,
    open_family,
    statuses,
    told,
    work,
    worker,
)
from tests.kernel.stage import ask, assert_conserved, drive, play

# People who are asked


def test_an_approval_three_deep_suspends_the_tree_and_resumes_with_it(tmp_path: Path) -> None:
    models = {
        "boss": ScriptedModel([hand("a", to="lead"), "end"]),
        "lead": ScriptedModel([hand("b"), "led"]),
        "worker": ScriptedModel([tool_call("sure"), "worked"]),
    }

    def family(kernel: Kernel) -> Any:
        lead = worker(kernel, name="lead", model="lead", tools=[worker(kernel, tools=[asking()])])
        return boss(kernel, lead)

    async def scenario() -> None:
        with open_family(tmp_path, models) as kernel:
            waiting = await work(family(kernel))
            assert waiting.status == "waiting_approval"
            assert all_in(await statuses(kernel), "waiting_approval")

        with open_family(tmp_path, models) as kernel:  # another process, the next day
            runs = kernel.for_tenant()
            (asked,) = await runs.approvals()
            assert asked["run_id"].count("::sub_agent::") == 2 + 1  # the key names the parent again
            await runs.approve(asked["run_id"])
            done = await work(family(kernel))

            assert (done.status, done.text) == ("completed", "end")
            assert all_in(await statuses(kernel), "completed")
            assert told(models["lead"]) == ["worked"]
        for model in models.values():
            model.assert_done()  # and no step was asked for twice: it would have been unexpected

    play(scenario())


def test_a_parent_that_waits_in_process_goes_on_when_its_child_is_answered(tmp_path: Path) -> None:
    models = {
        "boss": ScriptedModel([hand("a"), "end"]),
        "worker": ScriptedModel([tool_call("sure"), "worked"]),
    }

    async def scenario() -> None:
        with open_family(tmp_path, models) as kernel:
            runs = kernel.for_tenant()
            task = asyncio.ensure_future(
                work(boss(kernel, worker(kernel, tools=[asking()])), on_wait="await")
            )
            while not await runs.approvals():
                await asyncio.sleep(0.005)
            await runs.approve(CHILD, deny=True)

            assert (await task).text == "end"
            assert told(models["worker"]) == ["deny"]

    play(scenario())


def test_siblings_of_a_child_that_waits_are_done_and_stay_done(tmp_path: Path) -> None:
    models = {
        "boss": ScriptedModel([[hand("a"), hand("b", to="asker"), hand("c")], "end"]),
        "worker": ScriptedModel(["x", "x"]),
        "asker": ScriptedModel([tool_call("sure"), "asked"]),
    }

    async def scenario() -> None:
        with open_family(tmp_path, models) as kernel:
            asker = worker(kernel, name="asker", model="asker", tools=[asking()])
            agent = boss(kernel, worker(kernel), asker)
            first = await work(agent)
            child = "r::sub_agent::default/r:c1/tool/1"
            assert first.status == "waiting_approval"
            assert sorted((await statuses(kernel)).values()) == [
                "completed",
                "completed",
                "waiting_approval",
                "waiting_approval",
            ]
            await kernel.for_tenant().approve(child)

            assert (await work(agent)).text == "end"
            assert told(models["boss"]) == ["x", "asked", "x"]

    play(scenario())


def test_an_outcome_that_nobody_knows_in_a_child_is_settled_there(tmp_path: Path) -> None:
    async def broken(to: str) -> str:
        "Pay."
        raise ConnectionError("the line went dead")

    models = {
        "boss": ScriptedModel([hand("a"), "end"]),
        "worker": ScriptedModel([tool_call("broken", {"to": "ana"}), "worked"]),
    }

    async def scenario() -> None:
        with open_family(tmp_path, models) as kernel:
            pays = tool(side_effect=True)(broken)
            agent = boss(kernel, worker(kernel, tools=[pays]))
            first = await work(agent)
            unknown = (await kernel.for_tenant().show("r"))["unknown_outcomes"]
            await kernel.for_tenant().reconcile(CHILD, "c1/tool/0", succeeded="paid")
            second = await work(agent)

            assert (first.status, first.reason, unknown) == ("unknown_outcome", CHILD, [])
            assert (second.status, told(models["worker"])) == ("completed", ["paid"])

    play(scenario())


# People who intervene


@pytest.mark.parametrize("on_wait", ["return", "await"])
def test_cancelling_a_parent_cancels_all_below_it_and_returns_the_money(tmp_path: Path, on_wait: str) -> None:
    gate = Gate()
    price = Price(input=Decimal(1), output=Decimal(1))
    models = {
        "boss": ScriptedModel([hand("a", to="lead")], price=price),
        "lead": ScriptedModel([hand("b")], price=price),
        "worker": ScriptedModel([gate], price=price),
    }

    async def scenario() -> None:
        with open_family(tmp_path, models) as kernel:
            await kernel.tenants.open(Tenant("acme", budget_usd="1.00"))
            lead = worker(kernel, name="lead", model="lead", tools=[worker(kernel)])
            task = await at_work(kernel, boss(kernel, lead), gate.asked, tenant="acme", on_wait=on_wait)
            await kernel.for_tenant("acme").cancel("r", by="user:ana")

            assert (await task).status == "cancelled"
            found = await statuses(kernel, "acme")
            assert (len(found), all_in(found, "cancelled")) == (3, True)
            await assert_conserved(kernel, "acme")
            assert kernel.verify().ok

    play(scenario())


def test_a_side_effect_of_a_child_is_finished_before_a_cancel_ends_the_tree(tmp_path: Path) -> None:
    """Torn from above, its outcome would be unknown, though nothing went wrong."""
    bank = Bank()
    models = {
        "boss": ScriptedModel([hand("a", to="lead")]),
        "lead": ScriptedModel([hand("b")]),
        "worker": ScriptedModel([tool_call("pay", {"to": "ana"})]),
    }

    async def scenario() -> None:
        with open_family(tmp_path, models) as kernel:
            payer = worker(kernel, tools=[bank.tool()])
            lead = worker(kernel, name="lead", model="lead", tools=[payer])
            task = await at_work(kernel, boss(kernel, lead), bank.entered)
            giving = asyncio.ensure_future(kernel.for_tenant().cancel("r"))
            while not all_in(await statuses(kernel), "cancelled"):
                await asyncio.sleep(0.005)
            assert not task.done()
            bank.opened.set()
            await giving

            assert (await task).status == "cancelled"
            found = await statuses(kernel)
            assert (len(found), all_in(found, "cancelled")) == (3, True)
            paying = max(found, key=len)  # the grandchild
            assert [step["status"] for step in await kernel.for_tenant().steps(paying)] == [
                "completed",
                "completed",
            ]
            assert len(bank.paid) == 1

    play(scenario())


def test_a_cancelled_child_is_an_error_that_the_parent_reads(tmp_path: Path) -> None:
    gate = Gate()
    models = {"boss": ScriptedModel([hand("a"), "without it"]), "worker": ScriptedModel([gate])}

    async def scenario() -> None:
        with open_family(tmp_path, models) as kernel:
            agent = boss(kernel, worker(kernel))
            task = await at_work(kernel, agent, gate.asked)
            await kernel.for_tenant().cancel(CHILD)

            result = await task
            assert (result.status, result.text) == ("completed", "without it")
            assert "was cancelled by a person" in told(models["boss"])[0]
            assert (await statuses(kernel)) == {"r": "completed", CHILD: "cancelled"}
            replayed = await kernel.for_tenant().replay("r", agent.drive)
            assert replayed.result["text"] == "without it"

    play(scenario())


@pytest.mark.parametrize("verb", ["stop", "pause"])
def test_a_stopped_tree_goes_on_where_it_was(tmp_path: Path, verb: str) -> None:
    gate = Gate()
    models = {"boss": ScriptedModel([hand("a"), "end"]), "worker": ScriptedModel([gate, "again", "again"])}

    async def scenario() -> None:
        with open_family(tmp_path, models) as kernel:
            runs = kernel.for_tenant()
            agent = boss(kernel, worker(kernel, tools=[asking()]))
            task = await at_work(kernel, agent, gate.asked)
            await getattr(runs, verb)("r")
            assert all_in(await statuses(kernel), "paused")
            gate.opened.set()
            assert (await task).status == "paused"
            assert all_in(await statuses(kernel), "paused")

            assert (await work(agent)).status == "paused"
            await runs.resume("r")
            assert (await work(agent)).text == "end"
            assert told(models["boss"]) == ["late" if verb == "pause" else "again"]
            assert all_in(await statuses(kernel), "completed")

    play(scenario())


def test_a_tree_that_is_paused_in_process_goes_on_in_it(tmp_path: Path) -> None:
    gate = Gate(lambda _: tool_call("sure"))
    models = {"boss": ScriptedModel([hand("a"), "end"]), "worker": ScriptedModel([gate, "w"])}

    async def scenario() -> None:
        with open_family(tmp_path, models) as kernel:
            runs = kernel.for_tenant()
            agent = boss(kernel, worker(kernel))
            task = await at_work(kernel, agent, gate.asked, on_wait="await")
            await runs.pause("r")
            gate.opened.set()
            while (await runs.steps(CHILD))[0]["status"] != "completed":
                await asyncio.sleep(0.005)
            assert all_in(await statuses(kernel), "paused")
            await runs.resume("r")

            assert (await task).text == "end"
            assert all_in(await statuses(kernel), "completed")

    play(scenario())


def test_a_cancel_at_any_moment_of_its_opening_reaches_the_child(tmp_path: Path) -> None:
    """It may come before the child is there to be told, and after its parent's call was cut short."""
    gates: list[Gate] = [Gate(hand("a")) for _ in range(80)]
    latest, at_child = Gate(hand("a")), Gate()
    models = {"boss": ScriptedModel([*gates, latest]), "worker": ScriptedModel(lambda _: at_child)}

    async def scenario() -> None:
        with open_family(tmp_path, models) as kernel:
            runs, agent = kernel.for_tenant(), boss(kernel, worker(kernel))
            for number, gate in enumerate(gates):
                task = asyncio.ensure_future(work(agent, f"r{number}"))
                await gate.asked.wait()
                giving = asyncio.ensure_future(runs.cancel(f"r{number}"))
                for _ in range(2 * number):
                    await asyncio.sleep(0)
                gate.opened.set()
                await giving
                assert (await task).status == "cancelled"
            at_child.asked.clear()
            latest.opened.set()
            task = asyncio.ensure_future(work(agent, "last"))
            await at_child.asked.wait()  # the latest moment: the child is at work
            await runs.cancel("last")
            assert (await task).status == "cancelled"
            items = (await runs.runs(limit=200))["items"]

            assert {item["status"] for item in items} == {"cancelled"}
            assert sum(item["id"].startswith("last") for item in items) == 2

    play(scenario())


@pytest.mark.parametrize(("verb", "ends"), [("cancel", "cancelled"), ("pause", "paused")])
def test_a_child_of_a_run_that_is_told_to_end_takes_no_step(tmp_path: Path, verb: str, ends: str) -> None:
    models = {"m": ScriptedModel([])}
    kernels: list[Kernel] = []

    async def code(run: Run) -> Any:
        runs = kernels[0].for_tenant()
        await getattr(runs, verb)("r")
        async with runs.run("c", parent=run, on_wait="suspend") as child:
            await asyncio.sleep(0.05)
            await ask(child, "anything")

    async def scenario() -> None:
        with open_family(tmp_path, models) as kernel:
            kernels.append(kernel)
            try:
                await drive(kernel.for_tenant(), code, on_wait="suspend")
            except RunStopped as stopped:
                assert stopped.run_id == "c"
            assert await statuses(kernel) == {"r": ends, "c": ends}

    play(scenario())


def test_who_leaves_the_drive_leaves_a_tree_that_can_go_on(tmp_path: Path) -> None:
    gate = Gate()
    models = {"boss": ScriptedModel([hand("a"), "end"]), "worker": ScriptedModel([gate, "second try"])}

    async def scenario() -> None:
        with open_family(tmp_path, models) as kernel:
            agent = boss(kernel, worker(kernel))
            task = await at_work(kernel, agent, gate.asked)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert all_in(await statuses(kernel), "pending")

            assert (await work(agent)).text == "end"
            assert told(models["boss"]) == ["second try"]

    play(scenario())

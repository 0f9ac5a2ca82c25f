"""Commands that reach children, caps that come late, loops that end: what once went wrong stays right."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import artelier.app as app
from artelier import Limits, Run, RunStopped, RunSuspended, tool
from artelier.errors import InvalidRequest
from artelier.kernel import events as ev
from artelier.kernel.steps.step_keys import result_id
from artelier.log import Batch, Draft, StreamAppend, control_stream
from tests.kernel.stage import PRICE, GateModel, ask, drive, echo, events, has_status, open_kernel, play


@tool(idempotent=True)
async def look() -> int:
    """Look."""
    return 1


@tool(idempotent=True)
async def hang() -> int:
    """Hang."""
    await asyncio.Event().wait()
    return 1


def test_a_cancel_that_nobody_waits_for_reaches_grandchildren(tmp_path: Path) -> None:
    async def scenario() -> None:
        gate = GateModel()
        with open_kernel(tmp_path, gate) as kernel, open_kernel(tmp_path) as desk:
            runs = kernel.for_tenant()

            async def code(run: Run) -> Any:
                async with runs.run("c", parent=run) as child, runs.run("g", parent=child) as inner:
                    return await ask(inner, "deep")

            work = asyncio.create_task(drive(runs, code))
            await gate.asked("deep")
            stream = control_stream("default", "r")
            draft = Draft(ev.CommandGiven(verb="cancel"), desk.services.clock.now_us(), "user:eve")
            await desk.store.append(Batch(appends=[StreamAppend(stream, [draft])]))
            for run_id in ("r", "c", "g"):
                await has_status(runs, "cancelled", run_id)
            with pytest.raises(RunStopped):
                await work

    play(scenario())


def test_a_cap_on_a_parent_holds_for_children_at_work(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path, echo(price=PRICE)) as kernel:
            runs = kernel.for_tenant()
            async with runs.run("p") as run:
                with pytest.raises(RunSuspended) as caught:
                    async with runs.run("c", parent=run) as child:
                        await ask(child, "a")
                        await runs.limit("p", unit="usd", cap="0")
                        await ask(child, "b")
                assert caught.value.status == "budget_exhausted"

    play(scenario())


def test_the_time_of_a_parent_ends_a_call_of_its_child(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path, GateModel(), tools=[hang]) as kernel:
            runs = kernel.for_tenant()

            async def model(run: Run) -> Any:
                async with runs.run("c1", parent=run) as child:
                    return await ask(child, "never")

            async def entered(run: Run) -> Any:
                return await run.step_tool("hang")

            short = Limits(wall_s=0.1)
            assert await drive(runs, model, "p1", limits=short) == "budget_exhausted"
            assert await drive(runs, entered, "p2", limits=short) == "budget_exhausted"
            assert (await runs.show("c1"))["reason"] == "deadline"

    play(scenario())


def test_a_late_cap_counts_tool_steps_calls_in_flight_and_what_was_spent_without_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        gate = GateModel()
        with open_kernel(tmp_path, gate, tools=[look]) as kernel:
            runs = kernel.for_tenant()

            async def used() -> int:
                rows = await kernel.store.query("SELECT used FROM limits WHERE unit = 'steps'")
                return rows[0][0]

            async with runs.run("r") as run:
                await run.step_tool("look")
                flying = asyncio.create_task(ask(run, "a", key="a"))
                await gate.asked("a")
                await runs.limit("r", unit="steps", cap=9)
                assert await used() == 1
                gate.answer("a")
                await flying
                await run.core.writer.commit()
                assert await used() == 2
                await runs.limit("r", unit="steps", cap=None)
                await run.step_tool("look")
                await runs.limit("r", unit="steps", cap=9)
                assert await used() == 3

    play(scenario())


def test_a_command_that_the_driver_obeyed_meanwhile_is_not_applied_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel, open_kernel(tmp_path) as other:

            async def code(run: Run) -> Any:
                return await run.wait_for("go", key="w")

            async def obeying(run: Run) -> Any:
                await asyncio.sleep(0.05)
                return await run.wait_for("never", key="v")

            assert await drive(kernel.for_tenant(), code, on_wait="suspend") == "waiting"
            head, stolen = kernel.store.head, list[int]()

            async def slow(stream: Any) -> Any:
                if not stolen:
                    stolen.append(1)
                    found = await head(stream)
                    await drive(other.for_tenant(), obeying, on_wait="suspend")
                    return found
                return await head(stream)

            kernel.store.head = slow  # type: ignore[method-assign]
            await kernel.for_tenant().signal("r", "go")
            kinds = [event.kind for event in await events(kernel)]
            assert stolen and kinds.count("signal.received") == 1

    play(scenario())


def test_each_loop_renews_leases_and_a_closed_loop_drives_nothing(tmp_path: Path) -> None:
    with open_kernel(tmp_path) as kernel:

        async def left() -> None:
            await kernel.run("r").__aenter__()

        loop = asyncio.new_event_loop()
        loop.run_until_complete(left())
        loop.close()

        async def scenario() -> None:
            kernel.keep_alive()
            renewing = kernel._renewing  # pyright: ignore[reportPrivateUsage]
            assert asyncio.get_running_loop() in renewing
            effect = await kernel.for_tenant().cancel("r")
            assert isinstance(effect, ev.RunCancelled)

        assert app.RENEW_S < 30
        play(scenario())


def test_a_run_that_goes_on_waiting_says_so(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()

            async def code(run: Run) -> Any:
                return (await run.approve("ok?", key="a")).decision

            work = asyncio.create_task(drive(runs, code))
            await has_status(runs, "waiting_approval")
            await runs.pause("r")
            await runs.resume("r")
            assert (await runs.show("r"))["status"] == "waiting_approval"
            await runs.approve("r")
            assert await work == "completed"

    play(scenario())


def test_results_have_ids_of_their_own_even_where_somebody_took_the_name(tmp_path: Path) -> None:
    assert result_id("r", "x/y") != result_id("r/x", "y")

    async def scenario() -> None:
        @tool(idempotent=True)
        async def big() -> str:
            """Big."""
            return "c" * 100_000

        with open_kernel(tmp_path, tools=[big]) as kernel:
            runs = kernel.for_tenant()
            mallory = runs.as_principal("mallory").artifacts
            await mallory.write("runs/v/t", kind="document", content="x")
            async with runs.run("v") as run:
                ref = (await run.step_tool("big", key="t")).ref
            assert ref is not None and ref.startswith("runs/v/t.")

    play(scenario())


def test_a_parent_of_another_tenant_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            async with kernel.run("p", tenant="a") as run:
                with pytest.raises(InvalidRequest):
                    async with kernel.run("c", tenant="b", parent=run):
                        pass

    play(scenario())

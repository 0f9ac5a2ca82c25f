"""The command `step`: a paused run goes on for one cycle, or one step of its own code, and holds again."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, Run, RunSuspended, tool
from artelier.agents import AutonomousAgent, Worker
from artelier.app import TenantKernel
from artelier.errors import Conflict, RunStopped
from artelier.kernel import RunCore
from artelier.kernel import events as ev
from artelier.log import Batch, Draft, StreamAppend, control_stream
from artelier.testing import ManualClock, ScriptedModel, tool_call
from tests.kernel.crashes import Death, Deaths
from tests.kernel.stage import (
    GateModel,
    World,
    ask,
    drive,
    echo,
    events,
    has_status,
    kinds,
    open_kernel,
    play,
    result_of,
    until,
)
from tests.kernel.stepper import CYCLES, cycles_of, looping
from tests.processes import run_warm


async def _after(runs: TenantKernel, cycles: int, run_id: str = "r") -> None:
    """Wait until a run is paused and has so many cycles."""

    async def so() -> bool:
        held = (await runs.show(run_id))["status"] == "paused"
        return held and await cycles_of(runs, run_id) == cycles

    await until(so, within_s=30)


async def _halted(runs: TenantKernel, gate: GateModel, run_id: str = "r", **opening: Any) -> Any:
    """A driven loop that is paused in its first cycle; the task that drives it."""
    work = asyncio.create_task(looping(runs, run_id, **opening))
    await gate.asked(f"{run_id} 1a")
    await runs.pause(run_id)
    for cycle in range(1, CYCLES + 1):
        for part in ("a", "b"):
            gate.answer(f"{run_id} {cycle}{part}")
    return work


async def _left_paused(runs: TenantKernel) -> None:
    """A loop that was paused before its first cycle, and that nobody drives."""
    with pytest.raises(RunSuspended):
        async with runs.run("r", loop="sample", on_wait="suspend"):
            await runs.pause("r")


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_paused_run_takes_one_cycle_and_is_paused_again_by_the_command(
    tmp_path: Path, elsewhere: bool
) -> None:
    async def scenario() -> None:
        gate = GateModel()
        with open_kernel(tmp_path, gate) as kernel, open_kernel(tmp_path) as other:
            runs = kernel.for_tenant()
            desk = (other if elsewhere else kernel).for_tenant()
            work = await _halted(runs, gate)
            effect = await desk.step("r", by="user:eve")
            assert isinstance(effect, ev.RunResumed) and effect.stepping and not effect.queued
            await _after(desk, 1)
            assert len(gate.requests) == 2
            pauses = [e for e in await events(kernel) if e.kind == "run.paused"]
            assert (pauses[-1].actor, pauses[-1].cause) == ("user:eve", "control:r@2")

            await desk.step("r")
            await _after(desk, 2)
            await desk.resume("r")
            assert await work == "completed"
            assert await result_of(runs) == CYCLES

    play(scenario(), within_s=90)


def test_a_run_that_ends_with_the_cycle_just_ends(tmp_path: Path) -> None:
    async def scenario() -> None:
        gate = GateModel()
        with open_kernel(tmp_path, gate) as kernel:
            runs = kernel.for_tenant()
            work = await _halted(runs, gate)
            for cycle in range(1, CYCLES):
                await runs.step("r")
                await _after(runs, cycle)
            await runs.step("r")
            assert await work == "completed"
            assert (await kinds(kernel))[-1] == "run.completed"
            with pytest.raises(Conflict):
                await runs.step("r")

    play(scenario(), within_s=90)


def test_a_hand_written_run_takes_one_step(tmp_path: Path) -> None:
    @tool(side_effect=False)
    def look() -> str:
        """Look."""
        return "seen"

    async def code(run: Run) -> Any:
        first = await ask(run, "a")
        second = await run.step("shout", str.upper, first)
        third = (await run.step_tool("look")).value
        return [first, second, third]

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[look]) as kernel:
            runs = kernel.for_tenant()
            async with runs.run("r") as run:

                async def paused() -> bool:
                    return run.core.paused

                await runs.pause("r")
                await until(paused)
                work = asyncio.create_task(code(run))
                for number in (1, 2):
                    await runs.step("r")
                    await has_status(runs, "paused")
                    steps = await runs.steps("r")
                    assert [step["status"] for step in steps] == ["completed"] * number
                await runs.step("r")
                run.finish(await work)
            assert await result_of(runs) == ["re: a", "RE: A", "seen"]

    play(scenario())


def test_a_run_at_work_holds_after_the_cycle_at_hand(tmp_path: Path) -> None:
    async def scenario() -> None:
        gate = GateModel()
        with open_kernel(tmp_path, gate) as kernel:
            runs = kernel.for_tenant()
            work = asyncio.create_task(looping(runs))
            await gate.asked("r 1a")
            await runs.step("r")
            for text in ("r 1a", "r 1b", "r 2a"):
                gate.answer(text)
            await _after(runs, 1)
            assert len(gate.requests) == 2
            await runs.cancel("r")
            await asyncio.gather(work, return_exceptions=True)
            assert (await runs.show("r"))["status"] == "cancelled"

    play(scenario(), within_s=60)


@pytest.mark.parametrize("on_wait", ["await", "suspend"])
def test_a_cancel_that_comes_with_the_hold_ends_the_run(tmp_path: Path, on_wait: str) -> None:
    """Both are obeyed in one go: after the pause there is nothing more that could wake the run."""

    async def scenario() -> None:
        gate = GateModel()
        with open_kernel(tmp_path, gate) as kernel:
            runs = kernel.for_tenant()
            work = asyncio.create_task(looping(runs, on_wait=on_wait))
            await gate.asked("r 1a")
            await runs.step("r")
            gate.answer("r 1a")
            await gate.asked("r 1b")
            command = Draft(ev.CommandGiven(verb="cancel"), 0, "user:eve")
            append = StreamAppend(control_stream("default", "r"), [command])
            await kernel.store.append(Batch(appends=[append]))
            gate.answer("r 1b")
            with pytest.raises(RunStopped):
                await work
            assert (await runs.show("r"))["status"] == "cancelled"
            said = [kind for kind in await kinds(kernel) if kind in ("run.paused", "run.cancelled")]
            assert said == ["run.paused", "run.cancelled"]

    play(scenario(), within_s=60)


def test_a_resume_or_a_pause_takes_the_step_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        gate = GateModel()
        with open_kernel(tmp_path, gate) as kernel:
            runs = kernel.for_tenant()
            work = asyncio.create_task(looping(runs))
            await gate.asked("r 1a")
            await runs.pause("r")
            await runs.step("r")
            await runs.pause("r")
            gate.answer("r 1a")
            await has_status(runs, "paused")
            assert (await cycles_of(runs), len(gate.requests)) == (0, 1)
            await runs.step("r")
            await gate.asked("r 1b")
            await runs.resume("r")
            for text in ("r 1b", "r 2a", "r 2b", "r 3a", "r 3b"):
                gate.answer(text)
            assert await work == "completed"

    play(scenario(), within_s=60)


def test_a_run_that_nobody_drives_keeps_the_mark_for_who_drives_it_next(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path, echo()) as kernel:
            runs = kernel.for_tenant()
            await _left_paused(runs)
        for cycle in (1, 2):
            with open_kernel(tmp_path, echo()) as kernel:
                runs = kernel.for_tenant()
                assert (await runs.show("r"))["status"] == "paused"
                effect = await runs.step("r")
                assert isinstance(effect, ev.RunResumed) and effect.queued
                assert (await runs.show("r"))["status"] == "pending"
            with open_kernel(tmp_path, echo()) as kernel:
                runs = kernel.for_tenant()
                assert await looping(runs, on_wait="suspend") == "paused"
                assert await cycles_of(runs) == cycle
                assert await looping(runs, on_wait="suspend") == "paused", "and stays so"
                assert await cycles_of(runs) == cycle

    play(scenario())


def test_a_worker_drives_a_stepped_agent_for_one_cycle(tmp_path: Path) -> None:
    @tool(side_effect=False)
    async def look() -> str:
        """Look."""
        if not looked:
            await kernel.for_tenant().pause("r")
        looked.append("x")
        return "seen"

    looked: list[str] = []
    model = ScriptedModel([*[tool_call("look", {})] * 2, "done"])

    async def scenario() -> None:
        agent = AutonomousAgent(kernel=kernel)
        await agent.run(run_id="r", model="m", prompt="look", on_wait="return")
        runs = kernel.for_tenant()
        worker = Worker(kernel, kernel.services)
        assert await worker.once() == 0, "a paused run is nobody's to drive"
        await runs.step("r")
        assert await worker.once() == 1
        assert ((await runs.show("r"))["status"], len(looked)) == ("paused", 2)
        await runs.step("r")
        assert await worker.once() == 1
        assert (await runs.show("r"))["status"] == "completed"

    with Kernel.open(tmp_path / "s.db", models=model, tools=[look]) as kernel:
        play(scenario())


# Children


async def _parent(runs: TenantKernel, run: Run) -> None:
    async def child(name: str) -> str:
        return await looping(runs, name, parent=run)

    await asyncio.gather(child("one"), child("two"))
    run.complete_cycle(1, {})
    await ask(run, "last")


def test_children_of_a_paused_parent_take_a_step_each(tmp_path: Path) -> None:
    async def scenario() -> None:
        gate = GateModel()
        with open_kernel(tmp_path, gate) as kernel:
            runs = kernel.for_tenant()

            async def code(run: Run) -> Any:
                await _parent(runs, run)

            work = asyncio.create_task(drive(runs, code, loop="sample"))
            for name in ("one", "two"):
                await gate.asked(f"{name} 1a")
            await runs.pause("r")
            for text in (f"{n} {c}{p}" for n in ("one", "two") for c in "123" for p in "ab"):
                gate.answer(text)
            for cycle in (1, 2):
                await runs.step("r")
                for name in ("one", "two"):
                    await _after(runs, cycle, name)
            await runs.step("r")
            await has_status(runs, "completed", "one")
            await has_status(runs, "completed", "two")
            await has_status(runs, "paused")
            assert "last" not in [request.messages[-1].text for request in gate.requests]
            gate.answer("last")
            await runs.resume("r")
            assert await work == "completed"

    play(scenario(), within_s=90)


def test_a_child_that_a_step_brings_takes_a_step_too(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = echo()
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant()

            ready = asyncio.Event()
            cores: list[RunCore] = []

            async def code(run: Run) -> Any:
                cores.append(run.core)
                await ready.wait()
                await _parent(runs, run)

            async def steps() -> bool:
                return bool(cores[0].stepping.command)

            work = asyncio.create_task(drive(runs, code, loop="sample"))
            await has_status(runs, "running")
            await runs.pause("r")
            await runs.step("r")
            await until(steps, within_s=30)
            ready.set()
            for name in ("one", "two"):
                await has_status(runs, "paused", name)
            for name in ("one", "two"):
                await _after(runs, 1, name)
            await runs.resume("r")
            assert await work == "completed"

    play(scenario(), within_s=60)


# Crashes


def test_a_death_at_any_instant_leaves_a_run_that_holds_after_the_one_cycle(tmp_path: Path) -> None:
    async def scenario() -> None:
        world, clock = World(), ManualClock()
        with open_kernel(tmp_path, echo(), clock=clock) as kernel:
            runs = kernel.for_tenant()
            await _left_paused(runs)
            await runs.step("r")
        deaths = Deaths(tmp_path / "s.db", world)
        with open_kernel(tmp_path, echo(), clock=clock, fault=deaths) as kernel:
            assert await looping(kernel.for_tenant(), on_wait="suspend") == "paused"
        assert len(deaths.found) > 5
        for death in deaths.found:
            await _holds(death)

    async def _holds(death: Death) -> None:
        clock = ManualClock()
        clock.advance(3600)
        with Kernel.open(death.path, models=echo(), clock=clock) as kernel:
            runs = kernel.for_tenant()
            assert await looping(runs, on_wait="suspend") == "paused", death
            assert await cycles_of(runs) == 1, death
            assert (await runs.show("r"))["status"] == "paused"

    play(scenario(), within_s=120)


@pytest.mark.slow
@pytest.mark.parametrize("point", ["model.before_request", "model.requested", "model.replied"])
def test_a_step_outlives_kill_9(tmp_path: Path, point: str) -> None:
    async def before() -> None:
        with open_kernel(tmp_path, echo()) as kernel:
            runs = kernel.for_tenant()
            await _left_paused(runs)
            await runs.step("r")

    async def after() -> None:
        with open_kernel(tmp_path, echo()) as kernel:
            runs = kernel.for_tenant()
            assert await cycles_of(runs) == 0
            assert await looping(runs, on_wait="suspend") == "paused"
            assert await cycles_of(runs) == 1
            await runs.resume("r")
            assert await looping(runs) == "completed"

    play(before())
    process = run_warm([sys.executable, "-m", "tests.kernel.stepper", str(tmp_path), point], timeout=90)
    assert process.returncode == -signal.SIGKILL
    play(after())

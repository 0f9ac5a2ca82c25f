"""What a process that dies leaves half done is finished by whoever looks next, and the log has no holes."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from artelier import ArtelierError, Kernel, Run, RunStopped, Tenant
from artelier.agents import Worker
from artelier.app import TenantKernel
from artelier.errors import Conflict, ModelRefusedCall
from tests.kernel.crashes import Deaths
from tests.kernel.stage import (
    PRICE,
    GateModel,
    World,
    all_others_are_dead,
    assert_conserved,
    drive,
    echo,
    open_kernel,
    play,
    user,
)


@pytest.mark.parametrize("by", ["worker", "command"])
def test_a_cancelled_run_and_its_children_are_finished_wherever_their_process_died(
    tmp_path: Path, by: str
) -> None:
    """The parent is cancelled, its child is only told, or has not given its money back; then the process is
    gone. Torture 911647736: who looked at the parent alone left the child's money held."""

    async def scenario() -> int:
        deaths, gate = Deaths(tmp_path / "s.db", World()), GateModel()
        gate.price = PRICE
        kernel = open_kernel(tmp_path, model=gate, fault=deaths)
        runs = kernel.for_tenant(Tenant("acme", budget_usd="1.00"))
        driven = asyncio.ensure_future(_family(runs))
        await gate.asked("child")
        await runs.cancel("r")
        await driven
        kernel.close()

        found = 0
        for death in deaths.found:
            kernel = Kernel.open(death.path, models=gate)
            all_others_are_dead(kernel)
            if (before := await _statuses(kernel)).get("r") == "cancelled":
                found += before.get("r/c") != "cancelled"
                if by == "worker":
                    await Worker(kernel, kernel.services).once()
                else:
                    with suppress(Conflict):  # it has ended
                        await kernel.for_tenant("acme").cancel("r")
                assert set((await _statuses(kernel)).values()) == {"cancelled"}, death
                await assert_conserved(kernel, "acme", held=0)
                assert not await kernel.store.query("SELECT 1 FROM leases")
            kernel.close()
        return found

    assert play(scenario()) >= 1, "no death came between the ends of parent and child"


def test_a_worker_obeys_a_command_whose_giver_died(tmp_path: Path) -> None:
    """An answer was recorded, nobody drove the run, and who gave it died before it took effect."""

    async def scenario() -> int:
        deaths = Deaths(tmp_path / "s.db", World())
        kernel = open_kernel(tmp_path, fault=deaths)
        runs = kernel.for_tenant()

        async def code(run: Run) -> Any:
            return bool(await run.approve("go?"))

        assert await drive(runs, code, on_wait="suspend") == "waiting_approval"
        first = len(deaths.found)
        await runs.approve("r")
        kernel.close()

        unread = 0
        for death in deaths.found[first:]:
            kernel = Kernel.open(death.path)
            given = await kernel.store.query("SELECT 1 FROM controls")
            status = (await _statuses(kernel))["r"]
            unread += bool(given) and status == "waiting_approval"
            await Worker(kernel, kernel.services).once()
            assert (await _statuses(kernel))["r"] == ("pending" if given else status)
            kernel.close()
        return unread

    assert play(scenario()) >= 1, "no death came between a command and its effect"


def test_a_run_that_failed_while_it_waited_says_again_what_it_waits_for(tmp_path: Path) -> None:
    async def waits(run: Run) -> Any:
        return await run.wait_for("go")

    async def other(run: Run) -> Any:
        return await run.sleep(1, key="1")

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, waits, on_wait="suspend") == "waiting"
            assert await drive(runs, other) == "failed: replay_mismatch"
            await runs.retry("r")
            assert await drive(runs, waits, on_wait="suspend") == "waiting"
            await runs.signal("r", "go", 5)
            assert (await runs.show("r"))["status"] == "pending", "nobody would drive it"
            assert await drive(runs, waits) == "completed"

    play(scenario())


def test_messages_of_a_request_that_was_asked_again_are_numbered_once(tmp_path: Path) -> None:
    """Asked, broken off, asked again by another process, which dies: its messages have their numbers."""

    async def scenario() -> int:
        model, deaths, fails = echo(), Deaths(tmp_path / "s.db", World()), [True]

        async def code(run: Run) -> Any:
            conversation = run.conversation()
            conversation.append(user("a"))
            said = await run.step_model(model="m", messages=conversation, key="c1")
            conversation.append(said)
            run.complete_cycle(1, {})
            if fails[0]:
                raise RuntimeError("broken off")
            return (await run.step_model(model="m", messages=conversation, key="c2")).text

        class Fails:
            price = PRICE

            async def complete(self, request: Any, /) -> Any:
                raise ModelRefusedCall("no answer")

        with open_kernel(tmp_path, model=Fails()) as kernel:
            assert (await drive(kernel.for_tenant(), code)).startswith("failed")
            await kernel.for_tenant().retry("r")
        with open_kernel(tmp_path, model=model, fault=deaths) as kernel:
            with suppress(RuntimeError):
                await drive(kernel.for_tenant(), code)
        fails[0] = False

        asked = 0
        for death in deaths.found:
            with Kernel.open(death.path, models={"m": model}) as kernel:
                all_others_are_dead(kernel)
                runs = kernel.for_tenant()
                rows = await kernel.store.query(
                    "SELECT count(*) FROM events WHERE kind = ?", ("model.requested",)
                )
                if await kernel.store.query("SELECT 1 FROM snapshots"):
                    continue  # a loop would go on from there
                asked += rows[0][0] == 2
                with suppress(ArtelierError):
                    await runs.retry("r")
                assert await drive(runs, code) == "completed", death
                for step in ("c1", "c2"):
                    assert (await runs.render("r", step)).messages[0].text == "a"
        return asked

    assert play(scenario()) >= 1, "no death came while it was asked again"


async def _family(runs: TenantKernel) -> None:
    async def code(run: Run) -> Any:
        async with runs.run("r/c", parent=run) as child:
            await child.step_model(model="m", messages=[user("child")], max_output_tokens=5)

    with suppress(RunStopped, ArtelierError):
        await drive(runs, code, "r")


async def _statuses(kernel: Kernel) -> dict[str, str]:
    return dict(await kernel.store.query("SELECT run, status FROM runs"))

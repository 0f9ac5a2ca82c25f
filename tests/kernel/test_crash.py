"""A process may die at any instant: what was recorded is never done again, and the run ends the same."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, ModelReply, ModelRequest, Run, RunSuspended, ToolContext, tool
from artelier.app import TenantKernel
from artelier.errors import ToolFailed
from artelier.ports.model import Usage
from artelier.testing import ManualClock, ScriptedModel
from tests.kernel.crashes import Death, Deaths
from tests.kernel.stage import ACME, EAGER, PRICE, World, ask, assert_conserved, last, play, result_of
from tests.processes import run_warm


def _answer(request: ModelRequest) -> ModelReply:
    return ModelReply(text=f"re: {last(request)}", usage=Usage(input_tokens=9, output_tokens=5))


def _tools(world: World) -> list[Any]:
    @tool(side_effect=False)
    async def look(at: str) -> dict[str, Any]:
        """Look."""
        world.done.append(f"look {at}")
        return {"at": at, "rows": ["x" * 50]}

    @tool(side_effect=True)
    async def pay(amount: int, ctx: ToolContext) -> str:
        """Pay."""
        world.done.append(f"pay {ctx.idempotency_key}")
        return f"paid {amount}"

    @tool(side_effect=True, probe=lambda key, _: _probe(world, f"send {key}"))
    async def send(text: str, ctx: ToolContext) -> str:
        """Send."""
        world.done.append(f"send {ctx.idempotency_key}")
        return "sent"

    return [look, pay, send]


def _probe(world: World, deed: str) -> str:
    if deed not in world.done:
        raise ToolFailed("nothing was sent")
    return "sent"


async def _everything(run: Run) -> Any:
    """A run with every kind of step, some side by side."""
    conversation = run.conversation()
    conversation.append({"role": "user", "content": "go"})
    first = await run.step_model(model="m", messages=conversation)
    conversation.append(first)
    looked = await run.step_tool("look", {"at": "moon"})
    bad = await run.step_tool("look", {"to": "moon"})

    async def branch(name: str) -> list[Any]:
        said = await ask(run, f"branch {name}")
        paid = await run.step_tool("pay", {"amount": len(name)})
        return [said, paid.value]

    both = await run.gather(branch("a"), branch("bb"))
    count = await run.step("count", lambda values: len(values), both)
    sent = await run.step_tool("send", {"text": "done"}, key="send")
    if sent.is_error:  # the probe found after a crash that nothing had been sent
        sent = await run.step_tool("send", {"text": "done"}, key="send again")
    conversation.append({"role": "user", "content": "and?"})
    pieces = [item async for item in run.stream_model(model="m", messages=conversation.tail(2))]
    return [first.text, looked.value["at"], bad.is_error, both, count, sent.is_error, pieces[-1].text]


def _open(path: Path, world: World, clock: ManualClock, fault: Any = None) -> Kernel:
    model = ScriptedModel(_answer, price=PRICE)
    return Kernel.open(path, models=model, tools=_tools(world), policy=EAGER, clock=clock, fault=fault)


async def _drive_to_the_end(
    kernel: Kernel, runs: TenantKernel, world: World, code: Callable[[Run], Any] = _everything
) -> Any:
    """Resume until the run ends; a person settles what is unknown by looking at the world."""
    while True:
        try:
            async with runs.run("r") as run:
                if run.status != "completed":
                    run.finish(await code(run))
            return await result_of(runs)
        except RunSuspended as suspended:
            assert suspended.status == "unknown_outcome"
        for step in (await runs.show("r"))["unknown_outcomes"]:
            if f"pay acme/r:{step}" in world.done:
                await runs.reconcile("r", step, succeeded=f"paid {1 if '/0/' in step else 2}")
            else:
                await runs.reconcile("r", step, retry=True)


async def _recorded(runs: TenantKernel) -> set[str]:
    return {s["key"] for s in await runs.steps("r") if s["status"] == "completed"}


async def _resume(death: Death, expected: Any) -> None:
    world, done = death.world, list(death.world.done)
    clock = ManualClock()
    clock.advance(3600)  # the dead process's lease has expired
    kernel = _open(death.path, world, clock)
    model: Any = kernel.models.resolve("m").port
    runs = kernel.for_tenant(ACME)
    exists = bool((await runs.runs())["items"])
    recorded = await _recorded(runs) if exists else set[str]()

    assert await _drive_to_the_end(kernel, runs, world) == expected, death

    # I4: nothing that was recorded was done again; a side effect happened exactly once.
    asked = [last(request) for request in model.requests]
    expected_calls = {"1": "go", "4/0/1": "branch a", "4/1/1": "branch bb", "6": "and?"}
    assert sorted(asked) == sorted(t for k, t in expected_calls.items() if k not in recorded), death
    new = world.done[len(done) :]
    assert ("look moon" in new) == ("2" not in recorded), death
    for deed in ("pay acme/r:4/0/2", "pay acme/r:4/1/2"):
        assert world.done.count(deed) == 1, death
    assert len([deed for deed in world.done if deed.startswith("send")]) == 1, death
    await assert_conserved(kernel, "acme")
    for key in expected_calls:
        assert (await runs.render("r", key)).messages
    kernel.close()


def test_a_run_that_dies_at_any_instant_ends_the_same_and_does_nothing_twice(tmp_path: Path) -> None:
    async def scenario() -> None:
        world, clock = World(), ManualClock()
        deaths = Deaths(tmp_path / "s.db", world)
        kernel = _open(tmp_path / "s.db", world, clock, deaths)
        runs = kernel.for_tenant(ACME)
        expected = await _drive_to_the_end(kernel, runs, world)
        kernel.close()

        points = {death.point for death in deaths.found}
        assert points >= {"commit.before", "commit.after", "tool.returned"}
        assert len(deaths.found) > 15
        for death in deaths.found:
            await _resume(death, expected)

    play(scenario(), within_s=60)


def test_a_death_during_the_resume_after_a_death_changes_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        world, clock = World(), ManualClock()
        deaths = Deaths(tmp_path / "s.db", world, skip=("commit.before", "commit.after"))
        with _open(tmp_path / "s.db", world, clock, deaths) as kernel:
            expected = await _drive_to_the_end(kernel, kernel.for_tenant(ACME), world)
        middle = deaths.found[len(deaths.found) // 2]

        clock.advance(3600)
        again = Deaths(middle.path, middle.world, skip=("commit.before",))
        with _open(middle.path, middle.world, clock, again) as kernel:
            await _drive_to_the_end(kernel, kernel.for_tenant(ACME), middle.world)
        for death in again.found:
            await _resume_later(death, expected)

    async def _resume_later(death: Death, expected: Any) -> None:
        clock = ManualClock()
        clock.advance(7200)
        with _open(death.path, death.world, clock) as kernel:
            runs = kernel.for_tenant(ACME)
            assert await _drive_to_the_end(kernel, runs, death.world) == expected
            assert all(death.world.done.count(deed) == 1 for deed in death.world.done if "pay" in deed)
            await assert_conserved(kernel, "acme")

    play(scenario(), within_s=60)


def test_a_decision_to_retry_holds_for_one_dispatch_only(tmp_path: Path) -> None:
    """After `reconcile(retry=True)` a crash makes the outcome unknown again: one dispatch per decision."""

    async def code(run: Run) -> Any:
        return (await run.step_tool("pay", {"amount": 1})).value

    async def scenario() -> None:
        world, clock = World(), ManualClock()
        deaths = Deaths(tmp_path / "s.db", world, skip=("commit.before", "commit.after"))
        with _open(tmp_path / "s.db", world, clock, deaths) as kernel:
            await _drive_to_the_end(kernel, kernel.for_tenant(ACME), world, code)
        dead = next(d for d in deaths.found if d.point == "tool.returned")
        assert dead.world.done == ["pay acme/r:1"]

        clock.advance(3600)
        again = Deaths(dead.path, dead.world, skip=("commit.before", "commit.after"))
        with _open(dead.path, dead.world, clock, again) as kernel:
            runs = kernel.for_tenant(ACME)
            with pytest.raises(RunSuspended):
                async with runs.run("r") as run:
                    await code(run)
            await runs.reconcile("r", "1", retry=True)
            async with runs.run("r") as run:
                run.finish(await code(run))
        assert dead.world.done == ["pay acme/r:1"] * 2

        died_again = next(d for d in again.found if d.point == "tool.returned")
        clock.advance(3600)
        with _open(died_again.path, died_again.world, clock) as kernel:
            runs = kernel.for_tenant(ACME)
            with pytest.raises(RunSuspended) as suspended:
                async with runs.run("r") as run:
                    await code(run)
            assert suspended.value.status == "unknown_outcome"
            assert died_again.world.done == ["pay acme/r:1"] * 2

    play(scenario())


_PROGRAM = """
import asyncio, os, sys
from artelier import Kernel, ToolContext, tool
from artelier.testing import ScriptedModel

folder, point, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
seen = 0

def fault(at):
    global seen
    if at == point:
        seen += 1
        if seen == number:
            os._exit(9)

def note(line):
    with open(folder + "/outside.txt", "a") as file:
        file.write(line + "\\n")

@tool(side_effect=True)
async def pay(amount: int, ctx: ToolContext) -> str:
    "Pay."
    note("pay " + ctx.idempotency_key)
    return "paid"

def answer(request):
    note("ask " + request.messages[-1].text)
    return "re"

async def main():
    kernel = Kernel.open(folder + "/s.db", models=ScriptedModel(answer), tools=[pay], fault=fault)
    async with kernel.run("r") as run:
        for text in ("a", "b"):
            await run.step_model(model="m", messages=[{"role": "user", "content": text}])
            await run.step_tool("pay", {"amount": 1})
        run.finish("done")
    kernel.close()

asyncio.run(main())
"""


def _run_program(folder: Path, point: str = "never", number: int = 0) -> int:
    command = [sys.executable, "-c", _PROGRAM, str(folder), point, str(number)]
    return run_warm(command, env=dict(os.environ), timeout=60, check=False).returncode


@pytest.mark.parametrize(
    ("point", "number", "unknown"),
    [("commit.before", 3, False), ("tool.returned", 1, True), ("run.ending", 1, False)],
)
def test_a_killed_process_is_resumed_by_the_next_one(
    tmp_path: Path, point: str, number: int, unknown: bool
) -> None:
    """With real processes: the lease of a process that is gone is free at once."""
    assert _run_program(tmp_path, point, number) == 9

    async def settle() -> None:
        with Kernel.open(tmp_path / "s.db") as kernel:
            await kernel.for_tenant().reconcile("r", "2", succeeded="paid")

    if unknown:
        assert _run_program(tmp_path) == 1
        asyncio.run(settle())
    assert _run_program(tmp_path) == 0

    lines = (tmp_path / "outside.txt").read_text().splitlines()
    assert lines.count("pay default/r:2") == lines.count("pay default/r:4") == 1
    assert {"ask a", "ask b"} <= set(lines)
    if point != "commit.before":
        assert lines.count("ask a") == lines.count("ask b") == 1

    async def check() -> None:
        with Kernel.open(tmp_path / "s.db") as kernel:
            assert await result_of(kernel.for_tenant()) == "done"

    asyncio.run(check())

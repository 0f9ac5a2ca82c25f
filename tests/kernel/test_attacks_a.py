"""Attacks that once succeeded: unrecorded failures, answers out of time, refusals that left holds."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, Run, RunSuspended, tool
from artelier.errors import Conflict, NotFound, StepConflict
from artelier.kernel.steps.failures import RecordedError
from artelier.testing import ManualClock
from tests.kernel.stage import ACME, PRICE, ask, echo, play


class Outage(OSError):
    """An exception of the user's own."""


@pytest.mark.parametrize(
    ("raised", "caught"),
    [
        (ValueError("down"), ValueError),
        (KeyError("rate"), KeyError),
        (Outage("no route"), OSError),
        (type("Odd", (Exception,), {})("odd"), RecordedError),
    ],
)
def test_a_failed_computation_fails_alike_ever_after(
    tmp_path: Path, raised: Exception, caught: type[Exception]
) -> None:
    attempts = 0
    paid: list[str] = []

    @tool(side_effect=True)
    async def pay(to: str) -> str:
        """Pay."""
        paid.append(to)
        return to

    def fetch() -> str:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise raised
        return "primary"

    async def code(run: Run) -> None:
        try:
            account = await run.step("fetch", fetch, key="fetch")
        except caught:
            account = "fallback"
        await run.step_tool("pay", {"to": account}, key="pay")
        await run.wait_for("go", key="go")

    async def scenario() -> None:
        with Kernel.open(tmp_path / "state.db", tools=[pay]) as kernel:
            for _ in range(2):
                with pytest.raises(RunSuspended):
                    async with kernel.run("r", on_wait="suspend") as run:
                        await code(run)

    play(scenario())
    assert (attempts, paid) == (1, ["fallback"])


def test_an_expired_question_takes_no_answer(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        with Kernel.open(tmp_path / "state.db", clock=clock) as kernel:
            desk = kernel.for_tenant()
            with pytest.raises(RunSuspended):
                async with kernel.run("r", on_wait="suspend") as run:
                    await run.approve("pay?", expires_s=5)
            clock.advance(6)
            with pytest.raises(Conflict):
                await desk.approve("r")
            async with kernel.run("r", on_wait="suspend") as run:
                approval = await run.approve("pay?", expires_s=5)
            assert approval.decision == "expired"

    play(scenario())


def test_a_cancelled_run_asks_nobody_any_more(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Kernel.open(tmp_path / "state.db") as kernel:
            with pytest.raises(RunSuspended):
                async with kernel.run("r", on_wait="suspend") as run:
                    await run.approve("pay?")
            await kernel.for_tenant().cancel("r")
            assert await kernel.for_tenant().approvals() == []
            with pytest.raises(NotFound):
                await kernel.for_tenant().approve("r")

    play(scenario())


def test_an_explicit_key_cannot_take_the_number_of_a_branch(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Kernel.open(tmp_path / "state.db") as kernel:
            async with kernel.run("r") as run:
                await run.branch("a").step("one", lambda: 1)
                with pytest.raises(StepConflict):
                    await run.step("two", lambda: 2, key="a/1")
                await run.step("three", lambda: 3, key="a/0")

    play(scenario())


def test_giving_up_on_a_call_that_is_refused_harms_nothing_else(tmp_path: Path) -> None:
    async def code(run: Run) -> Any:
        try:
            async with asyncio.timeout(0.05):
                return await ask(run, "dear " * 2000, key="dear", max_output_tokens=4_000_000)
        except TimeoutError:
            return await run.step("cheap", lambda: "went on", key="cheap")

    async def scenario() -> None:
        model = echo(price=PRICE)
        with Kernel.open(tmp_path / "state.db", models={"m": model}) as kernel:
            try:
                async with kernel.run("r", tenant=ACME) as run:
                    run.finish(await code(run))
            except RunSuspended as suspended:
                assert suspended.status == "budget_exhausted"
            shown = await kernel.for_tenant("acme").show("r")
            assert shown["status"] in ("completed", "budget_exhausted")
            assert (await kernel.tenants.show("acme"))["held_usd"] == "0.00"

    play(scenario())

"""What the code cancels is an outcome; what interrupts the drive never is one."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from artelier import Limits, ModelReply, ModelRequest, Run
from artelier.errors import InvalidRequest, ReplayMismatch
from artelier.testing import ManualClock, ScriptedModel
from tests.determinism.programs import ask
from tests.kernel.stage import (
    ACME,
    PRICE,
    GateModel,
    assert_conserved,
    events,
    kinds,
    open_kernel,
    play,
    result_of,
    until,
    user,
)


async def _one(run: Run) -> str:
    return await ask(run, "a")


async def _with_a_step_in_a_finally(run: Run) -> str:
    try:
        return await ask(run, "a")
    finally:
        await run.step("cleanup", lambda: 1, key="cleanup")


async def _in_a_task(run: Run) -> str:
    return await asyncio.ensure_future(ask(run, "a"))


async def _in_a_gather(run: Run) -> str:
    return (await asyncio.gather(ask(run, "a"), run.sleep(60, key="nap")))[0]


@pytest.mark.parametrize(
    "code", [_one, _with_a_step_in_a_finally, _in_a_task, _in_a_gather], ids=lambda c: c.__name__
)
def test_interrupting_the_drive_is_no_outcome_and_the_step_is_asked_again(tmp_path: Path, code: Any) -> None:
    async def scenario() -> None:
        first, second = GateModel(), GateModel()
        with open_kernel(tmp_path, first) as kernel:

            async def drive() -> None:
                async with kernel.run("r", tenant=ACME) as run:
                    run.finish(await code(run))

            driving = asyncio.ensure_future(drive())
            await first.asked("a")
            driving.cancel()
            await asyncio.wait((driving,))
            assert driving.cancelled()
            found = await kinds(kernel, tenant="acme")
            assert not {"step.cancelled", "step.timed_out"} & set(found)
            assert (await kernel.for_tenant(ACME).show("r"))["status"] in ("pending", "waiting")
            await assert_conserved(kernel, "acme")
        clock = ManualClock(start_us=4_000_000_000_000_000)
        with open_kernel(tmp_path, second, clock=clock) as kernel:
            second.answer("a")
            async with kernel.run("r", tenant=ACME) as run:
                run.finish(await code(run))
            assert await result_of(kernel.for_tenant(ACME)) == "re: a"
            assert len(second.requests) == 1

    play(scenario())


def test_a_cancellation_is_an_outcome_as_soon_as_the_code_goes_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = GateModel()
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant(ACME)
            async with runs.run("r") as run:
                asked = asyncio.ensure_future(ask(run, "a"))
                await model.asked("a")
                asked.cancel()
                await asyncio.wait((asked,))
                assert "step.cancelled" not in await kinds(kernel, tenant="acme")
                asked = asyncio.ensure_future(ask(run, "b"))
                await model.asked("b")
                found = await kinds(kernel, tenant="acme")
                assert found.index("step.cancelled") < len(found) - found[::-1].index("model.requested")
                model.answer("b")
                await asked
            steps = {step["key"]: step["status"] for step in await runs.steps("r")}
            assert steps == {"a": "cancelled", "b": "completed"}

    play(scenario())


def test_code_that_does_not_cancel_what_it_cancelled_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("artelier.kernel.run.delivery.CANCEL_PATIENCE_S", 0.0)

    async def cancels(run: Run) -> str:
        async for _ in run.stream_model(model="m", messages=[user("x")], key="a"):
            break
        return "left"

    async def waits(run: Run) -> str:
        return (await run.step_model(model="m", messages=[user("x")], key="a")).text

    async def scenario() -> None:
        with open_kernel(tmp_path, ScriptedModel(["one two three four five"])) as kernel:
            async with kernel.run("r") as run:
                run.finish(await cancels(run))
            with pytest.raises(ReplayMismatch, match="does not cancel it now"):
                await kernel.for_tenant().replay("r", waits)

    play(scenario())


def test_a_task_that_is_left_behind_takes_no_more_steps(tmp_path: Path) -> None:
    async def code(run: Run) -> str:
        async def stray() -> None:
            try:
                await ask(run, "stray")
            finally:
                await ask(run, "more")

        kept.append(asyncio.ensure_future(stray()))
        return await ask(run, "a")

    kept: list[asyncio.Task[None]] = []

    async def scenario() -> None:
        model = GateModel()
        model.answer("a")
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant(ACME)
            async with runs.run("r") as run:
                run.finish(await code(run))
            steps = {step["key"]: step["status"] for step in await runs.steps("r")}
            assert steps == {"a": "completed", "stray": "cancelled"}
            await until(lambda: _is_done(kept[0]))
            assert type(kept[0].exception()).__name__ == "RunEnded"
            await assert_conserved(kernel, "acme")

    async def _is_done(task: asyncio.Task[None]) -> bool:
        return task.done()

    play(scenario())


def test_a_durable_timeout_counts_from_when_it_began_whatever_happened_meanwhile(tmp_path: Path) -> None:
    async def code(run: Run) -> str:
        try:
            async with run.timeout(60):
                return await ask(run, "a")
        except TimeoutError:
            return "late"

    async def scenario() -> None:
        start_us = 4_000_000_000_000_000
        model = GateModel()
        with open_kernel(tmp_path, model, clock=ManualClock(start_us=start_us)) as kernel:

            async def drive() -> None:
                async with kernel.run("r") as run:
                    run.finish(await code(run))

            driving = asyncio.ensure_future(drive())
            await model.asked("a")
            driving.cancel()
            await asyncio.wait((driving,))
        later = ManualClock(start_us=start_us + 61_000_000)
        with open_kernel(tmp_path, model, clock=later) as kernel:
            runs = kernel.for_tenant()
            async with runs.run("r") as run:
                run.finish(await code(run))
            assert await result_of(runs) == "late"
            assert (await runs.replay("r", code)).result == "late"

    play(scenario())


def test_a_durable_race_keeps_its_winner_whatever_the_outside_does_later(tmp_path: Path) -> None:
    class Slower:
        """Answers `a` at once in the first process, never in the second."""

        price = None

        def __init__(self, *, is_slow: bool) -> None:
            self.is_slow = is_slow

        async def complete(self, request: ModelRequest, /) -> ModelReply:
            text = request.messages[-1].text
            if (text == "a") is self.is_slow:
                await asyncio.Event().wait()
            return ModelReply(text=f"re: {text}")

    async def code(run: Run) -> Any:
        index, text = await run.first(ask(run, "a"), ask(run, "b"))
        return [index, text, (await run.approve("go on?", key="q")).decision]

    async def scenario() -> None:
        from artelier import RunSuspended
        from tests.kernel.stage import PRICE

        with open_kernel(tmp_path, Slower(is_slow=False), prices={"m": PRICE}) as kernel:
            with pytest.raises(RunSuspended):
                async with kernel.run("r", on_wait="suspend") as run:
                    run.finish(await code(run))
            await kernel.for_tenant().approve("r", "q", by="ana")
        with open_kernel(tmp_path, Slower(is_slow=True), prices={"m": PRICE}) as kernel:
            async with kernel.run("r") as run:
                run.finish(await code(run))
            assert await result_of(kernel.for_tenant()) == [0, "re: a", "approve"]

    play(scenario())


@pytest.mark.parametrize("seconds", [-1, float("nan"), "x", None, True])
def test_a_durable_timeout_of_no_length_is_refused(tmp_path: Path, seconds: Any) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            async with kernel.run("r") as run:
                with pytest.raises(InvalidRequest):
                    run.timeout(seconds)
                with pytest.raises(InvalidRequest):
                    await run.first()

    play(scenario())


def test_a_loser_whose_request_a_limit_refuses_keeps_its_place_and_the_race_replays(tmp_path: Path) -> None:
    """It is cancelled on its way into the log, and the code goes on before the refusal is known."""

    async def code(run: Run, other: sqlite3.Connection | None) -> Any:
        async def cheap() -> int:
            if other is not None:
                await asyncio.sleep(0.1)  # the request stands in the queue of the writer
            return 1

        if other is not None:
            other.execute("BEGIN IMMEDIATE")
        found = await run.first(ask(run, "dear"), run.step("cheap", cheap))
        told = await run.step("told", lambda: list(found))
        if other is not None:
            other.rollback()
        return [*found, told, await run.step("then", lambda: 2)]

    async def scenario() -> None:
        with (
            open_kernel(tmp_path, prices={"m": PRICE}) as kernel,
            closing(sqlite3.connect(tmp_path / "s.db", isolation_level=None)) as other,
        ):
            runs = kernel.for_tenant()
            async with runs.run("r", limits=Limits(usd="0.000001")) as run:
                run.finish(await code(run, other))
            (cut,) = [one.decode() for one in await events(kernel) if one.kind == "step.cancelled"]
            assert cut.late == 3, "it stands behind `cheap`, before the race's own outcome"
            again = await asyncio.wait_for(runs.replay("r", lambda run: code(run, None)), 20)
            assert again.result == await result_of(runs) == [1, 1, [1, 1], 2]

    play(scenario())

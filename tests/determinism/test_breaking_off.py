"""What breaks a drive off wins no race, and what is cancelled because of it has no outcome."""

from __future__ import annotations

import asyncio
import shutil
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from artelier import Limits, ModelReply, ModelRequest, Price, Run, RunSuspended
from tests.kernel.stage import PRICE, ask, drive, kinds, last, open_kernel, play, result_of


def test_a_piece_that_a_limit_stops_has_not_won_the_race(tmp_path: Path) -> None:
    async def code(run: Run) -> Any:
        await ask(run, "before")
        return await run.first(ask(run, "a"), ask(run, "b"))

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code, limits=Limits(steps=1)) == "budget_exhausted"
            assert "step.completed" not in await kinds(kernel), "a suspension has won"
            await runs.limit("r", unit="steps", cap=None)
            assert await drive(runs, code) == "completed"
            assert await result_of(runs) in ([0, "re: a"], [1, "re: b"])
            assert (await runs.replay("r", code)).model_calls == 0

    play(scenario())


def test_work_goes_on_beside_a_piece_of_a_race_that_is_suspended(tmp_path: Path) -> None:
    async def code(run: Run) -> Any:
        index, found = await run.first(run.approve("go on?"), ask(run, "b"))
        return [index, found, await ask(run, "and now?")]

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code, on_wait="suspend") == "completed"
            assert await result_of(runs) == [1, "re: b", "re: and now?"]
            statuses = [step["status"] for step in await runs.steps("r")]
            assert sorted(statuses) == ["cancelled", "completed", "completed", "completed"]
            assert (await runs.replay("r", code)).result == await result_of(runs)

    play(scenario())


def test_a_race_whose_pieces_are_all_suspended_waits_with_them(tmp_path: Path) -> None:
    async def code(run: Run) -> Any:
        index, answer = await run.first(run.approve("this?", key="this"), run.approve("that?", key="that"))
        return [index, answer.decision]

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code, on_wait="suspend") == "waiting_approval"
            (asked,) = [step["key"] for step in await runs.steps("r") if "that" in step["key"]]
            await runs.approve("r", asked, by="ana")
            assert await drive(runs, code, on_wait="suspend") == "completed"
            assert await result_of(runs) == [1, "approve"]
            assert (await runs.replay("r", code)).result == await result_of(runs)

    play(scenario())


def test_what_code_cancels_because_the_drive_is_suspended_has_no_outcome(tmp_path: Path) -> None:
    """Another outcome is recorded before the drive ends: it showed that the code goes on."""

    async def code(run: Run, other: asyncio.Event) -> Any:
        await ask(run, "before")

        async def race() -> str:
            slow = run.step("slow", asyncio.Event().wait, key="slow")
            tasks = [asyncio.ensure_future(work) for work in (slow, ask(run, "a", key="a"))]
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                other.set()
            return done.pop().result()

        return await run.gather(race(), run.step("other", other.wait, key="other"))

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            other = asyncio.Event()
            stopped = await drive(runs, lambda run: code(run, other), limits=Limits(steps=1))
            assert stopped == "budget_exhausted"
            found = await kinds(kernel)
            assert "step.completed" in found, "what is beside it goes on"
            assert not {"step.cancelled", "step.timed_out"} & set(found)

    play(scenario())


def test_a_refused_request_is_not_counted_in_the_places_of_cancellations(tmp_path: Path) -> None:
    """A replay looks for a cancellation by how many requests and outcomes were recorded before it."""

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            with pytest.raises(RunSuspended):
                async with runs.run("r", limits=Limits(steps=1)) as run:
                    await ask(run, "fits")
                    before = run.core.writer.count
                    try:
                        await ask(run, "does not fit")
                    finally:
                        assert run.core.writer.count == before
            assert (await kinds(kernel)).count("model.requested") == 1

    play(scenario())


def test_a_request_that_is_refused_while_a_call_is_taken_back_has_no_place(tmp_path: Path) -> None:
    """The place of a cancellation is counted back from where it is recorded, behind what is in the log."""
    raced = asyncio.Event()

    class Model:
        price: Price | None = PRICE

        async def complete(self, request: ModelRequest, /) -> ModelReply:
            if last(request) == "slow":
                await asyncio.Event().wait()
            return ModelReply(text=f"re: {last(request)}")

    async def code(run: Run, *, is_interrupted: bool) -> Any:
        tasks = [
            asyncio.ensure_future(ask(run, "slow", key="slow")),
            asyncio.ensure_future(run.step("look", lambda: asyncio.sleep(0.2, "seen"), key="look")),
        ]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if is_interrupted:
            raced.set()
            await asyncio.Event().wait()
        await run.step("tell", lambda: "told", key="tell")
        await asyncio.sleep(0.01)  # that is on its way into the log, and a call is taken back behind it
        tasks[0].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return await ask(run, "after", key="after")

    def wait(point: str) -> None:
        if point == "commit.before":  # what is queued is not decided at once
            time.sleep(0.2)

    async def scenario() -> None:
        (tmp_path / "dead").mkdir()
        with open_kernel(tmp_path, Model()) as kernel:
            first = asyncio.ensure_future(
                drive(kernel.for_tenant(), lambda run: code(run, is_interrupted=True))
            )
            await raced.wait()
            while "step.completed" not in await kinds(kernel):
                await asyncio.sleep(0.01)
            for file in tmp_path.glob("s.db*"):  # what a kill leaves at this instant
                shutil.copy(file, tmp_path / "dead")
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
        with open_kernel(tmp_path / "dead", Model(), fault=wait) as kernel:
            kernel.services.is_dead = lambda holder: True
            runs = kernel.for_tenant()
            await runs.limit("r", unit="steps", cap=0)
            again = partial(code, is_interrupted=False)
            assert await drive(runs, again) == "budget_exhausted"
            assert "step.cancelled" in await kinds(kernel)
            await runs.limit("r", unit="steps", cap=None)
            assert await drive(runs, again) == "completed"
            assert await result_of(runs) == "re: after"

    play(scenario())

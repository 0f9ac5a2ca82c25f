"""Outcomes that people decide while other steps are at work keep their place in the order."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from artelier import Run, tool
from tests.kernel.stage import drive, open_kernel, play, result_of


def test_a_call_made_again_by_decision_waits_for_no_outcome_that_waits_for_it(tmp_path: Path) -> None:
    """The decision is recorded before a step beside it ends; each waited for the other, for ever."""

    async def scenario() -> None:
        looking = asyncio.Event()
        paid: list[int] = []

        @tool(side_effect=False)
        async def look() -> str:
            """Look."""
            await looking.wait()
            return "seen"

        @tool(side_effect=True)
        async def pay() -> str:
            """Pay."""
            paid.append(1)
            if len(paid) == 1:
                raise RuntimeError("the line went dead")
            return "paid"

        async def code(run: Run) -> Any:
            async def one(branch: Run) -> Any:
                return (await branch.step_tool("look")).value

            async def other(branch: Run) -> Any:
                return (await branch.step_tool("pay")).value

            return await run.gather(one, other)

        with open_kernel(tmp_path, tools=[look, pay]) as kernel:
            runs = kernel.for_tenant()

            async def recorded(kind: str) -> bool:
                sql = "SELECT 1 FROM events WHERE kind = ? LIMIT 1"
                return bool(await kernel.store.query(sql, (kind,)))

            first = asyncio.create_task(drive(runs, code, on_wait="suspend"))
            while not await recorded("tool.unresolved"):
                await asyncio.sleep(0)
            (step,) = (await runs.show("r"))["unknown_outcomes"]
            deciding = asyncio.create_task(runs.reconcile("r", step, retry=True))
            while not await recorded("tool.reconciled"):
                await asyncio.sleep(0)
            looking.set()
            await deciding
            assert await first == "unknown_outcome"

            assert await drive(runs, code, on_wait="suspend") == "completed"
            assert await result_of(runs) == ["seen", "paid"]
            assert len(paid) == 2
            assert await drive(runs, code) == "completed"

    play(scenario())


def test_a_step_that_is_made_again_in_a_reopened_run_stands_where_its_failure_stood(tmp_path: Path) -> None:
    """The code went on from the failure: what it asked for then is not waited for before the new outcome."""

    async def scenario() -> None:
        broken = [True]
        passed: set[str] = set()

        async def code(run: Run) -> Any:
            with suppress(LookupError):
                await run.step("a", lambda: {}["a"], key="a")
            await run.step("b", lambda: "b", key="b")
            passed.update(run.core.history._passed)  # pyright: ignore[reportPrivateUsage]
            if broken[0]:
                raise ArithmeticError
            return "done"

        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            with pytest.raises(ArithmeticError):
                await drive(runs, code)
            broken[0] = False
            await runs.retry("r", by="ana")
            assert await drive(runs, code) == "completed"
            assert (await runs.replay("r", code)).result == "done"
            assert not passed, "a step was waited for in vain"

    play(scenario())

"""A drive that does not wait for people (`on_wait="suspend"`) gives what one that waits would have given."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from artelier import Limits, Run
from tests.determinism.programs import ask
from tests.kernel.stage import drive, kinds, open_kernel, play, result_of


async def _wait_and_cancel(run: Run) -> Any:
    question: asyncio.Task[Any] = asyncio.ensure_future(run.approve("go on?", key="q"))
    other: asyncio.Task[Any] = asyncio.ensure_future(ask(run, "b"))
    done, left = await asyncio.wait({question, other}, return_when=asyncio.FIRST_COMPLETED)
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    return [task.result() for task in done] + [await ask(run, "after")]


async def _task_group(run: Run) -> Any:
    async with asyncio.TaskGroup() as group:
        question = group.create_task(run.approve("go on?", key="q"))
        group.create_task(ask(run, "b"))
        other = group.create_task(ask(run, "c"))
    return [question.result().decision, other.result(), await ask(run, "after")]


async def _swallowed(run: Run) -> Any:
    try:
        found = (await run.approve("go on?", key="q")).decision
    except Exception:
        found = "swallowed"
    return [found, await ask(run, "after")]


async def _swallowed_at_the_end(run: Run) -> Any:
    try:
        return (await run.approve("go on?", key="q")).decision
    except Exception:
        return "swallowed"


async def _another_error_instead(run: Run) -> Any:
    try:
        return (await run.approve("go on?", key="q")).decision
    except Exception:
        raise ValueError("no answer") from None


async def _exceptions_as_results(run: Run) -> Any:
    found = await asyncio.gather(run.approve("go on?", key="q"), ask(run, "b"), return_exceptions=True)
    return [type(one).__name__ for one in found] + [await ask(run, "after")]


async def _as_completed(run: Run) -> Any:
    async def question() -> str:
        return (await run.approve("go on?", key="q")).decision

    work = (question(), ask(run, "b"), ask(run, "c"))
    return [await one for one in asyncio.as_completed(work)]


async def _steps_in_a_row_beside_it(run: Run) -> Any:
    async def two() -> list[str]:
        return [await ask(run, "b"), await ask(run, "c")]

    answer, found = await asyncio.gather(run.approve("go on?", key="q"), two())
    return [answer.decision, *found]


async def _a_race_within_another_piece(run: Run) -> Any:
    async def inner(branch: Run) -> list[str]:
        slow = asyncio.ensure_future(branch.sleep(60, key="slow"))
        found = await ask(branch, "b")
        slow.cancel()
        await asyncio.gather(slow, return_exceptions=True)
        return [found, await ask(branch, "c")]

    answer, found = await run.gather(lambda branch: branch.approve("go on?", key="q"), inner)
    return [answer.decision, *found]


async def _a_timeout_around_it(run: Run) -> Any:
    async with run.timeout(60):
        answer, found = await asyncio.gather(run.approve("go on?", key="q"), ask(run, "b"))
    return [answer.decision, found]


PROGRAMS = {
    _wait_and_cancel: ["re: b", "re: after"],
    _task_group: ["approve", "re: c", "re: after"],
    _swallowed: ["approve", "re: after"],
    _swallowed_at_the_end: "approve",
    _another_error_instead: "approve",
    _exceptions_as_results: ["Approval", "str", "re: after"],
    _as_completed: None,
    _steps_in_a_row_beside_it: ["approve", "re: b", "re: c"],
    _a_race_within_another_piece: ["approve", "re: b", "re: c"],
    _a_timeout_around_it: ["approve", "re: b"],
}


@pytest.mark.parametrize("code", list(PROGRAMS), ids=lambda code: code.__name__.strip("_"))
def test_code_sees_no_suspension_as_an_outcome(tmp_path: Path, code: Any) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            status = await drive(runs, code, on_wait="suspend")
            while status == "waiting_approval":
                (key,) = [one["key"] for one in await runs.steps("r") if one["key"].endswith("q")]
                await runs.approve("r", key, by="ana")
                status = await drive(runs, code, on_wait="suspend")
            assert status == "completed"
            found = await result_of(runs)
            if (expected := PROGRAMS[code]) is None:
                assert sorted(found) == ["approve", "re: b", "re: c"]
            else:
                assert found == expected
            replayed = await runs.replay("r", code)
            assert (replayed.result, replayed.model_calls) == (found, 0)

    play(scenario())


def test_an_answer_that_comes_while_other_work_goes_on_is_taken_in_the_same_drive(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()

            async def code(run: Run) -> Any:
                async def answer() -> str:
                    await ask(run, "b")
                    await runs.approve("r", "q", by="ana")
                    return "answered"

                question = run.approve("go on?", key="q")
                found = await asyncio.gather(question, run.step("answer", answer, key="answer"))
                return [found[0].decision, found[1]]

            assert await drive(runs, code, on_wait="suspend") == "completed"
            assert await result_of(runs) == ["approve", "answered"]
            assert "run.suspended" not in await kinds(kernel)

    play(scenario())


def test_a_limit_within_a_task_group_leaves_a_run_that_goes_on(tmp_path: Path) -> None:
    async def code(run: Run) -> Any:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ask(run, text)) for text in "abc"]
        return [task.result() for task in tasks]

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code, limits=Limits(steps=1)) == "budget_exhausted"
            await runs.limit("r", unit="steps", cap=None)
            assert await drive(runs, code) == "completed"
            assert await result_of(runs) == ["re: a", "re: b", "re: c"]
            assert (await runs.replay("r", code)).model_calls == 0

    play(scenario())


def test_code_that_awaits_what_it_has_cancelled_itself_fails_once(tmp_path: Path) -> None:
    """Nobody interrupts the drive: another drive would end in the same way, for ever."""

    async def code(run: Run) -> Any:
        nap = asyncio.ensure_future(run.sleep(60, key="nap"))
        await ask(run, "b")
        nap.cancel()
        return await nap

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            with pytest.raises(RuntimeError, match="raised CancelledError, and nobody cancelled"):
                await drive(runs, code)
            row = await runs.show("r")
            assert (row["status"], row["reason"]) == ("failed", "RuntimeError")
            replayed = await runs.replay("r", code)
            assert (replayed.status, replayed.reason) == ("failed", "RuntimeError")

    play(scenario())


async def _signal(run: Run) -> Any:
    return (await run.wait_for("go", key="go")).data


@pytest.mark.parametrize("wait", [_signal, lambda run: run.approve("go on?", key="q")])
def test_a_wait_ends_with_the_drive_when_a_step_beside_it_is_refused_for_its_budget(
    tmp_path: Path, wait: Any
) -> None:
    """The wait was parked, and nobody told it: the drive never ended."""
    steps: list[str] = []

    async def code(run: Run) -> Any:
        async def work(branch: Run) -> None:
            for name in ("a", "b"):
                await branch.step("slow", asyncio.sleep, 0.02)
                await ask(branch, name)
                steps.append(name)

        return await run.gather(wait(run), work)

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            status = await drive(runs, code, on_wait="suspend", limits=Limits(steps=1))
            assert (status, steps) == ("budget_exhausted", ["a"])

    play(scenario())

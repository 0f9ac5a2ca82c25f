"""Waiting that survives the process: for people, for time, for signals."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from artelier import Run
from artelier.errors import Conflict, InvalidRequest, NotFound, ReplayMismatch, RunStopped, RunSuspended
from artelier.kernel.events import RunCancelled
from artelier.log import Batch, Receipt
from artelier.log.writer_queue import POLL_S
from artelier.testing import ManualClock
from tests.kernel.stage import (
    ask,
    drive,
    echo,
    events,
    has_status,
    kinds,
    open_kernel,
    pass_time,
    play,
    result_of,
    until,
)


async def _approval(run: Run) -> Any:
    before = await ask(run, "before")
    answer = await run.approve("publish?", {"title": "T"})
    return [before, bool(answer), answer.decision, answer.arguments, answer.note, answer.by]


@pytest.mark.parametrize("on_wait", ["await", "suspend"])
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({}, [True, "approve", None, ""]),
        ({"deny": True, "note": "not yet"}, [False, "deny", None, "not yet"]),
        ({"arguments": {"title": "U"}, "note": "so"}, [True, "edit", {"title": "U"}, "so"]),
    ],
)
def test_a_person_answers_a_run_that_waits_here_or_left(
    tmp_path: Path, on_wait: str, answer: dict[str, Any], expected: list[Any]
) -> None:
    async def scenario() -> None:
        model = echo()
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant()
            work = asyncio.create_task(drive(runs, _approval, on_wait=on_wait))
            await has_status(runs, "waiting_approval")
            (question,) = await runs.approvals()
            assert question["run_id"] == "r" and question["step"] == "2"
            assert (question["question"], question["details"]) == ("publish?", {"title": "T"})
            if on_wait == "suspend":
                assert await work == "waiting_approval"
                assert await drive(runs, _approval, on_wait=on_wait) == "waiting_approval"
            await runs.approve("r", **answer, by="user:eve")
            assert await runs.approvals() == []
            if on_wait == "suspend":
                work = asyncio.create_task(drive(runs, _approval))
            assert await work == "completed"
            assert await result_of(runs) == ["re: before", *expected, "user:eve"]
            assert len(model.requests) == 1
            given = next(e for e in await events(kernel) if e.kind == "approval.given")
            assert given.actor == "user:eve" and given.cause.startswith("control:r@")

    play(scenario())


def test_an_answer_from_another_process_takes_effect_at_the_next_look(tmp_path: Path) -> None:
    """A look each 100 ms at what others wrote, so that an answer takes effect within 200 ms."""

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel, open_kernel(tmp_path) as other:
            runs = kernel.for_tenant()

            async def code(run: Run) -> None:
                for number in range(3):
                    await run.approve(f"{number}?")

            work = asyncio.create_task(drive(runs, code))
            for number in range(3):
                await until(lambda n=number: _is_asked(other, f"{n}?"))
                await other.for_tenant().approve("r", by="user:eve")
            assert await work == "completed"
            assert POLL_S <= 0.1

    async def _is_asked(kernel: Any, question: str) -> bool:
        found = await kernel.for_tenant().approvals()
        return any(item["question"] == question for item in found)

    play(scenario())


def test_an_approval_expires_by_the_clock_also_while_nobody_waits(tmp_path: Path) -> None:
    async def code(run: Run) -> str:
        return (await run.approve("soon?", expires_s=60)).decision

    async def scenario() -> None:
        clock = ManualClock()
        with open_kernel(tmp_path, clock=clock) as kernel:
            runs = kernel.for_tenant()
            work = asyncio.create_task(drive(runs, code))
            assert await pass_time(clock, work) == "completed"
            assert await result_of(runs) == "expired"

            assert await drive(runs, code, "s", on_wait="suspend") == "waiting_approval"
            clock.advance(61)
            assert await drive(runs, code, "s", on_wait="suspend") == "completed"
            assert await result_of(runs, "s") == "expired"
            with pytest.raises(NotFound, match="no approval"):
                await runs.approve("s")

    play(scenario())


def test_each_answer_belongs_to_one_step_and_only_open_questions_take_one(tmp_path: Path) -> None:
    async def code(run: Run) -> Any:
        def asks(name: str) -> Any:
            async def one(branch: Run) -> str:
                return (await branch.approve(name)).note

            return one

        return await run.gather(asks("a"), asks("b"))

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code, on_wait="suspend") == "waiting_approval"
            with pytest.raises(InvalidRequest, match="1/0/1, 1/1/1"):
                await runs.approve("r")
            await runs.approve("r", "1/1/1", note="for b")
            with pytest.raises(Conflict) as refused:
                await runs.approve("r", "1/1/1", note="again")
            assert refused.value.facts["refusal"] == "no_such_approval"
            with pytest.raises(Conflict):
                await runs.approve("r", "no/such")
            assert await drive(runs, code, on_wait="suspend") == "waiting_approval"
            await runs.approve("r", note="for a")
            assert await drive(runs, code) == "completed"
            assert await result_of(runs) == ["for a", "for b"]
            assert (await kinds(kernel)).count("command.refused") == 2

    play(scenario())


def test_an_answer_does_not_hold_for_another_question(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()

            def code(question: str) -> Any:
                return lambda run: run.approve(question, {"amount": 1})

            assert await drive(runs, code("pay 1?"), on_wait="suspend") == "waiting_approval"
            await runs.approve("r")
            with pytest.raises(ReplayMismatch) as mismatch:
                async with runs.run("r") as run:
                    await code("pay 1000000?")(run)
            assert mismatch.value.section == "question"

    play(scenario())


def test_sleep_takes_what_is_left_of_the_time_after_a_restart(tmp_path: Path) -> None:
    async def code(run: Run) -> str:
        await run.sleep(100)
        return "awake"

    async def scenario() -> None:
        clock = ManualClock()
        start = clock.now_us()
        with open_kernel(tmp_path, clock=clock) as kernel:
            assert await drive(kernel.for_tenant(), code, on_wait="suspend") == "waiting"
        clock.advance(70)
        with open_kernel(tmp_path, clock=clock) as kernel:
            runs = kernel.for_tenant()
            work = asyncio.create_task(drive(runs, code))
            assert await pass_time(clock, work) == "completed"
            assert clock.now_us() - start == 100_000_000
            assert (await runs.show("r"))["status"] == "completed"

    play(scenario())


def test_signals_are_buffered_taken_in_order_and_survive_restarts(tmp_path: Path) -> None:
    async def code(run: Run) -> Any:
        first = await run.wait_for("order")
        second = await run.wait_for("other")
        return [first, second, await run.wait_for("order"), await run.wait_for("order")]

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code, on_wait="suspend") == "waiting"
            for number in (1, 2):
                await runs.signal("r", "order", {"n": number})
            assert (await runs.show("r"))["status"] == "pending", "somebody should drive it now"
            assert await drive(runs, code, on_wait="suspend") == "waiting"
        with open_kernel(tmp_path) as kernel, open_kernel(tmp_path) as other:
            runs = kernel.for_tenant()
            work = asyncio.create_task(drive(runs, code))
            await has_status(runs, "waiting")
            await other.signal("r", "other")
            await other.for_tenant().signal("r", "order", "last")
            assert await work == "completed"
            assert await result_of(runs) == [{"n": 1}, None, {"n": 2}, "last"]
            assert await kernel.store.query("SELECT count(*) FROM signals") == [(0,)]
            with pytest.raises(Conflict):
                await runs.signal("r", "order")

    play(scenario())


def test_waiting_for_a_signal_may_time_out_and_says_so_again_on_replay(tmp_path: Path) -> None:
    async def code(run: Run) -> str:
        try:
            return await run.wait_for("never", timeout_s=5)
        except TimeoutError as error:
            return str(error)

    async def scenario() -> None:
        clock = ManualClock()
        with open_kernel(tmp_path, clock=clock) as kernel:
            runs = kernel.for_tenant()
            work = asyncio.create_task(drive(runs, code))
            assert await pass_time(clock, work) == "completed"
            assert "never" in await result_of(runs)
            assert await drive(runs, code) == "completed"

    play(scenario())


def test_two_branches_that_wait_for_one_name_take_one_signal_each(tmp_path: Path) -> None:
    async def code(run: Run) -> Any:
        waits = [lambda branch: branch.wait_for("go") for _ in range(2)]
        return sorted(await run.gather(*waits))

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            work = asyncio.create_task(drive(runs, code))
            await has_status(runs, "waiting")
            await runs.signal("r", "go", 1)
            await runs.signal("r", "go", 2)
            assert await work == "completed"
            assert await result_of(runs) == [1, 2]

    play(scenario())


def test_an_answer_given_while_the_run_is_paused_counts_when_it_goes_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            work = asyncio.create_task(drive(runs, _approval))
            await has_status(runs, "waiting_approval")
            await runs.pause("r")
            await runs.approve("r", note="fine")
            assert (await runs.show("r"))["status"] == "paused"
            await asyncio.sleep(0.05)
            assert not work.done()
            await runs.resume("r")
            assert await work == "completed"

    play(scenario())


def test_a_wait_that_is_interrupted_is_still_a_wait(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            work = asyncio.create_task(drive(runs, _approval))
            await has_status(runs, "waiting_approval")
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work
            assert (await runs.show("r"))["status"] == "waiting_approval"
            work = asyncio.create_task(drive(runs, _approval))
            await asyncio.sleep(0.05)
            assert (await runs.show("r"))["status"] == "waiting_approval", "not: running"
            await runs.approve("r")
            assert await work == "completed"

    play(scenario())


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -1, 1e18, "soon"])
def test_a_time_that_is_none_is_refused(tmp_path: Path, seconds: Any) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            async with kernel.run("r") as run:
                for wait in (
                    lambda: run.sleep(seconds),
                    lambda: run.wait_for("x", timeout_s=seconds),
                    lambda: run.approve("x", expires_s=seconds),
                ):
                    with pytest.raises(InvalidRequest, match="seconds"):
                        await wait()

    play(scenario())


def test_a_wait_that_begins_while_a_cancellation_is_being_written_is_not_recorded_after_the_end(
    tmp_path: Path,
) -> None:
    """Torture 1585692173: the run had ended and still waited."""

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs, store = kernel.for_tenant(), kernel._services.store
            submit, is_queued = store.submit, asyncio.Event()

            async def heard_late(receipt: Awaitable[Receipt]) -> Receipt:
                is_queued.set()
                for _ in range(20):  # the run's code goes on before the one who cancels hears of it
                    await asyncio.sleep(0)
                return await receipt

            def submit_slowly(batch: Batch) -> Awaitable[Receipt]:
                ends = any(isinstance(e.data, RunCancelled) for a in batch.appends for e in a.events)
                return asyncio.ensure_future(heard_late(submit(batch))) if ends else submit(batch)

            store.submit = submit_slowly

            async def code(run: Run) -> Any:
                await is_queued.wait()
                return await run.wait_for("go")

            work = asyncio.create_task(drive(runs, code))
            await has_status(runs, "running")
            await runs.cancel("r")
            with pytest.raises(RunStopped):
                await work
            assert (await kinds(kernel))[-1] == "run.cancelled"

    play(scenario())


@pytest.mark.parametrize("verb", ["approve", "signal"])
def test_what_a_run_waits_for_and_that_comes_while_it_is_being_suspended_wakes_it(
    tmp_path: Path, verb: str
) -> None:
    """The answer stood before the suspension, and nobody woke the run: it waited for ever."""

    async def wait(run: Run) -> Any:
        if verb == "approve":
            return bool(await run.approve("go?"))
        return await run.wait_for("go")

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()

            async def code(run: Run) -> Any:
                try:
                    return await wait(run)
                except RunSuspended:  # decided, and not yet recorded
                    await (runs.approve("r") if verb == "approve" else runs.signal("r", "go", True))
                    raise

            await drive(runs, code, on_wait="suspend")
            assert (await runs.show("r"))["status"] == "pending"
            assert await drive(runs, wait, on_wait="suspend") == "completed"
            assert await result_of(runs) is True

    play(scenario())

"""Probes: an effect happens once wherever they can know, and a person is asked wherever they cannot."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, Run, ToolContext, happened, not_happened, tool, unsure
from artelier.app import TenantKernel
from artelier.errors import Conflict, ToolFailed
from artelier.kernel.run.crash_recovery import MAY_LAND, NOT_OURS, TOO_OFTEN
from artelier.kernel.tool_calls.dispatches import Dispatches
from artelier.process import has_ended, holder, is_own, process_numbers, retire
from tests.kernel.prober import RUN, code, open_bank, paid
from tests.kernel.stage import drive, events, open_kernel, play, result_of
from tests.processes import WarmPython

KEY = f"default/{RUN}:1"
RECEIPT = f"receipt {KEY}"


def _process(folder: Path, when: str) -> subprocess.Popen[str]:
    return WarmPython(
        [sys.executable, "-m", "tests.kernel.prober", str(folder), when],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _killed(folder: Path, when: str) -> None:
    with _process(folder, when) as process:
        process.communicate(timeout=60)
    assert process.returncode == -9


async def _retried(kernel: Kernel) -> list[tuple[int, str]]:
    found = [event for event in await events(kernel, RUN) if event.kind == "tool.retried"]
    return [(event.version, event.plain()["by"]) for event in found]


async def _probe_error(runs: TenantKernel) -> str | None:
    (call,) = (await runs.show(RUN))["unknown_calls"]
    return call["probe_error"]


# Killed processes


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
def test_an_effect_around_which_its_process_was_killed_happens_once(tmp_path: Path, when: str) -> None:
    _killed(tmp_path, when)
    assert paid(tmp_path) == ([KEY] if when == "after" else [])

    async def scenario() -> None:
        with open_bank(tmp_path) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "completed"
            assert await result_of(runs) == RECEIPT
            assert await _retried(kernel) == ([(2, "probe")] if when == "before" else [])
            assert await drive(runs, code) == "completed"

    play(scenario())
    assert paid(tmp_path) == [KEY]


@pytest.mark.slow
def test_a_call_whose_processes_die_again_and_again_is_a_persons_matter_after_three_times(
    tmp_path: Path,
) -> None:
    for _ in range(4):
        _killed(tmp_path, "before")

    async def scenario() -> None:
        with open_bank(tmp_path) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "unknown_outcome"
            assert await _retried(kernel) == [(2, "probe")] * 3
            assert await _probe_error(runs) == TOO_OFTEN
            await runs.reconcile(RUN, "1", retry=True)
            assert await drive(runs, code) == "completed"
            assert (await _retried(kernel))[3:] == [(2, "person")]

    play(scenario())
    assert paid(tmp_path) == [KEY]


@pytest.mark.slow
def test_of_two_workers_the_one_that_lives_and_stalls_may_still_act(tmp_path: Path) -> None:
    """The second takes the run over; the first is before its effect, and nobody knows what it will do."""

    async def meanwhile() -> None:
        with open_bank(tmp_path) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "unknown_outcome"
            assert await _probe_error(runs) == MAY_LAND
            with pytest.raises(Conflict, match="cannot tell"):
                await runs.reconcile(RUN, "1", probe=True)
            assert await _retried(kernel) == []

    async def afterwards() -> None:
        with open_bank(tmp_path) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "completed"
            assert await result_of(runs) == RECEIPT

    with _process(tmp_path, "waits") as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "entered\n"
        with sqlite3.connect(tmp_path / "s.db") as db:  # as after a stall of more than a lease
            db.execute("UPDATE leases SET expires_us = 0, expires_uptime_us = 0")
        db.close()
        play(meanwhile())
        assert paid(tmp_path) == []
        first.communicate("go on\n", timeout=60)
    assert paid(tmp_path) == [KEY], "it acted after it was taken over"
    play(afterwards())
    assert paid(tmp_path) == [KEY]


@pytest.mark.slow
def test_a_process_that_waits_for_its_parent_to_take_note_is_dead(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "from artelier.process import holder; print(holder(), flush=True)"],
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        process = process_numbers(child.stdout.readline().strip())
        while not has_ended(process):  # a zombie by now or soon: nobody waits for it
            assert child.returncode is None
    assert has_ended(process)
    assert not is_own(process)


# In one process


class Late:
    """A payment in a thread that comes later than its timeout, and lands or not."""

    def __init__(self, *, lands: bool) -> None:
        self.books: list[str] = []
        self.entered = 0
        self.go_on = threading.Event()
        self.lands = lands
        self.asked_in: list[str] = []

    def probe(self, key: str, arguments: dict[str, Any]) -> Any:
        self.asked_in.append(threading.current_thread().name)
        return happened(f"receipt {key}") if key in self.books else not_happened

    @property
    def tool(self) -> Any:
        @tool(side_effect=True, timeout_s=1.0, probe=self.probe)
        def pay(amount: int, ctx: ToolContext) -> str:
            "Pay."
            self.entered += 1
            if self.entered == 1:
                self.go_on.wait()
                if not self.lands:
                    raise ConnectionError("reset before anything was sent")
            self.books.append(ctx.idempotency_key)
            return f"receipt {ctx.idempotency_key}"

        return pay


async def _over(kernel: Kernel) -> None:
    """Wait until nothing of the call acts any more."""
    services = kernel.services
    while not services.dispatches.is_over(services.process, KEY):
        await asyncio.sleep(0)


@pytest.mark.parametrize("lands", [True, False])
@pytest.mark.parametrize("again", ["drive", "probe"])
def test_a_timed_out_thread_is_unsure_until_it_has_ended(tmp_path: Path, lands: bool, again: str) -> None:
    bank = Late(lands=lands)

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[bank.tool]) as kernel:
            runs = kernel.for_tenant()
            for _ in range(2):
                assert await drive(runs, code) == "unknown_outcome"
                assert await _probe_error(runs) == MAY_LAND
            with pytest.raises(Conflict, match="it may still"):
                await runs.reconcile(RUN, "1", probe=True)
            assert bank.books == []

            bank.go_on.set()
            await _over(kernel)
            if again == "probe":
                await runs.reconcile(RUN, "1", probe=True)
            assert await drive(runs, code) == "completed"

            assert await result_of(runs) == RECEIPT
            by = "probe" if again == "drive" else "person"
            assert await _retried(kernel) == ([] if lands else [(2, by)])
            assert all(name.startswith("artelier-tool") for name in bank.asked_in)
            unresolved = [e for e in await events(kernel, RUN) if e.kind == "tool.unresolved"]
            assert len(unresolved) == 1, "the same is not said twice"

    play(scenario())
    assert bank.books == [KEY]


def test_a_thread_outlives_its_kernel_and_is_known_to_the_next_one(tmp_path: Path) -> None:
    bank = Late(lands=True)

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[bank.tool]) as kernel:
            assert await drive(kernel.for_tenant(), code) == "unknown_outcome"
            first = kernel.services.process
        with open_kernel(tmp_path, tools=[bank.tool]) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "unknown_outcome"
            bank.go_on.set()
            while not kernel.services.dispatches.is_over(first, KEY):
                await asyncio.sleep(0)
            assert await drive(runs, code) == "completed"

    play(scenario())
    assert bank.books == [KEY]


def _cut_pay(books: list[str], go_on: threading.Event, *, names_threads: bool) -> Any:
    async def probe(key: str, arguments: dict[str, Any]) -> Any:
        return happened("receipt") if key in books else not_happened

    @tool(side_effect=True, timeout_s=1.0, probe=probe)
    async def pay(amount: int, ctx: ToolContext) -> str:
        "Pay."
        ended = ctx.in_thread() if names_threads else lambda: None

        def work() -> str:
            go_on.wait()
            books.append(ctx.idempotency_key)
            ended()
            return "receipt"

        return await asyncio.to_thread(work)

    return pay


@pytest.mark.parametrize("names_threads", [True, False])
def test_what_an_async_call_left_behind_when_it_was_cut_may_still_land(
    tmp_path: Path, names_threads: bool
) -> None:
    books, go_on = list[str](), threading.Event()

    async def scenario() -> None:
        pay = _cut_pay(books, go_on, names_threads=names_threads)
        with open_kernel(tmp_path, tools=[pay]) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "unknown_outcome"
            assert await _probe_error(runs) == MAY_LAND
            go_on.set()
            while not books:
                await asyncio.sleep(0)
            assert await drive(runs, code) == "completed"
            assert await _retried(kernel) == []

    play(scenario())
    assert books == [KEY]


def test_a_call_that_ended_by_itself_and_has_not_happened_is_made_again(tmp_path: Path) -> None:
    tried = list[str]()

    @tool(side_effect=True, probe=lambda key, _: not_happened)
    async def pay(amount: int, ctx: ToolContext) -> str:
        "Pay."
        tried.append(ctx.idempotency_key)
        if len(tried) < 3:
            raise ConnectionError("nobody there")
        return "receipt"

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[pay]) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "completed"
            assert await _retried(kernel) == [(2, "probe")] * 2

    play(scenario())
    assert tried == [KEY] * 3


def test_a_call_that_never_happens_stops_at_a_person(tmp_path: Path) -> None:
    tried = list[str]()

    @tool(side_effect=True, probe=lambda key, _: not_happened)
    async def pay(amount: int, ctx: ToolContext) -> str:
        "Pay."
        tried.append(ctx.idempotency_key)
        raise ConnectionError("nobody there")

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[pay]) as kernel:
            runs = kernel.for_tenant()
            for _ in range(2):
                assert await drive(runs, code) == "unknown_outcome"
                assert await _probe_error(runs) == TOO_OFTEN

    play(scenario())
    assert tried == [KEY] * 4


# Answers


def _lost(probe: Callable[..., Any]) -> Any:
    @tool(side_effect=True, probe=probe)
    async def pay(amount: int) -> str:
        "Pay."
        raise ConnectionError("the line went dead")

    return pay


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        (happened("receipt"), "receipt"),
        (happened(), None),
        ("receipt", "receipt"),
        (False, False),
        ({"paid": 3}, {"paid": 3}),
    ],
)
@pytest.mark.parametrize("is_async", [True, False])
def test_a_bare_value_counts_as_happened(tmp_path: Path, answer: Any, value: Any, is_async: bool) -> None:
    async def later(key: str, arguments: dict[str, Any]) -> Any:
        return answer

    async def scenario() -> None:
        probe = later if is_async else lambda key, _: answer
        with open_kernel(tmp_path, tools=[_lost(probe)]) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "completed"
            assert await result_of(runs) == value

    play(scenario())


def test_a_probe_that_found_nothing_says_nothing(tmp_path: Path) -> None:
    bookings: dict[str, Any] = {}

    async def scenario() -> None:
        probe = lambda key, _: bookings.get(key)  # noqa: E731 - as one writes it
        with open_kernel(tmp_path, tools=[_lost(probe)]) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "unknown_outcome"
            assert "returned None" in (await _probe_error(runs) or "")
            bookings[KEY] = "receipt"
            assert await drive(runs, code) == "completed"
            assert await result_of(runs) == "receipt"

    play(scenario())


def test_a_probe_that_raises_is_unsure_and_its_error_is_kept(tmp_path: Path) -> None:
    told = ["the bank is closed", "the bank is closed", "the bank has moved"]

    def probe(key: str, arguments: dict[str, Any]) -> Any:
        raise RuntimeError(told.pop(0))

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[_lost(probe)]) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "unknown_outcome"
            assert await _probe_error(runs) == "RuntimeError: the bank is closed"
            assert await drive(runs, code) == "unknown_outcome"
            assert await drive(runs, code) == "unknown_outcome"
            assert await _probe_error(runs) == "RuntimeError: the bank has moved"
            unresolved = [e for e in await events(kernel, RUN) if e.kind == "tool.unresolved"]
            assert len(unresolved) == 2

    play(scenario())


@pytest.mark.parametrize(
    ("answer", "value"), [({"succeeded": "by hand"}, "by hand"), ({"retry": True}, "receipt")]
)
def test_a_person_who_settles_a_call_while_its_probe_is_asked_again_is_the_one_who_counts(
    tmp_path: Path, answer: dict[str, Any], value: str
) -> None:
    tried, asked, go_on = list[str](), asyncio.Event(), asyncio.Event()

    async def probe(key: str, arguments: dict[str, Any]) -> Any:
        if not asked.is_set():
            asked.set()
            return unsure
        asked.clear()
        await go_on.wait()
        return happened("by the probe")

    @tool(side_effect=True, probe=probe)
    async def pay(amount: int, ctx: ToolContext) -> str:
        "Pay."
        tried.append(ctx.idempotency_key)
        if len(tried) == 1:
            raise ConnectionError("the line went dead")
        return "receipt"

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[pay]) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "unknown_outcome"
            again = asyncio.create_task(drive(runs, code))
            while asked.is_set():
                await asyncio.sleep(0)
            await runs.reconcile(RUN, "1", **answer)
            go_on.set()
            assert await again == "completed"
            assert await result_of(runs) == value
            found = [event.kind for event in await events(kernel, RUN)]
            assert found.count("tool.reconciled") == 1
            assert found.count("tool.completed") == (1 if "retry" in answer else 0)
            assert await drive(runs, code) == "completed"

    play(scenario())


def test_a_lagging_probe_asks_a_person_until_it_knows(tmp_path: Path) -> None:
    answers: list[Any] = [unsure, unsure, happened("receipt")]

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[_lost(lambda key, _: answers.pop(0))]) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "unknown_outcome"
            assert await _probe_error(runs) is None
            with pytest.raises(Conflict, match="it is unsure"):
                await runs.reconcile(RUN, "1", probe=True)
            assert await drive(runs, code) == "completed"
            assert await result_of(runs) == "receipt"

    play(scenario())


def test_an_outcome_that_was_unknown_shows_what_a_person_needs_to_settle_it(tmp_path: Path) -> None:
    def probe(key: str, arguments: dict[str, Any]) -> Any:
        raise RuntimeError("the bank is closed")

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[_lost(probe)]) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, code)
            shown = await runs.show(RUN)
            (call,) = shown["unknown_calls"]
            at = {e.kind: e.at_us for e in await events(kernel, RUN)}
            assert shown["unknown_outcomes"] == ["1"]
            assert call == {
                "step": "1",
                "tool": "pay",
                "arguments": {"amount": 3},
                "idempotency_key": KEY,
                "requested_us": at["tool.requested"],
                "unresolved_us": at["tool.unresolved"],
                "code": "ConnectionError",
                "probe_error": "RuntimeError: the bank is closed",
            }

    play(scenario())


# Who may still act


def test_of_a_call_that_nobody_recorded_the_process_of_nothing_is_known(tmp_path: Path) -> None:
    """As in histories of before it was recorded."""

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[_lost(lambda key, _: not_happened)]) as kernel:
            runs = kernel.for_tenant()
            kernel.services.process = ()
            assert await drive(runs, code) == "unknown_outcome"
            requested = [e for e in await events(kernel, RUN) if e.kind == "tool.requested"]
            assert "process" not in requested[0].plain()
            assert await _probe_error(runs) == MAY_LAND

    play(scenario())


def test_a_fork_never_makes_its_origins_call_on_a_probes_word(tmp_path: Path) -> None:
    """Both could be told at the same time that it has not happened."""
    tried, answers = list[str](), [unsure, not_happened, not_happened]

    @tool(side_effect=True, probe=lambda key, _: answers.pop(0))
    async def pay(amount: int, ctx: ToolContext) -> str:
        "Pay."
        tried.append(ctx.idempotency_key)
        if len(tried) == 1:
            raise ConnectionError("nobody there")
        return "receipt"

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[pay]) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "unknown_outcome"
            fork = await runs.fork(RUN)
            assert await drive(runs, code, fork) == "unknown_outcome"
            (call,) = (await runs.show(fork))["unknown_calls"]
            assert call["probe_error"] == NOT_OURS
            assert call["idempotency_key"] == KEY
            assert await drive(runs, code) == "completed"

    play(scenario())
    assert tried == [KEY, KEY]


def test_nothing_is_known_of_a_process_of_another_machine() -> None:
    name = holder()
    retire(name)
    elsewhere = "|".join(("elsewhere", *name.split("|")[1:]))
    mine, theirs = process_numbers(name), process_numbers(elsewhere)

    assert is_own(mine)
    assert not has_ended(mine)
    assert not is_own(theirs)
    assert not has_ended((theirs[0], 2**22 - 1, *theirs[2:]))
    assert not has_ended(())
    calls = Dispatches(is_own=is_own, has_ended=has_ended)
    assert calls.is_over(mine, KEY)
    assert not calls.is_over(theirs, KEY)
    assert not calls.is_over((), KEY)


def test_no_name_of_a_machine_stands_in_an_event() -> None:
    name = holder()
    retire(name)
    assert all(isinstance(number, int) for number in process_numbers(name))


def test_a_job_that_nobody_waits_for_any_more_is_not_begun() -> None:
    """All threads are busy: a call that times out meanwhile must not act when one becomes free."""
    from artelier.tools.function import DaemonThreads

    threads, go_on, begun, over = DaemonThreads(size_max=1), threading.Event(), [0], [0]

    def ended() -> None:
        over[0] += 1

    async def scenario() -> None:
        first = asyncio.ensure_future(threads.run(go_on.wait))
        late = asyncio.ensure_future(threads.run(lambda: begun.append(1), ended=ended))
        await asyncio.sleep(0)
        late.cancel()
        with pytest.raises(asyncio.CancelledError):
            await late
        go_on.set()
        await first
        await threads.run(lambda: None)

    play(scenario())
    assert (begun, over) == ([0], [1])


def test_a_tool_that_says_it_failed_is_believed_whoever_may_still_act(tmp_path: Path) -> None:
    def probe(key: str, arguments: dict[str, Any]) -> Any:
        raise ToolFailed("no such payment, and the window is closed")

    async def failing(run: Run) -> Any:
        return (await run.step_tool("pay", {"amount": 3})).is_error

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[_lost(probe)]) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, failing) == "completed"
            assert await result_of(runs) is True

    play(scenario())

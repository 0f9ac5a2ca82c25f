"""What a side effect did reaches the code, whatever it cancels; while nobody knows it, the run stops."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from shutil import copy
from typing import Any

import pytest

from artelier import Kernel, ModelReply, ModelRequest, Run, ToolContext, happened, not_happened, tool, unsure
from artelier.ports.model import Delta, Usage
from artelier.testing import ManualClock
from tests.determinism.programs import ask
from tests.kernel.stage import PRICE, drive, open_kernel, play, result_of, user

LATE = 4_000_000_000_000_000


class Bank:
    """The outside: what was paid. A payment by bank tells nothing until it is let go."""

    def __init__(self, answer: Any = unsure) -> None:
        self.paid: list[str] = []
        self.entered = asyncio.Event()
        self.asked = asyncio.Event()
        self.answers = asyncio.Event()
        self._answer = answer
        self.gate = threading.Event()
        """Lets go of a payment that will not happen."""

    def tools(self) -> list[Any]:
        async def probe(key: str, arguments: dict[str, Any]) -> Any:
            self.asked.set()
            await self.answers.wait()
            return self._answer

        @tool(side_effect=True, probe=probe)
        async def bank() -> str:
            """Pay by bank."""
            self.paid.append("bank")
            self.entered.set()
            await asyncio.Event().wait()
            return "never"

        @tool(side_effect=True)
        async def card() -> str:
            """Pay by card."""
            self.paid.append("card")
            return "by card"

        if self._answer is not_happened:
            loop = asyncio.get_running_loop()

            @tool(side_effect=True, probe=probe, name="bank")
            def no_payment() -> str:
                """Come to no payment."""
                loop.call_soon_threadsafe(self.entered.set)
                self.gate.wait()
                raise ConnectionError("no connection")

            return [no_payment, card]
        return [bank, card]


async def _timeout(run: Run) -> Any:
    try:
        async with run.timeout(60):
            return (await run.step_tool("bank", key="bank")).value
    except TimeoutError:
        return (await run.step_tool("card", key="card")).value


async def _race(run: Run) -> Any:
    async def late(branch: Run) -> str:
        await branch.sleep(60, key="late")
        return "late"

    index, found = await run.first(lambda branch: branch.step_tool("bank", key="bank"), late)
    return found.value if index == 0 else (await run.step_tool("card", key="card")).value


async def _cut(kernel: Kernel, clock: ManualClock, bank: Bank, code: Any) -> None:
    """Drive until the time is up while the bank is at work."""
    driving = asyncio.ensure_future(drive(kernel.for_tenant(), code))
    await bank.entered.wait()
    while not driving.done():
        clock.advance(61)
        await asyncio.wait([driving], timeout=0.01)
    assert await driving == "unknown_outcome"


async def _left(tmp_path: Path, bank: Bank, code: Any) -> None:
    clock = ManualClock(start_us=LATE)
    with open_kernel(tmp_path, tools=bank.tools(), clock=clock) as kernel:
        await _cut(kernel, clock, bank, code)


def _again(tmp_path: Path, bank: Bank) -> Kernel:
    return open_kernel(tmp_path, tools=bank.tools(), clock=ManualClock(start_us=LATE + 1_000_000_000))


@pytest.mark.parametrize("code", [_timeout, _race], ids=lambda code: code.__name__.strip("_"))
def test_code_that_cancels_an_unknown_payment_pays_in_no_other_way(tmp_path: Path, code: Any) -> None:
    async def scenario() -> None:
        bank = Bank(unsure)
        bank.answers.set()
        await _left(tmp_path, bank, code)
        for _ in range(2):
            with _again(tmp_path, bank) as kernel:
                assert await drive(kernel.for_tenant(), code) == "unknown_outcome"
        assert bank.paid == ["bank"]

    play(scenario())


@pytest.mark.parametrize("by", ["probe", "person"])
def test_a_race_whose_loser_has_paid_gives_what_that_did_and_nobody_pays_again(
    tmp_path: Path, by: str
) -> None:
    """Nothing else tells the code, which would pay by card."""

    async def scenario() -> None:
        bank = Bank(happened("settled") if by == "probe" else unsure)
        bank.answers.set()
        await _left(tmp_path, bank, _race)
        with _again(tmp_path, bank) as kernel:
            runs = kernel.for_tenant()
            if by == "person":
                await runs.reconcile("r", "1/0/bank", succeeded="settled")
            assert await drive(runs, _race) == "completed"
            assert await result_of(runs) == "settled"
            replayed = await runs.replay("r", _race)
            assert (replayed.result, replayed.tool_calls) == ("settled", 0)
        assert bank.paid == ["bank"]

    play(scenario())


def test_a_race_whose_loser_has_not_paid_is_won_by_the_other(tmp_path: Path) -> None:
    async def scenario() -> None:
        bank = Bank(not_happened)
        bank.answers.set()
        clock = ManualClock(start_us=LATE)
        with open_kernel(tmp_path, tools=bank.tools(), clock=clock) as kernel:
            runs = kernel.for_tenant()
            await _cut(kernel, clock, bank, _race)
            bank.gate.set()
            while (status := await drive(runs, _race)) == "unknown_outcome":
                await asyncio.sleep(0)
            assert status == "completed"
            assert await result_of(runs) == "by card"
            assert (await runs.replay("r", _race)).result == "by card"
        assert bank.paid == ["card"]

    play(scenario())


def test_a_race_is_decided_by_who_was_first_where_the_winner_has_acted_too(tmp_path: Path) -> None:
    async def code(run: Run) -> Any:
        async def card(branch: Run) -> str:
            await branch.sleep(60, key="late")
            return (await branch.step_tool("card", key="card")).value

        index, found = await run.first(
            lambda branch: branch.step("never", asyncio.Event().wait),
            card,
            lambda branch: branch.step_tool("bank", key="bank"),
        )
        return [index, found]

    async def scenario() -> None:
        bank = Bank(unsure)
        bank.answers.set()
        await _left(tmp_path, bank, code)
        with _again(tmp_path, bank) as kernel:
            runs = kernel.for_tenant()
            await runs.reconcile("r", "1/2/bank", succeeded="by bank")
            assert await drive(runs, code) == "completed"
            assert await result_of(runs) == [1, "by card"]
            assert (await runs.replay("r", code)).result == [1, "by card"]
        assert bank.paid == ["bank", "card"]

    play(scenario())


def test_a_loser_that_has_paid_as_it_was_cancelled_is_what_the_race_gives(tmp_path: Path) -> None:
    async def code(run: Run) -> Any:
        async def quick(branch: Run) -> str:
            await paid.wait()
            return "quick"

        index, found = await run.first(lambda branch: branch.step_tool("pay", key="pay"), quick)
        return [index, found.value if index == 0 else found]

    @tool(side_effect=True)
    async def pay() -> str:
        """Pay, and be cancelled while that is written."""
        paid.set()
        return "paid"

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[pay]) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "completed"
            assert await result_of(runs) == [0, "paid"]
            assert (await runs.replay("r", code)).result == [0, "paid"]

    paid = asyncio.Event()
    play(scenario())


def test_a_payment_of_which_a_slow_probe_knows_is_given_to_code_whose_time_is_up(tmp_path: Path) -> None:
    async def scenario() -> None:
        bank = Bank(happened("by bank"))
        await _left(tmp_path, bank, _timeout)
        with _again(tmp_path, bank) as kernel:
            runs = kernel.for_tenant()
            driving = asyncio.ensure_future(drive(runs, _timeout))
            await bank.asked.wait()
            bank.answers.set()
            assert await driving == "completed"
            assert await result_of(runs) == "by bank"
            replayed = await runs.replay("r", _timeout)
            assert (replayed.result, replayed.tool_calls) == ("by bank", 0)
        assert bank.paid == ["bank"]

    play(scenario())


def test_a_payment_that_a_person_has_settled_is_given_to_code_whose_time_is_up(tmp_path: Path) -> None:
    async def scenario() -> None:
        bank = Bank(unsure)
        bank.answers.set()
        await _left(tmp_path, bank, _timeout)
        with _again(tmp_path, bank) as kernel:
            runs = kernel.for_tenant()
            await runs.reconcile("r", "bank", succeeded="said Ana")
            assert await drive(runs, _timeout) == "completed"
            assert await result_of(runs) == "said Ana"
            assert (await runs.replay("r", _timeout)).result == "said Ana"
        assert bank.paid == ["bank"]

    play(scenario())


def test_code_whose_time_is_up_pays_otherwise_what_is_known_not_to_have_happened(tmp_path: Path) -> None:
    async def scenario() -> None:
        bank = Bank(not_happened)
        bank.answers.set()
        clock = ManualClock(start_us=LATE)
        with open_kernel(tmp_path, tools=bank.tools(), clock=clock) as kernel:
            runs = kernel.for_tenant()
            await _cut(kernel, clock, bank, _timeout)
            assert await drive(runs, _timeout) == "unknown_outcome", "its thread may still act"
            bank.gate.set()
            while (status := await drive(runs, _timeout)) == "unknown_outcome":
                await asyncio.sleep(0)
            assert status == "completed"
            assert await result_of(runs) == "by card"
            statuses = {step["key"]: step["status"] for step in await runs.steps("r")}
            assert statuses["bank"] in ("cancelled", "timed_out"), statuses
            assert (await runs.replay("r", _timeout)).result == "by card"
        assert bank.paid == ["card"]

    play(scenario())


def test_a_cancellation_that_comes_while_an_outcome_is_written_comes_with_the_next_step(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        paying: list[asyncio.Task[Any]] = []

        @tool(side_effect=True)
        async def pay() -> str:
            """Pay, and be cancelled on the way out."""
            asyncio.get_running_loop().call_soon(paying[-1].cancel)
            return "paid"

        async def code(run: Run) -> Any:
            got: list[str] = []

            async def work() -> None:
                got.append((await run.step_tool("pay", key="pay")).value)
                await ask(run, "after")
                got.append("after")

            paying.append(asyncio.ensure_future(work()))
            await asyncio.wait(paying[-1:])
            return [*got, paying[-1].cancelled()]

        with open_kernel(tmp_path, tools=[pay]) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "completed"
            assert await result_of(runs) == ["paid", True]
            assert [step["status"] for step in await runs.steps("r")] == ["completed"]

    play(scenario())


@pytest.mark.parametrize("how", ["probe", "tool"])
def test_what_breaks_off_by_an_exception_that_is_no_error_is_unknown_and_can_be_settled(
    tmp_path: Path, how: str
) -> None:
    class Stop(BaseException):
        """As of a test library, or of another event loop."""

    async def breaks() -> None:
        inner = asyncio.ensure_future(asyncio.sleep(1))
        inner.cancel()
        await inner

    async def probe(key: str, arguments: dict[str, Any]) -> Any:
        await breaks()

    @tool(side_effect=True, probe=probe if how == "probe" else None)
    async def pay() -> str:
        """Pay."""
        if how == "tool":
            raise Stop
        raise ConnectionError("lost")

    async def code(run: Run) -> Any:
        return (await run.step_tool("pay", key="pay")).value

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[pay]) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "unknown_outcome"
            (call,) = (await runs.show("r"))["unknown_calls"]
            assert ("CancelledError" in (call["probe_error"] or "")) == (how == "probe")
            await runs.reconcile("r", "pay", succeeded="paid")
            assert await drive(runs, code) == "completed"
            assert await result_of(runs) == "paid"

    play(scenario())


def test_a_task_that_is_cancelled_twice_is_cancelled_twice_on_replay(tmp_path: Path) -> None:
    async def code(run: Run) -> Any:
        async def stubborn() -> str:
            try:
                await run.sleep(60, key="long")
            except asyncio.CancelledError:
                await run.sleep(60, key="tidy up")
            return "never"

        task = asyncio.ensure_future(stubborn())
        await ask(run, "short")
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return [task.cancelled(), *[await ask(run, f"and now {n}?") for n in range(3)]]

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "completed"
            found = await result_of(runs)
            assert found[0] is True
            assert (await runs.replay("r", code)).result == found

    play(scenario())


class Writer:
    """Streams twenty words."""

    price = PRICE

    async def complete(self, request: ModelRequest, /) -> ModelReply:
        return ModelReply(text="ok", usage=Usage(input_tokens=1, output_tokens=1))

    async def stream(self, request: ModelRequest, /) -> AsyncIterator[Delta | ModelReply]:
        for _ in range(20):
            yield Delta(text="word ")
            await asyncio.sleep(0)
        yield ModelReply(text="word " * 20, usage=Usage(input_tokens=1, output_tokens=20))


def test_of_two_streams_that_are_begun_one_is_left_on_replay_as_it_was(tmp_path: Path) -> None:
    async def code(run: Run) -> Any:
        first, second = (run.stream_model(model="m", messages=[user(key)], key=key) for key in "ab")
        begins = [(await anext(one)).text[:5] for one in (first, second)]
        await first.aclose()
        rest = [item async for item in second]
        return [begins, rest[-1].text, await ask(run, "check it")]

    async def scenario() -> None:
        with open_kernel(tmp_path, Writer()) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "completed"
            assert (await runs.replay("r", code)).result == await result_of(runs)

    play(scenario())


def test_code_whose_time_is_up_while_its_run_is_paused_does_not_pay_again(tmp_path: Path) -> None:
    """The payment was interrupted with its drive, and the next drive has not come to ask about it."""

    async def scenario() -> None:
        bank = Bank(unsure)
        bank.answers.set()
        with open_kernel(tmp_path, tools=bank.tools(), clock=ManualClock(start_us=LATE)) as kernel:
            driving = asyncio.ensure_future(drive(kernel.for_tenant(), _timeout))
            await bank.entered.wait()
            driving.cancel()
            await asyncio.wait([driving])
        with _again(tmp_path, bank) as kernel:
            runs = kernel.for_tenant()
            await runs.pause("r")
            driving = asyncio.ensure_future(drive(runs, _timeout))
            while not (await runs.steps("r"))[-1]["key"].endswith(".timeout"):
                await asyncio.sleep(0)
            await runs.resume("r")
            assert await driving == "unknown_outcome"
            await runs.reconcile("r", "bank", succeeded="by bank")
            assert await drive(runs, _timeout) == "completed"
            assert await result_of(runs) == "by bank"
            assert (await runs.replay("r", _timeout)).result == "by bank"
        assert bank.paid == ["bank"]

    play(scenario())


def test_a_run_whose_time_is_up_behind_a_killed_payment_names_it(tmp_path: Path) -> None:
    """It said `unknown_outcome`, and there was no call to settle until somebody had driven it once more."""

    async def scenario() -> None:
        bank, killed = Bank(unsure), tmp_path / "killed"
        bank.answers.set()
        with open_kernel(tmp_path, tools=bank.tools(), clock=ManualClock(start_us=LATE)) as kernel:
            driving = asyncio.ensure_future(drive(kernel.for_tenant(), _timeout))
            await bank.entered.wait()
            killed.mkdir()
            for file in tmp_path.glob("s.db*"):
                copy(file, killed)  # what a kill leaves
            driving.cancel()
            bank.gate.set()
            await asyncio.wait([driving])
        with _again(killed, bank) as kernel:
            runs = kernel.for_tenant()
            await runs.pause("r")
            driving = asyncio.ensure_future(drive(runs, _timeout))
            while not (await runs.steps("r"))[-1]["key"].endswith(".timeout"):
                await asyncio.sleep(0)
            await runs.resume("r")
            assert await driving == "unknown_outcome"

            assert [call["step"] for call in (await runs.show("r"))["unknown_calls"]] == ["bank"]
            await runs.reconcile("r", "bank", succeeded="by bank")
            assert await drive(runs, _timeout) == "completed"
            assert await result_of(runs) == "by bank"
            assert (await runs.replay("r", _timeout)).result == "by bank"

    play(scenario())


def test_a_payment_that_is_cut_off_in_its_question_has_not_happened(tmp_path: Path) -> None:
    """Nothing was recorded: a replay came to a step that it could not take."""

    async def code(run: Run) -> Any:
        paying = asyncio.ensure_future(run.step_tool("pay", key="pay"))
        await asked.wait()
        paying.cancel()
        await asyncio.wait([paying])
        return [paying.cancelled(), await ask(run, "after")]

    @tool(side_effect=True)
    async def pay(ctx: ToolContext) -> str:
        """Ask, then pay."""
        asked.set()
        await ctx.ask("pay?", before_acting=True)
        return "paid"

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[pay]) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "completed"
            assert [step["status"] for step in await runs.steps("r") if step["key"] == "pay"] == ["cancelled"]
            assert (await runs.replay("r", code)).result == await result_of(runs)

    asked = asyncio.Event()
    play(scenario())

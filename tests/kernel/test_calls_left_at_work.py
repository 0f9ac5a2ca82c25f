"""A side effect at work when its run ends: its outcome is recorded late, or said by a person, and undone."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, Limits, Run, ToolContext, happened, not_happened, tool, unsure
from artelier.errors import Conflict, ToolFailed, ToolResultInvalid
from artelier.ports.tool import ToolPort
from tests.kernel.stage import World, drive, open_kernel, play, result_of, until, user


class Bank:
    """A payment that takes until somebody lets it end."""

    def __init__(self) -> None:
        self.world = World()
        self.entered = asyncio.Event()
        self.lets_go = asyncio.Event()
        self.raises: Exception | None = None

    def tools(self, **more: Any) -> list[ToolPort]:
        async def refund(arguments: dict[str, Any], result: Any, ctx: ToolContext) -> None:
            self.world.done.append(f"refund {result['paid']}")

        @tool(side_effect=True, compensate=refund, **more)
        async def pay(amount: int) -> dict[str, int]:
            "Pay."
            self.world.done.append(f"pay {amount}")
            self.entered.set()
            await self.lets_go.wait()
            if self.raises is not None:
                raise self.raises
            return {"paid": amount}

        return [pay]

    async def leave(self, run: Run) -> Any:
        """Come to an end beside the payment, and say whether it was done."""
        paying = asyncio.ensure_future(run.step_tool("pay", {"amount": 5}, key="pay"))
        await self.entered.wait()
        text = (await run.step_model(model="m", messages=[user("hi")], key="hi")).text
        return [text, paying.done()]


async def again(run: Run) -> Any:
    """As `Bank.leave`, without the outside."""
    paying = asyncio.ensure_future(run.step_tool("pay", {"amount": 5}, key="pay"))
    await asyncio.sleep(0)
    text = (await run.step_model(model="m", messages=[user("hi")], key="hi")).text
    return [text, paying.done()]


def test_a_run_that_ended_beside_a_side_effect_replays(tmp_path: Path) -> None:
    async def scenario() -> None:
        bank = Bank()
        with open_kernel(tmp_path, tools=bank.tools()) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, bank.leave) == "completed"
            replayed = await runs.replay("r", again)
            assert (replayed.result, replayed.tool_calls) == (["re: hi", False], 0)

    play(scenario())


async def _settle(kernel: Kernel) -> None:
    """Wait until the outcome of the payment is in the log."""
    while (await kernel.for_tenant().steps("r"))[0]["status"] == "requested":
        await asyncio.sleep(0)


def test_a_call_that_ends_after_its_run_is_recorded_and_undone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        bank = Bank()
        with open_kernel(tmp_path, tools=bank.tools()) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, bank.leave) == "completed"
            assert (await runs.compensate("r")).not_undone == ("pay",)
            bank.lets_go.set()
            await _settle(kernel)
            shown = await runs.show("r")
            assert (shown["status"], shown["unknown_outcomes"]) == ("completed", [])
            # The code has not heard of it, and does not on replay.
            assert (await runs.replay("r", again)).result == await result_of(runs) == ["re: hi", False]
            assert (await runs.compensate("r")).undone == ("pay",)
            assert (await runs.replay("r", again)).result == ["re: hi", False]
            assert kernel.verify().ok
            await runs.export("r", tmp_path / "r.artelier")
        with open_kernel(tmp_path / "elsewhere", tools=bank.tools()) as kernel:
            await kernel.for_tenant().import_(tmp_path / "r.artelier")
            assert (await kernel.for_tenant().replay("r", again)).result == ["re: hi", False]
        assert bank.world.done == ["pay 5", "refund 5"]

    play(scenario())
    assert caplog.records == []


def test_a_call_that_ends_while_another_one_is_undone_is_recorded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        bank = Bank()
        undoing = asyncio.Event()

        async def unbook(arguments: dict[str, Any], result: Any, ctx: ToolContext) -> None:
            undoing.set()
            await _wait_settled(kernel)
            bank.world.done.append("unbook")

        @tool(side_effect=True, compensate=unbook)
        async def book() -> str:
            "Book."
            bank.world.done.append("book")
            return "booked"

        async def code(run: Run) -> Any:
            await run.step_tool("book", {}, key="book")
            return await bank.leave(run)

        async def code_again(run: Run) -> Any:
            await run.step_tool("book", {}, key="book")
            return await again(run)

        with open_kernel(tmp_path, tools=[*bank.tools(), book]) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "completed"
            compensating = asyncio.ensure_future(runs.compensate("r"))
            await undoing.wait()
            bank.lets_go.set()
            assert (await compensating).undone == ("book",)
            assert (await runs.show("r"))["unknown_calls"] == []
            assert (await runs.replay("r", code_again)).result == await result_of(runs) == ["re: hi", False]
            assert (await runs.compensate("r")).undone == ("pay",)
            assert kernel.verify().ok
        assert bank.world.done == ["book", "pay 5", "unbook", "refund 5"]

    play(scenario())
    assert caplog.records == []


async def _wait_settled(kernel: Kernel) -> None:
    async def is_settled() -> bool:
        steps = {step["key"]: step["status"] for step in await kernel.for_tenant().steps("r")}
        return steps["pay"] == "completed"

    await until(is_settled)


def test_a_call_that_fails_after_its_run_needs_no_undoing(tmp_path: Path) -> None:
    async def scenario() -> None:
        bank = Bank()
        bank.raises = ToolFailed("no money")
        with open_kernel(tmp_path, tools=bank.tools()) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, bank.leave)
            bank.lets_go.set()
            await _settle(kernel)
            back = await runs.compensate("r")
            assert (back.undone, back.not_undone) == ((), ())

    play(scenario())


def test_a_call_whose_result_is_lost_after_its_run_has_happened_all_the_same(tmp_path: Path) -> None:
    async def scenario() -> None:
        bank = Bank()
        bank.raises = ToolResultInvalid("the answer is no JSON")
        with open_kernel(tmp_path, tools=bank.tools()) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, bank.leave)
            bank.lets_go.set()
            await _settle(kernel)
            assert (await runs.compensate("r")).not_undone == ("pay",)

    play(scenario())


@pytest.mark.parametrize("said", ["happened", "not_happened", "unsure"])
def test_the_probe_of_a_call_that_breaks_off_after_its_run_is_asked(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, said: str
) -> None:
    answers = {"happened": happened({"paid": 5}), "not_happened": not_happened, "unsure": unsure}

    async def probe(key: str, arguments: dict[str, Any]) -> Any:
        asked.set()
        return answers[said]

    async def scenario() -> None:
        bank = Bank()
        bank.raises = ConnectionError("lost")
        with open_kernel(tmp_path, tools=bank.tools(probe=probe)) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, bank.leave)
            bank.lets_go.set()
            await asked.wait()
            if said != "unsure":
                await _settle(kernel)
            back = await runs.compensate("r")
            undone = {"happened": ("pay",), "not_happened": (), "unsure": ()}[said]
            kept = {"happened": (), "not_happened": (), "unsure": ("pay",)}[said]
            assert (back.undone, back.not_undone) == (undone, kept)

    asked = asyncio.Event()
    play(scenario())
    assert len(caplog.records) == (said == "unsure")


@pytest.mark.parametrize("answer", ["succeeded", "failed"])
def test_a_person_says_what_a_call_did_whose_process_died_after_its_run(tmp_path: Path, answer: str) -> None:
    async def scenario() -> None:
        bank = Bank()
        with open_kernel(tmp_path, tools=bank.tools()) as kernel:
            await drive(kernel.for_tenant(), bank.leave)
        with open_kernel(tmp_path, tools=bank.tools()) as kernel:
            runs = kernel.for_tenant()
            (call,) = (await runs.show("r"))["unknown_calls"]
            assert (call["step"], call["arguments"], call["code"]) == ("pay", {"amount": 5}, "run_ended")
            with pytest.raises(Conflict, match="has ended"):
                await runs.reconcile("r", "pay", retry=True)
            said: dict[str, Any] = (
                {"succeeded": {"paid": 5}} if answer == "succeeded" else {"failed": "declined"}
            )
            await runs.reconcile("r", "pay", by="user:ana", **said)
            with pytest.raises(Conflict, match="has ended"):
                await runs.reconcile("r", "pay", **said)
            shown = await runs.show("r")
            assert (shown["status"], shown["unknown_outcomes"]) == ("completed", [])
            assert (await runs.replay("r", again)).result == ["re: hi", False]
            back = await runs.compensate("r")
            assert (back.undone, back.not_undone) == ((("pay",), ()) if answer == "succeeded" else ((), ()))
            assert kernel.verify().ok

    play(scenario())


def test_what_a_call_did_is_given_to_the_code_of_a_failed_run_that_is_tried_again(tmp_path: Path) -> None:
    class Stop(Exception):
        """Ends the first drive."""

    async def code(run: Run) -> Any:
        paying = asyncio.ensure_future(run.step_tool("pay", {"amount": 5}, key="pay"))
        await bank.entered.wait()
        if fails:
            raise Stop
        found = await paying
        return [found.value, found.settled_by]

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=bank.tools()) as kernel:
            runs = kernel.for_tenant()
            with pytest.raises(Stop):
                await drive(runs, code)
            bank.lets_go.set()
            await _settle(kernel)
            await runs.retry("r")
            fails.clear()
            assert await drive(runs, code) == "completed"
            assert await result_of(runs) == [{"paid": 5}, ""]
            assert (await runs.replay("r", code)).result == [{"paid": 5}, ""]
        assert bank.world.done == ["pay 5"]

    bank, fails = Bank(), [True]
    play(scenario())


def test_a_run_that_is_cancelled_after_its_process_died_can_be_settled(tmp_path: Path) -> None:
    async def scenario() -> None:
        bank = Bank()
        with open_kernel(tmp_path, tools=bank.tools()) as kernel:
            runs = kernel.for_tenant()
            driving = asyncio.ensure_future(drive(runs, bank.leave))
            await bank.entered.wait()
            driving.cancel()
            await asyncio.wait([driving])
        with open_kernel(tmp_path, tools=bank.tools()) as kernel:
            runs = kernel.for_tenant()
            await runs.cancel("r")
            assert (await runs.show("r"))["unknown_outcomes"] == ["pay"]
            await runs.reconcile("r", "pay", succeeded={"paid": 5})
            assert (await runs.compensate("r")).undone == ("pay",)

    play(scenario())


def test_a_call_that_ends_behind_a_suspension_is_asked_about_when_the_run_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def probe(key: str, arguments: dict[str, Any]) -> Any:
        return happened({"paid": 5})

    async def code(run: Run) -> Any:
        paying = asyncio.ensure_future(run.step_tool("pay", {"amount": 5}, key="pay"))
        await bank.entered.wait()
        text = (await run.step_model(model="m", messages=[user("hi")], key="hi")).text
        return [text, (await paying).value]

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=bank.tools(probe=probe)) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code, limits=Limits(steps=1)) == "budget_exhausted"
            bank.lets_go.set()
            while not caplog.records:
                await asyncio.sleep(0)
            assert (await runs.show("r"))["status"] == "budget_exhausted"
            await runs.limit("r", unit="steps", cap=5)
            assert await drive(runs, code) == "completed"
            assert await result_of(runs) == ["re: hi", {"paid": 5}]
        assert bank.world.done == ["pay 5"]

    bank = Bank()
    play(scenario())
    (record,) = caplog.records
    assert "pay" in record.getMessage()


def test_a_call_whose_large_result_is_being_recorded_when_its_run_ends_is_settled(tmp_path: Path) -> None:
    """It had returned before the end, and was encoded in a thread meanwhile: the log refused its outcome."""

    async def scenario() -> None:
        world, returned = World(), asyncio.Event()

        async def refund(arguments: dict[str, Any], result: Any, ctx: ToolContext) -> None:
            world.done.append("refund")

        @tool(side_effect=True, compensate=refund)
        async def book() -> str:
            "Book."
            world.done.append("book")
            returned.set()
            return "x" * 30_000_000

        async def code(run: Run) -> str:
            booking = asyncio.ensure_future(run.step_tool("book", {}, key="book"))
            await returned.wait()
            return "still at work" if not booking.done() else "too quick"

        with open_kernel(tmp_path, tools=[book]) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "completed"
            assert await result_of(runs) == "still at work"
            while (await runs.show("r"))["unknown_outcomes"]:
                await asyncio.sleep(0.01)
            assert (await runs.compensate("r")).undone == ("book",)
            assert world.done == ["book", "refund"]
            assert kernel.verify().findings == []

    play(scenario())


def test_a_task_that_was_left_takes_no_step_while_a_command_is_obeyed_at_the_end(tmp_path: Path) -> None:
    """It could pay after the code had returned, while a note was being written, and no replay knew of it."""

    async def once(folder: Path, pause_s: float) -> None:
        world, is_live = World(), True
        folder.mkdir()

        @tool(side_effect=True)
        async def pay() -> str:
            "Pay."
            world.done.append("pay")
            return "paid"

        async def code(run: Run) -> str:
            await run.step_model(model="m", messages=[user("hi")], key="hi")
            if is_live:
                given.append(asyncio.ensure_future(runs.inject("r", "x")))
                await asyncio.sleep(pause_s)
            given.append(asyncio.ensure_future(run.step_tool("pay", {}, key="pay")))
            return "end"

        given: list[asyncio.Future[Any]] = []
        with open_kernel(folder, tools=[pay]) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "completed"
            await asyncio.gather(*given, return_exceptions=True)
            is_live = False
            assert (await runs.replay("r", code)).status == "completed"
            await asyncio.gather(*given, return_exceptions=True)
        assert world.done == []

    async def scenario() -> None:
        for number in range(40):
            await once(tmp_path / str(number), number * 0.0002)

    play(scenario())


def asking_first(asked: asyncio.Event) -> ToolPort:
    async def refund(arguments: dict[str, Any], result: Any, ctx: ToolContext) -> None:
        raise AssertionError("there is nothing to give back")

    @tool(side_effect=True, compensate=refund)
    async def pay(ctx: ToolContext, amount: int) -> str:
        "Ask, then pay."
        asked.set()
        await ctx.ask("pay?", before_acting=True)
        return "paid"

    return pay


@pytest.mark.parametrize("end", ["completed", "cancelled", "answered and cancelled"])
def test_a_call_that_is_left_in_the_question_before_it_acts_has_not_happened(
    tmp_path: Path, end: str
) -> None:
    """Nobody could answer it any more, and a person was asked what it did."""

    async def leave(run: Run) -> Any:
        paying = asyncio.ensure_future(run.step_tool("pay", {"amount": 5}, key="pay"))
        left.append(paying)
        await asked.wait()
        await run.step_model(model="m", messages=[user("hi")], key="hi")
        if end != "completed":
            await paying

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[asking_first(asked)]) as kernel:
            driven = await drive(kernel.for_tenant(), leave, on_wait="suspend")
            assert driven == ("completed" if end == "completed" else "waiting_approval")
            await asyncio.wait(left, timeout=1)  # it ends with the drive: nobody else would know of it
            assert [one.done() for one in left] == [True]
        with open_kernel(tmp_path, tools=[asking_first(asked)]) as kernel:
            runs = kernel.for_tenant()
            if end.startswith("answered"):
                await runs.approve("r")
            if end != "completed":
                await runs.cancel("r")
            shown = await runs.show("r")
            assert (shown["status"], shown["unknown_outcomes"]) == (end.split()[-1], [])
            with pytest.raises(Conflict, match="has ended"):
                await runs.reconcile("r", "pay", failed="declined")
            back = await runs.compensate("r")
            assert (back.undone, back.not_undone) == ((), ())
            assert kernel.verify().ok

    asked, left = asyncio.Event(), list[asyncio.Future[Any]]()
    play(scenario())

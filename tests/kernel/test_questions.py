"""A tool that asks a person and is tried again has asked once."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, Field

from artelier import Kernel, Policy, Run, ToolContext, tool
from artelier.errors import Conflict, InvalidArguments, NotFound, RunSuspended, TransientError
from tests.kernel.crashes import Deaths
from tests.kernel.stage import (
    EAGER,
    World,
    all_others_are_dead,
    drive,
    has_status,
    kinds,
    open_kernel,
    play,
    result_of,
)

ASKS = Policy(approve_risk="high", backoff_s=0)


def consulting(failures: int = 0) -> Any:
    left = [failures]

    @tool(side_effect=False)
    async def consult(ctx: ToolContext) -> str:
        """Ask, then answer."""
        answer = await ctx.ask("may I", {"what": "this"})
        assert bool(answer) is (answer.decision != "deny")
        if left[0]:
            left[0] -= 1
            raise TransientError("busy")
        return answer.decision

    return consult


async def code(run: Run) -> Any:
    return (await run.step_tool("consult", key="c")).value


async def settled(kernel: Kernel, driven: asyncio.Task[str]) -> tuple[str, Any, int]:
    """Status, result, and how often people were asked."""
    status = await driven
    result = await result_of(kernel.for_tenant())
    asked = (await kinds(kernel)).count("approval.requested")
    kernel.close()
    return status, result, asked


def test_a_stopped_tool_takes_the_answer_that_came_meanwhile(tmp_path: Path) -> None:
    async def scenario() -> tuple[str, Any, int]:
        kernel = open_kernel(tmp_path, tools=[consulting()])
        runs = kernel.for_tenant()
        driven = asyncio.ensure_future(drive(runs, code))
        await has_status(runs, "waiting_approval")
        await runs.stop("r")
        await runs.approve("r")
        await runs.resume("r")
        return await settled(kernel, driven)

    assert play(scenario()) == ("completed", "approve", 1)


def test_a_stopped_tool_waits_again_for_the_answer_to_its_question(tmp_path: Path) -> None:
    async def scenario() -> tuple[str, Any, int]:
        kernel = open_kernel(tmp_path, tools=[consulting()])
        runs = kernel.for_tenant()
        driven = asyncio.ensure_future(drive(runs, code))
        await has_status(runs, "waiting_approval")
        await runs.stop("r")
        await runs.resume("r")
        await runs.approve("r", deny=True)
        return await settled(kernel, driven)

    assert play(scenario()) == ("completed", "deny", 1)


def test_a_tool_that_fails_after_its_question_is_tried_again_with_the_answer(tmp_path: Path) -> None:
    async def scenario() -> tuple[str, Any, int]:
        kernel = open_kernel(tmp_path, tools=[consulting(failures=2)])
        runs = kernel.for_tenant()
        driven = asyncio.ensure_future(drive(runs, code))
        await has_status(runs, "waiting_approval")
        await runs.approve("r")
        return await settled(kernel, driven)

    assert play(scenario()) == ("completed", "approve", 1)


def sending(world: World, *, before_acting: bool = True) -> Any:
    """A side effect that asks first, twice."""

    @tool(side_effect=True)
    async def send(ctx: ToolContext) -> list[str]:
        """Ask, then send."""
        first = await ctx.ask("may I", before_acting=before_acting)
        second = await ctx.ask("really", before_acting=before_acting)
        world.done.append(ctx.idempotency_key)
        return [first.decision, second.decision]

    return send


async def send(run: Run) -> Any:
    return (await run.step_tool("send", key="c")).value


def test_a_side_effect_that_asks_before_it_acts_survives_every_suspension(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World()
        for number, decision in enumerate(("approve", "deny")):
            for _ in range(2):  # opened again without an answer, it asks nothing new
                with open_kernel(tmp_path, tools=[sending(world)]) as kernel:
                    assert await drive(kernel.for_tenant(), send, on_wait="suspend") == "waiting_approval"
                    asked = (await kinds(kernel)).count("approval.requested")
                    assert (asked, world.done) == (number + 1, [])
            with open_kernel(tmp_path, tools=[sending(world)]) as kernel:
                await kernel.for_tenant().approve("r", deny=decision == "deny")
        with open_kernel(tmp_path, tools=[sending(world)]) as kernel:
            assert await drive(kernel.for_tenant(), send) == "completed"
            assert await result_of(kernel.for_tenant()) == ["approve", "deny"]
            assert kernel.verify().ok
        assert world.done == ["default/r:c"]

    play(scenario())


def test_a_side_effect_that_does_not_say_so_is_not_entered_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World()
        with open_kernel(tmp_path, tools=[sending(world, before_acting=False)]) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, send, on_wait="suspend") == "waiting_approval"
            await runs.approve("r")
            assert await drive(runs, send) == "unknown_outcome"
            assert world.done == []

    play(scenario())


def test_an_answer_that_comes_while_a_drive_leaves_the_question_is_heard_by_the_next_one(
    tmp_path: Path,
) -> None:
    """It had not reached the tool, which was taken for one that may have acted."""

    async def scenario() -> None:
        done: list[str] = []

        @tool(side_effect=True)
        async def leaving(ctx: ToolContext) -> None:
            """Leave the question, and have it answered on the way out."""
            try:
                await ctx.ask("may I", before_acting=True)
            except RunSuspended:
                await kernel.for_tenant().approve("r")
                raise
            done.append(ctx.idempotency_key)

        async def code(run: Run) -> Any:
            return (await run.step_tool("leaving", key="c")).is_error

        with open_kernel(tmp_path, tools=[leaving]) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, code, on_wait="suspend")
            assert (await runs.show("r"))["status"] == "pending"
            assert (await kinds(kernel))[-2:] == ["approval.given", "run.suspended"]
            assert done == []

            assert await drive(runs, code, on_wait="suspend") == "completed"
        assert done == ["default/r:c"]

    play(scenario())


def test_a_side_effect_whose_process_is_interrupted_in_its_question_asks_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World()
        with open_kernel(tmp_path, tools=[sending(world)]) as kernel:
            runs = kernel.for_tenant()
            for end in ("cancel", "stop"):
                driven = asyncio.ensure_future(drive(runs, send))
                await has_status(runs, "waiting_approval")
                if end == "cancel":
                    driven.cancel()
                    await asyncio.wait([driven])
            await runs.stop("r")
            await runs.resume("r")
            await has_status(runs, "waiting_approval")
            await runs.approve("r")
            await has_status(runs, "waiting_approval")
            await runs.approve("r")
            assert await driven == "completed"
            assert await result_of(runs) == ["approve", "approve"]
            assert (await kinds(kernel)).count("approval.requested") == 2
        assert world.done == ["default/r:c"]

    play(scenario())


@pytest.mark.parametrize("early", [False, True])
def test_wherever_its_process_dies_a_side_effect_that_asks_acts_once_or_is_unknown(
    tmp_path: Path, early: bool
) -> None:
    """Behind an answer that reached it, a tool may have acted: then it is never entered again."""

    async def has_question(kernel: Kernel) -> bool:
        rows = await kernel.store.query("SELECT 1 FROM approvals WHERE decision IS NULL")
        return bool(rows)

    async def answered(kernel: Kernel, driven: asyncio.Task[str]) -> str:
        runs = kernel.for_tenant()
        while not driven.done():
            # The run may not have begun yet; a command of before the death may answer it first.
            with suppress(NotFound, Conflict):
                if (await runs.show("r"))["approvals"]:
                    await runs.approve("r")
            await asyncio.wait([driven], timeout=0.01)
        return driven.result()

    async def scenario() -> list[str]:
        world, path = World(), tmp_path / "s.db"
        deaths = Deaths(path, world)
        with open_kernel(tmp_path, tools=[sending(world)], fault=deaths) as kernel:
            driven = asyncio.ensure_future(drive(kernel.for_tenant(), send))
            await has_status(kernel.for_tenant(), "waiting_approval")
            assert await answered(kernel, driven) == "completed"
        ends: list[str] = []
        for death in deaths.found:
            with Kernel.open(death.path, tools=[sending(death.world)], policy=EAGER) as kernel:
                all_others_are_dead(kernel)
                if early and await has_question(kernel):
                    with suppress(Conflict):  # a command of before the death has answered it
                        await kernel.for_tenant().approve("r")
                driven = asyncio.ensure_future(drive(kernel.for_tenant(), send))
                await asyncio.wait([driven], timeout=0.02)
                end = await answered(kernel, driven)
                assert len(death.world.done) <= 1, death.point
                assert len(death.world.done) == 1 or end == "unknown_outcome", death.point
                ends.append(end)
        return ends

    ends = play(scenario())
    assert {"completed", "unknown_outcome"} == set(ends)


@pytest.mark.parametrize("knows", [True, False], ids=["here", "elsewhere"])
def test_edited_arguments_that_do_not_fit_are_no_answer(tmp_path: Path, knows: bool) -> None:
    """The edit was used up, and the call failed. Who decides without the tool lets its worker ask again."""
    sent: list[int] = []

    @tool(side_effect=True, risk="high")
    async def transfer(amount: int) -> int:
        """Transfer."""
        sent.append(amount)
        return amount

    async def code(run: Run) -> Any:
        return (await run.step_tool("transfer", {"amount": 10})).value

    async def decide(**answer: Any) -> dict[str, Any]:
        """Answer the one question, beside the worker or in a process of its own, and return it."""
        with open_kernel(tmp_path, tools=[transfer] if knows else [], policy=ASKS) as kernel:
            (asked,) = await kernel.for_tenant().approvals("r")
            await kernel.for_tenant().approve("r", **answer)
            return dict(asked)

    async def work() -> str:
        with open_kernel(tmp_path, tools=[transfer], policy=ASKS) as kernel:
            return await drive(kernel.for_tenant(), code, on_wait="suspend")

    async def scenario() -> None:
        assert await work() == "waiting_approval"
        if knows:
            with pytest.raises(
                InvalidArguments, match="amount: expected a valid integer, got 'ten'"
            ) as refused:
                await decide(arguments={"amount": "ten"})
            assert "still open" in str(refused.value)
        else:
            for wrong in ("ten", "nine"):
                await decide(arguments={"amount": wrong})
                assert await work() == "waiting_approval"
        asked = await decide(arguments={"amount": 3}, note="less")
        assert asked["step"] == ("1/approval" if knows else "1/edit-3/approval")
        assert asked["details"]["arguments"] == {"amount": 10}
        assert ("got 'nine'" in asked["details"].get("why", "")) is not knows
        assert await work() == "completed"
        assert await work() == "completed", "it replays"
        with open_kernel(tmp_path, tools=[transfer], policy=ASKS) as kernel:
            replay = await kernel.for_tenant().replay("r", code)
            assert (replay.status, replay.result, replay.tool_calls) == ("completed", 3, 0)

    play(scenario())
    assert sent == [3]


def test_edited_arguments_are_checked_while_the_run_waits_in_this_process(tmp_path: Path) -> None:
    async def code(run: Run) -> Any:
        return (await run.step_tool("look", {"at": "a"})).value

    @tool(side_effect=False, risk="high")
    async def look(at: str) -> str:
        """Look."""
        return at

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[look], policy=ASKS) as kernel:
            runs = kernel.for_tenant()
            driving = asyncio.create_task(drive(runs, code))
            await has_status(runs, "waiting_approval")
            for wrong in ({"from": "b"}, ["b"], {}):
                with pytest.raises(InvalidArguments, match="expected"):
                    await runs.approve("r", arguments=wrong)
            await runs.approve("r", arguments={"at": "b"})
            assert await driving == "completed"
            assert await result_of(runs) == "b"

    play(scenario())


def test_what_the_code_asks_itself_is_answered_with_any_edit(tmp_path: Path) -> None:
    @tool(side_effect=False)
    async def look(at: str) -> str:
        """Look."""
        return at

    async def code(run: Run) -> Any:
        return (await run.approve("call look", key="a/approval")).arguments

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[look]) as kernel:
            runs = kernel.for_tenant()
            driving = asyncio.create_task(drive(runs, code))
            await has_status(runs, "waiting_approval")
            await runs.approve("r", arguments={"from": "b"})
            assert await driving == "completed"
            assert await result_of(runs) == {"from": "b"}

    play(scenario())


def paying(paid: list[tuple[str, object]], kind: Any) -> Any:
    """A payment whose amount is of some type."""

    async def pay(to: str, amount: Any) -> str:
        """Pay."""
        paid.append((to, amount))
        return to

    pay.__annotations__["amount"] = kind
    return tool(side_effect=True, risk="high")(pay)


async def pay(run: Run) -> Any:
    return (await run.step_tool("pay", {"to": "ana", "amount": 5}, key="p")).is_error


async def asked_again(path: Path, kind: Any, edited: object) -> None:
    """Have a payment edited so that it does not fit, and its question asked again."""

    async def work() -> None:
        with open_kernel(path, tools=[paying([], kind)], policy=ASKS) as kernel:
            assert await drive(kernel.for_tenant(), pay, on_wait="suspend") == "waiting_approval"

    await work()
    with open_kernel(path, policy=ASKS) as kernel:  # has no tool to check it by
        await kernel.for_tenant().approve("r", arguments={"to": "eve", "amount": edited})
    await work()


@pytest.mark.parametrize("second", ["deny", "edit", "open"])
def test_an_edit_that_did_not_fit_is_not_judged_anew_by_a_changed_tool(tmp_path: Path, second: str) -> None:
    """It was, fitted by then, and was paid: over a person's denial, or in place of what he had decided."""
    paid: list[tuple[str, object]] = []

    async def scenario() -> None:
        await asked_again(tmp_path, int, "1000x")
        with open_kernel(tmp_path, tools=[paying(paid, int | str)], policy=ASKS) as kernel:
            runs = kernel.for_tenant()
            if second == "deny":
                await runs.approve("r", deny=True)
            elif second == "edit":
                await runs.approve("r", arguments={"to": "bob", "amount": 1})

            status = await drive(runs, pay, on_wait="suspend")

            assert status == ("waiting_approval" if second == "open" else "completed")
            assert [asked["step"] for asked in await runs.approvals("r")] == ["p/edit-2/approval"][
                : second == "open"
            ]
            if second != "open":
                replay = await runs.replay("r", pay)
                assert (replay.status, replay.result) == ("completed", second == "deny")

    play(scenario())
    assert paid == ([("bob", 1)] if second == "edit" else [])


def test_a_question_that_was_asked_again_stands_when_the_tool_says_otherwise_why(tmp_path: Path) -> None:
    """The run failed for good: the question named the bound of then."""
    paid: list[tuple[str, object]] = []

    async def scenario() -> None:
        await asked_again(tmp_path, Annotated[int, Field(le=10)], 500)
        with open_kernel(tmp_path, tools=[paying(paid, Annotated[int, Field(le=20)])], policy=ASKS) as kernel:
            await kernel.for_tenant().approve("r", arguments={"to": "bob", "amount": 15})
            assert await drive(kernel.for_tenant(), pay, on_wait="suspend") == "completed"

    play(scenario())
    assert paid == [("bob", 15)]


def test_an_edit_that_the_check_of_a_tool_stumbles_over_does_not_fit(tmp_path: Path) -> None:
    """The run failed with what the check had raised, at every retry; and the person was told nothing."""
    paid: list[tuple[str, object]] = []

    def known(currency: str) -> str:
        return {"EUR": "euro"}[currency]

    async def scenario() -> None:
        checked = Annotated[int | str, AfterValidator(lambda amount: known("EUR" if amount == 5 else amount))]
        await asked_again(tmp_path, checked, "USD")
        with open_kernel(tmp_path, tools=[paying(paid, checked)], policy=ASKS) as kernel:
            runs = kernel.for_tenant()
            (asked,) = await runs.approvals("r")
            assert "KeyError: 'USD'" in asked["details"]["why"]
            with pytest.raises(InvalidArguments, match="KeyError: 'GBP'") as refused:
                await runs.approve("r", arguments={"to": "eve", "amount": "GBP"})
            assert "still open" in str(refused.value)
            await runs.approve("r")
            assert await drive(runs, pay, on_wait="suspend") == "completed"

    play(scenario())
    assert paid == [("ana", "euro")]


@tool(side_effect=True)
async def gather(ctx: ToolContext) -> list[str]:
    """Ask two people side by side, then act."""
    answers = await asyncio.gather(*(ctx.ask(who, before_acting=True) for who in ("ann", "bob")))
    ACTED.append(ctx.idempotency_key)
    return [answer.decision for answer in answers]


@tool(side_effect=True)
async def split(ctx: ToolContext) -> list[str]:
    """Ask two people side by side, and act for each as soon as he has answered."""

    async def act(who: str) -> str:
        answer = await ctx.ask(who, before_acting=True)
        ACTED.append(f"{ctx.idempotency_key} {who}")
        return answer.decision

    return list(await asyncio.gather(act("ann"), act("bob")))


ACTED: list[str] = []


@pytest.mark.parametrize("first", [1, 2])
@pytest.mark.parametrize("name", ["gather", "split"])
def test_a_call_that_asks_side_by_side_acts_once_all_that_nobody_heard_is_answered(
    tmp_path: Path, name: str, first: int
) -> None:
    """A drive heard one answer and left at the other question: what the call had done was unknown."""

    async def code(run: Run) -> Any:
        return (await run.step_tool(name, key="c")).value

    async def work() -> str:
        with open_kernel(tmp_path, tools=[gather, split]) as kernel:
            return await drive(kernel.for_tenant(), code, on_wait="suspend")

    async def scenario() -> None:
        ACTED.clear()
        assert await work() == "waiting_approval"
        for number in (first, 3 - first):
            with open_kernel(tmp_path) as kernel:
                await kernel.for_tenant().approve("r", step=f"c/ask/{number}", deny=number == 2)
            if number == first:
                assert await work() == "waiting_approval"
                assert ACTED == [], "a drive that may leave it in the other question must not have it act"
        assert await work() == "completed"
        with open_kernel(tmp_path, tools=[gather, split]) as kernel:
            assert await result_of(kernel.for_tenant()) == ["approve", "deny"]
            assert (await kernel.for_tenant().replay("r", code)).status == "completed"
        assert len(ACTED) == len(set(ACTED)) == (1 if name == "gather" else 2)

    play(scenario())


def test_a_call_that_has_heard_one_of_two_answers_is_not_entered_again(tmp_path: Path) -> None:
    """It was, after a stop: the other question was open, and it had acted behind the first."""

    async def code(run: Run) -> Any:
        return (await run.step_tool("split", key="c")).value

    async def scenario() -> None:
        ACTED.clear()
        with open_kernel(tmp_path, tools=[split]) as kernel:
            runs = kernel.for_tenant()
            driven = asyncio.ensure_future(drive(runs, code))
            await has_status(runs, "waiting_approval")
            await runs.approve("r", step="c/ask/1")
            while not ACTED:
                await asyncio.sleep(0.001)
            await runs.stop("r")
            await runs.resume("r")
            assert await driven == "unknown_outcome"
        assert ACTED == ["default/r:c ann"]

    play(scenario())


@pytest.mark.parametrize("answered", ["a", "b", "ab"])
@pytest.mark.parametrize("end", ["suspended", "interrupted"])
def test_every_answer_that_a_drive_did_not_hear_is_heard_by_the_next_one(
    tmp_path: Path, end: str, answered: str
) -> None:
    """Of calls side by side the log named one: another call, or that of a drive that was interrupted, was
    taken for one that may have acted."""
    done: list[str] = []
    left = list(answered)

    @tool(side_effect=True)
    async def leaving(ctx: ToolContext, key: str) -> str:
        """Leave the question, and have questions answered on the way out."""
        try:
            await ctx.ask(key, before_acting=True)
        except (RunSuspended, asyncio.CancelledError):
            while left:
                await kernel.for_tenant().approve("r", step=f"{left.pop()}/ask/1")
            raise
        done.append(ctx.idempotency_key)
        return key

    async def code(run: Run) -> Any:
        calls = [run.step_tool("leaving", {"key": key}, key=key) for key in "ab"]
        return [result.value for result in await asyncio.gather(*calls, return_exceptions=True)]  # type: ignore[union-attr]

    async def scenario() -> None:
        with open_kernel(tmp_path, tools=[leaving]) as opened:
            nonlocal kernel
            kernel = opened
            runs = opened.for_tenant()
            waits = {"on_wait": "suspend"} if end == "suspended" else {}
            driven = asyncio.ensure_future(drive(runs, code, **waits))
            if end == "interrupted":
                await has_status(runs, "waiting_approval")
                while len(await runs.approvals("r")) < 2:
                    await asyncio.sleep(0.001)
                driven.cancel()
            await asyncio.wait([driven])
            assert done == []
            assert (await kinds(opened)).count("approval.given") == len(answered)
            while await drive(runs, code, on_wait="suspend") == "waiting_approval":
                for asked in await runs.approvals("r"):
                    await runs.approve("r", step=asked["step"])
            assert await result_of(runs) == ["a", "b"]
        assert sorted(done) == ["default/r:a", "default/r:b"]

    kernel: Any = None
    play(scenario())


def asking_once(world: World) -> Any:
    @tool(side_effect=True)
    async def send(ctx: ToolContext) -> str:
        """Ask, then send."""
        answer = await ctx.ask("may I", before_acting=True)
        world.done.append(ctx.idempotency_key)
        return answer.decision

    return send


async def send_after(run: Run) -> Any:
    await run.step("look", lambda: "here")
    return await send(run)


async def send_after_another(run: Run) -> Any:
    await run.step("see", lambda: "there", key="1")
    return await send(run)


@pytest.mark.parametrize("effects", ["live", "recorded", "stub"])
def test_a_fork_asks_what_a_call_of_its_origin_was_left_in(tmp_path: Path, effects: Any) -> None:
    """It took it for a call that may have acted. The fork's call is its own: its origin may still act."""

    async def scenario() -> None:
        world = World()
        with open_kernel(tmp_path, tools=[asking_once(world)]) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, send_after, on_wait="suspend") == "waiting_approval"
            fork = await runs.fork("r", effects=effects)
            asked: list[str] = []

            while await drive(runs, send_after, fork, on_wait="suspend") == "waiting_approval":
                for one in await runs.approvals(fork):
                    asked.append(one["step"])
                    await runs.approve(fork, step=one["step"])

            assert asked == {"live": ["c/ask/1"], "recorded": ["c/approval", "c/ask/1"], "stub": []}[effects]
            assert (await runs.show(fork))["status"] == "completed"
            assert world.done == ([] if effects == "stub" else [f"default/{fork}:c"])
            await runs.approve("r")
            assert await drive(runs, send_after, on_wait="suspend") == "completed"
            assert world.done[-1] == "default/r:c"
            for name in ("r", fork):
                assert (await runs.replay(name, send_after)).status == "completed"

    play(scenario())


def test_code_that_has_changed_leaves_a_call_behind_that_was_left_in_its_question(tmp_path: Path) -> None:
    """The run said at every drive that it was unknown what the call had done, and nobody was asked."""

    async def scenario() -> None:
        world = World()
        with open_kernel(tmp_path, tools=[asking_once(world)]) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, send_after, on_wait="suspend") == "waiting_approval"

            drifted = await drive(runs, send_after_another, on_wait="suspend", replay="fork_on_drift")

            assert (drifted, world.done) == ("waiting_approval", [])
            await runs.approve("r.drift-1")
            assert await drive(runs, send_after_another, "r.drift-1", on_wait="suspend") == "completed"
        assert world.done == ["default/r.drift-1:c"]

    play(scenario())


def test_a_call_that_is_interrupted_before_it_asks_again_has_not_heard_the_answer(tmp_path: Path) -> None:
    async def scenario() -> None:
        done: list[str] = []
        entered: list[asyncio.Event] = []

        @tool(side_effect=True)
        async def slow(ctx: ToolContext) -> str:
            """Take its time before it asks, when it is entered again."""
            entered.append(asyncio.Event())
            if len(entered) == 2:
                await entered[0].wait()
            answer = await ctx.ask("may I", before_acting=True)
            done.append(ctx.idempotency_key)
            return answer.decision

        async def code(run: Run) -> Any:
            return (await run.step_tool("slow", key="c")).value

        with open_kernel(tmp_path, tools=[slow]) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code, on_wait="suspend") == "waiting_approval"
            await runs.approve("r")
            driven = asyncio.ensure_future(drive(runs, code))
            while len(entered) < 2:
                await asyncio.sleep(0.001)
            driven.cancel()
            await asyncio.wait([driven])
            assert done == []

            assert await drive(runs, code) == "completed"
        assert done == ["default/r:c"]

    play(scenario())

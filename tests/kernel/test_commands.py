"""What people tell a run: pause, resume, stop, cancel, inject, retry; here or elsewhere, at work or idle."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from artelier import ModelReply, ModelRequest, ModelResult, Run, RunStopped, ToolContext, tool
from artelier.errors import Conflict, NotFound
from artelier.kernel import events as ev
from artelier.log import Batch, Draft, StreamAppend, control_stream
from artelier.ports.model import Delta
from tests.kernel.stage import (
    ACME,
    PRICE,
    GateModel,
    ask,
    assert_conserved,
    drive,
    echo,
    events,
    has_status,
    kinds,
    open_kernel,
    play,
    result_of,
    until,
)


async def _three(run: Run) -> Any:
    return [await ask(run, text) for text in ("a", "b", "c")]


@pytest.mark.parametrize("elsewhere", [False, True])
def test_pause_takes_effect_at_the_next_step_and_resume_lets_it_go_on(
    tmp_path: Path, elsewhere: bool
) -> None:
    async def scenario() -> None:
        gate = GateModel()
        with open_kernel(tmp_path, gate) as kernel, open_kernel(tmp_path) as other:
            runs = kernel.for_tenant()
            desk = (other if elsewhere else kernel).for_tenant()
            work = asyncio.create_task(drive(runs, _three))
            await gate.asked("a")
            effect = await desk.pause("r", by="user:eve", note="lunch")
            assert isinstance(effect, ev.RunPaused)
            assert (await desk.show("r"))["status"] == "paused"
            gate.answer("a")
            await asyncio.sleep(0.05)
            assert len(gate.requests) == 1, "the call in flight ends, the next does not begin"
            with pytest.raises(Conflict):
                await desk.retry("r")

            await desk.resume("r", by="user:eve")
            gate.answer("b")
            gate.answer("c")
            assert await work == "completed"
            assert await result_of(runs) == ["re: a", "re: b", "re: c"]
            paused = next(e for e in await events(kernel) if e.kind == "run.paused")
            assert (paused.actor, paused.cause) == ("user:eve", "control:r@1")

    play(scenario())


@pytest.mark.parametrize("on_wait", ["await", "suspend"])
def test_a_pause_is_kept_by_a_restart_and_enforced_after_it(tmp_path: Path, on_wait: str) -> None:
    async def scenario() -> None:
        gate = GateModel()
        with open_kernel(tmp_path, gate) as kernel:
            runs = kernel.for_tenant()
            work = asyncio.create_task(drive(runs, _three))
            await gate.asked("a")
            await runs.pause("r")
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work
            assert (await runs.show("r"))["status"] == "paused"
        model = echo()
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant()
            work = asyncio.create_task(drive(runs, _three, on_wait=on_wait))
            if on_wait == "suspend":
                assert await work == "paused"
            else:
                await asyncio.sleep(0.05)
                assert not work.done()
            assert model.requests == []
            await runs.resume("r")
            if on_wait == "suspend":
                assert (await runs.show("r"))["status"] == "pending"
                work = asyncio.create_task(drive(runs, _three))
            assert await work == "completed"

    play(scenario())


def test_an_idle_run_obeys_and_is_left_as_it_was_told(tmp_path: Path) -> None:
    async def code(run: Run) -> Any:
        await run.approve("go?")
        return await run.notes()

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code, on_wait="suspend") == "waiting_approval"
            await runs.pause("r")
            await runs.approve("r")
            await runs.inject("r", "remember the milk")
            assert (await runs.show("r"))["status"] == "paused", "an answer is no resume"
            await runs.resume("r")
            assert (await runs.show("r"))["status"] == "pending"
            assert await kernel.store.query("SELECT count(*) FROM leases") == [(0,)]
            assert await drive(runs, code) == "completed"
            assert await result_of(runs) == ["remember the milk"]

            assert await drive(runs, code, "s", on_wait="suspend") == "waiting_approval"
            await runs.cancel("s", note="no need")
            shown = await runs.show("s")
            assert (shown["status"], shown["message"]) == ("cancelled", "no need")

    play(scenario())


def test_refused_commands_are_conflicts_with_a_code_and_are_recorded(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, _three) == "completed"
            commands: list[tuple[Callable[..., Awaitable[Any]], str]] = [
                (runs.pause, "run_ended"),
                (runs.resume, "run_ended"),
                (runs.cancel, "run_ended"),
                (runs.stop, "run_ended"),
                (runs.retry, "not_failed"),
            ]
            for command, code in commands:
                with pytest.raises(Conflict) as refused:
                    await command("r")
                assert refused.value.facts["refusal"] == code
            with pytest.raises(Conflict):
                await runs.inject("r", "too late")
            assert (await kinds(kernel)).count("command.refused") == 6
            assert (await runs.show("r"))["status"] == "completed"
            for command, _ in commands:
                with pytest.raises(NotFound):
                    await command("no such run")

            async def waits(run: Run) -> None:
                await run.approve("?")

            work = asyncio.create_task(drive(runs, waits, "s"))
            await has_status(runs, "waiting_approval", "s")
            with pytest.raises(Conflict, match="not paused"):
                await runs.resume("s")
            await runs.approve("s")
            assert await work == "completed"

    play(scenario())


def test_a_command_that_makes_no_sense_does_not_block_the_ones_behind_it(tmp_path: Path) -> None:
    """Control streams are written by any process, of any version."""

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()

            async def code(run: Run) -> None:
                await run.approve("?")

            assert await drive(runs, code, on_wait="suspend") == "waiting_approval"
            odd = [
                ev.CommandGiven(verb="dance"),
                ev.CommandGiven(verb="inject"),
                ev.CommandGiven(verb="limit", key="usd", choice="-5"),
                ev.CommandGiven(verb="limit", key="hope", choice="5"),
                ev.CommandGiven(verb="limit", key="usd", choice="9" * 30),
                ev.CommandGiven(verb="answer", key="1", choice="maybe"),
                ev.CommandGiven(verb="reconcile", key="1", choice="perhaps"),
            ]
            drafts = [Draft(command, 1, "somebody") for command in odd]
            stream = control_stream("default", "r")
            await kernel.store.append(Batch(appends=[StreamAppend(stream, drafts)]))
            await runs.approve("r")
            assert await drive(runs, code) == "completed"
            refused = [e.plain()["code"] for e in await events(kernel) if "refused" in e.kind]
            assert refused == ["invalid_command"] * len(odd)

    play(scenario())


def test_stop_ends_the_calls_in_flight_and_resume_makes_them_again(tmp_path: Path) -> None:
    async def code(run: Run) -> Any:
        return await run.gather(*[lambda b, t=text: ask(b, t) for text in ("a", "b")])

    async def scenario() -> None:
        gate = GateModel()
        gate.price = PRICE
        with open_kernel(tmp_path, gate) as kernel:
            runs = kernel.for_tenant(ACME)
            work = asyncio.create_task(drive(runs, code))
            await gate.asked("a")
            await gate.asked("b")
            await runs.stop("r")
            await until(lambda: _calls_ended(kernel))
            shown = await runs.show("r")
            assert (shown["status"], shown["reason"]) == ("paused", "stopped")
            assert 0 < shown["cost_microusd"] < 200, "what was begun may be billed: its input"
            await assert_conserved(kernel, "acme")

            await runs.resume("r")
            gate.answer("a")
            gate.answer("b")
            assert await work == "completed"
            assert await result_of(runs) == ["re: a", "re: b"]
            assert len(gate.requests) == 4
            await assert_conserved(kernel, "acme")
            for key in ("1/0/1", "1/1/1"):
                assert await runs.render("r", key) in gate.requests

    async def _calls_ended(kernel: Any) -> bool:
        return (await kinds(kernel, tenant="acme")).count("model.failed") == 2

    play(scenario())


def test_a_stopped_run_that_left_is_resumed_elsewhere_with_the_same_request(tmp_path: Path) -> None:
    async def code(run: Run) -> Any:
        talk = run.conversation()
        talk.append({"role": "user", "content": "a"})
        talk.append(await run.step_model(model="m", messages=talk))
        talk.append({"role": "user", "content": "b"})
        return (await run.step_model(model="m", messages=talk)).text

    async def scenario() -> None:
        gate = GateModel()
        with open_kernel(tmp_path, gate) as kernel:
            runs = kernel.for_tenant()
            gate.answer("a")
            work = asyncio.create_task(drive(runs, code, on_wait="suspend"))
            await gate.asked("b")
            await runs.stop("r")
            assert await work == "paused"
            await runs.resume("r")
        model = echo()
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "completed"
            assert [r.messages[-1].text for r in model.requests] == ["b"]
            assert await runs.render("r", "2") == model.requests[0] == gate.requests[1]

    play(scenario())


class DripModel:
    """Streams `one two three ...`, a word at a time, when the test lets it."""

    price = PRICE

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.closed = 0

    async def complete(self, request: ModelRequest, /) -> ModelReply:
        return ModelReply(text="whole")

    async def stream(self, request: ModelRequest, /) -> AsyncIterator[Delta | ModelReply]:
        try:
            for word in ("one ", "two ", "three "):
                yield Delta(text=word)
            await self.go_on.wait()
            yield ModelReply(text="one two three four")
        finally:
            self.closed += 1


def test_stop_cuts_a_stream_and_keeps_what_came_with_its_cost(tmp_path: Path) -> None:
    async def code(run: Run) -> Any:
        items = [
            item
            async for item in run.stream_model(model="m", messages=[{"role": "user", "content": "count"}])
        ]
        last = items[-1]
        assert isinstance(last, ModelResult)
        return [last.text, last.finish_reason, last.cost_microusd]

    async def scenario() -> None:
        model = DripModel()
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant(ACME)
            work = asyncio.create_task(drive(runs, code))
            await until(lambda: _streams(kernel))
            await runs.stop("r")
            await asyncio.sleep(0.05)
            assert model.closed == 1, "the provider's call is ended at once"
            await runs.resume("r")
            assert await work == "completed"
            text, finish, cost = await result_of(runs)
            assert (text, finish) == ("one two three ", "cut")
            assert cost > 0
            assert (await assert_conserved(kernel, "acme"))["spent"] == cost
            assert await drive(runs, code) == "completed"

    async def _streams(kernel: Any) -> bool:
        await asyncio.sleep(0.03)
        return "model.requested" in await kinds(kernel, tenant="acme")

    play(scenario())


def test_cancel_ends_harmless_calls_lets_side_effects_finish_and_reaches_children(tmp_path: Path) -> None:
    done: list[str] = []

    async def scenario() -> None:
        gate, entered, go_on = GateModel(), asyncio.Event(), asyncio.Event()

        @tool(side_effect=True)
        async def pay(ctx: ToolContext) -> str:
            """Pay."""
            entered.set()
            await go_on.wait()
            done.append(f"paid, cancelled={ctx.cancelled}")
            return "paid"

        with open_kernel(tmp_path, gate, tools=[pay]) as kernel:
            runs = kernel.for_tenant()

            async def child(branch: Run) -> None:
                async with runs.run("child", parent=branch) as inner:
                    await ask(inner, "deep")

            async def paying(branch: Run) -> Any:
                return (await branch.step_tool("pay")).value

            async def code(run: Run) -> Any:
                return await run.gather(child, paying)

            work = asyncio.create_task(drive(runs, code))
            await gate.asked("deep")
            await entered.wait()
            cancelling = asyncio.create_task(runs.cancel("r", by="user:eve"))
            await has_status(runs, "cancelled", "child")
            go_on.set()
            await cancelling
            with pytest.raises(RunStopped):
                await work
            assert done == ["paid, cancelled=True"]
            for run_id in ("r", "child"):
                assert (await runs.show(run_id))["status"] == "cancelled"
            steps = {s["key"]: s["status"] for s in await runs.steps("r")}
            assert steps["1/1/1"] == "completed", "a side effect's outcome is recorded"
            with pytest.raises(Conflict):
                await runs.retry("r")

    play(scenario())


@pytest.mark.parametrize("ends", [RuntimeError("cleaning up"), None])
def test_a_cancelled_run_stays_cancelled_whatever_its_code_does(
    tmp_path: Path, ends: Exception | None
) -> None:
    async def scenario() -> None:
        gate = GateModel()
        with open_kernel(tmp_path, gate) as kernel:
            runs = kernel.for_tenant()

            async def code(run: Run) -> str:
                try:
                    return await ask(run, "a")
                except RunStopped:
                    if ends is not None:
                        raise ends from None
                    return "as if nothing had happened"

            work = asyncio.create_task(drive(runs, code))
            await gate.asked("a")
            await runs.cancel("r")
            with pytest.raises(type(ends) if ends is not None else RunStopped):
                await work
            assert (await runs.show("r"))["status"] == "cancelled"
            assert (await runs.show("r"))["result"] is None

    play(scenario())


def test_pausing_a_parent_pauses_its_children_and_resuming_it_resumes_them(tmp_path: Path) -> None:
    async def scenario() -> None:
        gate = GateModel()
        with open_kernel(tmp_path, gate) as kernel:
            runs = kernel.for_tenant()

            async def code(run: Run) -> Any:
                async with runs.run("child", parent=run) as child:
                    child.finish([await ask(child, "a"), await ask(child, "b")])
                return "done"

            work = asyncio.create_task(drive(runs, code))
            await gate.asked("a")
            await runs.pause("r")
            assert (await runs.show("child"))["status"] == "paused"
            gate.answer("a")
            await asyncio.sleep(0.05)
            assert len(gate.requests) == 1
            await runs.resume("r")
            gate.answer("b")
            assert await work == "completed"
            assert await result_of(runs, "child") == ["re: a", "re: b"]

    play(scenario())


def test_notes_reach_the_run_once_in_order_also_after_a_restart(tmp_path: Path) -> None:
    async def code(run: Run) -> Any:
        found = [await run.notes()]
        await run.approve("?")
        found.append(await run.notes())
        return [*found, await run.notes()]

    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code, on_wait="suspend") == "waiting_approval"
            for text in ("one", "two"):
                await runs.inject("r", text, by="user:eve")
            await runs.approve("r")
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, code) == "completed"
            assert await result_of(runs) == [[], ["one", "two"], []]
            assert await drive(runs, code) == "completed"

    play(scenario())


def test_notes_under_keys_are_those_of_the_record_whatever_comes_later(tmp_path: Path) -> None:
    """A call took more under `KEY-2`: of another call's key, and in the past of a run that was resumed."""

    async def scenario() -> None:
        here, is_first = asyncio.Event(), True

        async def code(run: Run) -> list[list[str]]:
            none = await run.notes(key="none")
            if is_first:
                await runs.inject("r", "one")
            await ask(run, f"after {none}", key="a")
            first = await run.notes(key="notes")
            await ask(run, f"after {first}", key="b")
            if is_first:
                here.set()
                await asyncio.sleep(60)
            return [none, first, await run.notes(key="notes-2")]

        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            driving = asyncio.ensure_future(drive(runs, code))
            await here.wait()
            driving.cancel()
            await asyncio.wait((driving,))
            is_first = False
            await runs.inject("r", "two")
            assert await drive(runs, code) == "completed"
            assert await result_of(runs) == [[], ["one"], ["two"]]
            assert (await runs.replay("r", code)).status == "completed"

    play(scenario())


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_note_given_after_an_interrupted_call_is_read_as_soon_as_it_can_be(
    tmp_path: Path, is_killed: bool
) -> None:
    """A call that was cut off is made anew, with the note. One whose process died is made as it is recorded:
    another could not be told from it by a replay."""

    async def loop(run: Run) -> Any:
        talk, said = run.conversation(), list[str]()
        for cycle in (1, 2):
            for note in await run.notes(key=f"c{cycle}/notes"):
                talk.append({"role": "user", "content": note})
            talk.append({"role": "user", "content": f"cycle {cycle}"})
            reply = await run.step_model(model="m", messages=talk, key=f"c{cycle}/model")
            talk.append(reply)
            said.append(str(len(talk)))
        return said

    async def scenario() -> None:
        gate, killed = GateModel(), tmp_path / "killed"
        with open_kernel(tmp_path, gate) as kernel:
            work = asyncio.create_task(drive(kernel.for_tenant(), loop))
            await gate.asked("cycle 1")
            shutil.copytree(tmp_path, killed)
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work
        model = echo()
        with open_kernel(killed if is_killed else tmp_path, model) as kernel:
            runs = kernel.for_tenant()
            await runs.inject("r", "hurry")
            assert await drive(runs, loop) == "completed"
            assert await result_of(runs) == (["2", "5"] if is_killed else ["3", "5"])
            said = [m.text for m in model.requests[-1].messages]
            assert said.index("hurry") == (2 if is_killed else 0)
            assert await drive(runs, loop) == "completed"

    play(scenario())


def test_commands_race_with_the_end_of_a_run_and_one_of_them_wins(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel, open_kernel(tmp_path) as other:
            runs, desk = kernel.for_tenant(), other.for_tenant()
            ends: list[str] = []
            for number in range(12):
                name = f"r{number}"

                async def code(run: Run) -> str:
                    await ask(run, "a")
                    return "done"

                work = asyncio.create_task(drive(runs, code, name))
                await until(lambda name=name: _exists(desk, name))
                told = asyncio.create_task((desk if number % 2 else runs).cancel(name))
                status: Any = "cancelled"
                try:
                    status = await work
                except RunStopped:
                    pass
                try:
                    await told
                    assert (await runs.show(name))["status"] == "cancelled"
                except Conflict as refused:
                    assert refused.facts["refusal"] == "run_ended"
                    assert status == (await runs.show(name))["status"] == "completed"
                ends.append(status)
            assert await kernel.store.query("SELECT count(*) FROM leases") == [(0,)]

    async def _exists(runs: Any, name: str) -> bool:
        return name in {item["id"] for item in (await runs.runs())["items"]}

    play(scenario())

"""A conversation goes on beside a turn that waits for a person, and hears later what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from artelier import AutonomousAgent, Kernel, ModelRequest, Policy, tool
from artelier.errors import Conflict
from artelier.testing import ScriptedModel, tool_call

paid: list[int] = []


@tool(side_effect=True, risk="high")
def refund(order: int) -> str:
    """Pay an order back."""
    paid.append(order)
    return f"paid back order {order}"


def clerk(request: ModelRequest) -> Any:
    """Refunds what the last user message asks for; else tells how many messages it was shown."""
    last = request.messages[-1]
    if last.role == "tool":
        return f"It is done: {last.text}"
    if last.text.startswith("refund "):
        return tool_call("refund", {"order": int(last.text.split()[1])})
    return f"re: {last.text}"


def said(request: ModelRequest) -> list[str]:
    return [message.text for message in request.messages if message.role != "system"]


def play(path: Path, code: Callable[[Kernel, ScriptedModel], Any]) -> None:
    paid.clear()
    model = ScriptedModel(clerk)

    async def scenario() -> None:
        policy = Policy(approve_risk="medium")
        with Kernel.open(path, models={"m": model}, tools=[refund], policy=policy) as kernel:
            await code(kernel, model)

    asyncio.run(scenario())


def test_a_customer_goes_on_talking_while_an_approval_waits(tmp_path: Path) -> None:
    async def code(kernel: Kernel, model: ScriptedModel) -> None:
        agent, desk = AutonomousAgent(kernel=kernel), kernel.for_tenant()
        chat = agent.chat("c", model="m", on_wait="return")
        assert (await chat.send("hello")).text == "re: hello"
        first = await chat.send("refund 7")
        assert (first.status, first.run_id) == ("waiting_approval", "c/000002")

        second = await chat.send("when do you open?")

        assert (second.status, second.text) == ("completed", "re: when do you open?")
        texts = said(model.requests[-1])
        assert texts[:3] == ["hello", "re: hello", "refund 7"]
        assert "refund" in texts[3] and '"order":7' in texts[3] and "waits" in texts[3]
        assert texts[4] == "when do you open?" and len(texts) == 5
        assert paid == []
        manifest = await desk.manifest(second.run_id, "c1/model")
        labels = {part.tag: part.trust for part in manifest.parts}
        assert labels["conversation"] == "untrusted"  # a call's arguments stand in it

        await desk.approve(first.run_id, by="eve")
        done = await chat.resume()
        assert (done.run_id, done.text) == (first.run_id, "It is done: paid back order 7")
        third = await chat.send("thanks")
        texts = said(model.requests[-1])
        assert "paid back order 7" in texts[-2] and texts[-1] == "thanks"
        fourth = await chat.send("bye")
        assert sum("paid back order 7" in text for text in said(model.requests[-1])) == 1
        assert paid == [7]
        for result in (first, second, third, fourth):
            replayed = await desk.replay(result.run_id, agent.drive)
            assert replayed.status == "completed"

    play(tmp_path / "s.db", code)


def test_several_turns_wait_and_each_is_told_once(tmp_path: Path) -> None:
    async def code(kernel: Kernel, model: ScriptedModel) -> None:
        agent, desk = AutonomousAgent(kernel=kernel), kernel.for_tenant()
        chat = agent.chat("c", model="m", on_wait="return")
        waiting = [await chat.send(f"refund {order}") for order in (1, 2)]
        assert [one.status for one in waiting] == ["waiting_approval"] * 2
        await desk.approve(waiting[1].run_id, by="eve")
        await desk.approve(waiting[0].run_id, deny=True, by="eve")
        assert (await chat.resume()).run_id == waiting[0].run_id
        assert (await chat.resume()).run_id == waiting[1].run_id
        assert paid == [2]

        await chat.send("what now?")

        texts = said(model.requests[-1])
        settled = [text for text in texts if "ended meanwhile" in text]
        assert len(settled) == 1 and "refund 1" in settled[0]  # the other is the turn just before
        assert any("It is done: paid back order 2" in text for text in texts)
        assert (await chat.resume()).text == "re: what now?"

    play(tmp_path / "s.db", code)


def test_a_chat_goes_on_beside_in_another_process(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def begin(kernel: Kernel, model: ScriptedModel) -> None:
        chat = AutonomousAgent(kernel=kernel).chat("c", model="m", on_wait="return")
        assert (await chat.send("refund 7")).status == "waiting_approval"

    async def go_on(kernel: Kernel, model: ScriptedModel) -> None:
        chat = AutonomousAgent(kernel=kernel).chat("c", model="m")
        assert (await chat.send("hello")).text == "re: hello"

    play(path, begin)
    play(path, go_on)


@pytest.mark.parametrize("verb", ["pause", "limit"])
def test_a_turn_that_the_person_could_bring_on_is_still_in_the_way(tmp_path: Path, verb: str) -> None:
    async def code(kernel: Kernel, model: ScriptedModel) -> None:
        agent, desk = AutonomousAgent(kernel=kernel), kernel.for_tenant()
        chat = agent.chat("c", model="m", on_wait="return")
        first = await chat.send("refund 7")
        if verb == "pause":
            await desk.pause(first.run_id)
        else:
            await desk.limit(first.run_id, unit="steps", cap=0)
            await desk.approve(first.run_id)
            assert (await chat.resume()).status == "budget_exhausted"
        with pytest.raises(Conflict, match="has not ended"):
            await chat.send("hello?")

    play(tmp_path / "s.db", code)
